#include "kernels/program/mixed_rotation.h"

#include <cstring>
#include <vector>

#include "kernels/core/narrow.h"
#include "kernels/core/sincos.h"
#include "kernels/core/sum.h"

namespace phasor {
namespace {

void Put(DType dtype, void* base, int64_t index, double value) {
  VisitFloat(dtype, [&](auto tag) {
    const auto rounded = Narrow<typename decltype(tag)::type>(value);
    std::memcpy(static_cast<char*>(base) + index * static_cast<int64_t>(sizeof(rounded)), &rounded, sizeof(rounded));
  });
}

// Σ_j values[j]·coefficients[head, j, d] for every output d.
void Mix(const Weight& coefficients, const std::vector<double>& values, int64_t head, std::vector<double>& sums) {
  const int64_t inputs = coefficients.shape[1], outputs = coefficients.shape[2];
  std::vector<FixedSum> running(static_cast<size_t>(outputs));
  for (int64_t j = 0; j < inputs; ++j) {
    const int64_t row = (head * inputs + j) * outputs;
    for (int64_t d = 0; d < outputs; ++d) {
      running[static_cast<size_t>(d)].AddProduct(j, values[static_cast<size_t>(j)], coefficients.at(row + d));
    }
  }
  for (int64_t d = 0; d < outputs; ++d) sums[static_cast<size_t>(d)] = running[static_cast<size_t>(d)].Total();
}

}  // namespace

absl::Status MixedRotationRows::Fill(RowRange rows, const CancelFlag* cancel) const {
  const size_t inputs = plan->frequencies.size();
  std::vector<double> cosines(inputs), sines(inputs);
  std::vector<double> cos_sums(static_cast<size_t>(plan->pairs), 1.0), sin_sums(static_cast<size_t>(plan->pairs), 0.0);
  for (int64_t row = rows.begin; row < rows.end; ++row) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) {
      return absl::CancelledError("mixed rotation: cancelled");
    }
    const int64_t position = CoordinateOf(positions.axes[0], row).whole;
    const double factor = scale ? ScaleAt(*scale, static_cast<double>(position)) : 1;
    for (size_t j = 0; j < inputs; ++j) {
      const SinCos128 angle = SinCosOfPosition(plan->frequencies[j], position);
      cosines[j] = RoundTo<double>(angle.cos);
      sines[j] = RoundTo<double>(angle.sin);
    }
    for (int64_t h = 0; h < plan->heads; ++h) {
      Mix(*plan->cos_coef, cosines, h, cos_sums);
      Mix(*plan->sin_coef, sines, h, sin_sums);
      for (int64_t i = 0; i < plan->pairs; ++i) {
        const int64_t at = (row * plan->heads + h) * plan->pairs + i;
        Put(dtype, cos, at, cos_sums[static_cast<size_t>(i)] * factor);
        Put(dtype, sin, at, sin_sums[static_cast<size_t>(i)] * factor);
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace phasor
