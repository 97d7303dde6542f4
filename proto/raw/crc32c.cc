#include "proto/raw/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>

namespace phasor::raw {

uint32_t Crc32c(std::span<const Piece> pieces) {
  constexpr size_t kMost = size_t{1} << 30;  // the library counts in int
  uint32_t crc = ~uint32_t{0};
  for (const Piece& piece : pieces) {
    for (size_t at = 0; at < piece.size; at += kMost) {
      // It takes a pointer to mutable bytes and does not write to them.
      auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(piece.data + at));
      crc = crc32_iscsi(bytes, static_cast<int>(std::min(kMost, piece.size - at)), crc);
    }
  }
  return ~crc;
}

}  // namespace phasor::raw
