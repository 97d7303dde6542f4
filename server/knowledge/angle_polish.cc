#include "server/knowledge/angle_polish.h"

#include <algorithm>
#include <cmath>

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

}  // namespace phasor::server
