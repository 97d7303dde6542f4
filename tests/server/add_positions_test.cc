// Additions at fractional positions and at the points of a grid, on every backend, and what they refuse.
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

void SetIds(const std::vector<double>& ids, v1::Tensor* tensor) {
  tensor->set_dtype(v1::DTYPE_F64);
  tensor->add_shape(static_cast<int64_t>(ids.size()));
  tensor->set_data(std::string(reinterpret_cast<const char*>(ids.data()), 8 * ids.size()));
}

// What is added to zeros [1, tokens, dim].
std::vector<double> Added(ApplyHarness& harness, v1::ApplyItem item, int64_t tokens, int64_t dim) {
  item.mutable_add();
  AddTensor(item, {1, tokens, dim}, std::vector<double>(static_cast<size_t>(tokens * dim)), DType::kF64);
  const ApplyResult result = harness.One(item);
  EXPECT_TRUE(result.status.ok()) << item.spec().DebugString() << result.status;
  return result.status.ok() ? ValuesOf(result.tensors[0]) : std::vector<double>();
}

absl::Status Refused(ApplyHarness& harness, v1::ApplyItem item, int64_t tokens, int64_t dim) {
  item.mutable_add();
  AddTensor(item, {1, tokens, dim}, std::vector<double>(static_cast<size_t>(tokens * dim)), DType::kF64);
  return harness.One(item).status;
}

TEST(AddPositionsTest, Fractions) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    v1::ApplyItem sinusoidal = ItemFrom("spec { sinusoidal { dim: 2 } }");
    SetIds({0.5, -3, 1000.25}, sinusoidal.mutable_positions()->mutable_ids());
    v1::ApplyItem timestep = ItemFrom("spec { timestep { dim: 2 downscale_freq_shift: 0 scale: 2 } }");
    *timestep.mutable_positions() = sinusoidal.positions();
    std::vector<double> once, twice;
    for (const double m : {0.5, -3.0, 1000.25}) {
      once.push_back(std::sin(m)), once.push_back(std::cos(m));
      twice.push_back(std::sin(2 * m)), twice.push_back(std::cos(2 * m));
    }
    EXPECT_THAT(Added(harness, sinusoidal, 3, 2), ::testing::Pointwise(::testing::DoubleNear(1e-15), once));
    EXPECT_THAT(Added(harness, timestep, 3, 2), ::testing::Pointwise(::testing::DoubleNear(1e-15), twice));
    v1::ApplyItem grid = ItemFrom("spec { grid_sinusoidal { dim: 4 grid: [2, 3] } }");
    *grid.mutable_positions() = sinusoidal.positions();
    ExpectError(Refused(harness, grid, 3, 4), {kBad, "items[0].positions", "fractional", "whole positions"}, "grid");
  }
}

v1::ApplyItem GridItem(const std::vector<std::vector<double>>& axes, const std::string& more = "") {
  v1::ApplyItem item = ItemFrom(absl::StrCat("spec { grid_sinusoidal { dim: 16 grid: [2, 3] extra_rows: 1 } } ", more));
  for (const auto& ids : axes) SetIds(ids, item.mutable_positions()->mutable_multi_axis()->add_axes());
  return item;
}

TEST(AddPositionsTest, PointsOfAGridByTheirCoordinates) {
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const v1::ApplyItem rows =
        ItemFrom("spec { grid_sinusoidal { dim: 16 grid: [2, 3] extra_rows: 1 } } positions { list { ids: [1, 6, 3, 4] } }");
    const v1::ApplyItem points = GridItem({{0, 1, 0, 1}, {0, 2, 2, 0}});
    EXPECT_EQ(Added(harness, points, 4, 16), Added(harness, rows, 4, 16));
    // All points of the grid, as the rule for grids lists them.
    v1::ApplyItem whole = GridItem({});
    *whole.mutable_positions() = ItemFrom("positions { grid { extents: [2, 3] } }").positions();
    v1::ApplyItem range = GridItem({});
    *range.mutable_positions() = ItemFrom("positions { range { start: 1 } }").positions();
    EXPECT_EQ(Added(harness, whole, 6, 16), Added(harness, range, 6, 16));
  }
}

// A spec without a grid takes coordinates: those that the grid's rule gives are its rows, and any others may be given.
TEST(AddPositionsTest, CoordinatesOfAMapWithoutAGrid) {
  const std::string rule =
      "dim: 16 order: GRID_ORDER_AS_LISTED layout: GRID_LAYOUT_INTERLEAVED start: 0.5 extent_epsilon: 1 ";
  for (const char* backend : kBackends) {
    ApplyHarness harness(backend);
    const v1::ApplyItem rows =
        ItemFrom("spec { grid_sinusoidal { grid: [3, 1] " + rule + "} } positions { list { ids: [2, 0] } }");
    v1::ApplyItem points = ItemFrom("spec { grid_sinusoidal { " + rule + "} }");
    SetIds({2.5 / 4, 0.5 / 4}, points.mutable_positions()->mutable_multi_axis()->add_axes());
    SetIds({0.5 / 2, 0.5 / 2}, points.mutable_positions()->mutable_multi_axis()->add_axes());
    EXPECT_EQ(Added(harness, points, 2, 16), Added(harness, rows, 2, 16));
    *points.mutable_positions() = rows.positions();
    ExpectError(Refused(harness, points, 2, 16), {kBad, "items[0].positions", "1 axis", "2, as the spec has"}, "rows");
  }
}

TEST(AddPositionsTest, ErrorsOfGrids) {
  ApplyHarness harness("cpu");
  ExpectError(Refused(harness, GridItem({{0}, {3}}), 1, 16),
              {kBad, "items[0].positions", "coordinate 3 of row 0 along axis 1", "0 … 2"}, "beyond");
  ExpectError(Refused(harness, GridItem({{0.5}, {1}}), 1, 16),
              {kBad, "items[0].positions", "coordinate 0.5 of row 0 along axis 0", "whole"}, "fraction");
  ExpectError(Refused(harness, GridItem({{0}, {1}, {0}}), 1, 16), {kBad, "items[0].positions", "3 axes", "2 as the grid"},
              "axes");
  const std::string gate = "add { gate { gate { dtype: DTYPE_F32 data: \"\\0\\0\\0\\0\" } other { ";
  ExpectError(Refused(harness, GridItem({{0}, {1}}, gate + "sinusoidal { dim: 16 } } } }"), 1, 16),
              {kBad, "items[0].add.gate.other", "another grid", "grid_sinusoidal"}, "other");
  ExpectError(Refused(harness, GridItem({{0}, {1}}, gate + "grid_sinusoidal { dim: 16 grid: [2, 3] } } } }"), 1, 16),
              {kBad, "items[0].add.gate.other", "another grid", "grid_sinusoidal"}, "other rows");
  const v1::ApplyItem same =
      GridItem({{0}, {1}}, gate + "grid_sinusoidal { dim: 16 grid: [2, 3] extra_rows: 1 base: 50 } } } }");
  EXPECT_TRUE(Refused(harness, same, 1, 16).ok()) << Refused(harness, same, 1, 16);
}

}  // namespace
}  // namespace phasor::server
