// Biases that depend on the distance only, beside ALiBi. Part of spec.h.
#ifndef PHASOR_KERNELS_ENCODINGS_SPEC_BIAS_H_
#define PHASOR_KERNELS_ENCODINGS_SPEC_BIAS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "kernels/encodings/weight.h"

namespace phasor {

// T5 (arXiv 1910.10683): b[h, q, k] = table[bucket(k − q), h]·scale, buckets as DistanceBuckets (buckets.h) has them.
struct T5BucketSpec {
  std::optional<int64_t> num_buckets;   // 2 … 65536, bidirectional even and ≥ 4; default 32
  std::optional<int64_t> max_distance;  // above the buckets of one distance each; default 128
  std::optional<bool> bidirectional;    // default true
  int64_t num_heads = 0;                // default: the table's; needed without one
  std::optional<double> scale;          // finite; default 1
  int64_t distance_divisor = 1;         // 1 … 2^31 − 1: the bucket is that of trunc((k − q)/divisor)
  WeightRef table;                      // [num_buckets, num_heads], finite; without it there are only indices
  friend bool operator==(const T5BucketSpec&, const T5BucketSpec&) = default;
};

enum class KerpleForm : uint8_t {
  kLog = 1,    // −r1·ln(1 + r2·|Δ|)
  kPower = 2,  // −r1·|Δ|^r2
  kNemo = 3,   // −r1·ln(1 + r2·|Δ|^p)
};

// KERPLE (arXiv 2205.09921) and NeMo's form of it. One value per head in each list.
struct KerpleSpec {
  std::optional<KerpleForm> form;  // required
  int64_t num_heads = 0;           // default: the number of r1, else of r2
  std::vector<double> r1;          // 2^-256 … 2^64; NeMo's form: default ALiBi's slopes
  std::vector<double> r2;          // 2^-256 … 2^64; power: up to 2
  std::vector<double> p;           // NeMo's form only: 2^-256 … 2; default 1
  friend bool operator==(const KerpleSpec&, const KerpleSpec&) = default;
};

// Sandwich (arXiv 2212.10356): b[h] = (Σ_{k=1}^{dim/2} cos(Δ·base^(−2k/dim)) − dim/2)·num_heads/(8·(h + 1)).
struct SandwichSpec {
  int64_t num_heads = 0;       // 1 … 65536
  std::optional<int64_t> dim;  // even, 2 … 65536; default 128
  std::optional<double> base;  // > 0; default 10000
  friend bool operator==(const SandwichSpec&, const SandwichSpec&) = default;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SPEC_BIAS_H_
