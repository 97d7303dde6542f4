// Golden models as kernel-level specs: the expected entry's own fields, and the schedule's parameters from the configuration
// by a small table. (Reading configurations in full is the server's business and has its own tests.)
#ifndef PHASOR_TESTS_KERNELS_ENCODINGS_GOLDEN_SPECS_H_
#define PHASOR_TESTS_KERNELS_ENCODINGS_GOLDEN_SPECS_H_

#include <rapidjson/document.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/encodings/spec.h"

namespace phasor {

// One entry of `expect`, with the spec that it belongs to.
struct GoldenEntry {
  std::string name;  // "llama-3-1-8b/0"
  std::string kind;  // "rope", "mrope", "alibi", "sinusoidal"
  EncodingSpec spec;
  std::optional<int64_t> sequence_length;
  const rapidjson::Value* expect;  // lives as long as the GoldenModels that it came from
};

// Every entry of those kinds in a folder of golden models. Throws std::runtime_error when a file cannot be read.
class GoldenModels {
 public:
  explicit GoldenModels(const std::string& folder);
  const std::vector<GoldenEntry>& entries() const { return entries_; }

 private:
  std::vector<std::unique_ptr<rapidjson::Document>> documents_;
  std::vector<GoldenEntry> entries_;
};

}  // namespace phasor

#endif  // PHASOR_TESTS_KERNELS_ENCODINGS_GOLDEN_SPECS_H_
