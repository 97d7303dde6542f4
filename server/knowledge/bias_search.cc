#include "server/knowledge/bias_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

#include "server/knowledge/bias_fit.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

struct Search {
  const Backend& backend;
  const DiagnoseInput& input;
  const BiasView& view;
  Diagnosis& diagnosis;

  // Judges a candidate; whether it reproduces the curve.
  absl::StatusOr<bool> Try(const BiasCurve& curve, const BiasCandidate& candidate) {
    auto hypothesis = Judge(backend, curve, candidate, input.cancel);
    if (!hypothesis.ok()) return hypothesis.status();
    if (!*hypothesis) return false;
    const bool good = (*hypothesis)->reproduces;
    diagnosis.hypotheses.push_back(**std::move(hypothesis));
    return good;
  }
};

// Distances that may be the spec's 0: the curve's own first, then where the highest value is.
std::vector<int64_t> OriginsOf(const BiasCurve& curve) {
  std::vector<int64_t> origins;
  if (curve.first <= 0 && curve.first + curve.count > 0) origins.push_back(0);
  int64_t top = -1;
  for (int64_t i = 0; i < curve.count; ++i) {
    if (curve.has(0, i) && (top < 0 || curve.high[curve.index(0, i)] > curve.high[curve.index(0, top)])) top = i;
  }
  if (top >= 0 && curve.first + top != 0) origins.push_back(curve.first + top);
  return origins;
}

// For buckets the highest value says nothing: the ends, the middle, and the stretch of single steps.
std::vector<int64_t> BucketOrigins(const BiasCurve& curve) {
  std::vector<int64_t> origins{0, curve.first + curve.count - 1, curve.first, curve.first + curve.count / 2};
  const std::vector<int64_t> steps = Steps(curve);
  size_t best = 0, length = 0;
  for (size_t i = 0; i < steps.size();) {
    size_t j = i + 1;
    while (j < steps.size() && steps[j] == steps[j - 1] + 1) ++j;
    if (j - i > length) {
      best = i;
      length = j - i;
    }
    i = j;
  }
  const auto middle = static_cast<int64_t>(length / 2);
  constexpr int64_t kFarthest = 40;
  for (int64_t off = 0; off <= std::min(middle + 1, kFarthest) && length > 0; ++off) {
    for (const int64_t column : {steps[best] + middle - off, steps[best] + middle + off})
      origins.push_back(curve.first + column);
  }
  return origins;
}

void NoteOrigin(const Search& search, int64_t origin) {
  if (origin == 0 || !search.view.first_known) return;
  AddFault("bias_not_bottom_right_aligned",
           Cat("distance 0 is at key − query − (keys − queries) = ", origin, " instead of 0",
               origin == search.view.queries - search.view.keys ? ": the first query stands at the first key" : ""),
           0.9, std::nullopt, search.diagnosis);
}

absl::StatusOr<bool> TryKerple(Search& search, const BiasCurve& curve) {
  for (const int64_t origin : OriginsOf(curve)) {
    auto spec = FitKerple(curve, origin);
    if (!spec) continue;
    BiasCandidate candidate{.spec = *std::move(spec), .origin = origin, .confidence = 0.9};
    candidate.note = "a learned pair of numbers a head, fitted; the last digits are open within rounding";
    auto good = search.Try(curve, candidate);
    if (!good.ok() || !*good) return good;
    NoteOrigin(search, origin);
    return true;
  }
  return false;
}

absl::StatusOr<bool> TrySandwich(Search& search, const BiasCurve& curve) {
  for (const int64_t origin : OriginsOf(curve)) {
    const auto fit = FitSandwich(curve, origin);
    if (!fit) continue;
    BiasCandidate candidate{.spec = fit->spec, .origin = origin, .first_head = fit->first_head, .confidence = 0.95};
    if (fit->first_head > 0 || fit->spec.num_heads > curve.heads) {
      candidate.note = Cat("heads ", fit->first_head, " … ", fit->first_head + curve.heads - 1, " of ", fit->spec.num_heads);
    }
    if (fit->from_zero) {
      candidate.fault = "sandwich_term_from_zero";
      AddFault(candidate.fault,
               absl::StrFormat("the value at distance 1 is that of a sum from k = 0 (width %d, base %g)", *fit->spec.dim,
                               *fit->spec.base),
               0.95, std::nullopt, search.diagnosis);
    }
    auto good = search.Try(curve, candidate);
    if (!good.ok() || (!*good && !fit->from_zero)) return good;
    NoteOrigin(search, origin);
    return true;
  }
  return false;
}

std::string NoteOf(const BucketFit& fit) {
  std::string note = Cat("rows of the table are read off the bias; ",
                         fit.all_seen ? "every bucket was seen" : "buckets beyond what was seen are 0");
  if (!fit.all_seen) note += ", so num_buckets and max_distance are only the simplest that fit";
  return note;
}

absl::StatusOr<bool> TryBuckets(Search& search, const BiasCurve& curve) {
  // Fewer values than distances, else any bias would do.
  const auto steps = static_cast<int64_t>(Steps(curve).size());
  if (steps == 0 || steps >= curve.count - 2) return false;
  for (const int64_t origin : BucketOrigins(curve)) {
    const auto fit = FitBuckets(curve, origin);
    if (!fit) continue;
    BiasCandidate candidate{.spec = fit->spec, .origin = origin, .note = NoteOf(*fit), .confidence = 0.9};
    auto good = search.Try(curve, candidate);
    if (!good.ok() || !*good) return good;
    NoteOrigin(search, origin);
    return true;
  }
  if (const auto log = FitDebertaBuckets(curve)) {
    AddFault("t5_with_deberta_buckets",
             Cat("distances share values as in DeBERTa's buckets (position_buckets ", log->position_buckets,
                 ", max_relative_positions ", log->max_relative_positions, "), not as in T5's"),
             0.8, std::nullopt, search.diagnosis);
    return true;
  }
  return false;
}

// The far end of some heads stands at the lowest value of all. The curve without it.
std::optional<BiasCurve> WithoutClamp(const BiasCurve& curve, double* lowest) {
  constexpr int64_t kShortest = 3;
  *lowest = HUGE_VAL;
  for (const double value : curve.low) {
    if (value < *lowest) *lowest = value;
  }
  BiasCurve left = curve;
  bool any = false;
  for (int64_t head = 0; head < curve.heads; ++head) {
    int64_t at = 0;
    for (int64_t i = 0; i < curve.count; ++i) at += curve.has(head, i) && curve.low[curve.index(head, i)] == *lowest ? 1 : 0;
    if (at == 0) continue;
    any = any || at >= kShortest;
    for (int64_t i = 0; i < curve.count; ++i) {
      const size_t index = curve.index(head, i);
      if (left.low[index] == *lowest) left.low[index] = left.high[index] = kNaN;
    }
  }
  return any ? std::optional(std::move(left)) : std::nullopt;
}

absl::StatusOr<bool> TryClamped(Search& search, const BiasCurve& curve) {
  double lowest = 0;
  const auto left = WithoutClamp(curve, &lowest);
  if (!left) return false;
  Diagnosis part;
  Search inner{search.backend, search.input, search.view, part};
  if (auto status = SearchLines(inner.backend, inner.input, *left, false, part); !status.ok()) return status;
  for (const auto attempt : {&TryKerple, &TrySandwich}) {
    if (IsExplained(part)) break;
    if (auto good = attempt(inner, *left); !good.ok()) return good;
  }
  bool beyond = false;  // what was left out would lie below
  for (Hypothesis& hypothesis : part.hypotheses) {
    if (!hypothesis.reproduces) continue;
    const auto maker = BiasMaker::Of(search.backend, hypothesis.spec);
    if (!maker.ok()) return maker.status();
    const auto match = maker->Compare(curve, curve.first - hypothesis.first_position, 0, search.input.cancel);
    if (!match.ok()) return match.status();
    if (match->max_ulps <= 2) continue;
    beyond = true;
    hypothesis.reproduces = false;
    hypothesis.computed = "bias_clamped";
    hypothesis.note = absl::StrFormat("where the values are above %g", lowest);
    search.diagnosis.hypotheses.push_back(std::move(hypothesis));
  }
  if (!beyond) return false;
  for (Fault& fault : part.faults) search.diagnosis.faults.push_back(std::move(fault));
  AddFault("bias_clamped", absl::StrFormat("no value is below %g, where the distances before it lead further down", lowest),
           0.95, std::nullopt, search.diagnosis);
  return true;
}

absl::StatusOr<bool> TryLearned(Search& search, const BiasCurve& curve) {
  // A matrix has a distance in several rows; of a vector the rows of a table say nothing, and are not worth much room.
  constexpr int64_t kMostNumbers = 65536;
  const bool any_numbers = search.view.queries < 2;
  if (any_numbers && curve.heads * curve.count > kMostNumbers) return false;
  const auto fit = OneBucketEach(curve, 0);
  if (!fit) return false;
  BiasCandidate candidate{.spec = fit->spec, .confidence = 0.3};
  candidate.note =
      "one number for every distance and head: any bias by distance can be written so. The numbers follow no rule "
      "known here; they may be learned";
  auto good = search.Try(curve, candidate);
  if (!good.ok() || !*good) return good;
  search.diagnosis.hypotheses.back().any_numbers = any_numbers;
  return !any_numbers;
}

}  // namespace

bool IsExplained(const Diagnosis& diagnosis) {
  return std::any_of(diagnosis.hypotheses.begin(), diagnosis.hypotheses.end(),
                     [](const Hypothesis& hypothesis) { return hypothesis.reproduces; });
}

absl::Status SearchBias(const Backend& backend, const DiagnoseInput& input, const BiasView& view, const BiasCurve& curve,
                        bool by_key, Diagnosis& diagnosis) {
  if (absl::Status status = SearchLines(backend, input, curve, false, diagnosis); !status.ok()) return status;
  if (IsExplained(diagnosis) || !diagnosis.faults.empty()) {
    if (by_key) {
      diagnosis.observations.push_back(
          "slope·key instead of slope·(key − query), as BLOOM and MPT store it: a constant per row away, which the softmax "
          "removes");
    }
    return absl::OkStatus();
  }
  if (by_key) {
    AddFault("bias_rows_repeated", "every row is the same, and not a straight line: queries at other places need other rows",
             0.8, 1, diagnosis);
  }
  Search search{backend, input, view, diagnosis};
  for (const auto attempt : {&TryKerple, &TrySandwich, &TryBuckets, &TryClamped, &TryLearned}) {
    const auto done = attempt(search, curve);
    if (!done.ok()) return done.status();
    if (*done) return absl::OkStatus();
  }
  diagnosis.observations.push_back("follows none of ALiBi, KERPLE, Sandwich and T5's buckets");
  return absl::OkStatus();
}

}  // namespace phasor::server
