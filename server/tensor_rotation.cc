#include "server/tensor_rotation.h"

#include <algorithm>
#include <cstring>

namespace phasor::server {

Gather::Gather(const Chunks& pieces) : pieces_(pieces) {
  int64_t start = 0;
  starts_.reserve(pieces.size());
  for (const Bytes& piece : pieces) {
    starts_.push_back(start);
    start += piece.size;
  }
}

void Gather::Copy(int64_t begin, int64_t end, std::byte* out) const {
  if (begin >= end) return;
  // The last piece that starts at or before `begin`.
  auto i = static_cast<size_t>(std::upper_bound(starts_.begin(), starts_.end(), begin) - starts_.begin()) - 1;
  for (int64_t at = begin; at < end; ++i) {
    const int64_t inside = at - starts_[i];
    const int64_t size = std::min(end - at, pieces_[i].size - inside);
    if (size > 0) std::memcpy(out + (at - begin), pieces_[i].data + inside, static_cast<size_t>(size));
    at += std::max<int64_t>(size, 0);
  }
}

TensorRotation::TensorRotation(const TensorInput& tensor, const RotationShape& shape, const TableRows& rows, bool per_batch,
                               std::byte* data)
    : tensor_(tensor), shape_(shape), rows_(rows), per_batch_(per_batch), data_(data) {}

RotateTask TensorRotation::TaskFor(int64_t batch_row, int64_t position) const {
  RotateTask task;
  task.dtype = tensor_.dtype;
  task.pairing = shape_.pairing;
  task.inverse = rows_.inverse || shape_.backward;
  task.heads = tensor_.heads;
  task.head_dim = tensor_.head_dim - shape_.first_channel;
  task.pairs = rows_.plan->angle()->pairs();
  task.x_token_stride = task.y_token_stride = tensor_.sequence_stride;
  task.x_head_stride = task.y_head_stride = tensor_.head_stride;
  task.table_stride = task.pairs;
  task.y = data_ + (batch_row * tensor_.batch_stride + position * tensor_.sequence_stride + shape_.first_channel) *
                       SizeOf(tensor_.dtype);
  task.x = task.y;
  task.hint = StoreHint::kReadNext;
  return task;
}

absl::Status TensorRotation::Rotate(RowRange tokens, const CancelFlag* cancel) const {
  return VisitTasks(tokens, cancel,
                    [&](const RotateTask& task) { return rows_.core->backend->Run(task, {0, task.tokens}, cancel); });
}

bool TensorRotation::Collect(std::vector<Task>* tasks, std::vector<int64_t>* rows) const {
  if (!rows_.tiles->complete() || !rows_.positions->ids.empty() || rows_.positions->stride != 1) return false;
  return VisitTasks({0, tokens()}, nullptr,
                    [&](const RotateTask& task) {
                      tasks->emplace_back(task);
                      rows->push_back(task.tokens);
                      return absl::OkStatus();
                    })
      .ok();
}

absl::Status TensorRotation::VisitTasks(RowRange tokens, const CancelFlag* cancel,
                                        absl::FunctionRef<absl::Status(const RotateTask& task)> visit) const {
  while (tokens.begin < tokens.end) {
    const int64_t batch_row = tokens.begin / tensor_.sequence;
    const int64_t first = tokens.begin - batch_row * tensor_.sequence;
    const int64_t end = std::min(tensor_.sequence, tokens.end - batch_row * tensor_.sequence);
    // The window's row of this batch row's position 0.
    const int64_t base = per_batch_ ? batch_row * tensor_.sequence : 0;
    const absl::Status status = rows_.Visit({base + first, base + end}, cancel, nullptr, [&](const TableRun& run) {
      RotateTask task = TaskFor(batch_row, run.first - base);
      task.tokens = run.rows;
      task.cos = run.cos;
      task.sin = run.sin;
      task.table_rows = run.table_rows;
      task.shared = run.shared;
      return visit(task);
    });
    if (!status.ok()) return status;
    tokens.begin += end - first;
  }
  return absl::OkStatus();
}

int64_t TensorRotation::tokens_per_slice() const {
  RotateTask task = TaskFor(0, 0);
  task.tokens = tokens();
  int64_t per_slice = rows_.core->backend->RowsPerSlice(task);
  if (!rows_.tiles->complete()) per_slice = std::min(per_slice, rows_.rows_per_slice());
  return std::max<int64_t>(1, per_slice / 2);
}

bool TensorRotation::TokensAreConsecutive() const {
  const int64_t width = (tensor_.heads - 1) * tensor_.head_stride + tensor_.head_dim;
  if (tensor_.head_stride < 0 || width > tensor_.sequence_stride) return false;
  return tensor_.batch <= 1 || tensor_.batch_stride == tensor_.sequence * tensor_.sequence_stride;
}

absl::Status TensorRotation::GatherAndRotate(const Gather& gather, RowRange tokens, const CancelFlag* cancel) const {
  const int64_t token_bytes = tensor_.sequence_stride * SizeOf(tensor_.dtype);
  const int64_t step = std::max<int64_t>(1, rows_.core->backend->BytesAtOnce() / token_bytes);
  for (int64_t token = tokens.begin; token < tokens.end; token += step) {
    const int64_t end = std::min(tokens.end, token + step);
    const int64_t first_byte = token * token_bytes;
    // The last token's bytes end where the tensor does.
    const int64_t last_byte = end == this->tokens() ? tensor_.bytes : end * token_bytes;
    gather.Copy(first_byte, last_byte, data_ + first_byte);
    const absl::Status status = Rotate({token, end}, cancel);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace phasor::server
