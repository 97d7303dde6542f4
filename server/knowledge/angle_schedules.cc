#include "server/knowledge/angle_schedules.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "server/knowledge/round_numbers.h"

namespace phasor::server {
namespace {

// Numbers that people stretch contexts by.
constexpr std::array kFactors{2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0, 3.0, 6.0, 10.0, 12.0, 1.5, 2.5, 20.0, 1000.0};

Line Solve(const FrequencyList& list, int64_t begin, int64_t end, bool from_one) {
  double w = 0, wx = 0, wy = 0, wxx = 0, wxy = 0;
  Line line;
  for (int64_t i = begin; i < end; ++i) {
    const auto k = static_cast<size_t>(i);
    if (!list.is_known(k)) continue;
    const double sigma = list.error[k] + list.floor / 2, weight = 1 / (sigma * sigma), x = static_cast<double>(i);
    const double y = std::log(list.value[k]);
    w += weight, wx += weight * x, wy += weight * y, wxx += weight * x * x, wxy += weight * x * y;
    ++line.used;
  }
  if (line.used < 2 && !(from_one && line.used == 1 && wxx > 0)) {
    line.worst = HUGE_VAL;
    return line;
  }
  if (from_one) {
    line.slope = -wxy / wxx;
    line.slope_error = 1 / std::sqrt(wxx);
  } else {
    const double determinant = w * wxx - wx * wx;
    line.slope = -(w * wxy - wx * wy) / determinant;
    line.intercept = (wy + line.slope * wx) / w;
    line.slope_error = std::sqrt(w / determinant);
    line.intercept_error = std::sqrt(wxx / determinant);
  }
  for (int64_t i = begin; i < end; ++i) {
    const auto k = static_cast<size_t>(i);
    if (!list.is_known(k)) continue;
    const double deviation = std::fabs(std::log(list.value[k]) - line.intercept + line.slope * static_cast<double>(i));
    line.worst = std::max(line.worst, deviation / list.tolerance(k));
  }
  return line;
}

void AddGeometric(const FrequencyList& list, const Line& line, std::vector<Candidate>& out) {
  const double n = static_cast<double>(list.pairs());
  const double base = std::exp(line.slope * n), error = 5 * base * (line.slope_error * n + list.floor);
  RopeSpec rope;
  rope.head_dim = 2 * list.pairs();
  const double slack = 5 * line.intercept_error + list.floor;
  const bool is_plain = std::fabs(line.intercept) <= slack;
  const std::vector<double> bases = Candidates(base, error, KnownBases());
  if (is_plain) {
    rope.schedule = DefaultSchedule{};
    const bool is_round = DigitsOf(bases[0]) <= 4;
    if (!is_round) AddNtkCandidates(list, base, error, out);
    for (double b : bases) {
      rope.base = b;
      const bool is_raised = DigitsOf(b) > 4;
      out.push_back({rope, std::nullopt,
                     is_raised ? "NTK-aware, dynamic and Qwen-1 scaling of a smaller base give the same numbers" : ""});
    }
  }
  if (is_plain && slack < 1e-3) return;
  const double factor = std::exp(-line.intercept);
  for (double s : Candidates(factor, factor * slack, kFactors)) {
    if (s == 1) continue;
    rope.schedule = LinearSchedule{s};
    for (double b : bases) {
      rope.base = b;
      out.push_back({rope, std::nullopt, "positions divided by the factor give the same numbers"});
      if (out.size() > 24) return;
    }
  }
  // Su's fixed form: (s·base)^(−2i/d)/s^(2/d).
  const double s = std::exp(-line.intercept * n), s_error = s * n * slack;
  if (!(s > 1) || s_error > 0.01 * s) return;
  for (double candidate : Candidates(s, s_error, kFactors)) {
    if (DigitsOf(candidate) > 4) continue;
    rope.schedule = NtkMixedSchedule{.factor = candidate, .mixed_b = std::nullopt};
    rope.base = Roundest(base / candidate, error / candidate);
    out.push_back({rope, std::nullopt, ""});
  }
}

// A base with its spacing: exponents over half the width, or over one pair less.
struct Spaced {
  double base = 0;
  bool endpoint = false;
};

// Fast pairs of a large scale turn by more than half a circle a row: the slow ones say how often.
FrequencyList Unwrapped(const FrequencyList& list) {
  FrequencyList turns = list;
  for (int64_t i = turns.pairs() - 3; i >= 0; --i) {
    const auto k = static_cast<size_t>(i);
    const Line line = FitLine(turns, i + 1, std::min(turns.pairs(), i + 9));
    if (line.used < 2) break;
    const double expected = std::exp(line.intercept - line.slope * static_cast<double>(i));
    if (expected < 3) continue;
    constexpr double kTwoPi = 6.283185307179586;
    const double absolute = turns.error[k] * std::fabs(turns.value[k]) + turns.rounding * expected;
    turns.value[k] += kTwoPi * std::round((expected - turns.value[k]) / kTwoPi);
    turns.error[k] = absolute / turns.value[k];
  }
  return turns;
}

TimestepSpec StepOf(const AbsoluteForm& form) {
  TimestepSpec step;
  step.dim = form.columns;
  step.flip_sin_to_cos = form.cos_first;
  return step;
}

// With shift 1 or 0.
void AddTimesteps(const FrequencyList& list, const Line& line, const AbsoluteForm& form, const Spaced& spaced,
                  std::vector<Candidate>& out) {
  const bool is_odd = form.columns % 2 != 0;
  if (form.interleaved || (is_odd && !form.zero_column)) return;
  TimestepSpec step = StepOf(form);
  step.max_period = spaced.base;
  if (is_odd && !spaced.endpoint) {
    // Of an odd width the step's divisor is the smaller half.
    const double half = static_cast<double>(form.columns / 2), period = std::exp(line.slope * half);
    step.max_period = Roundest(period, 5 * period * (line.slope_error * half + list.floor));
  }
  step.downscale_freq_shift = spaced.endpoint ? 1 : 0;
  const double scale = std::exp(line.intercept), error = 5 * line.intercept_error + list.floor;
  for (double c : Candidates(std::fabs(line.intercept) <= error ? 1 : scale, scale * error, kFactors)) {
    step.scale = c;
    out.push_back({step, std::nullopt, ""});
  }
}

// With any other shift: the one that makes 10000 of the slope.
void AddShifted(const FrequencyList& list, const Line& line, const AbsoluteForm& form, std::vector<Candidate>& out) {
  if (form.interleaved) return;
  const double half = static_cast<double>(form.columns / 2);
  TimestepSpec step = StepOf(form);
  step.max_period = 10000;
  const double shift = half - std::log(10000.0) / line.slope;
  step.downscale_freq_shift = Roundest(shift, 5 * half * (line.slope_error / line.slope + list.floor));
  const double scale = std::exp(line.intercept), error = 5 * line.intercept_error + list.floor;
  step.scale = std::fabs(line.intercept) <= error ? 1 : Roundest(scale, scale * error);
  if (*step.downscale_freq_shift < half - 0.5) out.push_back({step, std::nullopt, ""});
}

}  // namespace

Line FitLine(const FrequencyList& list, int64_t begin, int64_t end) { return Solve(list, begin, end, false); }
Line FitLineFromOne(const FrequencyList& list, int64_t begin, int64_t end) { return Solve(list, begin, end, true); }

std::vector<double> BaseCandidates(const FrequencyList& list) {
  const int64_t pairs = list.pairs();
  const double n = static_cast<double>(pairs);
  std::vector<double> bases;
  const auto add = [&](const Line& line) {
    const double base = std::exp(line.slope * n);
    if (!std::isfinite(base) || base <= 1) return;
    for (double b : Candidates(base, 5 * base * (line.slope_error * n + list.floor), KnownBases())) {
      if (std::find(bases.begin(), bases.end(), b) == bases.end()) bases.push_back(b);
    }
  };
  // The longest run from the first pair, and the longest run to the last one.
  for (int64_t end = pairs; end >= 2; --end) {
    const Line line = FitLineFromOne(list, 0, end);
    if (line.worst > 1) continue;
    add(line);
    break;
  }
  for (int64_t begin = 0; begin + 3 <= pairs; ++begin) {
    const Line line = FitLine(list, begin, pairs);
    if (line.worst > 1 || line.used < 3) continue;
    add(line);
    break;
  }
  return bases;
}

RopeSpec GivenFrequencies(const std::vector<double>& frequencies) {
  RopeSpec rope;
  rope.head_dim = 2 * static_cast<int64_t>(frequencies.size());
  rope.schedule = InvFreqSchedule{frequencies};
  return rope;
}

std::vector<Candidate> RopeCandidates(const FrequencyList& list) {
  std::vector<Candidate> out;
  if (list.pairs() < 2) return out;
  const Line from_one = FitLineFromOne(list, 0, list.pairs());
  const Line line = FitLine(list, 0, list.pairs());
  if (from_one.worst <= 1) AddGeometric(list, from_one, out);
  if (line.worst <= 1) AddGeometric(list, line, out);
  if (out.empty() || list.error.back() > 0.3) AddRampCandidates(list, out);
  const bool has_zeros = std::find(list.value.begin(), list.value.end(), 0.0) != list.value.end();
  if (out.empty() || line.worst > 1 || has_zeros) AddRareCandidates(list, out);
  return out;
}

std::vector<Candidate> AbsoluteCandidates(const FrequencyList& list, const AbsoluteForm& form) {
  std::vector<Candidate> out;
  const FrequencyList turns = Unwrapped(list);
  Line line = FitLineFromOne(turns, 0, turns.pairs());
  if (line.worst > 1) line = FitLine(turns, 0, turns.pairs());
  if (line.worst > 1 || !(line.slope > 0)) return out;
  const bool is_plain = std::fabs(line.intercept) <= 5 * line.intercept_error + list.floor;
  const double half = static_cast<double>(form.columns / 2), whole = static_cast<double>(form.columns) / 2;
  std::vector<Spaced> spaced;
  for (const auto& [width, endpoint] : {std::pair{whole, false}, std::pair{half - 1, true}}) {
    const double base = std::exp(line.slope * width), error = 5 * base * (line.slope_error * width + list.floor);
    for (double b : Candidates(base, error, KnownBases())) spaced.push_back({b, endpoint});
  }
  std::stable_sort(spaced.begin(), spaced.end(), [](const Spaced& a, const Spaced& b) {
    return (a.base == 10000 ? 0 : DigitsOf(a.base)) < (b.base == 10000 ? 0 : DigitsOf(b.base));
  });
  for (const Spaced& s : spaced) {
    const bool is_odd = form.columns % 2 != 0;
    const bool fits_width = !is_odd || (form.zero_column ? s.endpoint && !form.interleaved : !s.endpoint);
    if (!form.cos_first && is_plain && fits_width) {
      SinusoidalSpec sinusoidal;
      sinusoidal.dim = form.columns;
      sinusoidal.base = s.base;
      sinusoidal.layout = form.interleaved ? SinusoidalLayout::kInterleaved : SinusoidalLayout::kConcatenated;
      sinusoidal.spacing = s.endpoint ? SinusoidalSpacing::kEndpointInclusive : SinusoidalSpacing::kPaper;
      out.push_back({sinusoidal, std::nullopt, ""});
    }
    AddTimesteps(list, line, form, s, out);
  }
  AddShifted(list, line, form, out);
  return out;
}

}  // namespace phasor::server
