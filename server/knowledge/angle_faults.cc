#include "server/knowledge/angle_faults.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/angle_positions.h"
#include "server/knowledge/angle_variants.h"
#include "server/knowledge/round_numbers.h"

namespace phasor::server {
namespace {

constexpr double kLeastStretch = 1.25;  // of a context that somebody would scale for

const RopeSpec* RopeOf(const Fit& fit) { return std::get_if<RopeSpec>(&fit.spec.spec); }

template <typename Schedule>
const Schedule* ScheduleOf(const Fit& fit) {
  const RopeSpec* rope = RopeOf(fit);
  return rope == nullptr ? nullptr : std::get_if<Schedule>(&rope->schedule);
}

// Faults of one table on one reading of it.
class FaultFinder {
 public:
  FaultFinder(AngleSearch& search, std::vector<Fit>& fits, Diagnosis& diagnosis)
      : search_(search), fits_(fits), diagnosis_(diagnosis), expected_(search.input().expected) {}

  absl::Status Run() {
    const bool fits_expected = !fits_.empty() && Reproduces() && expected_ && fits_.front().spec.spec == expected_->spec;
    if (expected_) CheckColumns();
    if (search_.table().arrangement.lacks_column) CheckOddWidth();
    if (expected_ && !fits_expected && !fits_.empty()) AgainstExpected();
    if (!expected_ && !fits_.empty()) OnItsOwn();
    if (absl::Status status = CheckFloat32(); !status.ok()) return status;
    CheckRows();
    CheckStart();
    return search_.is_cancelled() ? absl::CancelledError("cancelled") : absl::OkStatus();
  }

 private:
  bool Reproduces() const { return fits_.front().difference.reproduces(); }
  const PairTable& table() const { return search_.table(); }
  void Name(std::string_view name, std::string symptom, double confidence, std::optional<int64_t> row = std::nullopt) {
    AddFault(diagnosis_, name, std::move(symptom), confidence, row);
  }

  void CheckColumns();
  void CheckOddWidth();
  void AgainstExpected();
  bool TryVariants(const std::vector<Variant>& variants);
  void NameDifference();
  void OnItsOwn();
  void CheckRounded();
  void CheckWidth();
  absl::StatusOr<double> MovedByFloat32(const AnglePlan& exact);
  absl::Status CheckFloat32();
  void CheckRows();
  void CheckStart();
  std::vector<Candidate> Meant() const;

  AngleSearch& search_;
  std::vector<Fit>& fits_;
  Diagnosis& diagnosis_;
  const std::optional<CanonicalSpec>& expected_;
};

void FaultFinder::CheckColumns() {
  const ColumnOrder order = table().arrangement.order;
  bool is_interleaved = false, wants_interleaved = false;
  if (const auto* rope = std::get_if<RopeSpec>(&expected_->spec)) {
    if (order != ColumnOrder::kDuplicated && order != ColumnOrder::kInterleavedDuplicated) return;
    is_interleaved = order == ColumnOrder::kInterleavedDuplicated;
    wants_interleaved = rope->pairing == Pairing::kInterleaved;
    if (rope->pairing == Pairing::kInterleavedToHalf) return;
  } else if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&expected_->spec)) {
    if (order != ColumnOrder::kHalves && order != ColumnOrder::kAlternating) return;
    is_interleaved = order == ColumnOrder::kAlternating;
    wants_interleaved = sinusoidal->layout == SinusoidalLayout::kInterleaved;
  }
  if (is_interleaved == wants_interleaved) return;
  Name(is_interleaved ? "pairs_interleaved" : "pairs_half_split",
       absl::StrCat("columns are ", LayoutText(table().arrangement)), 0.97);
}

void FaultFinder::CheckOddWidth() {
  const InputContent content = table().arrangement.content;
  if (content == InputContent::kSinusoidal) return;
  Name("odd_width", absl::StrCat(table().columns, " columns, ", LayoutText(table().arrangement)), 0.95);
}

bool FaultFinder::TryVariants(const std::vector<Variant>& variants) {
  for (bool scan : {false, true}) {
    if (scan && !expected_) break;
    for (const Variant& variant : variants) {
      if (search_.is_cancelled()) return false;
      search_.AllowMore();
      auto fit = search_.TryAnywhere(variant.candidate, scan);
      if (!fit || !fit->difference.reproduces()) continue;
      Name(variant.fault, variant.symptom, variant.confidence);
      return true;
    }
  }
  return false;
}

void FaultFinder::AgainstExpected() {
  const auto resolved = Resolve(*expected_, search_.input().sequence_length.value_or(1), Precision::kExact);
  if (!resolved.ok() || !std::holds_alternative<AnglePlan>(resolved->plan)) return;
  std::optional<double> base;
  for (const Fit& fit : fits_) {
    if (ScheduleOf<DefaultSchedule>(fit) != nullptr && !base && fit.difference.max_difference < 0.05)
      base = RopeOf(fit)->base;
    if (const auto* ntk = ScheduleOf<NtkAwareSchedule>(fit); ntk != nullptr && !base) {
      const double d = static_cast<double>(*RopeOf(fit)->rotary_dim);
      base = *RopeOf(fit)->base * std::pow(ntk->factor, d / (d - 2));
    }
  }
  if (TryVariants(VariantsOf(*expected_, search_.input().sequence_length, *resolved, base))) return;
  if (Reproduces()) NameDifference();
}

// The table is right by itself, but not what was meant.
void FaultFinder::NameDifference() {
  const Fit& fit = fits_.front();
  if (fit.spec.spec == expected_->spec) return;
  const auto* want = std::get_if<RopeSpec>(&expected_->spec);
  const RopeSpec* have = RopeOf(fit);
  if (want == nullptr || have == nullptr) return;
  if (want->schedule.index() == have->schedule.index() && want->base && have->base && *want->base != *have->base) {
    Name("base_differs", absl::StrCat("base ", *have->base, " in place of ", *want->base), 0.9);
  } else if (want->schedule.index() != have->schedule.index() || want->schedule != have->schedule) {
    Name("scaling_differs",
         absl::StrCat("made by ", std::string(SchemeOf(fit.spec.spec).name), " in place of ",
                      std::string(SchemeOf(expected_->spec).name)),
         std::holds_alternative<InvFreqSchedule>(have->schedule) ? 0.5 : 0.9);
  }
}

void FaultFinder::OnItsOwn() {
  const Fit& best = fits_.front();
  if (const auto* yarn = ScheduleOf<YarnSchedule>(best); yarn != nullptr && Reproduces()) {
    if (*yarn->beta_fast < *yarn->beta_slow && yarn->factor >= kLeastStretch) {
      Name("yarn_betas_swapped", absl::StrCat("the first frequency is divided by ", yarn->factor, ", the last one kept"),
           0.95);
    }
    const double own = 0.1 * std::log(std::max(1.0, yarn->factor)) + 1;
    const double slack = 1e-3 + 4 * search_.estimates().amplitude_error;
    if (RopeOf(best)->attention_factor && std::fabs(*RopeOf(best)->attention_factor / (own * own) - 1) < slack) {
      Name("attention_factor_twice",
           absl::StrCat("cos and sin carry ", *RopeOf(best)->attention_factor, ", the square of ", own), 0.9);
    }
  }
  if (!Reproduces() || ScheduleOf<InvFreqSchedule>(best) != nullptr) CheckRounded();
  if (Reproduces() && ScheduleOf<DefaultSchedule>(best) != nullptr) CheckWidth();
}

// Frequencies that come near a plain schedule, and meet it rounded to 16 bits.
void FaultFinder::CheckRounded() {
  std::vector<Candidate> candidates;
  std::vector<double> nearest;
  FrequencyList list = search_.ListAt(fits_.front().start, nearest, false);
  for (double floor : {0x1p-8, 0x1p-11}) {
    list.floor = floor;
    // Below 2^-14 f16 has a step of its own.
    for (size_t i = 0; i < list.value.size() && floor < 0x1p-9; ++i) {
      if (list.value[i] > 0) list.error[i] += 0x1p-26 / list.value[i];
    }
    for (Candidate& candidate : RopeCandidates(list)) candidates.push_back(std::move(candidate));
  }
  size_t tried = 0;
  for (const Candidate& candidate : candidates) {
    const auto canonical = Canonicalize(candidate.spec);
    if (!canonical.ok() || ++tried > 24) continue;
    const auto resolved = Resolve(*canonical, candidate.sequence_length, Precision::kExact);
    if (!resolved.ok() || !std::holds_alternative<AnglePlan>(resolved->plan)) continue;
    if (TryVariants(RoundedFrequencies({canonical->spec, candidate.sequence_length, ""}, *resolved))) return;
  }
}

// A base that nobody writes, a power of one that everybody does.
void FaultFinder::CheckWidth() {
  const double base = *RopeOf(fits_.front())->base;
  // Frequencies in float32 leave a base some digits of its own.
  if (DigitsOf(base) <= 4 || DigitsOf(Roundest(base, 1e-5 * base)) <= 2) return;
  for (double times : {2.0, 4.0, 4.0 / 3, 8.0, 1.5, 8.0 / 3, 2.5}) {
    for (double known : {10000.0, 500000.0, 1000000.0}) {
      if (std::fabs(std::pow(base, times) / known - 1) > 2e-4) continue;
      Name("exponent_over_wrong_width",
           absl::StrCat("base ", base, " is ", known, " with exponents over ", times, " times the width"), 0.6);
      return;
    }
  }
}

// By how much float32 angles move values, before these are rounded to the table's type.
absl::StatusOr<double> FaultFinder::MovedByFloat32(const AnglePlan& exact) {
  constexpr int64_t kMostRows = 512;
  const Rows rows = search_.stretch();
  const int64_t count = std::min(rows.end - rows.begin, kMostRows);
  std::vector<int64_t> positions;
  for (int64_t k = 0; k < count; ++k) positions.push_back(fits_.front().start + rows.end - count + k);
  const auto right = AnglesAt(search_.backend(), exact, positions, DType::kF32);
  if (!right.ok()) return right.status();
  const auto rounded = AnglesAt(search_.backend(), fits_.front().plan(), positions, DType::kF32);
  if (!rounded.ok()) return rounded.status();
  double most = 0;
  for (size_t k = 0; k < right->cos.values.size(); ++k) {
    most = std::max({most, std::fabs(right->cos.values[k] - rounded->cos.values[k]),
                     std::fabs(right->sin.values[k] - rounded->sin.values[k])});
  }
  return most;
}

absl::Status FaultFinder::CheckFloat32() {
  if (fits_.empty() || !Reproduces() || !fits_.front().is_compat()) return absl::OkStatus();
  AnglePlan exact = fits_.front().plan();
  exact.precision = Precision::kExact;
  const Rows rows = search_.stretch();
  const auto difference = CompareRows(search_.backend(), table(), exact, fits_.front().start, {&rows, 1});
  if (!difference.ok()) return difference.status();
  const auto moved = MovedByFloat32(exact);
  if (!moved.ok()) return moved.status();
  std::string text = absl::StrCat("angles were rounded to float32, which moves values by up to ", *moved);
  if (*moved > kFloat32AngleMatters && difference->max_ulps > 2) {
    Name("float32_angle", std::move(text), 0.9);
  } else {
    diagnosis_.observations.push_back(std::move(text));
  }
  return absl::OkStatus();
}

// Schedules that the rows may be of, where no stretch told: what is expected, else what was found, else usual ones.
std::vector<Candidate> FaultFinder::Meant() const {
  std::vector<Candidate> meant;
  if (expected_) meant.push_back({expected_->spec, search_.input().sequence_length, ""});
  for (const Fit& fit : fits_) {
    if (meant.size() < 3) meant.push_back({fit.spec.spec, fit.sequence_length, ""});
  }
  if (!fits_.empty()) return meant;
  for (double base : KnownBases().first(10)) {
    RopeSpec rope;
    rope.head_dim = 2 * table().pairs;
    rope.base = base;
    rope.schedule = DefaultSchedule{};
    meant.push_back({rope, std::nullopt, ""});
  }
  if (table().pairs > 1) {
    SinusoidalSpec sinusoidal;
    sinusoidal.dim = 2 * table().pairs;
    sinusoidal.spacing = SinusoidalSpacing::kEndpointInclusive;
    meant.push_back({sinusoidal, std::nullopt, ""});
  }
  return meant;
}

void FaultFinder::CheckRows() {
  const Rows stretch = search_.stretch();
  if (stretch.begin == 0 && stretch.end == table().rows) return;
  for (const Candidate& candidate : Meant()) {
    if (search_.is_cancelled()) return;
    const auto canonical = Canonicalize(candidate.spec);
    if (!canonical.ok()) continue;
    const auto resolved = Resolve(*canonical, candidate.sequence_length.value_or(1), Precision::kExact);
    if (!resolved.ok() || !std::holds_alternative<AnglePlan>(resolved->plan)) continue;
    const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
    if (plan.pairs() < table().pairs || plan.axes > 1) continue;
    const auto pairs = static_cast<size_t>(table().pairs);
    KnownTurns turns{plan.inv_freq, std::vector<bool>(pairs, true), resolved->attention_factor};
    turns.frequency.resize(pairs);
    std::optional<int64_t> start;
    if (!fits_.empty()) start = fits_.front().start;
    const std::vector<int64_t> positions = DecodePositions(table(), turns, start);
    if (positions.empty()) continue;
    const size_t before = diagnosis_.faults.size();
    JudgePositions(table(), positions, diagnosis_);
    if (diagnosis_.faults.size() > before) return;
  }
}

void FaultFinder::CheckStart() {
  const std::optional<int64_t>& said = search_.input().table.first_position;
  if (!said || fits_.empty() || !Reproduces() || fits_.front().start == *said) return;
  if (search_.stretch().begin != 0) return;
  const int64_t start = fits_.front().start;
  const bool by_one = std::llabs(start - *said) == 1;
  Name(by_one ? "off_by_one_start" : "start_differs",
       absl::StrCat("row 0 stands at position ", start, " in place of ", *said), 0.95, 0);
}

}  // namespace

absl::Status FindAngleFaults(AngleSearch& search, std::vector<Fit>& fits, Diagnosis& diagnosis) {
  return FaultFinder(search, fits, diagnosis).Run();
}

}  // namespace phasor::server
