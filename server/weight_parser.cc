#include "server/weight_parser.h"

#include <array>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"

#include "server/fingerprint.h"
#include "server/grpc_status.h"
#include "server/tensor_parser.h"

namespace phasor::server {
namespace {

constexpr std::array kWeightTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

std::string At(std::string_view path, std::string_view field) { return std::string(path).append(".").append(field); }

}  // namespace

absl::StatusOr<WeightRef> ParseWeight(const v1::Tensor& tensor, std::string_view path, const ParseContext& context) {
  ParseContext in_place = context;
  in_place.uploaded_bytes = nullptr;  // nothing is made of uploaded weights
  absl::StatusOr<ParsedTensor> parsed = ParseTensor(tensor, path, kWeightTypes, Storage::kRequired, in_place);
  if (!parsed.ok()) return parsed.status();
  if (!parsed->dense) return InvalidField(At(path, "strides"), "strides", "none: weights are dense");
  if (parsed->elements == 0) return InvalidField(At(path, "shape"), "no elements", "at least one element");
  if (!parsed->uploaded.empty()) {
    auto weight = std::make_shared<Weight>();
    weight->dtype = parsed->dtype;
    weight->shape = std::move(parsed->shape);
    weight->digest = std::move(parsed->uploaded);
    weight->data = std::shared_ptr<const std::byte>(parsed->stored_piece->owner, parsed->stored_piece->data);
    return WeightRef(std::move(weight));
  }
  const std::shared_ptr<std::byte[]> bytes(new std::byte[static_cast<size_t>(parsed->bytes)]);
  size_t at = 0;
  for (const raw::Piece& piece : parsed->pieces) {
    std::memcpy(bytes.get() + at, piece.data, piece.size);
    at += piece.size;
  }
  auto weight = std::make_shared<Weight>();
  weight->dtype = parsed->dtype;
  weight->shape = std::move(parsed->shape);
  weight->digest = Sha256(std::string_view(reinterpret_cast<const char*>(bytes.get()), at));
  weight->data = std::shared_ptr<const std::byte>(bytes, bytes.get());
  return WeightRef(std::move(weight));
}

}  // namespace phasor::server
