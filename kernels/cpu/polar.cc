// PoPE applied to tensors.
#include "kernels/cpu/polar.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "kernels/core/dtype.h"
#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/cpu/store_policy.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/polar.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "kernels/cpu/convert-inl.h"
#include "kernels/cpu/math-inl.h"
#include "kernels/cpu/stores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace phasor {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Elements of one head. The addresses need the alignment of the element only; kStream: y of whole lines.
template <typename T>
struct PolarHead {
  using C = ComputeType<T>;
  const T* x;
  T* y;
  const C* cos;
  const C* sin;
  int64_t dim;
};

#if HWY_TARGET == HWY_SCALAR

template <typename T, bool kStream>
HWY_INLINE void RunHead(const PolarHead<T>& head) {
  using C = ComputeType<T>;
  const auto load = [](const auto* from) {
    std::remove_const_t<std::remove_pointer_t<decltype(from)>> value;
    std::memcpy(&value, from, sizeof(value));
    return value;
  };
  for (int64_t i = 0; i < head.dim; ++i) {
    const C radius = math::Softplus(Widen<C>(load(head.x + i)));
    const T a = Narrow<T>(radius * load(head.cos + i)), b = Narrow<T>(radius * load(head.sin + i));
    std::memcpy(head.y + i, &a, sizeof(T));
    std::memcpy(head.y + head.dim + i, &b, sizeof(T));
  }
}

#else  // vectors

// A vector of storage for one of the compute type.
template <typename T>
struct Stored {  // float, double
  using Bits = T;
  template <class D>
  using Tag = D;
  template <class D>
  static HWY_INLINE hn::Vec<D> Widen(D, hn::Vec<D> v) {
    return v;
  }
  template <class D>
  static HWY_INLINE hn::Vec<D> Narrow(D d, hn::Vec<D> v) {
    return CanonicalizeNaN(d, v);
  }
};
template <>
struct Stored<F16> {
  using Bits = uint16_t;
  template <class D>
  using Tag = hn::Rebind<uint16_t, D>;
  template <class D>
  static HWY_INLINE hn::Vec<D> Widen(D d, hn::Vec<Tag<D>> v) {
    return WidenF16(d, v);
  }
  template <class D>
  static HWY_INLINE hn::Vec<Tag<D>> Narrow(D d, hn::Vec<D> v) {
    return NarrowToF16(d, v);
  }
};
template <>
struct Stored<BF16> {
  using Bits = uint16_t;
  template <class D>
  using Tag = hn::Rebind<uint16_t, D>;
  template <class D>
  static HWY_INLINE hn::Vec<D> Widen(D d, hn::Vec<Tag<D>> v) {
    return WidenBF16(d, v);
  }
  template <class D>
  static HWY_INLINE hn::Vec<Tag<D>> Narrow(D d, hn::Vec<D> v) {
    return NarrowToBF16(d, v);
  }
};

template <typename T, bool kStream>
HWY_INLINE void RunHead(const PolarHead<T>& head) {
  using S = Stored<T>;
  const hn::ScalableTag<ComputeType<T>> d;
  const typename S::template Tag<decltype(d)> ds;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* x = reinterpret_cast<const typename S::Bits*>(head.x);
  auto* y = reinterpret_cast<typename S::Bits*>(head.y);
  int64_t i = 0;
  for (; i + lanes <= head.dim; i += lanes) {
    const auto radius = Softplus(d, S::Widen(d, hn::LoadU(ds, x + i)));
    Put<kStream>(S::Narrow(d, hn::Mul(radius, hn::LoadU(d, head.cos + i))), ds, y + i);
    Put<kStream>(S::Narrow(d, hn::Mul(radius, hn::LoadU(d, head.sin + i))), ds, y + head.dim + i);
  }
  const int64_t rest = head.dim - i;
  if (rest == 0) return;
  const auto radius = Softplus(d, S::Widen(d, LoadUpTo(ds, x + i, rest)));
  StoreFirst(S::Narrow(d, hn::Mul(radius, LoadUpTo(d, head.cos + i, rest))), ds, y + i, rest);
  StoreFirst(S::Narrow(d, hn::Mul(radius, LoadUpTo(d, head.sin + i, rest))), ds, y + head.dim + i, rest);
}

#endif  // vectors

template <typename T, bool kStream>
bool RunTokens(const PolarTask& task, int64_t begin, int64_t end, const CancelFlag* cancel) {
  using C = ComputeType<T>;
  bool done = true;
  for (int64_t t = begin; t < end && done; ++t) {
    for (int64_t h = 0; h < task.heads; ++h) {
      const int64_t row = t * task.table_stride + h * task.table_head_stride;
      const PolarHead<T> head{static_cast<const T*>(task.x) + t * task.x_token_stride + h * task.x_head_stride,
                              static_cast<T*>(task.y) + t * task.y_token_stride + h * task.y_head_stride,
                              static_cast<const C*>(task.cos) + row, static_cast<const C*>(task.sin) + row, task.head_dim};
      RunHead<T, kStream>(head);
    }
    done = cancel == nullptr || !cancel->load(std::memory_order_relaxed);
  }
  FinishStores<kStream>();
  return done;
}

bool PolarTokens(const PolarTask* task, int64_t begin, int64_t end, const CancelFlag* cancel, bool stream) {
  return VisitFloat(task->dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    return stream ? RunTokens<T, kHasStreaming>(*task, begin, end, cancel) : RunTokens<T, false>(*task, begin, end, cancel);
  });
}

// Elements that take about a millisecond, the first touch of fresh pages included.
int64_t PolarSliceElements() { return HWY_TARGET == HWY_SCALAR ? 12 << 10 : 256 << 10; }

}  // namespace HWY_NAMESPACE
}  // namespace phasor
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace phasor {
namespace {

HWY_EXPORT(PolarTokens);
HWY_EXPORT(PolarSliceElements);

absl::Status CheckPolar(const PolarTask& task, RowRange rows) {
  if (!IsFloat(task.dtype)) return absl::InvalidArgumentError("polar embedding: the element type must be a float");
  if (rows.begin < 0 || rows.end > task.tokens || task.heads < 0 || task.head_dim < 0) {
    return absl::InvalidArgumentError("polar embedding: rows outside [0, tokens), or a negative extent");
  }
  if (task.heads == 0 || task.head_dim == 0) return absl::OkStatus();
  if (task.x == nullptr || task.y == nullptr || task.cos == nullptr || task.sin == nullptr) {
    return absl::InvalidArgumentError("polar embedding without an input, a table or an output");
  }
  return absl::OkStatus();
}

bool CanStream(const PolarTask& task) {
  const int64_t size = SizeOf(task.dtype);
  const int64_t ors = static_cast<int64_t>(reinterpret_cast<uintptr_t>(task.y)) | (task.y_token_stride * size) |
                      (task.y_head_stride * size) | (task.head_dim * size);
  return ors % kLineBytes == 0 && PrefersStreaming(StoreHint::kAuto, 3 * task.tokens * task.heads * task.head_dim * size);
}

}  // namespace

absl::Status RunPolar(const PolarTask& task, RowRange rows, const CancelFlag* cancel) {
  if (rows.begin >= rows.end) return absl::OkStatus();
  if (auto status = CheckPolar(task, rows); !status.ok()) return status;
  if (task.heads == 0 || task.head_dim == 0) return absl::OkStatus();
  if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return absl::CancelledError("cancelled");
  const bool done = HWY_DYNAMIC_DISPATCH(PolarTokens)(&task, rows.begin, rows.end, cancel, CanStream(task));
  return done ? absl::OkStatus() : absl::CancelledError("cancelled");
}

int64_t PolarRowsPerSlice(const PolarTask& task) {
  const int64_t token = std::max<int64_t>(1, task.heads * task.head_dim * (task.dtype == DType::kF64 ? 4 : 1));
  return std::max<int64_t>(1, HWY_DYNAMIC_DISPATCH(PolarSliceElements)() / token);
}

}  // namespace phasor
#endif  // HWY_ONCE
