// Bytes that somebody keeps alive: the currency between cache, engine and response writer. Nothing is copied to pass them
// on.
#ifndef PHASOR_SERVER_BYTES_H_
#define PHASOR_SERVER_BYTES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace phasor::server {

// `size` bytes at `data`, valid while `owner` lives. The owner is a tile of the table cache or a pooled buffer; dropping the
// last reference returns its memory (and its charge against the in-flight budget).
struct Bytes {
  std::shared_ptr<const void> owner;
  const std::byte* data = nullptr;
  int64_t size = 0;
};

// A payload as consecutive pieces (the sub-slices of several tiles, say).
using Chunks = std::vector<Bytes>;

inline int64_t TotalSize(const Chunks& chunks) {
  int64_t total = 0;
  for (const Bytes& piece : chunks) total += piece.size;
  return total;
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_BYTES_H_
