// Rotations.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <utility>

#include "kernels/encodings/rope.h"
#include "tests/conformance/fuzz/generators.h"

namespace phasor {
namespace {

// 1 … 257 pairs, the small and the odd ones as often as the usual ones.
int64_t Pairs(Rng& rng) { return rng.OneIn(3) ? rng.Pick<int64_t>({32, 48, 64, 128}) : rng.LogInt(1, 257); }

// Sections of a layout over n pairs; nothing where the layout has none.
std::optional<RopeAxes> Axes(Rng& rng, int64_t n, bool any_width) {
  RopeAxes axes;
  axes.layout = static_cast<AxisLayout>(rng.Int(1, 5));
  if (*axes.layout == AxisLayout::kReset && !any_width) axes.layout = AxisLayout::kChunked;
  if (*axes.layout == AxisLayout::kAlternating) {
    const int64_t side = rng.Int(0, n / 2);
    axes.sections = {side, side, n - 2 * side};
    return axes;
  }
  if (*axes.layout == AxisLayout::kSplitFrequencies) {
    axes.sections = {(n + 1) / 2, n / 2};
    return axes;
  }
  int64_t left = n;
  for (int64_t a = rng.Int(2, kMaxAxes); a > 1; --a) {
    axes.sections.push_back(rng.Int(0, left));
    left -= axes.sections.back();
  }
  axes.sections.push_back(*axes.layout == AxisLayout::kInterleaved ? rng.Int(0, left) : left);
  return axes;
}

RopeSpec Rope(Rng& rng, RopeSchedule schedule, int64_t pairs, bool any_width = true) {
  RopeSpec rope;
  rope.rotary_dim = 2 * pairs;
  rope.head_dim = 2 * pairs + (rng.OneIn(2) ? 0 : rng.LogInt(0, 100));
  rope.first_channel = rng.Int(0, rope.head_dim - 2 * pairs);
  rope.base = rng.OneIn(3) ? 10000.0 : rng.LogReal(1.5, 1e9);
  rope.pairing = static_cast<Pairing>(rng.Int(1, 3));
  if (rng.OneIn(4)) rope.attention_factor = rng.LogReal(1e-4, 1e4);
  if (rng.OneIn(3)) rope.axes = Axes(rng, pairs, any_width);
  if (!rope.axes && rng.OneIn(4)) rope.xpos = XposScale{rng.LogReal(100, 1e6), rng.Int(-5000, 5000)};
  rope.schedule = std::move(schedule);
  return rope;
}

// Without a base, or with one that has no effect.
RopeSpec WithoutBase(RopeSpec rope) {
  rope.base.reset();
  return rope;
}

std::vector<double> List(Rng& rng, int64_t count, double low, double high) {
  std::vector<double> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(rng.LogReal(low, high));
  return list;
}

double Factor(Rng& rng) { return rng.OneIn(8) ? 1.0 : rng.LogReal(0.5, 100); }
// Where a width of 2 is no legal one. Sections start anew, so each would have to be wide enough: no axes.
RopeSpec Ntk(Rng& rng, RopeSchedule schedule) {
  RopeSpec rope = Rope(rng, std::move(schedule), std::max<int64_t>(2, Pairs(rng)));
  if (rope.axes && *rope.axes->layout == AxisLayout::kReset) rope.axes.reset();
  return rope;
}

EncodingSpec Default(Rng& rng) {
  RopeSpec rope = Rope(rng, DefaultSchedule{}, Pairs(rng));
  if (rng.OneIn(4)) rope.base = rng.LogReal(1e-6, 2);
  return rope;
}
EncodingSpec Linear(Rng& rng) { return Rope(rng, LinearSchedule{rng.LogReal(1e-4, 1e4)}, Pairs(rng)); }
EncodingSpec NtkAware(Rng& rng) { return Ntk(rng, NtkAwareSchedule{Factor(rng)}); }
EncodingSpec DynamicNtk(Rng& rng) { return Ntk(rng, DynamicNtkSchedule{Factor(rng), rng.LogInt(1, 1 << 20)}); }
EncodingSpec Qwen1Ntk(Rng& rng) { return Ntk(rng, Qwen1NtkSchedule{rng.LogInt(1, 1 << 20)}); }

EncodingSpec Yarn(Rng& rng) {
  YarnSchedule yarn;
  yarn.factor = Factor(rng);
  yarn.original_max_position = rng.LogInt(1, 1 << 20);
  if (rng.OneIn(2)) yarn.beta_fast = rng.LogReal(1e-2, 1e3);
  if (rng.OneIn(2)) yarn.beta_slow = rng.LogReal(1e-2, 1e3);
  yarn.truncate = rng.OneIn(2);
  if (rng.OneIn(3)) yarn.mscale = rng.Real(0, 3);
  if (rng.OneIn(3)) yarn.mscale_all_dim = rng.Real(0, 3);
  if (rng.OneIn(3)) yarn.attention_coefficient = rng.Real(0, 0.5);
  yarn.log_blend = rng.OneIn(3);
  if (rng.OneIn(3)) yarn.attention_factor_multiplier = rng.LogReal(0.1, 10);
  if (rng.OneIn(3)) yarn.extrapolation_factor = rng.Real(0, 1);
  return Rope(rng, yarn, Pairs(rng));
}

EncodingSpec Llama3(Rng& rng) {
  const double low = rng.LogReal(0.1, 10);
  const double high = rng.OneIn(8) ? low : low * rng.LogReal(1, 10);
  return Rope(rng, Llama3Schedule{Factor(rng), low, high, rng.LogInt(1, 1 << 20)}, Pairs(rng));
}

EncodingSpec LongRope(Rng& rng) {
  const int64_t n = Pairs(rng);
  LongRopeSchedule s;
  s.short_factor = List(rng, n, 0.5, 4);
  s.long_factor = List(rng, n, 0.5, 100);
  s.original_max_position = rng.LogInt(2, 1 << 20);
  if (rng.OneIn(2)) {
    s.factor = rng.LogReal(0.5, 64);
  } else {
    s.max_position = rng.LogInt(1, 1 << 22);
  }
  if (rng.OneIn(3)) s.short_mscale = rng.LogReal(0.5, 2);
  if (rng.OneIn(3)) s.long_mscale = rng.LogReal(0.5, 2);
  return Rope(rng, s, n, false);
}

EncodingSpec Proportional(Rng& rng) {
  RopeSpec rope = Rope(rng, ProportionalSchedule{rng.Real(0.01, 1), {}}, Pairs(rng), false);
  if (rng.OneIn(2)) std::get<ProportionalSchedule>(rope.schedule).factor = Factor(rng);
  rope.head_dim = *rope.rotary_dim;
  rope.first_channel = 0;
  return rope;
}

EncodingSpec NtkMixed(Rng& rng) {
  NtkMixedSchedule s{Factor(rng), {}};
  if (rng.OneIn(2)) s.mixed_b = rng.LogReal(0.01, 3);
  return Rope(rng, s, Pairs(rng));
}

EncodingSpec FreqFactors(Rng& rng) {
  const int64_t n = Pairs(rng);
  FreqFactorsSchedule s{List(rng, n, 0.1, 100), {}};
  if (rng.OneIn(2)) s.factor = Factor(rng);
  return Rope(rng, s, n, false);
}

EncodingSpec InvFreq(Rng& rng) {
  const int64_t n = Pairs(rng);
  InvFreqSchedule s{List(rng, n, 1e-12, 1e6)};
  for (double& f : s.inv_freq) {
    if (rng.OneIn(6)) f = static_cast<double>(static_cast<float>(f));
    if (rng.OneIn(10)) f = 0;
  }
  return WithoutBase(Rope(rng, s, n, false));
}

EncodingSpec Pixel(Rng& rng) {
  return WithoutBase(Rope(rng, PixelSchedule{rng.OneIn(2) ? 10.0 : rng.LogReal(0.5, 1000)}, Pairs(rng)));
}

EncodingSpec Pope(Rng& rng) {
  PopeSpec pope;
  pope.head_dim = Pairs(rng);
  if (rng.OneIn(2)) pope.base = rng.LogReal(1.5, 1e7);
  if (rng.OneIn(2)) {
    std::vector<int64_t> shape = {pope.head_dim};
    if (rng.OneIn(2)) shape.insert(shape.begin(), rng.Int(1, 5));
    pope.delta = RandomWeight(rng, std::move(shape), 8);
  }
  return pope;
}

EncodingSpec Fope(Rng& rng) {
  FopeSpec fope;
  fope.head_dim = 2 * Pairs(rng);
  fope.training_length = rng.LogInt(7, 1 << 16);
  const double base = rng.LogReal(1.5, 1e7);
  fope.base = base;
  // How many frequencies are kept is decided in IEEE double on correctly rounded ones.
  int64_t kept = 0;
  for (const Wide& f : RopeFrequencies(base, fope.head_dim, fope.head_dim / 2)) {
    kept += ToDouble(f) > 2 * std::numbers::pi / static_cast<double>(fope.training_length) ? 1 : 0;
  }
  const std::vector<int64_t> shape = {rng.Int(1, 4), std::max<int64_t>(1, kept), rng.Int(1, fope.head_dim / 2)};
  fope.cos_coef = RandomWeight(rng, shape);
  fope.sin_coef = RandomWeight(rng, shape);
  return fope;
}

}  // namespace

std::vector<SpecGenerator> RopeGenerators() {
  return {{"rope_default", &Default},
          {"rope_linear", &Linear},
          {"rope_ntk_aware", &NtkAware},
          {"rope_dynamic_ntk", &DynamicNtk},
          {"rope_yarn", &Yarn},
          {"rope_llama3", &Llama3},
          {"rope_longrope", &LongRope},
          {"rope_proportional", &Proportional},
          {"rope_qwen1_ntk", &Qwen1Ntk},
          {"rope_ntk_mixed", &NtkMixed},
          {"rope_freq_factors", &FreqFactors},
          {"rope_inv_freq", &InvFreq},
          {"rope_pixel", &Pixel},
          {"pope", &Pope},
          {"fope", &Fope}};
}

std::vector<SpecGenerator> SpecGenerators() {
  std::vector<SpecGenerator> all;
  for (const auto& group : {RopeGenerators(), TableGenerators(), BiasGenerators(), TermGenerators()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

}  // namespace phasor
