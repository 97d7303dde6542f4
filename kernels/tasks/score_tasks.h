// Tasks of attention scores [batch, heads, queries, keys]: products of queries and keys, terms that depend on them and on
// where they stand, sums, softmax. All arithmetic is f64. Part of backend.h.
#ifndef PHASOR_KERNELS_TASKS_SCORE_TASKS_H_
#define PHASOR_KERNELS_TASKS_SCORE_TASKS_H_

#include <cstdint>
#include <span>

#include "kernels/core/dtype.h"

namespace phasor {

// Rows of every task below are (batch, head, query): row r is query r % queries of head (r / queries) % heads of batch row
// r / (queries·heads). `scores` points at row 0, [rows, keys]; only rows that run are touched.
struct ScoreShape {
  int64_t batch = 1;
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t dim = 0;  // of a head

  int64_t rows() const { return batch * heads * queries; }
};

// Vectors of a head: channel d of token s of head h of batch row b at data + b·batch_stride + s·token_stride + h·head_stride
// + d (elements).
struct HeadVectors {
  DType dtype = DType::kF32;  // IsFloat
  const void* data = nullptr;
  int64_t batch_stride = 0;
  int64_t token_stride = 0;
  int64_t head_stride = 0;
};

// Queries x = q·factor + add, each step rounded to f64.
struct QueryVectors {
  HeadVectors q;
  const double* factor = nullptr;   // [queries] or [batch, queries]; null: 1
  int64_t factor_batch_stride = 0;  // queries, or 0
  const double* add = nullptr;      // [heads, dim]; null: 0
};

// Keys; query head h reads key head h / group.
struct KeyVectors {
  HeadVectors k;
  int64_t group = 1;
};

// scores[r, j] = FixedDot(x_r, k_j).
struct ScoreProductTask {
  ScoreShape shape;
  QueryVectors q;
  KeyVectors k;
  double* scores = nullptr;
};

// Positions of both sides, |position| < 2^32.
struct ScorePositions {
  const int64_t* query = nullptr;  // [queries] or [batch, queries]
  const int64_t* key = nullptr;    // [keys] or [batch, keys]
  int64_t query_batch_stride = 0;  // queries, or 0: one row for all
  int64_t key_batch_stride = 0;
};

// Which row of a table a distance (query − key) has. Rows never fall or never rise with the distance.
struct DistanceRows {
  static constexpr int64_t kNone = -1;

  int64_t first = 0;  // first … last have a row
  int64_t last = -1;
  bool clamp_below = false;      // distances before `first` have its row; else none
  bool clamp_above = false;      // distances after `last` likewise
  int64_t origin = 0;            // row of distance 0; each step adds `slope`
  int64_t slope = 1;             // 1 or −1
  std::span<const int32_t> map;  // not empty: the row is map[distance − first] instead

  int64_t operator()(int64_t distance) const {
    if (last < first) return kNone;
    if (distance < first) {
      if (!clamp_below) return kNone;
      distance = first;
    } else if (distance > last) {
      if (!clamp_above) return kNone;
      distance = last;
    }
    return map.empty() ? origin + slope * distance : map[static_cast<size_t>(distance - first)];
  }
};

// scores[r, j] += FixedDot(x, table[h, row]) where the distance has a row, else becomes −∞. x is the query, or the key
// (of_keys).
struct RelativeProductTask {
  ScoreShape shape;
  bool of_keys = false;
  QueryVectors q;
  KeyVectors k;  // of_keys only
  ScorePositions positions;
  DistanceRows rows;
  const double* table = nullptr;  // [heads, …, dim]
  int64_t table_head_stride = 0;  // 0: one for all heads
  bool skip_first = false;        // scores of query 0 and those of key 0 stay as they are
  double* scores = nullptr;
};

// scores[r, j] += FixedDot(x_r, table[h, index[a·key_extent + c]]), a = (i / query_divisor) % query_extent, c = (j /
// key_divisor) % key_extent.
struct GridProductTask {
  ScoreShape shape;
  QueryVectors q;
  const double* table = nullptr;  // [heads, table_rows, dim]
  int64_t table_rows = 0;
  int64_t table_head_stride = 0;
  const int32_t* index = nullptr;  // [query_extent, key_extent], each in [0, table_rows)
  int64_t query_divisor = 1, query_extent = 1;
  int64_t key_divisor = 1, key_extent = 1;
  bool skip_first = false;  // as in RelativeProductTask
  double* scores = nullptr;
};

// Contextual positions. On entry scores hold q·k. Keys whose position is after the query's are hidden: −∞. With g_j =
// Sigmoid(scores_j), 0 for hidden keys and for keys that are padding, p = min(SuffixSum(g)_j, positions − 1), f = ⌊p⌋ and w
// = p − f, v = fma(L_(f+1), w, L_f·(1 − w)), or L_f where w = 0; L_n = FixedDot(x_r, table[h, n]). The result is scores_j +
// v, or v without content.
struct ContextualPositionTask {
  ScoreShape shape;
  QueryVectors q;
  ScorePositions positions;
  const double* table = nullptr;  // [heads, table_rows, dim]
  int64_t table_rows = 0;         // ≥ 2
  int64_t table_head_stride = 0;
  bool keep_content = true;
  const uint8_t* key_padding = nullptr;  // [keys] or [batch, keys], 0: padding; null: none is
  int64_t key_padding_batch_stride = 0;  // keys, or 0
  double* scores = nullptr;
};

// scores[r, j] = scores[r, j]·scale + addend[b·batch_stride + h·head_stride + i·query_stride + j·key_stride], each step
// rounded. A scale of 1 and a null addend change nothing.
struct ScoreSumTask {
  ScoreShape shape;
  double scale = 1;
  const double* addend = nullptr;
  int64_t batch_stride = 0, head_stride = 0, query_stride = 0;  // elements, of any sign
  int64_t key_stride = 1;                                       // 0 or 1
  double* scores = nullptr;
};

// out[r, j] = RN(scores[r, j]), the lowest finite double as the lowest finite number of the type; or the softmax of the row
// (softmax.h). out may be scores where the type is f64.
struct ScoreOutputTask {
  ScoreShape shape;
  const double* scores = nullptr;
  bool softmax = false;
  DType dtype = DType::kF32;  // IsFloat
  void* out = nullptr;        // row 0
};

// out[r, d] = RN(Σ_j scores[r, j]·table[row(i, j), d]), the sum in the order of sum.h over all keys; a key without a row
// counts as a product of 0. Scores are probabilities.
struct RelativeValueTask {
  ScoreShape shape;  // dim: of the values
  ScorePositions positions;
  DistanceRows rows;
  const double* table = nullptr;  // [rows, dim]
  const double* scores = nullptr;
  DType dtype = DType::kF32;  // IsFloat
  void* out = nullptr;        // [rows of the shape, dim]
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_SCORE_TASKS_H_
