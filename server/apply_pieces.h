// Streams of Apply as data: which part of an item a chunk of a tensor's bytes is.
#ifndef PHASOR_SERVER_APPLY_PIECES_H_
#define PHASOR_SERVER_APPLY_PIECES_H_

#include <cstddef>
#include <cstdint>

#include "server/request.h"

namespace phasor::server {

// A plain rotation of dense tensors, of which chunks are worked on alone. Immutable and so thread-safe. Requests that it
// makes are pieces of one admitted call (Validated::stream_bytes).
class ApplyPieces {
 public:
  // Whether chunks of the item can be worked on alone: no work, one range of positions for all batch rows (ids would be held
  // for as long as the tensors are coming in), and tensors without strides.
  static bool Can(const ApplyItem& item);

  // `item`: one that can; its tensors have no payload. `stream_bytes` > 0: as in Validated.
  ApplyPieces(ApplyItem item, int64_t stream_bytes);

  // The whole item, described only.
  ValidatedApply Header() const;

  size_t tensors() const { return item_.tensors.size(); }
  int64_t bytes(size_t tensor) const { return item_.tensors[tensor].bytes; }
  // A chunk begins and ends at multiples of this.
  int64_t row_bytes(size_t tensor) const;

  // The work on bytes [offset, offset + size of `payload`) of a tensor: items of one tensor each, whose results in a row are
  // the chunk's. Bounds are multiples of row_bytes within the tensor.
  ValidatedApply At(size_t tensor, int64_t offset, const Chunks& payload) const;

 private:
  ApplyItem item_;
  const int64_t stream_bytes_;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_APPLY_PIECES_H_
