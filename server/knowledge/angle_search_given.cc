// Frequencies of no schedule.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/angle_amplitude.h"
#include "server/knowledge/angle_float32.h"
#include "server/knowledge/angle_search.h"

namespace phasor::server {

// What float32 libraries were asked for: their own frequencies are off by some units in the last place of a float32.
std::string AngleSearch::NearSchedule(const std::vector<double>& frequencies) {
  constexpr double kOff = 6e-7;
  FrequencyList list;
  list.floor = kOff;
  list.value = frequencies;
  list.error.assign(frequencies.size(), 1e-9);
  for (size_t i = 0; i < frequencies.size(); ++i) {
    if (!(frequencies[i] > 0)) list.error[i] = 1e300;
  }
  for (const Candidate& candidate : RopeCandidates(list)) {
    const auto canonical = Canonicalize(candidate.spec);
    if (!canonical.ok()) continue;
    const Resolved* resolved = ResolveOnce(*canonical, candidate.sequence_length);
    if (resolved == nullptr) continue;
    const std::vector<double>& exact = std::get<AnglePlan>(resolved->plan).inv_freq;
    double most = exact.size() == frequencies.size() ? 0 : HUGE_VAL;
    for (size_t i = 0; i < frequencies.size() && most <= kOff; ++i) {
      most = std::max(most, std::fabs(frequencies[i] - exact[i]) / exact[i]);
    }
    if (!(most <= kOff)) continue;
    const auto& base = std::get<RopeSpec>(canonical->spec).base;
    return absl::StrCat("frequencies of ", std::string(SchemeOf(canonical->spec).name),
                        base ? absl::StrCat(" of base ", *base) : "", " as libraries compute them in float32, off by up to ",
                        most, " of themselves");
  }
  return "";
}

std::optional<Fit> AngleSearch::FitGiven(int64_t start, bool float32) {
  std::vector<double> nearest;
  ListAt(start, nearest, float32);
  const std::vector<TurnRange> ranges = RangesAt(table_, estimates_, nearest, start, float32);
  AllowMore();
  // The ranges are narrower than the estimates were: a schedule may show now.
  const bool is_full = std::all_of(ranges.begin(), ranges.end(), [](const TurnRange& r) { return r.is_allowed; });
  if (is_full && TryRanges(ranges, start, float32 ? 1.3e-7 : 4e-15)) return std::nullopt;
  std::vector<double> frequencies;
  for (const TurnRange& range : ranges) frequencies.push_back(range.frequency);
  const auto kUnknown = "frequencies of no schedule that is known here";
  if (!float32) return Try({GivenFrequencies(frequencies), std::nullopt, kUnknown}, start);
  std::optional<Fit> best;
  for (double amplitude : AmplitudesOf(estimates_, table_.columns)) {
    RopeSpec given = GivenFrequencies(SearchFloat32(table_, ranges, amplitude, start, stretch()).frequencies);
    if (amplitude != 1) given.attention_factor = amplitude;
    auto fit = Try({given, std::nullopt, kUnknown, true}, start);
    if (fit && (!best || IsBetter(*fit, *best))) best = std::move(fit);
    if (best && best->difference.reproduces()) break;
  }
  if (best && best->difference.reproduces()) {
    const RopeSpec& rope = std::get<RopeSpec>(best->spec.spec);
    if (std::string near = NearSchedule(std::get<InvFreqSchedule>(rope.schedule).inv_freq); !near.empty()) best->note = near;
  }
  return best;
}

bool AngleSearch::TryRanges(const std::vector<TurnRange>& ranges, int64_t start, double floor) {
  FrequencyList list;
  list.floor = floor;
  list.amplitude = estimates_.amplitude;
  list.amplitude_error = estimates_.amplitude_error;
  list.sequence_length = input_.sequence_length;
  for (const TurnRange& range : ranges) {
    list.value.push_back(range.frequency);
    list.error.push_back(range.frequency > 0 ? 0.1 * range.width / range.frequency : 1e300);
  }
  if (TryList(list, start)) return true;
  return floor < 1e-14 && TryAll(FactorCandidates(list), start);
}

// Frequencies of no schedule, at starts that leave some.
bool AngleSearch::TryGiven(TurnRegions& regions, bool float32) {
  // Many starts of few pairs, few of many.
  const auto most = static_cast<size_t>(std::max<int64_t>(4, 256 / table_.pairs));
  std::vector<int64_t> starts = starts_;
  if (float32) {
    for (int64_t start : regions.Starts(kPositionLimit, kPositionLimit)) starts.push_back(start);
  }
  Float32Starts made(table_, estimates_, AmplitudesOf(estimates_, table_.columns).front());
  std::erase_if(starts,
                [&](int64_t start) { return is_cancelled() || !regions.Allows(start) || (float32 && !made.Allows(start)); });
  const size_t count = std::min(starts.size(), most);
  for (size_t k = 0; k < count; ++k) {
    if (is_cancelled()) return false;
    const int64_t start = starts[count == 1 ? 0 : k * (starts.size() - 1) / (count - 1)];
    if (auto given = FitGiven(start, float32)) Keep(*std::move(given));
    if (!found_.empty() && found_.front().difference.reproduces()) return true;
  }
  return false;
}

}  // namespace phasor::server
