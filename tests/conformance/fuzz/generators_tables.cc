// Absolute encodings.
#include <utility>

#include "tests/conformance/fuzz/generators.h"

namespace phasor {
namespace {

int64_t Width(Rng& rng, int64_t least) {
  return rng.OneIn(3) ? rng.Pick<int64_t>({64, 127, 256, 514}) : rng.LogInt(least, 514);
}

EncodingSpec Sinusoidal(Rng& rng) {
  SinusoidalSpec s;
  s.spacing = static_cast<SinusoidalSpacing>(rng.Int(1, 2));
  s.dim = Width(rng, *s.spacing == SinusoidalSpacing::kEndpointInclusive ? 4 : 1);
  s.layout = static_cast<SinusoidalLayout>(rng.Int(1, 2));
  if (rng.OneIn(2)) s.base = rng.LogReal(1e-3, 1e9);
  if (rng.OneIn(3)) s.position_offset = rng.Int(-3, 4);
  if (rng.OneIn(3)) s.padding_row = rng.Int(0, 5);
  if (rng.OneIn(3)) s.scale = rng.LogReal(1e-4, 1e4);
  return s;
}

EncodingSpec Timestep(Rng& rng) {
  TimestepSpec s;
  s.dim = Width(rng, 2);
  if (rng.OneIn(2)) s.max_period = rng.LogReal(1.5, 1e6);
  s.downscale_freq_shift = rng.OneIn(2) || s.dim < 4 ? 0.0 : rng.Pick({1.0, 0.5, -2.0, rng.Real(-3, 0.9)});
  s.flip_sin_to_cos = rng.OneIn(2);
  if (rng.OneIn(2)) s.scale = (rng.OneIn(3) ? -1 : 1) * rng.LogReal(1e-3, 1e4);
  return s;
}

EncodingSpec GaussianFourier(Rng& rng) {
  GaussianFourierSpec s;
  s.log = rng.OneIn(2);
  s.flip_sin_to_cos = rng.OneIn(2);
  const int64_t axes = rng.OneIn(3) ? rng.Int(2, 4) : 1;
  if (axes > 1) s.log = false;
  s.radians = !*s.log && rng.OneIn(3);
  const int64_t pairs = rng.LogInt(1, axes == 1 ? 257 : 40), count = axes * pairs;
  std::vector<double> weights;
  for (int64_t i = 0; i < count; ++i) {
    weights.push_back(rng.OneIn(12) ? 0 : (rng.OneIn(2) ? 1 : -1) * rng.LogReal(1e-6, rng.OneIn(5) ? 1e9 : 100));
  }
  s.weight = axes == 1 && rng.OneIn(2) ? MakeWeight({pairs}, weights) : MakeWeight({axes, pairs}, weights);
  return s;
}

EncodingSpec Learned(Rng& rng) {
  LearnedSpec s;
  const int64_t rows = rng.LogInt(1, 60);
  if (rng.OneIn(2)) s.position_offset = rng.Int(-2, 4);
  if (rng.OneIn(2)) s.padding_row = rng.Int(0, rows - 1);
  if (rng.OneIn(2)) s.scale = rng.OneIn(2) ? rng.Real(-3, 3) : rng.LogReal(1e-30, 1e30);
  s.l2_normalize = rng.OneIn(3);
  s.table = RandomWeight(rng, {rows, Width(rng, 1)}, rng.OneIn(6) ? 1e4 : 1);
  return s;
}

EncodingSpec GridSinusoidal(Rng& rng) {
  GridSinusoidalSpec s;
  const int64_t axes = rng.Int(2, 3);
  for (int64_t a = 0; a < axes; ++a) s.grid.push_back(rng.LogInt(1, 9));
  s.extra_rows = rng.Int(0, 2);
  if (rng.OneIn(2)) s.base = rng.LogReal(1.5, 1e6);
  s.order = static_cast<GridOrder>(rng.Int(1, 2));
  if (rng.OneIn(2)) {
    s.dim = (axes == 2 ? 4 : 16) * rng.LogInt(1, 32);
  } else {
    for (int64_t a = 0; a < axes; ++a) s.columns.push_back(2 * rng.LogInt(a == 0 ? 2 : 0, 80));
    for (const int64_t part : s.columns) s.dim += part;
  }
  const int64_t divisor = rng.Int(0, 2);
  if (divisor == 0) s.extent_epsilon = rng.OneIn(2) ? 1e-6 : rng.LogReal(1e-3, 10);
  for (int64_t a = 0; divisor == 1 && a < axes; ++a) s.base_size.push_back(rng.LogInt(1, 40));
  s.layout = static_cast<GridLayout>(rng.Int(1, 2));
  if (rng.OneIn(2)) s.start = rng.Pick({1.0, 0.5, -0.5, -1.0, rng.Real(-3, 3)});
  if (rng.OneIn(2)) s.scale = rng.LogReal(1e-3, 1e3);
  if (!s.base && rng.OneIn(2)) {
    for (int64_t a = 0; a < axes; ++a) s.axis_bases.push_back(rng.LogReal(1.5, 1e6));
  }
  if (rng.OneIn(2)) {
    for (int64_t a = 0; a < axes; ++a) s.interpolation_scale.push_back(rng.LogReal(0.1, 10));
  }
  if (rng.OneIn(4)) {  // coordinates in place of points
    if (s.columns.empty() && axes == 3) s.columns = {s.dim / 2, s.dim / 4, s.dim / 4};
    s.grid.clear();
    s.extra_rows = 0;
  }
  return s;
}

EncodingSpec Distilled(Rng& rng) {
  DistilledSpec s;
  s.num_positions = rng.LogInt(2, int64_t{1} << 30);
  if (rng.OneIn(2)) s.first_position = rng.Int(-1000, 1000);
  if (rng.OneIn(2)) s.cosine_terms = rng.LogInt(1, 40);
  const auto layers = static_cast<size_t>(rng.Int(1, DistilledSpec::kMaxLayers));
  int64_t inputs = s.cosine_terms == 0 ? 1 : s.cosine_terms;
  for (size_t i = 0; i < layers; ++i) {
    const int64_t outputs = rng.LogInt(1, i + 1 == layers ? 70 : 40);
    s.w[i] = RandomWeight(rng, {outputs, inputs});
    s.b[i] = RandomWeight(rng, {outputs});
    inputs = outputs;
  }
  return s;
}

}  // namespace

std::vector<SpecGenerator> TableGenerators() {
  return {{"sinusoidal", &Sinusoidal},
          {"timestep", &Timestep},
          {"gaussian_fourier", &GaussianFourier},
          {"learned", &Learned},
          {"grid_sinusoidal", &GridSinusoidal},
          {"distilled", &Distilled}};
}

}  // namespace phasor
