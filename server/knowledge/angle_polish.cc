#include "server/knowledge/angle_polish.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace phasor::server {
namespace {

// Up to 12 blocks of 16 rows.
std::vector<int64_t> RowsToFit(Rows rows) {
  constexpr int64_t kBlocks = 12, kEach = 16;
  std::vector<int64_t> picked;
  const int64_t count = rows.end - rows.begin;
  for (int64_t block = 0; block < kBlocks; ++block) {
    const int64_t begin =
        count <= kBlocks * kEach ? rows.begin + block * kEach : rows.begin + block * (count - kEach) / (kBlocks - 1);
    for (int64_t row = begin; row < std::min(begin + kEach, rows.end); ++row) picked.push_back(row);
  }
  return picked;
}

double WeightOf(DType dtype, double value) {
  const double unit = std::max(UlpOf(dtype, value), UlpOf(dtype, std::ldexp(1.0, -12)) * 1e-6);
  return 1 / (unit * unit);
}

}  // namespace

absl::StatusOr<PolishStep> StepOf(const Backend& backend, const PairTable& table, const AnglePlan& plan, int64_t start,
                                  Rows rows) {
  const std::vector<int64_t> picked = RowsToFit(rows);
  std::vector<int64_t> positions;
  for (int64_t row : picked) positions.push_back(start + row);
  const auto made = AnglesAt(backend, plan, positions, DType::kF64);
  if (!made.ok()) return made.status();
  PolishStep step;
  double of_amplitude = 0, amplitude_weight = 0;
  for (int64_t i = 0; i < table.pairs; ++i) {
    double sum = 0, weight = 0;
    for (size_t k = 0; k < picked.size(); ++k) {
      const auto at = static_cast<int64_t>(k);
      const double c = made->cos.at(at, i), s = made->sin.at(at, i);
      const double angle = plan.inv_freq[static_cast<size_t>(i)] * static_cast<double>(positions[k]);
      const auto add = [&](double have, double make, double slope) {
        const double w = WeightOf(table.dtype, have), residual = have - make, d = slope * angle;
        sum += w * residual * d, weight += w * d * d;
        of_amplitude += w * residual * make, amplitude_weight += w * make * make;
      };
      if (!table.cos.empty()) add(table.cos_at(picked[k], i), c, -s);
      if (!table.sin.empty()) add(table.sin_at(picked[k], i), s, c);
    }
    step.change.push_back(weight > 0 ? sum / weight : 0);
    step.weight.push_back(weight);
  }
  step.amplitude_change = amplitude_weight > 0 ? of_amplitude / amplitude_weight : 0;
  return step;
}

namespace {

// One pair's float32 frequency.
class Float32Pair {
 public:
  Float32Pair(const PairTable& table, int64_t pair, float factor, int64_t start, const std::vector<int64_t>& rows)
      : table_(table), pair_(pair), factor_(factor), start_(start), rows_(rows) {}

  // Units in the last place of the worst value; any number ≥ `enough` where it is not less.
  double WorstOf(float frequency, double enough) const {
    double worst = 0;
    for (int64_t row : rows_) {
      const double angle = static_cast<double>(frequency * static_cast<float>(start_ + row));
      if (!table_.cos.empty()) worst = std::max(worst, UlpsOf(table_.cos_at(row, pair_), std::cos(angle)));
      if (!table_.sin.empty()) worst = std::max(worst, UlpsOf(table_.sin_at(row, pair_), std::sin(angle)));
      if (worst >= enough) break;
    }
    return worst;
  }

  // The middle, then farther floats to both sides.
  void SearchAround(double middle, double width, double& least, double& best) const {
    constexpr int kReach = 3, kMostReach = 64;
    const auto nearest = static_cast<float>(middle);
    // Of wide ranges, floats that are spread over them.
    const double unit =
        std::max(static_cast<double>(std::nextafterf(nearest, HUGE_VALF) - nearest), width / (2 * kMostReach));
    const int reach = static_cast<int>(std::min<double>(kMostReach, kReach + width / (2 * unit)));
    for (int k = 0; k <= 2 * reach && least > 0; ++k) {
      const auto f = static_cast<float>(static_cast<double>(nearest) + (k % 2 != 0 ? (k + 1) / 2 : -(k / 2)) * unit);
      const double worst = WorstOf(f, least);
      if (worst < least) least = worst, best = static_cast<double>(f);
    }
  }

 private:
  double UlpsOf(double have, double exact) const {
    const double make = RoundTo(table_.dtype, static_cast<double>(static_cast<float>(exact) * factor_));
    if (have == make) return 0;
    return std::fabs(have - make) / UlpOf(table_.dtype, std::max(std::fabs(have), std::fabs(make)));
  }

  const PairTable& table_;
  int64_t pair_;
  float factor_;
  int64_t start_;
  const std::vector<int64_t>& rows_;
};

}  // namespace

Float32Turns SearchFloat32(const PairTable& table, const std::vector<TurnRange>& ranges, double amplitude, int64_t start,
                           Rows rows) {
  constexpr int64_t kMostRows = 512;
  std::vector<int64_t> picked;
  const int64_t count = std::min(rows.end - rows.begin, kMostRows);
  for (int64_t k = 0; k < count; ++k) {
    picked.push_back(rows.begin + (count == 1 ? 0 : k * (rows.end - rows.begin - 1) / (count - 1)));
  }
  Float32Turns best;
  for (int64_t i = 0; i < table.pairs; ++i) {
    const TurnRange& range = ranges[static_cast<size_t>(i)];
    best.frequencies.push_back(range.frequency);
    if (!(static_cast<float>(range.frequency) > 0)) continue;
    const Float32Pair pair(table, i, static_cast<float>(amplitude), start, picked);
    double least = std::numeric_limits<double>::infinity();
    pair.SearchAround(range.frequency, range.width, least, best.frequencies.back());
    for (size_t k = 0; k < range.others.size() && least > 1; ++k) {
      pair.SearchAround(range.others[k], range.width, least, best.frequencies.back());
    }
    best.worst = std::max(best.worst, least);
  }
  return best;
}

bool AllowsFloat32(const PairTable& table, const Estimates& estimates, double amplitude, int64_t start) {
  constexpr double kTwoPi = 2 * std::numbers::pi, kSlowest = 0.25;
  constexpr int kMostFloats = 400;
  const auto position = static_cast<double>(start + estimates.anchor);
  std::vector<int64_t> rows{estimates.anchor};
  for (int64_t row = estimates.first; row < estimates.first + estimates.count; ++row) {
    if (row != estimates.anchor && rows.size() < 64) rows.push_back(row);
  }
  const double noise = RoundingNoise(table.rounded_to);
  for (int64_t i = 0; i < table.pairs; ++i) {
    const PairEstimate& e = estimates.pairs[static_cast<size_t>(i)];
    if (!e.is_known() || e.frequency < kSlowest) continue;
    const Float32Pair pair(table, i, static_cast<float>(amplitude), start, rows);
    const double rounding = 0x1p-24 * position * e.frequency, off = 8 * e.phase_error + 4 * noise + 2 * rounding;
    const double reach = 8 * e.frequency_error + (8 * noise + 2 * rounding) / static_cast<double>(estimates.count);
    bool any = false;
    int tried = 0;
    for (double turn = std::ceil(((e.frequency - reach) * position - e.phase) / kTwoPi);
         !any && kTwoPi * turn + e.phase <= (e.frequency + reach) * position && tried < kMostFloats; ++turn) {
      const auto last = static_cast<float>((e.phase + kTwoPi * turn + off) / position);
      for (auto f = static_cast<float>((e.phase + kTwoPi * turn - off) / position); !any && f <= last && tried < kMostFloats;
           f = std::nextafterf(f, HUGE_VALF)) {
        ++tried;
        any = pair.WorstOf(f, 1.0001) <= 1;
      }
    }
    if (!any && tried < kMostFloats) return false;
  }
  return true;
}

}  // namespace phasor::server
