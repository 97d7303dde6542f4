#include "client/cli/wire_data.h"

#include <memory>
#include <span>
#include <string>
#include <utility>

namespace phasor::cli {
namespace {

void MoveTensor(v1::Tensor& tensor, raw::Payloads& payloads) {
  if (!tensor.has_data()) return;
  const auto data = std::make_shared<const std::string>(std::move(*tensor.mutable_data()));
  const raw::Piece piece{data, reinterpret_cast<const std::byte*>(data->data()), data->size()};
  tensor.set_data(payloads.Add(std::span<const raw::Piece>(&piece, data->empty() ? 0 : 1)));
}

}  // namespace

void MoveData(v1::EncodingSpec& spec, raw::Payloads& payloads) {
  for (v1::Weight& weight : *spec.mutable_weights()) MoveTensor(*weight.mutable_tensor(), payloads);
}

void MoveData(v1::Positions& positions, raw::Payloads& payloads) {
  if (positions.has_ids()) MoveTensor(*positions.mutable_ids(), payloads);
  if (!positions.has_multi_axis()) return;
  for (v1::Tensor& axis : *positions.mutable_multi_axis()->mutable_axes()) MoveTensor(axis, payloads);
}

v1::EncodingSpec WithoutData(v1::EncodingSpec spec) {
  for (v1::Weight& weight : *spec.mutable_weights()) weight.mutable_tensor()->clear_storage();
  return spec;
}

}  // namespace phasor::cli
