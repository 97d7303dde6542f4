// What a bias may be, checked by making it.
#ifndef PHASOR_SERVER_KNOWLEDGE_BIAS_CANDIDATE_H_
#define PHASOR_SERVER_KNOWLEDGE_BIAS_CANDIDATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "server/knowledge/bias_curve.h"
#include "server/knowledge/diagnosis.h"

namespace phasor::server {

struct BiasCandidate {
  EncodingSpec spec = {};
  int64_t origin = 0;           // the curve's distance that is the spec's 0
  int64_t first_head = 0;       // the curve's heads are the spec's first_head …
  std::string_view fault = {};  // the spec is what was meant
  std::string seen = {};        // of the fault
  std::string note = {};
  double confidence = 0;
};

// A spec's values, piece by piece. `canonical` must be a bias by distance.
class BiasMaker {
 public:
  static absl::StatusOr<BiasMaker> Of(const Backend& backend, const CanonicalSpec& canonical);

  int64_t heads() const { return VectorsOf(*DistancePlanOf(plan_)); }
  // [heads, count], distances first …
  absl::StatusOr<Grid> Make(int64_t first, int64_t count, DType dtype) const;
  // Against the curve. Errors: CANCELLED.
  absl::StatusOr<Match> Compare(const BiasCurve& curve, int64_t origin, int64_t first_head, const CancelFlag* cancel) const;

 private:
  BiasMaker(const Backend* backend, Plan plan) : backend_(backend), plan_(std::move(plan)) {}
  const Backend* backend_;
  Plan plan_;
};

// The hypothesis of a candidate; nothing where the spec is refused or is no bias by distance.
absl::StatusOr<std::optional<Hypothesis>> Judge(const Backend& backend, const BiasCurve& curve,
                                                const BiasCandidate& candidate, const CancelFlag* cancel);

// Adds a fault by its card's name.
void AddFault(std::string_view name, std::string seen, double confidence, std::optional<int64_t> row, Diagnosis& diagnosis);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_BIAS_CANDIDATE_H_
