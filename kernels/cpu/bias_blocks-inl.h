// Biases at scattered key positions, several rows at a time.
#if defined(PHASOR_KERNELS_CPU_BIAS_BLOCKS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PHASOR_KERNELS_CPU_BIAS_BLOCKS_INL_H_
#undef PHASOR_KERNELS_CPU_BIAS_BLOCKS_INL_H_
#else
#define PHASOR_KERNELS_CPU_BIAS_BLOCKS_INL_H_
#endif

#include <cstdint>
#include <optional>

#include "hwy/highway.h"

#include "kernels/backend.h"
#include "kernels/core/narrow.h"
#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR

// Rows of a head at consecutive query positions, kRows at a time: neighbouring rows read neighbouring entries, so one
// 16-byte load serves a key for all of them. That is several times faster than gathering each row.
template <typename T, bool kStream>
class RowBlock {
 public:
  using U = BitsType<T>;
  static constexpr int64_t kRows = 16 / static_cast<int64_t>(sizeof(U));

  // `first`: entry of the vector of head and batch row that the block's last row reads for position 0, may lie outside.
  static void Write(const U* vector, int64_t first, const int32_t* positions, int64_t keys, U* out) {
    const hn::ScalableTag<U> du;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(du));
    const int64_t vector_bytes = lanes * static_cast<int64_t>(sizeof(U));
    if (reinterpret_cast<uintptr_t>(out) % static_cast<uintptr_t>(vector_bytes) == 0 && keys % lanes == 0) {
      for (int64_t k = 0; k < keys; k += lanes) {
        hn::Vec<decltype(du)> rows[kRows];
        Transpose(du, vector + first, positions + k, rows);
        for (int64_t e = 0; e < kRows; ++e) Put<kStream>(rows[e], du, out + (kRows - 1 - e) * keys + k);
      }
      FinishStores<kStream>();
      return;
    }
    std::optional<LineWriter<kStream>> writers[kRows];
    for (int64_t r = 0; r < kRows; ++r) writers[r].emplace(reinterpret_cast<uint8_t*>(out + r * keys));
    HWY_ALIGN U row[HWY_MAX_BYTES / sizeof(U)];
    int32_t padded[HWY_MAX_BYTES / sizeof(U)];
    for (int64_t k = 0; k < keys; k += lanes) {
      const int64_t count = keys - k < lanes ? keys - k : lanes;
      const int32_t* those = positions + k;
      if (count < lanes) {
        for (int64_t i = 0; i < lanes; ++i) padded[i] = those[i < count ? i : count - 1];
        those = padded;
      }
      hn::Vec<decltype(du)> rows[kRows];
      Transpose(du, vector + first, those, rows);
      // Entry e of what was loaded is that of row kRows − 1 − e.
      for (int64_t e = 0; e < kRows; ++e) {
        hn::Store(rows[e], du, row);
        writers[kRows - 1 - e]->Append(reinterpret_cast<const uint8_t*>(row), count * static_cast<int64_t>(sizeof(U)));
      }
    }
    for (auto& writer : writers) writer->Finish();
  }

 private:
  // Of 16-byte blocks: block j is what key j·kRows + `key` loads, from j = `block` on.
  template <class DU>
  static HWY_INLINE hn::Vec<DU> LoadBlocks(DU du, const U* from, const int32_t* positions, int64_t key, int64_t block) {
    if constexpr (hn::MaxLanes(du) <= static_cast<size_t>(kRows)) {
      return hn::LoadU(du, from + positions[block * kRows + key]);
    } else {
      const hn::Half<DU> half;
      const auto blocks = static_cast<int64_t>(hn::MaxLanes(half)) / kRows;
      const auto low = LoadBlocks(half, from, positions, key, block);
      return hn::Combine(du, LoadBlocks(half, from, positions, key, block + blocks), low);
    }
  }

  // Element i of v[e] = from[positions[i] + e], i < lanes.
  template <class DU>
  static HWY_INLINE void Transpose(DU du, const U* from, const int32_t* positions, hn::Vec<DU> (&v)[kRows]) {
    for (int64_t i = 0; i < kRows; ++i) v[i] = LoadBlocks(du, from, positions, i, 0);
    for (int64_t stage = 1; stage < kRows; stage *= 2) {
      hn::Vec<DU> next[kRows];
      for (int64_t i = 0; i < kRows / 2; ++i) {
        next[2 * i] = hn::InterleaveLower(du, v[i], v[i + kRows / 2]);
        next[2 * i + 1] = hn::InterleaveUpper(du, v[i], v[i + kRows / 2]);
      }
      for (int64_t i = 0; i < kRows; ++i) v[i] = next[i];
    }
  }
};

// Rows [begin, end) in blocks as far as possible; returns where it stopped, or −1 when cancelled.
template <typename T, bool kStream>
int64_t WriteBlocks(const BiasMatrixTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  using Block = RowBlock<T, kStream>;
  using U = typename Block::U;
  int64_t row = begin;
  while (row + Block::kRows <= end) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return -1;
    const int64_t q = row % task.queries, h = row / task.queries % task.heads, b = row / task.queries / task.heads;
    const int64_t last = q + Block::kRows - 1;
    if (last >= task.queries) return row;
    int64_t query = task.query_offset + last;
    if (task.query_positions != nullptr) {
      const int32_t* queries = task.query_positions + b * task.query_batch_stride;
      for (int64_t i = q; i < last; ++i) {
        if (int64_t{queries[i + 1]} - queries[i] != 1) return row;
      }
      query = queries[last];
    }
    const U* vector = static_cast<const U*>(task.vector) + b * task.vector_batch_stride + h * task.vector_head_stride;
    Block::Write(vector, -(query + task.first_distance), task.key_positions + b * task.key_batch_stride, task.keys,
                 static_cast<U*>(task.out) + row * task.keys);
    row += Block::kRows;
  }
  return row;
}

#endif  // HWY_TARGET != HWY_SCALAR

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#endif  // PHASOR_KERNELS_CPU_BIAS_BLOCKS_INL_H_
