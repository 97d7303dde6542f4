// Fields that mean nothing where they are given are refused by name, and values that an answer cannot hold.
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

struct Case {
  const char* text;
  Expected expected;
};

std::string Tensor(const char* shape) { return absl::StrCat("{ dtype: DTYPE_F32 shape: ", shape, " } "); }

TEST(UnusedFieldsTest, ResizeTakesATableAsItIs) {
  const auto status = [](const std::string& text) {
    return ItemStatus(Apply(
        absl::StrCat("items { resize { source: 4 target: 2 } tensors ", Tensor("[4, 2]"), text, " } validate_only: true")));
  };
  EXPECT_TRUE(status("").ok()) << status("");
  EXPECT_TRUE(status("precision: PRECISION_EXACT").ok()) << "the default";
  for (const Case& c : {
           Case{"precision: PRECISION_COMPAT_F32", {kBad, "items[0].precision", "2", "unset"}},
           {"precision: 99", {kBad, "items[0].precision", "99", "unset"}},
           {"sequence_length: -4", {kBad, "items[0].sequence_length", "-4", "unset"}},
           {"max_position: 7", {kBad, "items[0].max_position", "7", "unset"}},
           {"table_pairing: PAIRING_INTERLEAVED", {kBad, "items[0].table_pairing", "2", "unset"}},
       }) {
    ExpectError(status(c.text), c.expected, c.text);
  }
}

TEST(UnusedFieldsTest, RowsThatAreAddedHaveNoPairs) {
  const auto status = [](const std::string& text) {
    return ItemStatus(Apply(absl::StrCat("items { spec { sinusoidal { dim: 4 } } add { } tensors ", Tensor("[1, 2, 4]"),
                                         text, " } validate_only: true")));
  };
  EXPECT_TRUE(status("").ok()) << status("");
  ExpectError(status("table_pairing: PAIRING_INTERLEAVED"), {kBad, "items[0].table_pairing", "2", "unset"}, "add");
}

TEST(UnusedFieldsTest, AnUploadedTableHasNoSpec) {
  const auto status = [](const std::string& text) {
    const std::string table = absl::StrCat("{ dtype: DTYPE_F32 shape: [2, 1] data: ", Escaped<float>({2, 0}), " } ");
    return ItemStatus(Apply(absl::StrCat("items { table { cos ", table, "sin ", table, "} tensors ", Tensor("[1, 2, 1, 2]"),
                                         text, " } validate_only: true")));
  };
  EXPECT_TRUE(status("").ok()) << status("");
  EXPECT_TRUE(status("precision: PRECISION_EXACT").ok()) << "the default";
  for (const Case& c : {
           Case{"shift { } positions { list { ids: [1, 1] } }", {kBad, "items[0].shift", "table", "a spec"}},
           {"precision: PRECISION_COMPAT_F32", {kBad, "items[0].precision", "2", "unset"}},
           {"sequence_length: 9", {kBad, "items[0].sequence_length", "9", "unset"}},
           {"max_position: 9", {kBad, "items[0].max_position", "9", "unset"}},
       }) {
    ExpectError(status(c.text), c.expected, c.text);
  }
}

TEST(UnusedFieldsTest, OnlyRotationsHaveAnInverse) {
  const std::string window = " table { positions { range { count: 2 } } inverse: true } }";
  EXPECT_TRUE(ItemStatus(Precompute("items { spec { rope { head_dim: 4 } }" + window)).ok());
  ExpectError(ItemStatus(Precompute("items { spec { sinusoidal { dim: 4 scale: 2 } }" + window)),
              {kBad, "items[0].table.inverse", "true", "rotations"}, "sinusoidal");
}

TEST(UnusedFieldsTest, FopeHasOneTableForBothRoles) {
  const std::string weight =
      absl::StrCat("tensor { dtype: DTYPE_F32 shape: [1, 2, 2] data: ", Escaped<float>({1, 0, 0, 1}), " } } ");
  const auto status = [&](const std::string& role) {
    return ItemStatus(Precompute(absl::StrCat(
        "items { spec { fope { head_dim: 4 training_length: 100000 } weights { name: "
        "\"cos_coef\" ",
        weight, "weights { name: \"sin_coef\" ", weight, "} table { positions { range { count: 2 } } ", role, " } }")));
  };
  EXPECT_TRUE(status("").ok()) << status("");
  ExpectError(status("role: TENSOR_ROLE_KEY"), {kBad, "items[0].table.role", "TENSOR_ROLE_KEY", "unset"}, "fope");
}

TEST(UnusedFieldsTest, ScoresWithoutASpecCheckTheirNumbers) {
  const auto status = [](const std::string& text) {
    const RequestParser parser{Limits()};
    const auto request = FromText<v1::ScoresRequest>(
        absl::StrCat("items { q ", Tensor("[1, 2, 1, 2]"), "k ", Tensor("[1, 2, 1, 2]"), text, " } validate_only: true"));
    return ItemStatus(parser.ParseScores(ToWire(request)));
  };
  EXPECT_TRUE(status("sequence_length: 5").ok()) << status("sequence_length: 5");
  ExpectError(status("sequence_length: -5"), {kBad, "items[0].sequence_length", "-5", "1 … "}, "length");
  ExpectError(status("precision: 9"), {kBad, "items[0].precision", "9", "PRECISION_EXACT"}, "precision");
  EXPECT_TRUE(status("masking { causal: true masked_value: -3e38 }").ok());
  ExpectError(status("dtype: DTYPE_F16 masking { causal: true masked_value: -3e38 }"),
              {kBad, "items[0].masking.masked_value", "-3e+38", "f16"}, "masked");
}

TEST(UnusedFieldsTest, MaskedValuesFitTheAnswersType) {
  const auto status = [](const char* dtype, const char* value, const char* spec = "alibi { num_heads: 2 }") {
    return ItemStatus(
        Precompute(absl::StrCat("items { spec { ", spec, " } dtype: ", dtype,
                                " bias { queries: 2 keys: 2 masking { causal: true masked_value: ", value, " } } }")));
  };
  for (const auto& [dtype, holds, overflows] : {std::tuple("DTYPE_F64", "1e300", "inf"),
                                                {"DTYPE_F32", "-3.4028235e38", "1e300"},
                                                {"DTYPE_F16", "65519", "65520"},
                                                {"DTYPE_BF16", "-3.39e38", "-3.4e38"}}) {
    EXPECT_TRUE(status(dtype, holds).ok()) << dtype << status(dtype, holds);
    const absl::Status refused = status(dtype, overflows);
    EXPECT_EQ(refused.code(), kBad) << dtype;
    EXPECT_NE(refused.message().find("masked_value"), absl::string_view::npos) << refused;
  }
}

}  // namespace
}  // namespace phasor::server
