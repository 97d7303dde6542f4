#include "server/rotate_key.h"

#include <cstdint>
#include <utility>

#include "kernels/core/key_bytes.h"
#include "server/fingerprint.h"

namespace phasor::server {
std::string KeyOf(const RotateWork& work) {
  KeyBytes key;
  key.Text("rotate");
  for (const int64_t value : {static_cast<int64_t>(work.kind), static_cast<int64_t>(work.pairing), work.first_channel,
                              work.pairs, int64_t{work.negate}, int64_t{work.divide}, int64_t{work.per_batch},
                              int64_t{work.scale.has_value()}, int64_t{work.xpos.has_value()}}) {
    key.Int(value);
  }
  if (work.scale) {
    key.Int(static_cast<int64_t>(work.scale->rule));
    key.Double(work.scale->constant);
    key.Double(work.scale->coefficient);
    for (const int64_t value : {work.scale->training_length, work.scale->period, work.scale->shift}) key.Int(value);
  }
  if (work.xpos) {
    key.Double(work.xpos->scale_base);
    key.Int(work.xpos->center);
  }
  AppendContent(work.cos, key);
  AppendContent(work.sin, key);
  AppendContent(work.delta, key);
  for (const RotateWork::Rotated& tensor : work.tensors) key.Int(tensor.is_query);
  key.Int(work.positions.count);
  for (int64_t axis = 0; axis < work.positions.axes(); ++axis) {
    KeyBytes ids;
    const PositionSource source = work.positions.Source(axis);
    for (int64_t row = 0; row < work.positions.count; ++row) ids.Double(CoordinateOf(source, row).value);
    key.Text(Sha256(std::move(ids).Take()));
  }
  return std::move(key).Take();
}

}  // namespace phasor::server
