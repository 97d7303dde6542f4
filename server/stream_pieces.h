// Streams of Precompute as data: items cut into pieces that the engine serves one by one, and gathered again by their
// offsets.
#ifndef PHASOR_SERVER_STREAM_PIECES_H_
#define PHASOR_SERVER_STREAM_PIECES_H_

#include <cstddef>
#include <cstdint>

#include "server/engine.h"
#include "server/request.h"

namespace phasor::server {

// The arrays of a described result but inv_freq, which all have the same shape.
struct StreamExtent {
  int64_t arrays = 0;
  int64_t rows = 0;       // over all axes but the last
  int64_t row_bytes = 0;  // of one array
  int64_t array_bytes() const { return rows * row_bytes; }
};
StreamExtent ExtentOf(const PrecomputeResult& described);

// Bytes [from, from + size) of `chunks`, without copying them.
Chunks SubChunks(const Chunks& chunks, int64_t from, int64_t size);

// Immutable and so thread-safe. Requests that it makes are pieces of one admitted call (Validated::stream_bytes).
class StreamPieces {
 public:
  // Pieces take about `chunk_bytes` in all arrays together. Items of more than half of `cache_bytes` build no tiles.
  StreamPieces(ValidatedPrecompute request, int64_t chunk_bytes, int64_t cache_bytes);

  size_t items() const { return request_.items().size(); }
  // The whole item, described only.
  ValidatedPrecompute Header(size_t item) const;
  // Whether the item asks for inv_freq, and a request for that alone.
  bool HasFrequencies(size_t item) const;
  ValidatedPrecompute Frequencies(size_t item) const;

  // A request whose arrays are bytes [begin, end) of those of the item.
  struct Piece {
    ValidatedPrecompute request;
    int64_t begin = 0;
    int64_t end = 0;
  };
  // The piece that holds byte `offset` of each array, 0 ≤ offset < array_bytes; it begins there where a row does. Where only
  // the whole item can be made, that is it.
  Piece At(size_t item, const StreamExtent& extent, int64_t offset) const;

 private:
  const PrecomputeItem& item(size_t i) const { return *request_.items()[i]; }
  ValidatedPrecompute RequestFor(PrecomputeItem item, bool validate_only = false) const;
  // Everything but the window.
  PrecomputeItem CopyOf(size_t item) const;
  PrecomputeItem TableRows(size_t item, int64_t first, int64_t count) const;
  Piece RowsAt(size_t item, const StreamExtent& extent, int64_t offset, int64_t outer) const;
  Piece BiasAt(size_t item, const StreamExtent& extent, int64_t offset) const;

  ValidatedPrecompute request_;
  const int64_t chunk_bytes_;
  const int64_t cache_bytes_;
  int64_t stream_bytes_ = 1;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_STREAM_PIECES_H_
