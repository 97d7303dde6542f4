#ifndef PHASOR_KERNELS_CUDA_GATHER_CUH_
#define PHASOR_KERNELS_CUDA_GATHER_CUH_

#include <cmath>
#include <cstdint>

#include "kernels/core/host_device.h"
#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/core/round_product.h"
#include "kernels/core/sum.h"
#include "kernels/cuda/gather.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/vector16.cuh"

namespace phasor::cuda {

// Where what row r reads begins, elements.
PHASOR_HOST_DEVICE inline int64_t GatheredFrom(const GatherSource& source, int64_t r) {
  int64_t row = source.hidden_row;
  if (source.hidden == nullptr || source.hidden[r] == 0) {
    // Unsigned: `start` may have wrapped, on the way to rows that are in the table.
    const uint64_t position = source.ids != nullptr ? static_cast<uint64_t>(source.ids[r])
                                                    : static_cast<uint64_t>(source.start) +
                                                          static_cast<uint64_t>(r) * static_cast<uint64_t>(source.stride);
    row = static_cast<int64_t>(position + static_cast<uint64_t>(source.offset));
  }
  return (row - source.first_table_row) * source.dim;
}

// T: an unsigned integer of the element's size.
template <typename T>
struct GatherBitsBody {
  GatherParams p;

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<T>::kCount;
    const T* const table = static_cast<const T*>(p.source.table);
    T* const out = static_cast<T*>(p.out);
    const auto each = [&](int64_t i, int64_t row, int64_t c) { out[i] = table[GatheredFrom(p.source, row) + c]; };
    const auto whole = [&](int64_t first, int64_t row, int64_t c) {
      const auto from = LoadNeighbours<kCount>(table + GatheredFrom(p.source, row) + c);
      Vector16<T> value;
      for (int i = 0; i < kCount; ++i) value.at[i] = from.at[i];
      Store16<T>(out + first, value);
    };
    ForPieces<T>(thread, 0, p.source.rows * p.source.dim, p.source.dim, whole, each);
  }
};

template <typename From, typename To>
struct GatherBody {
  GatherParams p;

  PHASOR_HOST_DEVICE To Scaled(From entry, double norm) const {
    const double value = Widen<double>(entry);
    return p.norms != nullptr ? Narrow<To>(p.scale * (value / norm)) : RoundedProduct<To>(value, p.scale);
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<To>::kCount;
    const From* const table = static_cast<const From*>(p.source.table);
    To* const out = static_cast<To*>(p.out);
    const auto each = [&](int64_t i, int64_t row, int64_t c) {
      out[i] = Scaled(table[GatheredFrom(p.source, row) + c], p.norms != nullptr ? p.norms[row] : 1);
    };
    const auto whole = [&](int64_t first, int64_t row, int64_t c) {
      const double norm = p.norms != nullptr ? p.norms[row] : 1;
      const auto from = LoadNeighbours<kCount>(table + GatheredFrom(p.source, row) + c);
      Vector16<To> value;
      for (int i = 0; i < kCount; ++i) value.at[i] = Scaled(from.at[i], norm);
      Store16<To>(out + first, value);
    };
    ForPieces<To>(thread, 0, p.source.rows * p.source.dim, p.source.dim, whole, each);
  }
};

template <typename From>
struct SquarePartialsBody {
  SquarePartialsParams p;

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    const int64_t works = p.source.rows * kPartialSums;
    for (int64_t work = thread.index; work < works; work += thread.count) {
      const From* const from = static_cast<const From*>(p.source.table) + GatheredFrom(p.source, work / kPartialSums);
      double partial = 0;
      for (int64_t c = work % kPartialSums; c < p.source.dim; c += kPartialSums) {
        const double value = Widen<double>(from[c]);
        partial = std::fma(value, value, partial);
      }
      p.partials[work] = partial;
    }
  }
};

struct NormsBody {
  NormsParams p;

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    for (int64_t row = thread.index; row < p.rows; row += thread.count) {
      const double norm = math::Sqrt(FixedSum::Fold(p.partials + row * kPartialSums));
      p.norms[row] = norm < 1e-12 ? 1e-12 : norm;
    }
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_GATHER_CUH_
