// Streams of Precompute as data: items cut into pieces that the engine serves one by one, and gathered again by their
// offsets.
#ifndef PHASOR_SERVER_STREAM_PIECES_H_
#define PHASOR_SERVER_STREAM_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

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

// Requests that it makes are pieces of one admitted call (Validated::stream_bytes). Const functions are thread-safe.
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

  // A request for what the item's pieces share (Work::Preparation), where there is that: Keep its result before At is asked.
  std::optional<ValidatedPrecompute> Preparation(size_t item) const;
  void Keep(size_t item, const PrecomputeResult& prepared) { prepared_[item] = prepared.bias->data.front(); }
  // Pieces of the item that are on their way keep what they need.
  void Forget(size_t item) { prepared_.erase(item); }

  // A request whose arrays are bytes [begin, end) of those of the item.
  struct Piece {
    ValidatedPrecompute request;
    int64_t begin = 0;
    int64_t end = 0;
    int64_t bytes = 0;  // of memory while it is there
  };
  // The piece that holds byte `offset` of each array, 0 ≤ offset < array_bytes; it begins there where a row does. Where only
  // the whole item can be made, that is it.
  Piece At(size_t item, const StreamExtent& extent, int64_t offset) const;

  // Memory of the stream beside its request, where as many pieces are made and not sent as take `window_bytes`, or one.
  int64_t MemoryOf(int64_t window_bytes) const;

 private:
  const PrecomputeItem& item(size_t i) const { return *request_.items()[i]; }
  ValidatedPrecompute RequestFor(PrecomputeItem item, bool validate_only = false) const;
  // Everything but the window.
  PrecomputeItem CopyOf(size_t item) const;
  PrecomputeItem TableRows(size_t item, int64_t first, int64_t count) const;
  Piece RowsAt(size_t item, const StreamExtent& extent, int64_t offset, int64_t outer) const;
  Piece BiasAt(size_t item, const StreamExtent& extent, int64_t offset) const;
  Piece WorkAt(size_t item, const StreamExtent& extent, int64_t offset) const;

  ValidatedPrecompute request_;
  const int64_t chunk_bytes_;
  const int64_t cache_bytes_;
  int64_t stream_bytes_ = 1;
  std::map<size_t, Bytes> prepared_;  // by item
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_STREAM_PIECES_H_
