// Biases.
#include <algorithm>
#include <utility>

#include "tests/conformance/fuzz/generators.h"

namespace phasor {
namespace {

// One, powers of two, and others.
int64_t Heads(Rng& rng) { return rng.Pick<int64_t>({1, 2, 3, 4, 5, 7, 8, 12}); }

std::vector<double> Slopes(Rng& rng, int64_t count) {
  std::vector<double> slopes;
  for (int64_t i = 0; i < count; ++i) {
    slopes.push_back(rng.OneIn(8) ? 0 : (rng.OneIn(4) ? -1 : 1) * rng.LogReal(1e-6, rng.OneIn(6) ? 6e4 : 2));
  }
  return slopes;
}

EncodingSpec Alibi(Rng& rng) {
  AlibiSpec s;
  s.num_heads = Heads(rng);
  s.form = static_cast<AlibiForm>(rng.Int(1, 3));
  const int64_t kind = rng.Int(0, 3);
  if (kind == 0) s.slopes = Slopes(rng, s.num_heads);
  if (kind == 1) s.batch_slopes = Slopes(rng, s.num_heads * rng.Int(1, 3));
  if (kind > 1 && rng.OneIn(2)) s.max_bias = rng.Real(0, 20);
  if (kind > 1 && rng.OneIn(3)) s.biased_heads = rng.Int(1, s.num_heads);
  if (rng.OneIn(3)) s.scale = rng.LogReal(1e-3, 1e3);
  if (rng.OneIn(3)) s.slope_dtype = rng.Pick({DType::kF32, DType::kF16, DType::kBF16});
  if (*s.form == AlibiForm::kTwoSided && rng.OneIn(2)) s.future_factor = rng.LogReal(1e-3, 1e3);
  return s;
}

EncodingSpec T5Bucket(Rng& rng) {
  T5BucketSpec s;
  s.bidirectional = rng.OneIn(2);
  s.num_buckets = rng.OneIn(3) ? 32 : 2 * rng.LogInt(2, 100);
  const int64_t exact = (*s.bidirectional ? *s.num_buckets / 2 : *s.num_buckets) / 2;
  s.max_distance = rng.LogInt(exact + 1, rng.OneIn(4) ? 2147483647 : 2000);
  if (rng.OneIn(2)) s.scale = rng.Real(-8, 8);
  if (rng.OneIn(3)) s.distance_divisor = rng.LogInt(1, 300);
  s.table = RandomWeight(rng, {*s.num_buckets, Heads(rng)});
  return s;
}

EncodingSpec Kerple(Rng& rng) {
  KerpleSpec s;
  s.form = static_cast<KerpleForm>(rng.Int(1, 3));
  const bool nemo = *s.form == KerpleForm::kNemo;
  for (int64_t h = rng.Int(1, 4); h > 0; --h) {
    s.r1.push_back(rng.LogReal(1e-6, 10));
    s.r2.push_back(*s.form == KerpleForm::kPower ? rng.Real(1e-6, 2) : rng.LogReal(1e-6, 1e6));
    if (nemo) s.p.push_back(rng.OneIn(3) ? 1 : rng.Real(1e-6, 2));
  }
  if (nemo && rng.OneIn(2)) s.r1.clear();
  if (nemo && rng.OneIn(2)) s.p.clear();
  return s;
}

EncodingSpec Sandwich(Rng& rng) {
  SandwichSpec s;
  s.num_heads = Heads(rng);
  s.dim = 2 * rng.LogInt(1, 40);
  if (rng.OneIn(2)) s.base = rng.LogReal(0.01, 1e8);
  return s;
}

EncodingSpec WindowBias(Rng& rng) {
  WindowBiasSpec s;
  s.window_height = rng.LogInt(1, rng.OneIn(8) ? 16 : 9);
  s.window_width = rng.LogInt(1, rng.OneIn(4) ? 40 : 9);
  s.class_token = rng.OneIn(2);
  const int64_t rows = (2 * s.window_height - 1) * (2 * s.window_width - 1) + (s.class_token ? 3 : 0);
  s.table = RandomWeight(rng, {rows, Heads(rng)});
  return s;
}

EncodingSpec ContinuousWindowBias(Rng& rng) {
  ContinuousWindowBiasSpec s;
  s.window_height = rng.LogInt(1, 8);
  s.window_width = rng.LogInt(1, 8);
  s.pretrained_height = rng.OneIn(2) ? 0 : rng.Int(2, 24);
  s.pretrained_width = rng.OneIn(2) ? 0 : rng.Int(2, 24);
  const int64_t hidden = rng.LogInt(1, 80);
  s.w1 = RandomWeight(rng, {hidden, 2});
  s.b1 = RandomWeight(rng, {hidden});
  s.w2 = RandomWeight(rng, {Heads(rng), hidden}, 0.3);
  return s;
}

EncodingSpec Fire(Rng& rng) {
  FireSpec s;
  if (rng.OneIn(2)) s.c = rng.LogReal(1e-4, 10);
  if (rng.OneIn(2)) s.threshold = rng.LogReal(0.1, 1e4);
  if (rng.OneIn(2)) s.epsilon = rng.OneIn(2) ? 0 : rng.LogReal(1e-12, 1);
  const int64_t width = rng.LogInt(1, 70), heads = Heads(rng);
  s.w1 = RandomWeight(rng, {width, 1}, 2);
  s.b1 = RandomWeight(rng, {width});
  s.w2 = RandomWeight(rng, {heads, width});
  s.b2 = RandomWeight(rng, {heads});
  return s;
}

EncodingSpec DynamicPositionBias(Rng& rng) {
  DynamicPositionBiasSpec s;
  s.log_distance = rng.OneIn(2);
  s.layer_norm = rng.OneIn(2);
  const auto layers = static_cast<size_t>(rng.Int(2, DynamicPositionBiasSpec::kMaxLayers));
  const int64_t width = rng.LogInt(1, 40), heads = Heads(rng);
  for (size_t i = 0; i < layers; ++i) {
    const int64_t outputs = i + 1 == layers ? heads : width;
    s.w[i] = RandomWeight(rng, {outputs, i == 0 ? 1 : width});
    s.b[i] = RandomWeight(rng, {outputs});
    if (!s.layer_norm || i + 1 == layers) continue;
    s.g[i] = RandomWeight(rng, {width});
    if (rng.OneIn(2)) s.h[i] = RandomWeight(rng, {width});
  }
  return s;
}

EncodingSpec ForgettingBias(Rng& rng) {
  ForgettingBiasSpec s;
  s.logits = rng.OneIn(2);
  std::vector<int64_t> shape = {Heads(rng), rng.LogInt(1, 300)};
  if (rng.OneIn(2)) shape.insert(shape.begin(), rng.Int(1, 3));
  s.gates = RandomWeight(rng, std::move(shape), rng.OneIn(6) ? 1e3 : 5);
  return s;
}

EncodingSpec Tupe(Rng& rng) {
  TupeSpec s;
  const int64_t heads = Heads(rng), dim = rng.LogInt(1, 70);
  s.q = RandomWeight(rng, {heads, rng.LogInt(1, 90), dim});
  s.k = RandomWeight(rng, {heads, rng.LogInt(1, rng.OneIn(8) ? 600 : 90), dim});
  if (rng.OneIn(2)) {
    s.num_buckets = 2 * rng.LogInt(2, 20);
    s.max_distance = rng.LogInt(*s.num_buckets / 4 + 1, rng.OneIn(4) ? 2147483647 : 200);
    s.bias = RandomWeight(rng, {*s.num_buckets, heads});
  } else if (rng.OneIn(2)) {
    s.bias = RandomWeight(rng, {heads, 2 * rng.LogInt(0, 40) + 1});
  }
  if (rng.OneIn(2)) s.untied = RandomWeight(rng, {heads, 2});
  return s;
}

}  // namespace

std::vector<SpecGenerator> BiasGenerators() {
  return {{"alibi", &Alibi},
          {"t5_bucket", &T5Bucket},
          {"kerple", &Kerple},
          {"sandwich", &Sandwich},
          {"window_bias", &WindowBias},
          {"continuous_window_bias", &ContinuousWindowBias},
          {"fire", &Fire},
          {"dynamic_position_bias", &DynamicPositionBias},
          {"forgetting_bias", &ForgettingBias},
          {"tupe", &Tupe}};
}

}  // namespace phasor
