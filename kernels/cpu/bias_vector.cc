#include "kernels/cpu/bias_vector.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/core/double_double.h"
#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"

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

template <typename T>
bool WriteRows(const BiasVectorTask& task, RowRange rows, const CancelFlag* cancel) {
  constexpr int64_t kBetweenLooks = 4096;
  const bool symmetric = task.plan->form == AlibiForm::kSymmetric;
  for (int64_t h = 0; h < task.heads; ++h) {
    const Slope slope = SlopeOf(task.plan->slopes[static_cast<size_t>(task.first_head + h)]);
    T* out = static_cast<T*>(task.out) + h * task.head_stride;
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      if ((r - rows.begin) % kBetweenLooks == 0 && cancel != nullptr && cancel->load(std::memory_order_relaxed))
        return false;
      const int64_t distance = task.first_distance + r;
      uint64_t bits = 0;
      if (distance != 0 && slope.hi_significand != 0) {
        bits = Product<T>(slope, static_cast<uint64_t>(distance < 0 ? -distance : distance));
        const bool negative = slope.negative != (symmetric || distance < 0);
        if (negative) bits |= kSignBit<T>;
      }
      out[r] = FromBits<T>(bits);
    }
  }
  return true;
}

absl::Status CheckBiasVector(const BiasVectorTask& task, RowRange rows) {
  constexpr int64_t kDistanceLimit = int64_t{1} << 32;
  if (task.plan == nullptr) return absl::InvalidArgumentError("bias vector: plan must not be null");
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("bias vector: the element type must be a float");
  if (task.first_head < 0 || task.heads < 0 || task.first_head > task.plan->heads() - task.heads) {
    return absl::InvalidArgumentError("bias vector: heads outside the plan's");
  }
  for (int64_t h = task.first_head; h < task.first_head + task.heads; ++h) {
    if (!std::isfinite(task.plan->slopes[static_cast<size_t>(h)].hi)) {
      return absl::InvalidArgumentError("bias vector: a slope is not finite");
    }
  }
  if (rows.begin < 0) return absl::InvalidArgumentError("bias vector: rows must not be negative");
  if (rows.begin >= rows.end || task.heads == 0) return absl::OkStatus();
  if (task.first_distance <= -kDistanceLimit || task.first_distance >= kDistanceLimit ||
      rows.end > kDistanceLimit - task.first_distance || task.first_distance + rows.begin <= -kDistanceLimit) {
    return absl::InvalidArgumentError("bias vector: |distance| must be below 2^32");
  }
  if (task.out == nullptr) return absl::InvalidArgumentError("bias vector: out must not be null");
  return absl::OkStatus();
}

}  // namespace

absl::Status RunBiasVector(const BiasVectorTask& task, RowRange rows, const CancelFlag* cancel) {
  if (absl::Status status = CheckBiasVector(task, rows); !status.ok()) return status;
  if (rows.begin >= rows.end || task.heads == 0) return absl::OkStatus();
  const bool done =
      VisitFloat(task.dtype, [&](auto tag) { return WriteRows<typename decltype(tag)::type>(task, rows, cancel); });
  return done ? absl::OkStatus() : absl::CancelledError("bias vector: cancelled");
}

int64_t BiasVectorRowsPerSlice(const BiasVectorTask& task) {
  constexpr int64_t kValuesPerSlice = 50000;
  return std::max<int64_t>(1, kValuesPerSlice / std::max<int64_t>(1, task.heads));
}

}  // namespace phasor
