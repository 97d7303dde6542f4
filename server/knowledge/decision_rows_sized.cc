// Rows for models that are there and whose encoding has a size: tables, grids and windows.
#include "server/knowledge/decision_table.h"
#include "server/knowledge/spec_recipes.h"

namespace phasor::server {
namespace {

constexpr Bits kTunedShortly = SetOf(Tuning::kShort);
constexpr Bits kNotFromTheBeginning = SetOf(Tuning::kNone, Tuning::kShort);
constexpr Bits kVision = SetOf(Task::kVision);
constexpr Bits kNotVision = kAll & ~kVision;

constexpr std::string_view kLossByPosition =
    "Plot the loss by position up to {wanted}: a step at {trained} says that the longer part is not used.";

constexpr ChoiceRow kRows[] = {
    {.rule = "tune.sinusoidal",
     .when = {.start = Start::kExisting,
              .tunings = kTunedShortly,
              .currents = SetOf(CurrentKind::kSinusoidal),
              .above_ratio = 1},
     .make = &recipes::Keep,
     .reasons =
         {"Rows come from a formula, so there are rows beyond {trained}; the weights have not seen them, which the tuning "
          "makes up for.",
          "{longer_than_trained} of {pairs} pairs have wavelengths above {trained}: their phases beyond it are new."},
     .checks = {kLossByPosition,
                "Padding rows and offsets stay as they are: compare row 0 and row {trained} with the model's own."}},
    {.rule = "resize.rows",
     .when = {.start = Start::kExisting,
              .tasks = kNotVision,
              .tunings = kTunedShortly,
              .currents = SetOf(CurrentKind::kLearned),
              .above_ratio = 1,
              .up_to_ratio = 8},
     .make = &recipes::MoreRows,
     .reasons =
         {"The table ends at {trained}: resize it to {wanted} positions (Apply, resize), which puts {ratio} new rows where "
          "one was, and tune.",
          "Neighbours become alike by the same factor; the tuning has to pull them apart.",
          "The table takes {table_bytes}."},
     .checks = {"Rows that are no positions (offset, padding, class token) must be kept out of the resizing.",
                kLossByPosition}},
    {.rule = "resize.image",
     .when = {.start = Start::kExisting,
              .tasks = kVision,
              .tunings = kNotFromTheBeginning,
              .currents = SetOf(CurrentKind::kLearned),
              .above_ratio = 1,
              .up_to_ratio = 16},
     .make = &recipes::MoreRows,
     .reasons = {"The table is a picture of the grid: resize it as one (Apply, resize, bicubic) to the {wanted} patches of "
                 "the larger "
                 "image, class token kept apart.",
                 "The table takes {table_bytes}."},
     .checks = {"Give the size, not a scale factor: rounding one makes some sizes a row short.",
                "antialias and align_corners must be those of the model's library."}},
    {.rule = "resize.grid",
     .when = {.start = Start::kExisting,
              .tasks = kVision,
              .tunings = kNotFromTheBeginning,
              .currents = SetOf(CurrentKind::kGrid),
              .above_ratio = 1,
              .up_to_ratio = 16},
     .make = &recipes::LargerGrid,
     .reasons =
         {"The formula makes the larger grid, {height} by {width}; coordinates are scaled so that the edges stay where "
          "training had them."},
     .checks = {"The first half of the columns is the width in most libraries, whatever the variable is called."}},
    {.rule = "resize.window",
     .when = {.start = Start::kExisting,
              .tasks = kVision,
              .tunings = kNotFromTheBeginning,
              .currents = SetOf(CurrentKind::kWindow),
              .above_ratio = 1,
              .up_to_ratio = 16},
     .make = &recipes::LargerWindow,
     .reasons =
         {"The table has a row for every offset: resize each head's [2h − 1, 2w − 1] bicubically to a window of {height} by "
          "{width}, and never the bias matrix itself, which would no longer depend on offsets only."},
     .checks = {"The three rows of a class token are last and are not resized."}},
    {.rule = "slow.grid_rope",
     .when = {.start = Start::kExisting,
              .tasks = kVision,
              .tunings = kNotFromTheBeginning,
              .currents = SetOf(CurrentKind::kGridRope),
              .above_ratio = 1,
              .up_to_ratio = 16},
     .make = &recipes::SlowerGridRope,
     .reasons =
         {"Each side grows by {factor}, the root of {ratio}: dividing both coordinates by it keeps them in the range of "
          "training."},
     .checks = {"Where the model's coordinates are relative to the image already (−1 … 1), keep its encoding instead.",
                "Compare with the undivided coordinates: objects keep their size in patches only there."}},
};

}  // namespace

std::span<const ChoiceRow> RowsForTablesAndWindows() { return kRows; }

}  // namespace phasor::server
