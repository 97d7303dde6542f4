#include "server/knowledge/diagnose_inv_freq.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/angle_faults.h"
#include "server/knowledge/angle_schedules.h"
#include "server/knowledge/angle_variants.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

// Values against what the plan's frequencies round to.
Difference CompareFrequencies(const InputTensor& tensor, const AnglePlan& plan) {
  Difference difference;
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    const double have = tensor.values[i], make = RoundTo(tensor.dtype, plan.inv_freq[i]);
    const double ulps = UlpsApart(tensor.dtype, have, make);
    difference.max_difference = std::max(difference.max_difference, std::fabs(have - make));
    difference.max_ulps = std::max(difference.max_ulps, ulps);
    if (ulps > 1) ++difference.bad_rows;
  }
  return difference;
}

FrequencyList ListOf(const InputTensor& tensor, double more) {
  FrequencyList list;
  for (double value : tensor.values) {
    list.value.push_back(value);
    list.error.push_back(value > 0 ? 0.3 * UlpOf(tensor.dtype, value) / value + more : 0);
  }
  list.floor = 1e-16;
  return list;
}

struct Found {
  CanonicalSpec spec;
  Difference difference;
  std::string note;
  bool any_numbers = false;
};

// More entries are no head's: the widest has half as many pairs. A search of schedules takes a few milliseconds an entry.
constexpr size_t kMostEntries = 4096;
constexpr std::string_view kAsTheyAre = "the frequencies as they are, which follow no schedule known here";

bool IsCancelled(const CancelFlag* cancel) { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }

// Candidates beside the values, those that make them first.
std::vector<Found> Match(const InputTensor& tensor, const std::vector<Candidate>& candidates, const CancelFlag* cancel) {
  std::vector<Found> found;
  for (const Candidate& candidate : candidates) {
    if (IsCancelled(cancel)) break;
    auto canonical = Canonicalize(candidate.spec);
    if (!canonical.ok()) continue;
    const auto resolved = Resolve(*canonical, candidate.sequence_length, Precision::kExact);
    if (!resolved.ok() || !std::holds_alternative<AnglePlan>(resolved->plan)) continue;
    const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
    if (plan.inv_freq.size() != tensor.values.size()) continue;
    found.push_back({*std::move(canonical), CompareFrequencies(tensor, plan), candidate.note, candidate.note == kAsTheyAre});
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return a.difference.max_ulps < b.difference.max_ulps && !a.difference.reproduces();
  });
  return found;
}

bool Makes(const InputTensor& tensor, const Candidate& candidate) {
  const std::vector<Found> found = Match(tensor, {candidate}, nullptr);
  return !found.empty() && found[0].difference.reproduces();
}

// The first variant of a right spec that makes the values.
bool NameVariant(const InputTensor& tensor, const std::vector<Variant>& variants, Diagnosis& diagnosis) {
  for (const Variant& variant : variants) {
    const bool is_amplitude = variant.fault.starts_with("attention_factor");
    if (is_amplitude || !Makes(tensor, variant.candidate)) continue;
    AddFault(diagnosis, variant.fault, variant.symptom, variant.confidence);
    return true;
  }
  return false;
}

void AgainstExpected(const DiagnoseInput& input, Diagnosis& diagnosis) {
  const InputTensor& tensor = input.table.tensors[0];
  const auto resolved = Resolve(*input.expected, input.sequence_length.value_or(1), Precision::kExact);
  if (!resolved.ok() || !std::holds_alternative<AnglePlan>(resolved->plan)) return;
  if (Makes(tensor, {input.expected->spec, input.sequence_length, ""})) return;
  NameVariant(tensor, VariantsOf(*input.expected, input.sequence_length, *resolved, std::nullopt), diagnosis);
}

// Values with no more digits than a 16-bit float has, which are a plain schedule's once that is rounded too.
void CheckRounded(const InputTensor& tensor, Diagnosis& diagnosis) {
  for (DType narrow : {DType::kBF16, DType::kF16}) {
    if (SizeOf(tensor.dtype) == 2) return;
    const bool fits = std::all_of(tensor.values.begin(), tensor.values.end(),
                                  [&](double value) { return RoundTo(narrow, value) == value; });
    if (!fits) continue;
    FrequencyList list = ListOf(tensor, 0);
    list.floor = narrow == DType::kBF16 ? 0x1p-8 : 0x1p-11;
    for (const Candidate& candidate : RopeCandidates(list)) {
      const auto canonical = Canonicalize(candidate.spec);
      if (!canonical.ok()) continue;
      const auto resolved = Resolve(*canonical, candidate.sequence_length, Precision::kExact);
      if (!resolved.ok() || !std::holds_alternative<AnglePlan>(resolved->plan)) continue;
      if (NameVariant(tensor, RoundedFrequencies({canonical->spec, std::nullopt, ""}, *resolved), diagnosis)) return;
    }
  }
}

}  // namespace

absl::StatusOr<Diagnosis> DiagnoseInvFreq(const Backend&, const DiagnoseInput& input, Diagnosis diagnosis) {
  const InputTensor& tensor = input.table.tensors[0];
  for (size_t i = 0; i < tensor.values.size(); ++i) {
    if (std::isfinite(tensor.values[i]) && tensor.values[i] >= 0) continue;
    AddFault(diagnosis, "not_finite", absl::StrCat("entry ", i, " is no frequency: ", tensor.values[i]), 1);
    return diagnosis;
  }
  if (tensor.values.size() > kMostEntries && !input.expected) {
    diagnosis.observations.push_back(
        absl::StrCat(tensor.values.size(), " entries: schedules are looked for in up to ", kMostEntries));
    return diagnosis;
  }
  std::vector<Candidate> candidates;
  if (input.expected) candidates.push_back({input.expected->spec, input.sequence_length, "as expected"});
  for (double more : {0.0, 6e-8}) {
    if (tensor.values.size() > kMostEntries || IsCancelled(input.cancel)) break;
    for (Candidate& candidate : RopeCandidates(ListOf(tensor, more))) candidates.push_back(std::move(candidate));
  }
  candidates.push_back({GivenFrequencies(tensor.values), std::nullopt, std::string(kAsTheyAre)});
  std::vector<Found> matches = Match(tensor, candidates, input.cancel);
  if (IsCancelled(input.cancel)) return absl::CancelledError("diagnose: cancelled");
  for (Found& found : matches) {
    if (static_cast<int64_t>(diagnosis.hypotheses.size()) >= input.max_hypotheses) break;
    Hypothesis h;
    h.spec = std::move(found.spec);
    h.content = InputContent::kInvFreq;
    h.layout = "one per pair";
    h.max_ulps = found.difference.max_ulps;
    h.max_difference = found.difference.max_difference;
    h.reproduces = found.difference.reproduces();
    h.any_numbers = found.any_numbers;
    h.confidence = h.any_numbers ? 0.2 : h.reproduces ? 0.95 : 0.1;
    h.note = std::move(found.note);
    diagnosis.hypotheses.push_back(std::move(h));
  }
  if (input.expected) {
    AgainstExpected(input, diagnosis);
  } else if (tensor.values.size() <= kMostEntries) {
    CheckRounded(tensor, diagnosis);
    const auto* rope = diagnosis.hypotheses.empty() ? nullptr : std::get_if<RopeSpec>(&diagnosis.hypotheses[0].spec.spec);
    const auto* yarn = rope == nullptr ? nullptr : std::get_if<YarnSchedule>(&rope->schedule);
    if (yarn != nullptr && diagnosis.hypotheses[0].reproduces && *yarn->beta_fast < *yarn->beta_slow) {
      AddFault(diagnosis, "yarn_betas_swapped", absl::StrCat("the first frequency is divided by ", yarn->factor), 0.95);
    }
  }
  return diagnosis;
}

}  // namespace phasor::server
