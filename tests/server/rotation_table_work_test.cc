// Tables of rotations that no tile of the cache serves, on every backend.
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/apply_harness.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

constexpr const char* kBackends[] = {"cpu", "reference"};

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, double tolerance) {
  EXPECT_THAT(got, ::testing::Pointwise(::testing::DoubleNear(tolerance), want));
}

// Tables without tensors: whose they are has to be said where it matters.
TEST(RotationTableWorkTest, TablesOfQueriesAndKeys) {
  const std::string window = "positions { list { ids: [3, 40] } } ";
  const auto table = [&](const std::string& spec, const std::string& rest, DType dtype = DType::kF64) {
    v1::PrecomputeItem item = FromText<v1::PrecomputeItem>(absl::StrCat(
        "spec { ", spec, " } table { ", window, rest, " } dtype: ", v1::Dtype_Name(static_cast<v1::Dtype>(dtype))));
    return item;
  };
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const std::string xpos = "rope { head_dim: 2 xpos { scale_base: 64 center: 16 } }";
    const double zeta = 0.4 / 1.4;
    for (const bool is_key : {false, true}) {
      const PrecomputeResult result = harness.One(table(xpos, is_key ? "role: TENSOR_ROLE_KEY" : "role: TENSOR_ROLE_QUERY"));
      ASSERT_TRUE(result.status.ok()) << result.status;
      std::vector<double> cos, sin;
      for (const double m : {3.0, 40.0}) {
        const double factor = std::pow(zeta, (is_key ? -1 : 1) * (m - 16) / 64);
        cos.push_back(factor * std::cos(m)), sin.push_back(factor * std::sin(m));
      }
      ExpectNear(ValuesOf(*result.cos), cos, 1e-15);
      ExpectNear(ValuesOf(*result.sin), sin, 1e-15);
    }
    const PrecomputeResult both =
        harness.One(table(xpos, "role: TENSOR_ROLE_KEY form: TABLE_FORM_CONCATENATED include_inv_freq: true", DType::kBF16));
    ASSERT_TRUE(both.status.ok()) << both.status;
    EXPECT_THAT(both.table->shape, ::testing::ElementsAre(2, 2));
    EXPECT_EQ(ValuesOf(*both.inv_freq), std::vector<double>{1});
    const PrecomputeResult pope = harness.One(table("pope { head_dim: 2 }", ""));
    ASSERT_TRUE(pope.status.ok()) << pope.status;
    ExpectNear(ValuesOf(*pope.cos), {std::cos(3), std::cos(0.03), std::cos(40), std::cos(0.4)}, 1e-15);
    ExpectError(harness.One(table(xpos, "")).status, {kBad, "items[0].table.role", "nothing", "TENSOR_ROLE_KEY"}, "role");
    ExpectError(harness.One(table("rope { head_dim: 2 }", "role: TENSOR_ROLE_KEY")).status,
                {kBad, "items[0].table.role", "TENSOR_ROLE_KEY", "unset"}, "role");
    ExpectError(harness.One(table("pope { head_dim: 2 }", "form: TABLE_FORM_DUPLICATED")).status,
                {kBad, "items[0].table.form", "TABLE_FORM_DUPLICATED", "TABLE_FORM_HALF"}, "form");
  }
}

}  // namespace
}  // namespace phasor::server
