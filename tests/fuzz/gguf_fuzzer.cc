// The reader of GGUF files on any bytes: what it refuses is told in full, and rewriting a head changes no answer. Input: a
// file's head; the data of its tensors of factors are ones.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "server/resolve/gguf_model.h"

namespace phasor::server {
namespace {

void Require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", what);
  std::abort();
}

void CheckError(const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  Require(status.code() == absl::StatusCode::kInvalidArgument && error.has_value(), "only the file is to blame");
  Require(!error->field.empty() && error->field.size() < 512 && !error->allowed.empty(), "the error names something");
}

void Check(std::string_view bytes) {
  const auto head = ParseGgufHead(bytes);
  if (!head.ok()) return CheckError(head.status());
  Require(head->size <= bytes.size() && head->data_offset >= head->size, "the head lies inside the bytes");
  Require(head->entries.size() * 14 <= bytes.size() && head->tensors.size() * 21 <= bytes.size(), "counts fit the bytes");
  std::vector<GgufTensor> tensors;
  for (const GgufTensorInfo& info : head->tensors) {
    Require(head->FindTensor(info.name) == &info, "tensors are found");
    if (GgufDecidesPositions(info.name) && info.elements <= 65536 && tensors.size() < 16) {
      tensors.push_back({info.name, std::vector<float>(info.elements, 1)});
    }
  }
  const auto model = ReadGguf(bytes, tensors);
  const std::string compact = CompactGgufHead(*head);
  const auto again = ReadGguf(compact, tensors);
  Require(model.ok() == again.ok(), "a compact head gives the same answer");
  if (!model.ok()) return CheckError(model.status());
  Require(model->layers.size() == again->layers.size(), "a compact head gives as many layer types");
  for (size_t i = 0; i < model->layers.size(); ++i) {
    const LayerEncoding& layer = model->layers[i];
    Require(layer.spec.has_value() == again->layers[i].spec.has_value(), "a compact head gives the same kinds");
    Require(!layer.spec || layer.spec->spec == again->layers[i].spec->spec, "a compact head gives the same specs");
  }
}

}  // namespace
}  // namespace phasor::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  phasor::server::Check({reinterpret_cast<const char*>(data), size});
  return 0;
}
