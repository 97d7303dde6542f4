#include "server/stream_pieces.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "server/contiguous_box.h"
#include "server/describe.h"

namespace phasor::server {
StreamExtent ExtentOf(const PrecomputeResult& described) {
  StreamExtent extent;
  for (const std::optional<Array>* array : {&described.cos, &described.sin, &described.table, &described.bias}) {
    if (!*array) continue;
    ++extent.arrays;
    const std::vector<int64_t>& shape = (*array)->shape;
    extent.rows = 1;
    for (size_t axis = 0; axis + 1 < shape.size(); ++axis) extent.rows *= shape[axis];
    extent.row_bytes = (shape.empty() ? 1 : shape.back()) * SizeOf((*array)->dtype);
  }
  return extent;
}

Chunks SubChunks(const Chunks& chunks, int64_t from, int64_t size) {
  Chunks part;
  for (const Bytes& piece : chunks) {
    const int64_t begin = std::max<int64_t>(from, 0);
    const int64_t end = std::min(from + size, piece.size);
    if (begin < end) part.push_back({piece.owner, piece.data + begin, end - begin});
    from -= piece.size;
  }
  return part;
}

StreamPieces::StreamPieces(ValidatedPrecompute request, int64_t chunk_bytes, int64_t cache_bytes)
    : request_(std::move(request)), chunk_bytes_(chunk_bytes), cache_bytes_(cache_bytes) {
  for (const auto& item : request_.items()) stream_bytes_ += item.ok() ? item->payload_bytes : 0;
}

ValidatedPrecompute StreamPieces::RequestFor(PrecomputeItem item, bool validate_only) const {
  ValidatedPrecompute request;
  request.items_.push_back(std::move(item));
  request.validate_only_ = validate_only;
  request.stream_bytes_ = stream_bytes_;
  return request;
}

ValidatedPrecompute StreamPieces::Header(size_t i) const {
  ValidatedPrecompute request;
  request.items_.push_back(request_.items()[i]);
  request.validate_only_ = true;
  request.stream_bytes_ = stream_bytes_;
  return request;
}

bool StreamPieces::HasFrequencies(size_t i) const {
  if (const std::shared_ptr<const Work>& work = item(i).work) {
    return std::any_of(work->outputs.begin(), work->outputs.end(),
                       [](const WorkArray& array) { return array.slot == Slot::kInvFreq; });
  }
  const auto* table = std::get_if<TableRequest>(&item(i).window);
  return table != nullptr && table->include_inv_freq;
}

ValidatedPrecompute StreamPieces::Frequencies(size_t i) const { return RequestFor(TableRows(i, 0, 0)); }

PrecomputeItem StreamPieces::CopyOf(size_t i) const {
  PrecomputeItem copy;
  copy.source = item(i).source;
  copy.dtype = item(i).dtype;
  copy.once = item(i).payload_bytes > cache_bytes_ / 2;
  return copy;
}

PrecomputeItem StreamPieces::TableRows(size_t i, int64_t first, int64_t count) const {
  PrecomputeItem rows = CopyOf(i);
  if (item(i).work != nullptr) {
    rows.work = item(i).work->Rows(first, count);
    return rows;
  }
  const auto& whole = std::get<TableRequest>(item(i).window);
  TableRequest table;
  table.positions = whole.positions.Rows(first, count);
  table.form = whole.form;
  table.inverse = whole.inverse;
  table.include_inv_freq = count == 0 && whole.include_inv_freq;
  rows.window = std::move(table);
  return rows;
}

StreamPieces::Piece StreamPieces::RowsAt(size_t i, const StreamExtent& extent, int64_t offset, int64_t outer) const {
  const int64_t outer_bytes = extent.array_bytes() / outer;
  const int64_t first = offset / outer_bytes;
  const int64_t most = std::max<int64_t>(1, chunk_bytes_ / (extent.arrays * outer_bytes));
  const int64_t count = std::min(outer - first, most);
  PrecomputeItem rows = TableRows(i, first, count);
  rows.payload_bytes = count * outer_bytes * extent.arrays;
  const int64_t bytes = rows.payload_bytes;
  return {RequestFor(std::move(rows)), first * outer_bytes, (first + count) * outer_bytes, bytes};
}

StreamPieces::Piece StreamPieces::WorkAt(size_t i, const StreamExtent& extent, int64_t offset) const {
  const int64_t row = offset / extent.row_bytes;
  const auto prepared = prepared_.find(i);
  WorkPiece piece = item(i).work->PieceAt(row, std::max<int64_t>(1, chunk_bytes_ / extent.row_bytes),
                                          prepared == prepared_.end() ? Bytes() : prepared->second);
  PrecomputeItem rows = CopyOf(i);
  rows.payload_bytes = piece.rows * extent.row_bytes;
  rows.work = std::move(piece.work);
  const int64_t begin = row * extent.row_bytes, end = begin + rows.payload_bytes, bytes = rows.work->run_bytes();
  return {RequestFor(std::move(rows)), begin, end, bytes};
}

StreamPieces::Piece StreamPieces::BiasAt(size_t i, const StreamExtent& extent, int64_t offset) const {
  const auto& whole = std::get<BiasRequest>(item(i).window);
  const int64_t size = SizeOf(item(i).dtype);
  const bool full = whole.form == BiasForm::kFull;
  const BiasShape shape = ShapeOfBias(whole);
  const int64_t queries = full ? whole.queries : 1;
  const int64_t keys = full ? whole.keys : shape.count;
  // Some heads, or some queries of one head, or some keys of one query.
  const ContiguousBox box = BoxAt({whole.heads, queries, keys}, offset / size, chunk_bytes_ / size);
  BiasRequest part;
  part.form = full ? BiasForm::kFull : BiasForm::kVector;
  part.first_head = whole.first_head + box.first[0];
  part.heads = box.count[0];
  part.queries = box.count[1];
  part.keys = box.count[2];
  // Key k is key first[2] + k of the whole; entry d of a vector is the bias of one query at the distance first + d.
  part.query_offset = full ? whole.query_offset + box.first[1] - box.first[2] : -(shape.first + box.first[2]);
  PrecomputeItem bias = CopyOf(i);
  bias.once = whole.heads * shape.count * size > cache_bytes_ / 2;
  bias.window = part;
  bias.payload_bytes = box.size() * size;
  const int64_t begin = ((box.first[0] * queries + box.first[1]) * keys + box.first[2]) * size;
  const int64_t bytes = bias.payload_bytes;
  return {RequestFor(std::move(bias)), begin, begin + bytes, bytes};
}

StreamPieces::Piece StreamPieces::At(size_t i, const StreamExtent& extent, int64_t offset) const {
  const PrecomputeItem& whole = item(i);
  const Cut cut = whole.whole ? Cut::kNone : whole.work != nullptr ? whole.work->cut() : Cut::kFirstAxis;
  if (whole.work != nullptr && cut == Cut::kRows) return WorkAt(i, extent, offset);
  if (whole.work != nullptr && cut == Cut::kNone) {
    PrecomputeItem all = CopyOf(i);
    all.work = whole.work;
    all.payload_bytes = whole.payload_bytes;
    return {RequestFor(std::move(all)), 0, extent.array_bytes(), whole.work->run_bytes()};
  }
  if (whole.work != nullptr) return RowsAt(i, extent, offset, whole.work->outputs.front().shape.front());
  if (const auto* table = std::get_if<TableRequest>(&whole.window)) {
    return RowsAt(i, extent, offset, table->positions.count);
  }
  return BiasAt(i, extent, offset);
}

std::optional<ValidatedPrecompute> StreamPieces::Preparation(size_t i) const {
  if (item(i).work == nullptr || item(i).whole) return std::nullopt;
  PrecomputeItem shared = CopyOf(i);
  shared.work = item(i).work->Preparation();
  if (shared.work == nullptr) return std::nullopt;
  shared.payload_bytes = shared.work->output_bytes();
  return RequestFor(std::move(shared));
}

int64_t StreamPieces::MemoryOf(int64_t window_bytes) const {
  int64_t most = window_bytes;
  for (const auto& item : request_.items()) {
    if (!item.ok() || item->work == nullptr) continue;
    const Work& work = *item->work;
    if (item->whole || work.cut() == Cut::kNone) {
      most = std::max(most, window_bytes + work.run_bytes());
      continue;
    }
    const std::shared_ptr<const Work> shared = work.Preparation();
    most = std::max(most, std::max(window_bytes, work.PieceBytes(chunk_bytes_)) + (shared ? shared->run_bytes() : 0));
  }
  return most;
}

}  // namespace phasor::server
