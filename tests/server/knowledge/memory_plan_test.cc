// Bytes of tables and biases, against numbers computed by hand.
#include "server/knowledge/memory_plan.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/server/knowledge/recommend_cases.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

PlannedLayer LayerOf(const EncodingSpec& spec, std::string layer_type = "", int64_t layers = 0) {
  return {std::move(layer_type), Canonicalize(spec).value(), layers, 0};
}

MemoryPlan PlanOf(const EncodingSpec& spec, const Load& load) { return PlanMemoryUse({LayerOf(spec)}, load); }

MemoryUse UseOf(const MemoryPlan& plan, std::string_view what, std::string_view form, std::string_view layer_type = "") {
  for (const MemoryUse& use : plan.uses) {
    if (use.what == what && use.form == form && use.layer_type == layer_type) return use;
  }
  ADD_FAILURE() << "no " << what << ", " << form;
  return {};
}

std::string AdvisedOf(const MemoryPlan& plan) {
  std::string advised;
  for (const MemoryUse& use : plan.uses) {
    if (use.advised) absl::StrAppend(&advised, use.what, " ", use.form, ";");
  }
  return advised;
}

Load LoadOf(int64_t queries, int64_t keys, int64_t element_bytes = 4, int64_t batch = 1) {
  return {batch, queries, keys, element_bytes};
}

TEST(MemoryPlan, RotationOfLlama3) {
  RopeSpec rope = PlainRope();
  rope.base = 500000;
  const MemoryPlan plan = PlanMemoryUse({LayerOf(rope, "", 32)}, LoadOf(8192, 8192, 4, 4));
  const MemoryUse half = UseOf(plan, "table", "half width");
  EXPECT_EQ(half.bytes, 2.0 * 8192 * 64 * 4);
  EXPECT_EQ(half.cached_bytes, 2 * (2.0 * 4096 * 64 * 4));  // two tiles
  EXPECT_EQ(half.device_bytes, half.cached_bytes);
  EXPECT_EQ(half.operations, 8192.0 * 64 * 3);
  EXPECT_TRUE(half.advised);
  EXPECT_EQ(UseOf(plan, "table", "duplicated").bytes, 8388608);
  EXPECT_EQ(UseOf(plan, "table", "cos‖sin").bytes, 4194304);
  EXPECT_EQ(UseOf(plan, "inv_freq", "one value per pair").bytes, 512);
  const MemoryUse ids = UseOf(plan, "position_ids", "int64");
  EXPECT_EQ(ids.bytes, 4.0 * 8192 * 8);
  EXPECT_FALSE(ids.advised);
  EXPECT_THAT(plan.advice,
              HasSubstr("half-width table, 4 MiB once for all 32 layers and all heads; duplicated it would be 8 MiB."));
}

TEST(MemoryPlan, TilesAreWholeOnesAndTypesCount) {
  EXPECT_EQ(UseOf(PlanOf(PlainRope(), LoadOf(1, 4097, 2)), "table", "half width").bytes, 2.0 * 4097 * 64 * 2);
  EXPECT_EQ(UseOf(PlanOf(PlainRope(), LoadOf(1, 4097, 2)), "table", "half width").cached_bytes, 2 * (2.0 * 4096 * 64 * 2));
  EXPECT_EQ(UseOf(PlanOf(PlainRope(), LoadOf(1, 4096, 2)), "table", "half width").cached_bytes, 2.0 * 4096 * 64 * 2);
  // What no tile serves.
  EXPECT_EQ(UseOf(PlanOf(XposRope(), LoadOf(64, 64)), "table", "half width").cached_bytes, 0);
  EXPECT_EQ(UseOf(PlanOf(GridRopeOf(64), LoadOf(64, 64)), "table", "half width").cached_bytes, 0);
}

TEST(MemoryPlan, AttentionFactorCostsTwoMore) {
  EXPECT_EQ(UseOf(PlanOf(RopeWith(YarnOf(4, 32768)), LoadOf(10, 10)), "table", "half width").operations, 10.0 * 64 * 5);
}

TEST(MemoryPlan, SlopesOfBloom) {
  const MemoryPlan plan = PlanOf(OfHeads<AlibiSpec>(112), LoadOf(2048, 2048));
  EXPECT_EQ(UseOf(plan, "bias", "vector").bytes, 112.0 * 4095 * 4);
  EXPECT_EQ(UseOf(plan, "bias", "vector").cached_bytes, 2 * (112.0 * 4096 * 4));  // distances −2047 … 2047
  EXPECT_EQ(UseOf(plan, "bias", "full").bytes, 1879048192);
  EXPECT_EQ(UseOf(plan, "bias", "last query").bytes, 112.0 * 2048 * 4);
  EXPECT_EQ(UseOf(plan, "slopes", "one value per head").bytes, 448);
  EXPECT_EQ(AdvisedOf(plan), "bias vector;");
  EXPECT_THAT(plan.advice,
              HasSubstr("take the vector by distance, 1.75 MiB; the full bias would be 1.75 GiB, 1024 times as much."));
}

TEST(MemoryPlan, OneQueryTakesItsRow) {
  const MemoryPlan plan = PlanOf(OfHeads<AlibiSpec>(112), LoadOf(1, 2048));
  EXPECT_EQ(AdvisedOf(plan), "bias last query;");
  EXPECT_EQ(UseOf(plan, "bias", "last query").bytes, 917504);
}

TEST(MemoryPlan, BucketsOfT5) {
  const MemoryPlan plan = PlanOf(OfHeads<T5BucketSpec>(8), LoadOf(512, 512));
  EXPECT_EQ(UseOf(plan, "bias", "vector").bytes, 8.0 * 1023 * 4);
  EXPECT_EQ(UseOf(plan, "bias", "full").bytes, 8.0 * 512 * 512 * 4);
  EXPECT_EQ(UseOf(plan, "weights", "as uploaded").bytes, 32.0 * 8 * 4);
  EXPECT_EQ(UseOf(plan, "bias", "vector").cached_bytes, 0);  // no table, no values
  T5BucketSpec with_table;
  with_table.table = MakeWeight({32, 8}, std::vector<double>(256, 0.5));
  const MemoryPlan values = PlanOf(with_table, LoadOf(512, 512));
  EXPECT_EQ(UseOf(values, "bias", "vector").cached_bytes, 2 * (8.0 * 4096 * 4));
  EXPECT_EQ(UseOf(values, "weights", "as uploaded").bytes, 1024);
}

TEST(MemoryPlan, WindowOfSwin) {
  const MemoryPlan plan = PlanOf(WindowOf(7, 3), LoadOf(49, 49));
  EXPECT_EQ(UseOf(plan, "bias", "full").bytes, 3.0 * 49 * 49 * 4);
  EXPECT_EQ(UseOf(plan, "weights", "as uploaded").bytes, 169.0 * 3 * 4);
  EXPECT_EQ(AdvisedOf(plan), "bias full;");
}

TEST(MemoryPlan, LayerTypesOfGemma3) {
  RopeSpec global = PlainRope(256), local = PlainRope(256);
  global.base = 1e6;
  global.schedule = LinearSchedule{8};
  const MemoryPlan plan =
      PlanMemoryUse({LayerOf(local, "sliding_attention", 29), LayerOf(global, "full_attention", 5)}, LoadOf(1, 131072, 2));
  EXPECT_EQ(UseOf(plan, "table", "half width", "full_attention").bytes, 2.0 * 131072 * 128 * 2);
  EXPECT_EQ(UseOf(plan, "table", "half width", "sliding_attention").bytes, 2.0 * 131072 * 128 * 2);
  EXPECT_THAT(plan.advice, HasSubstr("sliding_attention: take the half-width table, 64 MiB once for all 29 layers"));
  EXPECT_THAT(plan.advice, HasSubstr("cache keeps 128 MiB"));
  const MemoryPlan same = PlanMemoryUse({LayerOf(local, "a", 1), LayerOf(local, "b", 1)}, LoadOf(1, 4096, 2));
  EXPECT_THAT(UseOf(same, "table", "half width", "b").note, HasSubstr("same numbers as a: kept once"));
  EXPECT_THAT(same.advice, HasSubstr("cache keeps 2 MiB"));
}

TEST(MemoryPlan, NoVectorForRowsOfTheirOwn) {
  FireSpec fire;
  fire.w1 = MakeWeight({2, 1}, {1, -1});
  fire.b1 = MakeWeight({2}, {0, 0});
  fire.w2 = MakeWeight({4, 2}, {1, 1, 1, 1, 1, 1, 1, 1});
  fire.b2 = MakeWeight({4}, {0, 0, 0, 0});
  for (const EncodingSpec& spec : {EncodingSpec(fire), EncodingSpec(Forgetting())}) {
    const MemoryPlan plan = PlanOf(spec, LoadOf(4, 4));
    EXPECT_EQ(AdvisedOf(plan), "bias full;");
    for (const MemoryUse& use : plan.uses) EXPECT_NE(use.form, "vector");
    EXPECT_THAT(UseOf(plan, "bias", "full").note, HasSubstr("No vector form"));
  }
  EXPECT_EQ(UseOf(PlanOf(fire, LoadOf(4, 4)), "bias", "full").bytes, 4.0 * 4 * 4 * 4);
}

TEST(MemoryPlan, AbsoluteEncodings) {
  const MemoryPlan learned = PlanOf(LearnedOf(512, 768), LoadOf(128, 128));
  EXPECT_EQ(UseOf(learned, "weights", "as uploaded").bytes, 512.0 * 768 * 4);
  EXPECT_EQ(UseOf(learned, "table", "rows").bytes, 128.0 * 768 * 4);
  const MemoryPlan sinusoids = PlanOf(SinusoidsOf(512), LoadOf(1500, 1500));
  EXPECT_EQ(UseOf(sinusoids, "table", "rows").bytes, 1500.0 * 512 * 4);
  EXPECT_EQ(UseOf(sinusoids, "table", "rows").cached_bytes, 4096.0 * 512 * 4);
  EXPECT_EQ(UseOf(PlanOf(GridOf(768, {14, 14}), LoadOf(196, 196)), "table", "rows").bytes, 196.0 * 768 * 4);
}

TEST(MemoryPlan, LengthsBeyondATableAreSaid) {
  LearnedSpec opt = LearnedOf(2050, 768);
  opt.position_offset = 2;
  constexpr char kMissing[] = "there are rows for positions 0 to 2047 only: 2048 of the 4096 positions asked for have none";
  const MemoryPlan beyond = PlanOf(opt, LoadOf(1, 4096));
  EXPECT_THAT(beyond.advice, HasSubstr(kMissing));
  EXPECT_THAT(UseOf(beyond, "weights", "as uploaded").note, HasSubstr(kMissing));
  EXPECT_THAT(PlanOf(opt, LoadOf(1, 2048)).advice, Not(HasSubstr("have none")));
  // Without the table's numbers, as in a configuration.
  PlannedLayer layer = LayerOf(opt, "decoder");
  layer.lacks_weights = true;
  const MemoryPlan unread = PlanMemoryUse({layer}, LoadOf(1, 4096));
  EXPECT_THAT(unread.advice, HasSubstr(absl::StrCat("decoder: ", kMissing)));
  EXPECT_THAT(UseOf(unread, "weights", "as uploaded", "decoder").note, HasSubstr(kMissing));
  // Coordinates of boxes are no positions.
  layer.layer_type = "x_embedding";
  EXPECT_THAT(PlanMemoryUse({layer}, LoadOf(1, 4096)).advice, Not(HasSubstr("have none")));
  EXPECT_THAT(PlanOf(SinusoidsOf(512), LoadOf(1, 1 << 20)).advice, Not(HasSubstr("have none")));
}

TEST(MemoryPlan, CoordinatesOfSeveralAxes) {
  RopeSpec rope = PlainRope();
  rope.axes = RopeAxes{{16, 24, 24}, AxisLayout::kChunked};
  const MemoryUse ids = UseOf(PlanOf(rope, LoadOf(100, 100, 4, 2)), "position_ids", "int64, 3 coordinates");
  EXPECT_EQ(ids.bytes, 2.0 * 100 * 3 * 8);
  EXPECT_TRUE(ids.advised);
}

TEST(MemoryPlan, NumbersOfACheckpointAlone) {
  PlannedLayer layer = LayerOf(ShawOf(64), "encoder");
  layer.weight_elements = 129 * 64;
  const MemoryPlan plan = PlanMemoryUse({layer}, LoadOf(512, 512, 2));
  EXPECT_EQ(UseOf(plan, "weights", "as uploaded", "encoder").bytes, 129.0 * 64 * 2);
  EXPECT_THAT(plan.advice, HasSubstr("encoder: upload the checkpoint's numbers, 16.12 KiB, once."));
}

TEST(MemoryPlan, LongestLengthsDoNotOverflow) {
  const int64_t longest = int64_t{1} << 31;
  const MemoryPlan plan = PlanOf(OfHeads<AlibiSpec>(65536), LoadOf(longest, longest, 8, 1 << 20));
  EXPECT_EQ(UseOf(plan, "bias", "full").bytes, std::ldexp(1.0, 16 + 31 + 31 + 3));
  EXPECT_EQ(UseOf(plan, "bias", "vector").bytes, 65536.0 * (2 * std::ldexp(1.0, 31) - 1) * 8);
  for (const MemoryUse& use : plan.uses) EXPECT_TRUE(std::isfinite(use.bytes) && use.bytes > 0) << use.what;
}

TEST(MemoryPlan, BytesText) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(std::ldexp(1.0, 81)), "2.097e+06 EiB");
}

}  // namespace
}  // namespace phasor::server
