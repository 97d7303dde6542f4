// What is particular to biases: keys after the query, other queries than the one that is looked at, keys that stand
// elsewhere.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/compare.h"
#include "server/knowledge/transform.h"

namespace phasor::server {
namespace {

constexpr int64_t kFutureDistances = 256;
constexpr int64_t kOtherQueries = 8;

bool ByDistance(const Side& side) { return side.family == Family::kBias && !side.by_query; }

bool Varies(const Grid& rows) {
  for (int64_t row = 1; row < rows.rows; ++row) {
    for (int64_t column = 0; column < rows.columns; ++column) {
      if (rows.at(row, column) != rows.at(0, column)) return true;
    }
  }
  return false;
}

// Rows first … first + count − 1 of a bias by distance, those before row 0 (keys after the query) included; nothing where
// the side does not have them.
absl::StatusOr<Grid> ShiftedRows(const Backend& backend, const Side& side, int64_t first, int64_t count) {
  if (side.resolved) {
    const auto values = DistancesOf(backend, side, -(first + count - 1), count, DType::kF64);
    if (!values.ok()) return values.status();
    Grid rows{count, values->rows, std::vector<double>(values->values.size())};
    for (int64_t row = 0; row < count; ++row) {
      for (int64_t head = 0; head < rows.columns; ++head) rows.at(row, head) = values->at(head, count - 1 - row);
    }
    return rows;
  }
  if (first < side.first_row || first + count > side.first_row + side.rows) return Grid{};
  auto entries = EntriesOf(backend, side, first, count, DType::kF64);
  if (!entries.ok()) return entries.status();
  return std::move(entries->first);
}

// Whether b is a plus one number per head.
bool IsConstantPerHead(const Grid& a, const Grid& b, double tolerance) {
  for (int64_t row = 1; row < a.rows; ++row) {
    for (int64_t head = 0; head < a.columns; ++head) {
      if (!(std::abs(b.at(row, head) - a.at(row, head) - (b.at(0, head) - a.at(0, head))) <= tolerance)) return false;
    }
  }
  return a.rows > 1;
}

std::string HowToShiftBias(int64_t shift, bool constant) {
  const std::string by = absl::StrCat(std::abs(shift), std::abs(shift) == 1 ? " position" : " positions");
  std::string how = absl::StrCat("A key m positions before the query has in b the bias that a gives at distance −(m ",
                                 shift > 0 ? "+ " : "− ", std::abs(shift), "): the queries of b stand ", by,
                                 shift > 0 ? " further on" : " further back", ". Look at the offset of cached keys.");
  if (constant) {
    absl::StrAppend(&how,
                    " Every head's bias moves by one number, which the softmax removes: unmasked rows have equal weights.");
  }
  return how;
}

}  // namespace

absl::StatusOr<double> FutureDifference(const Backend& backend, const Side& a, const Side& b) {
  if (!ByDistance(a) || !ByDistance(b) || !a.resolved || !b.resolved) return 0;
  const int64_t count = std::clamp<int64_t>(kMaxComparedEntries / a.columns, 1, kFutureDistances);
  const auto x = DistancesOf(backend, a, 1, count, DType::kF64);
  if (!x.ok()) return x.status();
  const auto y = DistancesOf(backend, b, 1, count, DType::kF64);
  if (!y.ok()) return y.status();
  double largest = 0;
  for (size_t i = 0; i < x->values.size(); ++i) largest = std::max(largest, std::abs(x->values[i] - y->values[i]));
  return largest;
}

absl::StatusOr<double> OtherQueriesDifference(const Backend& backend, const Side& a, const Side& b, const RowWindow& window,
                                              const Transformation& t) {
  if (a.family != Family::kBias || (!a.by_query && !b.by_query)) return 0;
  const int64_t last = a.query.value_or(b.query.value_or(window.first + window.count - 1));
  const double scale = t.scale == 0 ? 1 : t.scale;
  double largest = 0;
  for (const int64_t query : SpacedOut(last + 1, kOtherQueries)) {
    const auto x = RowsOfQuery(backend, a, query, query + 1);
    if (!x.ok()) return x.status();
    const auto y = RowsOfQuery(backend, b, query, query + 1);
    if (!y.ok()) return y.status();
    if (query == last || x->rows == 0 || y->rows == 0) continue;
    for (int64_t row = 0; row <= query; ++row) {
      for (int64_t head = 0; head < a.columns; ++head) {
        const int64_t source = t.permutation.empty() ? head : t.permutation[static_cast<size_t>(head)];
        largest = std::max(largest, std::abs(y->at(row, head) - scale * x->at(row, source)));
      }
    }
  }
  return largest;
}

absl::StatusOr<std::optional<Transformation>> FindBiasTransformation(const Backend& backend, const Side& a, const Side& b,
                                                                     const Entries& ea, const Entries& eb,
                                                                     const RowWindow& window) {
  if (a.family != Family::kBias && a.family != Family::kWindow) return std::nullopt;
  const Closeness close(a, b, ea, eb);
  Transformation t;
  t.constant_per_head = IsConstantPerHead(ea.first, eb.first, 4 * close.tolerance());
  if (const auto shift = ByDistance(a) && ByDistance(b) && Varies(eb.first) ? close.FindShift() : std::nullopt) {
    // All rows of b count, not only those that have a partner in the window.
    const auto rows = ShiftedRows(backend, a, window.first + *shift, window.count);
    if (!rows.ok()) return rows.status();
    bool agree = true;
    for (size_t i = 0; i < rows->values.size(); ++i)
      agree &= std::abs(rows->values[i] - eb.first.values[i]) <= 4 * close.tolerance();
    if (agree) {
      t.kind = "shifted_positions";
      t.shift = *shift;
      t.how = HowToShiftBias(*shift, t.constant_per_head);
      return t;
    }
  }
  if (!t.constant_per_head) return std::nullopt;
  t.how = "b is a plus one number per head, the same for every key, which the softmax removes: rows of attention are equal.";
  return t;
}

}  // namespace phasor::server
