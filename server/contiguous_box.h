// Parts of a dense array of three axes that are contiguous in memory.
#ifndef PHASOR_SERVER_CONTIGUOUS_BOX_H_
#define PHASOR_SERVER_CONTIGUOUS_BOX_H_

#include <algorithm>
#include <array>
#include <cstdint>

namespace phasor::server {

// Some of the outermost axis with all within, or some of the second of one of the first, or some of the third of one of
// both.
struct ContiguousBox {
  std::array<int64_t, 3> first = {0, 0, 0};
  std::array<int64_t, 3> count = {1, 1, 1};
  int64_t size() const { return count[0] * count[1] * count[2]; }
};

// The largest of at most `most` ≥ 1 elements that begins at element `at` < the product of `extents`, all ≥ 1.
inline ContiguousBox BoxAt(const std::array<int64_t, 3>& extents, int64_t at, int64_t most) {
  const int64_t inner = extents[1] * extents[2];
  ContiguousBox box;
  box.first = {at / inner, at / extents[2] % extents[1], at % extents[2]};
  box.count[2] = extents[2];
  if (box.first[2] != 0 || extents[2] > most) {
    box.count[2] = std::min(extents[2] - box.first[2], most);
  } else if (box.first[1] != 0 || inner > most) {
    box.count[1] = std::min(extents[1] - box.first[1], most / extents[2]);
  } else {
    box.count[1] = extents[1];
    box.count[0] = std::min(extents[0] - box.first[0], most / inner);
  }
  return box;
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_CONTIGUOUS_BOX_H_
