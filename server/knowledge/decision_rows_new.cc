// Rows for models that are trained from the beginning.
#include "server/knowledge/decision_table.h"
#include "server/knowledge/spec_recipes.h"

namespace phasor::server {
namespace {

constexpr Bits kLanguage = SetOf(Task::kLanguageModel);
constexpr Bits kEncoder = SetOf(Task::kEncoder);
constexpr Bits kRetrieval = SetOf(Task::kRetrieval);
constexpr Bits kVision = SetOf(Task::kVision);
constexpr Bits kSpeech = SetOf(Task::kSpeech);
constexpr Bits kSeries = SetOf(Task::kTimeSeries);
// Longest context in which every layer with positions is still the rule.
constexpr int64_t kVeryLong = int64_t{1} << 18;

constexpr std::string_view kBase =
    "The longest wavelength, {longest} positions, reaches the {wanted} tokens: a base of {smallest_base} would just do, "
    "{base} is "
    "the next round one. {longer_than_wanted} of {pairs} pairs do not come round within them.";
constexpr std::string_view kNoWeights =
    "No weights, no end: a table of {wanted} positions takes {table_bytes} and serves all layers.";
constexpr std::string_view kFullPrecisionPhases =
    "Phases in float64 or exact, whatever the model's type: positions in bf16 are wrong from 257 on.";
constexpr std::string_view kOnePairing = "One pairing (half-split here) in training and in every kernel that serves it.";

constexpr ChoiceRow kRows[] = {
    // ---- language models
    {.rule = "new.lm.rope",
     .when = {.start = Start::kNew, .tasks = kLanguage, .up_to_ratio = 1, .head = HeadWidth::kPairs},
     .make = &recipes::RopeForLength,
     .reasons =
         {kBase, kNoWeights,
          "Scores depend on distances, cached keys stay valid, and schedules that lengthen the context later are known for "
          "it alone."},
     .checks = {kFullPrecisionPhases, kOnePairing,
                "Larger bases are usual where the context is to grow later (500000 for 8192 tokens in Llama 3)."}},
    {.rule = "new.lm.rope_longer",
     .when = {.start = Start::kNew, .tasks = kLanguage, .above_ratio = 1, .head = HeadWidth::kPairs},
     .make = &recipes::RopeForLength,
     .reasons =
         {kBase,
          "{unseen} of {pairs} pairs meet phases beyond {trained} tokens that training at {trained} does not show: end the "
          "training with a stage at {wanted}.",
          kNoWeights},
     .checks = {"Plot the loss by position up to {wanted} before and after that last stage.", kFullPrecisionPhases,
                kOnePairing}},
    {.rule = "new.lm.rope_and_none",
     .when =
         {.start = Start::kNew, .tasks = kLanguage, .above_ratio = 1, .min_wanted = kVeryLong, .head = HeadWidth::kPairs},
     .make = &recipes::RopeForLength,
     .reasons =
         {"Every fourth layer without positions, the others rotate, mostly over a window or chunk: layers without positions "
          "have no phase that a longer text could leave.",
          "The rotating layers need no more than this table: {table_bytes} at {wanted} tokens, less where they see a "
          "window."},
     .checks =
         {"Say which layers have none: lists named no_rope_layers hold 1 where RoPE is used in some libraries.",
          "Scale queries of layers without positions by the position (1 + 0.1·ln(1 + floor((m + 1)/8192)) in Llama 4), as "
          "their softmax flattens with the length."}},
    {.rule = "new.lm.alibi_longer",
     .when = {.start = Start::kNew, .tasks = kLanguage, .above_ratio = 1},
     .make = &recipes::Alibi,
     .reasons = {"The only one of these that needs no stage at {wanted} tokens: a straight line of the distance goes on.",
                 "It mostly stops attending far away: the steepest head takes 7 off a score after {steep_reach} tokens, the "
                 "flattest "
                 "after {flat_reach}, a factor of about 1/1100. What is further hardly counts.",
                 "A full bias would take {full_bytes}, a vector by distance {vector_bytes}."},
     .checks = {"Ask for something that only the first tokens say, from {wanted} tokens away.",
                "Slopes from the model's head count, not from a rank's share of it."}},
    {.rule = "new.lm.alibi",
     .when = {.start = Start::kNew, .tasks = kLanguage, .up_to_ratio = 1},
     .make = &recipes::Alibi,
     .reasons =
         {"No phases and no weights, and texts beyond {wanted} tokens work as far as the flattest head reaches: it takes 7 "
          "off a score after {flat_reach} tokens, the steepest after {steep_reach}.",
          "A full bias would take {full_bytes}, a vector by distance {vector_bytes}."},
     .checks = {"The kernel adds the bias itself, or the full one has to be held.",
                "Slopes from the model's head count, not from a rank's share of it."}},

    // ---- encoders
    {.rule = "new.encoder.rope",
     .when = {.start = Start::kNew, .tasks = kEncoder, .head = HeadWidth::kPairs},
     .make = &recipes::RopeForLength,
     .reasons = {kBase, kNoWeights,
                 "{unseen} of {pairs} pairs meet phases that training at {trained} tokens does not show."},
     .checks = {kFullPrecisionPhases, kOnePairing,
                "With local layers, give them a base of their own (ModernBERT: 10000 local, 160000 global)."}},
    {.rule = "new.encoder.t5_bucket",
     .when = {.start = Start::kNew, .tasks = kEncoder},
     .make = &recipes::TwoSidedBuckets,
     .reasons = {"A learned bias by distance to both sides, {bucket_rows} rows per head: distances from {last_bucket} on "
                 "share one.",
                 "A full bias would take {full_bytes}, a vector by distance {vector_bytes}."},
     .checks = {"Upload the trained table with the spec; without it there are only bucket numbers.",
                "Bucket of key − query, both directions, no bias in cross-attention."}},
    {.rule = "new.encoder.learned",
     .when = {.start = Start::kNew, .tasks = kEncoder, .up_to_ratio = 1, .max_wanted = 4096},
     .make = &recipes::LearnedRows,
     .reasons = {"A row per position, added once: {rows} rows take {table_bytes}, and any kernel serves it.",
                 "It ends at {wanted}: longer texts need a resized table and a tuning."},
     .checks = {"Offsets of some libraries (2, or padding index + 1) need as many more rows.",
                "Left padding shifts positions: count unpadded tokens."}},

    // ---- one vector per text
    {.rule = "new.retrieval.rope",
     .when = {.start = Start::kNew, .tasks = kRetrieval, .head = HeadWidth::kPairs},
     .make = &recipes::RopeForLength,
     .reasons = {kBase, kNoWeights,
                 "{unseen} of {pairs} pairs meet phases that training at {trained} tokens does not show."},
     .checks = {"Compare the vectors of a text alone and in a padded batch: they must be equal.", kFullPrecisionPhases,
                kOnePairing}},
    {.rule = "new.retrieval.alibi",
     .when = {.start = Start::kNew, .tasks = kRetrieval},
     .make = &recipes::SymmetricAlibi,
     .reasons =
         {"−slope·|distance| to both sides: no weights, no phase beyond {trained} that was not seen.",
          "It mostly attends nearby: the flattest head takes 7 off a score after {flat_reach} tokens, so far passages meet "
          "in the pooling and not in attention.",
          "A full bias would take {full_bytes}, a vector by distance {vector_bytes}."},
     .checks = {"The symmetric form, or keys after the query are rewarded.",
                "Compare the vectors of a text alone and in a padded batch: they must be equal."}},
    {.rule = "new.retrieval.learned",
     .when = {.start = Start::kNew, .tasks = kRetrieval, .up_to_ratio = 1, .max_wanted = 512},
     .make = &recipes::LearnedRows,
     .reasons = {"For texts of up to {wanted} tokens a row per position does: {rows} rows take {table_bytes}.",
                 "It ends there: longer documents have to be cut."},
     .checks = {"Offsets of some libraries (2, or padding index + 1) need as many more rows."}},

    // ---- images
    {.rule = "new.vision.rope",
     .when = {.start = Start::kNew, .tasks = kVision, .head = HeadWidth::kTwoAxes},
     .make = &recipes::GridRope,
     .reasons = {"Half of the pairs turn with the row, half with the column, each with frequencies of its own: patches meet "
                 "by their "
                 "offset, and any image size has positions.",
                 "A grid of {height} by {width} covers {wanted} patches; a table by position takes {table_bytes}."},
     .checks = {"Ids are rows and columns in the order in which patches stand, class and register tokens unturned.",
                "Which half is the row differs between libraries: compare tables."}},
    {.rule = "new.vision.grid_sinusoidal",
     .when = {.start = Start::kNew, .tasks = kVision},
     .make = &recipes::GridSinusoids,
     .reasons = {"Added once to the patches, no weights: {height} by {width} rows of {dim} columns take {table_bytes}.",
                 "Attention kernels need to know nothing of it."},
     .checks = {"The first half of the columns is the width in most libraries, whatever the variable is called.",
                "A class token has a row of zeros before the grid (extra_rows)."}},
    {.rule = "new.vision.window",
     .when = {.start = Start::kNew, .tasks = kVision, .max_wanted = 4096},
     .make = &recipes::Window,
     .reasons =
         {"For attention inside windows of {height} by {width}: a learned row for each of {window_rows} offsets per head.",
          "The full bias of a window takes {full_bytes} and serves every window."},
     .checks = {"Upload the trained table with the spec; without it there are only indices.",
                "Another window needs a resized table, each head's [2h − 1, 2w − 1] by itself."}},
    {.rule = "new.vision.learned",
     .when = {.start = Start::kNew, .tasks = kVision, .up_to_ratio = 1, .max_wanted = 4096},
     .make = &recipes::LearnedRows,
     .reasons = {"A row per patch, added once: {rows} rows take {table_bytes}.",
                 "Other image sizes need a resized table (bicubic, by size)."},
     .checks = {"A class token needs a row more, kept apart when the table is resized."}},

    // ---- sound
    {.rule = "new.speech.sinusoidal",
     .when = {.start = Start::kNew, .tasks = kSpeech},
     .make = &recipes::SpeechSinusoids,
     .reasons = {"Added once to the frames, as Whisper's encoder has it: sines, then cosines, frequencies down to exactly "
                 "1/{base}.",
                 "A table of {wanted} frames takes {table_bytes}; its longest wavelength is {longest} frames."},
     .checks = {"The spacing ends at 1/base, which differs from the paper's in every pair but the first.",
                "Tables made in float32 are up to 1e-4 off: compare with what the model was trained with."}},
    {.rule = "new.speech.rope",
     .when = {.start = Start::kNew, .tasks = kSpeech, .head = HeadWidth::kPairs},
     .make = &recipes::RopeForLength,
     .reasons = {kBase, kNoWeights},
     .checks = {kFullPrecisionPhases, kOnePairing}},

    // ---- sampled values
    {.rule = "new.series.rope",
     .when = {.start = Start::kNew, .tasks = kSeries, .head = HeadWidth::kPairs},
     .make = &recipes::RopeForLength,
     .reasons =
         {kBase,
          "Positions may be fractional: give times in units of the usual step, and gaps and uneven sampling are said by the "
          "numbers themselves."},
     .checks = {"Shift all times by a constant: results must not change.", kFullPrecisionPhases, kOnePairing}},
    {.rule = "new.series.sinusoidal",
     .when = {.start = Start::kNew, .tasks = kSeries},
     .make = &recipes::Sinusoids,
     .reasons = {"Added once to the values, by the index: a table of {wanted} rows takes {table_bytes}.",
                 "{longer_than_wanted} of {pairs} pairs do not come round within {wanted} steps; the longest wavelength is "
                 "{longest}."},
     .checks = {"A window that slides over a series starts at position 0 each time, or absolute positions leak into the "
                "weights."}},
    {.rule = "new.series.alibi",
     .when = {.start = Start::kNew, .tasks = kSeries},
     .make = &recipes::Alibi,
     .reasons =
         {"What is recent counts more, by a straight line of the distance: the steepest head takes 7 off a score after "
          "{steep_reach} steps, the flattest after {flat_reach}.",
          "Periods longer than that are not seen by it; a full bias would take {full_bytes}, a vector {vector_bytes}."},
     .checks = {"Compare the flattest head's reach with the longest period in the data."}},

    // ---- a head with a channel too many
    {.rule = "new.rope_odd",
     .when = {.start = Start::kNew, .tasks = kLanguage | kEncoder | kRetrieval | kSpeech | kSeries, .head = HeadWidth::kOdd},
     .make = &recipes::RopeForLength,
     .reasons = {"{head_dim} channels are odd: {rotary_dim} of them rotate in {pairs} pairs, the last one has no partner "
                 "and passes "
                 "through.",
                 kBase},
     .checks = {"The kernel needs a rotary width of its own; exponents run over {rotary_dim}, not over {head_dim}."}},
};

}  // namespace

std::span<const ChoiceRow> RowsForNewModels() { return kRows; }

}  // namespace phasor::server
