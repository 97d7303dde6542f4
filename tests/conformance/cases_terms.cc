// Cases of terms of attention scores. Their weights follow a fixed rule.
#include <cmath>
#include <utility>

#include "tests/conformance/cases.h"

namespace phasor {
namespace {

// Numbers in [−1, 1), exact in every float type but for the 16-bit ones.
WeightRef Numbers(uint64_t seed, std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  std::vector<double> values(static_cast<size_t>(count));
  uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (double& value : values) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    value = std::ldexp(static_cast<double>(static_cast<int64_t>(state) >> 43), -20);
  }
  return MakeWeight(std::move(shape), values);
}

ShawSpec Shaw(int64_t clip, int64_t dim, bool both, bool values) {
  ShawSpec s;
  s.clip = clip;
  s.query_term_too = both;
  s.key_minus_query = values;
  s.keys = Numbers(1, {2 * clip + 1, dim});
  if (values) s.values = Numbers(2, {2 * clip + 1, dim});
  return s;
}

DebertaSpec Deberta(int64_t heads, int64_t buckets, int64_t furthest, int64_t dim) {
  DebertaSpec s;
  s.position_buckets = buckets;
  s.max_relative_positions = furthest;
  const int64_t rows = 2 * (buckets > 0 ? buckets : furthest);
  s.key_positions = Numbers(3, {heads, rows, dim});
  s.query_positions = Numbers(4, {heads, rows, dim});
  return s;
}

TransformerXlSpec TransformerXl(int64_t heads, int64_t dim, int64_t columns, std::optional<int64_t> clamp) {
  TransformerXlSpec s;
  s.clamp_length = clamp;
  s.w_r = Numbers(5, {heads * dim, columns});
  s.u = Numbers(6, {heads, dim});
  s.v = Numbers(7, {heads, dim});
  return s;
}

XlnetSpec Xlnet(int64_t heads, int64_t dim, bool unidirectional) {
  XlnetSpec s;
  s.unidirectional = unidirectional;
  s.w_r = Numbers(8, {heads * dim, heads * dim});
  s.r_w_bias = Numbers(9, {heads, dim});
  s.r_r_bias = Numbers(10, {heads, dim});
  return s;
}

ConformerSpec Conformer(int64_t heads, int64_t dim) {
  ConformerSpec s;
  s.w_r = Numbers(11, {heads * dim, heads * dim});
  s.u = Numbers(12, {heads, dim});
  s.v = Numbers(13, {heads, dim});
  return s;
}

ConformerSpec ConformerAlone(int64_t heads, int64_t dim) {
  ConformerSpec s;
  s.num_heads = heads;
  s.concatenated = s.base_inclusive = true;
  s.w_r = Numbers(17, {heads * dim, heads * dim});
  return s;
}

XlnetSpec Funnel(int64_t heads, int64_t dim) {
  XlnetSpec s = Xlnet(heads, dim, false);
  s.separate_cls = true;
  s.r_s_bias = Numbers(18, {heads, dim});
  s.seg_embed = Numbers(19, {2, heads, dim});
  std::vector<double> segments;  // of the 21 queries and 34 keys that cases are asked for
  for (int i = 0; i < 21 * 34; ++i) segments.push_back(i % 3 == 0 ? 1 : 0);
  s.segments = MakeWeight({21, 34}, segments);
  return s;
}

CopeSpec Cope(std::vector<int64_t> shape) {
  CopeSpec s;
  s.e = Numbers(14, std::move(shape));
  return s;
}

DecomposedSpec Decomposed(int64_t height, int64_t width, int64_t rows, int64_t dim) {
  DecomposedSpec s;
  s.query_height = height;
  s.query_width = width;
  s.rel_pos_h = Numbers(15, {rows, dim});
  s.rel_pos_w = Numbers(16, {2 * width - 1, dim});
  return s;
}

}  // namespace

void AppendTermCases(std::vector<Case>& cases) {
  cases.push_back({"shaw/bert-relative-key", Shaw(511, 64, false, false), {}});
  cases.push_back({"shaw/both-with-values", Shaw(16, 33, true, true), {}});
  cases.push_back({"shaw/one-row", Shaw(0, 4, false, false), {}});
  cases.push_back({"deberta/v3-base", Deberta(2, 256, 512, 64), {}});
  cases.push_back({"deberta/without-buckets", Deberta(3, 0, 17, 5), {}});
  cases.push_back({"deberta/two-buckets", Deberta(1, 2, 9, 8), {}});
  cases.push_back({"transformer_xl/wt103", TransformerXl(4, 41, 410, {}), {}});
  cases.push_back({"transformer_xl/clamped", TransformerXl(2, 8, 16, 400), {}});
  cases.push_back({"xlnet/bidirectional", Xlnet(4, 16, false), {}});
  cases.push_back({"xlnet/unidirectional", Xlnet(3, 7 * 2, true), {}});
  cases.push_back({"conformer/wav2vec2", Conformer(4, 16), {}});
  cases.push_back({"conformer/without-vectors", ConformerAlone(4, 16), {}});
  cases.push_back({"xlnet/funnel", Funnel(3, 8), {}});
  cases.push_back({"cope/shared", Cope({64, 64}), {}});
  cases.push_back({"cope/by-head", Cope({3, 5, 2}), {}});
  cases.push_back({"decomposed/sam-window", Decomposed(14, 14, 27, 16), {}});
  cases.push_back({"decomposed/resized", Decomposed(5, 3, 4, 7), {}});
}

}  // namespace phasor
