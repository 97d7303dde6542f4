// Rows for models that are there: what carries them from the trained to the wanted length.
#include "server/knowledge/decision_table.h"
#include "server/knowledge/spec_recipes.h"

namespace phasor::server {
namespace {

constexpr Bits kUntuned = SetOf(Tuning::kNone);
constexpr Bits kTunedShortly = SetOf(Tuning::kShort);
constexpr Bits kVision = SetOf(Task::kVision);
constexpr Bits kNotVision = kAll & ~kVision;
constexpr Bits kGenerates = SetOf(Task::kLanguageModel);
constexpr Bits kRope = SetOf(CurrentKind::kRope);

constexpr std::string_view kCompareAtTrained =
    "Measure the loss at {trained} tokens before and after: what is lost there is the price of the schedule.";
constexpr std::string_view kLossByPosition =
    "Plot the loss by position up to {wanted}: a step at {trained} says that the schedule or the original length was not "
    "read.";
constexpr std::string_view kAllLayers =
    "Every layer of one type must have the new schedule, and no layer of a type that keeps the old one (Compare shows "
    "both).";

constexpr ChoiceRow kRows[] = {
    {.rule = "keep.covered",
     .when = {.start = Start::kCurrent, .up_to_ratio = 1},
     .make = &recipes::Keep,
     .reasons =
         {"{wanted} tokens are not more than the {trained} of training: every position that occurs was seen, so there is "
          "nothing to change."},
     .checks =
         {"Compare a table made from this spec with the model's own: the same bits mean that its configuration was read "
          "right."}},

    // ---- what goes on by itself
    {.rule = "keep.dynamic_ntk",
     .when = {.start = Start::kExisting, .currents = SetOf(CurrentKind::kDynamicNtk), .above_ratio = 1, .up_to_ratio = 4},
     .make = &recipes::Keep,
     .reasons =
         {"The base follows the length by itself: at {wanted} tokens it is {effective_base}, and nothing is changed up to "
          "{max_position}.",
          "At {wanted} tokens {unseen} of {pairs} pairs meet phases that they did not meet in training."},
     .checks =
         {"Keys that are cached carry the base of the length at which they were made: give sequence_length = {wanted} from "
          "the first token, or rotate cached keys anew.",
          kLossByPosition}},
    {.rule = "keep.alibi",
     .when = {.start = Start::kExisting, .currents = SetOf(CurrentKind::kAlibi), .above_ratio = 1},
     .make = &recipes::Keep,
     .reasons =
         {"The bias is a straight line of the distance: it goes on beyond {trained} without a new parameter.",
          "It mostly stops attending far away: the steepest head takes 7 off a score after {steep_reach} tokens, the "
          "flattest after {flat_reach}, a factor of about 1/1100. A longer text is read; its far part hardly counts."},
     .checks = {"Ask for something that only the first tokens say, from {wanted} tokens away: the loss alone does not show "
                "whether they are read."}},
    {.rule = "keep.by_distance",
     .when = {.start = Start::kExisting, .currents = SetOf(CurrentKind::kDistanceBias), .above_ratio = 1},
     .make = &recipes::Keep,
     .reasons =
         {"Scores depend on the distance, and every distance has a value, also beyond {trained}: buckets and clips give "
          "all far ones the same, formulas go on.",
          "Far distances that share a value cannot be told apart: order is known nearby only."},
     .checks = {"Ask for something that depends on the order of two far passages.", kLossByPosition}},
    {.rule = "keep.by_content",
     .when = {.start = Start::kExisting, .currents = SetOf(CurrentKind::kDataBias), .above_ratio = 1},
     .make = &recipes::Keep,
     .reasons = {"The bias comes from the activations and has no table that ends at {trained}."},
     .checks = {kLossByPosition}},

    // ---- a plain rotation, weights as they are
    {.rule = "extend.dynamic_ntk",
     .when = {.start = Start::kExisting,
              .tasks = kNotVision & ~kGenerates,
              .tunings = kUntuned,
              .currents = kRope,
              .above_ratio = 1,
              .up_to_ratio = 4},
     .make = &recipes::DynamicNtk,
     .reasons =
         {"Inputs of up to {trained} tokens keep their numbers to the bit; the base grows with the length of longer ones, "
          "to "
          "{effective_base} at {wanted}.",
          "factor {factor} is the smallest (to 0.01) with which no pair meets a phase at {wanted} that it did not meet in "
          "training: {unseen} of {pairs}, unchanged it would be {unseen_unchanged}.",
          "Whole inputs are encoded at once, so no cached key has an older base."},
     .checks = {"Give each batch its own sequence_length, or short inputs beside a long one change their numbers.",
                kLossByPosition}},
    {.rule = "extend.yarn",
     .when = {.start = Start::kExisting,
              .tasks = kNotVision,
              .tunings = kUntuned,
              .currents = kRope,
              .above_ratio = 1,
              .up_to_ratio = 8},
     .make = &recipes::Yarn,
     .reasons =
         {"Fast pairs keep their frequency, pairs that did not come round in {trained} tokens are divided by {factor}: "
          "{unseen} of {pairs} meet unseen phases at {wanted}, unchanged it would be {unseen_unchanged}.",
          "{slowed_percent} % of the pairs turn slower than in training, so the numbers change at every length, short ones "
          "included; cos and sin are multiplied by {A}.",
          "One table for all lengths: cached keys stay valid."},
     .checks = {kCompareAtTrained, kLossByPosition, kAllLayers,
                "A short tuning at {wanted} tokens is what the schedule was made for; without it expect less the nearer "
                "{ratio} is "
                "to 8."}},
    {.rule = "extend.dynamic_ntk_cached",
     .when = {.start = Start::kExisting,
              .tasks = kGenerates,
              .tunings = kUntuned,
              .currents = kRope,
              .above_ratio = 1,
              .up_to_ratio = 4},
     .make = &recipes::DynamicNtk,
     .reasons =
         {"Sequences of up to {trained} tokens keep their numbers to the bit; the base grows with the length of longer "
          "ones, "
          "to {effective_base} at {wanted}.",
          "factor {factor} is the smallest (to 0.01) with which no pair meets a phase at {wanted} that it did not meet in "
          "training: {unseen} of {pairs}, unchanged it would be {unseen_unchanged}.",
          "It costs the cache of keys: whatever was cached at a smaller length has another base, and has to be rotated anew "
          "or made again."},
     .checks =
         {"All keys of a sequence on one base: choose sequence_length when it is admitted and keep it, or apply rerotate.",
          kLossByPosition}},

    // ---- a plain rotation and a short tuning
    {.rule = "tune.yarn",
     .when = {.start = Start::kExisting,
              .tasks = kNotVision,
              .tunings = kTunedShortly,
              .currents = kRope,
              .above_ratio = 1,
              .up_to_ratio = 64},
     .make = &recipes::Yarn,
     .reasons =
         {"Fast pairs, which tell neighbours apart, keep their frequency; pairs that did not come round in {trained} tokens "
          "are divided by {factor}: {unseen} of {pairs} meet unseen phases at {wanted}, unchanged it would be "
          "{unseen_unchanged}.",
          "{slowed_percent} % of the pairs turn slower than before; cos and sin are multiplied by {A}, which the tuning and "
          "every later use must share.",
          "One table for all lengths: cached keys stay valid."},
     .checks = {kCompareAtTrained, kLossByPosition, kAllLayers,
                "Libraries disagree on original_max_position and on attention_factor: compare a table of the deployed one "
                "with this "
                "spec."}},
    {.rule = "tune.larger_base",
     .when = {.start = Start::kExisting,
              .tasks = kNotVision,
              .tunings = kTunedShortly,
              .currents = kRope,
              .above_ratio = 1,
              .up_to_ratio = 64},
     .make = &recipes::LargerBase,
     .reasons =
         {"A plain rotation with a base of {base} in place of {old_base}: every library and every kernel has it.",
          "{unseen} of {pairs} pairs meet unseen phases at {wanted}, unchanged it would be {unseen_unchanged}; the longest "
          "wavelength becomes {longest} positions.",
          "{slowed_percent} % of the pairs turn slower than before, those in the middle too, so the tuning has more to "
          "learn "
          "than with YaRN."},
     .checks = {kCompareAtTrained, kLossByPosition,
                "rope_theta must be read by whatever serves the model: a reader that falls back to 10000 gives no error."}},
    {.rule = "tune.llama3",
     .when = {.start = Start::kExisting,
              .tasks = kNotVision,
              .tunings = kTunedShortly,
              .currents = kRope,
              .above_ratio = 1,
              .up_to_ratio = 32},
     .make = &recipes::Llama3,
     .reasons =
         {"Wavelengths below {trained}/4 stay, those above {trained} are divided by {factor}, and cos and sin keep their "
          "size: {unseen} of {pairs} pairs meet unseen phases at {wanted}, unchanged it would be {unseen_unchanged}.",
          "{slowed_percent} % of the pairs turn slower than before."},
     .checks = {kCompareAtTrained, kLossByPosition,
                "GGUF stores divisors of frequencies, others frequencies: compare tables."}},
    {.rule = "tune.linear",
     .when = {.start = Start::kExisting,
              .tasks = kNotVision,
              .tunings = kTunedShortly,
              .currents = kRope,
              .above_ratio = 1,
              .up_to_ratio = 8},
     .make = &recipes::Linear,
     .reasons =
         {"Positions are divided by {factor}: {unseen} of {pairs} pairs meet unseen phases, and every kernel can do it.",
          "{slowed_percent} % of the pairs turn slower, the fastest too: neighbours differ by {neighbour} radians where "
          "they differed by 1, and the tuning must learn to read that."},
     .checks = {kCompareAtTrained, kLossByPosition}},

    // ---- a rotation that is scaled already
    {.rule = "more.yarn_untuned",
     .when = {.start = Start::kExisting,
              .tunings = kUntuned,
              .currents = SetOf(CurrentKind::kYarn),
              .above_ratio = 1,
              .up_to_ratio = 2},
     .make = &recipes::MoreYarn,
     .reasons =
         {"The schedule is YaRN's already: factor {factor} over the same original length, {slowed_percent} % of the pairs "
          "slower than the model knows them.",
          "cos and sin are multiplied by {A}, which is not what the weights were tuned with either."},
     .checks = {kCompareAtTrained, kLossByPosition}},
    {.rule = "more.yarn",
     .when = {.start = Start::kExisting,
              .tunings = kTunedShortly,
              .currents = SetOf(CurrentKind::kYarn),
              .above_ratio = 1,
              .up_to_ratio = 8},
     .make = &recipes::MoreYarn,
     .reasons =
         {"The schedule is YaRN's already: factor {factor} over the same original length, so that fast pairs stay as they "
          "are; {slowed_percent} % of the pairs turn slower than before, and cos and sin are multiplied by {A}."},
     .checks = {kCompareAtTrained, kLossByPosition}},
    {.rule = "more.llama3",
     .when = {.start = Start::kExisting,
              .tunings = kTunedShortly,
              .currents = SetOf(CurrentKind::kLlama3),
              .above_ratio = 1,
              .up_to_ratio = 8},
     .make = &recipes::MoreLlama3,
     .reasons =
         {"The bands are Llama 3's already: factor {factor} over the same original length; {slowed_percent} % of the pairs "
          "turn slower than before."},
     .checks = {kCompareAtTrained, kLossByPosition}},
    {.rule = "more.linear",
     .when = {.start = Start::kExisting,
              .tunings = kTunedShortly,
              .currents = SetOf(CurrentKind::kLinear),
              .above_ratio = 1,
              .up_to_ratio = 8},
     .make = &recipes::MoreLinear,
     .reasons =
         {"Positions are divided already: by {factor} from now on, so that neighbours differ by {neighbour} radians in the "
          "fastest pair."},
     .checks = {kCompareAtTrained, kLossByPosition}},
};

}  // namespace

std::span<const ChoiceRow> RowsForExistingModels() { return kRows; }

}  // namespace phasor::server
