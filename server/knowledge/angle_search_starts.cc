// What the search knows of starts, and of frequencies once there is one.
#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "server/knowledge/angle_polish.h"
#include "server/knowledge/angle_search.h"
#include "server/knowledge/round_numbers.h"

namespace phasor::server {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;

}  // namespace

void AngleSearch::AddStart(int64_t start) {
  if (std::find(starts_.begin(), starts_.end(), start) == starts_.end()) starts_.push_back(start);
}

FrequencyList AngleSearch::ListAt(int64_t start, std::vector<double>& nearest, bool float32) const {
  FrequencyList list;
  list.amplitude = estimates_.amplitude;
  list.amplitude_error = estimates_.amplitude_error;
  list.sequence_length = input_.sequence_length;
  const double position = static_cast<double>(start + estimates_.anchor);
  // Angles that were rounded to float32 lie up to half a unit beside a line, for rows on end on one side.
  const double unit = float32 ? 0x1p-24 * position : 0, rows = static_cast<double>(std::max<int64_t>(estimates_.count, 1));
  if (float32) {
    list.floor = 1.3e-7;
    list.rounding = 0.6 * unit / rows;
  }
  nearest.clear();
  for (const PairEstimate& pair : estimates_.pairs) {
    // Principal values: a turn more or less makes no difference at whole positions.
    double f = pair.frequency < 0 && -pair.frequency > 6 * pair.frequency_error ? pair.frequency + kTwoPi : pair.frequency;
    const double more = 0.25 * unit * std::fabs(f);
    double error = pair.frequency_error + list.rounding * std::fabs(f);
    double used = f;
    if (position > 0 && pair.is_known()) {
      const double whole = std::round((position * f - pair.phase) / kTwoPi);
      const double by_phase = (pair.phase + kTwoPi * whole) / position, phase_error = (pair.phase_error + more) / position;
      const double ambiguity = position * error;
      used = by_phase;
      if (ambiguity < 0.6 && phase_error < error) {
        const double w1 = 1 / (error * error), w2 = 1 / (phase_error * phase_error);
        f = (w1 * f + w2 * by_phase) / (w1 + w2);
        error = 1 / std::sqrt(w1 + w2);
        used = f;
      }
    }
    const bool is_still = std::fabs(f) <= 4 * error && error < 1 && used * position < 4 * pair.phase_error;
    nearest.push_back(std::max(0.0, used));
    list.value.push_back(is_still ? 0 : f);
    list.error.push_back(f > 0 && std::isfinite(error) ? error / f : 1e300);
  }
  if (!table_.has_both()) FillOneKind(start, list, nearest);
  return list;
}

// Of cosines or sines alone: the angle up to its sign and whole turns, of which the one nearest to a continued row counts.
void AngleSearch::FillOneKind(int64_t start, FrequencyList& list, std::vector<double>& nearest) const {
  const bool is_cos = !table_.cos.empty();
  const double position = static_cast<double>(start + estimates_.anchor), noise = RoundingNoise(table_.rounded_to);
  if (position <= 0) return;
  const Rows rows = stretch();
  for (size_t i = 0; i < list.value.size(); ++i) {
    if (list.is_known(i)) continue;
    const auto pair = static_cast<int64_t>(i);
    const auto value = [&](int64_t row) {
      return (is_cos ? table_.cos_at(row, pair) : table_.sin_at(row, pair)) / estimates_.amplitude;
    };
    double expected = i >= 2 ? nearest[i - 1] * nearest[i - 1] / nearest[i - 2] : (i == 1 ? nearest[0] / 4 : 1);
    if (!(expected > 0)) expected = 1e-6;
    const double first = std::clamp(value(estimates_.anchor), -1.0, 1.0);
    const double turn = is_cos ? std::acos(first) : std::asin(first);
    const double limit = std::min(3.2, i > 0 ? 1.2 * nearest[i - 1] : 3.2);
    double best = 0, best_score = HUGE_VAL;
    for (double whole = 0; kTwoPi * whole <= limit * position + kTwoPi; ++whole) {
      for (double angle : {kTwoPi * whole + turn, kTwoPi * whole + (is_cos ? -turn : std::numbers::pi - turn)}) {
        const double f = angle / position;
        if (f < 0 || f > limit) continue;
        double worst = 0;
        for (int64_t k = 0; k < 9; ++k) {
          const int64_t row = rows.begin + k * (rows.end - rows.begin - 1) / 8;
          const double at = f * static_cast<double>(start + row);
          worst = std::max(worst, std::fabs(value(row) - (is_cos ? std::cos(at) : std::sin(at))));
        }
        const double score = std::max(worst, 8 * noise) / noise + std::fabs(std::log(std::max(f, 1e-12) / expected)) * 0.1;
        if (score < best_score) best_score = score, best = f;
      }
      if (whole > 4000) break;
    }
    nearest[i] = best;
    const double slope = std::fabs(std::sin(is_cos ? turn : std::numbers::pi / 2 - turn)) * position;
    list.value[i] = best;
    list.error[i] = best > 0 && slope > 0 ? std::max(noise / slope, noise * 1e-3 / position) / best * 2 : 1e300;
  }
}

void AngleSearch::ScanFrom(const FrequencyList& list) {
  const double n = static_cast<double>(table_.pairs);
  const std::vector<double> bases = BaseCandidates(list);
  const int64_t row = stretch().begin;
  const std::vector<int64_t> rows{row, estimates_.anchor, stretch().end - 1};
  for (size_t k = 0; k < bases.size() && k < 4; ++k) {
    KnownTurns turns{{}, {}, estimates_.amplitude};
    int used = 0;
    for (size_t i = 0; i < list.value.size(); ++i) {
      const double theta = std::exp(-std::log(bases[k]) * static_cast<double>(i) / n);
      const bool fits = list.is_known(i) && std::fabs(std::log(list.value[i] / theta)) <= list.tolerance(i);
      turns.frequency.push_back(theta);
      turns.use.push_back(fits);
      used += fits ? 1 : 0;
    }
    if (used < 2) continue;
    const std::vector<int64_t> found = ScanPositions(table_, turns, rows, 0, kPositionLimit + row);
    for (size_t i = 0; i < found.size() && i < 3; ++i) AddStart(found[i] - row);
  }
}

void AngleSearch::FindStarts() {
  if (input_.table.first_position) AddStart(*input_.table.first_position);
  // Tables mostly start at 0, where every angle is 0.
  double at_zero = 0;
  for (const PairEstimate& pair : estimates_.pairs) {
    if (!pair.is_known()) continue;
    const double expected = pair.frequency * static_cast<double>(estimates_.anchor);
    const double slack = 8 * (pair.phase_error + pair.frequency_error * static_cast<double>(estimates_.anchor)) + 1e-3;
    at_zero = std::max(at_zero, std::fabs(std::remainder(expected - pair.phase, kTwoPi)) / slack);
  }
  if (at_zero <= 1) AddStart(0);
}

// Timesteps times 1000 in float32: the angles of fast pairs lie beside their positions by more than a turn, so that no rows
// seem to turn evenly.
void AngleSearch::TryScaledSteps() {
  const Arrangement& a = table_.arrangement;
  if (a.content != InputContent::kSinusoidal || a.order != ColumnOrder::kHalves || a.lacks_column || !table_.has_both())
    return;
  const Estimates before = estimates_;
  estimates_.first = 0, estimates_.count = table_.rows, estimates_.anchor = table_.rows / 2;
  for (double shift : {0.0, 1.0, 0.5}) {
    if (is_cancelled()) break;
    const TimestepSpec step{table_.columns, 10000.0, shift, !a.sin_first, 1000.0};
    auto fit = TryAnywhere({step, std::nullopt, ""}, true);
    if (!fit || !fit->difference.reproduces()) continue;
    Keep(*std::move(fit));
    return;
  }
  estimates_ = before;
}

// What most tables are, wherever they start; for tables that say little by themselves.
bool AngleSearch::TryUsual() {
  const Arrangement& a = table_.arrangement;
  std::vector<Candidate> usual;
  if (a.content == InputContent::kSinusoidal) {
    for (double scale : {1.0, 1000.0}) {
      for (double shift : {0.0, 1.0, 0.5}) {
        if (a.order != ColumnOrder::kHalves || a.lacks_column) continue;
        usual.push_back({TimestepSpec{table_.columns, 10000.0, shift, !a.sin_first, scale}, std::nullopt, ""});
      }
    }
    SinusoidalSpec sinusoidal;
    sinusoidal.dim = table_.columns;
    if (a.sin_first && !a.zero_column) usual.push_back({sinusoidal, std::nullopt, ""});
  } else {
    for (double base : KnownBases().first(6)) {
      RopeSpec rope;
      rope.head_dim = 2 * table_.pairs;
      rope.base = base;
      rope.schedule = DefaultSchedule{};
      usual.push_back({rope, std::nullopt, ""});
    }
  }
  for (const Candidate& candidate : usual) {
    if (is_cancelled()) return false;
    auto fit = TryAnywhere(candidate, true);
    if (!fit || !fit->difference.reproduces()) continue;
    Keep(*std::move(fit));
    return true;
  }
  return false;
}

}  // namespace phasor::server
