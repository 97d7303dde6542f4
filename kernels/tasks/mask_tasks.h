// Attention masks as tasks: which keys a query may see, and an in-place pass that hides the others.
#ifndef PHASOR_KERNELS_TASKS_MASK_TASKS_H_
#define PHASOR_KERNELS_TASKS_MASK_TASKS_H_

#include <cstdint>
#include <optional>
#include <span>

#include "kernels/core/dtype.h"

namespace phasor {

// Places: query q stands at query_offset + q and key k at k. With packing (query_cu_seqlens not empty) both count within
// their sequence s instead: query q at q − query_cu_seqlens[s] + (keys of s − queries of s), key k at k − key_cu_seqlens[s],
// and query_offset has no effect. A key is visible when all of these hold:
//   its sequence is the query's (packing);
//   its chunk is the query's: floor(place / chunk) is the same (chunk > 0);
//   its place is below the row's prefix, or else
//     not after the query (causal), less than window_before places before it (window_before > 0), and less than
//     window_after places after it (window_after > 0);
//   key_padding is not 0 for it.
// Masked keys – hidden ones, and with masked_value those of an additive of −∞ – get −∞, or masked_value rounded to the type.
// `additive` is added to the others: in f64 when either is f64, else in f32, then rounded. A row has no key left when none
// is visible or all visible ones have an additive of −∞; it is −∞ throughout, or the lowest number (lowest_finite_rows).
//
// A view: whoever makes it owns what it points to (kernels/program/masking.h does).
struct MaskRule {
  bool causal = false;
  int64_t window_before = 0;  // places; 0: no such limit
  int64_t window_after = 0;
  int64_t chunk = 0;
  int64_t query_offset = 0;
  std::span<const int64_t> prefix;  // per batch row, or one for all, or none; keys, ≥ 0
  // Cumulative lengths of both sides, of equal size: from 0, not falling, to the number of queries and of keys.
  std::span<const int64_t> query_cu_seqlens;
  std::span<const int64_t> key_cu_seqlens;
  const uint8_t* key_padding = nullptr;  // [keys] or [batch, keys]; null: all keys are there
  int64_t key_padding_batch_stride = 0;  // keys, or 0: one row for all
  const void* additive = nullptr;        // rows of keys without gaps; null: none
  DType additive_dtype = DType::kF32;    // IsFloat
  int64_t additive_batch_stride = 0;     // elements; 0: one for all
  int64_t additive_head_stride = 0;
  int64_t additive_query_stride = 0;
  std::optional<double> masked_value;  // finite
  bool lowest_finite_rows = false;
};

// Masks a matrix of scores or biases in place. Rows are (batch, head, query): row r is query r % queries of head
// (r / queries) % heads. data[r·keys + k] is of `dtype`. NaN results are the canonical quiet NaN; entries that are neither
// masked nor added to keep their bits.
struct MaskTask {
  DType dtype = DType::kF32;  // IsFloat
  int64_t batch = 1;
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  const MaskRule* rule = nullptr;
  void* data = nullptr;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_MASK_TASKS_H_
