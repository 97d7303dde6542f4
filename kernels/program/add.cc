#include "kernels/program/add.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <new>
#include <utility>

#include "kernels/core/narrow.h"

namespace phasor {
namespace {

// Elements of a block of encodings: 512 KiB of f32.
constexpr int64_t kBlockElements = int64_t{1} << 17;

// `task` from token `token` on, of batch rows [batch, …).
AddTask From(AddTask task, int64_t batch, int64_t token) {
  const int64_t size = SizeOf(task.dtype);
  task.x = static_cast<const std::byte*>(task.x) + (batch * task.x_batch_stride + token * task.x_token_stride) * size;
  task.y = static_cast<std::byte*>(task.y) + (batch * task.y_batch_stride + token * task.y_token_stride) * size;
  const int64_t compute_size = task.dtype == DType::kF64 ? 8 : 4;
  if (task.gate.data != nullptr) {
    task.gate.data = static_cast<const std::byte*>(task.gate.data) +
                     (batch * task.gate.batch_stride + token * task.gate.token_stride) * compute_size;
  }
  for (AddEnds* ends : {&task.first, &task.last}) {
    if (ends->index != nullptr) ends->index += batch * ends->index_batch_stride + token;
  }
  if (task.hidden != nullptr) task.hidden += batch * task.hidden_batch_stride + token;
  task.first_element += batch * task.element_batch_stride + token * task.element_token_stride;
  return task;
}

class Adding {
 public:
  Adding(const AddTask& task, AddSources sources) : task_(task), sources_(std::move(sources)) {}

  absl::Status Run(const Backend& backend, RowRange rows, const CancelFlag* cancel) const {
    const int64_t element = task_.dtype == DType::kF64 ? 8 : 4;
    const int64_t most = std::max<int64_t>(1, kBlockElements / task_.dim);
    const int64_t tokens = std::min(most, TokensOf(rows));
    const int64_t bytes = tokens * task_.dim * element;
    const int64_t tables = sources_.other != nullptr ? 2 : 1;
    const std::unique_ptr<std::byte[]> block(new (std::nothrow) std::byte[static_cast<size_t>(tables * bytes)]);
    if (block == nullptr) return absl::ResourceExhaustedError("no memory for a block of encodings");
    return sources_.per_batch ? RunPerBatch(backend, rows, tokens, block.get(), bytes, cancel)
                              : RunShared(backend, rows, tokens, block.get(), bytes, cancel);
  }

 private:
  DType table_type() const { return task_.dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

  // Tokens that a range of rows touches, at most.
  int64_t TokensOf(RowRange rows) const {
    if (sources_.per_batch) return std::min(rows.end - rows.begin, task_.tokens);
    return (rows.end - 1) / task_.batch - rows.begin / task_.batch + 1;
  }

  // Rows in the order of tokens; every token's encoding is made once.
  absl::Status RunShared(const Backend& backend, RowRange rows, int64_t most, std::byte* block, int64_t bytes,
                         const CancelFlag* cancel) const {
    const int64_t batch = task_.batch;
    for (int64_t begin = rows.begin; begin < rows.end;) {
      const int64_t token = begin / batch;
      const int64_t last = std::min((rows.end - 1) / batch, token + most - 1);
      const int64_t end = std::min(rows.end, (last + 1) * batch);
      AddTask task = From(task_, 0, token);
      task.tokens = last + 1 - token;
      if (absl::Status status = Fill(backend, {token, last + 1}, block, bytes, &task, cancel); !status.ok()) return status;
      const absl::Status status = backend.Run(task, {begin - token * batch, end - token * batch}, cancel);
      if (!status.ok()) return status;
      begin = end;
    }
    return absl::OkStatus();
  }

  // Rows batch row by batch row.
  absl::Status RunPerBatch(const Backend& backend, RowRange rows, int64_t most, std::byte* block, int64_t bytes,
                           const CancelFlag* cancel) const {
    for (int64_t begin = rows.begin; begin < rows.end;) {
      const int64_t batch = begin / task_.tokens;
      const int64_t token = begin % task_.tokens;
      const int64_t count = std::min({most, task_.tokens - token, rows.end - begin});
      AddTask task = From(task_, batch, token);
      task.batch = 1;
      task.tokens = count;
      if (absl::Status status = Fill(backend, {begin, begin + count}, block, bytes, &task, cancel); !status.ok()) {
        return status;
      }
      if (absl::Status status = backend.Run(task, {0, count}, cancel); !status.ok()) return status;
      begin += count;
    }
    return absl::OkStatus();
  }

  // Makes the encodings of the block and points the task at them.
  absl::Status Fill(const Backend& backend, RowRange rows, std::byte* block, int64_t bytes, AddTask* task,
                    const CancelFlag* cancel) const {
    task->pe = {block, 0, task_.dim};
    absl::Status status = sources_.pe->Make(backend, rows, table_type(), block, cancel);
    if (!status.ok() || sources_.other == nullptr) return status;
    task->other = {block + bytes, 0, task_.dim};
    return sources_.other->Make(backend, rows, table_type(), block + bytes, cancel);
  }

  const AddTask task_;
  const AddSources sources_;
};

}  // namespace

ProgramStep AddStep(const AddTask& task, AddSources sources) {
  const int64_t rows = task.dim == 0 ? 0 : task.batch * task.tokens;
  if (sources.pe == nullptr) return ProgramStep::Of(task, rows);
  const int64_t per_slice = RowsPerSlice(task);
  const auto adding = std::make_shared<const Adding>(task, std::move(sources));
  return ProgramStep::Of(
      ProgramStep::BackendFunction([adding](const Backend& backend, RowRange range, const CancelFlag* cancel) {
        return adding->Run(backend, range, cancel);
      }),
      rows, per_slice);
}

double AddScale(std::optional<double> scale, int64_t dim, std::optional<DType> rounded_to, DType dtype) {
  if (!scale && !rounded_to && dtype != DType::kF64) return std::sqrt(static_cast<float>(dim));
  double factor = scale ? *scale : std::sqrt(static_cast<double>(dim));
  if (rounded_to) {
    factor = VisitFloat(*rounded_to, [&](auto tag) { return Widen<double>(Narrow<typename decltype(tag)::type>(factor)); });
  }
  return dtype == DType::kF64 ? factor : static_cast<double>(Narrow<float>(factor));
}

double DropoutFactor(double probability, DType dtype) {
  const double factor = 1 / (1 - probability);
  return dtype == DType::kF64 ? factor : static_cast<double>(Narrow<float>(factor));
}

}  // namespace phasor
