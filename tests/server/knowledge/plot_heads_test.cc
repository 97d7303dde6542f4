// Pictures of more heads than they can show: some are made and drawn, and the picture says how many of how many.
#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/knowledge/plot_subject.h"
#include "server/knowledge/side_heads.h"
#include "tests/server/knowledge/compared_sides.h"

namespace phasor::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kMany = 65536;

// The CPU, which counts the values of biases that it makes; the caller may go away after some runs.
class CountingBackend : public Backend {
 public:
  std::string_view name() const override { return "counting"; }
  std::string description() const override { return "the CPU"; }
  absl::Status Run(const Task& task, RowRange rows, const CancelFlag* cancel) const override {
    ++runs;
    if (goes != nullptr && runs == runs_until) goes->store(true);
    if (const auto* bias = std::get_if<BiasVectorTask>(&task)) values += (rows.end - rows.begin) * bias->heads;
    return cpu_->Run(task, rows, cancel);
  }

  mutable int64_t runs = 0, values = 0;
  CancelFlag* goes = nullptr;
  int64_t runs_until = 0;

 private:
  std::unique_ptr<Backend> cpu_ = MakeCpuBackend();
};

Side Many() {
  SandwichSpec sandwich;
  sandwich.num_heads = kMany;
  return SideOf(sandwich);
}

RowWindow WindowOf(const Side& side) { return *ChooseWindow(side, nullptr, std::nullopt, 0, kDefaultRows); }

TEST(PlotHeads, IndicesAreEvenlySpaced) {
  EXPECT_THAT(EvenIndices(3, 16), ElementsAre(0, 1, 2));
  EXPECT_THAT(EvenIndices(1, 16), ElementsAre(0));
  EXPECT_THAT(EvenIndices(100, 4), ElementsAre(0, 33, 66, 99));
}

// Some heads by themselves are those heads among all.
void ExpectSameHeads(const Side& side, int64_t first, int64_t count) {
  const auto backend = MakeCpuBackend();
  const auto all = EntriesOf(*backend, side, first, count, DType::kF64);
  ASSERT_TRUE(all.ok()) << all.status();
  const std::vector<int64_t> heads = EvenIndices(side.columns, 2);
  const auto some = EntriesOfHeads(*backend, side, heads, first, count, nullptr);
  ASSERT_TRUE(some.ok()) << some.status();
  ASSERT_EQ(some->rows, count);
  ASSERT_EQ(some->columns, static_cast<int64_t>(heads.size()));
  for (int64_t row = 0; row < count; ++row) {
    for (int64_t i = 0; i < some->columns; ++i) {
      EXPECT_EQ(some->at(row, i), all->first.at(row, heads[static_cast<size_t>(i)])) << row << " " << i;
    }
  }
}

TEST(PlotHeads, SomeHeadsAreThoseOfAll) {
  ExpectSameHeads(SideOf(Slopes({0.5, 0.25, 0.125})), 3, 40);
  SandwichSpec sandwich;
  sandwich.num_heads = 5;
  ExpectSameHeads(SideOf(sandwich), 0, 17);
  ExpectSameHeads(Table(InputContent::kBiasVector, {3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}), 1, 3);
  FireSpec fire;
  fire.w1 = MakeWeight({1, 1}, {1});
  fire.b1 = MakeWeight({1}, {0});
  fire.w2 = MakeWeight({2, 1}, {1, -2});
  fire.b2 = MakeWeight({2}, {0, 0.5});
  ExpectSameHeads(SideOf(fire), 2, 9);
  DynamicPositionBiasSpec mlp;
  mlp.w = {MakeWeight({4, 1}, {1, -1, 0.5, 2}), MakeWeight({3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3})};
  mlp.b = {MakeWeight({4}, {0, 1, 2, 3}), MakeWeight({3}, {0, 0, 1})};
  ExpectSameHeads(SideOf(mlp), 0, 9);
}

TEST(PlotHeads, RowsThatThereAreNotAreRefused) {
  const Side table = Table(InputContent::kBiasVector, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_FALSE(EntriesOfHeads(*MakeCpuBackend(), table, {0}, 2, 2, nullptr).ok());
}

TEST(PlotHeads, CurvesAreMadeForWhatIsDrawn) {
  const Side side = Many();
  const RowWindow window = WindowOf(side);
  CountingBackend backend;
  const auto picture = PlotBias(backend, side, window, {});
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(backend.values, kMaxCurves * window.count);
  EXPECT_THAT(picture->description, HasSubstr("a curve for 16 of 65536 heads"));
  EXPECT_THAT(picture->svg, HasSubstr("bias added to the score, 16 of 65536 heads"));
}

TEST(PlotHeads, HeatMapsHaveAHeadPerColumn) {
  const Side side = Many();
  const RowWindow window = WindowOf(side);
  CountingBackend backend;
  const auto picture = PlotTable(backend, side, window, {});
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(backend.values, kMaxCells * window.count);
  EXPECT_THAT(picture->description, HasSubstr("256 of 65536 heads, evenly spaced, from left to right"));
  EXPECT_THAT(picture->svg, HasSubstr("head (256 of 65536 are drawn, evenly spaced)"));
  EXPECT_THAT(picture->svg, HasSubstr(">60000</text>")) << "the axis counts heads";
}

TEST(PlotHeads, AFewHundredHeadsAreAllDrawn) {
  SandwichSpec sandwich;
  sandwich.num_heads = kMaxCells;
  const auto picture = PlotTable(*MakeCpuBackend(), SideOf(sandwich), {0, 4}, {});
  ASSERT_TRUE(picture.ok());
  EXPECT_THAT(picture->description, HasSubstr("256 columns from left to right"));
  EXPECT_THAT(picture->svg, HasSubstr(">head</text>"));
}

TEST(PlotHeads, DifferencesAreOfSomeOfVeryManyHeads) {
  SandwichSpec other;
  other.num_heads = kMany;
  other.base = 20000;
  const Side a = Many(), b = SideOf(other);
  CountingBackend backend;
  const auto picture = PlotDifference(backend, a, b, {0, 8}, {});
  ASSERT_TRUE(picture.ok()) << picture.status();
  EXPECT_EQ(backend.values, 2 * kMaxCells * 8);
  EXPECT_THAT(picture->svg, HasSubstr("difference over 256 of 65536 heads"));
  EXPECT_THAT(picture->description, HasSubstr("over 256 of them, evenly spaced: at most "));
  // Head 0, whose factor is the largest, is among them.
  const auto rows_a = EntriesOfHeads(backend, a, {0}, 0, 8, nullptr),
             rows_b = EntriesOfHeads(backend, b, {0}, 0, 8, nullptr);
  double most = 0;
  for (int64_t row = 0; row < 8; ++row) most = std::max(most, std::abs(rows_b->at(row, 0) - rows_a->at(row, 0)));
  EXPECT_THAT(picture->description, HasSubstr(absl::StrCat("at most ", absl::StrFormat("%.4g", most), " (at ")));
}

TEST(PlotHeads, CallersThatGoAwayAreNotWaitedFor) {
  const Side side = Many();
  PlotSettings settings;
  CancelFlag gone{false};
  settings.cancel = &gone;
  CountingBackend backend;
  backend.goes = &gone;
  backend.runs_until = 3;
  for (const auto plot : {&PlotTable, &PlotBias}) {
    gone = false;
    backend.runs = 0;
    EXPECT_EQ(plot(backend, side, {0, 8}, settings).status().code(), absl::StatusCode::kCancelled);
    EXPECT_LT(backend.runs, 10);
  }
  // A wide table is made in blocks, and its rows are compared one by one.
  SinusoidalSpec wide;
  wide.dim = 65536;
  for (const auto plot : {&PlotTable, &PlotSimilarity}) {
    gone = false;
    backend.runs = 0;
    EXPECT_EQ(plot(backend, SideOf(wide), {0, 32}, settings).status().code(), absl::StatusCode::kCancelled);
    EXPECT_LT(backend.runs, 10);
  }
  gone = true;
  EXPECT_EQ(PlotDifference(backend, side, side, {0, 8}, settings).status().code(), absl::StatusCode::kCancelled);
  RopeSpec rope;
  rope.head_dim = 8;
  EXPECT_EQ(PlotDecay(backend, SideOf(rope), {0, 8}, settings).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(PlotDifference(backend, SideOf(rope), SideOf(rope), {0, 8}, settings).status().code(),
            absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace phasor::server
