// What a function is fitted to.
#include <algorithm>
#include <cmath>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "server/knowledge/distill.h"

namespace phasor::server {
namespace {

constexpr int64_t kDefaultCount = 512;
constexpr double kLargest = 1e150;  // its square is a number still
constexpr int64_t kLastPosition = (int64_t{1} << 31) - 1;

Grid SideBySide(Entries entries) {
  if (entries.first.rows == 0) return std::move(entries.second);
  if (entries.second.rows == 0) return std::move(entries.first);
  const int64_t n = entries.first.columns;
  Grid grid{entries.rows(), 2 * n, std::vector<double>(static_cast<size_t>(entries.rows() * 2 * n))};
  for (int64_t row = 0; row < grid.rows; ++row) {
    for (int64_t c = 0; c < n; ++c) {
      grid.at(row, c) = entries.first.at(row, c);
      grid.at(row, n + c) = entries.second.at(row, c);
    }
  }
  return grid;
}

absl::StatusOr<Grid> RowsOf(const Backend& backend, const Side& side, int64_t first, int64_t count) {
  auto entries = EntriesOf(backend, side, first, count, DType::kF64);
  if (!entries.ok()) return entries.status();
  Grid grid = SideBySide(*std::move(entries));
  for (size_t i = 0; i < grid.values.size(); ++i) {
    if (std::fabs(grid.values[i]) <= kLargest) continue;
    return MakeSpecError(side.table_type ? "table" : "spec",
                         absl::StrCat(grid.values[i], " at position ", first + static_cast<int64_t>(i) / grid.columns,
                                      ", column ", static_cast<int64_t>(i) % grid.columns),
                         "numbers up to 1e150");
  }
  return grid;
}

int64_t EndOf(const Side& side) { return std::min(side.first_row + side.rows, kLastPosition + 1); }

// Whether one number decides a row, and the row is the same for queries, keys and every head of a rotation.
absl::Status CheckOneNumber(const Side& side) {
  constexpr std::string_view kAllowed = "rows of one position, a rotation's cos and sin, or a bias by distance";
  const std::string_view field = side.table_type ? "table" : "spec";
  if (side.angles() != nullptr && !side.angles()->axis_of_pair.empty()) {
    return MakeSpecError("spec.rope.axes", "a rotation by several coordinates", "one coordinate per position");
  }
  const auto* alibi = side.spec ? std::get_if<AlibiSpec>(&side.spec->spec) : nullptr;
  if (alibi != nullptr && !alibi->batch_slopes.empty()) {
    return MakeSpecError("spec.alibi.batch_slopes", absl::StrCat(alibi->batch_slopes.size(), " slopes of batch rows"),
                         "none: slopes, one for each head");
  }
  if (side.xpos) return MakeSpecError("spec.rope.xpos", "scales by position", "a rotation alone: cos and sin");
  if (side.by_query) return MakeSpecError(field, "a bias that depends on more than the distance", kAllowed);
  if (side.family == Family::kPolar || side.family == Family::kWindow) {
    return MakeSpecError(field, Name(side.family), kAllowed);
  }
  if (side.family == Family::kRotation && side.heads > 1) {
    return MakeSpecError(field, absl::StrCat("a rotation of ", side.heads, " heads, each its own"), kAllowed);
  }
  return absl::OkStatus();
}

}  // namespace

std::string ColumnsText(int64_t columns) { return absl::StrCat(columns, columns == 1 ? " column" : " columns"); }

int64_t SampleColumns(const Side& side) {
  const bool both = !side.table_type || (side.given.first.rows > 0 && side.given.second.rows > 0);
  return side.family == Family::kRotation && both ? 2 * side.columns : side.columns;
}

absl::StatusOr<RowWindow> ChooseSamples(const Side& side, int64_t first, int64_t count) {
  if (absl::Status status = CheckOneNumber(side); !status.ok()) return status;
  const int64_t columns = SampleColumns(side);
  if (columns > kMaxDistillColumns) {
    return MakeSpecError(side.table_type ? "table" : "spec", ColumnsText(columns),
                         absl::StrCat("up to ", kMaxDistillColumns));
  }
  const int64_t begin = first == 0 ? side.first_row : first, end = EndOf(side);
  if (begin < side.first_row || begin > end - 2) {
    if (end - side.first_row < 2) {
      return MakeSpecError(side.table_type ? "table" : "spec", absl::StrCat(end - side.first_row, " row"), "2 rows or more");
    }
    return MakeSpecError("first_position", absl::StrCat(begin), absl::StrCat(side.first_row, " … ", end - 2));
  }
  const int64_t most = std::min({kMaxDistillCount, kMaxDistillNumbers / columns, end - begin});
  if (count == 0) return RowWindow{begin, std::min(side.rows > kLastPosition / 2 ? kDefaultCount : side.rows, most)};
  if (count < 2 || count > most) {
    return MakeSpecError("count", absl::StrCat(count),
                         absl::StrCat("2 … ", most, " of ", ColumnsText(columns), " from there on"));
  }
  return RowWindow{begin, count};
}

absl::StatusOr<DistillSamples> SamplesOf(const Backend& backend, const Side& side, const RowWindow& window) {
  DistillSamples samples;
  samples.first = window.first;
  auto values = RowsOf(backend, side, window.first, window.count);
  if (!values.ok()) return values.status();
  samples.values = *std::move(values);
  const int64_t after = window.first + window.count;
  const int64_t beyond = std::min(window.count, EndOf(side) - after);
  if (beyond > 0) {
    auto rows = RowsOf(backend, side, after, beyond);
    if (!rows.ok()) return rows.status();
    samples.beyond = *std::move(rows);
  }
  return samples;
}

}  // namespace phasor::server
