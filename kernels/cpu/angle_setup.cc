#include "kernels/cpu/angle_setup.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace phasor {
namespace {

constexpr int kArrays = 15;
constexpr double kSmallestBound = 0x1p-122;

bool IsStill(const Turns& frequency) { return (frequency.limb[0] | frequency.limb[1] | frequency.limb[2]) == 0; }

// The factor as the output type shows it, widened: what a still pair's cos is at every position.
double RoundedFactor(const Real128& factor, DType dtype) {
  switch (dtype) {
    case DType::kF16:
      return Widen<double>(RoundTo<F16>(factor));
    case DType::kBF16:
      return Widen<double>(RoundTo<BF16>(factor));
    default:
      return RoundTo<float>(factor);
  }
}

bool Matches(const AngleSetup& setup, const AnglePlan& plan, DType dtype, bool inverse) {
  return setup.dtype == dtype && setup.inverse == inverse && setup.attention_factor == plan.attention_factor &&
         setup.frequencies == plan.frequencies;
}

}  // namespace

std::shared_ptr<const AngleSetup> MakeAngleSetup(const AnglePlan& plan, DType dtype, bool inverse) {
  auto setup = std::make_shared<AngleSetup>();
  setup->frequencies = plan.frequencies;
  setup->attention_factor = plan.attention_factor;
  setup->dtype = dtype;
  setup->inverse = inverse;
  setup->factor = ToReal128(plan.attention_factor);
  if (inverse) setup->factor = Reciprocal(setup->factor);
  setup->pairs = plan.pairs();
  const int64_t n = setup->padded = (plan.pairs() + kAnglePadding - 1) / kAnglePadding * kAnglePadding;
  setup->storage = hwy::AllocateAligned<double>(static_cast<size_t>(std::max<int64_t>(n, 1) * kArrays));
  double* next = setup->storage.get();
  std::fill(next, next + n * kArrays, 0.0);
  const auto take = [&next, n] { return std::exchange(next, next + n); };
  double* const step_cos = take();
  double* const step_sin = take();
  double* const jump_cos = take();
  double* const jump_sin = take();
  double* const pass_cos = take();
  double* const pass_sin = take();
  double* const scale_cos = take();
  double* const scale_sin = take();
  double* const range_error = take();
  double* const small_error = take();
  double* const angle = take();
  double* const direct_relative = take();
  double* const direct_absolute = take();
  uint64_t* const turn_high = reinterpret_cast<uint64_t*>(take());
  uint64_t* const turn_low = reinterpret_cast<uint64_t*>(take());

  const double factor = RoundTo<double>(setup->factor);
  // Rounded up a little, so that no bound is short.
  const double bound = std::fabs(factor) * (1 + 0x1p-40);
  for (int64_t i = 0; i < n; ++i) {
    step_cos[i] = jump_cos[i] = pass_cos[i] = 1;
    if (i >= setup->pairs) continue;
    const Turns& frequency = plan.frequencies[i];
    if (IsStill(frequency)) {
      scale_cos[i] = RoundedFactor(setup->factor, dtype);
      continue;
    }
    const SinCos128 step = SinCosOfPosition(frequency, 1);
    const SinCos128 jump = SinCosOfPosition(frequency, 64);
    const SinCos128 pass = SinCosOfPosition(frequency, 16);
    step_cos[i] = RoundTo<double>(step.cos);
    step_sin[i] = RoundTo<double>(step.sin);
    jump_cos[i] = RoundTo<double>(jump.cos);
    jump_sin[i] = RoundTo<double>(jump.sin);
    pass_cos[i] = RoundTo<double>(pass.cos);
    pass_sin[i] = RoundTo<double>(pass.sin);
    scale_cos[i] = scale_sin[i] = factor;
    range_error[i] = bound * 0x1p-44;
    small_error[i] = bound * 0x1p-43;
    turn_high[i] = frequency.limb[2];
    turn_low[i] = frequency.limb[1];
    angle[i] = (static_cast<double>(turn_high[i]) * 0x1p-64 + static_cast<double>(turn_low[i]) * 0x1p-128 + 0x1p-128) *
               (0x1.921fb54442d19p+2 * (1 + 0x1p-40));
    direct_relative[i] = 0x1p-40;
    direct_absolute[i] = bound * 0x1p-90;
    // The vector code's rounding test does not know f32's denormals: where an entry could be one, nothing passes it.
    if (std::min(bound * 0x1p-90, small_error[i] * angle[i]) < kSmallestBound) {
      range_error[i] = small_error[i] = direct_absolute[i] = std::numeric_limits<double>::infinity();
    }
  }
  setup->step_cos = step_cos;
  setup->step_sin = step_sin;
  setup->jump_cos = jump_cos;
  setup->jump_sin = jump_sin;
  setup->pass_cos = pass_cos;
  setup->pass_sin = pass_sin;
  setup->scale_cos = scale_cos;
  setup->scale_sin = scale_sin;
  setup->range_error = range_error;
  setup->small_error = small_error;
  setup->angle = angle;
  setup->direct_relative = direct_relative;
  setup->direct_absolute = direct_absolute;
  setup->turn_high = turn_high;
  setup->turn_low = turn_low;
  return setup;
}

std::shared_ptr<const AngleSetup> AngleSetupCache::Find(const AnglePlan& plan, DType dtype, bool inverse) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (!Matches(**entry, plan, dtype, inverse)) continue;
    entries_.splice(entries_.begin(), entries_, entry);
    return entries_.front();
  }
  return nullptr;
}

std::shared_ptr<const AngleSetup> AngleSetupCache::Get(const AnglePlan& plan, DType dtype, bool inverse) {
  if (auto found = Find(plan, dtype, inverse)) return found;
  auto made = MakeAngleSetup(plan, dtype, inverse);
  const std::lock_guard<std::mutex> lock(mutex_);
  for (const auto& entry : entries_) {
    if (Matches(*entry, plan, dtype, inverse)) return entry;
  }
  entries_.push_front(made);
  pairs_ += made->pairs;
  while (entries_.size() > 1 && (entries_.size() > kMaxEntries || pairs_ > kMaxPairs)) {
    pairs_ -= entries_.back()->pairs;
    entries_.pop_back();
  }
  return made;
}

}  // namespace phasor
