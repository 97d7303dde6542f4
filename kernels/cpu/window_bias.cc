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
// Rows of the bias at most so many bytes long are collected before they are appended.
inline constexpr int64_t kShortRow = 256;
inline constexpr int64_t kCollected = 1024;
// Bytes that CopyOver may write, and read, beyond what it is asked for.
inline constexpr int64_t kOver = 64;

// Copies `bytes` bytes and up to kOver more, which are to be overwritten: without a call, and without a branch on the size.
HWY_INLINE void CopyOver(const uint8_t* HWY_RESTRICT from, uint8_t* HWY_RESTRICT to, int64_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, static_cast<size_t>(bytes));
#else
  const hn::CappedTag<uint8_t, kOver> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // The first vectors outside of the loop, which compilers turn into a call.
  hn::StoreU(hn::LoadU(d, from), d, to);
  if (bytes <= lanes) return;
  hn::StoreU(hn::LoadU(d, from + lanes), d, to + lanes);
  if (bytes <= 2 * lanes) return;
  hn::StoreU(hn::LoadU(d, from + 2 * lanes), d, to + 2 * lanes);
  if (bytes <= 3 * lanes) return;
  hn::StoreU(hn::LoadU(d, from + 3 * lanes), d, to + 3 * lanes);
  for (int64_t i = 4 * lanes; i < bytes; i += lanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
#endif
}

// One head's table, turned around: entry t is table row offsets − 1 − t, so that for a query (yi, xi) and keys (yj, 0 … W −
// 1) the entries are neighbours, from (yj − yi + H − 1)·(2W − 1) + W − 1 − xi on.
class TurnedTable {
 public:
  explicit TurnedTable(const WindowTask& task) : task_(task), size_(task.element_size) {
    const TokenWindow& w = task.window;
    turned_.resize(static_cast<size_t>(w.offsets() * size_ + kOver));
    if (w.width * size_ < kWidePiece) strips_.resize(static_cast<size_t>(w.width * strip_bytes() + kOver));
    if (w.class_token) from_class_.resize(static_cast<size_t>(w.tokens() * size_));
    if (has_strips() && w.tokens() * size_ <= kShortRow)
      collected_.resize(static_cast<size_t>(kCollected + kShortRow + kOver));
  }

  // `first_column`, `last_column`: the queries' columns that will be asked for.
  void Load(int64_t head, int64_t first_column, int64_t last_column) {
    from_ = static_cast<const uint8_t*>(task_.table) + head * task_.table_stride * size_;
    if (size_ == 2) Arrange<uint16_t>();
    if (size_ == 4) Arrange<uint32_t>();
    if (size_ == 8) Arrange<uint64_t>();
    if (!has_strips()) return;
    const TokenWindow& w = task_.window;
    const int64_t piece = w.width * size_;
    for (int64_t column = first_column; column <= last_column; ++column) {
      uint8_t* to = strips_.data() + column * strip_bytes();
      for (int64_t b = 0; b < 2 * w.height - 1; ++b) CopyOver(turned_.data() + Entry(b, column), to + b * piece, piece);
    }
  }

  template <bool kStream>
  HWY_INLINE void AppendClassRow(LineWriter<kStream>& writer) {
    AppendCollected(writer);
    writer.Append(from_class_.data(), task_.window.tokens() * size_);
  }

  // The row of the query at row y, column x.
  template <bool kStream>
  HWY_INLINE void AppendRow(LineWriter<kStream>& writer, int64_t y, int64_t x) {
    const TokenWindow& w = task_.window;
    const int64_t piece = w.width * size_;
    const uint8_t* strip = strips_.data() + x * strip_bytes() + (w.height - 1 - y) * piece;
    if (!collected_.empty()) {
      uint8_t* to = collected_.data() + filled_;
      if (w.class_token) std::memcpy(to, &to_class_, sizeof(to_class_));  // what is too much is overwritten
      CopyOver(strip, to + (w.class_token ? size_ : 0), w.height * piece);
      filled_ += w.tokens() * size_;
      if (filled_ >= kCollected) AppendCollected(writer);
      return;
    }
    if (w.class_token) writer.Append(reinterpret_cast<const uint8_t*>(&to_class_), size_);
    if (has_strips()) return writer.Append(strip, w.height * piece);
    for (int64_t b = w.height - 1 - y; b < 2 * w.height - 1 - y; ++b) writer.Append(turned_.data() + Entry(b, x), piece);
  }

  // Rows that were collected, before a row that was not and at the end.
  template <bool kStream>
  HWY_INLINE void AppendCollected(LineWriter<kStream>& writer) {
    if (filled_ > 0) writer.Append(collected_.data(), filled_);
    filled_ = 0;
  }

 private:
  bool has_strips() const { return !strips_.empty(); }
  int64_t strip_bytes() const { return (2 * task_.window.height - 1) * task_.window.width * size_; }
  // Where the keys of the row that is b − (height − 1) below the query's begin, bytes.
  int64_t Entry(int64_t b, int64_t x) const {
    return (b * (2 * task_.window.width - 1) + task_.window.width - 1 - x) * size_;
  }
  template <typename T>
  static T At(const uint8_t* from, int64_t index) {
    T value;
    std::memcpy(&value, from + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
    return value;
  }
  template <typename T>
  void Arrange() {
    const TokenWindow& w = task_.window;
    const int64_t count = w.offsets();
    T* turned = reinterpret_cast<T*>(turned_.data());
    for (int64_t t = 0; t < count; ++t) turned[t] = At<T>(from_, count - 1 - t);
    if (!w.class_token) return;
    T* row = reinterpret_cast<T*>(from_class_.data());
    std::fill_n(row, w.tokens(), At<T>(from_, count));
    row[0] = At<T>(from_, count + 2);
    const T column = At<T>(from_, count + 1);
    std::memcpy(&to_class_, &column, sizeof(T));
  }

  const WindowTask& task_;
  const int64_t size_;
  const uint8_t* from_ = nullptr;
  std::vector<uint8_t> turned_;
  std::vector<uint8_t> strips_;
  std::vector<uint8_t> from_class_;  // the class token's row
  uint64_t to_class_ = 0;            // every other row's first element
  std::vector<uint8_t> collected_;
  int64_t filled_ = 0;
};

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
    int64_t y = first_token / w.width, x = first_token % w.width, q = query;
    if (w.class_token && q == 0) {
      table.AppendClassRow(writer);
      ++q;
    }
    for (; q < last && done; ++q) {
      done = cancel == nullptr || !cancel->load(std::memory_order_relaxed);
      if (!done) break;
      table.AppendRow(writer, y, x);
      if (++x == w.width) x = 0, ++y;
    }
    row += last - query;
  }
  table.AppendCollected(writer);
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
