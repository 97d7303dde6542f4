#include "server/rotate_key.h"

#include <bit>
#include <cstdint>
#include <string_view>
#include <utility>

#include "server/fingerprint.h"

namespace phasor::server {
namespace {

// Canonical bytes, for the fingerprint.
class KeyBytes {
 public:
  void Int(int64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>(static_cast<uint64_t>(value) >> shift));
  }
  void Double(double value) { Int(std::bit_cast<int64_t>(value)); }
  void Text(std::string_view text) {
    Int(static_cast<int64_t>(text.size()));
    bytes_.append(text);
  }
  void Of(const WeightRef& weight) {
    Int(weight ? static_cast<int64_t>(weight->dtype) : -1);
    if (weight) Text(weight->digest);
  }
  std::string Take() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

}  // namespace

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
  key.Of(work.cos);
  key.Of(work.sin);
  key.Of(work.delta);
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
