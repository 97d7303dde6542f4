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

std::vector<double> SearchFloat32(const PairTable& table, const std::vector<double>& near, double amplitude, int64_t start,
                                  Rows rows) {
  constexpr int kReach = 6;
  std::vector<int64_t> picked = RowsToFit(rows);
  if (picked.size() > 64) {
    std::vector<int64_t> fewer;
    for (size_t k = 0; k < 64; ++k) fewer.push_back(picked[k * (picked.size() - 1) / 63]);
    picked = fewer;
  }
  const auto factor = static_cast<float>(amplitude);
  std::vector<double> best = near;
  for (int64_t i = 0; i < table.pairs; ++i) {
    float f = static_cast<float>(near[static_cast<size_t>(i)]);
    if (!(f > 0)) continue;
    for (int k = 0; k < kReach; ++k) f = std::nextafterf(f, 0);
    double least = std::numeric_limits<double>::infinity();
    for (int k = -kReach; k <= kReach; ++k, f = std::nextafterf(f, HUGE_VALF)) {
      double worst = 0.01 * std::abs(k);  // the nearest of equals
      for (int64_t row : picked) {
        const double angle = static_cast<double>(f * static_cast<float>(start + row));
        const auto count = [&](double have, double exact) {
          const double make = RoundTo(table.dtype, static_cast<double>(static_cast<float>(exact) * factor));
          if (have != make) {
            worst = std::max(worst, std::fabs(have - make) / UlpOf(table.dtype, std::max(std::fabs(have), std::fabs(make))));
          }
        };
        if (!table.cos.empty()) count(table.cos_at(row, i), std::cos(angle));
        if (!table.sin.empty()) count(table.sin_at(row, i), std::sin(angle));
        if (worst > least) break;
      }
      if (worst < least) least = worst, best[static_cast<size_t>(i)] = static_cast<double>(f);
    }
  }
  return best;
}

}  // namespace phasor::server
