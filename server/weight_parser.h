// Weights of a request: gathered once, hashed, shared.
#ifndef PHASOR_SERVER_WEIGHT_PARSER_H_
#define PHASOR_SERVER_WEIGHT_PARSER_H_

#include <string_view>

#include "absl/status/statusor.h"
#include "phasor/v1/tensor.pb.h"

#include "kernels/encodings/weight.h"
#include "server/item_parser.h"
#include "server/spec_weights.h"

namespace phasor::server {

// A dense float tensor with at least one element; its storage must be there, also under validate_only. Costs a copy and a
// SHA-256 of the payload; uploaded content is neither copied nor hashed. Errors are below `path`.
absl::StatusOr<WeightRef> ParseWeight(const v1::Tensor& tensor, std::string_view path, const ParseContext& context);

// Reads the weights of a request.
class RequestWeightReader final : public WeightReader {
 public:
  explicit RequestWeightReader(const ParseContext& context) : context_(context) {}
  absl::StatusOr<WeightRef> Read(const v1::Tensor& tensor, std::string_view path) const override {
    absl::StatusOr<WeightRef> weight = ParseWeight(tensor, path, context_);
    if (weight.ok()) bytes_ += (*weight)->bytes();
    return weight;
  }
  // Of all weights that were read.
  int64_t bytes() const { return bytes_; }

 private:
  mutable int64_t bytes_ = 0;
  const ParseContext& context_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_WEIGHT_PARSER_H_
