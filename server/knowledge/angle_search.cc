#include "server/knowledge/angle_search.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "server/knowledge/angle_amplitude.h"
#include "server/knowledge/angle_polish.h"

namespace phasor::server {
namespace {

constexpr int kMostTried = 110;
constexpr size_t kMostFound = 4;

}  // namespace

bool IsBetter(const Fit& a, const Fit& b) {
  if (a.difference.reproduces() != b.difference.reproduces()) return a.difference.reproduces();
  return !a.difference.reproduces() && a.difference.max_difference < b.difference.max_difference;
}

AngleSearch::AngleSearch(const Backend& backend, const DiagnoseInput& input, PairTable table)
    : backend_(backend), input_(input), table_(std::move(table)) {
  Estimate();
  if (!table_.has_both() || !TurnsBackwards(estimates_)) return;
  std::swap(table_.cos, table_.sin);
  table_.arrangement.sin_first = !table_.arrangement.sin_first;
  if (table_.arrangement.content == InputContent::kCosSin && table_.arrangement.sin_first) {
    table_.arrangement.content = InputContent::kSinusoidal;
  }
  Estimate();
}

void AngleSearch::Estimate() {
  estimates_ = EstimatePairs(table_);
  // What is known to the digits of a double is a factor that people use.
  if (estimates_.amplitude_error > 1e-12 * estimates_.amplitude) return;
  estimates_.amplitude = AmplitudesOf(estimates_, table_.columns).front();
  estimates_.amplitude_error = 1.2e-16 * estimates_.amplitude;
}

const Resolved* AngleSearch::ResolveOnce(const CanonicalSpec& spec, std::optional<int64_t> length) {
  constexpr size_t kMost = 64;
  for (const Known& known : known_) {
    if (known.length == length && known.spec == spec.spec) return known.resolved.get();
  }
  Known known{spec.spec, length, nullptr};
  auto resolved = Resolve(spec, length, Precision::kExact);
  if (resolved.ok() && std::holds_alternative<AnglePlan>(resolved->plan)) {
    known.resolved = std::make_unique<Resolved>(*std::move(resolved));
  }
  if (known_.size() < kMost) known_.emplace_back();
  Known& place = known_[oldest_++ % kMost];
  place = std::move(known);
  return place.resolved.get();
}

std::optional<Fit> AngleSearch::Try(const Candidate& candidate, int64_t start) {
  std::optional<Fit> best;
  const auto own = Canonicalize(candidate.spec);
  if (!own.ok() || ++tried_ > kMostTried) return best;
  const std::optional<int64_t> length = candidate.sequence_length;
  const Resolved* resolved = ResolveOnce(*own, length);
  if (resolved == nullptr || std::get<AnglePlan>(resolved->plan).pairs() < table_.pairs) return best;
  const std::vector<EncodingSpec> specs =
      candidate.keeps_amplitude ? std::vector<EncodingSpec>{own->spec}
                                : WithAmplitude(own->spec, resolved->attention_factor, estimates_, table_.columns);
  for (const EncodingSpec& spec : specs) {
    auto canonical = Canonicalize(spec);
    if (!canonical.ok()) continue;
    resolved = ResolveOnce(*canonical, length);
    if (resolved == nullptr) continue;
    for (Precision precision : {Precision::kExact, Precision::kCompatF32}) {
      Fit fit{*canonical, *resolved, length, start, {}, candidate.note};
      std::get<AnglePlan>(fit.resolved.plan).precision = precision;
      const std::vector<Rows> sample = SampleOf(stretch());
      auto difference = CompareRows(backend_, table_, fit.plan(), start, sample);
      if (difference.ok() && difference->reproduces()) {
        const Rows all = stretch();
        difference = CompareRows(backend_, table_, fit.plan(), start, {&all, 1});
      }
      if (!difference.ok()) continue;
      fit.difference = *difference;
      if (!best || IsBetter(fit, *best)) best = std::move(fit);
      if (best->difference.reproduces()) return best;
    }
  }
  return best;
}

std::optional<Fit> AngleSearch::TryAnywhere(const Candidate& candidate, bool scan) {
  const auto canonical = Canonicalize(candidate.spec);
  if (!canonical.ok()) return std::nullopt;
  const Resolved* resolved = ResolveOnce(*canonical, candidate.sequence_length);
  if (resolved == nullptr) return std::nullopt;
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  if (plan.pairs() < table_.pairs || plan.axes > 1) return std::nullopt;
  // Angles of faster pairs may be rounded to float32 by more than says anything.
  constexpr double kFastest = 12;
  KnownTurns turns{plan.inv_freq, {}, estimates_.amplitude};
  turns.frequency.resize(static_cast<size_t>(table_.pairs));
  for (double frequency : turns.frequency) turns.use.push_back(frequency < kFastest);
  std::vector<int64_t> starts = starts_;
  const int64_t row = stretch().begin;
  const std::vector<int64_t> rows{row, estimates_.anchor, stretch().end - 1};
  if (scan) {
    for (int64_t position : ScanPositions(table_, turns, rows, 0, kPositionLimit + row)) starts.push_back(position - row);
  }
  std::optional<Fit> best;
  for (int64_t start : starts) {
    auto fit = Try(candidate, start);
    if (fit && (!best || IsBetter(*fit, *best))) best = std::move(fit);
    if (best && best->difference.reproduces()) break;
  }
  return best;
}

void AngleSearch::Keep(Fit fit) {
  for (const Fit& other : found_) {
    if (other.spec.spec == fit.spec.spec && other.start == fit.start) return;
  }
  const auto place = std::upper_bound(found_.begin(), found_.end(), fit, IsBetter);
  found_.insert(place, std::move(fit));
  if (found_.size() > kMostFound) found_.pop_back();
}

bool AngleSearch::TryAll(std::vector<Candidate> candidates, int64_t start) {
  bool found = false;
  int after = 0;
  for (const Candidate& candidate : candidates) {
    if (is_cancelled() || (found && after > 2)) break;
    // Another scheme with the same numbers is worth telling, another spelling of the same is not.
    if (found && &SchemeOf(candidate.spec) == &SchemeOf(found_.front().spec.spec)) continue;
    after += found ? 1 : 0;
    auto fit = Try(candidate, start);
    if (!fit) continue;
    found = found || fit->difference.reproduces();
    Keep(*std::move(fit));
  }
  return found;
}

bool AngleSearch::TrySchedules(int64_t start) {
  // Frequencies as they are; then as float32 libraries have them.
  for (bool float32 : {false, true}) {
    std::vector<double> nearest;
    if (TryList(ListAt(start, nearest, float32), start)) return true;
  }
  return false;
}

bool AngleSearch::TryList(const FrequencyList& list, int64_t start) {
  const Arrangement& a = table_.arrangement;
  const bool absolute = a.content == InputContent::kSinusoidal;
  const bool either = absolute || (a.content == InputContent::kCosSin && input_.table.content == InputContent::kUnknown);
  bool found = false;
  if (either) {
    const AbsoluteForm form{table_.columns, !a.sin_first, a.order == ColumnOrder::kAlternating, a.zero_column};
    found = TryAll(AbsoluteCandidates(list, form), start);
  }
  if (!found || !absolute) found = TryAll(RopeCandidates(list), start) || found;
  return found;
}

std::optional<Fit> AngleSearch::PolishBase(const Fit& fit) {
  const auto* rope = std::get_if<RopeSpec>(&fit.spec.spec);
  if (rope == nullptr || !rope->base || !std::holds_alternative<DefaultSchedule>(rope->schedule)) return std::nullopt;
  Candidate candidate{*rope, std::nullopt, fit.note};
  std::optional<Fit> best;
  Fit now = fit;
  for (int round = 0; round < 3; ++round) {
    AnglePlan plan = now.plan();
    plan.precision = Precision::kExact;
    const auto step = StepOf(backend_, table_, plan, fit.start, stretch());
    if (!step.ok()) return best;
    double sum = 0, weight = 0;
    for (size_t i = 0; i < step->change.size(); ++i) {
      const double slope = -static_cast<double>(i) / static_cast<double>(table_.pairs);
      sum += step->weight[i] * step->change[i] * slope, weight += step->weight[i] * slope * slope;
    }
    if (!(weight > 0)) return best;
    auto& next = std::get<RopeSpec>(candidate.spec);
    next.base = *next.base * std::exp(sum / weight);
    auto tried = Try(candidate, fit.start);
    if (!tried) return best;
    now = *tried;
    if (!best || IsBetter(*tried, *best)) best = std::move(tried);
  }
  return best;
}

// Starts that leave every pair some frequency: schedules at the first ones.
bool AngleSearch::TryBlindly(TurnRegions& regions) {
  constexpr size_t kMostStarts = 24;
  const size_t before = starts_.size();
  for (int64_t start : regions.Starts(kPositionLimit, kMostStarts)) AddStart(start);
  for (size_t k = before; k < starts_.size(); ++k) {
    if (is_cancelled()) return false;
    AllowMore();
    if (TrySchedules(starts_[k])) return true;
  }
  return false;
}

// Schedules that the frequencies alone allow, wherever they fit best: starts of coarse tables leave too much open.
bool AngleSearch::TryFromFrequencies() {
  constexpr size_t kMostSpecs = 12;
  for (bool float32 : {false, true}) {
    std::vector<double> nearest;
    const FrequencyList list = ListAt(-estimates_.anchor, nearest, float32);
    const Arrangement& a = table_.arrangement;
    const AbsoluteForm form{table_.columns, !a.sin_first, a.order == ColumnOrder::kAlternating, a.zero_column};
    std::vector<Candidate> candidates;
    if (a.content == InputContent::kSinusoidal) candidates = AbsoluteCandidates(list, form);
    if (candidates.empty()) candidates = RopeCandidates(list);
    for (size_t k = 0; k < std::min(candidates.size(), kMostSpecs); ++k) {
      if (is_cancelled()) return false;
      AllowMore();
      auto fit = TryAnywhere(candidates[k], true);
      if (!fit || !fit->difference.reproduces()) continue;
      Keep(*std::move(fit));
      return true;
    }
  }
  return false;
}

absl::StatusOr<std::vector<Fit>> AngleSearch::Find() {
  if (estimates_.count < 3) {
    TryScaledSteps();
    return found_;
  }
  FindStarts();
  if (input_.expected) {
    Candidate expected{input_.expected->spec, input_.sequence_length, "as expected"};
    auto fit = TryAnywhere(expected, false);
    if (!fit || !fit->difference.reproduces()) fit = TryAnywhere(expected, true);
    if (fit) {
      const bool done = fit->difference.reproduces();
      AddStart(fit->start);
      Keep(*std::move(fit));
      if (done) return found_;
    }
  }
  bool found = false;
  for (size_t k = 0; k < starts_.size() && !found; ++k) found = TrySchedules(starts_[k]);
  if (!found && !is_cancelled()) {
    const size_t before = starts_.size();
    std::vector<double> nearest;
    FrequencyList list = ListAt(-estimates_.anchor, nearest, false);
    ScanFrom(list);
    for (size_t k = before; k < starts_.size() && !found; ++k) found = TrySchedules(starts_[k]);
  }
  TurnRegions exact(table_, estimates_, false), rounded(table_, estimates_, true);
  if (!found) found = TryBlindly(exact);
  if (!found) found = TryBlindly(rounded);
  if (!found) found = TryFromFrequencies();
  if (!found && !found_.empty()) {
    if (auto polished = PolishBase(found_.front())) {
      found = polished->difference.reproduces();
      Keep(*std::move(polished));
    }
  }
  if (!found && !is_cancelled()) found = TryUsual();
  if (!found) found = TryGiven(exact, false);
  if (!found) found = TryGiven(rounded, true);
  if (is_cancelled()) return absl::CancelledError("cancelled");
  // What comes nearest is said where nothing makes the table.
  if (found_.empty()) {
    if (auto given = FitGiven(starts_.empty() ? 0 : starts_.front(), false)) Keep(*std::move(given));
  }
  return found_;
}

}  // namespace phasor::server
