// Reads wire primitives from a list of slices as if they were one run of bytes.
#ifndef PHASOR_PROTO_RAW_SLICE_CURSOR_H_
#define PHASOR_PROTO_RAW_SLICE_CURSOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "grpcpp/support/slice.h"

#include "proto/raw/payloads.h"

namespace phasor::raw {

using Slices = std::vector<grpc::Slice>;

// Every reader takes `end`, the position that it must not pass, and returns false when it would, or when the bytes are not
// what the generated parser (protobuf 3.21) accepts; the cursor is then of no further use. No byte of a payload is read.
class SliceCursor {
 public:
  explicit SliceCursor(std::shared_ptr<const Slices> slices);

  size_t position() const { return position_; }
  size_t size() const { return size_; }

  // A tag: up to 5 bytes, of which 32 bits count.
  bool ReadTag(size_t end, uint32_t* tag);
  // A length: up to 5 bytes, below 2 GiB, and that many bytes are left before `end`.
  bool ReadLength(size_t end, size_t* length);
  // A varint of up to 10 bytes, appended as it is.
  bool CopyVarint(size_t end, std::string* out);
  // The next `n` bytes, appended as they are.
  bool CopyBytes(size_t n, size_t end, std::string* out);
  // The next `n` bytes, as pieces that keep the slices alive.
  bool TakePieces(size_t n, size_t end, Payloads* out);

 private:
  bool ReadByte(size_t end, uint8_t* byte);
  // Calls f(data, size) for every stretch of the next `n` bytes; n must be at most what is left.
  template <typename F>
  void ForEachStretch(size_t n, F f);

  std::shared_ptr<const Slices> slices_;
  size_t size_ = 0;
  size_t position_ = 0;
  size_t index_ = 0;   // slice that holds the next byte
  size_t offset_ = 0;  // its place there
};

}  // namespace phasor::raw

#endif  // PHASOR_PROTO_RAW_SLICE_CURSOR_H_
