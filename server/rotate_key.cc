#include "server/rotate_key.h"

#include <cstdint>
#include <utility>

#include "kernels/core/key_bytes.h"
#include "server/fingerprint.h"

namespace phasor::server {
std::string KeyOf(const RotateWork& work) {
  const RotationRule& rule = work.rotation.rule;
  KeyBytes key;
  key.Text("rotate");
  for (const int64_t value : {static_cast<int64_t>(rule.kind), static_cast<int64_t>(rule.pairing), rule.first_channel,
                              rule.pairs, int64_t{rule.negate}, int64_t{rule.divide}, int64_t{work.rotation.per_batch},
                              int64_t{rule.scale.has_value()}, int64_t{rule.xpos.has_value()}}) {
    key.Int(value);
  }
  if (rule.scale) {
    key.Int(static_cast<int64_t>(rule.scale->rule));
    key.Double(rule.scale->constant);
    key.Double(rule.scale->coefficient);
    for (const int64_t value : {rule.scale->training_length, rule.scale->period, rule.scale->shift}) key.Int(value);
  }
  if (rule.xpos) {
    key.Double(rule.xpos->scale_base);
    key.Int(rule.xpos->center);
  }
  AppendContent(rule.cos, key);
  AppendContent(rule.sin, key);
  AppendContent(rule.delta, key);
  for (const RotatedTensor& tensor : work.rotation.tensors) key.Int(tensor.is_query);
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
