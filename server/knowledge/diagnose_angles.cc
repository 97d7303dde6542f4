#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/angle_faults.h"
#include "server/knowledge/angle_search.h"
#include "server/knowledge/diagnose_inv_freq.h"
#include "server/knowledge/diagnosis.h"

namespace phasor::server {
namespace {

// A reading of the table and what was found with it.
struct Reading {
  AngleSearch search;
  std::vector<Fit> fits;

  bool is_exact() const { return !fits.empty() && fits.front().difference.reproduces(); }
  double nearness() const { return fits.empty() ? HUGE_VAL : fits.front().difference.max_difference; }
};

double ConfidenceOf(const Hypothesis& h, bool is_given) {
  if (h.reproduces) return is_given ? 0.7 : 0.99;
  return std::clamp(0.5 / (1 + 100 * h.max_difference), 0.01, 0.5);
}

// Columns that repeat others do so in every row.
bool RepeatsHold(const InputTensor& tensor, const PairTable& table) {
  const Arrangement& a = table.arrangement;
  if (a.order != ColumnOrder::kDuplicated && a.order != ColumnOrder::kInterleavedDuplicated) return true;
  for (int64_t row = 0; row < table.rows; ++row) {
    const double* values = tensor.values.data() + row * table.columns;
    for (int64_t i = 0; i < table.columns / 2; ++i) {
      const bool halves = a.order == ColumnOrder::kDuplicated;
      const double x = halves ? values[i] : values[2 * i], y = halves ? values[i + table.pairs] : values[2 * i + 1];
      if (x != y) return false;
    }
  }
  return true;
}

absl::StatusOr<Hypothesis> HypothesisOf(const AngleSearch& search, const Fit& fit) {
  const PairTable& table = search.table();
  Hypothesis h;
  h.spec = fit.spec;
  h.content = table.arrangement.content;
  h.layout = LayoutText(table.arrangement);
  h.first_position = fit.start;
  h.sequence_length = fit.sequence_length;
  h.computed = fit.is_compat() ? "compat_f32" : "exact";
  h.note = fit.note;
  Difference difference = fit.difference;
  const Rows all{0, table.rows};
  const auto& tensors = search.input().table.tensors;
  const bool is_absolute = !std::holds_alternative<RopeSpec>(fit.spec.spec);
  if (is_absolute) {
    const auto compared = CompareAbsolute(search.backend(), tensors[0], fit.spec.spec, fit.resolved.plan, fit.start);
    if (!compared.ok()) return compared.status();
    difference = *compared;
  } else if (search.stretch().begin != 0 || search.stretch().end != table.rows || !difference.reproduces()) {
    const auto compared = CompareRows(search.backend(), table, fit.plan(), fit.start, {&all, 1});
    if (!compared.ok()) return compared.status();
    difference = *compared;
  }
  h.max_ulps = difference.max_ulps;
  h.max_difference = difference.max_difference;
  h.reproduces = difference.reproduces();
  for (const InputTensor& tensor : tensors) h.reproduces = h.reproduces && RepeatsHold(tensor, table);
  if (!is_absolute && (table.arrangement.zero_column || table.arrangement.lacks_column)) h.reproduces = false;
  const auto* rope = std::get_if<RopeSpec>(&fit.spec.spec);
  h.confidence = ConfidenceOf(h, rope != nullptr && std::holds_alternative<InvFreqSchedule>(rope->schedule));
  return h;
}

// The rows that can be used, as a table of its own.
InputTable Cut(const InputTable& table, Rows rows) {
  InputTable cut = table;
  if (cut.first_position) *cut.first_position += rows.begin;
  for (InputTensor& tensor : cut.tensors) {
    const int64_t columns = tensor.shape.back();
    tensor.values.assign(tensor.values.begin() + rows.begin * columns, tensor.values.begin() + rows.end * columns);
    tensor.shape = {rows.end - rows.begin, columns};
  }
  return cut;
}

// fairseq's row of zeros beside the rows that were used: the spec has a field for it.
absl::Status TryPaddingRow(const Backend& backend, const DiagnoseInput& input, Rows usable, Hypothesis& h) {
  const auto* found = std::get_if<SinusoidalSpec>(&h.spec.spec);
  if (found == nullptr || !h.reproduces) return absl::OkStatus();
  h.reproduces = false;
  SinusoidalSpec with = *found;
  with.padding_row = h.first_position + (usable.begin > 0 ? usable.begin - 1 : usable.end);
  auto canonical = Canonicalize(with);
  if (!canonical.ok()) return absl::OkStatus();
  const Precision precision = h.computed == "exact" ? Precision::kExact : Precision::kCompatF32;
  const auto resolved = Resolve(*canonical, std::nullopt, precision);
  if (!resolved.ok()) return resolved.status();
  const auto difference =
      CompareAbsolute(backend, input.table.tensors[0], canonical->spec, resolved->plan, h.first_position);
  if (!difference.ok()) return difference.status();
  if (!difference->reproduces()) return absl::OkStatus();
  h.spec = *std::move(canonical);
  h.reproduces = true;
  h.max_ulps = difference->max_ulps;
  h.max_difference = difference->max_difference;
  return absl::OkStatus();
}

void Describe(const DiagnoseInput& input, Diagnosis& diagnosis) {
  const InputTensor& tensor = input.table.tensors[0];
  std::string shape;
  for (int64_t extent : tensor.shape) absl::StrAppend(&shape, shape.empty() ? "" : ", ", extent);
  diagnosis.observations.push_back(absl::StrCat(input.table.tensors.size() == 2 ? "two tensors [" : "one tensor [", shape,
                                                "] of ", std::string(Name(tensor.dtype))));
}

absl::Status Finish(const DiagnoseInput& input, Reading& reading, Rows usable, int64_t total_rows, Diagnosis& diagnosis) {
  for (Fit& fit : reading.fits) {
    if (static_cast<int64_t>(diagnosis.hypotheses.size()) >= input.max_hypotheses) break;
    auto hypothesis = HypothesisOf(reading.search, fit);
    if (!hypothesis.ok()) return hypothesis.status();
    hypothesis->first_position -= usable.begin;
    if (usable.end - usable.begin < total_rows) {
      const bool may_be_padding = diagnosis.faults.empty();
      if (!may_be_padding || !std::holds_alternative<SinusoidalSpec>(hypothesis->spec.spec)) hypothesis->reproduces = false;
      const absl::Status status = TryPaddingRow(reading.search.backend(), input, usable, *hypothesis);
      if (!status.ok()) return status;
    }
    diagnosis.hypotheses.push_back(*std::move(hypothesis));
  }
  std::stable_sort(diagnosis.hypotheses.begin(), diagnosis.hypotheses.end(), [](const Hypothesis& a, const Hypothesis& b) {
    return a.reproduces != b.reproduces ? a.reproduces : a.confidence > b.confidence;
  });
  std::stable_sort(diagnosis.faults.begin(), diagnosis.faults.end(),
                   [](const Fault& a, const Fault& b) { return a.confidence > b.confidence; });
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Diagnosis> DiagnoseAngles(const Backend& backend, const DiagnoseInput& input) {
  Diagnosis diagnosis;
  if (input.table.tensors.empty() || input.table.tensors[0].values.empty()) {
    diagnosis.observations.push_back("nothing to look at");
    return diagnosis;
  }
  Describe(input, diagnosis);
  if (input.table.content == InputContent::kInvFreq) return DiagnoseInvFreq(backend, input, std::move(diagnosis));
  RowHealth health = InspectRows(input.table);
  for (Fault& fault : health.faults) diagnosis.faults.push_back(std::move(fault));
  for (std::string& text : health.observations) diagnosis.observations.push_back(std::move(text));
  DiagnoseInput usable = input;
  const int64_t columns = input.table.tensors[0].shape.back();
  const int64_t rows = static_cast<int64_t>(input.table.tensors[0].values.size()) / columns;
  if (health.usable.end - health.usable.begin < rows) usable.table = Cut(input.table, health.usable);
  if (health.usable.end - health.usable.begin < 4 || columns < 2) {
    diagnosis.observations.push_back("too few rows or columns that can be used to tell what it is");
    return diagnosis;
  }
  std::optional<Reading> best;
  for (PairTable& table : ReadPairs(usable.table)) {
    Reading reading{AngleSearch(backend, usable, std::move(table)), {}};
    auto fits = reading.search.Find();
    if (!fits.ok()) return fits.status();
    reading.fits = *std::move(fits);
    if (!best || (reading.is_exact() && !best->is_exact()) ||
        (reading.is_exact() == best->is_exact() && reading.nearness() < best->nearness())) {
      best.emplace(std::move(reading));
    }
    if (best->is_exact()) break;
  }
  if (!best) return diagnosis;
  diagnosis.observations.push_back(absl::StrCat("columns: ", LayoutText(best->search.table().arrangement)));
  if (absl::Status status = FindAngleFaults(best->search, best->fits, diagnosis); !status.ok()) return status;
  if (absl::Status status = Finish(input, *best, health.usable, rows, diagnosis); !status.ok()) return status;
  return diagnosis;
}

}  // namespace phasor::server
