// What a difference of two encodings does to attention scores.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>

#include "server/knowledge/compare.h"
#include "server/knowledge/sums.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxSamples = 64, kMinSamples = 4;
constexpr int64_t kDistancesShown = 64;
constexpr int64_t kOffsetsTaken = 4096;
constexpr int64_t kSampleChannels = int64_t{1} << 15;  // samples × pairs, which bounds the work of a distance
constexpr int64_t kBiasWidth = 64;                     // channels of q and k beside a bias

// SplitMix64: the same numbers on every machine.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  double Uniform() {  // in (0, 1)
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (static_cast<double>(z >> 11) + 0.5) * 0x1p-53;
  }

  // A direction, uniform over the sphere.
  std::vector<double> UnitVector(int64_t width) {
    std::vector<double> vector(static_cast<size_t>(width));
    double squares = 0;
    for (double& value : vector) {
      value = std::sqrt(-2 * std::log(Uniform())) * std::cos(2 * std::numbers::pi * Uniform());
      squares += value * value;
    }
    for (double& value : vector) value /= std::sqrt(squares);
    return vector;
  }

 private:
  uint64_t state_;
};

struct Accumulated {
  Sums changes, scores;

  void Add(double before, double after) {
    changes.Add(after - before);
    scores.Add(before);
  }
};

ScoreEffect Summarize(int64_t samples, std::span<const int64_t> distances, std::span<const Accumulated> sums) {
  ScoreEffect effect;
  effect.samples = samples;
  Sums changes, scores;
  for (size_t i = 0; i < sums.size(); ++i) {
    effect.by_distance.push_back({distances[i], sums[i].changes.max, sums[i].changes.rms()});
    changes.Add(sums[i].changes);
    scores.Add(sums[i].scores);
  }
  effect.max_change = changes.max;
  effect.rms_change = changes.rms();
  effect.rms_score = scores.rms();
  return effect;
}

// One rotation, ready to score: the query at the last row, keys before it.
class Rotator {
 public:
  Rotator(const Side& side, const Entries& entries, Pairing pairing)
      : entries_(entries),
        half_split_(pairing == Pairing::kHalfSplit),
        pairs_(entries.columns() / side.heads),
        xpos_(side.xpos) {}

  // q·k of a query at row i and a key at row j of the entries.
  double Score(const std::vector<double>& q, const std::vector<double>& k, int64_t i, int64_t j, int64_t head) const {
    double score = 0;
    for (int64_t p = 0; p < pairs_; ++p) {
      const size_t x = static_cast<size_t>(half_split_ ? p : 2 * p),
                   y = static_cast<size_t>(half_split_ ? p + pairs_ : 2 * p + 1);
      const int64_t column = head * pairs_ + p;
      const double ci = entries_.first.at(i, column), si = entries_.second.at(i, column);
      const double cj = entries_.first.at(j, column), sj = entries_.second.at(j, column);
      score += Decay(p, i - j) *
               ((q[x] * ci - q[y] * si) * (k[x] * cj - k[y] * sj) + (q[y] * ci + q[x] * si) * (k[y] * cj + k[x] * sj));
    }
    return score;
  }

 private:
  // xPos: ζ^(distance/scale_base).
  double Decay(int64_t pair, int64_t distance) const {
    if (!xpos_) return 1;
    const double d = 2 * static_cast<double>(pairs_);
    const double zeta = (2 * static_cast<double>(pair) + 0.4 * d) / (1.4 * d);
    return std::pow(zeta, static_cast<double>(distance) / xpos_->scale_base.value_or(512));
  }

  const Entries& entries_;
  bool half_split_;
  int64_t pairs_;
  std::optional<XposScale> xpos_;
};

ScoreEffect RotationEffect(const Side& a, const Side& b, const Entries& ea, const Entries& eb, uint64_t seed) {
  // Where one side does not say its pairing, it is taken to be the other's.
  const Pairing pairing_a = a.pairing.value_or(b.pairing.value_or(Pairing::kHalfSplit));
  const Rotator rotate_a(a, ea, pairing_a), rotate_b(b, eb, b.pairing.value_or(pairing_a));
  const int64_t pairs = ea.columns() / a.heads, last = ea.rows() - 1;
  const int64_t samples = std::clamp(kSampleChannels / ea.columns(), kMinSamples, kMaxSamples);
  const std::vector<int64_t> distances = SpacedOut(last + 1, kDistancesShown);
  std::vector<Accumulated> sums(distances.size());
  Random random(seed);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const std::vector<double> q = random.UnitVector(2 * pairs), k = random.UnitVector(2 * pairs);
    for (size_t d = 0; d < distances.size(); ++d) {
      const int64_t key = last - distances[d];
      for (int64_t head = 0; head < a.heads; ++head)
        sums[d].Add(rotate_a.Score(q, k, last, key, head), rotate_b.Score(q, k, last, key, head));
    }
  }
  return Summarize(samples, distances, sums);
}

double Softplus(double x) { return std::log1p(std::exp(x)); }

// Σ softplus(q)·softplus(k)·cos(angle of q − angle of k), a query at row i and a key at row j.
double PolarScore(const Entries& e, int64_t head, int64_t width, const std::vector<double>& q, const std::vector<double>& k,
                  int64_t i, int64_t j) {
  double score = 0;
  for (int64_t c = 0; c < width; ++c) {
    const int64_t of_query = 2 * head * width + c, of_key = of_query + width;
    const double turned =
        e.first.at(i, of_query) * e.first.at(j, of_key) + e.second.at(i, of_query) * e.second.at(j, of_key);
    score += Softplus(q[static_cast<size_t>(c)]) * Softplus(k[static_cast<size_t>(c)]) * turned;
  }
  return score;
}

ScoreEffect PolarEffect(const Side& a, const Entries& ea, const Entries& eb, uint64_t seed) {
  const int64_t width = ea.columns() / (2 * a.heads), last = ea.rows() - 1;
  const int64_t samples = std::clamp(kSampleChannels / ea.columns(), kMinSamples, kMaxSamples);
  const std::vector<int64_t> distances = SpacedOut(last + 1, kDistancesShown);
  std::vector<Accumulated> sums(distances.size());
  Random random(seed);
  for (int64_t sample = 0; sample < samples; ++sample) {
    const std::vector<double> q = random.UnitVector(width), k = random.UnitVector(width);
    for (size_t d = 0; d < distances.size(); ++d) {
      const int64_t key = last - distances[d];
      for (int64_t head = 0; head < a.heads; ++head)
        sums[d].Add(PolarScore(ea, head, width, q, k, last, key), PolarScore(eb, head, width, q, k, last, key));
    }
  }
  return Summarize(samples, distances, sums);
}

ScoreEffect BiasEffect(const Side& a, const Entries& ea, const Entries& eb, int64_t first, uint64_t seed) {
  // Offsets in a window are in no order of distance: all of them count, up to a number that bounds the work.
  const std::vector<int64_t> distances = SpacedOut(ea.rows(), a.window ? kOffsetsTaken : kDistancesShown);
  std::vector<Accumulated> sums(distances.size());
  Random random(seed);
  for (int64_t sample = 0; sample < kMaxSamples; ++sample) {
    const std::vector<double> q = random.UnitVector(kBiasWidth), k = random.UnitVector(kBiasWidth);
    double product = 0;
    for (size_t c = 0; c < q.size(); ++c) product += q[c] * k[c];
    for (size_t d = 0; d < distances.size(); ++d) {
      for (int64_t head = 0; head < ea.columns(); ++head) {
        sums[d].Add(product + ea.first.at(distances[d], head), product + eb.first.at(distances[d], head));
      }
    }
  }
  ScoreEffect effect = Summarize(kMaxSamples, distances, sums);
  for (DifferenceAt& at : effect.by_distance) at.index += first;
  if (a.window) effect.by_distance.clear();
  return effect;
}

}  // namespace

std::optional<ScoreEffect> EffectOnScores(const Side& a, const Side& b, const Entries& ea, const Entries& eb,
                                          const RowWindow& window, uint64_t seed) {
  if (a.family == Family::kBias || a.family == Family::kWindow) return BiasEffect(a, ea, eb, window.first, seed);
  const bool halves = ea.first.rows > 0 && ea.second.rows > 0 && eb.first.rows > 0 && eb.second.rows > 0;
  if (a.family == Family::kTable || !halves) return std::nullopt;
  if (a.family == Family::kPolar) return PolarEffect(a, ea, eb, seed);
  return RotationEffect(a, b, ea, eb, seed);
}

}  // namespace phasor::server
