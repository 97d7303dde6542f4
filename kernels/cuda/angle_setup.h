// What the kernels need of an AnglePlan, in the one block that goes to the device.
#ifndef PHASOR_KERNELS_CUDA_ANGLE_SETUP_H_
#define PHASOR_KERNELS_CUDA_ANGLE_SETUP_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/cuda/angle.h"
#include "kernels/encodings/plan_angle.h"

namespace phasor::cuda {

// The pairs of one axis, in the order of their columns.
struct AnglePart {
  int64_t axis = 0;
  int64_t pairs = 0;
  int64_t first_column = 0;
  bool contiguous = true;  // columns first_column, first_column + 1 …
  int64_t offset = 0;      // of its pairs in the arrays, a multiple of kAnglePadding
};

// Arrays over the pairs of all parts, each padded with zeros (of step_cos: ones). About 0.25 µs a pair to make.
class AngleSetup {
 public:
  AngleSetup(const AnglePlan& plan, bool inverse);

  const std::vector<AnglePart>& parts() const { return parts_; }
  const std::vector<uint64_t>& words() const { return words_; }
  int64_t bytes() const { return static_cast<int64_t>(words_.size() * sizeof(uint64_t)); }
  // The plan's fields of a part's parameters, `at` being where words() lies for the kernel.
  void Fill(const AnglePart& part, const std::byte* at, AngleParams& params) const;

 private:
  void AddPart(const AnglePlan& plan, int64_t axis);
  void FillPair(const AnglePlan& plan, size_t pair, size_t index);

  bool exact_;
  std::vector<AnglePart> parts_;
  size_t padded_ = 0;  // pairs of an array
  std::vector<uint64_t> words_;
  AngleParams common_;
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_ANGLE_SETUP_H_
