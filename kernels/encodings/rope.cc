#include "kernels/encodings/rope.h"

#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope_axes.h"

namespace phasor {
namespace {

void CheckWidths(RopeSpec& rope, SpecChecker& check) {
  check.InRange("rope.head_dim", rope.head_dim, 2, kMaxHeadDim);
  if (!check.ok()) return;
  if (!rope.rotary_dim && rope.head_dim % 2 != 0) {
    return check.Fail("rope.head_dim", absl::StrCat(rope.head_dim),
                      "an even number, or an odd one together with an even rotary_dim");
  }
  check.Default("rope.rotary_dim", rope.rotary_dim, rope.head_dim, absl::StrCat("head_dim = ", rope.head_dim));
  const int64_t rotary_dim = *rope.rotary_dim;
  if (rotary_dim < 2 || rotary_dim > rope.head_dim || rotary_dim % 2 != 0) {
    check.Fail("rope.rotary_dim", absl::StrCat(rotary_dim), absl::StrCat("an even number, 2 … ", rope.head_dim));
  }
}

void CheckBase(RopeSpec& rope, BaseUse use, SpecChecker& check) {
  if (use == BaseUse::kPowers) {
    check.Default("rope.base", rope.base, 10000.0, "10000");
    return check.Positive("rope.base", *rope.base);
  }
  if (!rope.base) return;
  check.Positive("rope.base", *rope.base);
  check.Warn("rope.base", "has no effect: this schedule's frequencies are not powers of a base");
  rope.base.reset();
}

void CheckXpos(XposScale& xpos, SpecChecker& check) {
  check.Default("rope.xpos.scale_base", xpos.scale_base, 512.0, "512");
  check.InRange("rope.xpos.scale_base", *xpos.scale_base, 1, 1e15);
  constexpr int64_t kLast = (int64_t{1} << 31) - 1;
  if (xpos.center) check.InRange("rope.xpos.center", *xpos.center, -kLast, kLast);
}

std::string LimitText() { return "values that keep every frequency between 2^-96 and 2^63 turns per position"; }

}  // namespace

absl::StatusOr<CanonicalSpec> CanonicalizeRope(const EncodingSpec& spec,
                                               void (*check_schedule)(RopeSpec& rope, SpecChecker& check),
                                               BaseUse base_use) {
  CanonicalSpec canonical{spec, {}, {}};
  RopeSpec& rope = std::get<RopeSpec>(canonical.spec);
  SpecChecker check(&canonical);
  CheckWidths(rope, check);
  CheckBase(rope, base_use, check);
  check.Default("rope.pairing", rope.pairing, Pairing::kHalfSplit, "half_split");
  if (*rope.pairing < Pairing::kHalfSplit || *rope.pairing > Pairing::kInterleavedToHalf) {
    check.Fail("rope.pairing", absl::StrCat(static_cast<int>(*rope.pairing)),
               "half_split, interleaved, interleaved_to_half");
  }
  if (rope.attention_factor) {
    check.InRange("rope.attention_factor", *rope.attention_factor, kMinAttentionFactor, kMaxAttentionFactor);
  }
  if (rope.xpos) CheckXpos(*rope.xpos, check);
  if (check.ok()) {
    check.InRange("rope.first_channel", rope.first_channel, 0, rope.head_dim - *rope.rotary_dim);
  }
  CheckRopeAxes(rope, check);
  // A schedule's checks read the fields above, so they run only on sound ones.
  if (check.ok()) check_schedule(rope, check);
  CheckRopeSections(rope, check);
  if (!check.ok()) return check.status();
  return canonical;
}

std::string IndexedField(std::string_view field, size_t i) { return absl::StrCat(std::string(field), "[", i, "]"); }

void CheckPairCount(std::string_view field, const RopeSpec& rope, const std::vector<double>& list, SpecChecker& check) {
  const int64_t pairs = *rope.rotary_dim / 2;
  if (static_cast<int64_t>(list.size()) == pairs) return;
  check.Fail(field, absl::StrCat(list.size(), " entries"), absl::StrCat(pairs, " entries (rotary_dim/2)"));
}

std::vector<Wide> RopeFrequencies(const Wide& base, int64_t dim, int64_t count) {
  // One power, then products: the most there are, 2^19, cost at most 20 of the 320 bits.
  const Wide ratio = Pow(base, Wide(-2.0) / Wide::FromInt(dim));
  std::vector<Wide> frequencies;
  frequencies.reserve(count);
  Wide theta = 1.0;
  for (int64_t i = 0; i < count; ++i) {
    frequencies.push_back(theta);
    theta = theta * ratio;
  }
  return frequencies;
}

Wide NtkBase(const Wide& base, const Wide& scale, int64_t rotary_dim) {
  return base * Pow(scale, Wide::FromInt(rotary_dim) / Wide::FromInt(rotary_dim - 2));
}

void CheckNtkWidth(const RopeSpec& rope, SpecChecker& check) {
  if (*rope.rotary_dim <= 2) {
    check.Fail("rope.rotary_dim", absl::StrCat(*rope.rotary_dim),
               "more than 2: the exponent rotary_dim/(rotary_dim − 2) divides by zero");
  }
}

absl::StatusOr<Resolved> ResolveAngles(const std::vector<Wide>& inv_freq, const Wide& attention_factor, Precision precision,
                                       std::string_view blame) {
  if (attention_factor < kMinAttentionFactor || attention_factor > kMaxAttentionFactor) {
    return MakeSpecError(blame, absl::StrCat("values that give an attention factor of ", ToString(attention_factor, 6)),
                         "values that give one between 0.0001 and 10000");
  }
  AnglePlan plan;
  plan.precision = precision;
  plan.frequencies.reserve(inv_freq.size());
  plan.inv_freq.reserve(inv_freq.size());
  plan.inv_freq_f32.reserve(inv_freq.size());
  const Wide turns_per_radian = Wide(0.5) / Pi();
  const Wide smallest = ScaleByPowerOfTwo(1.0, -96);
  const Wide limit = ScaleByPowerOfTwo(1.0, 63);
  for (const Wide& f : inv_freq) {
    const Wide turns = f * turns_per_radian;
    if (turns >= limit || (turns < smallest && turns != 0.0)) {
      return MakeSpecError(blame, absl::StrCat("values that give an inv_freq of ", ToString(f, 6)), LimitText());
    }
    plan.frequencies.push_back(ToTurns(turns));
    plan.inv_freq.push_back(ToDouble(f));
    plan.inv_freq_f32.push_back(ToFloat(f));
  }
  plan.attention_factor = ToDoubleDouble(attention_factor);
  plan.attention_factor_f32 = ToFloat(attention_factor);
  Resolved resolved;
  resolved.attention_factor = plan.attention_factor.hi;
  resolved.plan = std::move(plan);
  return resolved;
}

absl::StatusOr<Resolved> ResolveRope(const RopeSpec& rope, const std::vector<Wide>& inv_freq, const Wide& attention_factor,
                                     Precision precision, std::string_view blame) {
  return ResolveAngles(inv_freq, rope.attention_factor ? Wide(*rope.attention_factor) : attention_factor, precision, blame);
}

}  // namespace phasor
