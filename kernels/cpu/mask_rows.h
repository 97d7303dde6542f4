// Which keys a row of a mask leaves, as runs: what causal, window, chunk, prefix and packing come to.
#ifndef PHASOR_KERNELS_CPU_MASK_ROWS_H_
#define PHASOR_KERNELS_CPU_MASK_ROWS_H_

#include <array>
#include <cstdint>

#include "absl/status/status.h"

#include "kernels/core/dtype.h"
#include "kernels/tasks/mask_tasks.h"

namespace phasor {

// Keys [begin, end).
struct KeyRun {
  int64_t begin = 0;
  int64_t end = 0;
  bool empty() const { return begin >= end; }
};

// At most two runs, in order, apart from each other, none empty.
struct KeyRuns {
  std::array<KeyRun, 2> runs;
  int count = 0;
};

// The keys that query q of batch row b may see, key_padding and `additive` aside.
KeyRuns VisibleRuns(const MaskRule& rule, int64_t keys, int64_t b, int64_t q);

// False when no key is left to the row (MaskRule).
bool HasKey(const MaskRule& rule, const KeyRuns& visible, int64_t b, int64_t h, int64_t q);

// Where the row's additive entries begin.
inline int64_t AdditiveRow(const MaskRule& rule, int64_t b, int64_t h, int64_t q) {
  return b * rule.additive_batch_stride + h * rule.additive_head_stride + q * rule.additive_query_stride;
}

// What masked entries of a row hold, as bits of `dtype`: of rows with a key, and of rows without.
struct MaskedBits {
  uint64_t entry = 0;
  uint64_t row = 0;
  bool differ() const { return entry != row; }
};
MaskedBits MaskedBitsOf(const MaskRule& rule, DType dtype);

// OK, or INVALID_ARGUMENT where the rule does not fit the sizes.
absl::Status CheckRule(const MaskRule& rule, DType dtype, int64_t batch, int64_t queries, int64_t keys);

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_MASK_ROWS_H_
