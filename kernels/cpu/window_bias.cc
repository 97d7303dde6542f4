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
// Bytes that may be read before and after a piece, and written after it by CopyOver.
inline constexpr int64_t kOver = 64;

// Copies `bytes` bytes and up to kOver more, which are to be overwritten: without a call, and without a branch on the size
// for the smallest sizes.
HWY_INLINE void CopyOver(const uint8_t* HWY_RESTRICT from, uint8_t* HWY_RESTRICT to, int64_t bytes) {
#if HWY_TARGET == HWY_SCALAR
  std::memcpy(to, from, static_cast<size_t>(bytes));
#else
  // Half lines: the pieces of small windows are not longer, and fewer of the stores cross a line.
  const hn::CappedTag<uint8_t, kOver / 2> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  do {
    hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    i += lanes;
  } while (i < bytes);
#endif
}

// Writes pieces one after the other, each of which has kOver readable bytes on either side. With kStream whole vectors are
// written past the cache: one that two pieces share is blended in registers.
template <bool kStream>
class PieceWriter {
 public:
  explicit PieceWriter(uint8_t* to) : to_(to) {
    if constexpr (kStream) {
      first_ = fill_ = static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) % static_cast<uintptr_t>(Lanes()));
      to_ -= first_;
      std::memset(begun_, 0, sizeof(begun_));
    }
  }
  PieceWriter(const PieceWriter&) = delete;
  PieceWriter& operator=(const PieceWriter&) = delete;

  HWY_INLINE void Append(const uint8_t* piece, int64_t bytes) {
    if constexpr (!kStream) {
      std::memcpy(to_, piece, static_cast<size_t>(bytes));
      to_ += bytes;
    } else {
      const D d;
      const int64_t lanes = Lanes();
      // Of the vector that is begun the first fill_ bytes are those of pieces before.
      const auto begun =
          hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(fill_)), hn::LoadU(d, tail_), hn::LoadU(d, piece - fill_));
      int64_t at = lanes - fill_;
      if (HWY_UNLIKELY(at > bytes)) {
        hn::Store(begun, d, begun_);
        tail_ = begun_;
        fill_ += bytes;
        return;
      }
      if (HWY_UNLIKELY(first_ != 0)) {
        hn::Store(begun, d, begun_);
        std::memcpy(to_ + first_, begun_ + first_, static_cast<size_t>(lanes - first_));
        first_ = 0;
      } else {
        hn::Stream(begun, d, to_);
      }
      uint8_t* to = to_ + lanes;
      for (; at + lanes <= bytes; at += lanes, to += lanes) hn::Stream(hn::LoadU(d, piece + at), d, to);
      tail_ = piece + at;
      fill_ = bytes - at;
      to_ = to;
    }
  }

  // Before pieces change that were appended.
  void Settle() {
    if constexpr (kStream) {
      if (tail_ != begun_) std::memcpy(begun_, tail_, static_cast<size_t>(fill_));
      tail_ = begun_;
    }
  }

  void Finish() {
    Settle();
    if constexpr (kStream) {
      std::memcpy(to_ + first_, begun_ + first_, static_cast<size_t>(fill_ - first_));
      FinishStores<true>();
    }
  }

 private:
  using D = hn::CappedTag<uint8_t, kOver>;
  static HWY_INLINE int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

  uint8_t* to_;                   // kStream: where the vector that is begun belongs
  int64_t first_ = 0;             // its bytes that are not ours
  int64_t fill_ = 0;              // its bytes that are there, those included; below a vector's
  const uint8_t* tail_ = begun_;  // where those bytes are
  HWY_ALIGN uint8_t begun_[kOver];
};

// One head's table, turned around: entry t is table row offsets − 1 − t, so that for a query (yi, xi) and keys (yj, 0 … W −
// 1) the entries are neighbours, from (yj − yi + H − 1)·(2W − 1) + W − 1 − xi on.
class TurnedTable {
 public:
  explicit TurnedTable(const WindowTask& task) : task_(task), size_(task.element_size) {
    const TokenWindow& w = task.window;
    const int64_t turned = w.offsets() * size_;
    const int64_t strips = w.width * size_ < kWidePiece ? w.width * strip_bytes() : 0;
    const int64_t from_class = w.class_token ? w.tokens() * size_ : 0;
    const int64_t one = turned + from_class + 3 * kOver;
    memory_.resize(static_cast<size_t>(kPage + kOver + strips + kOver + 2 * one));
    // The strips begin a page: stores that cross one are slow, and small windows' do not.
    uint8_t* at = memory_.data() + kPage - reinterpret_cast<uintptr_t>(memory_.data()) % kPage;
    if (strips > 0) strips_ = at + kOver;
    at += kOver + strips + kOver;
    for (Head* head : {&now_, &next_}) {
      head->turned = at;
      head->from_class = at + turned + kOver;
      head->to_class = head->from_class + from_class + kOver;
      at += one;
    }
  }

  // `first_column`, `last_column`: the queries' columns that will be asked for. `next`: the head after this one, or -1.
  void Load(int64_t head, int64_t next, int64_t first_column, int64_t last_column) {
    if (next_.head == head) std::swap(now_, next_);
    if (now_.head != head) Arrange(head, now_);
    if (!has_strips()) return;
    const TokenWindow& w = task_.window;
    const int64_t piece = w.width * size_;
    for (int64_t column = first_column; column <= last_column; ++column) {
      const uint8_t* from = now_.turned + (w.width - 1 - column) * size_;
      uint8_t* to = strips_ + column * strip_bytes();
      for (int64_t b = 0; b < 2 * w.height - 1; ++b, from += (2 * w.width - 1) * size_, to += piece)
        CopyOver(from, to, piece);
    }
    // The next table is turned around while this one's rows are written: its numbers come from far, and reading at once what
    // was just stored waits.
    if (next >= 0) Arrange(next, next_);
  }

  template <bool kStream>
  HWY_INLINE void AppendClassRow(PieceWriter<kStream>& writer) const {
    writer.Append(now_.from_class, task_.window.tokens() * size_);
  }

  // The row of the query at row y, column x.
  template <bool kStream>
  HWY_INLINE void AppendRow(PieceWriter<kStream>& writer, int64_t y, int64_t x) const {
    const TokenWindow& w = task_.window;
    const int64_t piece = w.width * size_;
    if (w.class_token) writer.Append(now_.to_class, size_);
    if (has_strips()) return writer.Append(strips_ + x * strip_bytes() + (w.height - 1 - y) * piece, w.height * piece);
    for (int64_t b = w.height - 1 - y; b < 2 * w.height - 1 - y; ++b) writer.Append(now_.turned + Entry(b, x), piece);
  }

 private:
  // A head's table, turned around, with kOver bytes before and after each part.
  struct Head {
    int64_t head = -1;
    uint8_t* turned;
    uint8_t* from_class;  // the class token's row
    uint8_t* to_class;    // every other row's first element
  };

  static constexpr uintptr_t kPage = 4096;
  bool has_strips() const { return strips_ != nullptr; }
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
  void Arrange(int64_t head, Head& to) const {
    const uint8_t* from = static_cast<const uint8_t*>(task_.table) + head * task_.table_stride * size_;
    if (size_ == 2) ArrangeOf<uint16_t>(from, to);
    if (size_ == 4) ArrangeOf<uint32_t>(from, to);
    if (size_ == 8) ArrangeOf<uint64_t>(from, to);
    to.head = head;
  }
  template <typename T>
  void ArrangeOf(const uint8_t* from, Head& to) const {
    const TokenWindow& w = task_.window;
    const int64_t count = w.offsets();
    T* turned = reinterpret_cast<T*>(to.turned);
    int64_t t = 0;
#if HWY_TARGET != HWY_SCALAR
    const hn::ScalableTag<T> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const T* entries = reinterpret_cast<const T*>(from);
    for (; t + lanes <= count; t += lanes) {
      hn::StoreU(hn::Reverse(d, hn::LoadU(d, entries + count - t - lanes)), d, turned + t);
    }
#endif
    for (; t < count; ++t) turned[t] = At<T>(from, count - 1 - t);
    if (!w.class_token) return;
    T* row = reinterpret_cast<T*>(to.from_class);
    std::fill_n(row, w.tokens(), At<T>(from, count));
    row[0] = At<T>(from, count + 2);
    const T column = At<T>(from, count + 1);
    std::memcpy(to.to_class, &column, sizeof(T));
  }

  const WindowTask& task_;
  const int64_t size_;
  std::vector<uint8_t> memory_;
  Head now_, next_;
  uint8_t* strips_ = nullptr;
};

template <bool kStream>
bool Rows(const WindowTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  const TokenWindow& w = task.window;
  const int64_t tokens = w.tokens();
  TurnedTable table(task);
  PieceWriter<kStream> writer(static_cast<uint8_t*>(task.out) + begin * tokens * task.element_size);
  bool done = true;
  for (int64_t row = begin; row < end && done;) {
    const int64_t head = row / tokens;
    const int64_t query = row % tokens;
    const int64_t last = std::min(tokens, query + (end - row));
    // The columns of queries [query, last): all of them, or those of a piece of a row.
    const int64_t first_token = w.class_token ? std::max<int64_t>(query - 1, 0) : query;
    const int64_t last_token = std::max<int64_t>((w.class_token ? last - 1 : last) - 1, first_token);
    const bool one_row = first_token / w.width == last_token / w.width;
    writer.Settle();
    table.Load(head, row + last - query < end ? head + 1 : -1, one_row ? first_token % w.width : 0,
               one_row ? last_token % w.width : w.width - 1);
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
