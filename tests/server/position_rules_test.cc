#include "server/position_rules.h"

#include <cmath>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

using Ids = std::vector<std::vector<int64_t>>;

template <typename Rule, typename Size, typename Make>
RuleIds Expand(const std::string& text, Size size_of, Make make) {
  const Rule rule = FromText<Rule>(text);
  const auto size = size_of(rule);
  EXPECT_TRUE(size.ok()) << size.status();
  RuleIds ids = make(rule, *size);
  const size_t axes = ids.is_fractional() ? ids.fractional.size() : ids.whole.size();
  EXPECT_EQ(static_cast<int64_t>(axes), size->axes);
  for (const auto& axis : ids.whole) EXPECT_EQ(static_cast<int64_t>(axis.size()), size->count);
  for (const auto& axis : ids.fractional) EXPECT_EQ(static_cast<int64_t>(axis.size()), size->count);
  return ids;
}

RuleIds Mrope(const std::string& text) {
  return Expand<v1::MropePositions>(text, [](const auto& rule) { return SizeOfMrope(rule, "mrope", Limits()); }, IdsOfMrope);
}
RuleIds Grid(const std::string& text) {
  return Expand<v1::GridPositions>(text, [](const auto& rule) { return SizeOfGrid(rule, "grid", Limits()); }, IdsOfGrid);
}
std::vector<int64_t> Split(const std::string& text) {
  return Expand<v1::ContextParallelPositions>(
             text, [](const auto& rule) { return SizeOfContextParallel(rule, "context_parallel", Limits()); },
             IdsOfContextParallel)
      .whole.at(0);
}
RuleIds Remap(const std::string& text) {
  return Expand<v1::RemappedPositions>(
      text, [](const auto& rule) { return SizeOfRemapped(rule, "remapped", std::nullopt, Limits()); }, IdsOfRemapped);
}

// Sequences through the models' own code (tests/golden/positions/make.py).
TEST(MropeTest, SameIdsAsTheModels) {
  std::ifstream file(std::string(PHASOR_GOLDEN_DIR) + "/positions/mrope.txt");
  ASSERT_TRUE(file.is_open());
  int cases = 0;
  for (std::string line; std::getline(file, line); ++cases) {
    const std::vector<std::string> parts = absl::StrSplit(line, " | ");
    ASSERT_EQ(parts.size(), 4u);
    const RuleIds ids = Mrope(parts[1]);
    std::vector<std::vector<double>> expected;
    for (absl::string_view row : absl::StrSplit(parts[2], ';')) {
      auto& axis = expected.emplace_back();
      // Nine digits say which float it is.
      for (absl::string_view number : absl::StrSplit(row, ',')) axis.push_back(std::stof(std::string(number)));
    }
    std::vector<std::vector<double>> got = ids.fractional;
    for (const auto& axis : ids.whole) got.emplace_back(axis.begin(), axis.end());
    EXPECT_EQ(got, expected) << line;
    const double delta = std::stod(parts[3]);
    if (delta == std::floor(delta)) {
      EXPECT_EQ(ids.rope_delta, static_cast<int64_t>(delta)) << line;
    } else {
      EXPECT_FALSE(ids.rope_delta) << line;
    }
  }
  EXPECT_GE(cases, 51);
}

// A prefix of 15 tokens, frames 4 apart: the time axis starts at 15, not at 15·4 (huggingface/transformers#45381).
TEST(MropeTest, TheStartIsNotScaledByTheInterval) {
  const RuleIds ids = Mrope(
      "segments { text: 15 } segments { video { time: 2 height: 2 width: 2 second_per_grid: 2 } } "
      "layout: MROPE_LAYOUT_QWEN2_5_VL tokens_per_second: 2");
  EXPECT_EQ(ids.whole[0][15], 15);
  EXPECT_NE(ids.whole[0][15], 60);
  EXPECT_EQ(ids.whole[0][16], 19);
}

// The audio of a video comes chunk by chunk after its frames, and the ending tokens follow what came last, here the audio,
// although the frames are wider.
TEST(MropeTest, AudioInVideoByChunk) {
  const RuleIds ids = Mrope(
      "segments { audio_in_video { video { time: 2 height: 2 width: 12 second_per_grid: 1 } audio: 3 seconds_per_chunk: 1 } "
      "} "
      "segments { text: 1 } layout: MROPE_LAYOUT_QWEN2_5_OMNI tokens_per_second: 2");
  EXPECT_EQ(ids.whole[0], (std::vector<int64_t>{0, 0, 1, 1, 1, 1, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 3, 4, 4, 5}));
  EXPECT_EQ(ids.whole[2], (std::vector<int64_t>{0, 0, 1, 2, 3, 4, 5, 6, 1, 2, 1, 2, 3, 4, 5, 6, 3, 4, 4, 5}));
  EXPECT_EQ(ids.rope_delta, 6 + 1 - 20);
}

// Qwen3-Omni orders tokens by time, the video first where they are even, and does not truncate.
TEST(MropeTest, AudioInVideoByTime) {
  const RuleIds ids = Mrope(
      "segments { audio_in_video { video { time: 3 height: 2 width: 2 second_per_grid: 0.75 } audio: 2 } } segments { text: "
      "1 } "
      "layout: MROPE_LAYOUT_QWEN3_OMNI tokens_per_second: 2");
  EXPECT_EQ(ids.fractional[0], (std::vector<double>{0, 1, 2, 2, 3, 3.5, 5, 6, 7, 8}));
  EXPECT_EQ(ids.fractional[1], (std::vector<double>{0, 1, 2, 2, 3, 2, 2, 6, 7, 8}));
}

// Half a second per frame and two positions a second are one position a frame, not none (the interval is not truncated
// first).
// An image has no time of its own: the interval of videos must not stretch it.
TEST(MropeTest, StillImagesStandAtOneTime) {
  const RuleIds ids = Mrope(
      "segments { text: 3 } segments { image { height: 4 width: 6 } } segments { text: 1 } layout: MROPE_LAYOUT_QWEN2_5_VL "
      "tokens_per_second: 25");
  EXPECT_EQ(ids.whole[0], (std::vector<int64_t>{0, 1, 2, 3, 3, 3, 3, 3, 3, 6}));
  EXPECT_EQ(ids.whole[2], (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 3, 4, 5, 6}));
  EXPECT_NE(ids.whole[0][3], 75) << "the start times the interval";
}

TEST(MropeTest, TheIntervalIsNotTruncated) {
  const RuleIds ids = Mrope(
      "segments { video { time: 4 height: 2 width: 2 second_per_grid: 0.5 } } layout: MROPE_LAYOUT_QWEN2_5_VL "
      "tokens_per_second: 2");
  EXPECT_EQ(ids.whole[0], (std::vector<int64_t>{0, 1, 2, 3}));
}

// Where frames reach further than the image is wide, text goes on after the last of them; transformers 5 goes back among
// them.
TEST(MropeTest, TextGoesOnAfterTheLargestPosition) {
  const std::string text = "segments { video { time: 4 height: 2 width: 2 } } segments { text: 2 }";
  EXPECT_EQ(Mrope(text).whole[0], (std::vector<int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(Mrope(text).rope_delta, 0);
  EXPECT_EQ(Mrope(text + " advance: MROPE_ADVANCE_SPATIAL").whole[0], (std::vector<int64_t>{0, 1, 2, 3, 1, 2}));
}

TEST(MropeTest, PaddingIsNotCounted) {
  const RuleIds ids = Mrope("segments { padding: 2 } segments { text: 3 }");
  EXPECT_EQ(ids.whole, Ids(3, {0, 0, 0, 1, 2}));
  EXPECT_EQ(ids.rope_delta, 0);
}

TEST(GridTest, RowsColumnsBlocksAndPrefix) {
  EXPECT_EQ(Grid("extents: 2 extents: 3").whole, (Ids{{0, 0, 0, 1, 1, 1}, {0, 1, 2, 0, 1, 2}}));
  EXPECT_EQ(Grid("extents: 2 extents: 2 starts: 1 starts: 5 prefix: 1").whole, (Ids{{0, 1, 1, 2, 2}, {0, 5, 6, 5, 6}}));
  EXPECT_EQ(Grid("extents: 2 extents: 4 merge: 2").whole, (Ids{{0, 0, 1, 1, 0, 0, 1, 1}, {0, 1, 0, 1, 2, 3, 2, 3}}));
  EXPECT_EQ(Grid("extents: 2 extents: 1 extents: 2").whole, (Ids{{0, 0, 1, 1}, {0, 0, 0, 0}, {0, 1, 0, 1}}));
}

TEST(GridTest, CentredCoordinates) {
  const RuleIds ids = Grid("extents: 2 extents: 3 coordinate: GRID_COORDINATE_CENTERED");
  ASSERT_TRUE(ids.is_fractional());
  EXPECT_EQ(ids.fractional[0], (std::vector<double>{-0.5, -0.5, -0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(ids.fractional[1], (std::vector<double>{-2.0 / 3, 0, 2.0 / 3, -2.0 / 3, 0, 2.0 / 3}));
}

TEST(ContextParallelTest, ZigZag) {
  const std::string two = "size: 2 cu_seqlens: [0, 8, 12] rank: ";
  EXPECT_EQ(Split(two + "0"), (std::vector<int64_t>{0, 1, 6, 7, 0, 3}));
  EXPECT_EQ(Split(two + "1"), (std::vector<int64_t>{2, 3, 4, 5, 1, 2}));
  const std::string through = two + "0 count: CONTEXT_PARALLEL_COUNT_THROUGH_PACK";
  EXPECT_EQ(Split(through), (std::vector<int64_t>{0, 1, 6, 7, 8, 11}));
  EXPECT_EQ(Split("size: 1 cu_seqlens: [0, 4]"), (std::vector<int64_t>{0, 1, 2, 3}));
  EXPECT_TRUE(Split("size: 3 cu_seqlens: 0").empty());
}

// G = 2, w = 4: near distances are their own, far ones are grouped and meet them without a gap.
TEST(RemappedTest, SelfExtend) {
  const std::string far = "count: 8 self_extend { group_size: 2 neighbor_window: 4 } ";
  EXPECT_EQ(Remap(far + "side: ATTENTION_SIDE_QUERY").whole[0], (std::vector<int64_t>{2, 2, 3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(Remap(far + "side: ATTENTION_SIDE_KEY").whole[0], (std::vector<int64_t>{0, 0, 1, 1, 2, 2, 3, 3}));
  // No position reaches the window: nothing is shifted.
  EXPECT_EQ(Remap("count: 4 self_extend { group_size: 2 neighbor_window: 4 } side: ATTENTION_SIDE_QUERY").whole[0],
            (std::vector<int64_t>{0, 0, 1, 1}));
}

TEST(RemappedTest, Rerope) {
  EXPECT_EQ(Remap("count: 3 rerope { window: 7 } side: ATTENTION_SIDE_QUERY").whole[0], (std::vector<int64_t>{7, 7, 7}));
  EXPECT_EQ(Remap("count: 3 rerope { window: 7 } side: ATTENTION_SIDE_KEY").whole[0], (std::vector<int64_t>{0, 0, 0}));
  // Leaky: q − k = w + (Δ − w)/step.
  const RuleIds q = Remap("start: 10 count: 1 rerope { window: 4 leaky_step: 2 } side: ATTENTION_SIDE_QUERY");
  const RuleIds k = Remap("start: 2 count: 1 rerope { window: 4 leaky_step: 2 } side: ATTENTION_SIDE_KEY");
  EXPECT_EQ(q.fractional[0][0] - k.fractional[0][0], 4 + (8 - 4) / 2.0);
}

// vLLM's five query rotations with chunk 8 and local 2 (dual_chunk_rope.py), and its keys.
TEST(RemappedTest, DualChunk) {
  const auto part = [](const std::string& name) {
    return Remap("count: 8 dual_chunk { chunk_size: 8 local_size: 2 part: DUAL_CHUNK_PART_" + name +
                 " } side: ATTENTION_SIDE_QUERY")
        .whole[0];
  };
  EXPECT_EQ(part("INTRA"), (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 0, 1}));
  EXPECT_EQ(part("SUCCESSIVE"), (std::vector<int64_t>{6, 7, 8, 8, 8, 8, 6, 7}));
  EXPECT_EQ(part("INTER"), (std::vector<int64_t>(8, 8)));
  EXPECT_EQ(part("SUCCESSIVE_CRITICAL"), (std::vector<int64_t>{6, 7, 8, 9, 10, 11, 6, 7}));
  EXPECT_EQ(part("INTER_CRITICAL"), (std::vector<int64_t>{8, 9, 10, 11, 12, 13, 8, 9}));
  EXPECT_EQ(Remap("count: 8 dual_chunk { chunk_size: 8 local_size: 2 } side: ATTENTION_SIDE_KEY").whole[0],
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 0, 1}));
  EXPECT_EQ(Remap("start: -2 count: 4 chunk_size: 3 side: ATTENTION_SIDE_KEY").whole[0], (std::vector<int64_t>{1, 2, 0, 1}));
}

template <typename Rule, typename Size>
void ExpectError(const std::string& text, Size size_of, const char* field, const char* given, const char* allowed) {
  const auto size = size_of(FromText<Rule>(text));
  ASSERT_FALSE(size.ok()) << text;
  EXPECT_EQ(size.status().code(), absl::StatusCode::kInvalidArgument);
  const google::rpc::Status status = ToRpcStatus(size.status());
  EXPECT_EQ(MetadataOf(status, "field"), field) << text;
  EXPECT_NE(status.message().find(given), std::string::npos) << status.message();
  EXPECT_NE(status.message().find(allowed), std::string::npos) << status.message();
}

TEST(PositionRulesTest, Errors) {
  const auto mrope = [](const v1::MropePositions& rule) { return SizeOfMrope(rule, "mrope", Limits()); };
  using M = v1::MropePositions;
  ExpectError<M>("", mrope, "mrope.segments", "nothing", "at least one");
  ExpectError<M>("segments { }", mrope, "mrope.segments[0]", "nothing", "text, image");
  ExpectError<M>("segments { text: -1 }", mrope, "mrope.segments[0].text", "-1", "0 or more");
  ExpectError<M>("segments { image { height: 3 width: 2 } }", mrope, "mrope.segments[0].image.height", "3", "multiple of 2");
  ExpectError<M>("segments { text: 9223372036854775807 }", mrope, "mrope.segments[0]", "9", "max_positions");
  ExpectError<M>("segments { video { time: 3 height: 2 width: 2 } } temporal_merge: 2", mrope,
                 "mrope.segments[0].video.time", "3", "multiple of 2");
  ExpectError<M>("segments { video { time: 2 height: 2 width: 2 second_per_grid: 2 } }", mrope,
                 "mrope.segments[0].video.second_per_grid", "2", "unset, or MROPE_LAYOUT_QWEN2_5_VL");
  ExpectError<M>("segments { image { height: 2 width: 2 second_per_grid: 2 } } layout: MROPE_LAYOUT_QWEN2_5_VL", mrope,
                 "mrope.segments[0].image.second_per_grid", "2", "images have no time");
  ExpectError<M>("segments { text: 1 } layout: MROPE_LAYOUT_QWEN3_VL tokens_per_second: 2", mrope, "mrope.tokens_per_second",
                 "2", "MROPE_LAYOUT_QWEN3_OMNI");
  ExpectError<M>("segments { video { time: 2 height: 2 width: 2 second_per_grid: -1 } } layout: MROPE_LAYOUT_QWEN2_5_VL",
                 mrope, "mrope.segments[0].video.second_per_grid", "-1", "0 …");
  const std::string film = "segments { audio_in_video { video { height: 2 width: 2 } audio: ";
  ExpectError<M>(film + "1 } }", mrope, "mrope.segments[0].audio_in_video", "a video with audio", "QWEN3_OMNI");
  ExpectError<M>(film + "0 } } layout: MROPE_LAYOUT_QWEN3_OMNI", mrope, "mrope.segments[0].audio_in_video.audio", "0",
                 "1 or");
  ExpectError<M>(film + "1 seconds_per_chunk: 1 } } layout: MROPE_LAYOUT_QWEN3_OMNI", mrope,
                 "mrope.segments[0].audio_in_video.seconds_per_chunk", "1", "no chunks");
  ExpectError<M>(film + "1 seconds_per_chunk: 0.01 } } layout: MROPE_LAYOUT_QWEN2_5_OMNI", mrope,
                 "mrope.segments[0].audio_in_video.seconds_per_chunk", "0.01", "1 … 1e9");
  ExpectError<M>("segments { audio_in_video { video { height: 3 width: 2 } audio: 1 } } layout: MROPE_LAYOUT_QWEN2_5_OMNI",
                 mrope, "mrope.segments[0].audio_in_video.video.height", "3", "multiple of 2");
  ExpectError<M>("segments { text: 1 } layout: MROPE_LAYOUT_QWEN3_OMNI advance: MROPE_ADVANCE_SPATIAL", mrope,
                 "mrope.advance", "MROPE_ADVANCE_SPATIAL", "unset");
  ExpectError<M>("segments { text: 1 } layout: MROPE_LAYOUT_QWEN3_OMNI temporal_merge: 2", mrope, "mrope.temporal_merge",
                 "2", "1 with");
  ExpectError<M>("segments { text: 1 } spatial_merge: 0", mrope, "mrope.spatial_merge", "0", "1 … 64");
  ExpectError<M>("segments { video { time: 1 height: 2 width: 2 } } layout: MROPE_LAYOUT_HUNYUAN_VL", mrope,
                 "mrope.segments[0].video", "video", "no videos");
  const auto grid = [](const v1::GridPositions& rule) { return SizeOfGrid(rule, "grid", Limits()); };
  using G = v1::GridPositions;
  ExpectError<G>("extents: 2", grid, "grid.extents", "1 axes", "2 … 4");
  ExpectError<G>("extents: 0 extents: 2", grid, "grid.extents[0]", "0", "1 …");
  ExpectError<G>("extents: 16777216 extents: 16777216", grid, "grid.extents[1]", "281474976710656", "max_positions");
  ExpectError<G>("extents: 3 extents: 4 merge: 2", grid, "grid.merge", "2", "dividing");
  ExpectError<G>("extents: 3 extents: 4 starts: 1", grid, "grid.starts", "1 entries", "none, or 2");
  const auto split = [](const v1::ContextParallelPositions& rule) {
    return SizeOfContextParallel(rule, "context_parallel", Limits());
  };
  using C = v1::ContextParallelPositions;
  ExpectError<C>("size: 2 cu_seqlens: [0, 8, 14]", split, "context_parallel.cu_seqlens[2]", "6 tokens",
                 "2·size = 4 divides");
  ExpectError<C>("size: 2 rank: 2 cu_seqlens: 0", split, "context_parallel.rank", "2", "0 … 1");
  ExpectError<C>("size: 0 cu_seqlens: 0", split, "context_parallel.size", "0", "1 …");
  ExpectError<C>("size: 1 cu_seqlens: [0, 4, 2]", split, "context_parallel.cu_seqlens[2]", "2", "4 …");
  const auto remap = [](const v1::RemappedPositions& rule) {
    return SizeOfRemapped(rule, "remapped", std::nullopt, Limits());
  };
  using R = v1::RemappedPositions;
  ExpectError<R>("count: 4 chunk_size: 2", remap, "remapped.side", "nothing", "ATTENTION_SIDE_QUERY");
  ExpectError<R>("count: 4 side: ATTENTION_SIDE_KEY", remap, "remapped", "no map", "self_extend");
  ExpectError<R>("side: ATTENTION_SIDE_KEY chunk_size: 2", remap, "remapped.count", "nothing", "how many");
  ExpectError<R>("count: 4 side: ATTENTION_SIDE_QUERY dual_chunk { chunk_size: 4 local_size: 4 }", remap,
                 "remapped.dual_chunk.local_size", "4", "0 … 3");
  ExpectError<R>("count: 4 side: ATTENTION_SIDE_KEY rerope { window: 0 }", remap, "remapped.rerope.window", "0", "1 …");
}

}  // namespace
}  // namespace phasor::server
