#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_format.h"

#include "server/knowledge/alibi_lines.h"
#include "server/knowledge/alibi_slopes.h"
#include "server/knowledge/bias_candidate.h"
#include "server/knowledge/bias_fit.h"
#include "server/knowledge/bias_search.h"
#include "server/knowledge/diagnosis.h"
#include "server/text.h"

namespace phasor::server {
namespace {

void Observe(const BiasView& view, Diagnosis& diagnosis) {
  const BiasCurve& curve = view.by_distance;
  auto& seen = diagnosis.observations;
  if (view.queries > 0) {
    seen.push_back(
        Cat(curve.heads, curve.heads == 1 ? " head, " : " heads, ", view.queries, " queries, ", view.keys, " keys"));
  } else {
    seen.push_back(Cat(curve.heads, curve.heads == 1 ? " head, " : " heads, ", curve.count, " distances"));
  }
  if (view.masked_future > 0)
    seen.push_back(absl::StrFormat("%d keys after their query are masked with %g", view.masked_future, view.least_masked));
  if (view.masked_past > 0) seen.push_back(Cat(view.masked_past, " other values are masked"));
  if (!view.toeplitz) {
    seen.push_back(
        "rows differ at equal distances, so it is no bias of the distance only: not ALiBi, KERPLE, Sandwich or T5");
  }
  if (view.by_key) seen.push_back("all rows are the same: it depends on the key only");
}

// What is wrong whatever the scheme.
void FindBadRows(const BiasView& view, Diagnosis& diagnosis) {
  if (view.nans > 0) {
    AddFault("bias_not_finite", Cat(view.nans, " values are NaN or +infinity"), 1, view.first_bad_row, diagnosis);
  } else if (view.empty_rows > 0) {
    AddFault("bias_not_finite", Cat(view.empty_rows, " rows have every key masked"), 0.9, view.first_bad_row, diagnosis);
  }
  if (view.repeated_rows > 0 && !view.by_key) {
    AddFault("bias_rows_repeated", Cat(view.repeated_rows, " rows equal the row before"), 0.9, view.first_repeated_row,
             diagnosis);
  }
}

// Nothing but one value a head, at two distances or more.
bool IsConstant(const BiasCurve& curve) {
  int64_t columns = 0;
  for (int64_t head = 0; head < curve.heads; ++head) {
    std::optional<double> value;
    int64_t seen = 0;
    for (int64_t i = 0; i < curve.count; ++i) {
      if (!curve.has(head, i)) continue;
      const size_t at = curve.index(head, i);
      if (!value) value = curve.low[at];
      if (curve.low[at] != *value || curve.high[at] != *value) return false;
      ++seen;
    }
    columns = std::max(columns, seen);
  }
  return columns > 1;
}

bool HasValues(const BiasCurve& curve) {
  return std::any_of(curve.low.begin(), curve.low.end(), [](double value) { return value == value; });
}

void SortAndCut(int64_t most, Diagnosis& diagnosis) {
  std::stable_sort(diagnosis.hypotheses.begin(), diagnosis.hypotheses.end(),
                   [](const Hypothesis& a, const Hypothesis& b) { return a.confidence > b.confidence; });
  std::stable_sort(diagnosis.faults.begin(), diagnosis.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.confidence > b.confidence; });
  int64_t same = 0;
  for (const Hypothesis& hypothesis : diagnosis.hypotheses) same += hypothesis.reproduces ? 1 : 0;
  if (same > 1)
    diagnosis.observations.push_back(Cat(same, " specs give the same numbers: these alone cannot tell them apart"));
  if (static_cast<int64_t>(diagnosis.hypotheses.size()) > most) diagnosis.hypotheses.resize(static_cast<size_t>(most));
}

// Slopes by themselves are, with the sign turned, the bias at distance −1 of every form, so the same search serves.
absl::StatusOr<Diagnosis> DiagnoseSlopes(const Backend& backend, const DiagnoseInput& input) {
  const InputTensor& tensor = input.table.tensors.front();
  Diagnosis diagnosis;
  BiasCurve curve{tensor.dtype, static_cast<int64_t>(tensor.values.size()), 1, -1, tensor.values, {}};
  diagnosis.observations.push_back(Cat(curve.heads, curve.heads == 1 ? " slope" : " slopes"));
  const auto bad = std::count_if(curve.low.begin(), curve.low.end(), [](double value) { return !std::isfinite(value); });
  if (bad > 0) {
    AddFault("bias_not_finite", Cat(bad, " slopes are not finite"), 1, std::nullopt, diagnosis);
    return diagnosis;
  }
  if (std::all_of(curve.low.begin(), curve.low.end(), [](double value) { return value <= 0; })) {
    diagnosis.observations.push_back("the slopes carry the minus sign: they are to be multiplied by |query − key|");
  } else {
    for (double& value : curve.low) value = -value;
  }
  curve.high = curve.low;
  const auto status = SearchLines(backend, input, curve, /*slopes=*/true, diagnosis);
  if (!status.ok()) return status;
  if (input.expected) {
    if (auto compared = CompareExpected(backend, input, curve, /*queries=*/0, /*keys=*/0, diagnosis); !compared.ok())
      return compared;
  }
  for (Hypothesis& hypothesis : diagnosis.hypotheses) {
    hypothesis.content = InputContent::kSlopes;
    hypothesis.layout = "one slope a head";
    const auto* alibi = std::get_if<AlibiSpec>(&hypothesis.spec.spec);
    if (alibi != nullptr && !alibi->slopes.empty()) {  // no rule makes them: they are what was given
      hypothesis.any_numbers = true;
      hypothesis.confidence = std::min(hypothesis.confidence, 0.2);
    }
    hypothesis.first_position = 0;
  }
  SortAndCut(input.max_hypotheses, diagnosis);
  return diagnosis;
}

std::string LayoutOf(const BiasView& view, const Hypothesis& hypothesis) {
  const int64_t first = hypothesis.first_position;
  if (view.queries == 0) return Cat("heads by distance ", first, " … ", first + view.by_distance.count - 1);
  return view.by_distance.heads > 1 ? "heads, queries, keys" : "queries, keys";
}

}  // namespace

absl::StatusOr<Diagnosis> DiagnoseBias(const Backend& backend, const DiagnoseInput& input) {
  const InputTensor& tensor = input.table.tensors.front();
  if (tensor.values.empty()) return absl::InvalidArgumentError("no elements");
  if (input.table.content == InputContent::kSlopes) return DiagnoseSlopes(backend, input);
  const bool vector = input.table.content == InputContent::kBiasVector;
  const BiasView view = vector ? ViewVector(tensor) : ViewMatrix(tensor);
  Diagnosis diagnosis;
  Observe(view, diagnosis);
  FindBadRows(view, diagnosis);
  const bool by_key = !view.toeplitz && view.by_key;
  const BiasCurve& curve = by_key ? *view.by_key : view.by_distance;
  if (!HasValues(curve)) {
    diagnosis.observations.push_back("no finite value");
    return diagnosis;
  }
  if (IsConstant(curve)) {
    AddFault("bias_without_distance",
             absl::StrFormat("every distance has the same value (%g in the first head)", curve.middle(0, curve.count / 2)),
             vector && curve.low[0] != 0 ? 0.5 : 0.9, std::nullopt, diagnosis);
  } else if (!view.toeplitz && !by_key) {
    SearchOther(view, tensor, diagnosis);
  } else if (auto status = SearchBias(backend, input, view, curve, by_key, diagnosis); !status.ok()) {
    return status;
  }
  if (input.expected) {
    if (auto status = CompareExpected(backend, input, curve, view.queries, view.keys, diagnosis); !status.ok())
      return status;
  }
  for (Hypothesis& hypothesis : diagnosis.hypotheses) {
    hypothesis.content = vector ? InputContent::kBiasVector : InputContent::kBias;
    hypothesis.layout = LayoutOf(view, hypothesis);
  }
  SortAndCut(input.max_hypotheses, diagnosis);
  return diagnosis;
}

}  // namespace phasor::server
