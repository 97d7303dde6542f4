#include "kernels/cpu/window_bias.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cpu/store_policy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/window_bias.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {

// Rows of the window at least so many bytes wide are appended piece by piece; narrower ones by way of strips.
inline constexpr int64_t kWidePiece = 192;

// One head's table, turned around: entry t is table row offsets − 1 − t, so that for a query (yi, xi) and keys (yj, 0 … W −
// 1) the entries are neighbours, from (yj − yi + H − 1)·(2W − 1) + W − 1 − xi on.
class TurnedTable {
 public:
  explicit TurnedTable(const WindowTask& task) : task_(task), size_(task.element_size) {
    const TokenWindow& w = task.window;
    turned_.resize(static_cast<size_t>(w.offsets() * size_));
    if (w.width * size_ < kWidePiece) strips_.resize(static_cast<size_t>(w.width * strip_bytes()));
  }

  // `first_column`, `last_column`: the queries' columns that will be asked for.
  void Load(int64_t head, int64_t first_column, int64_t last_column) {
    const TokenWindow& w = task_.window;
    from_ = static_cast<const uint8_t*>(task_.table) + head * task_.table_stride * size_;
    if (size_ == 2) Turn<uint16_t>();
    if (size_ == 4) Turn<uint32_t>();
    if (size_ == 8) Turn<uint64_t>();
    if (strips_.empty()) return;
    const int64_t piece = w.width * size_;
    for (int64_t column = first_column; column <= last_column; ++column) {
      uint8_t* to = strips_.data() + column * strip_bytes();
      for (int64_t b = 0; b < 2 * w.height - 1; ++b) {
        std::memcpy(to + b * piece, turned_.data() + Entry(b, column), static_cast<size_t>(piece));
      }
    }
  }

  const uint8_t* row(int64_t table_row) const { return from_ + table_row * size_; }

  // The keys of the window in order, for the query at row y and column x.
  template <bool kStream>
  HWY_INLINE void AppendKeys(LineWriter<kStream>& writer, int64_t y, int64_t x) const {
    const TokenWindow& w = task_.window;
    const int64_t piece = w.width * size_;
    if (!strips_.empty()) {
      return writer.Append(strips_.data() + x * strip_bytes() + (w.height - 1 - y) * piece, w.height * piece);
    }
    for (int64_t b = w.height - 1 - y; b < 2 * w.height - 1 - y; ++b) writer.Append(turned_.data() + Entry(b, x), piece);
  }

 private:
  int64_t strip_bytes() const { return (2 * task_.window.height - 1) * task_.window.width * size_; }
  // Where the keys of the row that is b − (height − 1) below the query's begin, bytes.
  int64_t Entry(int64_t b, int64_t x) const {
    return (b * (2 * task_.window.width - 1) + task_.window.width - 1 - x) * size_;
  }
  template <typename T>
  void Turn() {
    const int64_t count = task_.window.offsets();
    for (int64_t t = 0; t < count; ++t) {
      std::memcpy(turned_.data() + t * size_, from_ + (count - 1 - t) * size_, sizeof(T));
    }
  }

  const WindowTask& task_;
  const int64_t size_;
  const uint8_t* from_ = nullptr;
  std::vector<uint8_t> turned_;
  std::vector<uint8_t> strips_;
};

// Rows [begin, end) of one head's queries, from `query` on.
template <bool kStream>
bool HeadRows(const WindowTask& task, TurnedTable& table, LineWriter<kStream>& writer, int64_t query, int64_t end,
              const CancelFlag* cancel) {
  const TokenWindow& w = task.window;
  const int64_t size = task.element_size;
  for (; query < end; ++query) {
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return false;
    if (w.class_token && query == 0) {
      writer.Append(table.row(w.row_of(0, 0)), size);
      const uint8_t* other = table.row(w.row_of(0, 1));
      for (int64_t key = 1; key < w.tokens(); ++key) writer.Append(other, size);
      continue;
    }
    if (w.class_token) writer.Append(table.row(w.row_of(1, 0)), size);
    const int64_t token = w.class_token ? query - 1 : query;
    table.AppendKeys(writer, token / w.width, token % w.width);
  }
  return true;
}

template <bool kStream>
bool Rows(const WindowTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const TokenWindow& w = task.window;
  const int64_t tokens = w.tokens();
  TurnedTable table(task);
  LineWriter<kStream> writer(static_cast<uint8_t*>(task.out) + begin * tokens * task.element_size);
  bool done = true;
  for (int64_t row = begin; row < end && done;) {
    const int64_t head = row / tokens;
    const int64_t query = row % tokens;
    const int64_t last = std::min(tokens, query + (end - row));
    // The columns of queries [query, last): all of them, or those of a piece of a row.
    const int64_t first_token = w.class_token ? std::max<int64_t>(query - 1, 0) : query;
    const int64_t last_token = std::max<int64_t>((w.class_token ? last - 1 : last) - 1, first_token);
    const bool one_row = first_token / w.width == last_token / w.width;
    table.Load(head, one_row ? first_token % w.width : 0, one_row ? last_token % w.width : w.width - 1);
    done = HeadRows(task, table, writer, query, last, cancel);
    row += last - query;
  }
  writer.Finish();
  return done;
}

// False when cancelled.
bool WindowRange(const WindowTask& task, int64_t begin, int64_t end, const CancelFlag* cancel, bool stream) {
  return stream ? Rows<kHasStreaming>(task, begin, end, cancel) : Rows<false>(task, begin, end, cancel);
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(WindowRange);

// Bytes that one core writes in well under a millisecond, the first touch of fresh pages included.
constexpr int64_t kSliceBytes = 2 << 20;

}  // namespace

absl::Status RunWindow(const WindowTask& task, RowRange rows, const CancelFlag* cancel) {
  const TokenWindow& w = task.window;
  if (task.element_size != 2 && task.element_size != 4 && task.element_size != 8) {
    return absl::InvalidArgumentError("window bias: the element size must be 2, 4 or 8");
  }
  if (w.height < 1 || w.width < 1 || task.heads < 0) {
    return absl::InvalidArgumentError("window bias: extents must be at least 1");
  }
  if (rows.begin < 0 || rows.end > task.heads * w.tokens()) {
    return absl::InvalidArgumentError("window bias: rows outside [0, heads·tokens)");
  }
  if (rows.begin >= rows.end) return absl::OkStatus();
  if (task.table == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("window bias: table and out must not be null");
  }
  const int64_t total_bytes = task.heads * w.tokens() * w.tokens() * task.element_size;
  const bool stream = PrefersStreaming(task.hint, total_bytes);
  const bool done = HWY_DYNAMIC_DISPATCH(WindowRange)(task, rows.begin, rows.end, cancel, stream);
  return done ? absl::OkStatus() : absl::CancelledError("window bias: cancelled");
}

int64_t WindowRowsPerSlice(const WindowTask& task) {
  // Not below the width of the window, below which the same pieces would be laid out again and again.
  const int64_t rows = kSliceBytes / std::max<int64_t>(1, task.window.tokens() * task.element_size);
  return std::max<int64_t>({1, rows, std::min<int64_t>(task.window.width, 4 * rows)});
}

}  // namespace phasor
#endif  // HWY_ONCE
