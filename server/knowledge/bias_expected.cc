#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

#include "kernels/encodings/buckets.h"
#include "server/knowledge/alibi_slopes.h"
#include "server/knowledge/bias_search.h"
#include "server/text.h"

namespace phasor::server {
namespace {

// What a curve is compared with, and how faults change that.
struct Expectation {
  const Backend& backend;
  const DiagnoseInput& input;
  const BiasCurve& curve;
  const BiasMaker& maker;
  int64_t origin = 0;
  int64_t first_head = 0;
  int64_t queries = 0, keys = 0;
  Grid made = {};  // of the whole curve, all heads
  Match match = {};
  Diagnosis& diagnosis;

  const EncodingSpec& spec() const { return input.expected->spec; }
  bool Matches(const Grid& grid, double ulps = 1) const { return CompareCurve(curve, grid, first_head).max_ulps <= ulps; }
  bool Add(std::string_view name, std::string seen, double confidence = 0.95) const {
    AddFault(name, std::move(seen), confidence, std::nullopt, diagnosis);
    return true;
  }
  // The values of another spec, where it is one.
  std::optional<Grid> Of(const EncodingSpec& other) const {
    const auto canonical = Canonicalize(other);
    if (!canonical.ok()) return std::nullopt;
    const auto made_other = BiasMaker::Of(backend, *canonical);
    if (!made_other.ok()) return std::nullopt;
    auto grid = made_other->Make(curve.first - origin, curve.count, curve.dtype);
    return grid.ok() ? std::optional(*std::move(grid)) : std::nullopt;
  }
  Grid Mapped(auto&& change) const {
    Grid grid = made;
    for (double& value : grid.values) value = RoundTo(curve.dtype, change(value));
    return grid;
  }
};

bool Mirrored(const Expectation& e) {
  const int64_t last = e.curve.first + e.curve.count - 1 - e.origin;
  auto grid = e.maker.Make(-last, e.curve.count, e.curve.dtype);
  if (!grid.ok()) return false;
  for (int64_t row = 0; row < grid->rows; ++row) {
    std::reverse(grid->values.begin() + row * grid->columns, grid->values.begin() + (row + 1) * grid->columns);
  }
  if (!e.Matches(*grid)) return false;
  const bool buckets = std::holds_alternative<T5BucketSpec>(e.spec());
  return e.Add(buckets ? "t5_sign_flipped" : "alibi_sign_flipped",
               "the value at each distance is the expected one at the opposite distance");
}

bool Negated(const Expectation& e) {
  if (!e.Matches(e.Mapped([](double value) { return -value; }))) return false;
  return e.Add("alibi_sign_flipped", "every value is the expected one with the other sign");
}

bool Shifted(const Expectation& e) {
  std::vector<int64_t> shifts{e.queries - e.keys};
  for (int64_t shift = 1; shift <= 64; ++shift) shifts.insert(shifts.end(), {shift, -shift});
  for (const int64_t shift : shifts) {
    if (shift == 0) continue;
    const auto match = e.maker.Compare(e.curve, e.origin + shift, e.first_head, e.input.cancel);
    if (!match.ok() || !match->good()) continue;
    const auto* alibi = std::get_if<AlibiSpec>(&e.spec());
    if (alibi != nullptr && *alibi->form == AlibiForm::kCausal) {
      e.diagnosis.observations.push_back(
          Cat("the expected bias moved by ", shift, " keys: a constant per row, which the softmax removes"));
      return true;
    }
    return e.Add("bias_not_bottom_right_aligned",
                 Cat("the expected bias moved by ", shift,
                     shift == e.queries - e.keys ? " keys (queries − keys): as aligned at the top left" : " keys"));
  }
  return false;
}

bool Scaled(const Expectation& e) {
  double largest = 0, factor = 0;
  for (int64_t head = 0; head < e.curve.heads; ++head) {
    for (int64_t i = 0; i < e.curve.count; ++i) {
      const double value = e.made.at(e.first_head + head, i);
      if (!e.curve.has(head, i) || !(std::fabs(value) > largest) || !std::isfinite(value)) continue;
      largest = std::fabs(value);
      factor = e.curve.middle(head, i) / value;
    }
  }
  if (!(factor > 0) || !std::isfinite(factor)) return false;
  // The factor is known to an ulp or two of the type.
  if (!e.Matches(e.Mapped([&](double value) { return value * factor; }), 2.5)) return false;
  // A usual width within that doubt says more.
  for (const int64_t width : {64, 128, 80, 96, 32, 256, 48, 112, 160, 192, 16, 8, 512}) {
    for (const double root : {std::sqrt(static_cast<double>(width)), 1 / std::sqrt(static_cast<double>(width))}) {
      if (std::fabs(factor - root) <= 2 * UlpOf(e.curve.dtype, root)) factor = root;
    }
  }
  return e.Add("bias_scaled", Cat("every value is the expected one times ", NameOfScale(factor)));
}

bool Clamped(const Expectation& e) {
  double lowest = HUGE_VAL;
  for (const double value : e.curve.low) lowest = value < lowest ? value : lowest;
  if (!e.Matches(e.Mapped([&](double value) { return std::max(value, lowest); }))) return false;
  return e.Add("bias_clamped", absl::StrFormat("the expected values, but none below %g", lowest));
}

bool RoundedDistances(const Expectation& e) {
  const int64_t from = e.curve.first - e.origin, to = from + e.curve.count;
  const int64_t margin = std::max(std::abs(from), std::abs(to)) / 128 + 1;
  const auto wide = e.maker.Make(from - margin, e.curve.count + 2 * margin, e.curve.dtype);
  if (!wide.ok()) return false;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    Grid grid = e.made;
    for (int64_t i = 0; i < grid.columns; ++i) {
      const auto rounded = static_cast<int64_t>(RoundTo(dtype, static_cast<double>(from + i)));
      for (int64_t row = 0; row < grid.rows; ++row) {
        grid.at(row, i) = wide->at(row, std::clamp<int64_t>(rounded - from + margin, 0, wide->columns - 1));
      }
    }
    if (e.Matches(grid))
      return e.Add("bias_distances_rounded", Cat("the expected bias at distances rounded to ", Name(dtype)));
  }
  return false;
}

bool WrongSlopes(const Expectation& e) {
  const auto* alibi = std::get_if<AlibiSpec>(&e.spec());
  if (alibi == nullptr) return false;
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    AlibiSpec rounded = *alibi;
    rounded.slope_dtype = dtype;
    if (const auto grid = e.Of(rounded); grid && e.Matches(*grid)) {
      return e.Add("alibi_slopes_rounded", Cat("the expected bias with slopes rounded to ", Name(dtype)));
    }
  }
  if (alibi->num_heads > e.curve.heads && alibi->slopes.empty()) {
    AlibiSpec local = *alibi;
    local.num_heads = e.curve.heads;
    local.biased_heads.reset();
    const auto grid = e.Of(local);
    if (grid && CompareCurve(e.curve, *grid, 0).good()) {
      return e.Add("alibi_slopes_from_local_heads", Cat("the slopes are those of a model of ", e.curve.heads,
                                                        " heads, not a part of those of ", alibi->num_heads));
    }
  }
  return false;
}

bool WrongBuckets(const Expectation& e) {
  const auto* t5 = std::get_if<T5BucketSpec>(&e.spec());
  if (t5 == nullptr) return false;
  const auto matches = [&](const T5BucketSpec& other) {
    const auto grid = e.Of(other);
    return grid && e.Matches(*grid);
  };
  T5BucketSpec other = *t5;
  other.bidirectional = !*t5->bidirectional;
  if (matches(other)) {
    return e.Add("t5_directions_swapped", *t5->bidirectional ? "the buckets are those of a decoder (causal)"
                                                             : "the buckets are those of an encoder (bidirectional)");
  }
  for (const int64_t distance : {128, 256, 64, 512, 32, 1024, 800, 2048, 4096, 20, 100}) {
    other = *t5;
    other.max_distance = distance;
    if (distance != *t5->max_distance && matches(other)) {
      return e.Add("t5_max_distance_wrong", Cat("max_distance is ", distance, " instead of ", *t5->max_distance));
    }
  }
  Grid grid = e.made;
  for (const int64_t span : {*t5->num_buckets / 2, *t5->num_buckets / 4}) {
    if (span < 2 || span % 2 != 0 || *t5->max_distance - 1 <= span / 2) continue;
    const LogBuckets buckets(span, *t5->max_distance);
    for (int64_t i = 0; i < grid.columns; ++i) {
      const int64_t row = buckets.at(e.curve.first - e.origin + i);
      for (int64_t head = 0; head < grid.rows; ++head) {
        grid.at(head, i) = RoundTo(e.curve.dtype, t5->table->at(row * grid.rows + head) * *t5->scale);
      }
    }
    if (e.Matches(grid)) return e.Add("t5_with_deberta_buckets", "the rows of the table are chosen as DeBERTa chooses them");
  }
  return false;
}

bool WrongSandwich(const Expectation& e) {
  if (!std::holds_alternative<SandwichSpec>(e.spec())) return false;
  return std::any_of(e.diagnosis.faults.begin(), e.diagnosis.faults.end(),
                     [](const Fault& fault) { return fault.card->name.starts_with("sandwich"); });
}

// Each head of the curve as some head of the spec.
bool OtherOrder(const Expectation& e) {
  std::vector<int64_t> order;
  for (int64_t head = 0; head < e.curve.heads; ++head) {
    BiasCurve one{e.curve.dtype, 1, e.curve.count, e.curve.first, {}, {}};
    const auto from = static_cast<std::ptrdiff_t>(e.curve.index(head, 0));
    one.low.assign(e.curve.low.begin() + from, e.curve.low.begin() + from + e.curve.count);
    one.high.assign(e.curve.high.begin() + from, e.curve.high.begin() + from + e.curve.count);
    int64_t found = -1;
    for (int64_t other = 0; other < e.made.rows && found < 0; ++other) {
      if (CompareCurve(one, e.made, other).good()) found = other;
    }
    if (found < 0) return false;
    order.push_back(found);
  }
  std::string text;
  for (size_t i = 0; i < std::min<size_t>(order.size(), 8); ++i) Append(&text, i == 0 ? "" : ", ", order[i]);
  return e.Add("bias_heads_in_other_order", Cat("the heads are the expected heads ", text, order.size() > 8 ? " …" : ""));
}

// Which of the expected spec's heads the curve is nearest to.
void Place(const BiasCurve& curve, const BiasMaker& maker, Expectation& e) {
  Match best{HUGE_VAL, HUGE_VAL, 0, 0};
  for (int64_t head = 0; head + curve.heads <= maker.heads(); head += std::max<int64_t>(curve.heads, 1)) {
    const Match match = CompareCurve(curve, e.made, head);
    if (head > 0 && match.max_ulps >= best.max_ulps) continue;
    best = match;
    e.first_head = head;
  }
  e.match = best;
}

absl::Status AddExpected(Expectation& e) {
  BiasCandidate candidate{.spec = e.spec(), .origin = e.origin, .first_head = e.first_head, .confidence = 1};
  candidate.note = "the expected spec";
  if (e.curve.heads < e.maker.heads()) {
    Append(&candidate.note, ", heads ", e.first_head, " … ", e.first_head + e.curve.heads - 1, " of ", e.maker.heads());
  }
  auto hypothesis = Judge(e.backend, e.curve, candidate, e.input.cancel);
  if (!hypothesis.ok()) return hypothesis.status();
  if (*hypothesis) e.diagnosis.hypotheses.insert(e.diagnosis.hypotheses.begin(), **std::move(hypothesis));
  return absl::OkStatus();
}

}  // namespace

absl::Status CompareExpected(const Backend& backend, const DiagnoseInput& input, const BiasCurve& curve, int64_t queries,
                             int64_t keys, Diagnosis& diagnosis) {
  auto made_by = BiasMaker::Of(backend, *input.expected);
  if (!made_by.ok()) {
    diagnosis.observations.push_back("the expected spec is no bias by distance, so nothing is compared with it");
    return absl::OkStatus();
  }
  Expectation e{.backend = backend,
                .input = input,
                .curve = curve,
                .maker = *made_by,
                .queries = queries,
                .keys = keys,
                .diagnosis = diagnosis};
  constexpr int64_t kMostValues = int64_t{1} << 24;
  if (made_by->heads() * curve.count > kMostValues || made_by->heads() < curve.heads) {
    AddFault("bias_differs_from_expected", Cat(curve.heads, " heads where the spec has ", made_by->heads()), 0.9,
             std::nullopt, diagnosis);
    return absl::OkStatus();
  }
  const bool vector = input.table.content == InputContent::kBiasVector;
  if (vector && !diagnosis.hypotheses.empty()) e.origin = curve.first - diagnosis.hypotheses.front().first_position;
  auto made = made_by->Make(curve.first - e.origin, curve.count, curve.dtype);
  if (!made.ok()) return made.status();
  e.made = *std::move(made);
  Place(curve, *made_by, e);
  if (e.match.good()) {
    std::erase_if(diagnosis.faults, [](const Fault& fault) {
      return fault.card->name != "bias_not_finite" && fault.card->name != "bias_rows_repeated";
    });
    return AddExpected(e);
  }
  if (absl::Status status = AddExpected(e); !status.ok()) return status;
  diagnosis.hypotheses.front().confidence = 0.2;
  const bool named = !diagnosis.faults.empty();
  for (const auto attempt : {&WrongSandwich, &WrongBuckets, &WrongSlopes, &Negated, &Mirrored, &Shifted, &Scaled, &Clamped,
                             &RoundedDistances, &OtherOrder}) {
    if (attempt(e)) return absl::OkStatus();
  }
  if (named) return absl::OkStatus();
  AddFault("bias_differs_from_expected",
           absl::StrFormat("%.3g instead of %.3g in head %d at distance %d", curve.middle(e.match.head, e.match.column),
                           e.made.at(e.first_head + e.match.head, e.match.column), e.first_head + e.match.head,
                           curve.first + e.match.column - e.origin),
           0.7, std::nullopt, diagnosis);
  return absl::OkStatus();
}

}  // namespace phasor::server
