// From the head of a .gguf file to specs: the same answer as ReadModelConfig gives for the model's config.json, as far as
// the file says as much. Knows GGUF keys, not the wire.
#ifndef PHASOR_SERVER_RESOLVE_GGUF_MODEL_H_
#define PHASOR_SERVER_RESOLVE_GGUF_MODEL_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "server/resolve/gguf_head.h"
#include "server/resolve/model_config.h"

namespace phasor::server {

// The data of one tensor of the file.
struct GgufTensor {
  std::string_view name;
  std::vector<float> values;
};

// Whether positions depend on the data of the tensor with that name: rope_freqs, rope_factors_long, rope_factors_short, for
// the whole model or for one layer.
bool GgufDecidesPositions(std::string_view tensor);

// The head without what positions do not depend on: the tokenizer, and tensors other than position tables and those of
// GgufDecidesPositions. A few kilobytes, where the head in the file may be many megabytes.
std::string CompactGgufHead(const GgufHead& head);

// Reads the head of a file (anything after it is ignored) and the data of every tensor that it lists and
// GgufDecidesPositions names; data of tensors that it does not list, or of one twice, is an error. No allocation beyond a
// small multiple of the sizes given. Notes' fields are keys of the file. Errors: INVALID_ARGUMENT with a SpecError payload;
// field: a key, a tensor's name, or "header". Thread-safe.
absl::StatusOr<ModelEncoding> ReadGguf(std::string_view head, std::span<const GgufTensor> tensors);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_GGUF_MODEL_H_
