// Wishes that reach the rows of the decision table, beside the rows' names.
#ifndef PHASOR_TESTS_SERVER_KNOWLEDGE_RECOMMEND_CASES_H_
#define PHASOR_TESTS_SERVER_KNOWLEDGE_RECOMMEND_CASES_H_

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "server/knowledge/wishes.h"

namespace phasor::server {

inline EncodingSpec Canonical(const EncodingSpec& spec) { return Canonicalize(spec).value().spec; }

inline Wishes Want(Task task, int64_t trained, int64_t wanted, Tuning tuning,
                   std::optional<EncodingSpec> current = std::nullopt) {
  Wishes wishes;
  wishes.task = task;
  wishes.trained_length = trained;
  wishes.wanted_length = wanted;
  wishes.tuning = tuning;
  if (current) wishes.current = Canonical(*current);
  return wishes;
}
inline Wishes On(Target target, Wishes wishes) {
  wishes.target = target;
  return wishes;
}
inline Wishes WithHead(int64_t head_dim, Wishes wishes) {
  wishes.head_dim = head_dim;
  return wishes;
}

inline RopeSpec PlainRope(int64_t head_dim = 128) {
  RopeSpec rope;
  rope.head_dim = head_dim;
  return rope;
}
inline RopeSpec RopeWith(RopeSchedule schedule) {
  RopeSpec rope = PlainRope();
  rope.schedule = std::move(schedule);
  return rope;
}
inline YarnSchedule YarnOf(double factor, int64_t original) {
  YarnSchedule yarn;
  yarn.factor = factor;
  yarn.original_max_position = original;
  return yarn;
}
inline RopeSpec GridRopeOf(int64_t head_dim) {
  RopeSpec rope = PlainRope(head_dim);
  rope.axes = RopeAxes{{head_dim / 4, head_dim / 4}, AxisLayout::kReset};
  return rope;
}
inline RopeSpec XposRope() {
  RopeSpec rope = PlainRope();
  rope.xpos = XposScale{};
  return rope;
}
inline RopeSpec RopeOfPairing(Pairing pairing) {
  RopeSpec rope = PlainRope();
  rope.pairing = pairing;
  return rope;
}
inline LearnedSpec LearnedOf(int64_t rows, int64_t dim) {
  LearnedSpec spec;
  spec.num_positions = rows;
  spec.dim = dim;
  return spec;
}
inline GridSinusoidalSpec GridOf(int64_t dim, std::vector<int64_t> grid) {
  GridSinusoidalSpec spec;
  spec.dim = dim;
  spec.grid = std::move(grid);
  return spec;
}
inline WindowBiasSpec WindowOf(int64_t side, int64_t heads) {
  WindowBiasSpec spec;
  spec.window_height = spec.window_width = side;
  spec.num_heads = heads;
  return spec;
}
inline SinusoidalSpec SinusoidsOf(int64_t dim) {
  SinusoidalSpec spec;
  spec.dim = dim;
  return spec;
}
template <typename Spec>
Spec OfHeads(int64_t heads) {
  Spec spec;
  spec.num_heads = heads;
  return spec;
}
inline EncodingSpec ShawOf(int64_t clip) {
  ShawSpec spec;
  spec.clip = clip;
  return spec;
}
inline EncodingSpec PopeOf(int64_t head_dim) {
  PopeSpec spec;
  spec.head_dim = head_dim;
  return spec;
}
inline ForgettingBiasSpec Forgetting() {
  ForgettingBiasSpec spec;
  spec.gates = MakeWeight({2, 4}, {-1, -1, -1, -1, -1, -1, -1, -1});
  return spec;
}

struct RecommendCase {
  std::string_view rule;
  Wishes wishes;
};

inline std::vector<RecommendCase> CasesOfExistingModels() {
  using enum Task;
  using enum Tuning;
  const LearnedSpec rows = LearnedOf(512, 768);
  const LearnedSpec image = LearnedOf(197, 768);
  const GridSinusoidalSpec grid = GridOf(768, {14, 14});
  const WindowBiasSpec window = WindowOf(7, 3);
  return {
      {"keep.covered", Want(kLanguageModel, 8192, 4096, kNone, PlainRope())},
      {"keep.covered", Want(kEncoder, 512, 512, kFull, rows)},
      {"keep.dynamic_ntk", Want(kLanguageModel, 2048, 8192, kNone, RopeWith(DynamicNtkSchedule{2, 2048}))},
      {"keep.alibi", Want(kLanguageModel, 2048, 65536, kNone, OfHeads<AlibiSpec>(32))},
      {"keep.by_distance", Want(kEncoder, 512, 4096, kNone, OfHeads<T5BucketSpec>(8))},
      {"keep.by_distance", Want(kEncoder, 512, 4096, kNone, ShawOf(64))},
      {"keep.by_content", Want(kLanguageModel, 2048, 8192, kNone, Forgetting())},
      {"extend.dynamic_ntk", Want(kRetrieval, 2048, 8192, kNone, PlainRope())},
      {"extend.yarn", Want(kLanguageModel, 4096, 32768, kNone, PlainRope())},
      {"extend.yarn", Want(kEncoder, 2048, 4096, kNone, PlainRope())},
      {"extend.dynamic_ntk_cached", Want(kLanguageModel, 4096, 16384, kNone, PlainRope())},
      {"tune.yarn", Want(kLanguageModel, 8192, 131072, kShort, PlainRope())},
      {"tune.larger_base", Want(kLanguageModel, 4096, 262144, kShort, PlainRope())},
      {"tune.llama3", Want(kLanguageModel, 8192, 131072, kShort, PlainRope())},
      {"tune.linear", Want(kLanguageModel, 2048, 16384, kShort, PlainRope())},
      {"more.yarn_untuned", Want(kLanguageModel, 131072, 262144, kNone, RopeWith(YarnOf(4, 32768)))},
      {"more.yarn", Want(kLanguageModel, 131072, 1048576, kShort, RopeWith(YarnOf(4, 32768)))},
      {"more.llama3", Want(kLanguageModel, 131072, 524288, kShort, RopeWith(Llama3Schedule{8, 1, 4, 8192}))},
      {"more.linear", Want(kLanguageModel, 16384, 65536, kShort, RopeWith(LinearSchedule{8}))},
      {"tune.sinusoidal", Want(kSpeech, 1500, 3000, kShort, SinusoidsOf(512))},
      {"resize.rows", Want(kEncoder, 512, 2048, kShort, rows)},
      {"resize.image", Want(kVision, 196, 576, kNone, image)},
      {"resize.grid", Want(kVision, 196, 784, kNone, grid)},
      {"resize.window", Want(kVision, 49, 144, kShort, window)},
      {"slow.grid_rope", Want(kVision, 1024, 4096, kNone, GridRopeOf(64))},
  };
}

inline std::vector<RecommendCase> CasesOfNewModels() {
  using enum Task;
  using enum Tuning;
  return {
      {"new.lm.rope", Want(kLanguageModel, 8192, 8192, kFull)},
      {"new.lm.rope", Want(kLanguageModel, 8192, 8192, kNone)},
      {"new.lm.rope_longer", Want(kLanguageModel, 8192, 131072, kFull)},
      {"new.lm.rope_and_none", Want(kLanguageModel, 8192, 1 << 20, kFull)},
      {"new.lm.alibi_longer", Want(kLanguageModel, 2048, 8192, kFull)},
      {"new.lm.alibi", Want(kLanguageModel, 2048, 2048, kFull)},
      {"new.encoder.rope", Want(kEncoder, 8192, 8192, kFull)},
      {"new.encoder.t5_bucket", Want(kEncoder, 512, 512, kFull)},
      {"new.encoder.learned", Want(kEncoder, 512, 512, kFull)},
      {"new.retrieval.rope", Want(kRetrieval, 8192, 8192, kFull)},
      {"new.retrieval.alibi", Want(kRetrieval, 512, 8192, kFull)},
      {"new.retrieval.learned", Want(kRetrieval, 512, 512, kFull)},
      {"new.vision.rope", WithHead(64, Want(kVision, 1024, 4096, kFull))},
      {"new.vision.grid_sinusoidal", WithHead(64, Want(kVision, 196, 196, kFull))},
      {"new.vision.window", WithHead(32, Want(kVision, 49, 49, kFull))},
      {"new.vision.learned", WithHead(64, Want(kVision, 197, 197, kFull))},
      {"new.speech.sinusoidal", WithHead(64, Want(kSpeech, 1500, 1500, kFull))},
      {"new.speech.rope", WithHead(64, Want(kSpeech, 1500, 3000, kFull))},
      {"new.series.rope", WithHead(64, Want(kTimeSeries, 720, 720, kFull))},
      {"new.series.sinusoidal", WithHead(64, Want(kTimeSeries, 720, 720, kFull))},
      {"new.series.alibi", WithHead(64, Want(kTimeSeries, 720, 2000, kFull))},
      {"new.rope_odd", WithHead(127, Want(kLanguageModel, 8192, 8192, kFull))},
  };
}

// Rules that leave something out.
inline std::vector<RecommendCase> CasesOfExclusions() {
  using enum Task;
  using enum Tuning;
  const auto plain = [](Target target, const EncodingSpec& current) {
    return On(target, Want(kLanguageModel, 4096, 4096, kNone, current));
  };
  return {
      {"no.longrope", Want(kLanguageModel, 4096, 131072, kShort, PlainRope())},
      {"no.linear_untuned", Want(kLanguageModel, 4096, 8192, kNone, PlainRope())},
      {"no.llama3_untuned", Want(kLanguageModel, 4096, 8192, kNone, PlainRope())},
      {"no.other_scheme", Want(kLanguageModel, 4096, 8192, kNone, PlainRope())},
      {"no.learned_longer", Want(kEncoder, 512, 2048, kFull)},
      {"no.rope_without_pairs", WithHead(127, Want(kLanguageModel, 8192, 8192, kFull))},
      {"no.continuous_window", Want(kVision, 64, 64, kFull)},
      {"no.conformer", Want(kSpeech, 1500, 1500, kFull)},
      {"onnx.pairing", plain(Target::kOnnx, RopeOfPairing(Pairing::kInterleavedToHalf))},
      {"onnx.channels", plain(Target::kOnnx, XposRope())},
      {"tensorrt.schedule", plain(Target::kTensorRt, RopeWith(NtkAwareSchedule{4}))},
      {"tensorrt.channels", plain(Target::kTensorRt, XposRope())},
      {"tensorrt.bias", plain(Target::kTensorRt, OfHeads<SandwichSpec>(8))},
      {"npu.length", On(Target::kNpu, Want(kLanguageModel, 4096, 16384, kNone, PlainRope()))},
      {"npu.content", plain(Target::kNpu, Forgetting())},
  };
}

// Wishes that exclude one another.
inline std::vector<RecommendCase> CasesOfContradictions() {
  using enum Task;
  using enum Tuning;
  const LearnedSpec rows = LearnedOf(1024, 768);
  return {
      {"npu.content", On(Target::kNpu, Want(kLanguageModel, 4096, 4096, kNone, Forgetting()))},
      {"none.learned", Want(kLanguageModel, 1024, 32768, kNone, rows)},
      {"none.absolute", Want(kEncoder, 512, 2048, kNone, SinusoidsOf(512))},
      {"none.rope_far", Want(kLanguageModel, 4096, 131072, kNone, PlainRope())},
      {"none.scaled", Want(kLanguageModel, 131072, 524288, kNone, RopeWith(Llama3Schedule{8, 1, 4, 8192}))},
      {"short.rope_far", Want(kLanguageModel, 2048, 1 << 20, kShort, PlainRope())},
      {"short.scaled_far", Want(kLanguageModel, 16384, 1 << 20, kShort, RopeWith(LinearSchedule{8}))},
      {"short.other_schedule", Want(kLanguageModel, 4096, 8192, kShort, RopeWith(NtkAwareSchedule{4}))},
      {"short.learned_far", Want(kEncoder, 512, 8192, kShort, rows)},
      {"no.rule", Want(kLanguageModel, 4096, 8192, kNone, PopeOf(64))},
      {"no.target", On(Target::kOnnx, Want(kLanguageModel, 4096, 4096, kNone, XposRope()))},
  };
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_KNOWLEDGE_RECOMMEND_CASES_H_
