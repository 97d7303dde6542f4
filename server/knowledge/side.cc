#include "server/knowledge/side.h"

#include <algorithm>
#include <array>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/program/absolute_rows.h"

namespace phasor::server {
namespace {

constexpr std::string_view kComparable =
    "rope_…, sinusoidal, timestep, gaussian_fourier, learned, grid_sinusoidal, distilled, alibi, t5_bucket, kerple, "
    "sandwich";

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
  const std::optional<DistancePlan> bias = DistancePlanOf(plan);
  if (!bias) {
    if (std::holds_alternative<BucketPlan>(plan)) {
      return MakeSpecError("spec.weights", "nothing", "the learned table: without it there are only bucket numbers");
    }
    return MakeSpecError(
        "spec", absl::StrCat(Absl(SchemeOf(spec).name), ", whose values depend on more than a position or a distance"),
        kComparable);
  }
  side->family = Family::kBias;
  side->columns = VectorsOf(*bias);
  return absl::OkStatus();
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

absl::StatusOr<Entries> Compute(const Backend& backend, const Side& side, int64_t first, int64_t count, DType dtype) {
  if (side.family == Family::kRotation) {
    auto angles = MakeAngles(backend, *side.angles(), first, count, dtype);
    if (!angles.ok()) return angles.status();
    return Entries{std::move(angles->cos), std::move(angles->sin)};
  }
  if (side.family == Family::kTable) {
    auto rows = MakeRows(backend, side.spec->spec, side.resolved->plan, first, count, dtype);
    if (!rows.ok()) return InSpec(rows.status());
    return Entries{*std::move(rows), {}};
  }
  const auto values = MakeDistances(backend, *DistancePlanOf(side.resolved->plan), -(first + count - 1), count, dtype);
  if (!values.ok()) return values.status();
  return Entries{Transposed(*values), {}};
}

}  // namespace

std::string_view Name(Family family) {
  constexpr std::array<std::string_view, 3> kNames{"a rotation", "a table of rows", "a bias by distance"};
  return kNames[static_cast<size_t>(family)];
}

std::string_view ColumnName(Family family) {
  constexpr std::array<std::string_view, 3> kNames{"pair", "column", "head"};
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
  if (side.resolved) return Compute(backend, side, first, count, dtype);
  return Entries{Rounded(Window(side.given.first, first - side.first_row, count), dtype),
                 Rounded(Window(side.given.second, first - side.first_row, count), dtype)};
}

}  // namespace phasor::server
