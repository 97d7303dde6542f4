#include <optional>

#include "kernels/cuda/lower.h"
#include "kernels/cuda/lower_parts.h"

namespace phasor::cuda {
namespace {

// How the vectors of x, or of y, lie on the host, and so on the device.
enum class Layout : uint8_t {
  kTokens,  // the heads of a token side by side
  kHeads,   // the tokens of a head side by side
  kThere,   // on the device, as the task's strides say: nothing is moved to the host or from it
};

std::optional<Layout> LayoutOf(const RotateTask& task, int64_t token_stride, int64_t head_stride) {
  const int64_t dim = task.head_dim;
  const bool tokens_apart = task.tokens <= 1 || token_stride >= task.heads * dim;
  if (tokens_apart && (task.heads <= 1 || head_stride == dim)) return Layout::kTokens;
  if (token_stride == dim && head_stride >= task.tokens * dim) return Layout::kHeads;
  return std::nullopt;
}

Strip StripOf(const RotateTask& task, RowRange rows, Layout layout, const void* base, int64_t token_stride,
              int64_t head_stride) {
  const int64_t size = SizeOf(task.dtype), tokens = rows.end - rows.begin;
  auto* const host = static_cast<std::byte*>(const_cast<void*>(base)) + rows.begin * token_stride * size;
  if (layout == Layout::kTokens) return {host, task.heads * task.head_dim * size, tokens, token_stride * size};
  return {host, tokens * task.head_dim * size, task.heads, head_stride * size};
}

// Host bytes of a part of a table.
struct Span {
  const std::byte* begin = nullptr;
  const std::byte* end = nullptr;

  int64_t size() const { return end - begin; }
  bool Holds(const Span& other) const {
    return Address(begin) <= Address(other.begin) && Address(other.end) <= Address(end);
  }
  static uintptr_t Address(const std::byte* at) { return reinterpret_cast<uintptr_t>(at); }
};

class LoweredRotate final : public Lowered {
 public:
  LoweredRotate(const RotateTask& task, Layout x, Layout y) : task_(task), x_(x), y_(y) {
    if (!empty() && task.pairs > 0) PlaceTable();
  }

  std::span<const Constant> constants() const override { return constants_; }
  int64_t bytes_per_row() const override {
    if (!is_there()) return std::max<int64_t>(1, 2 * task_.heads * task_.head_dim * SizeOf(task_.dtype));
    return std::max<int64_t>(1, (task_.table_rows.empty() ? 0 : 4) + (changes() ? TurnedBytes(1) : 0));
  }
  absl::Status CheckRows(RowRange rows) const override {
    if (rows.begin < 0 || rows.end > task_.tokens) return absl::InvalidArgumentError("rotate: rows outside [0, tokens)");
    return absl::OkStatus();
  }

  Transfers TransfersOf(RowRange rows) const override {
    Transfers moves;
    if (empty()) return moves;
    if (!is_there()) {
      moves.inputs.push_back(StripOf(task_, rows, x_, task_.x, task_.x_token_stride, task_.x_head_stride));
      moves.outputs.push_back(StripOf(task_, rows, y_, task_.y, task_.y_token_stride, task_.y_head_stride));
      if (in_place()) moves.in_place = {0};
    } else if (changes()) {
      moves.outputs.push_back(ScratchOf(TurnedBytes(rows.end - rows.begin)));
    }
    if (!task_.table_rows.empty()) {
      const int32_t* const list = task_.table_rows.data() + rows.begin;
      moves.inputs.push_back({reinterpret_cast<std::byte*>(const_cast<int32_t*>(list)), 4 * (rows.end - rows.begin)});
    }
    return moves;
  }

  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    if (empty()) return {};
    RotateParams p;
    p.dtype = task_.dtype;
    p.reads_halves = task_.pairing == Pairing::kHalfSplit || (changes() && task_.inverse);
    p.writes_halves = changes() != p.reads_halves;
    p.inverse = task_.inverse;
    p.tokens = rows.end - rows.begin;
    p.heads = task_.heads;
    p.pairs = task_.pairs;
    p.tail = in_place() || is_there() ? 0 : task_.head_dim - 2 * task_.pairs;
    // Where pairs change places, all of a chunk are turned before the first is written.
    const bool turns_apart = is_there() && changes();
    const Vectors there{static_cast<std::byte*>(task_.y) + rows.begin * task_.y_token_stride * SizeOf(task_.dtype),
                        task_.y_token_stride, task_.y_head_stride};
    const Vectors apart{turns_apart ? at.outputs[0] : nullptr, 2 * task_.heads * task_.pairs, 2 * task_.pairs};
    if (is_there()) {
      const Vectors& to = turns_apart ? apart : there;
      p.x = there.data, p.x_token_stride = there.token_stride, p.x_head_stride = there.head_stride;
      p.y = to.data, p.y_token_stride = to.token_stride, p.y_head_stride = to.head_stride;
    } else {
      p.x = at.inputs[0];
      p.y = at.outputs[0];
      SetStrides(x_, p.tokens, p.x_token_stride, p.x_head_stride);
      SetStrides(y_, p.tokens, p.y_token_stride, p.y_head_stride);
    }
    if (task_.pairs > 0) {
      p.table_stride = task_.table_stride;
      if (!task_.table_rows.empty()) p.table_rows = reinterpret_cast<const int32_t*>(at.inputs.back());
      // Row 0 of the kernel, from the row at the offsets on.
      const int64_t row = (task_.table_rows.empty() ? rows.begin : 0) - table_first_;
      const int64_t bytes = row * task_.table_stride * (task_.dtype == DType::kF64 ? 8 : 4);
      p.cos = Moved(at.constants[0], cos_offset_ + bytes);
      p.sin = Moved(at.constants[constants_.size() - 1], sin_offset_ + bytes);
    }
    p.DecideVectors();
    if (!turns_apart) return {p};
    return {p, CopyOf(task_.dtype, p.tokens, p.heads, 2 * p.pairs, apart, there)};
  }

 private:
  bool empty() const { return task_.tokens == 0 || task_.heads == 0 || task_.head_dim == 0; }
  bool changes() const { return task_.pairing == Pairing::kInterleavedToHalf; }
  // A pair that is written elsewhere than it is read needs memory of its own.
  bool in_place() const { return task_.x == task_.y && !changes(); }
  bool is_there() const { return x_ == Layout::kThere; }
  // Of the pairs of so many tokens.
  int64_t TurnedBytes(int64_t tokens) const { return tokens * task_.heads * 2 * task_.pairs * SizeOf(task_.dtype); }

  // Outside what it points into, too, where only a sum of it and more is read: by its number, for that is no pointer's sum.
  static const void* Moved(const std::byte* from, int64_t bytes) {
    return reinterpret_cast<const void*>(reinterpret_cast<uintptr_t>(from) + static_cast<uintptr_t>(bytes));
  }

  // Of `tokens` tokens that were moved.
  void SetStrides(Layout layout, int64_t tokens, int64_t& token, int64_t& head) const {
    token = layout == Layout::kTokens ? task_.heads * task_.head_dim : task_.head_dim;
    head = layout == Layout::kTokens ? task_.head_dim : tokens * task_.head_dim;
  }

  // The bytes of cos or sin that the task's rows need, or those of the shared table that holds them.
  void PlaceTable() {
    int64_t first = 0, last = task_.tokens - 1;
    if (!task_.table_rows.empty()) {
      const auto rows = task_.table_rows.first(static_cast<size_t>(task_.tokens));
      const auto [low, high] = std::minmax_element(rows.begin(), rows.end());
      first = *low;
      last = *high;
    }
    const int64_t size = task_.dtype == DType::kF64 ? 8 : 4;
    const auto span_of = [&](const void* base) {
      const auto* const begin = static_cast<const std::byte*>(base) + first * task_.table_stride * size;
      return Span{begin, begin + ((last - first) * task_.table_stride + task_.pairs) * size};
    };
    const Span cos = span_of(task_.cos), sin = span_of(task_.sin);
    table_first_ = first;
    const auto use = [&](const Span& whole, uint64_t id) {
      constants_ = {{whole.begin, whole.size(), id}};
      cos_offset_ = cos.begin - whole.begin;
      sin_offset_ = sin.begin - whole.begin;
    };
    const auto is_entry = [&](const Span& whole) {
      return (cos.begin - whole.begin) % size == 0 && (sin.begin - whole.begin) % size == 0;
    };
    if (task_.shared != nullptr) {
      const auto* const begin = static_cast<const std::byte*>(task_.shared->data);
      const Span whole{begin, begin + task_.shared->bytes};
      if (whole.Holds(cos) && whole.Holds(sin) && is_entry(whole)) return use(whole, task_.shared->id);
    }
    // Rows of cos and sin side by side go once.
    const bool cos_first = Span::Address(cos.begin) < Span::Address(sin.begin);
    const Span both{cos_first ? cos.begin : sin.begin, Span::Address(cos.end) > Span::Address(sin.end) ? cos.end : sin.end};
    if (both.size() <= cos.size() + sin.size() && is_entry(both)) return use(both, 0);
    constants_ = {{cos.begin, cos.size(), 0}, {sin.begin, sin.size(), 0}};
  }

  const RotateTask& task_;
  const Layout x_, y_;
  std::vector<Constant> constants_;  // of both, or of cos and of sin
  int64_t cos_offset_ = 0, sin_offset_ = 0;
  int64_t table_first_ = 0;  // the row at those offsets
};

absl::Status CheckRotate(const RotateTask& task) {
  if (task.tokens < 0 || task.heads < 0 || task.pairs < 0 || task.head_dim < 0 || task.pairs > task.head_dim / 2) {
    return absl::InvalidArgumentError("rotate: extents must be at least 0 and head_dim at least 2·pairs");
  }
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("rotate: the element type must be a float");
  if (!task.table_rows.empty() && static_cast<int64_t>(task.table_rows.size()) < task.tokens) {
    return absl::InvalidArgumentError("rotate: fewer table_rows than tokens");
  }
  if (task.tokens == 0 || task.heads == 0 || task.head_dim == 0) return absl::OkStatus();
  if (task.x == nullptr || task.y == nullptr) return absl::InvalidArgumentError("rotate: x and y must not be null");
  if (task.pairs > 0 && (task.cos == nullptr || task.sin == nullptr)) {
    return absl::InvalidArgumentError("rotate: cos and sin must not be null");
  }
  return absl::OkStatus();
}

}  // namespace

void RotateParams::DecideVectors() {
  const int64_t size = SizeOf(dtype), table_size = dtype == DType::kF64 ? 8 : 4;
  const auto address = [](const void* at) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(at) % 16); };
  const int64_t half = reads_halves || writes_halves ? pairs : 0;
  const int64_t strides = x_token_stride | x_head_stride | y_token_stride | y_head_stride | half;
  vectors = (address(x) | address(y) | strides * size) % 16 == 0;
  table_vectors = (address(cos) | address(sin) | table_stride * table_size) % 16 == 0;
}

RotateParams CopyOf(DType dtype, int64_t tokens, int64_t heads, int64_t width, const Vectors& from, const Vectors& to) {
  RotateParams p;
  p.dtype = dtype;
  p.tokens = tokens;
  p.heads = heads;
  p.tail = width;
  p.x = from.data, p.x_token_stride = from.token_stride, p.x_head_stride = from.head_stride;
  p.y = to.data, p.y_token_stride = to.token_stride, p.y_head_stride = to.head_stride;
  p.DecideVectors();
  return p;
}

LoweredOr LowerTask(const RotateTask& task) {
  if (auto status = CheckRotate(task); !status.ok()) return status;
  const auto x = LayoutOf(task, task.x_token_stride, task.x_head_stride);
  const auto y = LayoutOf(task, task.y_token_stride, task.y_head_stride);
  if (!x || !y || task.table_stride < 0) return LeftToCpu("layout");
  return std::make_unique<LoweredRotate>(task, *x, *y);
}

LoweredOr LowerTaskInPlace(const RotateTask& task) {
  if (auto status = CheckRotate(task); !status.ok()) return status;
  if (task.x_token_stride != task.y_token_stride || task.x_head_stride != task.y_head_stride || task.table_stride < 0) {
    return absl::UnimplementedError("rotate: strides that differ");
  }
  return std::make_unique<LoweredRotate>(task, Layout::kThere, Layout::kThere);
}

}  // namespace phasor::cuda
