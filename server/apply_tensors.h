// The tensors of an Apply item that have heads.
#ifndef PHASOR_SERVER_APPLY_TENSORS_H_
#define PHASOR_SERVER_APPLY_TENSORS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"

#include "server/item_parser.h"
#include "server/request.h"

namespace phasor::server {

// Where each axis of a layout stands in the shape. Packed layouts have no batch axis; T_HD has no axis of heads alone.
struct HeadAxes {
  std::string_view letters;
  size_t rank;
  int batch;  // −1: none
  size_t sequence;
  int heads;  // −1: part of the last axis
};
HeadAxes HeadAxesOf(v1::Layout layout);

// The tensors, which must agree on batch and sequence; sets item->tensors and payload_bytes.
absl::Status ParseRotatedTensors(const v1::ApplyItem& message, const HeadAxes& axes, int64_t head_dim,
                                 const ParseContext& context, ApplyItem* item);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_APPLY_TENSORS_H_
