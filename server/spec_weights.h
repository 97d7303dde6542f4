// The weights of a spec message on their way into a spec: by name, each taken once.
#ifndef PHASOR_SERVER_SPEC_WEIGHTS_H_
#define PHASOR_SERVER_SPEC_WEIGHTS_H_

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/encoding.pb.h"

#include "kernels/encodings/weight.h"

namespace phasor::server {

// Where the bytes of a weight's tensor are: beside the message (ParseContext), or in it.
class WeightReader {
 public:
  virtual ~WeightReader() = default;
  // A dense float tensor of 1 … 4 axes (or a scalar), at least one element. Errors are below `path`.
  virtual absl::StatusOr<WeightRef> Read(const v1::Tensor& tensor, std::string_view path) const = 0;
};

class SpecWeights {
 public:
  // `reader` may be null: then any weight is refused.
  SpecWeights(const v1::EncodingSpec& message, const WeightReader* reader) : message_(message), reader_(reader) {}

  // The weight called `name`, or an empty reference when the message has none. Errors stay here, see Finish; the reference
  // is empty then.
  WeightRef Take(std::string_view name);

  // The first error: of a weight that was taken, one given twice, or one that the scheme does not have.
  absl::Status Finish();

 private:
  const v1::EncodingSpec& message_;
  const WeightReader* reader_;
  std::vector<std::string> known_;
  absl::Status status_;
};

// Adds a weight as its name, type, shape and content's SHA-256, without the content; an empty reference adds nothing.
void WriteWeight(std::string_view name, const WeightRef& weight, v1::EncodingSpec* message);

// The path of a weight by its name, as Canonicalize gives it ("weights.table.tensor.shape"), with its place in the message
// instead ("weights[0].tensor.shape"), and so an element of it ("weights.table[3, 1]"); other paths as they are.
std::string WeightPath(const v1::EncodingSpec& message, const std::string& path);

// Weights of messages that were parsed as a whole, without a payload cutter (start-up files, tests).
class InlineWeightReader final : public WeightReader {
 public:
  absl::StatusOr<WeightRef> Read(const v1::Tensor& tensor, std::string_view path) const override;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SPEC_WEIGHTS_H_
