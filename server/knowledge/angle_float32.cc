#include "server/knowledge/angle_float32.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "server/knowledge/numbers.h"

namespace phasor::server {
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
    return UlpsApart(table_.dtype, have, RoundTo(table_.dtype, static_cast<double>(static_cast<float>(exact) * factor_)));
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

Float32Starts::Float32Starts(const PairTable& table, const Estimates& estimates, double amplitude)
    : table_(table), estimates_(estimates), factor_(static_cast<float>(amplitude)) {
  constexpr double kSlowest = 0.25;
  constexpr int64_t kMostRows = 32;
  const int64_t count = std::min(estimates.count, kMostRows);
  for (int64_t i = 0; i < table.pairs; ++i) {
    Pair pair{estimates.pairs[static_cast<size_t>(i)], {}};
    if (!pair.estimate.is_known() || pair.estimate.frequency < kSlowest) continue;
    for (int64_t k = 0; k < count; ++k) {  // the last rows first: the phase at the anchor fits any
      const int64_t row = estimates.first + estimates.count - 1 - k;
      for (bool is_cos : {true, false}) {
        const std::vector<double>& kind = is_cos ? table.cos : table.sin;
        if (kind.empty()) continue;
        const double have = kind[static_cast<size_t>(row * table.pairs + i)];
        pair.values.push_back({static_cast<double>(row), have, UlpOf(table.dtype, have), is_cos});
      }
    }
    pairs_.push_back(std::move(pair));
  }
}

bool Float32Starts::Makes(const Pair& pair, float frequency, double start) const {
  for (const Value& value : pair.values) {
    const auto angle = static_cast<double>(frequency * static_cast<float>(start + value.row));
    const auto made = static_cast<double>(static_cast<float>(value.is_cos ? std::cos(angle) : std::sin(angle)) * factor_);
    // Most are far off.
    if (std::fabs(value.have - made) > 3.01 * value.unit) return false;
    if (UlpsApart(table_.dtype, value.have, RoundTo(table_.dtype, made)) > 1) return false;
  }
  return true;
}

bool Float32Starts::PairAllows(const Pair& pair, int64_t start) {
  constexpr double kTwoPi = 2 * std::numbers::pi;
  constexpr int kMostFloats = 400;
  const PairEstimate& e = pair.estimate;
  const double position = static_cast<double>(start + estimates_.anchor), noise = RoundingNoise(table_.rounded_to);
  const double rounding = 0x1p-24 * position * e.frequency, off = 8 * e.phase_error + 4 * noise + 2 * rounding;
  const double reach = 8 * e.frequency_error + (8 * noise + 2 * rounding) / static_cast<double>(estimates_.count);
  const double last_angle = (e.frequency + reach) * position - e.phase;
  int tried = 0;
  for (double turn = std::ceil(((e.frequency - reach) * position - e.phase) / kTwoPi); kTwoPi * turn <= last_angle; ++turn) {
    const auto last = static_cast<float>((e.phase + kTwoPi * turn + off) / position);
    for (auto f = static_cast<float>((e.phase + kTwoPi * turn - off) / position); f <= last;
         f = std::nextafterf(f, HUGE_VALF)) {
      ++tried_;
      if (++tried > kMostFloats || Makes(pair, f, static_cast<double>(start))) return true;
    }
  }
  return false;
}

bool Float32Starts::Allows(int64_t start) {
  constexpr int64_t kMostTried = 4'000'000;
  return tried_ < kMostTried &&
         std::all_of(pairs_.begin(), pairs_.end(), [&](const Pair& pair) { return PairAllows(pair, start); });
}

}  // namespace phasor::server
