// ALiBi's rule for slopes, which other schemes start from.
#ifndef PHASOR_KERNELS_ENCODINGS_ALIBI_H_
#define PHASOR_KERNELS_ENCODINGS_ALIBI_H_

#include <cstdint>
#include <vector>

#include "kernels/encodings/wide.h"

namespace phasor {

// With p the largest power of two ≤ heads: 2^(−max_bias·(h + 1)/p) for h < p, then 2^(−max_bias·(2k + 1)/(2p)), k = h − p.
std::vector<Wide> AlibiSlopes(int64_t heads, double max_bias);

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_ALIBI_H_
