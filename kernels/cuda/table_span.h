// Rows of a table that are read in any order, moved as what lies between the least and the greatest.
#ifndef PHASOR_KERNELS_CUDA_TABLE_SPAN_H_
#define PHASOR_KERNELS_CUDA_TABLE_SPAN_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace phasor::cuda {

// Rows [first, last] of a table.
struct TableSpan {
  int64_t first = INT64_MAX;
  int64_t last = INT64_MIN;

  void Add(int64_t row) { first = std::min(first, row), last = std::max(last, row); }
  void Add(const TableSpan& other) { first = std::min(first, other.first), last = std::max(last, other.last); }
  int64_t rows() const { return last - first + 1; }
};

// A table of at most so many bytes is moved for every chunk, however few of its rows that reads.
inline constexpr int64_t kSmallTableBytes = int64_t{1} << 20;

// Whether chunks of any size move at most about twice the rows that they read. row(i) is what row i of `count` reads.
template <typename Row>
bool IsDense(int64_t count, int64_t row_bytes, const Row& row) {
  constexpr int64_t kBlock = 64, kMerged = 4;
  std::vector<TableSpan> spans(static_cast<size_t>((count + kBlock - 1) / kBlock));
  for (int64_t i = 0; i < count; ++i) spans[static_cast<size_t>(i / kBlock)].Add(row(i));
  TableSpan all;
  for (const TableSpan& span : spans) all.Add(span);
  if (count == 0 || all.rows() <= kSmallTableBytes / std::max<int64_t>(1, row_bytes)) return true;
  while (true) {
    int64_t moved = 0;
    for (const TableSpan& span : spans) moved += span.rows();
    if (moved > 2 * count) return false;
    if (spans.size() == 1) return true;
    std::vector<TableSpan> merged((spans.size() + kMerged - 1) / kMerged);
    for (size_t i = 0; i < spans.size(); ++i) merged[i / kMerged].Add(spans[i]);
    spans = std::move(merged);
  }
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_TABLE_SPAN_H_
