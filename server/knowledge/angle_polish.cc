#include "server/knowledge/angle_polish.h"

#include <algorithm>
#include <cmath>
#include <limits>

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

Float32Turns SearchFloat32(const PairTable& table, const std::vector<TurnRange>& ranges, double amplitude, int64_t start,
                           Rows rows, int64_t step) {
  constexpr int kReach = 3, kMostReach = 64;
  constexpr int64_t kMostRows = 512;
  std::vector<int64_t> picked;
  const int64_t count = std::min(rows.end - rows.begin, kMostRows);
  for (int64_t k = 0; k < count; ++k) picked.push_back(rows.begin + k * (rows.end - rows.begin - 1) / (count - 1));
  const auto factor = static_cast<float>(amplitude);
  Float32Turns best;
  for (int64_t i = 0; i < table.pairs; ++i) {
    const TurnRange& range = ranges[static_cast<size_t>(i)];
    best.frequencies.push_back(range.frequency);
    const auto middle = static_cast<float>(range.frequency);
    if (!(middle > 0) || i % step != 0) continue;
    // Of wide ranges, floats that are spread over them.
    const double unit =
        std::max(static_cast<double>(std::nextafterf(middle, HUGE_VALF) - middle), range.width / (2 * kMostReach));
    const int reach = static_cast<int>(std::min<double>(kMostReach, kReach + range.width / (2 * unit)));
    double least = std::numeric_limits<double>::infinity();
    for (int k = 0; k <= 2 * reach && least > 0; ++k) {  // the middle, then farther ones to both sides
      const auto f = static_cast<float>(static_cast<double>(middle) + (k % 2 != 0 ? (k + 1) / 2 : -(k / 2)) * unit);
      double worst = 0;
      for (int64_t row : picked) {
        const double angle = static_cast<double>(f * static_cast<float>(start + row));
        const auto weigh = [&](double have, double exact) {
          const double make = RoundTo(table.dtype, static_cast<double>(static_cast<float>(exact) * factor));
          if (have == make) return;
          worst = std::max(worst, std::fabs(have - make) / UlpOf(table.dtype, std::max(std::fabs(have), std::fabs(make))));
        };
        if (!table.cos.empty()) weigh(table.cos_at(row, i), std::cos(angle));
        if (!table.sin.empty()) weigh(table.sin_at(row, i), std::sin(angle));
        if (worst >= least) break;
      }
      if (worst < least) least = worst, best.frequencies.back() = static_cast<double>(f);
    }
    best.worst = std::max(best.worst, least);
  }
  return best;
}

}  // namespace phasor::server
