// Specs of score terms: defaults, errors field by field, keys.
#include <gtest/gtest.h>

#include <functional>
#include <limits>

#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

WeightRef Zeros(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape) count *= extent;
  return MakeWeight(std::move(shape), std::vector<double>(static_cast<size_t>(count)));
}

ShawSpec Shaw() {
  ShawSpec s;
  s.clip = 2;
  s.keys = Zeros({5, 4});
  return s;
}
DebertaSpec Deberta() {
  DebertaSpec s;
  s.position_buckets = 4;
  s.max_relative_positions = 8;
  s.key_positions = s.query_positions = Zeros({2, 8, 4});
  return s;
}
TransformerXlSpec TransformerXl() {
  TransformerXlSpec s;
  s.w_r = Zeros({8, 6});
  s.u = s.v = Zeros({2, 4});
  return s;
}
XlnetSpec Xlnet() {
  XlnetSpec s;
  s.w_r = Zeros({8, 6});
  s.r_w_bias = s.r_r_bias = s.r_s_bias = Zeros({2, 4});
  s.seg_embed = Zeros({2, 2, 4});
  s.segments = Zeros({3, 5});
  return s;
}
ConformerSpec Conformer() {
  ConformerSpec s;
  s.w_r = Zeros({8, 6});
  s.u = s.v = Zeros({2, 4});
  return s;
}
CopeSpec Cope() {
  CopeSpec s;
  s.e = Zeros({4, 7});
  return s;
}
DecomposedSpec Decomposed() {
  DecomposedSpec s;
  s.query_height = 3;
  s.query_width = 2;
  s.rel_pos_h = s.rel_pos_w = Zeros({5, 4});
  return s;
}

// The field at fault after a change; empty when it is taken.
template <typename Spec>
std::string FieldAfter(Spec spec, const std::function<void(Spec&)>& change) {
  change(spec);
  const auto canonical = Canonicalize(EncodingSpec(spec));
  if (canonical.ok()) return "";
  const auto error = SpecErrorOf(canonical.status());
  return error ? error->field : std::string(canonical.status().message());
}

TEST(TermSpecsTest, DefaultsAreWrittenOut) {
  const auto deberta = std::get<DebertaSpec>(Canonicalize(EncodingSpec(DebertaSpec{}))->spec);
  EXPECT_EQ(deberta.position_buckets, 256);
  EXPECT_EQ(deberta.max_relative_positions, 512);
  EXPECT_EQ(deberta.c2p, true);
  EXPECT_EQ(deberta.p2c, true);
  EXPECT_EQ(std::get<TransformerXlSpec>(Canonicalize(EncodingSpec(TransformerXl()))->spec).dim, 6);
  EXPECT_EQ(std::get<XlnetSpec>(Canonicalize(EncodingSpec(Xlnet()))->spec).base, 10000.0);
  EXPECT_EQ(std::get<CopeSpec>(Canonicalize(EncodingSpec(Cope()))->spec).max_positions, 7);
  EXPECT_EQ(std::get<DecomposedSpec>(Canonicalize(EncodingSpec(Decomposed()))->spec).key_height, 3);
  for (const EncodingSpec& spec :
       std::vector<EncodingSpec>{Shaw(), Deberta(), TransformerXl(), Xlnet(), Conformer(), Cope(), Decomposed()}) {
    const auto once = Canonicalize(spec);
    ASSERT_TRUE(once.ok()) << once.status();
    EXPECT_EQ(Canonicalize(once->spec)->spec, once->spec);
    EXPECT_TRUE(Resolve(*once, std::nullopt, Precision::kExact).ok());
  }
}

TEST(TermSpecsTest, ErrorsNameTheField) {
  const auto shaw = [](auto change) { return FieldAfter<ShawSpec>(Shaw(), change); };
  EXPECT_EQ(shaw([](auto& s) { s.clip = -1; }), "shaw.clip");
  EXPECT_EQ(shaw([](auto& s) { s.clip = (1 << 20) + 1; }), "shaw.clip");
  EXPECT_EQ(shaw([](auto& s) { s.clip = 3; }), "weights.keys.tensor.shape");
  EXPECT_EQ(shaw([](auto& s) { s.values = Zeros({4, 4}); }), "weights.values.tensor.shape");
  EXPECT_EQ(shaw([](auto& s) { s.values = s.keys, s.keys = {}; }), "weights.values");
  EXPECT_EQ(shaw([](auto& s) { s.keys = {}; }), "");  // its indices
  const auto deberta = [](auto change) { return FieldAfter<DebertaSpec>(Deberta(), change); };
  EXPECT_EQ(deberta([](auto& s) { s.position_buckets = 5; }), "deberta.position_buckets");
  EXPECT_EQ(deberta([](auto& s) { s.position_buckets = -2; }), "deberta.position_buckets");
  EXPECT_EQ(deberta([](auto& s) { s.max_relative_positions = 3; }), "deberta.max_relative_positions");
  EXPECT_EQ(deberta([](auto& s) { s.max_relative_positions = (1 << 20) + 1; }), "deberta.max_relative_positions");
  EXPECT_EQ(deberta([](auto& s) { s.c2p = false; }), "weights.key_positions");
  EXPECT_EQ(deberta([](auto& s) { s.p2c = false; }), "weights.query_positions");
  EXPECT_EQ(deberta([](auto& s) { s.key_positions = Zeros({2, 7, 4}); }), "weights.key_positions.tensor.shape");
  EXPECT_EQ(deberta([](auto& s) { s.query_positions = Zeros({3, 8, 4}); }), "weights.query_positions.tensor.shape");
  EXPECT_EQ(deberta([](auto& s) { s.query_positions = {}; }), "weights");
  const auto txl = [](auto change) { return FieldAfter<TransformerXlSpec>(TransformerXl(), change); };
  EXPECT_EQ(txl([](auto& s) { s.clamp_length = 0; }), "transformer_xl.clamp_length");
  EXPECT_EQ(txl([](auto& s) { s.base = -1; }), "transformer_xl.base");
  EXPECT_EQ(txl([](auto& s) { s.dim = 8; }), "weights.w_r.tensor.shape");
  EXPECT_EQ(txl([](auto& s) { s.w_r = Zeros({8, 5}); }), "transformer_xl.dim");
  EXPECT_EQ(txl([](auto& s) { s.w_r = {}; }), "weights");
  EXPECT_EQ(txl([](auto& s) { s.u = s.v = {}; }), "weights");
  EXPECT_EQ(txl([](auto& s) { s.v = Zeros({2, 3}); }), "weights.v.tensor.shape");
  EXPECT_EQ(txl([](auto& s) { s.r = Zeros({2, 3, 4}); }), "weights");
  const auto xlnet = [](auto change) { return FieldAfter<XlnetSpec>(Xlnet(), change); };
  EXPECT_EQ(xlnet([](auto& s) { s.clamp_length = -1; }), "xlnet.clamp_length");
  EXPECT_EQ(xlnet([](auto& s) { s.base = std::numeric_limits<double>::infinity(); }), "xlnet.base");
  EXPECT_EQ(xlnet([](auto& s) { s.seg_embed = {}; }), "weights");
  EXPECT_EQ(xlnet([](auto& s) { s.r_s_bias = Zeros({2, 5}); }), "weights.r_s_bias.tensor.shape");
  EXPECT_EQ(xlnet([](auto& s) { s.segments = MakeWeight({1, 2}, {0, 2}); }), "weights.segments.tensor");
  const auto conformer = [](auto change) { return FieldAfter<ConformerSpec>(Conformer(), change); };
  EXPECT_EQ(conformer([](auto& s) { s.base = 0; }), "conformer.base");
  EXPECT_EQ(conformer([](auto& s) { s.dim = 4; }), "weights.w_r.tensor.shape");
  EXPECT_EQ(conformer([](auto& s) { s.w_r = {}, s.r = Zeros({2, 4, 4}); }), "weights.r.tensor.shape[1]");
  EXPECT_EQ(conformer([](auto& s) { s.u = s.v = {}; }), "weights");
  ConformerSpec given = Conformer();  // r says all that w_r and the sinusoids would: one spelling
  given.w_r = {};
  given.r = Zeros({2, 5, 4});
  ConformerSpec said = given;
  said.concatenated = said.base_inclusive = true;
  const auto plain = Canonicalize(given), flagged = Canonicalize(said);
  ASSERT_TRUE(plain.ok() && flagged.ok());
  EXPECT_EQ(plain->spec, flagged->spec);
  EXPECT_TRUE(plain->warnings.empty());
  EXPECT_EQ(flagged->warnings.size(), 2u);
  EXPECT_EQ(conformer([](auto& s) { s.u = s.v = {}, s.num_heads = 2; }), "");
  EXPECT_EQ(conformer([](auto& s) { s.u = s.v = {}, s.num_heads = 3; }), "conformer.num_heads");  // 8 rows
  EXPECT_EQ(conformer([](auto& s) { s.num_heads = 4; }), "conformer.num_heads");                  // u has 2
  EXPECT_EQ(conformer([](auto& s) { s.num_heads = -1; }), "conformer.num_heads");
  EXPECT_EQ(conformer([](auto& s) { s.u = s.v = {}, s.num_heads = 65537; }), "conformer.num_heads");
  const auto cope = [](auto change) { return FieldAfter<CopeSpec>(Cope(), change); };
  EXPECT_EQ(cope([](auto& s) { s.e = {}; }), "weights");
  EXPECT_EQ(cope([](auto& s) { s.max_positions = 6; }), "weights.e.tensor.shape");
  EXPECT_EQ(cope([](auto& s) { s.e = Zeros({4, 1}); }), "cope.max_positions");
  EXPECT_EQ(cope([](auto& s) { s.e = MakeWeight({1, 2}, {0, std::numeric_limits<double>::quiet_NaN()}); }),
            "weights.e.tensor");
  const auto decomposed = [](auto change) { return FieldAfter<DecomposedSpec>(Decomposed(), change); };
  EXPECT_EQ(decomposed([](auto& s) { s.query_height = 0; }), "decomposed.query_height");
  EXPECT_EQ(decomposed([](auto& s) { s.query_width = 4097; }), "decomposed.query_width");
  EXPECT_EQ(decomposed([](auto& s) { s.key_height = -1; }), "decomposed.key_height");
  EXPECT_EQ(decomposed([](auto& s) { s.key_width = 5000; }), "decomposed.key_width");
  EXPECT_EQ(decomposed([](auto& s) { s.rel_pos_h = {}; }), "weights");
  EXPECT_EQ(decomposed([](auto& s) { s.rel_pos_w = Zeros({5, 3}); }), "weights.rel_pos_w.tensor.shape");
}

// Without vectors num_heads says how the rows of w_r are shared; with them it is theirs.
TEST(TermSpecsTest, ConformerKnowsItsHeads) {
  ConformerSpec said = Conformer();
  said.num_heads = 2;
  EXPECT_EQ(Canonicalize(EncodingSpec(said))->spec, Canonicalize(EncodingSpec(Conformer()))->spec);
  ConformerSpec alone = Conformer();
  alone.u = alone.v = {};
  alone.num_heads = 4;
  const auto resolved = Resolve(*Canonicalize(EncodingSpec(alone)), std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  const auto& plan = std::get<SinusoidTermPlan>(resolved->plan);
  EXPECT_EQ(plan.heads, 4);
  EXPECT_EQ(plan.dim, 2);
  // The last of three frequencies is 1/base with base_inclusive; 10000^(−4/6) without.
  EXPECT_NEAR(plan.sinusoids->inv_freq[2], 0.0021544346900318843, 1e-18);
  alone.base_inclusive = true;
  const auto inclusive = Resolve(*Canonicalize(EncodingSpec(alone)), std::nullopt, Precision::kExact);
  EXPECT_EQ(std::get<SinusoidTermPlan>(inclusive->plan).sinusoids->inv_freq[2], 1e-4);
  alone.w_r = Zeros({8, 2});
  const auto one = Resolve(*Canonicalize(EncodingSpec(alone)), std::nullopt, Precision::kExact);
  EXPECT_EQ(std::get<SinusoidTermPlan>(one->plan).sinusoids->inv_freq, std::vector<double>{1.0});
}

// Whatever decides bits is in the key.
TEST(TermSpecsTest, KeysTellPlansApart) {
  std::vector<EncodingSpec> specs = {Shaw(), Deberta(), TransformerXl(), Xlnet(), Conformer(), Cope(), Decomposed()};
  ShawSpec mirrored = Shaw();
  mirrored.key_minus_query = true;
  ShawSpec other = Shaw();
  other.keys = MakeWeight({5, 4}, std::vector<double>(20, 1.0));
  TransformerXlSpec clamped = TransformerXl();
  clamped.clamp_length = 3;
  TransformerXlSpec based = TransformerXl();
  based.base = 100;
  XlnetSpec one_way = Xlnet();
  one_way.unidirectional = true;
  XlnetSpec separate = Xlnet();
  separate.separate_cls = true;
  ConformerSpec columns = Conformer(), last = Conformer(), two = Conformer(), four = Conformer();
  columns.concatenated = true;
  last.base_inclusive = true;
  two.u = two.v = four.u = four.v = {};
  two.num_heads = 2, four.num_heads = 4;
  specs.insert(specs.end(), {separate, columns, last, two, four});
  DecomposedSpec grid = Decomposed();
  grid.key_width = 5;
  DebertaSpec buckets = Deberta();
  buckets.max_relative_positions = 9;
  specs.insert(specs.end(), {mirrored, other, clamped, based, one_way, grid, buckets});
  std::vector<std::string> keys;
  for (const EncodingSpec& spec : specs) {
    keys.push_back(PlanKey(Resolve(*Canonicalize(spec), std::nullopt, Precision::kExact)->plan));
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t j = 0; j < i; ++j) EXPECT_NE(keys[i], keys[j]) << i << " " << j;
  }
}

}  // namespace
}  // namespace phasor
