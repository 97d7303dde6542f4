#ifndef PHASOR_KERNELS_CUDA_ROTATE_CUH_
#define PHASOR_KERNELS_CUDA_ROTATE_CUH_

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/host_device.h"
#include "kernels/core/narrow.h"
#include "kernels/cuda/convert16.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/rotate.h"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

// The works of one rotation.
template <typename T>
class Rotation {
 public:
  PHASOR_HOST_DEVICE_INLINE static void Run(const RotateParams& p, int64_t work) {
    const RotatePlace at = p.PlaceOf(work);
    const T* const x = static_cast<const T*>(p.x) + p.XOf(at);
    T* const y = static_cast<T*>(p.y) + p.YOf(at);
    const int64_t pair_units = p.pair_units();
    if (at.unit >= pair_units) return CopyTail(p, x, y, (at.unit - pair_units) * kCount);
    const int64_t row = p.table_rows != nullptr ? p.table_rows[at.token] : at.token;
    const int64_t first = at.unit * kCount, entry = row * p.table_stride + first;
    const C* const cos = static_cast<const C*>(p.cos) + entry;
    const C* const sin = static_cast<const C*>(p.sin) + entry;
    if (!p.vectors || first + kCount > p.pairs) return RotatePairs(p, x, y, cos, sin, first);
    if (p.reads_halves) {
      p.writes_halves ? RotateVectors<true, true>(p, x, y, cos, sin, first)
                      : RotateVectors<true, false>(p, x, y, cos, sin, first);
    } else {
      p.writes_halves ? RotateVectors<false, true>(p, x, y, cos, sin, first)
                      : RotateVectors<false, false>(p, x, y, cos, sin, first);
    }
  }

 private:
  using C = ComputeType<T>;
  using Bits = BitsType<T>;
  static constexpr int kCount = Vector16<Bits>::kCount;

  struct Pair {
    Bits a, b;
  };
  PHASOR_HOST_DEVICE_INLINE static Pair Turn(Bits a, Bits b, C cos, C sin, bool inverse) {
    const C x_a = WidenBits(std::bit_cast<T>(a)), x_b = WidenBits(std::bit_cast<T>(b));
    const C s = inverse ? -sin : sin;
    return {std::bit_cast<Bits>(NarrowBits<T>(std::fma(x_a, cos, -(x_b * s)))),
            std::bit_cast<Bits>(NarrowBits<T>(std::fma(x_b, cos, x_a * s)))};
  }

  // kCount entries of a table row.
  PHASOR_HOST_DEVICE_INLINE static void LoadTable(bool vectors, const C* from, C (&to)[kCount]) {
    constexpr int kStep = Vector16<C>::kCount;
    for (int k = 0; k < kCount; k += kStep) {
      if (vectors) {
        const auto part = Load16<C>(from + k);
        for (int i = 0; i < kStep; ++i) to[k + i] = part.at[i];
      } else {
        for (int i = 0; i < kStep; ++i) to[k + i] = from[k + i];
      }
    }
  }

  // kCount pairs from `first` on: two vectors, side by side or one in each half.
  template <bool kReadsHalves, bool kWritesHalves>
  PHASOR_HOST_DEVICE_INLINE static void RotateVectors(const RotateParams& p, const T* x, T* y, const C* cos_at,
                                                      const C* sin_at, int64_t first) {
    const auto one = Load16<Bits>(x + (kReadsHalves ? first : 2 * first));
    const auto two = Load16<Bits>(x + (kReadsHalves ? p.pairs + first : 2 * first + kCount));
    C cos[kCount], sin[kCount];
    LoadTable(p.table_vectors, cos_at, cos);
    LoadTable(p.table_vectors, sin_at, sin);
    Vector16<Bits> out_one, out_two;
    for (int k = 0; k < kCount; ++k) {
      // Where pair k lies in two vectors side by side.
      const bool in_one = k < kCount / 2;
      const int even = in_one ? 2 * k : 2 * k - kCount;
      const Bits a = kReadsHalves ? one.at[k] : in_one ? one.at[even] : two.at[even];
      const Bits b = kReadsHalves ? two.at[k] : in_one ? one.at[even + 1] : two.at[even + 1];
      const Pair turned = Turn(a, b, cos[k], sin[k], p.inverse);
      if constexpr (kWritesHalves) {
        out_one.at[k] = turned.a;
        out_two.at[k] = turned.b;
      } else {
        (in_one ? out_one : out_two).at[even] = turned.a;
        (in_one ? out_one : out_two).at[even + 1] = turned.b;
      }
    }
    Store16<Bits>(y + (kWritesHalves ? first : 2 * first), out_one);
    Store16<Bits>(y + (kWritesHalves ? p.pairs + first : 2 * first + kCount), out_two);
  }

  // At most kCount pairs, one by one.
  PHASOR_HOST_DEVICE_INLINE static void RotatePairs(const RotateParams& p, const T* x, T* y, const C* cos, const C* sin,
                                                    int64_t first) {
    const auto* const from = reinterpret_cast<const Bits*>(x);
    auto* const to = reinterpret_cast<Bits*>(y);
    PHASOR_NO_UNROLL
    for (int k = 0; k < kCount && first + k < p.pairs; ++k) {
      const int64_t i = first + k;
      const Bits a = from[p.reads_halves ? i : 2 * i], b = from[p.reads_halves ? i + p.pairs : 2 * i + 1];
      const Pair turned = Turn(a, b, cos[k], sin[k], p.inverse);
      to[p.writes_halves ? i : 2 * i] = turned.a;
      to[p.writes_halves ? i + p.pairs : 2 * i + 1] = turned.b;
    }
  }

  // At most kCount channels of the tail, from `first` of them on.
  PHASOR_HOST_DEVICE_INLINE static void CopyTail(const RotateParams& p, const T* x, T* y, int64_t first) {
    const int64_t channel = 2 * p.pairs + first;
    const auto* const from = reinterpret_cast<const Bits*>(x) + channel;
    auto* const to = reinterpret_cast<Bits*>(y) + channel;
    if (p.vectors && channel % kCount == 0 && first + kCount <= p.tail) {
      return Store16<Bits>(to, Load16<Bits>(from));
    }
    PHASOR_NO_UNROLL
    for (int k = 0; k < kCount && first + k < p.tail; ++k) to[k] = from[k];
  }
};

template <typename T>
struct RotateBody {
  RotateParams p;

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    const int64_t works = p.works();
    PHASOR_NO_UNROLL
    for (int64_t work = thread.index; work < works; work += thread.count) Rotation<T>::Run(p, work);
  }
};

// The works of several rotations, one after the other: a kernel's parameters hold them all.
template <typename T, int kCapacity>
struct RotateGroupBody {
  int count = 0;
  uint32_t end[kCapacity] = {};  // works of the rotations up to this one, itself included
  RotateParams tasks[kCapacity];

  explicit RotateGroupBody(const std::vector<RotateParams>& group) : count(static_cast<int>(group.size())) {
    int64_t works = 0;
    for (int i = 0; i < count; ++i) {
      tasks[i] = group[static_cast<size_t>(i)];
      works += tasks[i].works();
      end[i] = static_cast<uint32_t>(works);
    }
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    const int64_t works = end[count - 1];
    PHASOR_NO_UNROLL
    for (int64_t work = thread.index; work < works; work += thread.count) {
      // The first rotation that ends behind the work.
      int low = 0, high = count - 1;
      while (low < high) {
        const int middle = (low + high) / 2;
        if (end[middle] > work) {
          high = middle;
        } else {
          low = middle + 1;
        }
      }
      Rotation<T>::Run(tasks[low], work - (low == 0 ? 0 : end[low - 1]));
    }
  }
};
// What a kernel's parameters can hold.
static_assert(sizeof(RotateGroupBody<float, kMaxRotateGroup>) <= 32764);

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ROTATE_CUH_
