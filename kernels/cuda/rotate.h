// RotateTask on a device: a thread rotates as many pairs as a vector of 16 bytes has elements.
#ifndef PHASOR_KERNELS_CUDA_ROTATE_H_
#define PHASOR_KERNELS_CUDA_ROTATE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/core/host_device.h"
#include "kernels/cuda/vector_size.h"

namespace phasor::cuda {

// Which vector of which head a work is.
struct RotatePlace {
  int64_t token = 0;
  int64_t head = 0;
  int64_t unit = 0;
  friend bool operator==(const RotatePlace&, const RotatePlace&) = default;
};

// Tokens of a chunk, all heads. Strides in elements; addresses are the device's. y is x, or apart from it; it may be x only
// where pairs are written where they are read.
struct RotateParams {
  DType dtype = DType::kF32;
  bool reads_halves = true;  // pairs as (i, i + pairs), else (2i, 2i + 1)
  bool writes_halves = true;
  bool inverse = false;
  bool vectors = false;        // x and y in 16 bytes: addresses, strides and halves allow it
  bool table_vectors = false;  // cos and sin too
  int64_t tokens = 0, heads = 0, pairs = 0;
  int64_t tail = 0;  // channels behind the pairs to be copied
  const void* x = nullptr;
  void* y = nullptr;
  int64_t x_token_stride = 0, x_head_stride = 0;
  int64_t y_token_stride = 0, y_head_stride = 0;
  // Token t's row is table_rows[t], or t; the first row may lie before the memory that is there.
  const void* cos = nullptr;
  const void* sin = nullptr;
  int64_t table_stride = 0;
  const int32_t* table_rows = nullptr;

  // Vectors of a head: of pairs, then of the tail.
  PHASOR_HOST_DEVICE constexpr int64_t pair_units() const { return VectorsFor(pairs, dtype); }
  PHASOR_HOST_DEVICE constexpr int64_t units() const { return pair_units() + VectorsFor(tail, dtype); }
  PHASOR_HOST_DEVICE constexpr int64_t works() const { return tokens * heads * units(); }
  PHASOR_HOST_DEVICE constexpr RotatePlace PlaceOf(int64_t work) const {
    const int64_t size = units(), vector = Quotient(work, size), token = Quotient(vector, heads);
    return {token, vector - token * heads, work - vector * size};
  }
  PHASOR_HOST_DEVICE constexpr int64_t XOf(RotatePlace at) const {
    return at.token * x_token_stride + at.head * x_head_stride;
  }
  PHASOR_HOST_DEVICE constexpr int64_t YOf(RotatePlace at) const {
    return at.token * y_token_stride + at.head * y_head_stride;
  }

  // Sets the two flags by the fields above them.
  void DecideVectors();
};

// Rotations of one type in one launch, none of which reads what another writes: the queries and keys of a layer, or of many.
// 1 to kMaxRotateGroup of them, which have at most kMaxGroupWorks works together.
inline constexpr int kMaxRotateGroup = 256;
inline constexpr int64_t kMaxGroupWorks = UINT32_MAX;
struct RotateGroupParams {
  std::shared_ptr<const std::vector<RotateParams>> tasks;

  int64_t works() const {
    int64_t sum = 0;
    for (const RotateParams& task : *tasks) sum += task.works();
    return sum;
  }
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ROTATE_H_
