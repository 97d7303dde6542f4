#include "kernels/reference/tasks.h"

namespace phasor::reference {

absl::Status RunRow(const BiasVectorTask& task, int64_t row) {
  if (task.out == nullptr) return absl::InvalidArgumentError("bias vector without an output");
  const int64_t distance = task.first_distance + row;
  if (distance <= -(int64_t{1} << 32) || distance >= int64_t{1} << 32) {
    return absl::InvalidArgumentError("distance is not within ±(2^32 − 1)");
  }
  const int64_t multiplier = task.plan->form == AlibiForm::kSymmetric && distance > 0 ? -distance : distance;
  for (int64_t h = 0; h < task.heads; ++h) {
    const Wide value = Wide::Sum(task.plan->slopes[task.first_head + h]) * Wide::FromInt(multiplier);
    StoreBits(task.out, h * task.head_stride + row, SizeOf(task.dtype), RoundToBits(value, FormatOf(task.dtype)));
  }
  return absl::OkStatus();
}

absl::Status RunRow(const ToeplitzTask& task, int64_t row) {
  if (task.vector == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("bias matrix without a vector or an output");
  }
  const int64_t head = row / task.queries;
  const int64_t query = row % task.queries;
  for (int64_t key = 0; key < task.keys; ++key) {
    const int64_t from = head * task.vector_stride + (task.queries - 1 - query) + key;
    StoreBits(task.out, row * task.keys + key, task.element_size, LoadBits(task.vector, from, task.element_size));
  }
  return absl::OkStatus();
}

}  // namespace phasor::reference
