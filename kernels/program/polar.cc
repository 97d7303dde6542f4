#include "kernels/program/polar.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/sincos.h"
#include "kernels/encodings/wide.h"

namespace phasor {
namespace {

constexpr double kLeast = -2 * 3.141592653589793;

void Prepare(const Weight& delta, int64_t index, PolarPhases* phases) {
  const double value = delta.at(index);
  const auto i = static_cast<size_t>(index);
  if (value < 0) {
    const Wide part = Wide(value) / (Wide(2.0) * Pi());  // −1 … 0: one turn more is the same angle
    phases->turns[i] = part <= -1.0 ? Turns{} : ToTurns(part + 1.0);
  }
  const SinCos128 exact = SinCosOfPosition(phases->turns[i], 1);
  phases->cos[i] = RoundTo<double>(exact.cos);
  phases->sin[i] = RoundTo<double>(exact.sin);
  phases->radians[i] = static_cast<float>(std::clamp(std::isnan(value) ? 0.0 : value, kLeast, 0.0));
}

}  // namespace

PreparedPhases PreparePhases(const WeightRef& delta) {
  const auto count = static_cast<size_t>(delta->elements());
  const auto phases = std::make_shared<PolarPhases>();
  phases->turns.resize(count);
  phases->cos.resize(count);
  phases->sin.resize(count);
  phases->radians.resize(count);
  const auto run = [phases, weight = delta.shared()](RowRange rows, const CancelFlag*) {
    for (int64_t i = rows.begin; i < rows.end; ++i) Prepare(*weight, i, phases.get());
    return absl::OkStatus();
  };
  return {phases, ProgramStep::Of(run, delta->elements(), 500)};
}

ProgramStep FactorStep(const PositionScale& scale, const PositionSource& positions, int64_t count, double* factors) {
  const auto run = [scale, positions, factors](RowRange rows, const CancelFlag* cancel) -> absl::Status {
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return absl::CancelledError("factors: cancelled");
      factors[i] = ScaleAt(scale, CoordinateOf(positions, i).value);
    }
    return absl::OkStatus();
  };
  return ProgramStep::Of(run, count, 8);
}

}  // namespace phasor
