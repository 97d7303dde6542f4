// Tasks of biases over windows of an image, and of biases that are learned functions of positions. Part of backend.h.
#ifndef PHASOR_KERNELS_TASKS_WINDOW_TASKS_H_
#define PHASOR_KERNELS_TASKS_WINDOW_TASKS_H_

#include <cstdint>
#include <span>

#include "kernels/core/dtype.h"
#include "kernels/encodings/plan_window.h"
#include "kernels/tasks/store_hint.h"

namespace phasor {

// A table gathered by the rule of a window: out[h, i, j] = table[h·table_stride + window.row_of(i, j)]. Rows are (head,
// query) pairs: row r is head r / tokens, query r % tokens. Element bits are copied.
struct WindowTask {
  int64_t element_size = 4;  // 2, 4 or 8
  TokenWindow window;
  int64_t heads = 0;
  const void* table = nullptr;  // [heads, window.table_rows()]
  int64_t table_stride = 0;     // elements, ≥ window.table_rows()
  void* out = nullptr;          // [heads, tokens, tokens]
  StoreHint hint = StoreHint::kAuto;
};

// A perceptron at points: out[h·head_stride + p] = RN(output first_head + h at features[p]). Rows are points.
struct PerceptronTask {
  const Perceptron* perceptron = nullptr;
  DType dtype = DType::kF32;         // IsFloat
  const double* features = nullptr;  // [points, perceptron->inputs()], finite
  int64_t first_head = 0;
  int64_t heads = 0;
  void* out = nullptr;
  int64_t head_stride = 0;  // elements
};

// What a perceptron of one input is fed for a query at position q and a key at position k. Every operation is one of f64,
// the functions are those of kernels/core/math.h.
enum class PairFeature : uint8_t {
  kDistance = 1,     // q − k
  kLogDistance = 2,  // sign(q − k)·Log1p(|q − k|)
  kFire = 3,         // Log1p(c·|q − k|) / (Log1p(c·max(threshold, q)) + epsilon)
};

// A perceptron of one input at every pair of a query and a key: out[h, q, k] = RN(output first_head + h at the feature).
// Rows are (query, block of kKeysPerRow keys) pairs: row r is query r / blocks(), block r % blocks().
struct PairPerceptronTask {
  static constexpr int64_t kKeysPerRow = 1024;

  const Perceptron* perceptron = nullptr;
  DType dtype = DType::kF32;  // IsFloat
  PairFeature feature = PairFeature::kDistance;
  double c = 0, threshold = 0, epsilon = 0;  // of kFire
  std::span<const int64_t> query_positions;  // |position| < 2^32
  std::span<const int64_t> key_positions;
  int64_t first_head = 0;
  int64_t heads = 0;
  void* out = nullptr;  // [heads, queries, keys]

  int64_t queries() const { return static_cast<int64_t>(query_positions.size()); }
  int64_t keys() const { return static_cast<int64_t>(key_positions.size()); }
  int64_t blocks() const { return (keys() + kKeysPerRow - 1) / kKeysPerRow; }
};

// Differences of sums that have two parts: out[h, q, k] = RN((query_hi − key_hi) + (query_lo − key_lo)) where the key's
// position is at most the query's, else +0. Rows are (head, query) pairs.
struct SumDifferenceTask {
  DType dtype = DType::kF32;  // IsFloat
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  const double* query_hi = nullptr;  // [heads, queries]
  const double* query_lo = nullptr;
  const double* key_hi = nullptr;  // [heads, keys]
  const double* key_lo = nullptr;
  const double* query_positions = nullptr;  // [queries], whole numbers
  const double* key_positions = nullptr;    // [keys]
  void* out = nullptr;                      // [heads, queries, keys]
};

// Products of projected positions: out[h, q, k] = RN(FixedDot(q[h, q], k[h, :, k]) / divisor + relative[h, Δ]), Δ the key's
// position minus the query's, held to ±reach. With `untied`: untied[h, 0] where the query's position is 0, else untied[h, 1]
// where the key's is. Rows are (head, query) pairs.
struct PositionProductTask {
  DType dtype = DType::kF32;  // IsFloat
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t dim = 0;
  const double* q = nullptr;  // [heads, queries, dim]
  const double* k = nullptr;  // [heads, dim, key_stride]
  int64_t key_stride = 0;     // ≥ keys rounded up to a multiple of 8; what is beyond the keys is finite
  double divisor = 1;
  const double* relative = nullptr;          // [heads, 2·reach + 1]; null: nothing is added
  int64_t reach = 0;                         // ≥ 0
  const int64_t* query_positions = nullptr;  // [queries]
  const int64_t* key_positions = nullptr;    // [keys]
  const double* untied = nullptr;            // [heads, 2], or null
  void* out = nullptr;                       // [heads, queries, keys]
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_TASKS_WINDOW_TASKS_H_
