// Fits of the biases that are no straight lines: parameters for which a spec may make the numbers. Whether it does is for
// the kernels to say.
#ifndef PHASOR_SERVER_KNOWLEDGE_BIAS_FIT_H_
#define PHASOR_SERVER_KNOWLEDGE_BIAS_FIT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/encodings/spec.h"
#include "server/knowledge/bias_curve.h"

namespace phasor::server {

// KERPLE's parameters for every head; `curve` has distances from `origin`. The log form first, then power, then NeMo's.
std::optional<KerpleSpec> FitKerple(const BiasCurve& curve, int64_t origin);

struct SandwichFit {
  SandwichSpec spec;
  int64_t first_head = 0;
  bool from_zero = false;  // the sum starts at k = 0: a fault
};
std::optional<SandwichFit> FitSandwich(const BiasCurve& curve, int64_t origin);

// Buckets in which every head has one value each, and the table of them; rows of buckets that are not seen are 0.
struct BucketFit {
  T5BucketSpec spec;
  bool all_seen = false;  // every boundary of the buckets was seen
};
std::optional<BucketFit> FitBuckets(const BiasCurve& curve, int64_t origin);
// DeBERTa's buckets, with distances as the curve has them.
struct DebertaBuckets {
  int64_t position_buckets = 0, max_relative_positions = 0;
};
std::optional<DebertaBuckets> FitDebertaBuckets(const BiasCurve& curve);
// One learned number per distance, the honest answer for a bias that follows no rule. None: too long, or no origin.
std::optional<BucketFit> OneBucketEach(const BiasCurve& curve, int64_t origin);

// Columns where some head's value differs from that of the column before.
std::vector<int64_t> Steps(const BiasCurve& curve);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_BIAS_FIT_H_
