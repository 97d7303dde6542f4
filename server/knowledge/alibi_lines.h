// Whether a bias is a straight line on each side of the query, and what its slopes may be.
#ifndef PHASOR_SERVER_KNOWLEDGE_ALIBI_LINES_H_
#define PHASOR_SERVER_KNOWLEDGE_ALIBI_LINES_H_

#include <optional>
#include <vector>

#include "kernels/encodings/spec.h"
#include "server/knowledge/bias_curve.h"
#include "server/knowledge/interval.h"

namespace phasor::server {

// b = slope_h·x for x ≤ 0 and as `form` says beyond, x = distance − origin.
struct AlibiLines {
  int64_t origin = 0;
  AlibiForm form = AlibiForm::kCausal;
  std::vector<Interval> slopes = {};            // of each head, all non-empty
  Interval future_factor = {};                  // two-sided form
  bool future_seen = false;                     // some value after the query
  bool future_zero = false;                     // which are all 0
  std::optional<DType> rounded_distances = {};  // x was rounded to it first
};

// Lines through (distance − origin) to within `ulps` of each value.
std::optional<AlibiLines> LinesAt(const BiasCurve& curve, int64_t origin, double ulps,
                                  std::optional<DType> rounded_distances = std::nullopt);

// The same, the origin being 0 if that fits, else the one that does. None: no straight lines, or all values are 0.
std::optional<AlibiLines> FindLines(const BiasCurve& curve);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ALIBI_LINES_H_
