// AngleTask on a device: tables of cos and sin, every entry correctly rounded (or as kCompatF32 has it), 16 bytes a store.
#ifndef PHASOR_KERNELS_CUDA_ANGLE_H_
#define PHASOR_KERNELS_CUDA_ANGLE_H_

#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/host_device.h"
#include "kernels/core/sincos.h"
#include "kernels/core/turns.h"
#include "kernels/cuda/vector_size.h"

namespace phasor::cuda {

enum class AngleMethod : uint8_t {
  kRange,       // consecutive whole positions, exact: a recurrence (angle_range.cuh); no f64
  kWhole,       // any whole positions, exact: each entry by itself (angle_direct.cuh, the rest too)
  kFractional,  // exact; no f64
  kCompat,      // kCompatF32, any positions
};

// Rows of a pass of the recurrence, which begins where a position is a multiple of it.
inline constexpr int64_t kAnglePassRows = 16;
// Arrays of a plan are padded to whole vectors of the narrowest type, with zeros.
inline constexpr int64_t kAnglePadding = 8;

// The largest multiple of kAnglePassRows that is no more than `position`.
PHASOR_HOST_DEVICE constexpr int64_t AnglePassOf(int64_t position) { return position & ~(kAnglePassRows - 1); }

// Pairs of one axis, all rows of a chunk. Addresses are the device's; those of arrays, cos and sin are aligned to 16 bytes.
struct AngleParams {
  AngleMethod method = AngleMethod::kRange;
  DType dtype = DType::kF32;
  bool divide = false;  // kCompat: by the factor
  int64_t rows = 0;
  int64_t pairs = 0;  // of this axis

  // Where pair i goes: column first_column + i, or columns[i]. One of cos and sin may be null.
  void* cos = nullptr;
  void* sin = nullptr;
  int64_t row_stride = 0;  // elements
  int64_t first_column = 0;
  const int32_t* columns = nullptr;

  // Position of row r: ids[r], fractional_ids[r] or first + r·stride.
  int64_t first = 0;
  int64_t stride = 1;
  const int64_t* ids = nullptr;
  const double* fractional_ids = nullptr;

  // The plan, per pair. Exact: limb l of pair i's frequency is turns[l·turns_stride + i].
  const uint64_t* turns = nullptr;
  int64_t turns_stride = 0;
  const double* step_cos = nullptr;  // kRange: e^(i·inv_freq), each component correctly rounded
  const double* step_sin = nullptr;
  const double* angle = nullptr;    // kRange: radians per position from the fraction of a turn, rounded up
  const float* inv_freq = nullptr;  // kCompat
  float factor_f32 = 1;             // kCompat: A
  double factor = 1;                // A, or 1/A
  double bound = 1;                 // |factor|, rounded up
  double absolute_error = 0;        // of any entry that is not exact: what the phase's 128 bits leave out, and more
  Real128 exact_factor;

  // Of pairs that a work makes together.
  PHASOR_HOST_DEVICE int64_t groups() const { return VectorsFor(pairs, dtype); }
  // Of the recurrence: rows [first, first + rows) touch so many.
  PHASOR_HOST_DEVICE int64_t passes() const {
    return rows == 0 ? 0 : (AnglePassOf(first + rows - 1) - AnglePassOf(first)) / kAnglePassRows + 1;
  }
  PHASOR_HOST_DEVICE int64_t works() const { return (method == AngleMethod::kRange ? passes() : rows) * groups(); }

  PHASOR_HOST_DEVICE int64_t ElementOf(int64_t row, int64_t pair) const {
    return row * row_stride + (columns == nullptr ? first_column + pair : columns[pair]);
  }
  // Whether kCount pairs, a vector, from `pair` on lie side by side, at an address aligned to their size.
  template <int kCount>
  PHASOR_HOST_DEVICE bool IsVector(int64_t pair) const {
    return columns == nullptr && pair + kCount <= pairs && row_stride % kCount == 0 && (first_column + pair) % kCount == 0;
  }
  PHASOR_HOST_DEVICE Turns FrequencyOf(int64_t pair) const {
    return Turns{{turns[pair], turns[turns_stride + pair], turns[2 * turns_stride + pair], turns[3 * turns_stride + pair]}};
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ANGLE_H_
