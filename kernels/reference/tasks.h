// One function per task of the reference backend: fills row `row` of the task.
#ifndef PHASOR_KERNELS_REFERENCE_TASKS_H_
#define PHASOR_KERNELS_REFERENCE_TASKS_H_

#include <cstdint>
#include <cstring>

#include "kernels/backend.h"
#include "kernels/encodings/wide.h"

namespace phasor::reference {

absl::Status RunRow(const AngleTask& task, int64_t row);
absl::Status RunRow(const RotateTask& task, int64_t row);
absl::Status RunRow(const BiasVectorTask& task, int64_t row);
absl::Status RunRow(const ToeplitzTask& task, int64_t row);
absl::Status RunRow(const GatherRowsTask& task, int64_t row);
absl::Status RunRow(const FourierRowsTask& task, int64_t row);
absl::Status RunRow(const AssembleTask& task, int64_t row);
absl::Status RunRow(const WindowTask& task, int64_t row);
absl::Status RunRow(const PerceptronTask& task, int64_t row);
absl::Status RunRow(const PairPerceptronTask& task, int64_t row);
absl::Status RunRow(const SumDifferenceTask& task, int64_t row);
absl::Status RunRow(const PositionProductTask& task, int64_t row);
absl::Status RunRow(const AddTask& task, int64_t row);
absl::Status RunRow(const PolarAngleTask& task, int64_t row);
absl::Status RunRow(const MixedAngleTask& task, int64_t row);
absl::Status RunRow(const PolarTask& task, int64_t row);
absl::Status RunRow(const MaskTask& task, int64_t row);
absl::Status RunRow(const BiasMatrixTask& task, int64_t row);
absl::Status RunRow(const ScoreProductTask& task, int64_t row);
absl::Status RunRow(const RelativeProductTask& task, int64_t row);
absl::Status RunRow(const GridProductTask& task, int64_t row);
absl::Status RunRow(const ContextualPositionTask& task, int64_t row);
absl::Status RunRow(const ScoreSumTask& task, int64_t row);
absl::Status RunRow(const ScoreOutputTask& task, int64_t row);
absl::Status RunRow(const RelativeValueTask& task, int64_t row);

// Elements are moved byte by byte: no alignment beyond the element's is asked for, and none is needed here.
inline void StoreBits(void* base, int64_t index, int64_t element_size, uint64_t bits) {
  std::memcpy(static_cast<char*>(base) + index * element_size, &bits, element_size);
}
inline uint64_t LoadBits(const void* base, int64_t index, int64_t element_size) {
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(base) + index * element_size, element_size);
  return bits;
}

// The format of IsFloat types.
constexpr const BinaryFormat& FormatOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return kFormatF64;
    case DType::kF16:
      return kFormatF16;
    case DType::kBF16:
      return kFormatBF16;
    default:
      return kFormatF32;
  }
}

}  // namespace phasor::reference

#endif  // PHASOR_KERNELS_REFERENCE_TASKS_H_
