#include "server/knowledge/numbers.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/status/status.h"

#include "kernels/core/narrow.h"
#include "kernels/program.h"
#include "kernels/program/absolute_rows.h"
#include "server/knowledge/aligned.h"

namespace phasor::server {
std::vector<double> Widen(DType dtype, const void* bytes, int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto* source = static_cast<const std::byte*>(bytes);
    for (double& value : values) {
      T narrow;
      std::memcpy(&narrow, source, sizeof(T));
      source += sizeof(T);
      value = phasor::Widen<double>(narrow);
    }
  });
  return values;
}

double RoundTo(DType dtype, double value) {
  return VisitFloat(dtype, [&](auto tag) { return phasor::Widen<double>(Narrow<typename decltype(tag)::type>(value)); });
}

double UlpOf(DType dtype, double value) {
  return VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const BitsType<T> magnitude = BitsOf(Narrow<T>(value)) & (kSignBit<T> - 1u);
    if (magnitude >= kInfinityBits<T>) return std::numeric_limits<double>::infinity();
    const double low = phasor::Widen<double>(FromBits<T>(magnitude));
    // The largest finite number has the step below it: the one above would be infinite.
    if (magnitude + 1u == kInfinityBits<T>) return low - phasor::Widen<double>(FromBits<T>(magnitude - 1u));
    return phasor::Widen<double>(FromBits<T>(magnitude + 1u)) - low;
  });
}

double UlpsApart(DType dtype, double a, double b) {
  if (a == b) return 0;
  const double distance = std::fabs(a - b);
  if (!std::isfinite(distance)) return std::numeric_limits<double>::infinity();
  return distance / UlpOf(dtype, std::max(std::fabs(a), std::fabs(b)));
}

absl::StatusOr<Angles> MakeAngles(const Backend& backend, const AnglePlan& plan, int64_t first, int64_t count, DType dtype) {
  const int64_t elements = count * plan.pairs();
  const AlignedMemory cos = AllocateAligned(elements * SizeOf(dtype)), sin = AllocateAligned(elements * SizeOf(dtype));
  AngleTask task;
  task.plan = &plan;
  task.positions.start = first;
  for (PositionSource& axis : task.more_axes) axis.start = first;
  task.dtype = dtype;
  task.cos = cos.get();
  task.sin = sin.get();
  task.row_stride = plan.pairs();
  if (absl::Status status = backend.Run(task, {0, count}, nullptr); !status.ok()) return status;
  return Angles{{count, plan.pairs(), Widen(dtype, cos.get(), elements)},
                {count, plan.pairs(), Widen(dtype, sin.get(), elements)}};
}

absl::StatusOr<Grid> MakeRows(const Backend& backend, const EncodingSpec& canonical, const Plan& plan, int64_t first,
                              int64_t count, DType dtype) {
  AbsolutePositions positions;
  positions.source.start = first;
  positions.rows = count;
  if (absl::Status status = CheckAbsolute(canonical, positions); !status.ok()) return status;
  const int64_t columns = AbsoluteColumns(canonical);
  const AlignedMemory out = AllocateAligned(count * columns * SizeOf(dtype));
  const AlignedMemory scratch = AllocateAligned(AbsoluteScratchBytes(canonical, positions, dtype));
  const auto steps = AbsoluteSteps({&canonical, &plan, positions, dtype, out.get(), scratch.get()});
  if (!steps.ok()) return steps.status();
  if (absl::Status status = RunProgram(backend, *steps); !status.ok()) return status;
  return Grid{count, columns, Widen(dtype, out.get(), count * columns)};
}

absl::StatusOr<Grid> MakeDistances(const Backend& backend, const DistancePlan& plan, int64_t first, int64_t count,
                                   DType dtype) {
  const int64_t vectors = VectorsOf(plan);
  const AlignedMemory out = AllocateAligned(vectors * count * SizeOf(dtype));
  BiasVectorTask task;
  task.plan = plan;
  task.dtype = dtype;
  task.first_distance = first;
  task.heads = vectors;
  task.out = out.get();
  task.head_stride = count;
  if (absl::Status status = backend.Run(task, {0, count}, nullptr); !status.ok()) return status;
  return Grid{vectors, count, Widen(dtype, out.get(), vectors * count)};
}

}  // namespace phasor::server
