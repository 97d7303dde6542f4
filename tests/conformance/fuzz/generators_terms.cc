// Terms of attention scores.
#include <utility>

#include "tests/conformance/fuzz/generators.h"

namespace phasor {
namespace {

int64_t Heads(Rng& rng) { return rng.Pick<int64_t>({1, 2, 3, 4, 6}); }
// Of a head; now and then as wide as heads get.
int64_t Dim(Rng& rng) {
  return rng.OneIn(3) ? rng.Pick<int64_t>({32, 64}) : rng.OneIn(8) ? rng.Int(100, 514) : rng.LogInt(1, 80);
}

EncodingSpec Shaw(Rng& rng) {
  ShawSpec s;
  s.clip = rng.LogInt(0, 60);
  s.query_term_too = rng.OneIn(2);
  s.key_minus_query = rng.OneIn(2);
  const int64_t dim = Dim(rng);
  s.keys = RandomWeight(rng, {2 * s.clip + 1, dim});
  if (rng.OneIn(2)) s.values = RandomWeight(rng, {2 * s.clip + 1, dim});
  return s;
}

EncodingSpec Deberta(Rng& rng) {
  DebertaSpec s;
  s.position_buckets = rng.OneIn(3) ? 0 : 2 * rng.LogInt(1, 20);
  s.max_relative_positions = rng.LogInt(*s.position_buckets / 2 + 2, 80);
  s.c2p = !rng.OneIn(4);
  s.p2c = !*s.c2p || !rng.OneIn(4);
  const int64_t rows = 2 * (*s.position_buckets > 0 ? *s.position_buckets : *s.max_relative_positions);
  const std::vector<int64_t> shape = {Heads(rng), rows, Dim(rng)};
  if (*s.c2p) s.key_positions = RandomWeight(rng, shape);
  if (*s.p2c) s.query_positions = RandomWeight(rng, shape);
  return s;
}

// A table [heads, rows, dim], or a projection of sinusoids to it.
template <typename Spec>
void SetTable(Rng& rng, int64_t heads, int64_t dim, Spec& s) {
  if (rng.OneIn(3)) {
    s.r = RandomWeight(rng, {heads, 2 * rng.LogInt(10, 50) + 1, dim});
    return;
  }
  s.w_r = RandomWeight(rng, {heads * dim, 2 * rng.LogInt(1, 40)});
  if (rng.OneIn(2)) s.base = rng.LogReal(1.5, 1e6);
}

EncodingSpec TransformerXl(Rng& rng) {
  TransformerXlSpec s;
  const int64_t heads = Heads(rng), dim = Dim(rng);
  if (rng.OneIn(2)) s.clamp_length = rng.LogInt(1, 40);
  SetTable(rng, heads, dim, s);
  s.u = RandomWeight(rng, {heads, dim});
  if (rng.OneIn(2)) s.v = RandomWeight(rng, {heads, dim});
  return s;
}

EncodingSpec Xlnet(Rng& rng) {
  XlnetSpec s;
  const int64_t heads = Heads(rng), dim = Dim(rng);
  if (rng.OneIn(2)) s.clamp_length = rng.LogInt(1, 40);
  s.unidirectional = rng.OneIn(2);
  s.separate_cls = rng.OneIn(2);
  SetTable(rng, heads, dim, s);
  s.r_w_bias = RandomWeight(rng, {heads, dim});
  if (rng.OneIn(2)) s.r_r_bias = RandomWeight(rng, {heads, dim});
  if (rng.OneIn(2)) {
    s.r_s_bias = RandomWeight(rng, {heads, dim});
    s.seg_embed = RandomWeight(rng, {2, heads, dim});
    const int64_t queries = rng.Int(1, 9), keys = queries + rng.Int(0, 9);
    std::vector<double> segments;
    for (int64_t i = 0; i < queries * keys; ++i) segments.push_back(rng.OneIn(2) ? 1 : 0);
    s.segments = MakeWeight({queries, keys}, segments);
  }
  return s;
}

EncodingSpec Conformer(Rng& rng) {
  ConformerSpec s;
  const int64_t heads = Heads(rng), dim = Dim(rng);
  SetTable(rng, heads, dim, s);
  s.concatenated = rng.OneIn(2);
  s.base_inclusive = rng.OneIn(2);
  if (s.w_r && rng.OneIn(3)) {
    s.num_heads = heads;
    return s;
  }
  s.u = RandomWeight(rng, {heads, dim});
  if (rng.OneIn(2)) s.v = RandomWeight(rng, {heads, dim});
  return s;
}

EncodingSpec Cope(Rng& rng) {
  CopeSpec s;
  std::vector<int64_t> shape = {Dim(rng), rng.LogInt(2, 30)};
  if (rng.OneIn(2)) shape.insert(shape.begin(), Heads(rng));
  s.e = RandomWeight(rng, std::move(shape));
  return s;
}

EncodingSpec Decomposed(Rng& rng) {
  DecomposedSpec s;
  s.query_height = rng.LogInt(1, 7);
  s.query_width = rng.LogInt(1, 7);
  if (rng.OneIn(2)) s.key_height = rng.LogInt(1, 7);
  if (rng.OneIn(2)) s.key_width = rng.LogInt(1, 7);
  const int64_t dim = Dim(rng);
  s.rel_pos_h = RandomWeight(rng, {rng.LogInt(1, 15), dim});
  s.rel_pos_w = RandomWeight(rng, {rng.LogInt(1, 15), dim});
  return s;
}

}  // namespace

std::vector<SpecGenerator> TermGenerators() {
  return {{"shaw", &Shaw},           {"deberta", &Deberta}, {"transformer_xl", &TransformerXl}, {"xlnet", &Xlnet},
          {"conformer", &Conformer}, {"cope", &Cope},       {"decomposed", &Decomposed}};
}

}  // namespace phasor
