// What lowerings share: strips, constants, checks of ranges.
#ifndef PHASOR_KERNELS_CUDA_LOWER_PARTS_H_
#define PHASOR_KERNELS_CUDA_LOWER_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cuda/lowering.h"
#include "kernels/cuda/rotate.h"

namespace phasor::cuda {

// INVALID_ARGUMENT, with that message, where a range is not within [0, count).
inline absl::Status RowsWithin(RowRange rows, int64_t count, const char* message) {
  return rows.begin < 0 || rows.end > count ? absl::InvalidArgumentError(message) : absl::OkStatus();
}

// `rows` rows, one every `pitch` bytes from `host` on; as one where they lie without gaps.
inline Strip StripOf(const void* host, int64_t row_bytes, int64_t rows, int64_t pitch) {
  auto* const address = static_cast<std::byte*>(const_cast<void*>(host));
  if (rows == 1 || pitch == row_bytes) return {address, row_bytes * rows, 1, 0};
  return {address, row_bytes, rows, pitch};
}

// An output that is not moved: memory of the chunk's own.
inline Strip ScratchOf(int64_t bytes) { return {nullptr, bytes, 1, 0}; }

// Where [tokens, heads] vectors of some channels lie on the device; strides in elements.
struct Vectors {
  std::byte* data = nullptr;
  int64_t token_stride = 0, head_stride = 0;
};
// Copies `width` channels of each: rotations without a pair.
RotateParams CopyOf(DType dtype, int64_t tokens, int64_t heads, int64_t width, const Vectors& from, const Vectors& to);

// The constants of a task by their numbers.
class ConstantList {
 public:
  // −1 where there are none.
  int Add(const void* host, int64_t bytes) {
    if (host == nullptr) return -1;
    list_.push_back({host, bytes, 0});
    return static_cast<int>(list_.size()) - 1;
  }
  std::span<const Constant> all() const { return list_; }

  template <typename T>
  static const T* At(const Addresses& at, int number) {
    return number < 0 ? nullptr : reinterpret_cast<const T*>(at.constants[static_cast<size_t>(number)]);
  }

 private:
  std::vector<Constant> list_;
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LOWER_PARTS_H_
