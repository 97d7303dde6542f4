// T5's buckets of distances.
#ifndef PHASOR_KERNELS_ENCODINGS_BUCKETS_H_
#define PHASOR_KERNELS_ENCODINGS_BUCKETS_H_

#include <cstdint>
#include <vector>

namespace phasor {

// T5's bucket of every distance key − query = −reach … reach, in this order. Bidirectional: N = num_buckets/2, N is added
// where the distance is positive, n is its magnitude; else N = num_buckets and n = max(−distance, 0). With e = N/2 (whole)
// the bucket is n where n < e, else min(N − 1, e + trunc(ln(n/e)/ln(max_distance/e)·(N − e))), the logarithms correctly
// rounded and the rest in double, as the published code has it. num_buckets ≥ 2 (bidirectional: even, ≥ 4), max_distance >
// e.
std::vector<int32_t> T5Buckets(int64_t reach, int64_t num_buckets, int64_t max_distance, bool bidirectional);

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_BUCKETS_H_
