// FoPE's tables: cosines and sines of the frequencies, correctly rounded to f64, and their mixtures.
//
// At neighbouring positions e^(iφ) is turned on by a product in double-doubles, from an exact value every 64 rows. A product
// is within 2^-102, normwise, of that of its factors, which are cut below 2^-106: 64 of them stay within 2^-95, against a
// bound of 2^-92. Where hi + (lo ± bound) round alike, hi is the entry; others are made by core/sincos.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mixed_angle.cc"
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kernels/core/narrow.h"
#include "kernels/core/sincos.h"
#include "kernels/core/sum.h"
#include "kernels/cpu/angle-inl.h"
#include "kernels/cpu/linear-inl.h"
#include "kernels/cpu/polar.h"
#include "kernels/tasks/position_check.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

constexpr double kMixedError = 0x1p-92;
constexpr int64_t kTurnsAtOnce = 64;

// Vectors of double-doubles.
struct WideLanes {
  VD hi;
  VD lo;
};
HWY_INLINE WideLanes Product(WideLanes a, WideLanes b) {
  const VD p = hn::Mul(a.hi, b.hi);
  return {p, Fma(a.lo, b.hi, Fma(a.hi, b.lo, FmaSub(a.hi, b.hi, p)))};
}
HWY_INLINE WideLanes Sum(WideLanes a, WideLanes b) {
  const VD s = hn::Add(a.hi, b.hi);
  const VD back = hn::Sub(s, a.hi);
  const VD error = hn::Add(hn::Sub(a.hi, hn::Sub(s, back)), hn::Sub(b.hi, back));
  const VD rest = hn::Add(error, hn::Add(a.lo, b.lo));
  const VD hi = hn::Add(s, rest);
  return {hi, hn::Sub(rest, hn::Sub(hi, s))};
}

// e^(iφ) of every frequency, in double-doubles; arrays are padded to whole vectors.
struct WideTurns {
  std::vector<double> cos_hi, cos_lo, sin_hi, sin_lo;

  explicit WideTurns(size_t padded) : cos_hi(padded), cos_lo(padded), sin_hi(padded), sin_lo(padded) {}

  void Set(size_t i, const SinCos128& value) {
    SplitIn(value.cos, &cos_hi[i], &cos_lo[i]);
    SplitIn(value.sin, &sin_hi[i], &sin_lo[i]);
  }

 private:
  static double PowerOfTwo(int exponent) { return FromBits<double>(static_cast<uint64_t>(1023 + exponent) << 52); }
  // |value| ≤ 1 and 0 or above 2^-400. Cut below bit 106.
  static void SplitIn(const Real128& value, double* hi, double* lo) {
    const double sign = value.negative ? -1 : 1;
    constexpr uint64_t kMask = (uint64_t{1} << 53) - 1;
    const double top = static_cast<double>(static_cast<uint64_t>(value.mantissa >> 75));
    const double next = static_cast<double>(static_cast<uint64_t>(value.mantissa >> 22) & kMask);
    const double a = value.mantissa == 0 ? 0 : sign * top * PowerOfTwo(value.exponent - 52);
    const double b = value.mantissa == 0 ? 0 : sign * next * PowerOfTwo(value.exponent - 105);
    *hi = a + b;
    *lo = b - (*hi - a);
  }
};

// Correctly rounded cosines and sines of one position after the other.
class Cosines {
 public:
  Cosines(const std::vector<Turns>& frequencies, const PositionSource& positions)
      : frequencies_(frequencies),
        positions_(positions),
        padded_((frequencies.size() + kLanes - 1) / kLanes * kLanes),
        at_(padded_),
        step_(padded_),
        cos_(padded_),
        sin_(padded_) {}

  const double* cos() const { return cos_.data(); }
  const double* sin() const { return sin_.data(); }

  void MoveTo(int64_t row) {
    if (!positions_.fractional_ids.empty()) {
      const double position = positions_.fractional_ids[static_cast<size_t>(row)];
      for (size_t j = 0; j < frequencies_.size(); ++j) Put(j, SinCosOfFractionalPosition(frequencies_[j], position));
      return;
    }
    const int64_t position =
        positions_.ids.empty() ? positions_.start + row * positions_.stride : positions_.ids[static_cast<size_t>(row)];
    const int64_t step = position - position_;
    const bool follows = has_position_ && step == step_size_ && turned_ < kTurnsAtOnce;
    if (has_position_ && step != step_size_) {  // the next one is likely as far away as this is
      step_size_ = step;
      has_step_ = false;
    }
    position_ = position;
    has_position_ = true;
    if (follows) return Turn();
    turned_ = 0;
    for (size_t j = 0; j < frequencies_.size(); ++j) {
      const SinCos128 exact = SinCosOfPosition(frequencies_[j], position);
      at_.Set(j, exact);
      Put(j, exact);
    }
  }

 private:
  void Put(size_t j, const SinCos128& exact) {
    cos_[j] = phasor::RoundTo<double>(exact.cos);
    sin_[j] = phasor::RoundTo<double>(exact.sin);
  }

  void Turn() {
    if (!has_step_) {
      for (size_t j = 0; j < frequencies_.size(); ++j) step_.Set(j, SinCosOfPosition(frequencies_[j], step_size_));
      has_step_ = true;
    }
    ++turned_;
    const DD d;
    const VD bound = hn::Set(d, kMixedError);
    for (size_t j = 0; j < padded_; j += kLanes) {
      const WideLanes c = LoadLanes(at_.cos_hi, at_.cos_lo, j), s = LoadLanes(at_.sin_hi, at_.sin_lo, j);
      const WideLanes wc = LoadLanes(step_.cos_hi, step_.cos_lo, j), ws = LoadLanes(step_.sin_hi, step_.sin_lo, j);
      const WideLanes ss = Product(s, ws);
      const WideLanes cos = Sum(Product(c, wc), {hn::Neg(ss.hi), hn::Neg(ss.lo)});
      const WideLanes sin = Sum(Product(s, wc), Product(c, ws));
      StoreLanes(cos, at_.cos_hi, at_.cos_lo, j);
      StoreLanes(sin, at_.sin_hi, at_.sin_lo, j);
      hn::StoreU(cos.hi, d, cos_.data() + j);
      hn::StoreU(sin.hi, d, sin_.data() + j);
      const auto is_unsure = [&](WideLanes v) HWY_ATTR {
        return hn::Ne(hn::Add(v.hi, hn::Add(v.lo, bound)), hn::Add(v.hi, hn::Sub(v.lo, bound)));
      };
      if (HWY_UNLIKELY(!hn::AllFalse(d, hn::Or(is_unsure(cos), is_unsure(sin))))) Repair(j);
    }
  }

  static HWY_INLINE WideLanes LoadLanes(const std::vector<double>& hi, const std::vector<double>& lo, size_t j) {
    return {hn::LoadU(DD(), hi.data() + j), hn::LoadU(DD(), lo.data() + j)};
  }
  static HWY_INLINE void StoreLanes(WideLanes v, std::vector<double>& hi, std::vector<double>& lo, size_t j) {
    hn::StoreU(v.hi, DD(), hi.data() + j);
    hn::StoreU(v.lo, DD(), lo.data() + j);
  }

  // Entries of one vector that stand on the line between two doubles.
  HWY_NOINLINE void Repair(size_t first) {
    for (size_t j = first; j < std::min(first + kLanes, frequencies_.size()); ++j) {
      const auto is_sure = [j](const std::vector<double>& hi, const std::vector<double>& lo) {
        return hi[j] + (lo[j] + kMixedError) == hi[j] + (lo[j] - kMixedError);
      };
      if (is_sure(at_.cos_hi, at_.cos_lo) && is_sure(at_.sin_hi, at_.sin_lo)) continue;
      Put(j, SinCosOfPosition(frequencies_[j], position_));
    }
  }

  const std::vector<Turns>& frequencies_;
  const PositionSource& positions_;
  const size_t padded_;
  WideTurns at_, step_;
  std::vector<double> cos_, sin_;
  bool has_position_ = false, has_step_ = false;
  int64_t position_ = 0, step_size_ = 1, turned_ = 0;
};

// Rows that are mixed together: each coefficient is loaded once for all of them.
constexpr int kMixedRows = 4;

// Coefficients of one head and one vector of outputs.
struct Mixture {
  const double* coefficients;  // of input 0; the next input's are `outputs` further
  int64_t inputs, outputs;
  const double* values;  // [inputs, kMixedRows]
};

// The partial sums kFirst, kFirst + kStep … of FixedSum, folded in its order.
template <int kFirst, int kStep>
HWY_INLINE void FoldPartials(const Mixture& m, VD (&sums)[kMixedRows]) {
  if constexpr (kStep == kPartialSums) {
    for (int r = 0; r < kMixedRows; ++r) sums[r] = hn::Zero(DD());
    for (int64_t j = kFirst; j < m.inputs; j += kPartialSums) {
      const VD c = hn::LoadU(DD(), m.coefficients + j * m.outputs);
      for (int r = 0; r < kMixedRows; ++r) sums[r] = Fma(hn::Set(DD(), m.values[j * kMixedRows + r]), c, sums[r]);
    }
  } else {
    VD others[kMixedRows];
    FoldPartials<kFirst, 2 * kStep>(m, sums);
    FoldPartials<kFirst + kStep, 2 * kStep>(m, others);
    for (int r = 0; r < kMixedRows; ++r) sums[r] = hn::Add(sums[r], others[r]);
  }
}

// All numbers as doubles, with room for a vector to read beyond the last.
std::vector<double> DoublesOf(const Weight& weight) {
  std::vector<double> all(static_cast<size_t>(weight.elements() + kLanes));
  VisitFloat(weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::byte* at = weight.data.get();
    for (int64_t i = 0; i < weight.elements(); ++i, at += sizeof(T)) {
      T value;
      std::memcpy(&value, at, sizeof(T));
      all[static_cast<size_t>(i)] = Widen<double>(value);
    }
  });
  return all;
}

// One of the two tables.
class MixedTable {
 public:
  MixedTable(const MixedAngleTask& task, const Weight& coefficients, double still, void* out)
      : task_(task),
        plan_(*task.plan),
        coefficients_(DoublesOf(coefficients)),
        values_(plan_.frequencies.size() * kMixedRows),
        still_(still),
        out_(out) {
    for (auto& row : sums_) row.resize(static_cast<size_t>(std::max(plan_.pairs, plan_.outputs + kLanes)));
  }

  void Take(int r, const double* values) {
    for (size_t j = 0; j < plan_.frequencies.size(); ++j) values_[j * kMixedRows + static_cast<size_t>(r)] = values[j];
  }

  // Rows [first, first + rows), whose values were taken.
  template <typename T>
  void Write(int64_t first, int rows) {
    const DD d;
    const auto inputs = static_cast<int64_t>(plan_.frequencies.size());
    for (int64_t h = 0; h < plan_.heads; ++h) {
      for (int64_t i = 0; i < plan_.outputs; i += kLanes) {
        VD sums[kMixedRows];
        FoldPartials<0, 1>({coefficients_.data() + h * inputs * plan_.outputs + i, inputs, plan_.outputs, values_.data()},
                           sums);
        for (int r = 0; r < kMixedRows; ++r) hn::StoreU(hn::Add(sums[r], hn::Zero(d)), d, sums_[r].data() + i);
      }
      for (int r = 0; r < rows; ++r) {
        double* sums = sums_[r].data();
        std::fill(sums + plan_.outputs, sums + plan_.pairs, still_);
        if (task_.factors != nullptr) {
          for (int64_t i = 0; i < plan_.pairs; ++i) sums[i] *= task_.factors[first + r];
        }
        RoundTo(sums, static_cast<T*>(out_) + ((first + r) * plan_.heads + h) * plan_.pairs, plan_.pairs);
      }
    }
  }

 private:
  const MixedAngleTask& task_;
  const MixedAnglePlan& plan_;
  const std::vector<double> coefficients_;
  std::vector<double> values_;  // [inputs, kMixedRows]
  std::vector<double> sums_[kMixedRows];
  const double still_;  // of pairs beyond the outputs
  void* const out_;
};

bool MixedRows(const MixedAngleTask* task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  Cosines cosines(task->plan->frequencies, task->positions);
  MixedTable cos(*task, *task->plan->cos_coef, 1, task->cos), sin(*task, *task->plan->sin_coef, 0, task->sin);
  for (int64_t first = begin; first < end; first += kMixedRows) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    const int rows = static_cast<int>(std::min<int64_t>(end - first, kMixedRows));
    for (int r = 0; r < rows; ++r) {
      cosines.MoveTo(first + r);
      cos.Take(r, cosines.cos());
      sin.Take(r, cosines.sin());
    }
    VisitFloat(task->dtype, [&](auto tag) {
      cos.Write<typename decltype(tag)::type>(first, rows);
      sin.Write<typename decltype(tag)::type>(first, rows);
    });
  }
  return true;
}

// Coefficients that are worked off in a nanosecond.
double MixedSpeed() { return HWY_TARGET == HWY_SCALAR ? 0.3 : 6; }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(MixedRows);
HWY_EXPORT(MixedSpeed);

absl::Status CheckMixed(const MixedAngleTask& task, RowRange rows) {
  if (task.plan == nullptr || !task.plan->cos_coef || !task.plan->sin_coef) {
    return absl::InvalidArgumentError("mixed table without a plan");
  }
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("mixed table: the element type must be a float");
  if (task.cos == nullptr || task.sin == nullptr) return absl::InvalidArgumentError("mixed table without an output");
  if (rows.begin < 0) return absl::InvalidArgumentError("mixed table: rows at least 0");
  return CheckPositions(task.positions, rows.begin, rows.end);
}

}  // namespace

absl::Status RunPolar(const MixedAngleTask& task, RowRange rows, const CancelFlag* cancel) {
  if (rows.begin >= rows.end) return absl::OkStatus();
  if (auto status = CheckMixed(task, rows); !status.ok()) return status;
  const bool done = HWY_DYNAMIC_DISPATCH(MixedRows)(&task, rows.begin, rows.end, cancel);
  return done ? absl::OkStatus() : absl::CancelledError("cancelled");
}

int64_t PolarRowsPerSlice(const MixedAngleTask& task) {
  if (task.plan == nullptr) return 1;
  const auto inputs = static_cast<double>(task.plan->frequencies.size());
  const double coefficients = 2 * inputs * static_cast<double>(task.plan->heads * task.plan->outputs);
  const bool follows = task.positions.ids.empty() && task.positions.fractional_ids.empty();
  const double row = coefficients / HWY_DYNAMIC_DISPATCH(MixedSpeed)() + inputs * (follows ? 5 : 120);
  return std::max<int64_t>(1, static_cast<int64_t>(1e6 / std::max(row, 1.0)));
}

}  // namespace phasor
#endif  // HWY_ONCE
