#include "tests/conformance/cases.h"

#include <cmath>
#include <utility>

namespace phasor {
namespace {

RopeSpec Rope(int64_t head_dim, double base, RopeSchedule schedule = DefaultSchedule{}) {
  RopeSpec rope;
  rope.head_dim = head_dim;
  rope.base = base;
  rope.schedule = std::move(schedule);
  return rope;
}

RopeSpec Partial(int64_t head_dim, int64_t rotary_dim, double base, Pairing pairing = Pairing::kHalfSplit) {
  RopeSpec rope = Rope(head_dim, base);
  rope.rotary_dim = rotary_dim;
  rope.pairing = pairing;
  return rope;
}

RopeSpec WithAttentionFactor(RopeSpec rope, double factor) {
  rope.attention_factor = factor;
  return rope;
}

YarnSchedule Yarn(double factor, int64_t original_max_position, bool truncate = true) {
  YarnSchedule yarn;
  yarn.factor = factor;
  yarn.original_max_position = original_max_position;
  yarn.truncate = truncate;
  return yarn;
}

YarnSchedule DeepSeekYarn(double mscale, double mscale_all_dim) {
  YarnSchedule yarn = Yarn(40, 4096);
  yarn.mscale = mscale;
  yarn.mscale_all_dim = mscale_all_dim;
  return yarn;
}

// Divisors that grow as searched ones do; the published lists are in the golden models.
LongRopeSchedule LongRope(int64_t pairs, int64_t original_max_position, int64_t max_position) {
  LongRopeSchedule s;
  for (int64_t i = 0; i < pairs; ++i) {
    s.short_factor.push_back(1 + 0.05 * static_cast<double>(i));
    s.long_factor.push_back(1.08 + 1.31 * static_cast<double>(i));
  }
  s.original_max_position = original_max_position;
  s.max_position = max_position;
  return s;
}

SinusoidalSpec Sinusoidal(int64_t dim, SinusoidalLayout layout, SinusoidalSpacing spacing) {
  SinusoidalSpec s;
  s.dim = dim;
  s.layout = layout;
  s.spacing = spacing;
  return s;
}

AlibiSpec Alibi(int64_t num_heads, double max_bias, AlibiForm form) {
  AlibiSpec alibi;
  alibi.num_heads = num_heads;
  alibi.max_bias = max_bias;
  alibi.form = form;
  return alibi;
}

AlibiSpec AlibiWithSlopes(std::vector<double> slopes) {
  AlibiSpec alibi;
  alibi.slopes = std::move(slopes);
  return alibi;
}

// YaRN as Grok-1, TeleChat3 and ggml (ext_factor 0.5, attn_factor 1.2; ext_factor 0, which is plain interpolation) have it.
void AppendYarnForms(std::vector<Case>& cases) {
  YarnSchedule grok = Yarn(16, 8192);
  grok.log_blend = true;
  grok.attention_coefficient = 0;
  grok.beta_fast = 8;
  cases.push_back({"rope_yarn/grok-1", Rope(128, 10000, grok), {}});
  YarnSchedule telechat = Yarn(4, 8192);
  telechat.attention_coefficient = 0.07;
  cases.push_back({"rope_yarn/telechat3", Rope(128, 1e6, telechat), {}});
  YarnSchedule ggml = Yarn(8, 4096);
  ggml.extrapolation_factor = 0.5;
  ggml.attention_factor_multiplier = 1.2;
  cases.push_back({"rope_yarn/ggml", Partial(128, 64, 10000, Pairing::kInterleaved), {}});
  std::get<RopeSpec>(cases.back().spec).schedule = ggml;
  ggml.extrapolation_factor = 0;
  ggml.attention_coefficient = 0;
  cases.push_back({"rope_yarn/ggml-without-extrapolation", Rope(64, 10000, ggml), {}});
}

// Schedules of given numbers, and the forms of RoPE beside the schedule.
void AppendGivenRope(std::vector<Case>& cases) {
  cases.push_back({"rope_ntk_mixed/fixed", Rope(128, 10000, NtkMixedSchedule{8, {}}), {}});
  cases.push_back({"rope_ntk_mixed/mixed", Rope(64, 10000, NtkMixedSchedule{8, 0.625}), {}});
  FreqFactorsSchedule ggml;
  InvFreqSchedule given;
  for (int i = 0; i < 32; ++i) {
    ggml.factors.push_back(i < 15 ? 1.0 : i < 18 ? 1.0 + 2.25 * (i - 14) : 8.0);
    given.inv_freq.push_back(i == 31 ? 0.0 : static_cast<double>(1.0f / static_cast<float>(1 + 3 * i)));
  }
  cases.push_back({"rope_freq_factors/llama-3-like", Rope(64, 500000, ggml), {}});
  ggml.factor = 4;
  cases.push_back({"rope_freq_factors/with-freq-scale", Rope(64, 500000, ggml), {}});
  RopeSpec buffer = Rope(64, 10000, given);
  buffer.base.reset();
  cases.push_back({"rope_inv_freq/buffer-of-floats", buffer, {}});
  RopeSpec pixel = Rope(64, 10000, PixelSchedule{});
  pixel.base.reset();
  cases.push_back({"rope_pixel/eva-02", pixel, {}});
  RopeSpec one_pixel = pixel;
  one_pixel.head_dim = 2;
  one_pixel.schedule = PixelSchedule{3.0};
  cases.push_back({"rope_pixel/one-pair", one_pixel, {}});
  RopeSpec mla = Partial(192, 64, 10000, Pairing::kInterleavedToHalf);
  mla.first_channel = 128;
  cases.push_back({"rope_default/mla-slice", mla, {}});
  RopeSpec xpos = Rope(64, 10000);
  xpos.xpos = XposScale{512.0, 1024};
  cases.push_back({"rope_default/xpos", xpos, {}});
}

// Rotations that do more than turn pairs.
void AppendPolar(std::vector<Case>& cases) {
  PopeSpec pope;
  pope.head_dim = 37;
  pope.delta = MakeWeight({2, 37}, std::vector<double>(74, -1.5));
  cases.push_back({"pope/two-heads", pope, {}});
  FopeSpec fope;
  fope.head_dim = 16;
  fope.training_length = 4096;
  std::vector<double> coefficients;
  for (int i = 0; i < 2 * 6 * 5; ++i) coefficients.push_back(0.125 * (i % 7) - 0.25);
  fope.cos_coef = MakeWeight({2, 6, 5}, coefficients, "cos");
  fope.sin_coef = MakeWeight({2, 6, 5}, coefficients, "sin");
  cases.push_back({"fope/two-mixtures", fope, {}});
}

void AppendRope(std::vector<Case>& cases) {
  cases.push_back({"rope_default/llama-2-7b", Rope(128, 10000), {}});
  cases.push_back({"rope_default/one-pair", Rope(2, 10000), {}});
  cases.push_back({"rope_default/three-pairs", Rope(6, 100), {}});
  cases.push_back({"rope_default/odd-head-dim", Partial(81, 34, 10000), {}});
  cases.push_back({"rope_default/pythia-6.9b", Partial(128, 32, 10000), {}});
  cases.push_back({"rope_default/gpt-j-6b", Partial(256, 64, 10000, Pairing::kInterleaved), {}});
  cases.push_back({"rope_default/command-r", Partial(128, 128, 8e6, Pairing::kInterleaved), {}});
  cases.push_back({"rope_default/attention-factor", WithAttentionFactor(Rope(64, 10000), 0.8782488), {}});
  cases.push_back({"rope_default/base-below-one", Rope(32, 0.25), {}});
  cases.push_back({"rope_default/base-one", Rope(16, 1), {}});
  cases.push_back({"rope_linear/gemma-3-4b", Rope(256, 1e6, LinearSchedule{8}), {}});
  cases.push_back({"rope_linear/deepseek-coder-6.7b", Rope(128, 1e5, LinearSchedule{4}), {}});
  cases.push_back({"rope_linear/many-turns-per-position", Rope(32, 10000, LinearSchedule{1e-6}), {}});
  cases.push_back({"rope_ntk_aware/factor-4", Rope(128, 10000, NtkAwareSchedule{4}), {}});
  cases.push_back({"rope_dynamic_ntk/internlm2-short", Rope(128, 1e6, DynamicNtkSchedule{2, 32768}), 32768});
  cases.push_back({"rope_dynamic_ntk/internlm2-long", Rope(128, 1e6, DynamicNtkSchedule{2, 32768}), 65536});
  cases.push_back({"rope_yarn/qwen2.5-7b", Rope(128, 1e6, Yarn(4, 32768)), {}});
  cases.push_back({"rope_yarn/gpt-oss-20b", Rope(64, 150000, Yarn(32, 4096, false)), {}});
  cases.push_back({"rope_yarn/deepseek-v2-lite", Rope(64, 10000, DeepSeekYarn(0.707, 0.707)), {}});
  cases.push_back({"rope_yarn/unequal-mscales", Rope(64, 10000, DeepSeekYarn(1, 0.5)), {}});
  cases.push_back({"rope_llama3/llama-3.1-8b", Rope(128, 500000, Llama3Schedule{8, 1, 4, 8192}), {}});
  cases.push_back({"rope_llama3/llama-3.2-1b", Rope(64, 500000, Llama3Schedule{32, 1, 4, 8192}), {}});
  cases.push_back({"rope_longrope/phi-3-mini-short", Rope(96, 10000, LongRope(48, 4096, 131072)), 4096});
  cases.push_back({"rope_longrope/phi-3-mini-long", Rope(96, 10000, LongRope(48, 4096, 131072)), 131072});
  cases.push_back({"rope_proportional/gemma-4-e2b", Rope(512, 1e6, ProportionalSchedule{0.25, {}}), {}});
  cases.push_back({"rope_qwen1_ntk/qwen-7b-chat", Rope(128, 10000, Qwen1NtkSchedule{8192}), 16385});
  AppendYarnForms(cases);
  AppendGivenRope(cases);
}

// A table of ordinary numbers, some of them with all their bits.
WeightRef Table(int64_t rows, int64_t columns) {
  std::vector<double> values;
  for (int64_t i = 0; i < rows * columns; ++i) {
    values.push_back(i % 7 == 3 ? 0 : (i % 2 == 0 ? 1 : -1) * std::sqrt(0.37 * static_cast<double>(i)) / 3);
  }
  return MakeWeight({rows, columns}, values);
}

T5BucketSpec T5(int64_t num_buckets, int64_t max_distance, bool bidirectional, int64_t heads, double scale = 1) {
  T5BucketSpec t5;
  t5.num_buckets = num_buckets;
  t5.max_distance = max_distance;
  t5.bidirectional = bidirectional;
  t5.scale = scale;
  t5.table = Table(num_buckets, heads);
  return t5;
}

KerpleSpec Kerple(KerpleForm form, std::vector<double> r1, std::vector<double> r2, std::vector<double> p = {}) {
  KerpleSpec kerple;
  kerple.form = form;
  kerple.r1 = std::move(r1);
  kerple.r2 = std::move(r2);
  kerple.p = std::move(p);
  return kerple;
}

SandwichSpec Sandwich(int64_t heads, int64_t dim, double base) {
  SandwichSpec sandwich;
  sandwich.num_heads = heads;
  sandwich.dim = dim;
  sandwich.base = base;
  return sandwich;
}

void AppendDistanceBiases(std::vector<Case>& cases) {
  AlibiSpec falcon = Alibi(71, 8, AlibiForm::kCausal);
  falcon.slope_dtype = DType::kBF16;
  falcon.scale = 0.125;
  cases.push_back({"alibi/falcon-7b-scaled", falcon, {}});
  AlibiSpec two_sided = Alibi(12, 8, AlibiForm::kTwoSided);
  two_sided.future_factor = 0.3;
  two_sided.biased_heads = 7;
  cases.push_back({"alibi/two-sided-partial-heads", two_sided, {}});
  AlibiSpec batch = Alibi(2, 8, AlibiForm::kSymmetric);
  batch.max_bias.reset();
  batch.batch_slopes = {0.5, 0.25, 0.1, 0.7, 1e-3, 0};
  cases.push_back({"alibi/slopes-per-batch-row", batch, {}});

  cases.push_back({"t5_bucket/t5-small-encoder", T5(32, 128, true, 8), {}});
  cases.push_back({"t5_bucket/t5-small-decoder", T5(32, 128, false, 8), {}});
  cases.push_back({"t5_bucket/x-transformers-scale", T5(32, 128, false, 6, 8), {}});
  cases.push_back({"t5_bucket/smallest", T5(2, 2, false, 1, 0.1), {}});
  cases.push_back({"t5_bucket/far", T5(300, 2147483647, true, 3, -1.5), {}});

  cases.push_back({"kerple/log", Kerple(KerpleForm::kLog, {0.5, 1.25, 1e-3, 7e18}, {1, 0.01, 1e-40, 1e15}), {}});
  cases.push_back({"kerple/power", Kerple(KerpleForm::kPower, {0.5, 1, 1, 2.5, 0.1}, {0.5, 1, 2, 1.37, 1e-30}), {}});
  cases.push_back({"kerple/nemo", Kerple(KerpleForm::kNemo, {}, {1, 0.3, 2, 1e-5}, {1, 0.5, 2, 1.9}), {}});

  cases.push_back({"sandwich/narrow", Sandwich(12, 8, 10000), {}});
  cases.push_back({"sandwich/slow", Sandwich(3, 2, 1e25), {}});
  cases.push_back({"sandwich/fast", Sandwich(1, 4, 1e-3), {}});
}

void AppendOthers(std::vector<Case>& cases) {
  const auto kInterleaved = SinusoidalLayout::kInterleaved;
  const auto kConcatenated = SinusoidalLayout::kConcatenated;
  const auto kPaper = SinusoidalSpacing::kPaper;
  const auto kEndpoint = SinusoidalSpacing::kEndpointInclusive;
  cases.push_back({"sinusoidal/paper-512", Sinusoidal(512, kInterleaved, kPaper), {}});
  cases.push_back({"sinusoidal/odd-width-7", Sinusoidal(7, kInterleaved, kPaper), {}});
  cases.push_back({"sinusoidal/marian-odd-width-33", Sinusoidal(33, kConcatenated, kPaper), {}});
  cases.push_back({"sinusoidal/whisper-large-v2", Sinusoidal(1280, kConcatenated, kEndpoint), {}});
  SinusoidalSpec m2m100 = Sinusoidal(1024, kConcatenated, kEndpoint);
  m2m100.position_offset = 2;
  m2m100.padding_row = 1;
  cases.push_back({"sinusoidal/m2m100-418m", m2m100, {}});
  cases.push_back({"sinusoidal/fairseq-odd-width-9", Sinusoidal(9, kConcatenated, kEndpoint), {}});
  cases.push_back({"sinusoidal/width-1", Sinusoidal(1, kInterleaved, kPaper), {}});

  cases.push_back({"alibi/bloom", Alibi(112, 8, AlibiForm::kCausal), {}});
  cases.push_back({"alibi/mpt-7b", Alibi(32, 8, AlibiForm::kCausal), {}});
  cases.push_back({"alibi/symmetric-12", Alibi(12, 8, AlibiForm::kSymmetric), {}});
  cases.push_back({"alibi/one-head-max-bias-16", Alibi(1, 16, AlibiForm::kCausal), {}});
  cases.push_back({"alibi/given-slopes", AlibiWithSlopes({0.25, -0.1, 0, 1e-30, 12345.678}), {}});
  AppendDistanceBiases(cases);
}

RopeSpec WithAxes(RopeSpec rope, AxisLayout layout, std::vector<int64_t> sections) {
  rope.axes = RopeAxes{.sections = std::move(sections), .layout = layout};
  return rope;
}

void AppendAxes(std::vector<Case>& cases) {
  cases.push_back({"rope_default/qwen2-vl", WithAxes(Rope(128, 1e6), AxisLayout::kChunked, {16, 24, 24}), {}});
  cases.push_back({"rope_default/qwen3-vl", WithAxes(Rope(128, 5e6), AxisLayout::kInterleaved, {24, 20, 20}), {}});
  cases.push_back({"rope_default/qwen3.5", WithAxes(Partial(256, 64, 1e7), AxisLayout::kInterleaved, {11, 11, 10}), {}});
  cases.push_back({"rope_default/ernie-4.5-vl", WithAxes(Rope(128, 500000), AxisLayout::kAlternating, {22, 22, 20}), {}});
  cases.push_back({"rope_ntk_aware/hunyuan-vl",
                   WithAxes(Rope(128, 10000, NtkAwareSchedule{1000}), AxisLayout::kChunked, {16, 16, 16, 16}),
                   {}});
  cases.push_back({"rope_default/qwen2-vl-image-tower", WithAxes(Rope(80, 10000), AxisLayout::kReset, {20, 20}), {}});
  cases.push_back({"rope_default/pixtral", WithAxes(Rope(64, 10000), AxisLayout::kSplitFrequencies, {16, 16}), {}});
  cases.push_back({"rope_default/flux", WithAxes(Rope(128, 10000), AxisLayout::kReset, {8, 28, 28}), {}});
  cases.push_back({"rope_default/one-empty-axis", WithAxes(Rope(6, 100), AxisLayout::kChunked, {1, 0, 2}), {}});
}

TimestepSpec Timestep(int64_t dim, double shift, double scale, bool flip) {
  TimestepSpec s;
  s.dim = dim;
  s.downscale_freq_shift = shift;
  s.scale = scale;
  s.flip_sin_to_cos = flip;
  return s;
}

void AppendTables(std::vector<Case>& cases) {
  cases.push_back({"timestep/stable-diffusion", Timestep(320, 0, 1, true), {}});
  cases.push_back({"timestep/flux", Timestep(256, 0, 1000, true), {}});
  cases.push_back({"timestep/odd-width-7", Timestep(7, 1, 1, false), {}});
  GaussianFourierSpec gaussian;
  gaussian.weight = MakeWeight({8}, {16.5, -3.25, 0, 1e-3, 40, -0x1p-64, 123456.7, -1});
  cases.push_back({"gaussian_fourier/eight-weights", gaussian, {}});
  gaussian.weight = MakeWeight({2, 5}, {1, -3.25, 0, 1e-3, -0x1p-64, 0.5, 1.625, -123456.7, 0, 0x1p-64});
  cases.push_back({"gaussian_fourier/sam", gaussian, {}});
  gaussian.radians = true;
  cases.push_back({"gaussian_fourier/lightglue", gaussian, {}});
  LearnedSpec learned;
  learned.position_offset = 2;
  learned.padding_row = 1;
  learned.table = MakeWeight({4, 3}, {1, 2, 3, -4, 0.5, 1e-3, 7, 8, 9, 0.1, 0.2, 0.3});
  cases.push_back({"learned/opt", learned, {}});
  GridSinusoidalSpec grid;
  grid.dim = 24;
  grid.grid = {3, 5};
  grid.base_size = {2, 2};
  grid.interpolation_scale = {1.5, 1.5};
  cases.push_back({"grid_sinusoidal/pixart", grid, {}});
  grid = GridSinusoidalSpec();
  grid.dim = 32;
  grid.grid = {3, 2, 4};
  grid.extra_rows = 1;
  cases.push_back({"grid_sinusoidal/cogvideox", grid, {}});
  grid = GridSinusoidalSpec();
  grid.dim = 20;
  grid.grid = {3, 5};
  grid.order = GridOrder::kAsListed;
  grid.layout = GridLayout::kInterleaved;
  grid.start = 1;
  grid.extent_epsilon = 1e-6;
  grid.scale = 6.283185307179586;
  cases.push_back({"grid_sinusoidal/detr", grid, {}});
  grid.start = 0.5;
  grid.axis_bases = {20, 35};
  cases.push_back({"grid_sinusoidal/temperatures", grid, {}});
  grid.grid.clear();
  grid.dim = 22;
  grid.columns = {6, 10, 6};
  grid.axis_bases = {20, 35, 10000};
  cases.push_back({"grid_sinusoidal/coordinates", grid, {}});
  DistilledSpec distilled;
  distilled.num_positions = 9;
  distilled.first_position = -2;
  distilled.w[0] = MakeWeight({5, 1}, {1, -3.25, 0.5, 2, -0.75});
  distilled.b[0] = MakeWeight({5}, {0.25, 0, -1, 1.5, 3});
  distilled.w[1] = MakeWeight({3, 5}, {1, 2, 3, -4, 0.5, 1e-3, 7, 8, 9, 0.1, 0.2, 0.3, -0.4, 0.5, -0.6});
  distilled.b[1] = MakeWeight({3}, {0.1, -0.2, 0.3});
  cases.push_back({"distilled/perceptron", distilled, {}});
  DistilledSpec series;
  series.num_positions = 9;
  series.cosine_terms = 4;
  series.w[0] = MakeWeight({2, 4}, {1, -0.5, 0.25, 1e-3, 0, 3, -7, 0.1});
  series.b[0] = MakeWeight({2}, {0, 0.125});
  cases.push_back({"distilled/series", series, {}});
}

}  // namespace

std::vector<Case> ConformanceCases() {
  std::vector<Case> cases;
  AppendRope(cases);
  AppendAxes(cases);
  AppendPolar(cases);
  AppendOthers(cases);
  AppendWindowCases(cases);
  AppendTermCases(cases);
  AppendTables(cases);
  return cases;
}

}  // namespace phasor
