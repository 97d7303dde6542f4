#include "kernels/cpu/add.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

#include "absl/status/status.h"

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "kernels/cpu/store_policy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/add.cc"
#include "hwy/foreach_target.h"
//
#include "hwy/highway.h"

#include "kernels/cpu/add-inl.h"
#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Encodings that are worked with at a time, elements, unless a single vector has more: 128 KiB of f32, which stay in L2.
// Those of 16-bit tensors are twice as large as the tensors, so theirs stay in L1.
inline constexpr int64_t kLargestBlock = 32768;
template <typename T>
inline constexpr int64_t kBlockElements = sizeof(T) == 2 ? 16384 : kLargestBlock;
// Channels of a vector at a time.
inline constexpr int64_t kChannels = 8192;

template <typename T>
class Adder {
 public:
  using C = ComputeType<T>;
  using O = Ops<T>;
  static constexpr bool kMaySort = std::is_same_v<T, BF16> && HWY_TARGET != HWY_SCALAR;

  Adder(const AddTask& task, C* prepared, const CancelFlag* cancel)
      : task_(task),
        prepared_(prepared),
        cancel_(cancel),
        sorted_(kMaySort && prepared != nullptr && !task.dropout.on),
        ahead_(PrefersStreaming(StoreHint::kAuto, task.batch * task.tokens * task.dim * static_cast<int64_t>(sizeof(T)))) {}

  // Rows [begin, end). False when cancelled.
  bool Run(int64_t begin, int64_t end) {
    const int64_t batch = task_.batch;
    while (begin < end) {
      const int64_t token = begin / batch, b = begin % batch;
      if (b != 0 || end - begin < batch) {  // part of a token
        const int64_t stop = std::min(end, (token + 1) * batch);
        if (!Block(token, token + 1, b, b + stop - begin)) return false;
        begin = stop;
        continue;
      }
      const int64_t tokens = std::min(end / batch - token, std::max<int64_t>(1, kBlockElements<T> / task_.dim));
      if (!Block(token, token + tokens, 0, batch)) return false;
      begin += tokens * batch;
    }
    return true;
  }

 private:
  bool Block(int64_t t0, int64_t t1, int64_t b0, int64_t b1) {
    // With a block of several tokens the vectors are short.
    for (int64_t channel = 0; channel < task_.dim; channel += kChannels) {
      const int64_t channels = std::min(kChannels, task_.dim - channel);
      const bool shared = prepared_ != nullptr && !PerBatch();
      for (int64_t b = b0; b < b1; ++b) {
        if (cancel_ != nullptr && cancel_->load(std::memory_order_relaxed)) return false;
        if (prepared_ != nullptr && (b == b0 || !shared)) {
          for (int64_t t = t0; t < t1; ++t) Prepare(b, t, channel, channels, prepared_ + (t - t0) * channels);
        }
        for (int64_t t = t0; t < t1; ++t) Vector(b, t, channel, channels, t - t0);
      }
    }
    return true;
  }

  // Whether the encodings of a token differ from batch row to batch row.
  bool PerBatch() const {
    return task_.pe.batch_stride != 0 || (task_.other.data != nullptr && task_.other.batch_stride != 0) ||
           (task_.gate.data != nullptr && task_.gate.batch_stride != 0) ||
           (task_.first.data != nullptr && task_.first.index_batch_stride != 0) ||
           (task_.last.data != nullptr && task_.last.index_batch_stride != 0);
  }

  static const C* At(const AddRows& rows, int64_t b, int64_t t, int64_t channel) {
    return static_cast<const C*>(rows.data) + b * rows.batch_stride + t * rows.token_stride + channel;
  }

  const C* End(const AddEnds& ends, int64_t b, int64_t t, int64_t channel) const {
    const int32_t row = ends.data == nullptr ? -1 : ends.index[b * ends.index_batch_stride + t];
    return row < 0 ? nullptr : static_cast<const C*>(ends.data) + row * task_.dim + channel;
  }

  // The encodings of one vector, gate and ends included; of bf16 tensors in the order of SortSteps.
  void Prepare(int64_t b, int64_t t, int64_t channel, int64_t channels, C* out) const {
    const C* pe = At(task_.pe, b, t, channel);
    const C* first = End(task_.first, b, t, channel);
    const C* last = End(task_.last, b, t, channel);
    if (task_.other.data != nullptr) {
      Blend(pe, At(task_.other, b, t, channel), At(task_.gate, b, t, channel * task_.gate_channel_stride), channels, out);
      pe = out;
    }
    if (first != nullptr || last != nullptr) {
      if (pe != out) std::memcpy(out, pe, static_cast<size_t>(channels) * sizeof(C));
      AddTo(out, first, channels);
      AddTo(out, last, channels);
      pe = out;
    }
    if constexpr (kMaySort) {
      if (sorted_) return SortSteps(pe, channels, out);
    }
    if (pe != out) std::memcpy(out, pe, static_cast<size_t>(channels) * sizeof(C));
  }

  void Blend(const C* a, const C* b, const C* gate, int64_t n, C* out) const {
    const int64_t lanes = O::Lanes();
    const auto one = O::Set(C{1});
    C single;
    std::memcpy(&single, gate, sizeof(C));
    const auto g_of_all = O::Set(single);
    for (int64_t i = 0; i < n; i += lanes) {
      const auto g = task_.gate_channel_stride == 0 ? g_of_all : O::LoadC(gate + i, n - i);
      const auto rest = O::Mul(O::Sub(one, g), O::LoadC(b + i, n - i));
      O::StoreC(O::MulAdd(g, O::LoadC(a + i, n - i), rest), out + i, n - i);
    }
  }

  static void AddTo(C* p, const C* end, int64_t n) {
    if (end == nullptr) return;
    for (int64_t i = 0; i < n; i += O::Lanes()) {
      O::StoreC(O::Add(O::LoadC(p + i, n - i), O::LoadC(end + i, n - i)), p + i, n - i);
    }
  }

  // Channels [channel, channel + n) of one vector; `row` is its place in the block.
  void Vector(int64_t b, int64_t t, int64_t channel, int64_t n, int64_t row) const {
    const T* x = static_cast<const T*>(task_.x) + b * task_.x_batch_stride + t * task_.x_token_stride + channel;
    T* y = static_cast<T*>(task_.y) + b * task_.y_batch_stride + t * task_.y_token_stride + channel;
    if (task_.hidden != nullptr && task_.hidden[b * task_.hidden_batch_stride + t] != 0) {
      std::memset(static_cast<void*>(y), 0, static_cast<size_t>(n) * sizeof(T));
      return;
    }
    const C* p = task_.pe.data == nullptr ? nullptr
                 : prepared_ != nullptr   ? prepared_ + row * n
                                          : At(task_.pe, b, t, channel);
    if (task_.dropout.on) {
      const int64_t e = task_.first_element + b * task_.element_batch_stride + t * task_.element_token_stride + channel;
      return p == nullptr ? Drop<false>(x, y, p, n, e) : Drop<true>(x, y, p, n, e);
    }
    const T* ahead = ahead_ && b + 1 < task_.batch ? x + task_.x_batch_stride : nullptr;
    return p == nullptr ? Plain<false>(x, y, p, n, ahead) : Plain<true>(x, y, p, n, ahead);
  }

  template <bool kAdds>
  HWY_INLINE typename O::Vector Value(typename O::Vector scale, const T* x, const C* p, int64_t left) const {
    const auto v = O::Load(x, left);
    if constexpr (kAdds) {
      return O::MulAdd(scale, v, O::LoadC(p, left));
    } else {
      return O::Mul(scale, v);
    }
  }

  template <bool kAdds>
  void Plain(const T* x, T* y, const C* p, int64_t n, [[maybe_unused]] const T* ahead) const {
    const auto scale = O::Set(static_cast<C>(task_.scale));
    const int64_t lanes = O::Lanes();
    int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
    if constexpr (sizeof(T) == 2) {
      const auto factor = static_cast<float>(task_.scale);
      i = kMaySort && kAdds && sorted_ ? AddWholeSteps<T, kAdds, kMaySort>(factor, x, y, p, n, ahead)
                                       : AddWholeSteps<T, kAdds, false>(factor, x, y, p, n, ahead);
    } else {
      for (; i + lanes <= n; i += lanes) O::Store(Value<kAdds>(scale, x + i, p + i, lanes), y + i, lanes);
    }
#endif
    for (; i < n; i += lanes) O::Store(Value<kAdds>(scale, x + i, p + i, n - i), y + i, n - i);
  }

  template <bool kAdds>
  void Drop(const T* x, T* y, const C* p, int64_t n, int64_t first_element) const {
    HWY_ALIGN uint32_t words[kDropout + 4 + kMaxPhiloxStep];
    HWY_ALIGN int32_t keep[kDropout + HWY_MAX_BYTES / 4];
    const auto scale = O::Set(static_cast<C>(task_.scale));
    const auto factor = O::Set(static_cast<C>(task_.dropout.factor));
    const int64_t lanes = O::Lanes();
    for (int64_t start = 0; start < n; start += kDropout) {
      const int64_t count = std::min(kDropout, n - start);
      DecideDropout(task_.dropout, static_cast<uint64_t>(first_element + start), count, words, keep);
      for (int64_t j = 0; j < count; j += lanes) {
        const int64_t i = start + j;
        const auto v = O::Mul(Value<kAdds>(scale, x + i, p + i, n - i), factor);
        O::Store(O::KeepWhere(v, keep + j), y + i, n - i);
      }
    }
  }

  const AddTask& task_;
  C* const prepared_;
  const CancelFlag* const cancel_;
  const bool sorted_;  // the prepared encodings are in the order of SortSteps
  const bool ahead_;   // x is larger than the L2 cache: the next batch row's vector is asked for while this one is worked on
};

// False when cancelled. `prepared`: room for the block's encodings where they are not a table's rows as they are; else null.
bool AddRange(const AddTask* task, int64_t begin, int64_t end, const CancelFlag* cancel, void* prepared) {
  return VisitFloat(task->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return Adder<T>(*task, static_cast<ComputeType<T>*>(prepared), cancel).Run(begin, end);
  });
}

int64_t AddBlockElements() { return kLargestBlock; }
// Bytes of x and y that one core moves in well under a millisecond; where every element has its random word, fewer.
int64_t AddSliceBytes(bool dropout) {
  if (HWY_TARGET == HWY_SCALAR) return dropout ? 32 << 10 : 128 << 10;
  return dropout ? 256 << 10 : 1 << 20;
}

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(AddRange);
HWY_EXPORT(AddBlockElements);
HWY_EXPORT(AddSliceBytes);

absl::Status CheckAdd(const AddTask& task, RowRange rows) {
  if (task.batch < 0 || task.tokens < 0 || task.dim < 0) {
    return absl::InvalidArgumentError("add: extents must be at least 0");
  }
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("add: the element type must be a float");
  if (rows.begin < 0 || rows.end > task.batch * task.tokens) {
    return absl::InvalidArgumentError("add: rows outside [0, batch·tokens)");
  }
  if (rows.begin >= rows.end || task.dim == 0) return absl::OkStatus();
  if (task.x == nullptr || task.y == nullptr) return absl::InvalidArgumentError("add: x and y must not be null");
  if (task.other.data != nullptr && (task.pe.data == nullptr || task.gate.data == nullptr)) {
    return absl::InvalidArgumentError("add: a second encoding needs a first one and a gate");
  }
  if ((task.first.data != nullptr && task.first.index == nullptr) ||
      (task.last.data != nullptr && task.last.index == nullptr)) {
    return absl::InvalidArgumentError("add: ends need an index");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RunAdd(const AddTask& task, RowRange rows, const CancelFlag* cancel) {
  if (absl::Status status = CheckAdd(task, rows); !status.ok()) return status;
  if (rows.begin >= rows.end || task.dim == 0) return absl::OkStatus();
  std::unique_ptr<std::byte[]> prepared;
  // Those of bf16 tensors are put into another order where enough batch rows share them.
  const bool sorts = task.dtype == DType::kBF16 && task.pe.batch_stride == 0 && task.batch >= 4 && !task.dropout.on;
  const bool prepares = task.pe.data != nullptr &&
                        (sorts || task.other.data != nullptr || task.first.data != nullptr || task.last.data != nullptr);
  if (prepares) {
    const int64_t element = task.dtype == DType::kF64 ? 8 : 4;
    prepared.reset(new (std::nothrow) std::byte[static_cast<size_t>(HWY_DYNAMIC_DISPATCH(AddBlockElements)() * element)]);
    if (prepared == nullptr) return absl::ResourceExhaustedError("add: no memory for a block of encodings");
  }
  const bool done = HWY_DYNAMIC_DISPATCH(AddRange)(&task, rows.begin, rows.end, cancel, prepared.get());
  return done ? absl::OkStatus() : absl::CancelledError("add: cancelled");
}

int64_t AddRowsPerSlice(const AddTask& task) {
  const int64_t row_bytes = std::max<int64_t>(1, task.dim * SizeOf(task.dtype));
  return std::max<int64_t>(1, HWY_DYNAMIC_DISPATCH(AddSliceBytes)(task.dropout.on) / row_bytes);
}

}  // namespace phasor
#endif  // HWY_ONCE
