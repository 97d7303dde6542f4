// Schedules that few models use.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "server/knowledge/angle_schedules.h"
#include "server/knowledge/round_numbers.h"

namespace phasor::server {
namespace {

// π·(1 + i·(max/2 − 1)/(n − 1)).
void AddPixel(const FrequencyList& list, std::vector<Candidate>& out) {
  const size_t n = list.value.size();
  if (n < 2 || !list.is_known(0) || !list.is_known(n - 1)) return;
  const double last = list.value[n - 1] / std::numbers::pi;
  for (size_t i = 0; i < n; ++i) {
    const double expected = std::numbers::pi * (1 + static_cast<double>(i) * (last - 1) / static_cast<double>(n - 1));
    const double difference = std::remainder(list.value[i] - expected, 2 * std::numbers::pi);
    if (std::fabs(difference) > (list.tolerance(i) + list.tolerance(n - 1)) * std::fabs(expected)) return;
  }
  for (double max : Candidates(2 * last, 2 * last * list.tolerance(n - 1), std::array{10.0, 256.0, 64.0})) {
    RopeSpec rope;
    rope.head_dim = 2 * list.pairs();
    rope.schedule = PixelSchedule{max};
    out.push_back({rope, std::nullopt, ""});
  }
}

// Live pairs base^(−2i/head_dim)/factor, then zeros.
void AddProportional(const FrequencyList& list, std::vector<Candidate>& out) {
  const int64_t pairs = list.pairs();
  int64_t live = 0;
  while (live < pairs && list.value[static_cast<size_t>(live)] != 0) ++live;
  if (live < 2 || live == pairs) return;
  for (int64_t i = live; i < pairs; ++i) {
    if (list.value[static_cast<size_t>(i)] != 0) return;
  }
  const Line line = FitLine(list, 0, live);
  if (line.worst > 1) return;
  const double n = static_cast<double>(pairs);
  const double base = std::exp(line.slope * n), error = 5 * base * (line.slope_error * n + list.floor);
  const double slack = 5 * line.intercept_error + list.floor, factor = std::exp(-line.intercept);
  double fraction = static_cast<double>(live) / n;
  if (std::floor(fraction * n) < static_cast<double>(live)) fraction = (static_cast<double>(live) + 0.25) / n;
  for (double b : Candidates(base, error, KnownBases())) {
    for (double s :
         Candidates(std::fabs(line.intercept) <= slack ? 1 : factor, factor * slack, std::array{1.0, 2.0, 4.0, 8.0})) {
      RopeSpec rope;
      rope.head_dim = 2 * pairs;
      rope.base = b;
      rope.schedule = ProportionalSchedule{fraction, s};
      out.push_back({rope, std::nullopt, "the last pairs do not turn"});
    }
  }
}

// ln f_i = −slope·i − a·(i + 1)^b for one b: least squares for slope and a. Returns the worst deviation over its tolerance.
double FitMixed(const FrequencyList& list, double b, double& slope, double& a) {
  double xx = 0, xz = 0, zz = 0, xy = 0, zy = 0;
  for (size_t i = 0; i < list.value.size(); ++i) {
    if (!list.is_known(i)) continue;
    const double sigma = list.error[i] + list.floor / 2, w = 1 / (sigma * sigma);
    const double x = static_cast<double>(i), z = std::pow(x + 1, b), y = -std::log(list.value[i]);
    xx += w * x * x, xz += w * x * z, zz += w * z * z, xy += w * x * y, zy += w * z * y;
  }
  const double determinant = xx * zz - xz * xz;
  slope = (xy * zz - zy * xz) / determinant;
  a = (zy * xx - xy * xz) / determinant;
  double worst = 0;
  for (size_t i = 0; i < list.value.size(); ++i) {
    if (!list.is_known(i)) continue;
    const double predicted = -slope * static_cast<double>(i) - a * std::pow(static_cast<double>(i) + 1, b);
    worst = std::max(worst, std::fabs(std::log(list.value[i]) - predicted) / list.tolerance(i));
  }
  return worst;
}

void AddMixed(const FrequencyList& list, std::vector<Candidate>& out) {
  if (list.pairs() < 4) return;
  double best = HUGE_VAL, best_b = 0;
  double slope = 0, a = 0;
  for (int step = 1; step <= 60; ++step) {
    const double b = 0.05 * step, worst = FitMixed(list, b, slope, a);
    if (worst < best && a > 0) best = worst, best_b = b;
  }
  if (best > 1) return;
  FitMixed(list, best_b, slope, a);
  const double n = static_cast<double>(list.pairs());
  double tightest = HUGE_VAL;
  for (size_t i = 0; i < list.value.size(); ++i) tightest = std::min(tightest, list.tolerance(i));
  const double b = Roundest(best_b, 1e-9), factor = std::exp(a * std::pow(n, b)), base = std::exp(slope * n);
  const double loose = std::min(0.02, 40 * n * tightest);
  for (double s : Candidates(factor, factor * loose, std::array{2.0, 4.0, 8.0, 16.0, 32.0})) {
    for (double number : Candidates(base, base * loose, KnownBases())) {
      RopeSpec rope;
      rope.head_dim = 2 * list.pairs();
      rope.base = number;
      rope.schedule = NtkMixedSchedule{.factor = s, .mixed_b = b};
      out.push_back({rope, std::nullopt, ""});
    }
  }
}

// θ of a base over factors of at most six digits; false: some factor needs more.
bool AddFactors(const FrequencyList& list, double base, std::vector<Candidate>& out) {
  std::vector<double> factors;
  const double step = -std::log(base) / static_cast<double>(list.pairs());
  for (size_t i = 0; i < list.value.size(); ++i) {
    const double factor = std::exp(step * static_cast<double>(i)) / list.value[i];
    const double error = factor * (list.tolerance(i) + 1e-14);
    const double unit = std::pow(10.0, std::ceil(std::log10(factor)) - 6);
    if (!(std::fabs(factor - unit * std::round(factor / unit)) <= error)) return false;
    // Where any number is round, the measured one.
    factors.push_back(error < 1e-6 * factor ? Roundest(factor, error) : factor);
  }
  RopeSpec rope;
  rope.head_dim = 2 * list.pairs();
  rope.base = base;
  rope.schedule = FreqFactorsSchedule{factors, std::nullopt};
  out.push_back({rope, std::nullopt, "LongRoPE with these factors gives the same numbers"});
  return true;
}

// By how much less than one in ten chance makes all factors round.
double DigitsToSpare(const FrequencyList& list) {
  double digits = 0;
  for (size_t i = 1; i < list.value.size(); ++i) digits += std::max(0.0, -6 - std::log10(2 * list.tolerance(i) + 2e-14));
  return digits;
}

}  // namespace

std::vector<Candidate> FactorCandidates(const FrequencyList& list) {
  std::vector<Candidate> out;
  const double digits = DigitsToSpare(list);
  if (digits < 4) return out;
  for (double base : KnownBases()) {
    if (AddFactors(list, base, out)) return out;
  }
  // Other bases of up to three digits, where the frequencies are known so well that chance does not make factors round.
  for (double unit = 1; unit <= 1e5 && digits > 8; unit *= 10) {
    for (int number = 100; number <= 999; ++number) {
      if (AddFactors(list, number * unit, out)) return out;
    }
  }
  return out;
}

void AddRareCandidates(const FrequencyList& list, std::vector<Candidate>& out) {
  AddProportional(list, out);
  AddPixel(list, out);
  AddMixed(list, out);
}

}  // namespace phasor::server
