// Schedules with a ramp between frequencies that are kept and frequencies that are divided.
#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "server/knowledge/angle_schedules.h"
#include "server/knowledge/round_numbers.h"

namespace phasor::server {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;
constexpr std::array<int64_t, 14> kLengths{4096, 8192, 32768,  2048,  16384,  65536,   131072,
                                           1024, 512,  262144, 40960, 524288, 1048576, 12288};
constexpr std::array kFactors{2.0, 4.0, 8.0, 16.0, 32.0, 40.0, 64.0, 3.0, 6.0, 10.0, 12.0, 1.5, 2.5, 20.0};
constexpr size_t kMost = 10;

struct Betas {
  double fast = 0, slow = 0;
};
// The last ones are the usual ones swapped.
constexpr std::array<Betas, 10> kBetas{
    {{32, 1}, {64, 1}, {16, 1}, {8, 1}, {32, 2}, {16, 2}, {32, 4}, {8, 2}, {1, 32}, {1, 64}}};

// What is left of every frequency of a base: 1 where it is kept, 1/s where it is divided.
struct Kept {
  const FrequencyList& list;
  double base = 0;
  std::vector<double> theta, share;

  // A ramp slows pairs down, if anything.
  bool CanBe() const {
    for (size_t i = 0; i < share.size(); ++i) {
      if (list.is_known(i) && share[i] > 1 + list.tolerance(i)) return false;
    }
    return true;
  }
};

Kept KeptOf(const FrequencyList& list, double base) {
  Kept kept{list, base, {}, {}};
  const double n = static_cast<double>(list.pairs());
  for (size_t i = 0; i < list.value.size(); ++i) {
    kept.theta.push_back(std::exp(-std::log(base) * static_cast<double>(i) / n));
    kept.share.push_back(list.value[i] / kept.theta.back());
  }
  return kept;
}

// The factor that makes these frequencies with a ramp r_i; 0: none does.
template <typename Ramp>
double FactorFor(const Kept& kept, Ramp&& ramp, double& error) {
  double r_max = 0, least = 1, most = 0;
  size_t at = 0;
  for (size_t i = 0; i < kept.share.size(); ++i) {
    const double r = ramp(i);
    least = std::min(least, r), most = std::max(most, r);
    if (kept.list.is_known(i) && r / kept.list.error[i] > r_max) r_max = r / kept.list.error[i], at = i;
  }
  // One factor on all of them is no ramp.
  if (r_max == 0 || least == most) return 0;
  const double r = ramp(at), inverse = 1 - (1 - kept.share[at]) / r;
  const double tolerance = kept.list.tolerance(at) * kept.share[at] / r;
  if (!(inverse > tolerance) || inverse > 1 - 4 * tolerance || inverse > 0.999) return 0;
  for (size_t i = 0; i < kept.share.size(); ++i) {
    if (!kept.list.is_known(i)) continue;
    const double predicted = 1 - ramp(i) * (1 - inverse);
    if (std::fabs(kept.share[i] / predicted - 1) > kept.list.tolerance(i) + ramp(i) * tolerance / predicted) return 0;
  }
  error = tolerance / (inverse * inverse);
  return 1 / inverse;
}

struct Ends {
  double low = 0, high = 0;

  double operator()(size_t i) const {
    return std::clamp((static_cast<double>(i) - low) / (low == high ? 0.001 : high - low), 0.0, 1.0);
  }
};

Ends EndsOf(const Kept& kept, double length, const Betas& betas, bool truncate) {
  const double n = static_cast<double>(kept.theta.size()), per_ln = n / std::log(kept.base);
  Ends ends{per_ln * std::log(length / (betas.fast * kTwoPi)), per_ln * std::log(length / (betas.slow * kTwoPi))};
  if (truncate) ends = {std::floor(ends.low), std::ceil(ends.high)};
  return {std::max(ends.low, 0.0), std::min(ends.high, 2 * n - 1)};
}

void AddYarn(const Kept& kept, double factor, double error, int64_t length, const Betas& betas, bool truncate,
             std::vector<Candidate>& out) {
  for (double s : Candidates(factor, error, kFactors)) {
    RopeSpec rope;
    rope.head_dim = 2 * kept.list.pairs();
    rope.base = kept.base;
    YarnSchedule yarn;
    yarn.factor = s;
    yarn.original_max_position = length;
    if (betas.fast != 32) yarn.beta_fast = betas.fast;
    if (betas.slow != 1) yarn.beta_slow = betas.slow;
    if (!truncate) yarn.truncate = false;
    rope.schedule = yarn;
    out.push_back(
        {rope, std::nullopt, "other original lengths and betas with the same ends of the ramp give the same numbers"});
  }
}

void AddUsualYarn(const Kept& kept, std::vector<Candidate>& out) {
  for (const Betas& betas : kBetas) {
    for (int64_t length : kLengths) {
      for (bool truncate : {true, false}) {
        if (out.size() > kMost) return;
        double error = 0;
        const double factor = FactorFor(kept, EndsOf(kept, static_cast<double>(length), betas, truncate), error);
        if (factor > 0) AddYarn(kept, factor, error, length, betas, truncate, out);
      }
    }
  }
}

// The ends from the pairs inside the ramp, and lengths and betas from them.
void AddUnusualYarn(const Kept& kept, std::vector<Candidate>& out) {
  const size_t n = kept.share.size();
  if (n < 4 || !kept.list.is_known(n - 1) || !kept.list.is_known(n - 2)) return;
  const double inverse = kept.share[n - 1];
  if (std::fabs(kept.share[n - 2] / inverse - 1) > kept.list.tolerance(n - 1) + kept.list.tolerance(n - 2)) return;
  if (inverse > 0.98) return;
  double count = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < n; ++i) {
    const double r = (1 - kept.share[i]) / (1 - inverse), slack = 4 * kept.list.tolerance(i) / (1 - inverse);
    if (!kept.list.is_known(i) || r < slack || r > 1 - slack) continue;
    const double at = static_cast<double>(i);
    count += 1, x += at, y += r, xx += at * at, xy += at * r;
  }
  if (count < 2) return;
  const double slope = (count * xy - x * y) / (count * xx - x * x), intercept = (y - slope * x) / count;
  Ends ends{-intercept / slope, (1 - intercept) / slope};
  const bool truncate =
      std::fabs(ends.low - std::round(ends.low)) < 1e-3 && std::fabs(ends.high - std::round(ends.high)) < 1e-3;
  if (truncate) ends = {std::round(ends.low), std::round(ends.high)};
  double error = 0;
  const double factor = FactorFor(kept, ends, error);
  if (factor == 0) return;
  const double pairs = static_cast<double>(n), ln_base = std::log(kept.base), inside = truncate ? 0.5 : 0;
  const double low = kTwoPi * std::exp(ln_base * (ends.low + inside) / pairs);
  const double high = kTwoPi * std::exp(ln_base * (ends.high - inside) / pairs);
  if (truncate) {
    for (int64_t length : kLengths) {
      const auto turns = static_cast<double>(length);
      AddYarn(kept, factor, error, length,
              {Roundest(turns / low, turns / low * 0.02), Roundest(turns / high, turns / high * 0.02)}, true, out);
      if (const Ends now =
              EndsOf(kept, turns,
                     {std::get<YarnSchedule>(std::get<RopeSpec>(out.back().spec).schedule).beta_fast.value_or(32),
                      std::get<YarnSchedule>(std::get<RopeSpec>(out.back().spec).schedule).beta_slow.value_or(1)},
                     true);
          now.low == ends.low && now.high == ends.high) {
        return;
      }
      out.pop_back();
    }
    return;
  }
  // β_fast 32 says the length, which then says β_slow.
  const double length = std::max(1.0, std::round(low * 32));
  AddYarn(kept, factor, error, static_cast<int64_t>(length), {length / low, length / high}, false, out);
  AddYarn(kept, factor, error, static_cast<int64_t>(length), {Roundest(length / low, 1e-3), Roundest(length / high, 1e-3)},
          false, out);
}

double Llama3Ramp(double theta, double length, double low, double high) {
  return 1 - std::clamp((length * theta / kTwoPi - low) / (high - low), 0.0, 1.0);
}

void AddLlama3(const Kept& kept, double factor, double error, double length, double low, double high,
               std::vector<Candidate>& out) {
  for (double s : Candidates(factor, error, kFactors)) {
    RopeSpec rope;
    rope.head_dim = 2 * kept.list.pairs();
    rope.base = kept.base;
    rope.schedule = Llama3Schedule{s, low, high, static_cast<int64_t>(length)};
    out.push_back(
        {rope, std::nullopt, "other lengths with the same quotients by low_freq_factor and high_freq_factor give the same"});
  }
}

void AddUsualLlama3(const Kept& kept, std::vector<Candidate>& out) {
  for (int64_t length : kLengths) {
    for (const auto& [low, high] : {std::pair{1.0, 4.0}, {1.0, 2.0}, {2.0, 4.0}, {1.0, 8.0}, {2.0, 8.0}, {1.0, 32.0}}) {
      if (out.size() > kMost) return;
      const auto turns = static_cast<double>(length);
      double error = 0;
      const auto ramp = [&](size_t i) { return Llama3Ramp(kept.theta[i], turns, low, high); };
      const double factor = FactorFor(kept, ramp, error);
      if (factor > 0) AddLlama3(kept, factor, error, turns, low, high, out);
    }
  }
}

// Blended pairs lie on a line over the frequency.
void AddUnusualLlama3(const Kept& kept, std::vector<Candidate>& out) {
  const size_t n = kept.share.size();
  if (n < 4 || !kept.list.is_known(n - 1)) return;
  const double inverse = kept.share[n - 1];
  double count = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (size_t i = 0; i < n; ++i) {
    const double t = (kept.share[i] - inverse) / (1 - inverse), slack = 4 * kept.list.tolerance(i) / (1 - inverse);
    if (!kept.list.is_known(i) || t < slack || t > 1 - slack) continue;
    // Both relative, so that fast pairs do not hide slow ones.
    const double at = kept.theta[i];
    count += 1, x += at, y += t, xx += at * at, xy += at * t;
  }
  if (count < 2 || inverse > 0.98) return;
  const double slope = (count * xy - x * y) / (count * xx - x * x), intercept = (y - slope * x) / count;
  double error = 0;
  const auto ramp = [&](size_t i) { return 1 - std::clamp(slope * kept.theta[i] + intercept, 0.0, 1.0); };
  const double factor = FactorFor(kept, ramp, error);
  if (factor == 0) return;
  for (int64_t length : {int64_t{8192}, int64_t{4096}}) {
    const double width = static_cast<double>(length) / (kTwoPi * slope), low = -intercept * width;
    AddLlama3(kept, factor, error, static_cast<double>(length), Roundest(low, 1e-4 * low),
              Roundest(low + width, 1e-4 * width), out);
    AddLlama3(kept, factor, error, static_cast<double>(length), low, low + width, out);
  }
}

}  // namespace

void AddRampCandidates(const FrequencyList& list, std::vector<Candidate>& out) {
  std::vector<double> bases = BaseCandidates(list);
  for (double base : KnownBases()) {
    if (std::find(bases.begin(), bases.end(), base) == bases.end()) bases.push_back(base);
  }
  std::vector<Candidate> found;
  for (double base : bases) {
    const Kept kept = KeptOf(list, base);
    if (!kept.CanBe()) continue;
    AddUsualLlama3(kept, found);
    AddUsualYarn(kept, found);
  }
  for (size_t k = 0; k < bases.size() && found.empty() && k < 6; ++k) {
    const Kept kept = KeptOf(list, bases[k]);
    AddUnusualYarn(kept, found);
    AddUnusualLlama3(kept, found);
  }
  out.insert(out.end(), found.begin(), found.end());
}

}  // namespace phasor::server
