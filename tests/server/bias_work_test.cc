// Biases from the wire to the answer: positions, masks, indices, batches, heads of a shard; with the traps of each by name.
#include <cmath>
#include <cstring>
#include <future>
#include <limits>
#include <numeric>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"

#include "kernels/backend.h"
#include "kernels/core/narrow.h"
#include "server/engine.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;

constexpr float kHidden = -std::numeric_limits<float>::infinity();

std::string Flatten(const std::optional<Array>& array) {
  std::string bytes;
  if (!array) return bytes;
  for (const Bytes& piece : array->data) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
  return bytes;
}

class Server {
 public:
  explicit Server(const char* backend = "cpu") : engine_(EngineOptions(), *CreateBackend(backend), nullptr) {}

  std::vector<PrecomputeResult> Call(const std::string& text, const Limits& limits = {}) {
    auto parsed = Precompute(text, limits);
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (!parsed.ok()) return {};
    auto promise = std::make_shared<std::promise<Answer<PrecomputeResult>>>();
    auto future = promise->get_future();
    engine_.Precompute(std::make_shared<CallContext>(), *std::move(parsed),
                       [promise](Answer<PrecomputeResult> answer) { promise->set_value(std::move(answer)); });
    Answer<PrecomputeResult> answer = future.get();
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return std::move(answer.results);
  }
  PrecomputeResult One(const std::string& item) {
    std::vector<PrecomputeResult> results = Call(absl::StrCat("items { ", item, " }"));
    EXPECT_EQ(results.size(), 1u);
    EXPECT_TRUE(results[0].status.ok()) << results[0].status;
    return std::move(results[0]);
  }
  template <typename T = float>
  std::vector<T> Bias(const std::string& item) {
    const PrecomputeResult result = One(item);
    const std::string bytes = Flatten(result.bias);
    std::vector<T> values(bytes.size() / sizeof(T));
    std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }

 private:
  Engine engine_;
};

// One head of slope 1: values are key − query.
constexpr char kLine[] = "spec { alibi { slopes: 1 } }";

std::string Tensor(const char* dtype, const std::string& shape, const std::string& data) {
  return absl::StrCat("{ dtype: ", dtype, " shape: ", shape, " data: ", data, " }");
}
std::string Mask(const std::string& shape, std::initializer_list<char> entries) {
  return Tensor("DTYPE_BOOL", shape, Escaped<char>(entries));
}

TEST(BiasWorkTest, BloomPaddingMovesKeys) {
  Server server;
  const std::string mask = Mask("[2, 4]", {0, 0, 1, 1, 1, 1, 1, 1});
  const std::string item =
      absl::StrCat(kLine, " bias { queries: 1 keys: 4 query_positions { list { ids: [0] } } key_positions { mask { mask ",
                   mask, " } } }");
  const PrecomputeResult result = server.One(item);
  EXPECT_THAT(result.bias->shape, ElementsAre(2, 1, 1, 4));
  EXPECT_THAT(server.Bias(item), ElementsAre(0, 0, 0, 1, 0, 1, 2, 3)) << "by column the first row would be 0, 1, 2, 3";
}

// Keys stand where the mask puts them, and padding is hidden: one request.
TEST(BiasWorkTest, PaddingInOneRequest) {
  Server server;
  const std::string mask = Mask("[2, 3]", {0, 1, 1, 1, 1, 1});
  const std::string positions = absl::StrCat("{ mask { mask ", mask, " } }");
  const std::vector<float> bias =
      server.Bias(absl::StrCat(kLine, " bias { queries: 3 keys: 3 query_positions ", positions, " key_positions ", positions,
                               " masking { causal: true key_padding ", mask, " } }"));
  EXPECT_THAT(bias, ElementsAreArray<float>({kHidden, kHidden, kHidden,  //
                                             kHidden, 0, kHidden,        //
                                             kHidden, -1, 0,             //
                                             0, kHidden, kHidden,        //
                                             -1, 0, kHidden,             //
                                             -2, -1, 0}));
}

// A bias that is built over the query's length vanishes in decoding: it belongs over the cache.
TEST(BiasWorkTest, DecodeEqualsTheLastRowOfTheWhole) {
  Server server;
  const std::string falcon = "spec { alibi { num_heads: 4 slope_dtype: DTYPE_BF16 scale: 0.125 } }";
  const std::vector<float> whole = server.Bias(falcon + " bias { queries: 9 keys: 9 form: BIAS_FORM_FULL }");
  const std::vector<float> step = server.Bias(falcon + " bias { queries: 1 keys: 9 form: BIAS_FORM_FULL }");
  ASSERT_EQ(step.size(), 36u);
  for (size_t h = 0; h < 4; ++h) {
    for (size_t k = 0; k < 9; ++k) EXPECT_EQ(step[h * 9 + k], whole[(h * 9 + 8) * 9 + k]);
  }
  EXPECT_NE(step[0], 0) << "the bug's answer";
  const std::vector<float> wrong = server.Bias(falcon + " bias { queries: 1 keys: 1 form: BIAS_FORM_FULL }");
  EXPECT_EQ(wrong, std::vector<float>(4, 0.0f));
}

TEST(BiasWorkTest, BottomRightIsTheDefaultAlignment) {
  Server server;
  const std::string symmetric = "spec { alibi { slopes: 1 form: ALIBI_FORM_SYMMETRIC } }";
  EXPECT_THAT(server.Bias(symmetric + " bias { queries: 2 keys: 4 form: BIAS_FORM_FULL }"),
              ElementsAre(-2, -1, 0, -1, -3, -2, -1, 0));
  EXPECT_THAT(server.Bias(symmetric + " bias { queries: 2 keys: 4 query_offset: 0 form: BIAS_FORM_FULL }"),
              ElementsAre(0, -1, -2, -3, -1, 0, -1, -2))
      << "top-left, which is something else";
}

// Cross-attention of T5 has no bias: what to send is nothing; zeros come from a scale of 0.
TEST(BiasWorkTest, T5CrossAttentionHasNone) {
  Server server;
  const std::string table = Tensor("DTYPE_F32", "[2, 1]", Escaped<float>({3, 5}));
  const std::string decoder = absl::StrCat("spec { t5_bucket { num_buckets: 2 max_distance: 2 bidirectional: false",
                                           " %s } weights { name: \"table\" tensor ", table, " } }");
  const auto spec = [&](const char* scale) { return absl::StrReplaceAll(decoder, {{"%s", scale}}); };
  EXPECT_THAT(server.Bias(spec("") + " bias { queries: 2 keys: 2 form: BIAS_FORM_FULL }"), ElementsAre(3, 3, 5, 3));
  EXPECT_THAT(server.Bias(spec("scale: 0") + " bias { queries: 1 keys: 3 form: BIAS_FORM_ROW }"), ElementsAre(0, 0, 0));
}

TEST(BiasWorkTest, T5RowsWithCachedKeys) {
  Server server;
  std::string data;
  std::vector<float> table(64);
  std::iota(table.begin(), table.end(), 0.0f);
  for (float value : table) {
    const std::string escaped = Escaped<float>({value});
    data += escaped.substr(1, escaped.size() - 2);
  }
  const std::string spec = absl::StrCat("spec { t5_bucket { bidirectional: false } weights { name: \"table\" tensor ",
                                        Tensor("DTYPE_F32", "[32, 2]", absl::StrCat("\"", data, "\"")), " } }");
  const std::vector<float> row = server.Bias(spec + " bias { queries: 1 keys: 40 form: BIAS_FORM_ROW first_head: 1 }");
  const std::vector<int64_t> buckets = server.Bias<int64_t>(
      "spec { t5_bucket { bidirectional: false num_heads: 1 } } bias { queries: 1 keys: 40 form: BIAS_FORM_ROW indices: "
      "true }");
  ASSERT_EQ(row.size(), 40u);
  for (size_t k = 0; k < 40; ++k) EXPECT_EQ(row[k], static_cast<float>(2 * buckets[k] + 1)) << k;
  EXPECT_EQ(buckets[39], 0);
  EXPECT_EQ(buckets[39 - 32], 21);
}

TEST(BiasWorkTest, Indices) {
  Server server;
  const std::string spec = "spec { t5_bucket { num_buckets: 4 max_distance: 4 num_heads: 1 } }";
  EXPECT_THAT(server.Bias<int64_t>(spec + " bias { queries: 2 keys: 3 indices: true }"), ElementsAre(1, 0, 3, 1, 1, 0));
  EXPECT_THAT(
      server.Bias<int32_t>(spec + " dtype: DTYPE_I32 bias { queries: 2 keys: 3 indices: true form: BIAS_FORM_VECTOR }"),
      ElementsAre(1, 1, 0, 3));
  const PrecomputeResult result = server.One(spec + " bias { queries: 2 keys: 3 indices: true }");
  EXPECT_THAT(result.bias->shape, ElementsAre(2, 3));
  EXPECT_EQ(result.bias->dtype, DType::kI64);
  const std::string ids = Tensor("DTYPE_I64", "[2, 2]", Escaped<int64_t>({0, 5, 7, 7}));
  const std::string positions =
      absl::StrCat(spec, " bias { queries: 1 keys: 2 indices: true key_positions { ids ", ids, " } query_offset: 6 }");
  EXPECT_THAT(server.One(positions).bias->shape, ElementsAre(2, 1, 2));
  EXPECT_THAT(server.Bias<int64_t>(positions), ElementsAre(1, 1, 3, 3));
}

// Far apart positions: no vector could hold all distances between them.
TEST(BiasWorkTest, ScatteredPositions) {
  Server server;
  const std::string ids = Tensor("DTYPE_I64", "[3]", Escaped<int64_t>({-2000000000, 0, 2000000000}));
  const std::string bias =
      absl::StrCat(" bias { queries: 2 keys: 3 query_positions { list { ids: [0, 1000000000] } } key_positions { ids ", ids,
                   " } masking { causal: true query_cu_seqlens: [0, 2] key_cu_seqlens: [0, 3] } }");
  EXPECT_THAT(server.Bias(kLine + bias), ElementsAre(-2e9f, 0, kHidden, -3e9f, -1e9f, 1e9f));
  EXPECT_THAT(server.Bias<int64_t>(absl::StrCat("spec { t5_bucket { num_heads: 1 bidirectional: false } } bias { queries: 1 "
                                                "keys: 3 indices: true query_offset: 0 key_positions { ids ",
                                                ids, " } }")),
              ElementsAre(31, 0, 0));
}

TEST(BiasWorkTest, HeadsOfAShardAreSlicesOfTheModelsHeads) {
  Server server;
  const std::string all = "spec { alibi { num_heads: 12 } } bias { queries: 2 keys: 3 masking { causal: true } ";
  const std::vector<float> whole = server.Bias(all + "}");
  const std::vector<float> part = server.Bias(all + "first_head: 7 head_count: 3 }");
  EXPECT_EQ(part, std::vector<float>(whole.begin() + 7 * 6, whole.begin() + 10 * 6));
  const std::vector<float> wrong =
      server.Bias("spec { alibi { num_heads: 3 } } bias { queries: 2 keys: 3 masking { causal: true } }");
  EXPECT_NE(part, wrong) << "slopes of a model of three heads";
}

TEST(BiasWorkTest, SlopesPerBatchRow) {
  Server server;
  const std::string spec = "spec { alibi { num_heads: 2 batch_slopes: [1, 2, 3, 4] } }";
  const PrecomputeResult vector = server.One(spec + " bias { queries: 1 keys: 2 }");
  EXPECT_THAT(vector.bias->shape, ElementsAre(2, 2, 2));
  EXPECT_THAT(server.Bias(spec + " bias { queries: 1 keys: 2 }"), ElementsAre(-1, 0, -2, 0, -3, 0, -4, 0));
  EXPECT_THAT(server.Bias(spec + " bias { queries: 1 keys: 2 first_head: 1 form: BIAS_FORM_FULL }"),
              ElementsAre(-2, 0, -4, 0));
}

TEST(BiasWorkTest, MasksTogether) {
  Server server;
  const std::string additive = Tensor("DTYPE_F32", "[2, 3]", Escaped<float>({10, 10, 10, kHidden, kHidden, 20}));
  const auto bias = [&](const std::string& more) {
    return server.Bias(absl::StrCat(kLine, " bias { queries: 2 keys: 3 masking { causal: true ", more, " } }"));
  };
  EXPECT_THAT(bias(""), ElementsAre(-1, 0, kHidden, -2, -1, 0));
  EXPECT_THAT(bias("sliding_window: 1"), ElementsAre(kHidden, 0, kHidden, kHidden, kHidden, 0));
  EXPECT_THAT(bias("prefix: 3"), ElementsAre(-1, 0, 1, -2, -1, 0));
  EXPECT_THAT(bias("chunk_size: 2"), ElementsAre(-1, 0, kHidden, kHidden, kHidden, 0));
  EXPECT_THAT(bias("additive " + additive), ElementsAre(9, 10, kHidden, kHidden, kHidden, 20));
  EXPECT_THAT(bias("masked_value: -10000"), ElementsAre(-1, 0, -10000, -2, -1, 0));
  EXPECT_THAT(bias("masked_value: -10000 additive " + additive), ElementsAre(9, 10, -10000, -10000, -10000, 20))
      << "an additive of minus infinity masks";
}

TEST(BiasWorkTest, FieldsThatChangeNoBiasAreSaid) {
  Server server;
  for (const std::string masking : {"", " masking { causal: true }"}) {
    const auto warnings = [&](const std::string& fields, const std::string& window) {
      return server.One(absl::StrCat(kLine, " ", fields, " bias { ", window, masking, " }")).warnings;
    };
    EXPECT_TRUE(warnings("max_position: 4", "queries: 1 keys: 4").empty()) << masking;
    const std::vector<Note> beyond = warnings("max_position: 3", "queries: 1 keys: 4");
    ASSERT_EQ(beyond.size(), 1u) << masking;
    EXPECT_EQ(beyond[0].field, "bias.keys");
    const std::vector<Note> later = warnings("max_position: 3", "queries: 1 keys: 3 query_offset: 3");
    ASSERT_EQ(later.size(), 1u) << masking;
    EXPECT_EQ(later[0].field, "bias.query_offset");
    EXPECT_THAT(beyond[0].message, testing::HasSubstr("position 3 is beyond the model's own maximum of 3"));
    const std::vector<Note> precise = warnings("precision: PRECISION_COMPAT_F32", "queries: 1 keys: 4");
    ASSERT_EQ(precise.size(), 1u) << masking;
    EXPECT_EQ(precise[0].field, "precision");
  }
  // Where positions are given, and in packs, it is they that count; indices of buckets have positions too.
  struct Case {
    std::string window;
    int64_t largest;
    std::string field;
  };
  for (const auto& [window, largest, field] : std::vector<Case>{
           {"queries: 2 keys: 4 query_positions { list { ids: [0, 9] } }", 9, "query_positions"},
           {"queries: 2 keys: 4 query_positions { range { start: 8 count: 2 } }", 9, "query_positions"},
           {"queries: 2 keys: 4 key_positions { list { ids: [0, 1, 2, 8] } }", 8, "key_positions"},
           {"queries: 2 keys: 4 key_positions { list { ids: [0, 1, 2, 2] } }", 3, "queries"},
           {"queries: 2 keys: 4 key_positions { list { ids: [0, 1, 2, 2] } } query_positions { list { ids: [0, 1] } }", 2,
            "key_positions"},
           {"queries: 6 keys: 6 masking { query_cu_seqlens: [0, 3, 6] key_cu_seqlens: [0, 3, 6] }", 2,
            "masking.key_cu_seqlens"}}) {
    const auto warnings = [&](int64_t most) {
      return server.One(absl::StrCat(kLine, " max_position: ", most, " bias { form: BIAS_FORM_FULL ", window, " }"))
          .warnings;
    };
    EXPECT_TRUE(warnings(largest + 1).empty()) << window;
    ASSERT_EQ(warnings(largest).size(), 1u) << window;
    EXPECT_THAT(warnings(largest)[0].message, testing::HasSubstr(absl::StrCat("position ", largest, " is beyond")));
    EXPECT_EQ(warnings(largest)[0].field, absl::StrCat("bias.", field)) << window;
  }
  const auto indices = server.One(
      "spec { t5_bucket { num_heads: 1 num_buckets: 8 max_distance: 16 } } max_position: 3 precision: PRECISION_COMPAT_F32 "
      "bias { indices: true queries: 4 keys: 4 }");
  ASSERT_EQ(indices.warnings.size(), 2u) << indices.status;
  EXPECT_EQ(indices.warnings[0].field, "bias.keys");
  EXPECT_EQ(indices.warnings[1].field, "precision");
  const auto rows = server.One("spec { sinusoidal { dim: 4 } } max_position: 3 table { positions { range { count: 4 } } }");
  ASSERT_EQ(rows.warnings.size(), 1u);
  EXPECT_EQ(rows.warnings[0].field, "table.positions");
}

TEST(BiasWorkTest, RowsWithoutAKey) {
  Server server;
  const std::string none = Mask("[3]", {0, 0, 0});
  const auto bias = [&](const std::string& more) {
    return server.Bias(absl::StrCat(kLine, " bias { queries: 1 keys: 3 masking { key_padding ", none, " ", more, " } }"));
  };
  EXPECT_THAT(bias(""), ElementsAre(kHidden, kHidden, kHidden));
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  EXPECT_THAT(bias("fully_masked: MASKED_ROW_LOWEST_FINITE"), ElementsAre(kLowest, kLowest, kLowest));
  EXPECT_THAT(bias("masked_value: -1"), ElementsAre(kHidden, kHidden, kHidden)) << "rows without a key have their own rule";
}

// Packed sequences: each is aligned by itself, and so are its distances.
TEST(BiasWorkTest, Packing) {
  Server server;
  const std::vector<float> bias = server.Bias(absl::StrCat(
      kLine, " bias { queries: 3 keys: 5 masking { causal: true query_cu_seqlens: [0, 1, 3] key_cu_seqlens: [0, 2, 5] } }"));
  EXPECT_THAT(bias, ElementsAreArray<float>({-1, 0, kHidden, kHidden, kHidden,  //
                                             kHidden, kHidden, -1, 0, kHidden,  //
                                             kHidden, kHidden, -2, -1, 0}));
}

// The same numbers by any way: plain windows, positions spelled out, masks that hide nothing, every backend.
TEST(BiasWorkTest, EveryWayGivesTheSameBits) {
  Server server, reference("reference");
  for (const char* spec :
       {"spec { alibi { num_heads: 5 scale: 0.3 } }", "spec { kerple { form: KERPLE_FORM_LOG r1: [0.3, 2] r2: [1, 0.01] } }",
        "spec { sandwich { num_heads: 3 dim: 8 } }"}) {
    for (const char* dtype : {"DTYPE_F64", "DTYPE_F32", "DTYPE_F16", "DTYPE_BF16"}) {
      SCOPED_TRACE(testing::Message() << spec << " " << dtype);
      const auto item = [&](const std::string& more) {
        return absl::StrCat(spec, " dtype: ", dtype, " bias { queries: 3 keys: 4 ", more, " }");
      };
      const auto plain = server.Bias<char>(item("form: BIAS_FORM_FULL"));
      EXPECT_EQ(server.Bias<char>(item("masking { }")), plain);
      EXPECT_EQ(server.Bias<char>(item("query_positions { list { ids: [1, 2, 3] } }")), plain);
      EXPECT_EQ(server.Bias<char>(
                    item("query_positions { list { ids: [8, 9, 10] } } key_positions { list { ids: [7, 8, 9, 10] } }")),
                plain);
      EXPECT_EQ(reference.Bias<char>(item("masking { }")), plain);
      const auto vector = server.Bias<char>(item(""));
      EXPECT_EQ(reference.Bias<char>(item("")), vector);
    }
  }
}

TEST(BiasWorkTest, ABatchEqualsItsItems) {
  Server server;
  const std::vector<std::string> items = {
      "spec { alibi { num_heads: 3 } } bias { queries: 7 keys: 9 masking { causal: true sliding_window: 4 } }",
      "spec { sandwich { num_heads: 2 dim: 4 } } dtype: DTYPE_BF16 bias { queries: 5 keys: 5 form: BIAS_FORM_FULL }",
      "spec { kerple { form: KERPLE_FORM_POWER r1: 1 r2: 0.7 } } bias { queries: 4 keys: 6 }"};
  std::string text;
  for (const std::string& item : items) absl::StrAppend(&text, "items { ", item, " } ");
  const std::vector<PrecomputeResult> batch = server.Call(text);
  ASSERT_EQ(batch.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const PrecomputeResult one = server.One(items[i]);
    EXPECT_EQ(Flatten(batch[i].bias), Flatten(one.bias)) << i;
    EXPECT_EQ(batch[i].fingerprint, one.fingerprint) << i;
  }
}

TEST(BiasWorkTest, Fingerprints) {
  Server server;
  const auto print = [&](const std::string& bias) {
    return server.One(absl::StrCat("spec { alibi { num_heads: 3 } } bias { queries: 2 keys: 3 ", bias, " }")).fingerprint;
  };
  EXPECT_EQ(print("query_positions { list { ids: [1, 2] } }"), print("query_positions { range { start: 1 count: 2 } }"));
  const std::string causal = print("masking { causal: true }");
  EXPECT_NE(causal, print("masking { causal: true sliding_window: 2 }"));
  EXPECT_NE(causal, print("masking { causal: true fully_masked: MASKED_ROW_LOWEST_FINITE }"));
  const auto padded = [&](std::initializer_list<char> mask) {
    return print(absl::StrCat("masking { key_padding ", Mask("[3]", mask), " }"));
  };
  EXPECT_NE(padded({1, 0, 1}), padded({1, 1, 0}));
  const auto added = [&](float value) {
    return print(
        absl::StrCat("masking { additive ", Tensor("DTYPE_F32", "[2, 3]", Escaped<float>({0, 0, 0, 0, 0, value})), " }"));
  };
  EXPECT_NE(added(1), added(2));
}

// A few numbers that stand for many positions cost what the positions would.
TEST(BiasWorkTest, RangesAndPacksAreCharged) {
  Limits limits;
  limits.max_request_bytes = 1000;
  for (const auto& [more, field] :
       {std::pair<std::string, const char*>{"query_positions { range { count: 500 stride: 2 } }",
                                            "items[0].bias.query_positions"},
        {"masking { query_cu_seqlens: [0, 500] key_cu_seqlens: [0, 1] }", "items[0].bias.masking.query_cu_seqlens"}}) {
    const std::string text = absl::StrCat("items { ", kLine, " bias { queries: 500 keys: 1 ", more, " } }");
    ExpectError(ItemStatus(Precompute(text, limits)), {kBad, field, "400", "max_request_bytes"}, text);
  }
}

TEST(BiasWorkTest, Errors) {
  struct Case {
    std::string text;
    Expected expected;
  };
  const auto line = [](const std::string& bias) { return absl::StrCat(kLine, " bias { queries: 2 keys: 3 ", bias, " }"); };
  const auto masking = [&](const std::string& text) { return line(absl::StrCat("masking { ", text, " }")); };
  const std::string t5 = "spec { t5_bucket { num_heads: 2 } } ";
  for (const Case& c : std::vector<Case>{
           {line("form: BIAS_FORM_VECTOR masking { causal: true }"),
            {kBad, "items[0].bias.form", "BIAS_FORM_VECTOR", "BIAS_FORM_FULL"}},
           {line("indices: true"), {kBad, "items[0].bias.indices", "spec.alibi", "no indices"}},
           {t5 + "bias { queries: 2 keys: 3 }", {kBad, "items[0].spec.weights", "nothing", "table [num_buckets, heads]"}},
           {t5 + "dtype: DTYPE_F32 bias { queries: 2 keys: 3 indices: true }",
            {kBad, "items[0].dtype", "DTYPE_F32", "DTYPE_I64"}},
           {t5 + "bias { queries: 2 keys: 3 indices: true head_count: 1 }",
            {kBad, "items[0].bias.head_count", "1", "unset"}},
           {t5 + "bias { queries: 2 keys: 3 indices: true masking { } }",
            {kBad, "items[0].bias.masking", "indices", "unset"}},
           {masking("sliding_window: 0"), {kBad, "items[0].bias.masking.sliding_window", "0", "1 or more"}},
           {masking("sliding_window_after: -1"), {kBad, "items[0].bias.masking.sliding_window_after", "-1", "1 or more"}},
           {masking("chunk_size: 0"), {kBad, "items[0].bias.masking.chunk_size", "0", "1 or more"}},
           {masking("prefix: -1"), {kBad, "items[0].bias.masking.prefix[0]", "-1", "0 or more"}},
           {masking("key_cu_seqlens: [0, 3]"),
            {kBad, "items[0].bias.masking.key_cu_seqlens", "without", "query_cu_seqlens"}},
           {masking("query_cu_seqlens: [0]"), {kBad, "items[0].bias.masking.query_cu_seqlens", "1 entries", "2 or more"}},
           {masking("query_cu_seqlens: [1, 2]"), {kBad, "items[0].bias.masking.query_cu_seqlens[0]", "1", "0"}},
           {masking("query_cu_seqlens: [0, 2, 1]"), {kBad, "items[0].bias.masking.query_cu_seqlens[2]", "1", "at least 2"}},
           {masking("query_cu_seqlens: [0, 2]"),
            {kBad, "items[0].bias.masking.query_cu_seqlens[1]", "2", "3, the number of keys"}},
           {masking("query_cu_seqlens: [0, 2] key_cu_seqlens: [0, 1, 3]"),
            {kBad, "items[0].bias.masking.key_cu_seqlens", "3 entries", "2"}},
           {masking("fully_masked: 7"), {kBad, "items[0].bias.masking.fully_masked", "7", "MASKED_ROW"}},
           {masking("masked_value: nan"), {kBad, "items[0].bias.masking.masked_value", "nan", "finite"}},
           {masking("key_padding " + Mask("[2]", {1, 1})), {kBad, "items[0].bias.masking.key_padding.shape", "[2]", "[3]"}},
           {masking("key_padding " + Mask("[3]", {1, 1, 2})), {kBad, "items[0].bias.masking.key_padding[2]", "2", "0 or 1"}},
           {masking("additive " + Tensor("DTYPE_F32", "[3]", Escaped<float>({1, 1, 1}))),
            {kBad, "items[0].bias.masking.additive.shape", "[3]", "[2, 3]"}},
           {masking("additive " + Tensor("DTYPE_I32", "[3]", Escaped<int32_t>({1, 1, 1}))),
            {kBad, "items[0].bias.masking.additive.dtype", "DTYPE_I32", "DTYPE_F32"}},
           {masking("additive " + Tensor("DTYPE_F32", "[2, 3]", Escaped<float>({0, 0, 0, 0, -kHidden, 0}))),
            {kBad, "items[0].bias.masking.additive[1, 1]", "inf", "finite number, or -inf"}},
           {masking("additive " + Tensor("DTYPE_F64", "[2, 3]", Escaped<double>({0, kHidden, std::nan(""), 0, 0, 0}))),
            {kBad, "items[0].bias.masking.additive[0, 2]", "NaN", "finite number, or -inf"}},
           {masking("additive " + Tensor("DTYPE_F16", "[2, 3]", Escaped<uint16_t>({0xFC00, 0, 0, 0x7C01, 0, 0}))),
            {kBad, "items[0].bias.masking.additive[1, 0]", "NaN", "finite number, or -inf"}},
           {masking("additive " + Tensor("DTYPE_BF16", "[2, 3]", Escaped<uint16_t>({0xFF80, 0x7C00, 0, 0, 0, 0x7F80}))),
            {kBad, "items[0].bias.masking.additive[1, 2]", "inf", "finite number, or -inf"}},
           {masking("prefix: [1, 1] key_padding " + Mask("[3, 3]", {1, 1, 1, 1, 1, 1, 1, 1, 1})),
            {kBad, "items[0].bias.masking.key_padding.shape[0]", "a batch of 3", "a batch of 2"}},
           {line("query_positions { list { ids: [1] } }"), {kBad, "items[0].bias.query_positions.list.ids", "1", "2"}},
           {line("query_offset: 0 masking { query_cu_seqlens: [0, 2] key_cu_seqlens: [0, 3] }"),
            {kBad, "items[0].bias.query_offset", "0", "unset"}},
       }) {
    ExpectError(ItemStatus(Precompute(absl::StrCat("items { ", c.text, " }"))), c.expected, c.text);
  }
}

}  // namespace
}  // namespace phasor::server
