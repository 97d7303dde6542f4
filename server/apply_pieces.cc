#include "server/apply_pieces.h"

#include <algorithm>
#include <array>
#include <utility>

#include "server/contiguous_box.h"
#include "server/stream_pieces.h"

namespace phasor::server {
namespace {

enum Axis : size_t { kBatch, kSequence, kHeads };

// The axes of a dense tensor from the outermost to the innermost, rows of head_dim not counted.
std::array<Axis, 3> OrderOf(const TensorInput& tensor) {
  std::array<Axis, 3> order = {kBatch, kSequence, kHeads};
  const std::array<int64_t, 3> strides = {tensor.batch_stride, tensor.sequence_stride, tensor.head_stride};
  const std::array<int64_t, 3> extents = {tensor.batch, tensor.sequence, tensor.heads};
  // An axis of one entry may stand anywhere; by its stride it would hide behind another of the same.
  std::stable_sort(order.begin(), order.end(), [&](Axis a, Axis b) {
    if (extents[a] == 1 || extents[b] == 1) return extents[a] == 1 && extents[b] != 1;
    return strides[a] > strides[b];
  });
  return order;
}

}  // namespace

bool ApplyPieces::Can(const ApplyItem& item) {
  return item.work == nullptr && !item.per_batch && item.positions.ids.empty() &&
         std::all_of(item.tensors.begin(), item.tensors.end(),
                     [](const TensorInput& tensor) { return tensor.strides.empty(); });
}

ApplyPieces::ApplyPieces(ApplyItem item, int64_t stream_bytes) : item_(std::move(item)), stream_bytes_(stream_bytes) {}

ValidatedApply ApplyPieces::Header() const {
  ValidatedApply request;
  request.items_.push_back(item_);
  request.validate_only_ = true;
  request.stream_bytes_ = stream_bytes_;
  return request;
}

int64_t ApplyPieces::row_bytes(size_t tensor) const {
  return item_.tensors[tensor].head_dim * SizeOf(item_.tensors[tensor].dtype);
}

ValidatedApply ApplyPieces::At(size_t tensor, int64_t offset, const Chunks& payload) const {
  const TensorInput& whole = item_.tensors[tensor];
  const int64_t row = row_bytes(tensor), rows = TotalSize(payload) / row;
  const std::array<Axis, 3> order = OrderOf(whole);
  const std::array<int64_t, 3> extents = {whole.batch, whole.sequence, whole.heads};
  ValidatedApply request;
  request.stream_bytes_ = stream_bytes_;
  for (int64_t done = 0; done < rows;) {
    const ContiguousBox box =
        BoxAt({extents[order[0]], extents[order[1]], extents[order[2]]}, offset / row + done, rows - done);
    std::array<int64_t, 3> first{}, count{}, stride{};
    int64_t step = whole.head_dim;
    for (size_t i = 3; i-- > 0;) {
      first[order[i]] = box.first[i];
      count[order[i]] = box.count[i];
      stride[order[i]] = step;
      step *= box.count[i];
    }
    TensorInput part;
    part.dtype = whole.dtype;
    part.batch = count[kBatch];
    part.sequence = count[kSequence];
    part.heads = count[kHeads];
    part.head_dim = whole.head_dim;
    part.batch_stride = stride[kBatch];
    part.sequence_stride = stride[kSequence];
    part.head_stride = stride[kHeads];
    part.shape = {box.size(), whole.head_dim};
    part.bytes = box.size() * row;
    part.payload = SubChunks(payload, done * row, part.bytes);
    ApplyItem item;
    item.source = item_.source;
    item.positions = item_.positions.Rows(first[kSequence], part.sequence);
    item.inverse = item_.inverse;
    item.backward = item_.backward;
    item.payload_bytes = part.bytes;
    item.tensors.push_back(std::move(part));
    request.items_.push_back(std::move(item));
    done += box.size();
  }
  return request;
}

}  // namespace phasor::server
