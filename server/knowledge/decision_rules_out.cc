// What the decision table leaves out, and what it says where nothing is left.
#include <variant>

#include "server/knowledge/decision_table.h"

namespace phasor::server {
namespace {

constexpr Bits kUntuned = SetOf(Tuning::kNone);
constexpr Bits kTunedShortly = SetOf(Tuning::kShort);
constexpr Bits kRope = SetOf(CurrentKind::kRope);
constexpr Bits kVision = SetOf(Task::kVision);

constexpr ExclusionRow kExclusions[] = {
    {.rule = "no.longrope",
     .scheme = "rope_longrope",
     .when = {.start = Start::kExisting, .currents = kRope, .above_ratio = 1},
     .reason =
         "LongRoPE divides every frequency by a number of its own. The lists come from a search over one model, and none is "
         "given."},
    {.rule = "no.linear_untuned",
     .scheme = "rope_linear",
     .when = {.start = Start::kExisting, .tunings = kUntuned, .currents = kRope, .above_ratio = 1},
     .reason =
         "It divides every frequency by {ratio}, the fastest too: neighbours would differ by 1/{ratio} of what the weights "
         "know. It needs a tuning."},
    {.rule = "no.llama3_untuned",
     .scheme = "rope_llama3",
     .when = {.start = Start::kExisting, .tunings = kUntuned, .currents = kRope, .above_ratio = 1},
     .reason = "Its bands are those of models that were trained further with them. It needs a tuning."},
    {.rule = "no.other_scheme",
     .scheme = "alibi",
     .when = {.start = Start::kExisting, .currents = kRope, .above_ratio = 1},
     .reason = "The weights have learned to read rotations: another scheme begins anew (tuning full)."},
    {.rule = "no.learned_longer",
     .scheme = "learned",
     .when = {.start = Start::kNew, .above_ratio = 1},
     .reason = "Rows beyond {trained} would never be trained."},
    {.rule = "no.rope_without_pairs",
     .scheme = "rope_default",
     .when = {.start = Start::kNew, .tasks = kAll & ~kVision, .head = HeadWidth::kOdd},
     .reason =
         "head_dim {head_dim} is odd: over the whole head one channel has no partner. Rotate {rotary_dim} of them, or take "
         "an even head_dim."},
    {.rule = "no.continuous_window",
     .scheme = "continuous_window_bias",
     .when = {.start = Start::kNew, .tasks = kVision},
     .reason = "Its bias is made by a small network whose weights come from training: there is no spec before it."},
    {.rule = "no.conformer",
     .scheme = "conformer",
     .when = {.start = Start::kNew, .tasks = SetOf(Task::kSpeech)},
     .reason =
         "Its terms need a trained projection (w_r): there is no spec before it. Fused attention kernels have no place for "
         "them either."},
};

// ---- targets

const RopeSpec* Rope(const EncodingSpec& spec) { return std::get_if<RopeSpec>(&spec); }

bool WritesOtherPairs(const EncodingSpec& spec) {
  const RopeSpec* rope = Rope(spec);
  return rope != nullptr && rope->pairing == Pairing::kInterleavedToHalf;
}

bool ScalesChannels(const EncodingSpec& spec) {
  const RopeSpec* rope = Rope(spec);
  return (rope != nullptr && rope->xpos) || std::holds_alternative<PopeSpec>(spec) || std::holds_alternative<FopeSpec>(spec);
}

bool HasScheduleOfItsOwn(const EncodingSpec& spec) {
  const RopeSpec* rope = Rope(spec);
  if (rope == nullptr) return false;
  const auto& schedule = rope->schedule;
  return !(std::holds_alternative<DefaultSchedule>(schedule) || std::holds_alternative<LinearSchedule>(schedule) ||
           std::holds_alternative<DynamicNtkSchedule>(schedule) || std::holds_alternative<YarnSchedule>(schedule) ||
           std::holds_alternative<Llama3Schedule>(schedule) || std::holds_alternative<LongRopeSchedule>(schedule));
}

bool IsBiasOfItsOwn(const EncodingSpec& spec) {
  const AlibiSpec* alibi = std::get_if<AlibiSpec>(&spec);
  if (alibi != nullptr) return alibi->form != AlibiForm::kCausal;
  return std::holds_alternative<KerpleSpec>(spec) || std::holds_alternative<SandwichSpec>(spec) ||
         std::holds_alternative<FireSpec>(spec) || std::holds_alternative<DynamicPositionBiasSpec>(spec) ||
         std::holds_alternative<ForgettingBiasSpec>(spec) || std::holds_alternative<TupeSpec>(spec);
}

bool NeedsQueriesAndKeys(const EncodingSpec& spec) {
  return std::holds_alternative<ForgettingBiasSpec>(spec) || std::holds_alternative<CopeSpec>(spec);
}

bool FollowsTheLength(const EncodingSpec& spec) { return SchemeOf(spec).needs_sequence_length; }

constexpr TargetRow kTargetRules[] = {
    {"onnx.pairing", SetOf(Target::kOnnx), &WritesOtherPairs,
     "RotaryEmbedding (opset 23) writes pairs where it reads them, half-split or interleaved. Permute the rows of W_Q and "
     "W_K, and "
     "take half-split."},
    {"onnx.channels", SetOf(Target::kOnnx), &ScalesChannels,
     "RotaryEmbedding (opset 23) turns pairs and does nothing else: factors that queries and keys do not share, softplus "
     "and mixed "
     "frequencies have no place in it."},
    {"tensorrt.schedule", SetOf(Target::kTensorRt), &HasScheduleOfItsOwn,
     "TensorRT-LLM knows the schedules none, linear, dynamic, yarn, llama3, longrope and mrope."},
    {"tensorrt.channels", SetOf(Target::kTensorRt), &ScalesChannels,
     "TensorRT-LLM's attention turns pairs and does nothing else."},
    {"tensorrt.bias", SetOf(Target::kTensorRt), &IsBiasOfItsOwn,
     "TensorRT-LLM's attention has causal ALiBi and T5's relative bias, and takes no other."},
    {"npu.length", SetOf(Target::kNpu), &FollowsTheLength,
     "A graph with fixed shapes has one table: numbers that follow the length do not fit."},
    {"npu.content", SetOf(Target::kNpu), &NeedsQueriesAndKeys,
     "The bias comes from the activations: it is no table that could be an input."},
};

// ---- contradictions

constexpr ContradictionRow kContradictions[] = {
    {.rule = "npu.content",
     .when = {.start = Start::kExisting, .targets = SetOf(Target::kNpu), .currents = SetOf(CurrentKind::kDataBias)},
     .text =
         "What the model has depends on its activations, and this target takes tables only. Give up the target, or train "
         "another encoding (tuning full)."},
    {.rule = "none.learned",
     .when = {.start = Start::kExisting, .tunings = kUntuned, .currents = SetOf(CurrentKind::kLearned), .above_ratio = 1},
     .text =
         "The learned table has no trained row beyond {trained}, and nothing makes one without training. Give up {wanted} "
         "tokens, or allow a tuning: short, with a resized table, or full, with another scheme."},
    {.rule = "none.absolute",
     .when = {.start = Start::kExisting,
              .tunings = kUntuned,
              .currents = SetOf(CurrentKind::kSinusoidal, CurrentKind::kGrid),
              .above_ratio = 1},
     .text =
         "The formula has rows beyond {trained}, but the weights have never seen them. Give up {wanted} tokens, or allow a "
         "short tuning at that length."},
    {.rule = "none.rope_far",
     .when = {.start = Start::kExisting, .tunings = kUntuned, .currents = kRope, .above_ratio = 8},
     .text =
         "{wanted} tokens are {ratio} times the trained length; no schedule carries a rotation further than about 8 times "
         "without tuning. Give up tuning none (short will do up to 64 times), or stay at {eight_times} tokens."},
    {.rule = "none.scaled",
     .when = {.start = Start::kExisting,
              .tunings = kUntuned,
              .currents = SetOf(CurrentKind::kYarn, CurrentKind::kLlama3, CurrentKind::kLinear, CurrentKind::kDynamicNtk,
                                CurrentKind::kOtherRope),
              .above_ratio = 1},
     .text = "The rotation is scaled already, and its weights know that scaling: another factor of {ratio} needs a tuning. "
             "Give up "
             "{wanted} tokens, or allow a short tuning."},
    {.rule = "short.rope_far",
     .when = {.start = Start::kExisting, .tunings = kTunedShortly, .currents = kRope, .above_ratio = 64},
     .text = "{wanted} tokens are {ratio} times the trained length, too far for one short tuning. Lengthen in stages, each "
             "with the "
             "last one's spec as current, or train fully."},
    {.rule = "short.scaled_far",
     .when = {.start = Start::kExisting,
              .tunings = kTunedShortly,
              .currents = SetOf(CurrentKind::kYarn, CurrentKind::kLlama3, CurrentKind::kLinear, CurrentKind::kDynamicNtk),
              .above_ratio = 1},
     .text = "The rotation is scaled already: a further factor of {ratio} is too far for one short tuning. Lengthen in "
             "stages, or "
             "start from the plain rotation and its own trained length."},
    {.rule = "short.other_schedule",
     .when =
         {.start = Start::kExisting, .tunings = kTunedShortly, .currents = SetOf(CurrentKind::kOtherRope), .above_ratio = 1},
     .text = "Frequencies of this schedule were made for one length and have no factor to raise. Give the plain rotation "
             "that it was "
             "made from as current, with the length that one was trained on; or stay at {trained} tokens."},
    {.rule = "short.learned_far",
     .when =
         {.start = Start::kExisting, .tunings = kTunedShortly, .currents = SetOf(CurrentKind::kLearned), .above_ratio = 8},
     .text = "A table stretched {ratio} times has that many rows where one was trained: too far for a short tuning. Give up "
             "{wanted} "
             "tokens, or train another scheme (tuning full)."},
    {.rule = "no.rule",
     .when = {.above_ratio = 1},
     .text =
         "Nothing is known that carries this encoding from {trained} to {wanted} positions with these wishes. Give up the "
         "length, the target, or the encoding (tuning full)."},
    {.rule = "no.target",
     .when = {},
     .text =
         "Nothing that the other wishes leave can be made or run here; what was left out says why. Give up the target, or "
         "change the encoding (tuning full)."},
};

}  // namespace

std::span<const ExclusionRow> Exclusions() { return kExclusions; }
std::span<const TargetRow> TargetRules() { return kTargetRules; }
std::span<const ContradictionRow> Contradictions() { return kContradictions; }

std::optional<EncodingSpec> UsualEncoding(const Wishes& wishes) {
  EncodingSpec usual;
  const int64_t dim = wishes.head_dim * wishes.num_heads;
  if (wishes.task == Task::kEncoder || wishes.task == Task::kVision) {
    auto& learned = usual.emplace<LearnedSpec>();
    learned.num_positions = wishes.trained_length;
    learned.dim = dim;
  } else if (wishes.task == Task::kSpeech || wishes.task == Task::kTimeSeries) {
    usual.emplace<SinusoidalSpec>().dim = dim;
  } else {
    usual.emplace<RopeSpec>().head_dim = wishes.head_dim / 2 * 2;
  }
  const auto canonical = Canonicalize(usual);
  if (!canonical.ok()) return std::nullopt;
  return canonical->spec;
}

}  // namespace phasor::server
