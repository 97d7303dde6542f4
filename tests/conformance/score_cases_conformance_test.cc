// Every case of a term as whole scores: cpu on every instruction set against the reference, bit for bit.
#include <cmath>
#include <random>

#include "tests/conformance/case_run.h"
#include "tests/kernels/program/score_cases.h"

namespace phasor {
namespace {

// Heads and channels that a term's weights have.
ScoreShape ShapeOf(const EncodingSpec& spec) {
  ScoreShape shape{2, 1, 21, 34, 0};
  if (const auto* s = std::get_if<ShawSpec>(&spec)) shape.dim = s->keys->shape[1];
  if (const auto* s = std::get_if<DebertaSpec>(&spec)) {
    shape.heads = s->key_positions->shape[0];
    shape.dim = s->key_positions->shape[2];
  }
  const auto from = [&](const WeightRef& bias) { shape.heads = bias->shape[0], shape.dim = bias->shape[1]; };
  if (const auto* s = std::get_if<TransformerXlSpec>(&spec)) from(s->u);
  if (const auto* s = std::get_if<XlnetSpec>(&spec)) from(s->r_w_bias);
  if (const auto* s = std::get_if<ConformerSpec>(&spec)) {
    if (s->u) {
      from(s->u);
    } else {
      shape.heads = s->num_heads;
      shape.dim = s->w_r->shape[0] / s->num_heads;
    }
  }
  if (const auto* s = std::get_if<CopeSpec>(&spec)) {
    shape.dim = s->e->shape[s->e->shape.size() - 2];
    if (s->e->shape.size() == 3) shape.heads = s->e->shape[0];
  }
  if (const auto* s = std::get_if<DecomposedSpec>(&spec)) {
    shape.dim = s->rel_pos_h->shape[1];
    shape.queries = s->query_height * s->query_width;
    shape.keys = s->key_height * s->key_width;
  }
  return shape;
}

TEST(ScoreCasesTest, SameBitsAsTheReference) {
  std::mt19937_64 random(51);
  const std::unique_ptr<Backend> reference = *CreateBackend("reference");
  std::vector<Case> cases;
  AppendTermCases(cases);
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto canonical = Canonicalize(c.spec);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    for (DType dtype : kFloatTypes) {
      ScoreSettings s;
      s.shape = ShapeOf(canonical->spec);
      s.key_heads = s.shape.heads;
      s.tensor_dtype = s.dtype = dtype;
      s.terms = {canonical->spec};
      s.masking.causal = random() % 2 == 0;
      s.softmax = random() % 2 == 0;
      s.omit_content = random() % 4 == 0;
      for (int64_t i = 0; i < s.shape.queries; ++i) s.query_positions.ids.push_back(s.shape.keys - s.shape.queries + i);
      for (int64_t j = 0; j < s.shape.keys; ++j) s.key_positions.ids.push_back(j);
      const auto numbers = [&](int64_t tokens) {
        std::vector<double> x(static_cast<size_t>(s.shape.batch * tokens * s.shape.heads * s.shape.dim));
        for (double& v : x) v = std::ldexp(static_cast<double>(static_cast<int64_t>(random()) >> 44), -18);
        return BytesOf(x, dtype);
      };
      const auto q = numbers(s.shape.queries), k = numbers(s.shape.keys);
      const auto expected = RunScores(*reference, s, q, k);
      ASSERT_TRUE(expected.ok()) << expected.status();
      for (const Variant& variant : VariantsUnderTest()) {
        const auto got = RunScores(variant.Select(), s, q, k);
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_TRUE(got->scores == expected->scores) << variant.name << " " << Name(dtype);
        EXPECT_TRUE(got->values == expected->values) << variant.name << " " << Name(dtype);
      }
    }
  }
}

}  // namespace
}  // namespace phasor
