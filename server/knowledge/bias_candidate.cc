#include "server/knowledge/bias_candidate.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"

namespace phasor::server {
namespace {

constexpr int64_t kValuesAtOnce = int64_t{1} << 18;

BiasCurve Part(const BiasCurve& curve, int64_t begin, int64_t count) {
  BiasCurve part{curve.dtype, curve.heads, count, curve.first + begin, {}, {}};
  for (int64_t head = 0; head < curve.heads; ++head) {
    const auto from = static_cast<std::ptrdiff_t>(curve.index(head, begin));
    part.low.insert(part.low.end(), curve.low.begin() + from, curve.low.begin() + from + count);
    part.high.insert(part.high.end(), curve.high.begin() + from, curve.high.begin() + from + count);
  }
  return part;
}

}  // namespace

absl::StatusOr<BiasMaker> BiasMaker::Of(const Backend& backend, const CanonicalSpec& canonical) {
  auto resolved = Resolve(canonical, std::nullopt, Precision::kExact);
  if (!resolved.ok()) return resolved.status();
  const auto plan = DistancePlanOf(resolved->plan);
  if (!plan || IsNull(*plan)) return absl::InvalidArgumentError("no bias by distance");
  if (const auto* buckets = std::get_if<BucketPlan>(&resolved->plan); buckets != nullptr && !buckets->table) {
    return absl::InvalidArgumentError("a bias without its table");
  }
  return BiasMaker(&backend, std::move(resolved->plan));
}

absl::StatusOr<Grid> BiasMaker::Make(int64_t first, int64_t count, DType dtype) const {
  return MakeDistances(*backend_, *DistancePlanOf(plan_), first, count, dtype);
}

absl::StatusOr<Match> BiasMaker::Compare(const BiasCurve& curve, int64_t origin, int64_t first_head,
                                         const CancelFlag* cancel) const {
  Match match;
  bool any = false;
  const int64_t step = std::max<int64_t>(kValuesAtOnce / heads(), 1);
  for (int64_t begin = 0; begin < curve.count; begin += step) {
    if (cancel != nullptr && *cancel) return absl::CancelledError("cancelled");
    const int64_t count = std::min(step, curve.count - begin);
    const auto made = Make(curve.first + begin - origin, count, curve.dtype);
    if (!made.ok()) return made.status();
    const bool whole = count == curve.count;
    Match part = CompareCurve(whole ? curve : Part(curve, begin, count), *made, first_head);
    if (part.max_ulps == std::numeric_limits<double>::infinity() && part.max_difference == 0) continue;  // nothing there
    any = true;
    part.column += begin;
    part.max_difference = std::max(part.max_difference, match.max_difference);
    if (part.max_ulps >= match.max_ulps) {
      match = part;
    } else {
      match.max_difference = part.max_difference;
    }
  }
  if (!any) match.max_ulps = std::numeric_limits<double>::infinity();
  return match;
}

absl::StatusOr<std::optional<Hypothesis>> Judge(const Backend& backend, const BiasCurve& curve,
                                                const BiasCandidate& candidate, const CancelFlag* cancel) {
  auto canonical = Canonicalize(candidate.spec);
  if (!canonical.ok()) return std::nullopt;
  const auto maker = BiasMaker::Of(backend, *canonical);
  if (!maker.ok() || candidate.first_head + curve.heads > maker->heads()) return std::nullopt;
  const auto match = maker->Compare(curve, candidate.origin, candidate.first_head, cancel);
  if (!match.ok()) {
    if (absl::IsCancelled(match.status())) return match.status();
    return std::nullopt;  // distances that the spec does not have
  }
  Hypothesis hypothesis;
  hypothesis.spec = *std::move(canonical);
  hypothesis.first_position = curve.first - candidate.origin;
  if (!candidate.fault.empty()) hypothesis.computed = std::string(candidate.fault);
  hypothesis.max_ulps = match->max_ulps;
  hypothesis.max_difference = match->max_difference;
  hypothesis.reproduces = candidate.fault.empty() && match->good();
  hypothesis.confidence = candidate.confidence;
  if (candidate.fault.empty() && !match->good()) hypothesis.confidence *= 0.5 / (1 + match->max_ulps / 64);
  hypothesis.note = candidate.note;
  return hypothesis;
}

void AddFault(std::string_view name, std::string seen, double confidence, std::optional<int64_t> row, Diagnosis& diagnosis) {
  for (const Fault& fault : diagnosis.faults) {
    if (fault.card->name == name) return;
  }
  diagnosis.faults.push_back({FindFault(name), std::move(seen), confidence, row});
}

}  // namespace phasor::server
