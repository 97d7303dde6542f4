#include "server/knowledge/side.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/program/absolute_rows.h"
#include "kernels/program/window_bias.h"
#include "server/knowledge/learned_numbers.h"

namespace phasor::server {
namespace {

constexpr std::string_view kComparable =
    "a scheme with numbers of its own: tables, rotations and biases. Scores of the same q and k under both are what to "
    "compare "
    "(PositionService.Scores, `phasor scores`)";

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// The same error below "spec."; "sequence_length" is no part of it.
absl::Status InSpec(const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  if (!error || error->field == "sequence_length") return status;
  return MakeSpecError(error->field.empty() ? "spec" : absl::StrCat("spec.", error->field), error->given, error->allowed);
}

absl::Status FillRows(const EncodingSpec& canonical, const Plan& plan, Side* side) {
  if (AbsoluteAxes(canonical) > 1) {
    return MakeSpecError("spec", "an encoding of several coordinates", "one coordinate per position");
  }
  side->family = Family::kTable;
  side->columns = AbsoluteColumns(canonical);
  if (const auto* learned = std::get_if<LearnedSpec>(&canonical)) {
    if (!learned->table) {
      return MakeSpecError("spec.weights", "nothing", "the learned table: without it there are no numbers to look at");
    }
    side->rows = learned->num_positions - learned->position_offset.value_or(0);
  } else if (const auto* grid = std::get_if<GridPlan>(&plan)) {
    side->rows = grid->rows();
  } else if (const auto* fourier = std::get_if<FourierPlan>(&plan); fourier != nullptr && fourier->log) {
    side->first_row = 1;  // the logarithm of 0 is none
  }
  return absl::OkStatus();
}

void FillWindow(const EncodingSpec& spec, Side* side) {
  if (const auto* table = std::get_if<WindowBiasSpec>(&spec)) {
    side->window = TokenWindow{table->window_height, table->window_width, table->class_token};
  } else {
    const auto& continuous = std::get<ContinuousWindowBiasSpec>(spec);
    side->window = TokenWindow{continuous.window_height, continuous.window_width, false};
  }
  side->family = Family::kWindow;
  side->rows = side->window->table_rows();
}

absl::Status FillBias(const EncodingSpec& spec, const Plan& plan, Side* side) {
  side->family = Family::kBias;
  if (const std::optional<DistancePlan> bias = DistancePlanOf(plan)) {
    side->columns = VectorsOf(*bias);
    return absl::OkStatus();
  }
  const std::optional<BiasTraits> traits = TraitsOf(spec);
  if (std::holds_alternative<BucketPlan>(plan) || (traits && traits->indices_only)) {
    return MakeSpecError("spec.weights", "nothing", "the learned table: without it there are only row numbers");
  }
  if (!traits) {
    return MakeSpecError("spec", absl::StrCat(Absl(SchemeOf(spec).name), ", a term that is computed from queries and keys"),
                         kComparable);
  }
  side->columns = traits->heads;
  side->products_per_row = LearnedProducts(spec, 1, 1, false);
  if (const auto* window = std::get_if<ContinuousWindowBiasPlan>(&plan)) {
    side->products_per_row /= static_cast<double>(window->window.table_rows());
  }
  if (traits->tokens > 0) {
    FillWindow(spec, side);
    return absl::OkStatus();
  }
  if (traits->batch > 1) {
    return MakeSpecError("spec.weights", absl::StrCat("gates of ", traits->batch, " sequences"), "those of one");
  }
  side->by_query = !traits->by_distance;
  if (traits->query_rows > 0) side->rows = std::min(traits->query_rows, traits->key_rows);
  return absl::OkStatus();
}

absl::Status FillFromPlan(Side* side) {
  const EncodingSpec& spec = side->spec->spec;
  const Plan& plan = side->resolved->plan;
  if (const auto* rope = std::get_if<RopeSpec>(&spec)) {
    side->family = Family::kRotation;
    side->columns = std::get<AnglePlan>(plan).pairs();
    side->pairing = rope->pairing.value_or(Pairing::kHalfSplit);
    side->xpos = rope->xpos;
    return absl::OkStatus();
  }
  if (IsAbsolute(spec)) return FillRows(spec, plan, side);
  if (const auto* pope = std::get_if<PopeSpec>(&spec)) {
    if (pope->delta && pope->delta->elements() > kMaxPhases) {
      return MakeSpecError("spec.weights.delta", absl::StrCat(pope->delta->elements(), " numbers"),
                           absl::StrCat("up to ", kMaxPhases));
    }
    side->family = Family::kPolar;
    side->heads = pope->delta ? pope->delta->elements() / pope->head_dim : 1;
    side->columns = 2 * side->heads * pope->head_dim;
    return absl::OkStatus();
  }
  if (const auto* mixed = std::get_if<MixedAnglePlan>(&plan)) {
    if (mixed->heads * mixed->pairs > kMaxHeadPairs) {
      return MakeSpecError("spec", absl::StrCat(mixed->heads, " heads of ", mixed->pairs, " pairs"),
                           absl::StrCat("up to ", kMaxHeadPairs, " pairs of all heads"));
    }
    side->family = Family::kRotation;
    side->heads = mixed->heads;
    side->products_per_row = 2.0 * static_cast<double>(mixed->cos_coef->elements());
    side->columns = mixed->heads * mixed->pairs;
    side->pairing = Pairing::kHalfSplit;
    return absl::OkStatus();
  }
  return FillBias(spec, plan, side);
}

Grid Rounded(Grid grid, DType dtype) {
  if (dtype == DType::kF64) return grid;
  for (double& value : grid.values) value = RoundTo(dtype, value);
  return grid;
}

Grid Window(const Grid& grid, int64_t first, int64_t count) {
  if (grid.rows == 0) return {};
  const auto begin = grid.values.begin() + first * grid.columns;
  return {count, grid.columns, std::vector<double>(begin, begin + count * grid.columns)};
}

// Distances −(first + count − 1) … −first of every head, as rows 0, −1 … of distances.
Grid Transposed(const Grid& by_head) {
  Grid rows{by_head.columns, by_head.rows, std::vector<double>(by_head.values.size())};
  for (int64_t head = 0; head < by_head.rows; ++head) {
    for (int64_t d = 0; d < by_head.columns; ++d) rows.at(d, head) = by_head.at(head, by_head.columns - 1 - d);
  }
  return rows;
}

absl::StatusOr<Entries> Angular(absl::StatusOr<Angles> angles) {
  if (!angles.ok()) return angles.status();
  return Entries{std::move(angles->cos), std::move(angles->sin)};
}

absl::StatusOr<Entries> Compute(const Backend& backend, const Side& side, int64_t first, int64_t count, DType dtype) {
  const EncodingSpec& spec = side.spec->spec;
  const Plan& plan = side.resolved->plan;
  if (const auto* pope = std::get_if<PopeSpec>(&spec)) {
    return Angular(MakePolarAngles(backend, *pope, *side.angles(), first, count, dtype));
  }
  if (const auto* mixed = std::get_if<MixedAnglePlan>(&plan)) {
    return Angular(MakeMixedAngles(backend, *mixed, first, count, dtype));
  }
  if (side.family == Family::kRotation) return Angular(MakeAngles(backend, *side.angles(), first, count, dtype));
  if (side.family == Family::kTable) {
    auto rows = MakeRows(backend, spec, plan, first, count, dtype);
    if (!rows.ok()) return InSpec(rows.status());
    return Entries{*std::move(rows), {}};
  }
  if (side.family == Family::kWindow) {
    auto rows = MakeWindowRows(backend, spec, plan, first, count, dtype);
    if (!rows.ok()) return rows.status();
    return Entries{*std::move(rows), {}};
  }
  const auto values = side.by_query
                          ? MakeQueryRow(backend, spec, plan, side.query.value_or(first + count - 1), first, count, dtype)
                          : DistancesOf(backend, side, -(first + count - 1), count, dtype);
  if (!values.ok()) return values.status();
  return Entries{Transposed(*values), {}};
}

// [rows 0 … count − 1 of the query at `query`, heads] of [(heads,) queries, keys]; the last query stands at the last key.
Grid RowsOfMatrix(const InputTensor& tensor, int64_t query, int64_t count) {
  const int64_t heads = tensor.shape.size() == 3 ? tensor.shape[0] : 1;
  const int64_t keys = tensor.shape.back(), queries = tensor.shape[tensor.shape.size() - 2];
  const int64_t row = query - (keys - queries);
  if (row < 0 || row >= queries) return {};
  Grid rows{count, heads, std::vector<double>(static_cast<size_t>(count * heads))};
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t d = 0; d < count; ++d)
      rows.at(d, h) = tensor.values[static_cast<size_t>((h * queries + row) * keys + query - d)];
  }
  return rows;
}

// Columns over and over.
void Repeat(int64_t copies, Grid* grid) {
  if (copies == 1 || grid->rows == 0) return;
  Grid all{grid->rows, copies * grid->columns, {}};
  all.values.reserve(static_cast<size_t>(all.rows * all.columns));
  for (int64_t row = 0; row < grid->rows; ++row) {
    const auto begin = grid->values.begin() + row * grid->columns;
    for (int64_t copy = 0; copy < copies; ++copy) all.values.insert(all.values.end(), begin, begin + grid->columns);
  }
  *grid = std::move(all);
}

void Spread(int64_t copies, Side* side) {
  side->heads = side->copies = copies;
  side->columns *= copies;
}

}  // namespace

std::string_view Name(Family family) {
  constexpr std::array<std::string_view, 5> kNames{"a rotation", "a table of rows", "a bias by distance", "a polar rotation",
                                                   "a bias over a window"};
  return kNames[static_cast<size_t>(family)];
}

std::string_view ColumnName(Family family) {
  constexpr std::array<std::string_view, 5> kNames{"pair", "column", "head", "channel", "head"};
  return kNames[static_cast<size_t>(family)];
}

std::string_view RowName(Family family) {
  constexpr std::array<std::string_view, 5> kNames{"position", "position", "distance", "position", "offset"};
  return kNames[static_cast<size_t>(family)];
}

absl::StatusOr<Side> SideOfSpec(const CanonicalSpec& spec, std::optional<int64_t> sequence_length, Precision precision) {
  Side side;
  side.spec = spec;
  side.from_spec = true;
  auto resolved = Resolve(spec, sequence_length, precision);
  if (!resolved.ok()) return InSpec(resolved.status());
  side.resolved = *std::move(resolved);
  if (absl::Status status = FillFromPlan(&side); !status.ok()) return status;
  return side;
}

absl::StatusOr<Entries> EntriesOf(const Backend& backend, const Side& side, int64_t first, int64_t count, DType dtype) {
  if (first < side.first_row || count > side.rows - (first - side.first_row)) {
    return MakeSpecError(side.table_type ? "table" : "spec", absl::StrCat(first, " … ", first + count - 1),
                         absl::StrCat("rows ", side.first_row, " … ", side.first_row + side.rows - 1));
  }
  absl::StatusOr<Entries> entries = side.resolved
                                        ? Compute(backend, side, first, count, dtype)
                                        : Entries{Rounded(Window(side.given.first, first - side.first_row, count), dtype),
                                                  Rounded(Window(side.given.second, first - side.first_row, count), dtype)};
  if (!entries.ok()) return entries.status();
  Repeat(side.copies, &entries->first);
  Repeat(side.copies, &entries->second);
  return entries;
}

absl::StatusOr<Grid> DistancesOf(const Backend& backend, const Side& side, int64_t first, int64_t count, DType dtype) {
  if (const auto plan = DistancePlanOf(side.resolved->plan)) return MakeDistances(backend, *plan, first, count, dtype);
  return MakeLearnedDistances(backend, side.spec->spec, side.resolved->plan, first, count, dtype);
}

absl::StatusOr<Grid> RowsOfQuery(const Backend& backend, const Side& side, int64_t query, int64_t count) {
  if (side.matrix) return RowsOfMatrix(*side.matrix, query, count);
  Side of_query = side;
  if (side.by_query) of_query.query = query;
  if (side.first_row > 0 || side.rows < count) return Grid{};
  auto entries = EntriesOf(backend, of_query, 0, count, DType::kF64);
  if (!entries.ok()) return entries.status();
  return std::move(entries->first);
}

void MatchSides(Side* a, Side* b) {
  for (const auto& [one, many] : {std::pair(a, b), std::pair(b, a)}) {
    if (one->heads == 1 && many->heads > 1 && one->family == many->family && one->columns * many->heads == many->columns)
      Spread(many->heads, one);
    if (one->by_query && !one->query && many->query) {
      one->query = many->query;
      one->rows = std::min(one->rows, *many->query + 1);
    }
  }
}

}  // namespace phasor::server
