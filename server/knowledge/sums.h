// The largest of many numbers and the root of their mean square.
#ifndef PHASOR_SERVER_KNOWLEDGE_SUMS_H_
#define PHASOR_SERVER_KNOWLEDGE_SUMS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace phasor::server {

struct Sums {
  double max = 0, squares = 0;
  double large = 0, small = 0;  // squares of 2^−600 and 2^600 times those whose own square would be infinite or 0
  int64_t count = 0;

  void Add(double number) {
    const double size = std::abs(number);
    max = std::max(max, size);
    if (size > 1e150) {
      large += (size * 0x1p-600) * (size * 0x1p-600);
    } else if (size < 1e-150) {
      small += (size * 0x1p600) * (size * 0x1p600);
    } else {
      squares += size * size;
    }
    ++count;
  }
  void Add(const Sums& other) {
    max = std::max(max, other.max);
    squares += other.squares;
    large += other.large;
    small += other.small;
    count += other.count;
  }
  double rms() const {
    if (count == 0) return 0;
    const auto n = static_cast<double>(count);
    if (large > 0) return std::sqrt(large / n) * 0x1p600;
    return squares == 0 ? std::sqrt(small / n) * 0x1p-600 : std::sqrt(squares / n);
  }
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SUMS_H_
