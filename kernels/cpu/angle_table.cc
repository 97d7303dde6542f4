#include "kernels/cpu/angle_table.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/cpu/angle_axes.h"
#include "kernels/cpu/angle_kernels.h"
#include "kernels/cpu/angle_repair.h"
#include "kernels/cpu/store_policy.h"
#include "kernels/tasks/position_check.h"

namespace phasor {
namespace {

// From here on the recurrence is cheaper than the polynomial, partial blocks at both ends included.
constexpr int64_t kShortestRun = 24;

absl::Status CheckTask(const AngleTask& task, RowRange rows) {
  if (task.plan == nullptr) return absl::InvalidArgumentError("angle task without a plan");
  if (!IsFloat(task.dtype))
    return absl::InvalidArgumentError(absl::StrCat("angle tables cannot be ", std::string(Name(task.dtype))));
  if (task.cos == nullptr && task.sin == nullptr) return absl::InvalidArgumentError("angle task without an output");
  if (rows.begin < 0) return absl::InvalidArgumentError("angle task with a negative row");
  if (task.row_stride < task.plan->pairs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("row_stride ", task.row_stride, " is less than the plan's ", task.plan->pairs(), " pairs"));
  }
  for (int64_t axis = 0; axis < task.plan->axes; ++axis) {
    if (auto status = CheckPositions(task.axis(axis), rows.begin, rows.end); !status.ok()) return status;
  }
  return absl::OkStatus();
}

void* RowAddress(void* base, int64_t row, const AngleTask& task) {
  return base == nullptr ? nullptr : static_cast<uint8_t*>(base) + row * task.row_stride * SizeOf(task.dtype);
}

AngleJob MakeJob(const AngleTask& task, RowRange rows, const CancelFlag* cancel) {
  AngleJob job;
  job.plan = task.plan;
  job.inverse = task.inverse;
  job.dtype = task.dtype;
  job.stride = task.positions.stride;
  const auto begin = static_cast<size_t>(rows.begin);
  const auto count = static_cast<size_t>(rows.end - rows.begin);
  if (!task.positions.fractional_ids.empty()) {
    job.fractional_ids = task.positions.fractional_ids.subspan(begin, count);
  } else if (!task.positions.ids.empty()) {
    job.ids = task.positions.ids.subspan(begin, count);
  } else {
    job.first = task.positions.start + rows.begin * job.stride;
  }
  job.rows = rows.end - rows.begin;
  job.cos = RowAddress(task.cos, rows.begin, task);
  job.sin = RowAddress(task.sin, rows.begin, task);
  job.pairs = task.plan->pairs();
  job.row_stride = task.row_stride;
  const int64_t outputs = (task.cos != nullptr) + (task.sin != nullptr);
  job.stream = PrefersStreaming(task.hint, job.rows * job.pairs * SizeOf(job.dtype) * outputs);
  job.cancel = cancel;
  return job;
}

// Rows [begin, end) of a job with ids, as a job of its own.
AngleJob SubJob(const AngleJob& job, int64_t begin, int64_t end) {
  const auto advance = [&](void* base) -> void* {
    return base == nullptr ? nullptr : static_cast<uint8_t*>(base) + begin * job.row_stride * SizeOf(job.dtype);
  };
  AngleJob part = job;
  part.ids = job.ids.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  part.rows = end - begin;
  part.cos = advance(job.cos);
  part.sin = advance(job.sin);
  return part;
}

// Runs of consecutive ids by recurrence, what lies between them by polynomial.
bool RunIds(const AngleJob& job) {
  const auto run_direct = [&](int64_t begin, int64_t end) { return begin == end || AngleDirect(SubJob(job, begin, end)); };
  int64_t pending = 0;  // first row not yet done
  for (int64_t begin = 0; begin < job.rows;) {
    int64_t end = begin + 1;
    while (end < job.rows && job.ids[static_cast<size_t>(end)] == job.ids[static_cast<size_t>(end - 1)] + 1) ++end;
    if (end - begin >= kShortestRun) {
      if (!run_direct(pending, begin)) return false;
      AngleJob run = SubJob(job, begin, end);
      run.first = run.ids[0];
      run.stride = 1;
      run.ids = {};
      if (!AngleRange(run)) return false;
      pending = end;
    }
    begin = end;
  }
  return run_direct(pending, job.rows);
}

bool RunExact(AngleJob job, AngleSetupCache& setups) {
  if (job.dtype == DType::kF64 || !job.fractional_ids.empty()) {
    job.factor = ToReal128(job.plan->attention_factor);
    if (job.inverse) job.factor = Reciprocal(job.factor);
    if (job.fractional_ids.empty()) return AngleF64(job);
    return job.dtype == DType::kF64 ? AngleFractionalF64(job) : AngleFractional(job);
  }
  const auto setup = setups.Get(*job.plan, job.dtype, job.inverse);
  job.setup = setup.get();
  if (!job.ids.empty()) return RunIds(job);
  return job.stride == 1 && job.rows >= kShortestRun ? AngleRange(job) : AngleDirect(job);
}

bool HasFractions(const AngleTask& task) {
  for (int64_t axis = 0; axis < task.plan->axes; ++axis) {
    if (!task.axis(axis).fractional_ids.empty()) return true;
  }
  return false;
}

}  // namespace

bool AngleF64(const AngleJob& job) {
  for (int64_t row = 0; row < job.rows; ++row) {
    if (job.Cancelled()) return false;
    const int64_t position = job.Position(row);
    double* const cos = job.cos == nullptr ? nullptr : static_cast<double*>(job.cos) + row * job.row_stride;
    double* const sin = job.sin == nullptr ? nullptr : static_cast<double*>(job.sin) + row * job.row_stride;
    for (int64_t i = 0; i < job.pairs; ++i) {
      const SinCos128 value = SinCosOfPosition(job.plan->frequencies[static_cast<size_t>(i)], position);
      if (cos != nullptr) cos[i] = RoundTo<double>(Multiply(value.cos, job.factor));
      if (sin != nullptr) sin[i] = RoundTo<double>(Multiply(value.sin, job.factor));
    }
  }
  return true;
}

bool AngleFractionalF64(const AngleJob& job) {
  for (int64_t row = 0; row < job.rows; ++row) {
    if (job.Cancelled()) return false;
    const double position = job.fractional_ids[static_cast<size_t>(row)];
    double* const cos = job.cos == nullptr ? nullptr : static_cast<double*>(job.cos) + row * job.row_stride;
    double* const sin = job.sin == nullptr ? nullptr : static_cast<double*>(job.sin) + row * job.row_stride;
    for (int64_t i = 0; i < job.pairs; ++i) {
      const SinCos128 value = SinCosOfFractionalPosition(job.plan->frequencies[static_cast<size_t>(i)], position);
      if (cos != nullptr) cos[i] = RoundTo<double>(Multiply(value.cos, job.factor));
      if (sin != nullptr) sin[i] = RoundTo<double>(Multiply(value.sin, job.factor));
    }
  }
  return true;
}

absl::Status RunAngleTask(const AngleTask& task, RowRange rows, const CancelFlag* cancel, AngleSetupCache& setups) {
  if (rows.begin >= rows.end) return absl::OkStatus();
  if (auto status = CheckTask(task, rows); !status.ok()) return status;
  if (task.plan->axes > 1) return RunAngleAxes(task, rows, cancel, setups);
  const AngleJob job = MakeJob(task, rows, cancel);
  if (job.Cancelled()) return absl::CancelledError("cancelled");
  const bool done = task.plan->precision == Precision::kCompatF32 ? AngleCompat(job) : RunExact(job, setups);
  return done ? absl::OkStatus() : absl::CancelledError("cancelled");
}

int64_t AngleRowsPerSlice(const AngleTask& task) {
  if (task.plan == nullptr || task.plan->pairs() == 0) return int64_t{1} << 20;
  // Nanoseconds per pair.
  double cost = 0.8;
  if (task.plan->precision == Precision::kCompatF32) {
    cost = 2.2;
  } else if (task.dtype == DType::kF64) {
    cost = HasFractions(task) ? 160 : 130;
  } else if (HasFractions(task) || task.plan->axes > 1 || !task.positions.ids.empty() || task.positions.stride != 1) {
    cost = 4;
  }
  const double rows = 1e6 / (cost * static_cast<double>(task.plan->pairs()));
  // Whole blocks of the recurrence where there is room for them.
  if (rows >= 64) return static_cast<int64_t>(rows) / 64 * 64;
  return std::max<int64_t>(1, static_cast<int64_t>(rows));
}

}  // namespace phasor
