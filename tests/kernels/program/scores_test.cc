// Attention scores against the libraries that have their terms, and each trap with its right and its wrong value.
#include "kernels/program/scores.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "kernels/cpu/cpu_target.h"
#include "tests/kernels/program/score_cases.h"

namespace phasor {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

const ScoreCases& Cases() {
  static const ScoreCases cases = ReadScoreCases(PHASOR_GOLDEN_DIR "/scores/scores.txt");
  return cases;
}

const ScoreCase& CaseOf(const std::string& name) {
  for (const ScoreCase& c : Cases().cases) {
    if (c.name == name) return c;
  }
  ADD_FAILURE() << "no case " << name;
  return Cases().cases.front();
}

std::vector<std::unique_ptr<Backend>> Backends() {
  std::vector<std::unique_ptr<Backend>> backends;
  for (const char* name : {"cpu", "reference"}) backends.push_back(*CreateBackend(name));
  return backends;
}

std::vector<double> Scores(const ScoreSettings& settings, const std::vector<double>& q, const std::vector<double>& k) {
  static const std::unique_ptr<Backend> cpu = *CreateBackend("cpu");
  const auto result = RunScores(*cpu, settings, BytesOf(q, settings.tensor_dtype), BytesOf(k, settings.tensor_dtype));
  EXPECT_TRUE(result.ok()) << result.status();
  return result.ok() ? NumbersOf(result->scores, settings.dtype) : std::vector<double>();
}

std::vector<double> Scores(const ScoreCase& c) { return Scores(SettingsOf(c), c.q, c.k); }

TEST(ScoresTest, GoldensOfLibraries) {
  ASSERT_EQ(Cases().cases.size(), 33u);
  for (const ScoreCase& c : Cases().cases) {
    SCOPED_TRACE(c.name);
    const std::vector<double> got = Scores(c);
    ASSERT_EQ(got.size(), c.expect.size());
    for (size_t i = 0; i < got.size(); ++i) {
      if (!c.expect[i]) {
        EXPECT_EQ(got[i], -kInfinity) << i;
      } else {
        EXPECT_NEAR(got[i], *c.expect[i], c.tolerance * std::max(1.0, std::fabs(*c.expect[i]))) << i;
      }
    }
  }
}

TEST(ScoresTest, SameBitsOnEveryBackendTypeAndTarget) {
  const auto backends = Backends();
  for (const ScoreCase& c : Cases().cases) {
    SCOPED_TRACE(c.name);
    for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      ScoreSettings settings = SettingsOf(c);
      settings.tensor_dtype = dtype;
      settings.dtype = dtype == DType::kBF16 ? DType::kF32 : dtype;
      const auto expected = RunScores(*backends[1], settings, BytesOf(c.q, dtype), BytesOf(c.k, dtype));
      ASSERT_TRUE(expected.ok()) << expected.status();
      for (const std::string& target : CpuTargets()) {
        ASSERT_TRUE(ForceCpuTarget(target).ok());
        const auto got = RunScores(*backends[0], settings, BytesOf(c.q, dtype), BytesOf(c.k, dtype));
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_TRUE(got->scores == expected->scores) << target << " " << Name(dtype);
      }
      ASSERT_TRUE(ForceCpuTarget("auto").ok());
    }
  }
}

// Rows of a batch are what they are alone.
TEST(ScoresTest, BatchEqualsOneByOne) {
  for (const char* name : {"transformer_xl", "xlnet_memory_segments", "conformer", "shaw_both"}) {
    const ScoreCase& c = CaseOf(name);
    const ScoreSettings whole = SettingsOf(c);
    const std::vector<double> all = Scores(whole, c.q, c.k);
    for (int64_t b = 0; b < c.batch; ++b) {
      ScoreSettings one = whole;
      one.shape.batch = 1;
      const auto part = [&](const std::vector<double>& x) {
        const auto size = static_cast<int64_t>(x.size()) / c.batch;
        return std::vector<double>(x.begin() + b * size, x.begin() + (b + 1) * size);
      };
      EXPECT_EQ(Scores(one, part(c.q), part(c.k)), part(all)) << name << " " << b;
    }
  }
}

// A shard of the heads has the bits that the whole has.
TEST(ScoresTest, HeadOffsetReadsGlobalWeights) {
  for (const char* name : {"transformer_xl", "deberta", "xlnet_memory_segments", "scale_then_bias"}) {
    const ScoreCase& c = CaseOf(name);
    const std::vector<double> all = Scores(c);
    ScoreSettings shard = SettingsOf(c);
    const int64_t half = c.heads / 2, key_half = std::max<int64_t>(1, c.key_heads / 2);
    shard.shape.heads = half;
    shard.key_heads = key_half;
    shard.first_head = half;
    const auto heads_of = [&](const std::vector<double>& x, int64_t heads, int64_t count) {
      std::vector<double> part;
      for (size_t at = 0; at < x.size(); at += static_cast<size_t>(heads * c.dim)) {
        part.insert(part.end(), x.begin() + static_cast<int64_t>(at) + (heads - count) * c.dim,
                    x.begin() + static_cast<int64_t>(at) + heads * c.dim);
      }
      return part;
    };
    const std::vector<double> got = Scores(shard, heads_of(c.q, c.heads, half), heads_of(c.k, c.key_heads, key_half));
    const int64_t matrix = c.queries * c.keys;
    for (int64_t i = 0; i < static_cast<int64_t>(got.size()); ++i) {
      const int64_t b = i / (half * matrix), h = i / matrix % half;
      EXPECT_EQ(got[static_cast<size_t>(i)], all[static_cast<size_t>((b * c.heads + half + h) * matrix + i % matrix)]);
    }
  }
}

// Given as a table, the rows run from the largest distance down to 0: row 0 is the furthest key.
TEST(ScoresTest, TransformerXlRowsRunDownToZero) {
  ScoreSettings s;
  s.shape = {1, 1, 1, 3, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions.ids = {2};
  s.key_positions.ids = {0, 1, 2};
  s.omit_content = true;
  s.scale = 1;
  TransformerXlSpec term;
  term.r = MakeWeight({1, 3, 1}, {200, 100, 1});  // distances 2, 1, 0
  s.terms = {term};
  EXPECT_EQ(Scores(s, {1}, {0, 0, 0}), (std::vector<double>{200, 100, 1}));
  // Read the other way round the nearest key would get the furthest row: {1, 100, 200}.
}

// Libraries fill entries after the query with other rows' numbers by their shift; none of them may be seen.
TEST(ScoresTest, EntriesWithoutARowAreHidden) {
  const ScoreCase& c = CaseOf("transformer_xl");
  const std::vector<double> got = Scores(c);
  int64_t hidden = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(got.size()); ++i) {
    const int64_t query = i / c.keys % c.queries, key = i % c.keys;
    const bool after = key > query + c.keys - c.queries;
    EXPECT_EQ(got[static_cast<size_t>(i)] == -kInfinity, after);
    hidden += after ? 1 : 0;
  }
  EXPECT_EQ(hidden, 10 * c.batch * c.heads);
}

// The table begins at distance `keys`, one more than any pair has: its first row is never read, nor what is beyond −queries.
TEST(ScoresTest, XlnetTruncatesItsTable) {
  ScoreSettings s;
  s.shape = {1, 1, 2, 3, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions.ids = {1, 2};
  s.key_positions.ids = {0, 1, 2};
  s.omit_content = true;
  s.scale = 1;
  XlnetSpec term;
  term.r = MakeWeight({1, 5, 1}, {30, 20, 10, 0, -10});  // distances 3, 2, 1, 0, −1
  s.terms = {term};
  EXPECT_EQ(Scores(s, {1, 1}, {0, 0, 0}), (std::vector<double>{10, 0, -10, 20, 10, 0}));
  // Without the shift's cut the first row would show: {20, 10, 0, 30, 20, 10}.
}

// separate_cls: scores of the first query and of the first key are (q + r_w)·k alone.
TEST(ScoresTest, FunnelsClassTokenHasContentAlone) {
  ScoreSettings s;
  s.shape = {1, 1, 3, 3, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions.ids = s.key_positions.ids = {0, 1, 2};
  s.scale = 1;
  XlnetSpec term;
  term.separate_cls = true;
  term.r = MakeWeight({1, 6, 1}, {300, 200, 100, 0, -100, -200});  // distances 3 … −2
  term.r_w_bias = MakeWeight({1, 1}, {1});
  term.r_s_bias = MakeWeight({1, 1}, {0});
  term.seg_embed = MakeWeight({2, 1, 1}, {5, 7});
  term.segments = MakeWeight({3, 3}, {0, 1, 1, 0, 0, 1, 1, 1, 0});
  const std::vector<double> q = {1, 1, 1}, k = {1, 2, 3};
  s.terms = {term};
  EXPECT_EQ(Scores(s, q, k), (std::vector<double>{2, 4, 6, 2, 4 + 0 + 5, 6 - 100 + 7, 2, 4 + 100 + 7, 6 + 0 + 5}));
  // XLNet's own class token is a token as any other.
  term.separate_cls = false;
  s.terms = {term};
  EXPECT_EQ(Scores(s, q, k), (std::vector<double>{2 + 0 + 5, 4 - 100 + 7, 6 - 200 + 7, 2 + 100 + 5, 4 + 0 + 5, 6 - 100 + 7,
                                                  2 + 200 + 7, 4 + 100 + 7, 6 + 0 + 5}));
}

TEST(ScoresTest, DebertaRowsAreTheLibrarys) {
  ASSERT_EQ(Cases().deberta_rows.size(), 2u);
  for (const DebertaRows& golden : Cases().deberta_rows) {
    DebertaSpec spec;
    spec.position_buckets = golden.buckets;
    spec.max_relative_positions = golden.furthest;
    const auto canonical = Canonicalize(EncodingSpec(spec));
    ASSERT_TRUE(canonical.ok());
    const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
    ASSERT_TRUE(resolved.ok());
    const LogBuckets& buckets = std::get<DebertaPlan>(resolved->plan).buckets;
    for (int64_t distance = -golden.reach; distance <= golden.reach; ++distance) {
      EXPECT_EQ(buckets.at(-distance), golden.rows[static_cast<size_t>(distance + golden.reach)])
          << golden.buckets << " " << distance;
    }
  }
}

// Content to position and position to content both index by i − j, whatever the paper writes.
TEST(ScoresTest, DebertaIndexesBothTermsByQueryMinusKey) {
  for (const bool c2p : {true, false}) {
    ScoreSettings s;
    s.shape = {1, 1, 3, 3, 1};
    s.key_heads = 1;
    s.tensor_dtype = s.dtype = DType::kF64;
    s.query_positions.ids = s.key_positions.ids = {0, 1, 2};
    s.omit_content = true;
    s.scale = 1;
    DebertaSpec term;
    term.position_buckets = 0;
    term.max_relative_positions = 3;
    term.c2p = c2p;
    term.p2c = !c2p;
    (c2p ? term.key_positions : term.query_positions) = MakeWeight({1, 6, 1}, {-3, -2, -1, 0, 1, 2});  // row 3 + distance
    s.terms = {term};
    EXPECT_EQ(Scores(s, {1, 1, 1}, {1, 1, 1}), (std::vector<double>{0, -1, -2, 1, 0, -1, 2, 1, 0})) << c2p;
    // By j − i it would be the transpose.
  }
}

// The scale divides by √(d·f), f = 1 + terms, on all of them.
TEST(ScoresTest, DebertaScaleCountsItsTerms) {
  for (const auto& [name, f] : {std::pair{"deberta", 3}, {"deberta_c2p", 2}, {"deberta_p2c", 2}}) {
    const ScoreCase& c = CaseOf(name);
    const auto program = ScoreProgram::Make(SettingsOf(c));
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ(program->ScaleWith(1), 1 / std::sqrt(static_cast<double>(c.dim * f)));
    EXPECT_NE(program->ScaleWith(1), 1 / std::sqrt(static_cast<double>(c.dim)));
  }
}

// Keys after the query are hidden before the sigmoid: they do not count as positions.
TEST(ScoresTest, CopeCountsNoKeyAfterTheQuery) {
  ScoreSettings s;
  s.shape = {1, 1, 1, 2, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions.ids = {0};
  s.key_positions.ids = {0, 1};
  s.omit_content = true;
  s.scale = 1;
  CopeSpec term;
  term.e = MakeWeight({1, 3}, {0, 1, 2});
  term.max_positions = 3;
  s.terms = {term};
  // q·k = 0: each key counts ½, so key 0 stands at ½, and at 1 if the key after it counted.
  EXPECT_EQ(Scores(s, {1}, {0, 0}), (std::vector<double>{0.5, -kInfinity}));
}

// SAM adds its term to the scaled product, unscaled.
TEST(ScoresTest, DecomposedIsNotScaled) {
  ScoreSettings s;
  s.shape = {1, 1, 1, 1, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions.ids = s.key_positions.ids = {0};
  s.scale = 0.5;
  DecomposedSpec term;
  term.query_height = term.query_width = term.key_height = term.key_width = 1;
  term.rel_pos_h = MakeWeight({1, 1}, {8});
  term.rel_pos_w = MakeWeight({1, 1}, {16});
  s.terms = {term};
  EXPECT_EQ(Scores(s, {1}, {4}), std::vector<double>{4 * 0.5 + 8 + 16});
  s.scale_order = ScaleOrder::kBiasThenScale;
  EXPECT_EQ(Scores(s, {1}, {4}), std::vector<double>{(4 + 8 + 16) * 0.5});
}

// Falcon multiplies q·k + bias by the scale, others the product alone.
TEST(ScoresTest, ScaleOrder) {
  ScoreSettings s;
  s.shape = {1, 1, 2, 2, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions.ids = s.key_positions.ids = {0, 1};
  s.scale = 0.25;
  AlibiSpec alibi;
  alibi.slopes = {2};
  s.biases = {Canonicalize(EncodingSpec(alibi))->spec};
  s.masking.causal = true;
  EXPECT_EQ(Scores(s, {1, 1}, {4, 8}), (std::vector<double>{1, -kInfinity, 1 - 2, 2}));
  s.scale_order = ScaleOrder::kBiasThenScale;
  EXPECT_EQ(Scores(s, {1, 1}, {4, 8}), (std::vector<double>{1, -kInfinity, (4 - 2) * 0.25, 2}));
}

TEST(ScoresTest, RowsWithoutKeys) {
  ScoreSettings s;
  s.shape = {1, 1, 2, 2, 1};
  s.key_heads = 1;
  s.tensor_dtype = DType::kF64;
  s.dtype = DType::kF32;
  s.query_positions.ids = s.key_positions.ids = {0, 1};
  s.scale = 1;
  s.masking.causal = true;
  s.masking.key_padding = {0, 1};
  EXPECT_EQ(Scores(s, {1, 1}, {1, 1}), (std::vector<double>{-kInfinity, -kInfinity, -kInfinity, 1}));
  s.masking.lowest_finite_rows = true;
  const double lowest = std::numeric_limits<float>::lowest();
  EXPECT_EQ(Scores(s, {1, 1}, {1, 1}), (std::vector<double>{lowest, lowest, -kInfinity, 1}));
  s.softmax = true;
  EXPECT_EQ(Scores(s, {1, 1}, {1, 1}), (std::vector<double>{0, 0, 0, 1}));
}

// Positions that are not consecutive, by batch row: the bias follows them.
TEST(ScoresTest, BiasesFollowPositions) {
  ScoreSettings s;
  s.shape = {2, 1, 1, 3, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions = {{10, 4}, true};
  s.key_positions = {{0, 7, 10, 4, 4, 1}, true};
  s.omit_content = true;
  AlibiSpec alibi;
  alibi.slopes = {3};
  s.biases = {Canonicalize(EncodingSpec(alibi))->spec};
  EXPECT_EQ(Scores(s, {0, 0}, {0, 0, 0, 0, 0, 0}), (std::vector<double>{-30, -9, 0, 0, 0, -9}));
}

// Any bias of the catalogue, added to nothing, has the values of its own matrix.
TEST(ScoresTest, EveryKindOfBias) {
  ScoreSettings s;
  s.shape = {1, 2, 4, 4, 1};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions.ids = s.key_positions.ids = {0, 1, 2, 3};
  s.omit_content = true;
  const std::vector<double> q(8, 0.0), k(4, 0.0);
  WindowBiasSpec window;
  window.window_height = window.window_width = 2;
  window.table = MakeWeight({9, 2}, {0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16, 7, 17, 8, 18});
  s.biases = {Canonicalize(EncodingSpec(window))->spec};
  const std::vector<double> got = Scores(s, q, k);
  for (int64_t i = 0; i < 16; ++i) {
    const int64_t query = i / 4, key = i % 4;
    const int64_t row = (query / 2 - key / 2 + 1) * 3 + query % 2 - key % 2 + 1;
    EXPECT_EQ(got[static_cast<size_t>(i)], static_cast<double>(row));
    EXPECT_EQ(got[static_cast<size_t>(16 + i)], static_cast<double>(row + 10));
  }
  T5BucketSpec t5;
  t5.num_buckets = 4;
  t5.max_distance = 4;
  t5.table = MakeWeight({4, 2}, {1, 5, 2, 6, 3, 7, 4, 8});
  s.biases = {Canonicalize(EncodingSpec(t5))->spec};
  const std::vector<double> buckets = Scores(s, q, k);
  EXPECT_EQ(std::vector<double>(buckets.begin(), buckets.begin() + 4), (std::vector<double>{1, 4, 4, 4}));
  EXPECT_EQ(std::vector<double>(buckets.begin() + 12, buckets.begin() + 16), (std::vector<double>{2, 2, 2, 1}));
  AlibiSpec alibi;
  alibi.batch_slopes = {1, 2, 3, 4};
  alibi.num_heads = 2;
  s.shape.batch = 2;
  s.biases = {Canonicalize(EncodingSpec(alibi))->spec};
  const std::vector<double> slopes = Scores(s, std::vector<double>(16, 0.0), std::vector<double>(8, 0.0));
  for (int64_t row = 0; row < 4; ++row)
    EXPECT_EQ(slopes[static_cast<size_t>(row * 16 + 12)], -3.0 * static_cast<double>(row + 1));
}

TEST(ScoresTest, ShawValues) {
  ScoreSettings s;
  s.shape = {1, 1, 2, 2, 2};
  s.key_heads = 1;
  s.tensor_dtype = s.dtype = DType::kF64;
  s.query_positions.ids = s.key_positions.ids = {0, 1};
  s.softmax = true;
  ShawSpec term;
  term.clip = 1;
  term.keys = MakeWeight({3, 2}, {0, 0, 0, 0, 0, 0});
  term.values = MakeWeight({3, 2}, {4, 8, 1, 2, 16, 32});  // distances −1, 0, 1
  s.terms = {term};
  for (const auto& backend : Backends()) {
    const auto result = RunScores(*backend, s, BytesOf({0, 0, 0, 0}, DType::kF64), BytesOf({0, 0, 0, 0}, DType::kF64));
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(NumbersOf(result->values, DType::kF64), (std::vector<double>{2.5, 5, 8.5, 17}));
  }
}

TEST(ScoresTest, EmptyExtents) {
  for (const ScoreShape& shape : {ScoreShape{0, 2, 3, 4, 4}, ScoreShape{1, 2, 0, 4, 4}, ScoreShape{2, 2, 3, 0, 4}}) {
    ScoreSettings s = SettingsOf(CaseOf("transformer_xl"));
    s.shape = shape;
    s.query_positions.ids.assign(static_cast<size_t>(shape.queries), 3);
    s.key_positions.ids.assign(static_cast<size_t>(shape.keys), 2);
    const std::vector<double> q(static_cast<size_t>(shape.batch * shape.queries * shape.heads * shape.dim), 1.0);
    const std::vector<double> k(static_cast<size_t>(shape.batch * shape.keys * shape.heads * shape.dim), 1.0);
    EXPECT_TRUE(Scores(s, q, k).empty());
  }
}

std::string FieldOf(const ScoreSettings& settings) {
  const auto program = ScoreProgram::Make(settings);
  if (program.ok()) return "";
  const auto error = SpecErrorOf(program.status());
  return error ? error->field : std::string(program.status().message());
}

TEST(ScoresTest, ErrorsNameTheField) {
  const auto with = [](const char* name, auto change) {
    ScoreSettings s = SettingsOf(CaseOf(name));
    change(s);
    return FieldOf(s);
  };
  EXPECT_EQ(with("transformer_xl", [](auto&) {}), "");
  EXPECT_EQ(with("transformer_xl", [](auto& s) { s.first_head = 1; }), "terms[0].weights.u.tensor.shape");
  EXPECT_EQ(with("transformer_xl", [](auto& s) { s.shape.dim = 5; }), "terms[0].weights.u.tensor.shape");
  EXPECT_EQ(with("transformer_xl", [](auto& s) { s.query_positions.ids[0] = int64_t{1} << 30; }), "terms[0].transformer_xl");
  EXPECT_EQ(with("deberta", [](auto& s) { std::get<DebertaSpec>(s.terms[0]).key_positions = {}; }), "terms[0].weights");
  EXPECT_EQ(with("xlnet_memory_segments", [](auto& s) { s.shape.keys = 6; }), "terms[0].weights.segments.tensor.shape");
  EXPECT_EQ(with("decomposed", [](auto& s) { s.shape.queries = 6; }), "terms[0].decomposed.query_height");
  EXPECT_EQ(with("decomposed", [](auto& s) { s.shape.keys = 6; }), "terms[0].decomposed.key_height");
  EXPECT_EQ(with("cope", [](auto& s) { s.terms.push_back(s.terms[0]); }), "terms[1]");
  EXPECT_EQ(with("cope", [](auto& s) { s.terms[0] = AlibiSpec{}; }), "terms[0]");
  EXPECT_EQ(with("cope", [](auto& s) { s.biases.push_back(s.terms[0]); }), "biases[0]");
  EXPECT_EQ(with("cope", [](auto& s) { s.key_heads = 3; }), "k.shape");
  EXPECT_EQ(with("cope", [](auto& s) { s.max_elements = 3; }), "q.shape");
  EXPECT_EQ(with("cope", [](auto& s) { s.scale = 0; }), "scale");
  EXPECT_EQ(with("scale_then_bias", [](auto& s) { std::get<RopeSpec>(*s.rotation).head_dim = 6; }),
            "rotation.rope.head_dim");
  EXPECT_EQ(with("scale_then_bias", [](auto& s) { s.first_head = 1; }), "biases[0]");
  EXPECT_EQ(with("scale_then_bias", [](auto& s) { s.query_positions.ids[0] = int64_t{1} << 30; }), "biases[0]");
  ScoreSettings given = SettingsOf(CaseOf("transformer_xl"));
  TransformerXlSpec short_table;
  short_table.r = MakeWeight({2, 3, 4}, std::vector<double>(24, 0.0));
  given.terms = {short_table};
  EXPECT_EQ(FieldOf(given), "terms[0].weights.r.tensor.shape[1]");
}

}  // namespace
}  // namespace phasor
