#include "kernels/cpu/bias_vector.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/core/double_double.h"
#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/encodings/distance_value.h"
#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

using Int128 = __int128;
using Uint128 = unsigned __int128;

// |hi| = hi_significand·2^exponent. lo, with the sign that it has beside a positive hi, is
// lo_significand·2^(exponent − lo_shift), 1 ≤ lo_shift.
struct Slope {
  bool negative = false;
  uint64_t hi_significand = 0;
  int exponent = 0;
  int64_t lo_significand = 0;
  int lo_shift = 0;
};

struct Parts {
  uint64_t significand;
  int exponent;
};
Parts PartsOf(double magnitude) {
  const uint64_t bits = BitsOf(magnitude);
  const int field = static_cast<int>(bits >> 52);
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (field == 0) return {fraction, -1074};
  return {fraction | (uint64_t{1} << 52), field - 1075};
}

Slope SlopeOf(DoubleDouble value) {
  const Parts hi = PartsOf(std::fabs(value.hi));
  Slope slope;
  slope.negative = value.hi < 0;
  slope.hi_significand = hi.significand;
  slope.exponent = hi.exponent;
  if (value.lo != 0) {
    const Parts lo = PartsOf(std::fabs(value.lo));
    const bool opposite = (value.lo < 0) != slope.negative;
    slope.lo_significand = opposite ? -static_cast<int64_t>(lo.significand) : static_cast<int64_t>(lo.significand);
    slope.lo_shift = hi.exponent - lo.exponent;
  }
  return slope;
}

// magnitude·2^exponent, or just above it when `sticky`, rounded once. magnitude < 2^127, and the last bit of the result must
// not be below that of magnitude.
template <typename T>
BitsType<T> RoundBits(Uint128 magnitude, int exponent, bool sticky) {
  constexpr int kFraction = FloatFormat<T>::kFractionBits;
  constexpr int kSmallest = 2 - (1 << (FloatFormat<T>::kExponentBits - 1)) - kFraction;  // exponent of the last denormal bit
  const uint64_t high = static_cast<uint64_t>(magnitude >> 64);
  const int length = high != 0 ? 128 - std::countl_zero(high) : 64 - std::countl_zero(static_cast<uint64_t>(magnitude));
  const int last = std::max(exponent + length - (kFraction + 1), kSmallest);
  const int shift = last - exponent;
  if (shift >= 128) return 0;  // below half of the smallest denormal
  uint64_t rounded = static_cast<uint64_t>(magnitude >> shift);
  const Uint128 rest = magnitude & ((Uint128{1} << shift) - 1);
  const Uint128 half = Uint128{1} << (shift - 1);
  if (rest > half || (rest == half && (sticky || (rounded & 1) != 0))) ++rounded;
  if (last - kSmallest >= (1 << FloatFormat<T>::kExponentBits)) return kInfinityBits<T>;
  rounded += static_cast<uint64_t>(last - kSmallest) << kFraction;
  return static_cast<BitsType<T>>(std::min<uint64_t>(rounded, kInfinityBits<T>));
}

// |slope|·distance, rounded once.
template <typename T>
BitsType<T> Product(const Slope& slope, uint64_t distance) {
  constexpr int kGuard = 40;  // 53 + 32 + 40 bits fit
  Int128 sum = static_cast<Int128>(static_cast<Uint128>(slope.hi_significand) * distance) << kGuard;
  bool sticky = false;
  if (slope.lo_significand != 0) {
    const Int128 lo = static_cast<Int128>(slope.lo_significand) * static_cast<Int128>(distance);
    const int shift = std::min(slope.lo_shift - kGuard, 126);
    if (shift <= 0) {
      sum += lo * (Int128{1} << -shift);
    } else {
      const Int128 floor = lo >> shift;
      sum += floor;
      sticky = (floor << shift) != lo;
    }
  }
  return RoundBits<T>(static_cast<Uint128>(sum), slope.exponent - kGuard, sticky);
}

constexpr int64_t kBlock = 1024;  // distances between looks at the cancel flag

int64_t DistanceOf(const BiasVectorTask& task, int64_t row) {
  return task.distances.empty() ? task.first_distance + row : task.distances[static_cast<size_t>(row)];
}

// value rounded once, |value − the exact one| < error·|value|; wide() gives the exact one where that leaves a doubt.
template <typename T, typename F>
T RoundOnce(DoubleDouble value, double error, F&& wide) {
  const double e = std::fabs(value.hi) * error;
  const auto moved = [&](double by) {
    const double low = value.lo + by, hi = value.hi + low;
    return DoubleDouble{hi, low - (hi - value.hi)};
  };
  const T below = Narrow<T>(moved(-e)), above = Narrow<T>(moved(e));
  if (BitsOf(below) == BitsOf(above)) return below;
  constexpr BinaryFormat kFormat{FloatFormat<T>::kFractionBits + 1, 2 - (1 << (FloatFormat<T>::kExponentBits - 1)),
                                 (1 << (FloatFormat<T>::kExponentBits - 1)) - 1, 8 * static_cast<int>(sizeof(T))};
  return FromBits<T>(RoundToBits(wide(), kFormat));
}

// Each writes rows [begin, end), at most kBlock of them.

template <typename T>
void WriteBlock(const BiasVectorTask& task, const BiasPlan& plan, int64_t begin, int64_t end) {
  for (int64_t h = 0; h < task.heads; ++h) {
    const auto v = static_cast<size_t>(task.first_head + h);
    const Slope past = SlopeOf(plan.slopes[v]);
    const Slope future = plan.form == AlibiForm::kTwoSided ? SlopeOf(plan.future_slopes[v]) : past;
    T* out = static_cast<T*>(task.out) + h * task.head_stride;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t distance = DistanceOf(task, r);
      const Slope& slope = distance > 0 ? future : past;
      uint64_t bits = 0;
      if (distance != 0 && slope.hi_significand != 0) {
        bits = Product<T>(slope, static_cast<uint64_t>(distance < 0 ? -distance : distance));
        const bool negative = slope.negative != (plan.form != AlibiForm::kCausal || distance < 0);
        if (negative) bits |= kSignBit<T>;
      }
      out[r] = FromBits<T>(bits);
    }
  }
}

template <typename T>
void WriteBlock(const BiasVectorTask& task, const BucketPlan& plan, int64_t begin, int64_t end) {
  std::array<int32_t, kBlock> buckets;
  for (int64_t r = begin; r < end; ++r) {
    buckets[static_cast<size_t>(r - begin)] = static_cast<int32_t>(plan.buckets.at(DistanceOf(task, r)));
  }
  for (int64_t h = 0; h < task.heads; ++h) {
    T* out = static_cast<T*>(task.out) + h * task.head_stride;
    int32_t last = -1;
    T value = FromBits<T>(0);
    for (int64_t r = begin; r < end; ++r) {
      const int32_t bucket = buckets[static_cast<size_t>(r - begin)];
      if (bucket != last) {
        value = Narrow<T>(ExactProduct(plan.table->at(bucket * plan.num_heads + task.first_head + h), plan.scale));
        last = bucket;
      }
      out[r] = value;
    }
  }
}

template <typename T>
void WriteBlock(const BiasVectorTask& task, const KerplePlan& plan, int64_t begin, int64_t end) {
  for (int64_t h = 0; h < task.heads; ++h) {
    const int64_t v = task.first_head + h;
    T* out = static_cast<T*>(task.out) + h * task.head_stride;
    for (int64_t r = begin; r < end; ++r) {
      const int64_t distance = DistanceOf(task, r);
      const DoubleDouble value = KerpleValue(plan, v, distance);
      if constexpr (std::is_same_v<T, double>) {
        out[r] = value.hi;
      } else {
        out[r] = RoundOnce<T>(value, kKerpleError, [&] { return WideKerple(plan, v, distance); });
      }
    }
  }
}

template <typename T>
void WriteBlock(const BiasVectorTask& task, const SandwichPlan& plan, int64_t begin, int64_t end) {
  for (int64_t r = begin; r < end; ++r) {
    const int64_t distance = DistanceOf(task, r);
    const DoubleDouble sum = SandwichSum(plan, distance);
    for (int64_t h = 0; h < task.heads; ++h) {
      const int64_t v = task.first_head + h;
      static_cast<T*>(task.out)[h * task.head_stride + r] =
          RoundOnce<T>(SandwichValue(plan, v, sum), kSandwichError, [&] { return WideSandwich(plan, v, distance); });
    }
  }
}

template <typename T, typename P>
bool WriteRows(const BiasVectorTask& task, const P& plan, RowRange rows, const CancelFlag* cancel) {
  // A sum of thousands of sines is a piece of work by itself.
  const int64_t step = std::clamp<int64_t>(BiasVectorRowsPerSlice(task), 1, kBlock);
  for (int64_t begin = rows.begin; begin < rows.end; begin += step) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    WriteBlock<T>(task, plan, begin, std::min(rows.end, begin + step));
  }
  return true;
}

absl::Status CheckPlan(const BiasPlan& plan, int64_t first, int64_t count) {
  if (plan.form == AlibiForm::kTwoSided && plan.future_slopes.size() != plan.slopes.size()) {
    return absl::InvalidArgumentError("bias vector: every slope needs one for the future");
  }
  for (int64_t v = first; v < first + count; ++v) {
    const auto at = static_cast<size_t>(v);
    if (!std::isfinite(plan.slopes[at].hi) ||
        (plan.form == AlibiForm::kTwoSided && !std::isfinite(plan.future_slopes[at].hi))) {
      return absl::InvalidArgumentError("bias vector: a slope is not finite");
    }
  }
  return absl::OkStatus();
}
absl::Status CheckPlan(const BucketPlan& plan, int64_t, int64_t) {
  return plan.table ? absl::OkStatus() : absl::InvalidArgumentError("bias vector: the plan has no table");
}
absl::Status CheckPlan(const KerplePlan&, int64_t, int64_t) { return absl::OkStatus(); }
absl::Status CheckPlan(const SandwichPlan&, int64_t, int64_t) { return absl::OkStatus(); }

bool InBounds(int64_t distance) {
  constexpr int64_t kDistanceLimit = int64_t{1} << 32;
  return distance > -kDistanceLimit && distance < kDistanceLimit;
}

absl::Status CheckDistances(const BiasVectorTask& task, RowRange rows) {
  bool fits = true;
  if (!task.distances.empty()) {
    if (rows.end > static_cast<int64_t>(task.distances.size())) {
      return absl::InvalidArgumentError("bias vector: more rows than distances");
    }
    for (int64_t r = rows.begin; r < rows.end; ++r) fits &= InBounds(task.distances[static_cast<size_t>(r)]);
  } else {
    // Bounds on both first, so that their sum cannot overflow.
    constexpr int64_t kDistanceLimit = int64_t{1} << 32;
    fits = task.first_distance > -2 * kDistanceLimit && task.first_distance < kDistanceLimit &&
           rows.end <= 3 * kDistanceLimit && InBounds(task.first_distance + rows.begin) &&
           InBounds(task.first_distance + rows.end - 1);
  }
  return fits ? absl::OkStatus() : absl::InvalidArgumentError("bias vector: |distance| must be below 2^32");
}

absl::Status CheckBiasVector(const BiasVectorTask& task, RowRange rows) {
  if (IsNull(task.plan)) return absl::InvalidArgumentError("bias vector: plan must not be null");
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("bias vector: the element type must be a float");
  if (task.first_head < 0 || task.heads < 0 || task.first_head > VectorsOf(task.plan) - task.heads) {
    return absl::InvalidArgumentError("bias vector: heads outside the plan's");
  }
  absl::Status status =
      std::visit([&](const auto* plan) { return CheckPlan(*plan, task.first_head, task.heads); }, task.plan);
  if (!status.ok()) return status;
  if (rows.begin < 0) return absl::InvalidArgumentError("bias vector: rows must not be negative");
  if (rows.begin >= rows.end || task.heads == 0) return absl::OkStatus();
  if (status = CheckDistances(task, rows); !status.ok()) return status;
  if (task.out == nullptr) return absl::InvalidArgumentError("bias vector: out must not be null");
  return absl::OkStatus();
}

// Nanoseconds of one row.
int64_t CostOf(const BiasPlan&, int64_t heads) { return 20 * heads; }
int64_t CostOf(const BucketPlan&, int64_t heads) { return 10 + 4 * heads; }
int64_t CostOf(const KerplePlan&, int64_t heads) { return 150 * heads; }
int64_t CostOf(const SandwichPlan& plan, int64_t heads) {
  return 120 * static_cast<int64_t>(plan.half_frequencies.size()) + 30 * heads;
}

}  // namespace

absl::Status RunBiasVector(const BiasVectorTask& task, RowRange rows, const CancelFlag* cancel) {
  if (absl::Status status = CheckBiasVector(task, rows); !status.ok()) return status;
  if (rows.begin >= rows.end || task.heads == 0) return absl::OkStatus();
  const bool done = std::visit(
      [&](const auto* plan) {
        return VisitFloat(task.dtype,
                          [&](auto tag) { return WriteRows<typename decltype(tag)::type>(task, *plan, rows, cancel); });
      },
      task.plan);
  return done ? absl::OkStatus() : absl::CancelledError("bias vector: cancelled");
}

int64_t BiasVectorRowsPerSlice(const BiasVectorTask& task) {
  constexpr int64_t kSliceNs = 1000000;
  if (IsNull(task.plan)) return 1;
  const int64_t heads = std::max<int64_t>(1, task.heads);
  const int64_t cost = std::visit([&](const auto* plan) { return CostOf(*plan, heads); }, task.plan);
  return std::max<int64_t>(1, kSliceNs / cost);
}

}  // namespace phasor
