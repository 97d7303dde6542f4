// Full biases from their vectors, on the caller's side: a bias by distance need not travel S/2 times larger than it is.
#ifndef PHASOR_CLIENT_EXPAND_BIAS_H_
#define PHASOR_CLIENT_EXPAND_BIAS_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/status.h"

namespace phasor::client {

// full[h, q, k] = vector[h, queries − 1 − q + k]: BIAS_FORM_FULL, bit for bit, from BIAS_FORM_VECTOR of the same window
// ([heads, queries + keys − 1]). Elements of 1 to 16 bytes, whatever they are. INVALID_ARGUMENT when the spans do not have
// the sizes that the extents say.
absl::Status ExpandBias(std::span<const std::byte> vector, int64_t element_size, int64_t heads, int64_t queries,
                        int64_t keys, std::span<std::byte> full);

}  // namespace phasor::client

#endif  // PHASOR_CLIENT_EXPAND_BIAS_H_
