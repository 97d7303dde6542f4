#include "server/knowledge/compare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/sums.h"

namespace phasor::server {
namespace {

constexpr int64_t kPositionsShown = 256;

// Calls visit(row, column, value of a, value of b) for every entry that both have, row by row.
template <typename Visit>
void ForEachEntry(const Entries& a, const Entries& b, const Visit& visit) {
  for (int64_t row = 0; row < a.rows(); ++row) {
    for (const auto& [x, y] : {std::pair(&a.first, &b.first), std::pair(&a.second, &b.second)}) {
      if (x->rows == 0 || y->rows == 0) continue;
      for (int64_t column = 0; column < x->columns; ++column) visit(row, column, x->at(row, column), y->at(row, column));
    }
  }
}

int64_t IndexOf(const Side& side, const RowWindow& window, int64_t row) {
  return side.family == Family::kBias ? -(window.first + row) : window.first + row;
}

void Measure(const Side& a, const Entries& ea, const Entries& eb, const RowWindow& window, Comparison* out) {
  std::vector<Sums> rows(static_cast<size_t>(window.count)), columns(static_cast<size_t>(a.columns));
  Sums all;
  ForEachEntry(ea, eb, [&](int64_t row, int64_t column, double x, double y) {
    const double difference = y - x;
    if (std::abs(difference) > all.max) {
      out->max_position = IndexOf(a, window, row);
      out->max_column = column;
    }
    all.Add(difference);
    rows[static_cast<size_t>(row)].Add(difference);
    columns[static_cast<size_t>(column)].Add(difference);
  });
  if (all.max == 0) out->max_position = IndexOf(a, window, 0);
  out->max_difference = all.max;
  out->rms_difference = all.rms();
  for (const int64_t row : SpacedOut(window.count, kPositionsShown)) {
    const Sums& sums = rows[static_cast<size_t>(row)];
    out->by_position.push_back({IndexOf(a, window, row), sums.max, sums.rms()});
  }
  for (int64_t column = 0; column < std::min(a.columns, kMaxColumnsShown); ++column) {
    const Sums& sums = columns[static_cast<size_t>(column)];
    out->by_column.push_back({column, sums.max, sums.rms()});
  }
}

FirstDifference FirstOf(const Side& a, const Entries& ea, const Entries& eb, const RowWindow& window, DType dtype) {
  FirstDifference first{dtype, std::nullopt, 0};
  int64_t entries = 0, different = 0;
  ForEachEntry(ea, eb, [&](int64_t row, int64_t, double x, double y) {
    ++entries;
    if (x == y) return;
    ++different;
    if (!first.position) first.position = IndexOf(a, window, row);
  });
  if (entries > 0) first.share = static_cast<double>(different) / static_cast<double>(entries);
  return first;
}

// The type of the table that is compared; of two the one with fewer bits.
std::optional<DType> TableTypeOf(const Side& a, const Side& b) {
  if (!a.table_type || !b.table_type) return a.table_type ? a.table_type : b.table_type;
  const auto step = [](DType dtype) { return UlpOf(dtype, 1); };
  return step(*a.table_type) >= step(*b.table_type) ? a.table_type : b.table_type;
}

double MaxUlps(const Entries& ea, const Entries& eb, DType dtype) {
  double ulps = 0;
  ForEachEntry(ea, eb, [&](int64_t, int64_t, double x, double y) {
    const double rounded_x = RoundTo(dtype, x), rounded_y = RoundTo(dtype, y);
    if (rounded_x != rounded_y) ulps = std::max(ulps, std::abs(rounded_x - rounded_y) / UlpOf(dtype, rounded_x));
  });
  return ulps;
}

double LargestOf(const Entries& ea, const Entries& eb) {
  double largest = 0;
  ForEachEntry(ea, eb,
               [&](int64_t, int64_t, double x, double y) { largest = std::max({largest, std::abs(x), std::abs(y)}); });
  return largest;
}

absl::Status CheckCancel(const CancelFlag* cancel) {
  return cancel != nullptr && cancel->load() ? absl::CancelledError("the caller has gone") : absl::OkStatus();
}

absl::Status CompareRounded(const Backend& backend, const Side& a, const Side& b, const RowWindow& window,
                            const CancelFlag* cancel, Comparison* out) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    if (absl::Status status = CheckCancel(cancel); !status.ok()) return status;
    const auto ea = EntriesOf(backend, a, window.first, window.count, dtype);
    if (!ea.ok()) return ea.status();
    const auto eb = EntriesOf(backend, b, window.first, window.count, dtype);
    if (!eb.ok()) return eb.status();
    out->first_differences.push_back(FirstOf(a, *ea, *eb, window, dtype));
  }
  return absl::OkStatus();
}

// Whether canonical specs of one plan put its values at the same places.
bool PlacedAlike(const Side& a, const Side& b) {
  if (a.family == Family::kBias || a.family == Family::kWindow) return true;
  if (a.family == Family::kPolar) return a.spec->spec == b.spec->spec;  // the plan knows nothing of δ
  if (a.family == Family::kTable) {
    // The plan has frequencies; order of columns, offsets and factors are the spec's.
    const auto* x = std::get_if<SinusoidalSpec>(&a.spec->spec);
    const auto* y = std::get_if<SinusoidalSpec>(&b.spec->spec);
    if (x == nullptr || y == nullptr) return a.spec->spec == b.spec->spec;
    return x->dim == y->dim && x->layout == y->layout && x->position_offset == y->position_offset &&
           x->padding_row == y->padding_row && x->scale == y->scale;
  }
  if (a.rope() == nullptr || b.rope() == nullptr) return a.rope() == b.rope();  // FoPE's plan says everything
  const RopeSpec &x = *a.rope(), &y = *b.rope();
  return x.head_dim == y.head_dim && x.pairing == y.pairing && x.xpos == y.xpos && x.first_channel == y.first_channel;
}

}  // namespace

std::vector<int64_t> SpacedOut(int64_t count, int64_t limit) {
  std::vector<int64_t> indices;
  const int64_t dense = count <= limit ? count : limit / 4;
  for (int64_t i = 0; i < dense; ++i) indices.push_back(i);
  if (dense == count) return indices;
  const double growth = std::log(static_cast<double>(count - 1) / static_cast<double>(dense));
  const int64_t steps = limit - dense;
  for (int64_t k = 0; k < steps; ++k) {
    const double share = static_cast<double>(k) / static_cast<double>(steps - 1);
    const int64_t index = k == steps - 1 ? count - 1 : std::llround(static_cast<double>(dense) * std::exp(growth * share));
    if (index > indices.back() && index < count) indices.push_back(index);
  }
  return indices;
}

absl::Status CheckComparable(const Side& a, const Side& b) {
  if (a.family != b.family) {
    return MakeSpecError("", absl::StrCat(std::string(Name(b.family)), " beside ", std::string(Name(a.family))),
                         "two of one family");
  }
  if (a.columns != b.columns) {
    const std::string unit = absl::StrCat(" ", std::string(ColumnName(a.family)), "s");
    return MakeSpecError("", absl::StrCat(b.columns, unit, " beside ", a.columns, unit), "two of one width");
  }
  if (a.window != b.window) {
    const auto text = [](const Side& side) {
      const TokenWindow& w = *side.window;
      return absl::StrCat("a window of ", w.height, " × ", w.width, w.class_token ? " and a class token" : "");
    };
    return MakeSpecError("", absl::StrCat(text(b), " beside ", text(a)),
                         "two of one window: resize the table first (PositionService.Precompute, `phasor resize`)");
  }
  const auto has = [](const Side& side, const Grid& half) { return side.resolved || half.rows > 0; };
  const bool cosines = has(a, a.given.first) && has(b, b.given.first);
  const bool sines = has(a, a.given.second) && has(b, b.given.second);
  if ((a.family == Family::kRotation || a.family == Family::kPolar) && !cosines && !sines) {
    return MakeSpecError("", "cosines beside sines", "two tables with the same half");
  }
  return absl::OkStatus();
}

absl::StatusOr<RowWindow> ChooseWindow(const Side& a, const Side* b, std::optional<int64_t> first, int64_t count,
                                       int64_t default_count) {
  int64_t begin = a.first_row, end = a.first_row + a.rows;
  bool table = a.table_type.has_value() || a.window.has_value();  // of these all rows
  if (b != nullptr) {
    begin = std::max(begin, b->first_row);
    end = std::min(end, b->first_row + b->rows);
    table |= b->table_type.has_value();
  }
  end = std::min(end, int64_t{1} << 31);
  if (begin >= end) return MakeSpecError("first_position", "nothing", "tables with at least one position in common");
  const std::string range = absl::StrCat(begin, " … ", end - 1);
  const int64_t start = first.value_or(begin);
  if (start < begin || start >= end) return MakeSpecError("first_position", absl::StrCat(start), range);
  int64_t most = std::min({kMaxComparedRows, std::max<int64_t>(1, kMaxComparedEntries / a.columns), end - start});
  const double products = std::max(a.products_per_row, b != nullptr ? b->products_per_row : 0.0);
  if (products * static_cast<double>(most) > kMaxComparedProducts)
    most = std::max<int64_t>(1, static_cast<int64_t>(kMaxComparedProducts / products));
  if (count == 0) return RowWindow{start, std::min(table ? kMaxComparedRows : default_count, most)};
  if (count < 1 || count > most)
    return MakeSpecError("count", absl::StrCat(count), absl::StrCat("1 … ", most, " of this width from there on"));
  return RowWindow{start, count};
}

bool SameBits(const Side& a, const Side& b) {
  return a.from_spec && b.from_spec && PlanKey(a.resolved->plan) == PlanKey(b.resolved->plan) && PlacedAlike(a, b);
}

absl::StatusOr<Comparison> Compare(const Backend& backend, const Side& a, const Side& b, const RowWindow& window,
                                   uint64_t seed, const CancelFlag* cancel) {
  Comparison out;
  out.same_spec = a.from_spec && b.from_spec && a.spec->spec == b.spec->spec;
  out.same_bits = SameBits(a, b);
  const auto ea = EntriesOf(backend, a, window.first, window.count, DType::kF64);
  if (!ea.ok()) return ea.status();
  const auto eb = EntriesOf(backend, b, window.first, window.count, DType::kF64);
  if (!eb.ok()) return eb.status();
  Measure(a, *ea, *eb, window, &out);
  if (absl::Status status = CompareRounded(backend, a, b, window, cancel, &out); !status.ok()) return status;
  if (const auto dtype = TableTypeOf(a, b)) out.max_ulps = MaxUlps(*ea, *eb, *dtype);
  out.scores = EffectOnScores(a, b, *ea, *eb, window, seed);
  if (absl::Status status = CheckCancel(cancel); !status.ok()) return status;
  const auto future = FutureDifference(backend, a, b);
  if (!future.ok()) return future.status();
  out.future_difference = *future;
  out.transformation = FindTransformation(a, b, *ea, *eb, out.same_bits);
  if (out.transformation.kind == "none") {
    auto of_biases = FindBiasTransformation(backend, a, b, *ea, *eb, window);
    if (!of_biases.ok()) return of_biases.status();
    if (*of_biases) out.transformation = **std::move(of_biases);
  }
  const auto others = OtherQueriesDifference(backend, a, b, window, out.transformation);
  if (!others.ok()) return others.status();
  out.other_queries_difference = *others;
  const double step = std::max(0x1p-40, TableTypeOf(a, b) ? 4 * UlpOf(*TableTypeOf(a, b), 1) : 0.0);
  if (out.transformation.kind != "none" && *others > step * LargestOf(*ea, *eb)) {
    out.transformation = {};
    out.transformation.how =
        absl::StrCat("One can be made from the other for the last query only: biases of other queries differ ", "by up to ",
                     *others, ".");
  }
  if (out.transformation.kind == "identical" && out.future_difference > 0) {
    out.transformation = {};
    out.transformation.how =
        "Equal for keys up to the query; keys after it get other biases. Under a causal mask nothing differs.";
  }
  out.verdict = Verdict(a, b, window, out);
  return out;
}

}  // namespace phasor::server
