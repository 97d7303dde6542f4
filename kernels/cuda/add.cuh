#ifndef PHASOR_KERNELS_CUDA_ADD_CUH_
#define PHASOR_KERNELS_CUDA_ADD_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/host_device.h"
#include "kernels/core/narrow.h"
#include "kernels/core/philox.h"
#include "kernels/cuda/add.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

// Bit i: element first + i is kept, for kCount elements.
template <int kCount>
PHASOR_HOST_DEVICE inline uint32_t KeptElements(const DropoutRule& rule, uint64_t first) {
  const int skipped = static_cast<int>(first % 4);
  uint32_t kept = 0;
  for (int word = 0; word < skipped + kCount; word += 4) {
    const PhiloxBlock block = Philox(rule.seed, rule.offset, first / 4 + static_cast<uint64_t>(word / 4));
    const uint32_t of_block = (block[0] >= rule.threshold ? 1u : 0u) | (block[1] >= rule.threshold ? 2u : 0u) |
                              (block[2] >= rule.threshold ? 4u : 0u) | (block[3] >= rule.threshold ? 8u : 0u);
    kept |= of_block << word;
  }
  return kept >> skipped;
}

template <typename T>
struct AddBody {
  using C = ComputeType<T>;
  AddParams p;

  // Where a vector stands.
  struct Place {
    int64_t b, t;
  };
  PHASOR_HOST_DEVICE Place PlaceOf(int64_t vector) const {
    const int64_t row = p.first_row + vector * p.row_step;
    return {row % p.batch, row / p.batch};
  }
  PHASOR_HOST_DEVICE static const C* RowOf(const AddTable& table, Place at) {
    const int64_t row = at.b * table.per_batch + at.t * table.per_token - table.first_row;
    return static_cast<const C*>(table.data) + row * table.width;
  }
  PHASOR_HOST_DEVICE bool IsHidden(Place at) const {
    return p.hidden != nullptr && p.hidden[at.b * p.hidden_batch_stride + at.t] != 0;
  }
  PHASOR_HOST_DEVICE uint64_t ElementOf(Place at, int64_t channel) const {
    return static_cast<uint64_t>(p.first_element + at.b * p.element_batch_stride + at.t * p.element_token_stride + channel);
  }

  // p += the row of `ends` that the token has.
  template <int kCount>
  PHASOR_HOST_DEVICE void AddEnd(const AddEnds& ends, Place at, int64_t channel, Neighbours<C, kCount>& sum) const {
    if (ends.data == nullptr) return;
    const int32_t row = ends.index[at.b * ends.index_batch_stride + at.t];
    if (row < 0) return;
    const auto end = LoadNeighbours<kCount>(static_cast<const C*>(ends.data) + row * p.dim + channel);
    for (int i = 0; i < kCount; ++i) sum.at[i] = sum.at[i] + end.at[i];
  }

  // The encoding of kCount channels.
  template <int kCount>
  PHASOR_HOST_DEVICE Neighbours<C, kCount> Encoding(Place at, int64_t channel) const {
    Neighbours<C, kCount> sum = LoadNeighbours<kCount>(RowOf(p.pe, at) + channel);
    if (p.other.data != nullptr) {
      const auto other = LoadNeighbours<kCount>(RowOf(p.other, at) + channel);
      const C* const gate = RowOf(p.gate, at);
      if (p.gate_channel_stride == 0) {
        const C g = *gate;
        for (int i = 0; i < kCount; ++i) sum.at[i] = std::fma(g, sum.at[i], (C{1} - g) * other.at[i]);
      } else {
        const auto g = LoadNeighbours<kCount>(gate + channel);
        for (int i = 0; i < kCount; ++i) sum.at[i] = std::fma(g.at[i], sum.at[i], (C{1} - g.at[i]) * other.at[i]);
      }
    }
    AddEnd<kCount>(p.first, at, channel, sum);
    AddEnd<kCount>(p.last, at, channel, sum);
    return sum;
  }

  // kCount channels of one vector from x.
  template <int kCount>
  PHASOR_HOST_DEVICE Neighbours<T, kCount> Values(const Neighbours<T, kCount>& x, Place at, int64_t channel) const {
    const C scale = static_cast<C>(p.scale);
    Neighbours<C, kCount> v;
    if (p.pe.data == nullptr) {
      for (int i = 0; i < kCount; ++i) v.at[i] = scale * Widen<C>(x.at[i]);
    } else {
      v = Encoding<kCount>(at, channel);
      for (int i = 0; i < kCount; ++i) v.at[i] = std::fma(scale, Widen<C>(x.at[i]), v.at[i]);
    }
    if (p.dropout.on) {
      const uint32_t kept = KeptElements<kCount>(p.dropout, ElementOf(at, channel));
      const C factor = static_cast<C>(p.dropout.factor);
      for (int i = 0; i < kCount; ++i) v.at[i] = (kept >> i & 1) != 0 ? v.at[i] * factor : C{0};
    }
    Neighbours<T, kCount> y;
    for (int i = 0; i < kCount; ++i) y.at[i] = Narrow<T>(v.at[i]);
    return y;
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<T>::kCount;
    const T* const x = static_cast<const T*>(p.x);
    T* const y = static_cast<T*>(p.y);
    const auto each = [&](int64_t i, int64_t vector, int64_t channel) {
      const Place at = PlaceOf(vector);
      y[i] = IsHidden(at) ? Narrow<T>(C{0}) : Values<1>({{x[i]}}, at, channel).at[0];
    };
    const auto whole = [&](int64_t first, int64_t vector, int64_t channel) {
      const Place at = PlaceOf(vector);
      Vector16<T> value;
      if (IsHidden(at)) {
        for (int i = 0; i < kCount; ++i) value.at[i] = Narrow<T>(C{0});
      } else {
        const auto values = Values<kCount>(LoadNeighbours<kCount>(x + first), at, channel);
        for (int i = 0; i < kCount; ++i) value.at[i] = values.at[i];
      }
      Store16<T>(y + first, value);
    };
    ForPieces<T>(thread, 0, p.rows * p.dim, p.dim, whole, each);
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ADD_CUH_
