// MaskTask on a device: first the keys that every row leaves, then the elements that change, 16 bytes a thread.
#ifndef PHASOR_KERNELS_CUDA_MASK_H_
#define PHASOR_KERNELS_CUDA_MASK_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/cuda/pieces.h"
#include "kernels/tasks/mask_tasks.h"

namespace phasor::cuda {

// What a row leaves: keys [begin, end) of both runs. No key at all, or none left by padding and additive: see no_key().
struct alignas(16) KeptKeys {
  uint32_t first_begin = 0, first_end = 0;
  uint32_t second_begin = 0, second_end = 0;

  // A row whose every element is MaskedBits::row.
  static constexpr KeptKeys None() { return {1, 0, 0, 0}; }
  constexpr bool no_key() const { return first_begin > first_end; }
};
inline constexpr int64_t kMaxMaskedKeys = UINT32_MAX;

// Rows of keys without gaps, aligned to 16 bytes as a whole: row b·per_batch + h·per_head + q·per_query − first_row of them
// is added to scores of (b, h, q).
struct AdditiveRows {
  const void* data = nullptr;  // null: none
  DType dtype = DType::kF32;
  int64_t first_row = 0;
  int64_t per_batch = 0, per_head = 0, per_query = 0;
};

// Rows [begin, end) of a chunk whose row 0 is row first_row of the task: (batch, head, query), the last fastest.
struct MaskedRows {
  int64_t first_row = 0, begin = 0, end = 0;
  int64_t heads = 1, queries = 1, keys = 0;
};

// kept[r] for every row r of `rows`. A work is a row.
struct KeptKeysParams {
  MaskedRows rows;
  MaskRule rule;  // addresses are the device's; `additive` is not used
  AdditiveRows additive;
  bool finds_rows_without_key = false;
  KeptKeys* kept = nullptr;

  int64_t works() const { return rows.end - rows.begin; }
};

// Masks rows of `data` in place. A work is 16 bytes of it.
struct MaskParams {
  MaskedRows rows;
  DType dtype = DType::kF32;
  const KeptKeys* kept = nullptr;
  uint64_t entry_bits = 0;               // of masked entries
  uint64_t row_bits = 0;                 // of rows without a key
  const uint8_t* key_padding = nullptr;  // null: all keys are there
  int64_t key_padding_batch_stride = 0;
  AdditiveRows additive;
  bool hides_minus_infinity = false;
  void* data = nullptr;  // of the chunk; aligned to 16 bytes

  int64_t works() const { return PiecesOf(rows.begin * rows.keys, rows.end * rows.keys, SizeOf(dtype)); }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_MASK_H_
