#include "kernels/cuda/angle_setup.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/core/sincos.h"

namespace phasor::cuda {
namespace {

// Arrays of `padded` words: four limbs, two components of the step, the angle. Then, for kCompatF32, one of floats; and the
// columns.
constexpr size_t kStepCos = 4, kStepSin = 5, kAngle = 6;
constexpr size_t kExactArrays = 7;

// Column numbers and float frequencies take half a word a pair.
size_t HalfWords(size_t padded) { return padded / 2; }

}  // namespace

AngleSetup::AngleSetup(const AnglePlan& plan, bool inverse) : exact_(plan.precision != Precision::kCompatF32) {
  for (int64_t axis = 0; axis < plan.axes; ++axis) AddPart(plan, axis);
  words_.assign((exact_ ? kExactArrays * padded_ : HalfWords(padded_)) + HalfWords(padded_), 0);
  if (exact_) std::fill_n(words_.begin() + static_cast<int64_t>(kStepCos * padded_), padded_, std::bit_cast<uint64_t>(1.0));
  std::vector<size_t> next(static_cast<size_t>(plan.axes));
  for (const AnglePart& part : parts_) next[static_cast<size_t>(part.axis)] = static_cast<size_t>(part.offset);
  for (size_t i = 0; i < plan.frequencies.size(); ++i) {
    FillPair(plan, i, next[plan.axes == 1 ? 0 : plan.axis_of_pair[i]]++);
  }

  common_.divide = inverse;
  common_.factor_f32 = plan.attention_factor_f32;
  common_.exact_factor = ToReal128(plan.attention_factor);
  if (inverse) common_.exact_factor = Reciprocal(common_.exact_factor);
  common_.factor = RoundTo<double>(common_.exact_factor);
  // Rounded up a little, so that no bound is short.
  common_.bound = std::fabs(common_.factor) * (1 + 0x1p-40);
  // At least so much that a value which could be one of f32's denormals fails the rounding test.
  common_.absolute_error = std::max(common_.bound * 0x1p-90, 0x1p-114);
}

void AngleSetup::AddPart(const AnglePlan& plan, int64_t axis) {
  AnglePart part;
  part.axis = axis;
  part.offset = static_cast<int64_t>(padded_);
  int64_t last = -1;
  for (int64_t i = 0; i < plan.pairs(); ++i) {
    if (plan.axes > 1 && plan.axis_of_pair[static_cast<size_t>(i)] != axis) continue;
    if (part.pairs++ == 0) part.first_column = i;
    last = i;
  }
  if (part.pairs == 0) return;
  part.contiguous = last - part.first_column + 1 == part.pairs;
  parts_.push_back(part);
  padded_ += static_cast<size_t>((part.pairs + kAnglePadding - 1) / kAnglePadding * kAnglePadding);
}

void AngleSetup::FillPair(const AnglePlan& plan, size_t pair, size_t index) {
  const auto half_word = [this](size_t array_begin, size_t i, uint32_t bits) {
    words_[array_begin + i / 2] |= static_cast<uint64_t>(bits) << (i % 2 == 0 ? 0 : 32);
  };
  const size_t columns = words_.size() - HalfWords(padded_);
  half_word(columns, index, static_cast<uint32_t>(pair));
  if (!exact_) return half_word(0, index, std::bit_cast<uint32_t>(plan.inv_freq_f32[pair]));
  const Turns& frequency = plan.frequencies[pair];
  for (size_t limb = 0; limb < 4; ++limb) words_[limb * padded_ + index] = frequency.limb[limb];
  if ((frequency.limb[0] | frequency.limb[1] | frequency.limb[2]) == 0) return;  // stands still at whole positions
  const auto set = [&](size_t array, double value) { words_[array * padded_ + index] = std::bit_cast<uint64_t>(value); };
  const SinCos128 step = SinCosOfPosition(frequency, 1);
  set(kStepCos, RoundTo<double>(step.cos));
  set(kStepSin, RoundTo<double>(step.sin));
  const double turns =
      static_cast<double>(frequency.limb[2]) * 0x1p-64 + static_cast<double>(frequency.limb[1]) * 0x1p-128 + 0x1p-128;
  set(kAngle, turns * (0x1.921fb54442d19p+2 * (1 + 0x1p-40)));
}

void AngleSetup::Fill(const AnglePart& part, const std::byte* at, AngleParams& params) const {
  const auto* const words = reinterpret_cast<const uint64_t*>(at);
  const uint64_t* const columns = words + (words_.size() - HalfWords(padded_));
  params.divide = common_.divide;
  params.factor_f32 = common_.factor_f32;
  params.exact_factor = common_.exact_factor;
  params.factor = common_.factor;
  params.bound = common_.bound;
  params.absolute_error = common_.absolute_error;
  params.pairs = part.pairs;
  params.first_column = part.first_column;
  params.columns = part.contiguous ? nullptr : reinterpret_cast<const int32_t*>(columns) + part.offset;
  if (!exact_) {
    params.inv_freq = reinterpret_cast<const float*>(words) + part.offset;
    return;
  }
  const auto array = [&](size_t index) { return words + index * padded_ + part.offset; };
  params.turns = array(0);
  params.turns_stride = static_cast<int64_t>(padded_);
  params.step_cos = reinterpret_cast<const double*>(array(kStepCos));
  params.step_sin = reinterpret_cast<const double*>(array(kStepSin));
  params.angle = reinterpret_cast<const double*>(array(kAngle));
}

}  // namespace phasor::cuda
