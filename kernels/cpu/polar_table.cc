// PoPE's tables: e^(iφ) of a position once, turned by the phase of every head, the rounding test, and the exact path for
// what fails it.
//
// Error of z: e^(iφ) within 8u of each component (SinCosOfTurns, fine) and 2^-94 absolute, e^(iδ) within u, their product
// within 2u, normwise: below 12u, against a bound of 2^-48 = 32u for every entry.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/polar_table.cc"
#include <algorithm>

#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kernels/core/sincos.h"
#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/angle_compat-inl.h"
#include "kernels/cpu/angle_repair.h"
#include "kernels/cpu/angle_rounding-inl.h"
#include "kernels/cpu/angle_rows-inl.h"
#include "kernels/cpu/polar.h"
#include "kernels/cpu/store_policy.h"
#include "kernels/tasks/position_check.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

constexpr double kPolarError = 0x1p-48;

// A task, its rows [first, first + rows of `out`/heads), and its output as rows of (row, head).
struct PolarRun {
  const PolarAngleTask* task;
  int64_t first;
  AngleJob out;

  bool is_fractional() const { return !task->positions.fractional_ids.empty(); }
  int64_t Whole(int64_t row) const {
    const PositionSource& positions = task->positions;
    return positions.ids.empty() ? positions.start + row * positions.stride : positions.ids[static_cast<size_t>(row)];
  }
  Turns Phase(int64_t row, int64_t pair) const {
    const Turns& frequency = task->plan->frequencies[static_cast<size_t>(pair)];
    return is_fractional() ? PhaseOfFraction(frequency, task->positions.fractional_ids[static_cast<size_t>(row)])
                           : PhaseOf(frequency, Whole(row));
  }
  SinCos128 Exact(int64_t row, int64_t head, int64_t pair) const {
    const size_t index = static_cast<size_t>(head * task->plan->pairs() + pair);
    return SinCosOfPosition(AddPhases(Phase(row, pair), task->phases->turns[index]), 1);
  }
};

// e^(iφ) of one row and up to kChunk pairs.
struct PolarBase {
  HWY_ALIGN double cos[kChunk];
  HWY_ALIGN double sin[kChunk];
};

void FillBase(const PolarRun& run, int64_t row, int64_t column, int64_t columns, PolarBase& base) {
  HWY_ALIGN uint64_t high[kChunk] = {};
  HWY_ALIGN uint64_t low[kChunk] = {};
  for (int64_t i = 0; i < columns; ++i) {
    const Turns phase = run.Phase(row, column + i);
    high[i] = phase.limb[2];
    low[i] = phase.limb[1];
  }
  const DD d;
  const DU64 du;
  for (int64_t i = 0; i < columns; i += kLanes) {
    const Complex z = SinCosOfTurns<true>(hn::Load(du, high + i), hn::Load(du, low + i), hn::Set(du, uint64_t{1}));
    hn::Store(z.cos, d, base.cos + i);
    hn::Store(z.sin, d, base.sin + i);
  }
}

template <typename T>
HWY_NOINLINE void RepairPolar(const PolarRun& run, Complex z, int64_t row, int64_t head, int64_t pair, int64_t count,
                              T* cos_out, T* sin_out) {
  double cos[kLanes], sin[kLanes];
  hn::StoreU(z.cos, DD(), cos);
  hn::StoreU(z.sin, DD(), sin);
  const auto is_sure = [](double v) { return BitsOf(Narrow<T>(v + kPolarError)) == BitsOf(Narrow<T>(v - kPolarError)); };
  for (int64_t i = 0; i < count; ++i) {
    if (is_sure(cos[i]) && is_sure(sin[i])) continue;
    const SinCos128 exact = run.Exact(row, head, pair + i);
    cos_out[i] = RoundTo<T>(exact.cos);
    sin_out[i] = RoundTo<T>(exact.sin);
  }
}

// Columns [column, column + columns) of one head of a row.
template <typename T>
HWY_INLINE void RunPolarRow(const PolarRun& run, const PolarBase& base, int64_t row, int64_t head, int64_t column,
                            int64_t columns, T* cos, T* sin) {
  const DD d;
  const VD error = hn::Set(d, kPolarError);
  const int64_t first = head * run.task->plan->pairs() + column;
  const double* phase_cos = run.task->phases->cos.data() + first;
  const double* phase_sin = run.task->phases->sin.data() + first;
  for (int64_t i = 0; i < columns; i += kLanes) {
    const Complex phi{hn::Load(d, base.cos + i), hn::Load(d, base.sin + i)};
    const Complex delta{LoadUpTo(d, phase_cos + i, columns - i), LoadUpTo(d, phase_sin + i, columns - i)};
    const Complex z = MultiplyComplex(phi, delta);
    Doubts<T> doubts = NoDoubts<T>();
    Emit<false>(z.cos, error, cos + i, doubts);
    Emit<false>(z.sin, error, sin + i, doubts);
    if (HWY_UNLIKELY(Any(doubts))) {
      RepairPolar(run, z, row, head, column + i, std::min(columns - i, kLanes), cos + i, sin + i);
    }
  }
}

// The f64 table, every entry by the exact path.
bool RunPolarF64(const PolarRun& run) {
  const int64_t heads = run.task->heads, pairs = run.out.pairs;
  double* cos = static_cast<double*>(run.out.cos);
  double* sin = static_cast<double*>(run.out.sin);
  for (int64_t r = 0; r < run.out.rows; ++r) {
    if (run.out.Cancelled()) return false;
    for (int64_t i = 0; i < pairs; ++i, ++cos, ++sin) {
      const SinCos128 exact = run.Exact(run.first + r / heads, r % heads, i);
      *cos = RoundTo<double>(exact.cos);
      *sin = RoundTo<double>(exact.sin);
    }
  }
  return true;
}

template <typename T, bool kStream>
bool RunPolarTable(const PolarRun& run) {
  PolarBase base;
  HWY_ALIGN T cos_row[kChunk];
  HWY_ALIGN T sin_row[kChunk];
  const AngleJob& out = run.out;
  const int64_t heads = run.task->heads;
  RowOutput<kStream> cos(out.cos, out), sin(out.sin, out);
  bool done = true;
  for (int64_t r = 0; r < out.rows && done; r += heads) {
    const int64_t row = run.first + r / heads;
    for (int64_t column = 0; column < out.pairs; column += kChunk) {
      const int64_t columns = std::min(out.pairs - column, kChunk);
      FillBase(run, row, column, columns, base);
      for (int64_t h = 0; h < heads; ++h) {
        RunPolarRow(run, base, row, h, column, columns, cos_row, sin_row);
        cos.Write(cos_row, r + h, 1, column, columns);
        sin.Write(sin_row, r + h, 1, column, columns);
      }
    }
    done = !out.Cancelled();
  }
  cos.Finish();
  sin.Finish();
  return done;
}

// ---- kCompatF32.

// Phases that a sum with the position's angle could leave too small for the polynomial: no angle is below 2^-24 of a term.
constexpr float kSmallestTerm = 0x1p-70f;
constexpr float kLargestTerm = 0x1p29f;

bool IsPlain(float term) {
  const float magnitude = term < 0 ? -term : term;
  return magnitude == 0 || (magnitude >= kSmallestTerm && magnitude <= kLargestTerm);
}

// The angles of one row and head, and cos and sin of them.
void RunPolarCompatRow(const float* inv_freq, const float* delta, float position, int64_t columns, float* cos, float* sin) {
  HWY_ALIGN float angles[kChunk] = {};
  bool plain = true;
  for (int64_t i = 0; i < columns; ++i) {
    const float angle = inv_freq[i] * position;
    plain = plain && IsPlain(angle) && IsPlain(delta[i]);
    angles[i] = angle + delta[i] + 0.0f;  // never −0
  }
  if (HWY_LIKELY(plain)) {
    return RunCompatAngles(columns, [&](int64_t i) HWY_ATTR { return hn::Load(DF(), angles + i); }, cos, sin);
  }
  for (int64_t i = 0; i < columns; ++i) {
    cos[i] = CompatEntry(angles[i], Component::kCos);
    sin[i] = CompatEntry(angles[i], Component::kSin);
  }
}

template <typename T, bool kStream>
bool RunPolarCompat(const PolarRun& run) {
  HWY_ALIGN float cos_values[kChunk];
  HWY_ALIGN float sin_values[kChunk];
  HWY_ALIGN T cos_row[kChunk];
  HWY_ALIGN T sin_row[kChunk];
  const AngleJob& out = run.out;
  const int64_t heads = run.task->heads;
  RowOutput<kStream> cos(out.cos, out), sin(out.sin, out);
  bool done = true;
  for (int64_t r = 0; r < out.rows && done; ++r) {
    const int64_t row = run.first + r / heads, head = r % heads;
    const float position = run.is_fractional()
                               ? static_cast<float>(run.task->positions.fractional_ids[static_cast<size_t>(row)])
                               : static_cast<float>(run.Whole(row));
    for (int64_t column = 0; column < out.pairs; column += kChunk) {
      const int64_t columns = std::min(out.pairs - column, kChunk);
      RunPolarCompatRow(run.task->plan->inv_freq_f32.data() + column,
                        run.task->phases->radians.data() + head * out.pairs + column, position, columns, cos_values,
                        sin_values);
      for (int64_t i = 0; i < columns; i += kLanes) {
        Cast(hn::Load(DF(), cos_values + i), cos_row + i);
        Cast(hn::Load(DF(), sin_values + i), sin_row + i);
      }
      cos.Write(cos_row, r, 1, column, columns);
      sin.Write(sin_row, r, 1, column, columns);
    }
    done = !out.Cancelled();
  }
  cos.Finish();
  sin.Finish();
  return done;
}

bool PolarTableKernel(const PolarAngleTask* task, int64_t first, const AngleJob* out) {
  const PolarRun run{task, first, *out};
  if (task->plan->precision == Precision::kCompatF32) {
    if (out->dtype == DType::kF64) return RunPolarCompat<double, false>(run);
    return VisitJob(*out, [&run](auto type, auto stream) {
      return RunPolarCompat<typename decltype(type)::type, decltype(stream)::value>(run);
    });
  }
  if (out->dtype == DType::kF64) return RunPolarF64(run);
  return VisitJob(*out, [&run](auto type, auto stream) {
    return RunPolarTable<typename decltype(type)::type, decltype(stream)::value>(run);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(PolarTableKernel);

absl::Status CheckTable(const PolarAngleTask& task, RowRange rows) {
  if (task.plan == nullptr || task.phases == nullptr) return absl::InvalidArgumentError("polar table without a plan");
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("polar table: the element type must be a float");
  if (task.cos == nullptr || task.sin == nullptr) return absl::InvalidArgumentError("polar table without an output");
  if (rows.begin < 0 || task.heads < 1 ||
      static_cast<int64_t>(task.phases->turns.size()) != task.heads * task.plan->pairs()) {
    return absl::InvalidArgumentError("polar table: phases must be of heads × pairs, and rows at least 0");
  }
  return CheckPositions(task.positions, rows.begin, rows.end);
}

}  // namespace

absl::Status RunPolar(const PolarAngleTask& task, RowRange rows, const CancelFlag* cancel) {
  if (rows.begin >= rows.end) return absl::OkStatus();
  if (auto status = CheckTable(task, rows); !status.ok()) return status;
  AngleJob out;
  out.dtype = task.dtype;
  out.rows = (rows.end - rows.begin) * task.heads;
  out.pairs = out.row_stride = task.plan->pairs();
  const int64_t offset = rows.begin * task.heads * out.pairs * SizeOf(task.dtype);
  out.cos = static_cast<uint8_t*>(task.cos) + offset;
  out.sin = static_cast<uint8_t*>(task.sin) + offset;
  out.cancel = cancel;
  if (out.Cancelled()) return absl::CancelledError("cancelled");
  const bool done = HWY_DYNAMIC_DISPATCH(PolarTableKernel)(&task, rows.begin, &out);
  return done ? absl::OkStatus() : absl::CancelledError("cancelled");
}

int64_t PolarRowsPerSlice(const PolarAngleTask& task) {
  if (task.plan == nullptr) return 1;
  // Nanoseconds per entry, and per pair of a position.
  const bool compat = task.plan->precision == Precision::kCompatF32;
  const double entry = compat ? 3 : task.dtype == DType::kF64 ? 130 : 1.5;
  const double rows = 1e6 / (static_cast<double>(std::max<int64_t>(1, task.plan->pairs())) *
                             (entry * static_cast<double>(task.heads) + (compat ? 0 : 8)));
  return std::max<int64_t>(1, static_cast<int64_t>(rows));
}

}  // namespace phasor
#endif
