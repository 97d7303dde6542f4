// What PoPE and FoPE answer, on every backend.
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

TEST(RotatePolarTest, PolarEmbeddingDoublesTheWidth) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    v1::ApplyItem item = ItemFrom("spec { pope { head_dim: 3 } } positions { list { ids: 5 } }");
    v1::ApplyItem weights;
    AddTensor(weights, {3}, {-1, 0.5, -7}, DType::kF64);  // clamped to −1, 0, −2π
    v1::Weight* delta = item.mutable_spec()->add_weights();
    delta->set_name("delta");
    *delta->mutable_tensor() = weights.tensors(0);
    AddTensor(item, {1, 1, 1, 3}, {0, 1, -2}, DType::kF64);
    AddTensor(item, {1, 1, 1, 3}, {0, 1, -2}, DType::kF64);
    const ApplyResult result = harness.One(item);
    ASSERT_TRUE(result.status.ok()) << result.status;
    EXPECT_THAT(result.tensors[0].shape, ::testing::ElementsAre(1, 1, 1, 6));
    for (const bool is_key : {false, true}) {
      const double deltas[] = {is_key ? -1.0 : 0, 0, 0};
      const double radii[] = {std::log(2), std::log1p(std::exp(1)), std::log1p(std::exp(-2))};
      std::vector<double> cos, sin;
      for (int i = 0; i < 3; ++i) {
        const double angle = 5 * std::pow(10000, -i / 3.0) + deltas[i];
        cos.push_back(radii[i] * std::cos(angle));
        sin.push_back(radii[i] * std::sin(angle));
      }
      cos.insert(cos.end(), sin.begin(), sin.end());
      ExpectNear(ValuesOf(result.tensors[is_key ? 1 : 0]), cos, 1e-15);
    }
  }
}

TEST(RotatePolarTest, FourierEmbeddingMixesByHead) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    // Of θ = 1, 0.1, 0.01, 0.001 the first two turn once in 100 positions.
    v1::ApplyItem item = ItemFrom("spec { fope { head_dim: 8 training_length: 100 } } positions { list { ids: 3 } }");
    v1::ApplyItem weights;
    AddTensor(weights, {2, 2, 2}, {1, 0, 0, 1, 0.5, 0.25, -1, 2}, DType::kF64);
    AddTensor(weights, {2, 2, 2}, {1, 0, 0, 1, 2, 0, 1, 3}, DType::kF64);
    for (int i = 0; i < 2; ++i) {
      v1::Weight* weight = item.mutable_spec()->add_weights();
      weight->set_name(i == 0 ? "cos_coef" : "sin_coef");
      *weight->mutable_tensor() = weights.tensors(i);
    }
    const std::vector<double> x = SomeValues(4 * 8);
    AddTensor(item, {1, 1, 4, 8}, x, DType::kF64);
    const ApplyResult result = harness.One(item);
    ASSERT_TRUE(result.status.ok()) << result.status;
    std::vector<double> want(x.size());
    for (size_t h = 0; h < 4; ++h) {
      const double c0 = std::cos(3), c1 = std::cos(0.3), s0 = std::sin(3), s1 = std::sin(0.3);
      const double cos[4] = {h < 2 ? c0 : 0.5 * c0 - c1, h < 2 ? c1 : 0.25 * c0 + 2 * c1, 1, 1};
      const double sin[4] = {h < 2 ? s0 : 2 * s0 + s1, h < 2 ? s1 : 3 * s1, 0, 0};
      for (size_t i = 0; i < 4; ++i) {
        const double a = x[8 * h + i], b = x[8 * h + 4 + i];
        want[8 * h + i] = a * cos[i] - b * sin[i];
        want[8 * h + 4 + i] = b * cos[i] + a * sin[i];
      }
    }
    ExpectNear(ValuesOf(result.tensors[0]), want, 1e-14);
  }
}

v1::ApplyItem AtFractions(const std::string& spec, const std::vector<double>& ids) {
  v1::ApplyItem item = ItemFrom(spec);
  v1::Tensor* tensor = item.mutable_positions()->mutable_ids();
  tensor->set_dtype(v1::DTYPE_F64);
  tensor->add_shape(static_cast<int64_t>(ids.size()));
  tensor->set_data(std::string(reinterpret_cast<const char*>(ids.data()), 8 * ids.size()));
  return item;
}

TEST(RotatePolarTest, FractionalPositionsOfPolarEmbeddings) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    v1::ApplyItem item = AtFractions("spec { pope { head_dim: 2 } } roles: TENSOR_ROLE_KEY", {40.5, 7});
    v1::ApplyItem weights;
    AddTensor(weights, {2}, {-1, -0.5}, DType::kF64);
    v1::Weight* delta = item.mutable_spec()->add_weights();
    delta->set_name("delta");
    *delta->mutable_tensor() = weights.tensors(0);
    AddTensor(item, {1, 2, 1, 2}, {0, 0, 0, 0}, DType::kF64);
    const ApplyResult result = harness.One(item);
    ASSERT_TRUE(result.status.ok()) << result.status;
    std::vector<double> want;
    for (const double m : {40.5, 7.0}) {
      const double angles[] = {m - 1, m * 0.01 - 0.5};
      for (const double angle : angles) want.push_back(std::log(2) * std::cos(angle));
      for (const double angle : angles) want.push_back(std::log(2) * std::sin(angle));
    }
    ExpectNear(ValuesOf(result.tensors[0]), want, 1e-15);
    // A whole number is a whole number.
    v1::ApplyItem whole = item;
    *whole.mutable_positions() = ItemFrom("positions { list { ids: [40, 7] } }").positions();
    const std::vector<double> by_ids = ValuesOf(harness.One(whole).tensors[0]), by_value = ValuesOf(result.tensors[0]);
    EXPECT_EQ(std::vector<double>(by_ids.begin() + 4, by_ids.end()),
              std::vector<double>(by_value.begin() + 4, by_value.end()));
  }
}

TEST(RotatePolarTest, FractionalPositionsOfFourierEmbeddings) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    v1::ApplyItem item =
        AtFractions("spec { fope { head_dim: 2 training_length: 100 } } rotate { query_scale { constant: 3 } }", {2.75});
    v1::ApplyItem weights;
    AddTensor(weights, {1, 1, 1}, {0.5}, DType::kF64);
    for (const char* name : {"cos_coef", "sin_coef"}) {
      v1::Weight* weight = item.mutable_spec()->add_weights();
      weight->set_name(name);
      *weight->mutable_tensor() = weights.tensors(0);
    }
    AddTensor(item, {1, 1, 1, 2}, {1, 0}, DType::kF64);
    const ApplyResult result = harness.One(item);
    ASSERT_TRUE(result.status.ok()) << result.status;
    ExpectNear(ValuesOf(result.tensors[0]), {1.5 * std::cos(2.75), 1.5 * std::sin(2.75)}, 1e-15);
  }
}

}  // namespace
}  // namespace phasor::server
