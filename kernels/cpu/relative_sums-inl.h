// How products of vectors and table rows are added to scores: which row each pair of a query and a key has, and walks over
// the scores that read the products in runs.
#if defined(PHASOR_KERNELS_CPU_RELATIVE_SUMS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_RELATIVE_SUMS_INL_H_
#undef PHASOR_KERNELS_CPU_RELATIVE_SUMS_INL_H_
#else
#define PHASOR_KERNELS_CPU_RELATIVE_SUMS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <limits>

#include "hwy/cache_control.h"
#include "hwy/highway.h"

#include "kernels/cpu/score_product.h"
#include "kernels/cpu/score_vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Rows of scores ahead that the memory is asked for: those of a block are short pieces of far lines.
constexpr int64_t kAhead = 4;

// Table rows [low, high]; none when high < low.
struct Band {
  int64_t low = 0, high = -1;
  int64_t size() const { return high - low + 1; }
  void Join(const Band& other) {
    if (other.high < other.low) return;
    low = high < low ? other.low : std::min(low, other.low);
    high = std::max(high, other.high);
  }
};

// Rows that distances smallest … largest may have.
Band BandOf(const DistanceRows& rows, int64_t smallest, int64_t largest) {
  if (rows.last < rows.first) return {};
  if (!rows.clamp_below) smallest = std::max(smallest, rows.first);
  if (!rows.clamp_above) largest = std::min(largest, rows.last);
  if (largest < smallest) return {};
  if ((largest < rows.first && !rows.clamp_below) || (smallest > rows.last && !rows.clamp_above)) return {};
  const int64_t a = rows(smallest), b = rows(largest);
  return {std::min(a, b), std::max(a, b)};
}

struct Extremes {
  explicit Extremes(const int64_t* positions, int64_t count) {
    const auto [low, high] = std::minmax_element(positions, positions + count);
    smallest = *low, largest = *high;
  }
  int64_t smallest, largest;
};

// Queries [0, queries) from `row` on by keys [key, key + keys) of one head.
struct RelativeBlock {
  const RelativeProductTask* task;
  int64_t row;
  ScorePlace place;
  int64_t queries, key, keys;

  const int64_t* query_positions() const {
    return task->positions.query + place.batch * task->positions.query_batch_stride + place.query;
  }
  const int64_t* key_positions() const { return task->positions.key + place.batch * task->positions.key_batch_stride + key; }
  double* scores(int64_t i) const { return task->scores + (row + i) * task->shape.keys + key; }
  const double* table() const { return task->table + place.head * task->table_head_stride; }

  // The side that is multiplied, and the other one.
  int64_t vectors() const { return task->of_keys ? keys : queries; }
  HWY_INLINE void Read(int64_t i, double* out) const {
    if (task->of_keys) {
      ReadVector(task->k.k, place.batch, key + i, place.head / task->k.group, task->shape.dim, out);
    } else {
      ReadQuery(task->q, ScorePlace(task->shape, row + i), task->shape.dim, out);
    }
  }
  // Table rows that vectors [begin, end) need.
  Band BandOfVectors(int64_t begin, int64_t end) const {
    const Extremes q =
        task->of_keys ? Extremes(query_positions(), queries) : Extremes(query_positions() + begin, end - begin);
    const Extremes k = task->of_keys ? Extremes(key_positions() + begin, end - begin) : Extremes(key_positions(), keys);
    return BandOf(task->rows, q.smallest - k.largest, q.largest - k.smallest);
  }
  // Adds product(vector, table row) to every score.
  template <typename Product>
  HWY_INLINE void Add(Product product) const {
    for (int64_t i = 0; i < queries; ++i) {
      double* out = scores(i);
      const int64_t position = query_positions()[i];
      for (int64_t j = 0; j < keys; ++j) {
        const int64_t table_row = task->rows(position - key_positions()[j]);
        if (table_row == DistanceRows::kNone) {
          out[j] = -std::numeric_limits<double>::infinity();
        } else {
          out[j] += product(task->of_keys ? j : i, table_row);
        }
      }
    }
  }
  bool KeysFollow() const {
    for (int64_t j = 1; j < keys; ++j) {
      if (key_positions()[j] != key_positions()[0] + j) return false;
    }
    return true;
  }
};

// Products of vectors and table rows: that of vector v and row r at all[v·stride + r − low].
struct Products {
  const double* all;
  int64_t stride, low;
};

// Adds products of one query and keys [begin, end), all of which have the same table row, or none.
void AddSame(const RelativeBlock& block, const Products& products, int64_t i, int64_t begin, int64_t end,
             int64_t table_row) {
  double* HWY_RESTRICT out = block.scores(i);
  if (table_row == DistanceRows::kNone) {
    std::fill(out + begin, std::max(out + begin, out + end), -std::numeric_limits<double>::infinity());
    return;
  }
  const double* HWY_RESTRICT from = products.all + table_row - products.low;
  const int64_t of_query = block.task->of_keys ? 0 : i * products.stride;
  const int64_t step = block.task->of_keys ? products.stride : 0;
  for (int64_t j = begin; j < end; ++j) out[j] += from[of_query + j * step];
}

// Those of keys whose table rows are `slope` apart; the row of key 0 would be `row_of_first`.
void AddRun(const RelativeBlock& block, const Products& products, int64_t i, int64_t begin, int64_t end,
            int64_t row_of_first, int64_t slope) {
  double* HWY_RESTRICT out = block.scores(i);
  const double* HWY_RESTRICT from = products.all + row_of_first - products.low;
  int64_t step = -slope;
  if (block.task->of_keys) {
    step += products.stride;
  } else {
    from += i * products.stride;
  }
  int64_t j = begin;
#if HWY_TARGET != HWY_SCALAR
  const hn::ScalableTag<double> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  if (step == -1) {
    for (; j + lanes <= end; j += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(d, out + j), hn::Reverse(d, hn::LoadU(d, from - j - lanes + 1))), d, out + j);
    }
  } else if (step == 1) {
    for (; j + lanes <= end; j += lanes) hn::StoreU(hn::Add(hn::LoadU(d, out + j), hn::LoadU(d, from + j)), d, out + j);
  }
#endif
  for (; j < end; ++j) out[j] += from[j * step];
}

// The rows of a map.
void AddMapped(const RelativeBlock& block, const Products& products, int64_t i, int64_t begin, int64_t end,
               int64_t distance_of_first) {
  double* HWY_RESTRICT out = block.scores(i);
  const DistanceRows& rows = block.task->rows;
  const int64_t step = block.task->of_keys ? products.stride : 0;
  const double* HWY_RESTRICT from = products.all - products.low + (block.task->of_keys ? 0 : i * products.stride);
  for (int64_t j = begin; j < end; ++j) {
    out[j] += from[j * step + rows.map[static_cast<size_t>(distance_of_first - j - rows.first)]];
  }
}

// Where the keys of query i, at consecutive positions, have rows of the table: [inside, below). The distances of those
// before are above the last that has one, of those after below the first.
struct KeysWithRows {
  KeysWithRows(const RelativeBlock& block, int64_t i)
      : distance(block.query_positions()[i] - block.key_positions()[0]),
        inside(std::clamp<int64_t>(distance - block.task->rows.last, 0, block.keys)),
        below(std::clamp<int64_t>(distance - block.task->rows.first + 1, inside, block.keys)) {}
  int64_t distance, inside, below;
};

// Queries that AddSquares takes together.
constexpr int64_t kSquare = 4;

// Adds what queries [i, i + kSquare) at consecutive positions have of keys [begin, end), all of which have rows; returns the
// key it came to. Products of keys lie along the queries and scores along the keys: squares of both are turned in registers.
int64_t AddSquares(const RelativeBlock& block, const Products& products, int64_t i, int64_t begin, int64_t end) {
#if HWY_TARGET == HWY_SCALAR || HWY_MAX_BYTES < 32
  return begin;
#else
  const hn::CappedTag<double, kSquare> d;
  const DistanceRows& rows = block.task->rows;
  const bool rising = rows.slope > 0;
  // Of the query whose row is the lowest of the four.
  const int64_t lowest = rising ? i : i + kSquare - 1;
  const int64_t row_of_first = rows.origin + rows.slope * KeysWithRows(block, lowest).distance;
  const double* const all = products.all + row_of_first - products.low;
  double* out[kSquare];
  for (int64_t q = 0; q < kSquare; ++q) out[q] = block.scores(rising ? i + q : i + kSquare - 1 - q);
  const int64_t step = products.stride - rows.slope;
  int64_t j = begin;
  for (; j + kSquare <= end; j += kSquare) {
    const double* const from = all + j * step;
    const auto a = hn::LoadU(d, from), b = hn::LoadU(d, from + step);
    const auto c = hn::LoadU(d, from + 2 * step), e = hn::LoadU(d, from + 3 * step);
    const auto ab_even = hn::InterleaveLower(d, a, b), ab_odd = hn::InterleaveUpper(d, a, b);
    const auto ce_even = hn::InterleaveLower(d, c, e), ce_odd = hn::InterleaveUpper(d, c, e);
    const auto add = [&](int64_t q, hn::Vec<decltype(d)> v)
                         HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, out[q] + j), v), d, out[q] + j); };
    add(0, hn::ConcatLowerLower(d, ce_even, ab_even));
    add(1, hn::ConcatLowerLower(d, ce_odd, ab_odd));
    add(2, hn::ConcatUpperUpper(d, ce_even, ab_even));
    add(3, hn::ConcatUpperUpper(d, ce_odd, ab_odd));
  }
  return j;
#endif
}

// All keys of query i but [done, done_end), which have been seen to.
void AddOfQuery(const RelativeBlock& block, const Products& products, int64_t i, int64_t done, int64_t done_end) {
  const DistanceRows& rows = block.task->rows;
  const KeysWithRows keys(block, i);
  AddSame(block, products, i, 0, keys.inside, rows.clamp_above ? rows(rows.last) : DistanceRows::kNone);
  if (rows.map.empty()) {
    const int64_t row_of_first = rows.origin + rows.slope * keys.distance;
    AddRun(block, products, i, keys.inside, done, row_of_first, rows.slope);
    AddRun(block, products, i, done_end, keys.below, row_of_first, rows.slope);
  } else {
    AddMapped(block, products, i, keys.inside, keys.below, keys.distance);
  }
  AddSame(block, products, i, keys.below, block.keys, rows.clamp_below ? rows(rows.first) : DistanceRows::kNone);
}

// For keys at consecutive positions: distances fall by one from key to key.
void AddConsecutive(const RelativeBlock& block, const Products& products) {
  const DistanceRows& rows = block.task->rows;
  if (rows.last < rows.first) {
    for (int64_t i = 0; i < block.queries; ++i) AddSame(block, products, i, 0, block.keys, DistanceRows::kNone);
    return;
  }
  const bool may_turn = block.task->of_keys && rows.map.empty() && (rows.slope == 1 || rows.slope == -1);
  const int64_t* const positions = block.query_positions();
  for (int64_t i = 0; i < block.queries;) {
    int64_t together = 1;
    while (may_turn && together < kSquare && i + together < block.queries &&
           positions[i + together] == positions[i] + together) {
      ++together;
    }
    for (int64_t ahead = i + kAhead; ahead < std::min(i + kAhead + together, block.queries); ++ahead) {
      for (int64_t j = 0; j < block.keys; j += 8) hwy::Prefetch(block.scores(ahead) + j);
    }
    int64_t done = 0, done_end = 0;
    if (together == kSquare) {
      // The first query's keys end first, the last one's begin last.
      done = done_end = std::max(KeysWithRows(block, i + kSquare - 1).inside, KeysWithRows(block, i).inside);
      done_end = AddSquares(block, products, i, done, std::max(done, KeysWithRows(block, i).below));
    }
    for (int64_t q = i; q < i + together; ++q) {
      const KeysWithRows keys(block, q);
      if (done_end > done) {
        AddOfQuery(block, products, q, done, done_end);
      } else {
        AddOfQuery(block, products, q, keys.inside, keys.inside);
      }
    }
    i += together;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_RELATIVE_SUMS_INL_H_
