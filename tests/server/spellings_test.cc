// One request in several spellings has one fingerprint, and another request another one.
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/server/apply_harness.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

class SpellingsTest : public ::testing::Test {
 protected:
  // Of every item: a fingerprint, and the answer's bytes, which must be equal where fingerprints are.
  std::set<std::string> Prints(const std::string& spec, const std::vector<std::string>& windows) {
    std::set<std::string> prints, answers;
    for (const std::string& window : windows) {
      const PrecomputeResult result =
          harness_.One(FromText<v1::PrecomputeItem>(absl::StrCat("spec { ", spec, " } ", window)));
      EXPECT_TRUE(result.status.ok()) << result.status << window;
      EXPECT_EQ(result.fingerprint.size(), 32u);
      std::string bytes;
      for (const auto* array : {&result.cos, &result.sin, &result.table, &result.bias}) {
        if (*array) bytes += BytesOf(**array);
      }
      prints.insert(result.fingerprint);
      answers.insert(bytes);
    }
    EXPECT_EQ(prints.size(), answers.size());
    return prints;
  }
  void ExpectSame(const std::string& spec, const std::vector<std::string>& windows) {
    EXPECT_EQ(Prints(spec, windows).size(), 1u) << windows[0];
  }

  ApplyHarness harness_{"reference"};
};

std::string At(const std::string& positions) { return absl::StrCat("table { positions { ", positions, " } }"); }
std::string Numbers(const char* dtype, const std::string& data) {
  return absl::StrCat("ids { dtype: ", dtype, " shape: 4 data: ", data, " }");
}

TEST_F(SpellingsTest, PositionsOfTables) {
  const std::vector<std::string> windows = {
      At("range { count: 4 }"),
      At("list { ids: [0, 1, 2, 3] }"),
      At(Numbers("DTYPE_I64", Escaped<int64_t>({0, 1, 2, 3}))),
      At(Numbers("DTYPE_F64", Escaped<double>({0, 1, 2, 3}))),
      At(Numbers("DTYPE_F32", Escaped<float>({-0.0f, 1, 2, 3}))),
      At("remapped { count: 4 side: ATTENTION_SIDE_KEY chunk_size: 9 }"),
      At("range { start: -2 count: 4 } sequence_offsets: 2"),
  };
  for (const char* spec : {"rope { head_dim: 8 }", "timestep { dim: 8 }", "sinusoidal { dim: 8 }"}) {
    ExpectSame(spec, windows);
  }
  // Scattered ones, which no range tells.
  for (const char* spec : {"rope { head_dim: 8 }", "timestep { dim: 8 }"}) {
    ExpectSame(spec, {At("list { ids: [0, 7, 2, 3] }"), At(Numbers("DTYPE_F64", Escaped<double>({0, 7, 2, 3})))});
    ExpectSame(spec, {At(Numbers("DTYPE_F64", Escaped<double>({0, 1, 2, 3.5}))),
                      At(Numbers("DTYPE_F64", Escaped<double>({-0.0, 1, 2, 3.5})))});
    EXPECT_EQ(Prints(spec, {windows[0], At("list { ids: [0, 7, 2, 3] }"), At("range { start: 1 count: 4 }"),
                            At("range { count: 4 stride: 2 }"), At(Numbers("DTYPE_F64", Escaped<double>({0, 1, 2, 3.5})))})
                  .size(),
              5u);
  }
}

std::string Bias(const std::string& window) { return absl::StrCat("bias { queries: 3 keys: 5 ", window, " }"); }
std::string Masked(const std::string& masking) { return Bias(absl::StrCat("masking { ", masking, " }")); }

std::string Padded(std::initializer_list<char> there) {
  return Masked(absl::StrCat("key_padding { dtype: DTYPE_BOOL shape: 5 data: ", Escaped<char>(there), " }"));
}

TEST_F(SpellingsTest, DefaultsOfBiases) {
  for (const char* spec : {"alibi { num_heads: 2 }", "kerple { form: 2 r1: [1, 2] r2: [1, 0.5] }"}) {
    ExpectSame(spec, {
                         Bias("form: BIAS_FORM_FULL"),
                         Bias("form: BIAS_FORM_FULL query_offset: 2"),
                         Bias("query_positions { range { start: 2 } }"),
                         Bias("key_positions { range { } }"),
                         Masked(""),
                         Masked("prefix: 3 masked_value: -1 fully_masked: MASKED_ROW_LOWEST_FINITE"),
                         Padded({1, 1, 1, 1, 1}),
                     });
    EXPECT_EQ(Prints(spec, {Bias("form: BIAS_FORM_FULL"), Bias("query_positions { range { start: 1 } }"),
                            Bias("key_positions { range { stride: 2 } }"), Masked("causal: true"), Padded({1, 1, 1, 1, 0})})
                  .size(),
              5u);
  }
}

TEST_F(SpellingsTest, Masks) {
  const char* spec = "alibi { num_heads: 2 }";
  ExpectSame(spec,
             {Masked("causal: true sliding_window: 2"), Masked("causal: true sliding_window: 2 sliding_window_after: 2"),
              Masked("causal: true sliding_window: 2 prefix: 0"),
              Masked("causal: true sliding_window: 2 fully_masked: MASKED_ROW_NEGATIVE_INFINITY")});
  EXPECT_EQ(Prints(spec, {Masked("causal: true"), Masked("causal: true prefix: 4")}).size(), 2u);
}

TEST_F(SpellingsTest, AdditiveMasksCountWithoutTheirGaps) {
  const auto additive = [](const char* shape, const char* strides, std::vector<float> numbers) {
    std::string data(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
    v1::Tensor tensor;
    tensor.set_dtype(v1::DTYPE_F32);
    tensor.set_data(data);
    std::string text;
    google::protobuf::TextFormat::PrintToString(tensor, &text);
    return absl::StrCat("bias { queries: 2 keys: 2 masking { additive { ", text, " shape: ", shape, " ", strides, " } } }");
  };
  const char* spec = "alibi { num_heads: 2 }";
  ExpectSame(spec, {additive("[2, 2]", "", {1, 2, 3, 4}), additive("[2, 2]", "strides: [3, 1]", {1, 2, 9, 3, 4}),
                    additive("[2, 2]", "strides: [3, 1]", {1, 2, 8, 3, 4, 5})});
  ExpectSame(spec, {additive("[2, 2, 2]", "", {1, 2, 3, 4, 5, 6, 7, 8}),
                    additive("[2, 2, 2]", "strides: [5, 2, 1]", {1, 2, 3, 4, 0, 5, 6, 7, 8}),
                    additive("[2, 2, 2]", "strides: [2, 4, 1]", {1, 2, 5, 6, 3, 4, 7, 8})});
  EXPECT_EQ(Prints(spec, {additive("[2, 2]", "", {1, 2, 3, 4}), additive("[2, 2]", "", {1, 2, 9, 3})}).size(), 2u);
}

// Resizing uses no table that a fingerprint could name; equal ones for different answers would be untrue.
TEST_F(SpellingsTest, ResizedTablesHaveNone) {
  v1::ApplyItem resize = ItemFrom("resize { source: 2 target: 3 interpolation: INTERPOLATION_LINEAR }");
  AddTensor(resize, {2, 1}, {0, 8});
  const ApplyResult resized = harness_.One(resize);
  ASSERT_TRUE(resized.status.ok()) << resized.status;
  EXPECT_EQ(resized.fingerprint, "");
  v1::ApplyItem rotate = ItemFrom("spec { rope { head_dim: 2 } }");
  AddTensor(rotate, {1, 1, 1, 2}, {1, 2});
  EXPECT_EQ(harness_.One(rotate).fingerprint.size(), 32u);
}

}  // namespace
}  // namespace phasor::server
