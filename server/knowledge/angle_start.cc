#include "server/knowledge/angle_start.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace phasor::server {
namespace {

constexpr size_t kScanPairs = 16;
constexpr size_t kKept = 48;  // positions that one row leaves
constexpr size_t kAnswers = 6;

std::vector<int64_t> PairsToScan(const KnownTurns& turns) {
  std::vector<int64_t> usable, picked;
  for (size_t i = 0; i < turns.frequency.size(); ++i) {
    if (turns.use[i] && turns.frequency[i] != 0) usable.push_back(static_cast<int64_t>(i));
  }
  const size_t count = std::min(usable.size(), kScanPairs);
  for (size_t i = 0; i < count; ++i) picked.push_back(usable[count == 1 ? 0 : i * (usable.size() - 1) / (count - 1)]);
  return picked;
}

// Unit vectors that turn with the position, and what they are compared with.
struct Wheels {
  std::array<double, kScanPairs> c{}, s{}, step_c{}, step_s{}, want_c{}, want_s{};

  void Turn() {
    for (size_t i = 0; i < kScanPairs; ++i) {
      const double next = c[i] * step_c[i] - s[i] * step_s[i];
      s[i] = s[i] * step_c[i] + c[i] * step_s[i];
      c[i] = next;
    }
  }
  double Error(bool cos, bool sin) const {
    double of_cos = 0, of_sin = 0;
    for (size_t i = 0; i < kScanPairs; ++i) {
      const double a = c[i] - want_c[i], b = s[i] - want_s[i];
      of_cos += a * a;
      of_sin += b * b;
    }
    return (cos ? of_cos : 0) + (sin ? of_sin : 0);
  }
};

Wheels MakeWheels(const PairTable& table, const KnownTurns& turns, int64_t row, int64_t position) {
  Wheels w;
  const std::vector<int64_t> pairs = PairsToScan(turns);
  for (size_t k = 0; k < pairs.size(); ++k) {
    const double f = turns.frequency[static_cast<size_t>(pairs[k])], angle = f * static_cast<double>(position);
    w.c[k] = std::cos(angle), w.s[k] = std::sin(angle);
    w.step_c[k] = std::cos(f), w.step_s[k] = std::sin(f);
    if (!table.cos.empty()) w.want_c[k] = table.cos_at(row, pairs[k]) / turns.amplitude;
    if (!table.sin.empty()) w.want_s[k] = table.sin_at(row, pairs[k]) / turns.amplitude;
  }
  return w;
}

}  // namespace

double RowError(const PairTable& table, const KnownTurns& turns, int64_t row, int64_t position) {
  double sum = 0, count = 0;
  for (int64_t i = 0; i < table.pairs; ++i) {
    if (!turns.use[static_cast<size_t>(i)]) continue;
    const double angle = turns.frequency[static_cast<size_t>(i)] * static_cast<double>(position);
    if (!table.cos.empty()) {
      const double d = table.cos_at(row, i) / turns.amplitude - std::cos(angle);
      sum += d * d, count += 1;
    }
    if (!table.sin.empty()) {
      const double d = table.sin_at(row, i) / turns.amplitude - std::sin(angle);
      sum += d * d, count += 1;
    }
  }
  return count > 0 ? std::sqrt(sum / count) : HUGE_VAL;
}

std::vector<int64_t> ScanPositions(const PairTable& table, const KnownTurns& turns, std::span<const int64_t> rows,
                                   int64_t lowest, int64_t highest) {
  if (rows.empty() || lowest > highest) return {};
  Wheels wheels = MakeWheels(table, turns, rows[0], lowest);
  const bool cos = !table.cos.empty(), sin = !table.sin.empty();
  using Scored = std::pair<double, int64_t>;
  std::vector<Scored> kept;
  double worst = HUGE_VAL;
  for (int64_t position = lowest; position <= highest; ++position, wheels.Turn()) {
    const double error = wheels.Error(cos, sin);
    if (!(error < worst)) continue;
    kept.emplace_back(error, position);
    if (kept.size() < 2 * kKept) continue;
    std::nth_element(kept.begin(), kept.begin() + kKept, kept.end());
    kept.resize(kKept);
    worst = std::max_element(kept.begin(), kept.end())->first;
  }
  for (auto& [error, position] : kept) {
    error = 0;
    for (int64_t row : rows) error += RowError(table, turns, row, position + row - rows[0]);
  }
  std::sort(kept.begin(), kept.end());
  std::vector<int64_t> best;
  for (const auto& [error, position] : kept) {
    if (best.size() == kAnswers) break;
    best.push_back(position);
  }
  return best;
}

}  // namespace phasor::server
