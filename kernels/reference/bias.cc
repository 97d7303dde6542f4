#include "kernels/core/narrow.h"
#include "kernels/encodings/distance_value.h"
#include "kernels/reference/tasks.h"

namespace phasor::reference {
namespace {

// RN(value of entry v of the plan's vectors at distance d), as bits.

uint64_t ValueBits(const BiasPlan& plan, int64_t v, int64_t d, DType dtype) {
  const bool future = d > 0 && plan.form != AlibiForm::kCausal;
  const auto& slopes = future && plan.form == AlibiForm::kTwoSided ? plan.future_slopes : plan.slopes;
  const Wide value = Wide::Sum(slopes[static_cast<size_t>(v)]) * Wide::FromInt(future ? -d : d);
  return RoundToBits(value, FormatOf(dtype));
}

uint64_t ValueBits(const BucketPlan& plan, int64_t v, int64_t d, DType dtype) {
  const double entry = plan.table->at(plan.buckets.at(d) * plan.num_heads + v);
  return RoundToBits(Wide(entry) * Wide(plan.scale), FormatOf(dtype));
}

uint64_t ValueBits(const KerplePlan& plan, int64_t v, int64_t d, DType dtype) {
  if (dtype == DType::kF64) return BitsOf(KerpleValue(plan, v, d).hi);
  return RoundToBits(WideKerple(plan, v, d), FormatOf(dtype));
}

uint64_t ValueBits(const SandwichPlan& plan, int64_t v, int64_t d, DType dtype) {
  return RoundToBits(WideSandwich(plan, v, d), FormatOf(dtype));
}

}  // namespace

absl::Status RunRow(const BiasVectorTask& task, int64_t row) {
  if (task.out == nullptr) return absl::InvalidArgumentError("bias vector without an output");
  const int64_t distance = task.distances.empty() ? task.first_distance + row : task.distances[static_cast<size_t>(row)];
  if (distance <= -(int64_t{1} << 32) || distance >= int64_t{1} << 32) {
    return absl::InvalidArgumentError("distance is not within ±(2^32 − 1)");
  }
  for (int64_t h = 0; h < task.heads; ++h) {
    const uint64_t bits =
        std::visit([&](const auto* plan) { return ValueBits(*plan, task.first_head + h, distance, task.dtype); }, task.plan);
    StoreBits(task.out, h * task.head_stride + row, SizeOf(task.dtype), bits);
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
