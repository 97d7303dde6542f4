#ifndef PHASOR_KERNELS_CUDA_MASK_CUH_
#define PHASOR_KERNELS_CUDA_MASK_CUH_

#include <cstdint>
#include <type_traits>

#include "kernels/core/host_device.h"
#include "kernels/core/narrow.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/mask.h"
#include "kernels/cuda/pieces.cuh"
#include "kernels/cuda/vector16.cuh"
#include "kernels/tasks/mask_rows.h"

namespace phasor::cuda {

template <typename A>
inline constexpr BitsType<A> kMinusInfinityBits = kInfinityBits<A> | kSignBit<A>;

// Where a row stands.
struct RowPlace {
  int64_t b, h, q;
};
PHASOR_HOST_DEVICE inline RowPlace PlaceOf(const MaskedRows& rows, int64_t row) {
  const int64_t task_row = rows.first_row + row, of_heads = task_row / rows.queries;
  return {of_heads / rows.heads, of_heads % rows.heads, task_row % rows.queries};
}

template <typename A>
PHASOR_HOST_DEVICE const A* AdditiveRow(const AdditiveRows& additive, int64_t keys, RowPlace at) {
  const int64_t row = at.b * additive.per_batch + at.h * additive.per_head + at.q * additive.per_query - additive.first_row;
  return static_cast<const A*>(additive.data) + row * keys;
}

// A: the additive's type, or void without one.
template <typename A>
struct KeptKeysBody {
  KeptKeysParams p;

  // Whether one of the keys is left.
  PHASOR_HOST_DEVICE bool HasKey(KeyRun run, [[maybe_unused]] RowPlace at, const uint8_t* padding) const {
    if constexpr (std::is_void_v<A>) {
      if (padding == nullptr) return !run.empty();
      for (int64_t k = run.begin; k < run.end; ++k) {
        if (padding[k] != 0) return true;
      }
    } else {
      const A* const add = AdditiveRow<A>(p.additive, p.rows.keys, at);
      for (int64_t k = run.begin; k < run.end; ++k) {
        if ((padding == nullptr || padding[k] != 0) && BitsOf(add[k]) != kMinusInfinityBits<A>) return true;
      }
    }
    return false;
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    for (int64_t row = p.rows.begin + thread.index; row < p.rows.end; row += thread.count) {
      const RowPlace at = PlaceOf(p.rows, row);
      const KeyRunPair pair = VisibleRunPair(p.rule, p.rows.keys, at.b, at.q);
      KeptKeys kept{static_cast<uint32_t>(pair.first.begin), static_cast<uint32_t>(pair.first.end),
                    static_cast<uint32_t>(pair.second.begin), static_cast<uint32_t>(pair.second.end)};
      if (p.finds_rows_without_key) {
        const uint8_t* const padding =
            p.rule.key_padding == nullptr ? nullptr : p.rule.key_padding + at.b * p.rule.key_padding_batch_stride;
        if (!HasKey(pair.first, at, padding) && !HasKey(pair.second, at, padding)) kept = KeptKeys::None();
      }
      p.kept[row] = kept;
    }
  }
};

// T: the element's type with an additive of type A; with A void an unsigned integer of its size.
template <typename T, typename A>
struct MaskBody {
  static constexpr bool kAdds = !std::is_void_v<A>;
  using Sum = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<A, double>, double, float>;
  MaskParams p;

  template <typename U>
  PHASOR_HOST_DEVICE static T Of(U bits) {
    if constexpr (kAdds) {
      return FromBits<T>(static_cast<uint64_t>(bits));
    } else {
      return static_cast<T>(bits);
    }
  }
  PHASOR_HOST_DEVICE static bool Has(const KeptKeys& kept, int64_t key) {
    return (key >= kept.first_begin && key < kept.first_end) || (key >= kept.second_begin && key < kept.second_end);
  }
  PHASOR_HOST_DEVICE const uint8_t* PaddingOf(RowPlace at) const {
    return p.key_padding == nullptr ? nullptr : p.key_padding + at.b * p.key_padding_batch_stride;
  }

  PHASOR_HOST_DEVICE T Added(T x, [[maybe_unused]] const A* add) const {
    if constexpr (kAdds) {
      if (p.hides_minus_infinity && BitsOf(*add) == kMinusInfinityBits<A>) return Of(p.entry_bits);
      return Narrow<T>(Widen<Sum>(x) + Widen<Sum>(*add));
    } else {
      return x;
    }
  }
  PHASOR_HOST_DEVICE static const A* Additive(const MaskParams& p, RowPlace at, int64_t key) {
    if constexpr (kAdds) {
      return AdditiveRow<A>(p.additive, p.rows.keys, at) + key;
    } else {
      return nullptr;
    }
  }

  PHASOR_HOST_DEVICE void operator()(GridThread thread) const {
    constexpr int kCount = Vector16<T>::kCount;
    T* const data = static_cast<T*>(p.data);
    const auto each = [&](int64_t i, int64_t row, int64_t key) {
      const KeptKeys kept = p.kept[row];
      const RowPlace at = PlaceOf(p.rows, row);
      const uint8_t* const padding = PaddingOf(at);
      if (kept.no_key()) {
        data[i] = Of(p.row_bits);
      } else if (!Has(kept, key) || (padding != nullptr && padding[key] == 0)) {
        data[i] = Of(p.entry_bits);
      } else if constexpr (kAdds) {
        data[i] = Added(data[i], Additive(p, at, key));
      }
    };
    const auto whole = [&](int64_t first, int64_t row, int64_t key) {
      const KeptKeys kept = p.kept[row];
      const int64_t end = key + kCount;
      const bool none = kept.no_key();
      const bool outside =
          (key >= kept.first_end || end <= kept.first_begin) && (key >= kept.second_end || end <= kept.second_begin);
      const bool inside =
          (key >= kept.first_begin && end <= kept.first_end) || (key >= kept.second_begin && end <= kept.second_end);
      if (!kAdds && inside && p.key_padding == nullptr) return;
      Vector16<T> value;
      if (none || outside) {
        const T fill = Of(none ? p.row_bits : p.entry_bits);
        for (int i = 0; i < kCount; ++i) value.at[i] = fill;
        return Store16<T>(data + first, value);
      }
      value = Load16<T>(data + first);
      const T hidden = Of(p.entry_bits);
      [[maybe_unused]] const RowPlace at = PlaceOf(p.rows, row);
      if constexpr (kAdds) {
        const auto add = LoadNeighbours<kCount>(Additive(p, at, key));
        for (int i = 0; i < kCount; ++i) value.at[i] = Added(value.at[i], &add.at[i]);
      }
      if (!inside) {
        for (int i = 0; i < kCount; ++i) {
          if (!Has(kept, key + i)) value.at[i] = hidden;
        }
      }
      if (p.key_padding != nullptr) {
        const auto there = LoadNeighbours<kCount>(PaddingOf(at) + key);
        for (int i = 0; i < kCount; ++i) {
          if (there.at[i] == 0) value.at[i] = hidden;
        }
      }
      Store16<T>(data + first, value);
    };
    ForPieces<T>(thread, p.rows.begin * p.rows.keys, p.rows.end * p.rows.keys, p.rows.keys, whole, each);
  }
};

template <typename T>
using HideBody = MaskBody<T, void>;

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_MASK_CUH_
