// The lowerings of the tasks that devices run, by overload; kernels/cuda/lowering.cc has the list.
#ifndef PHASOR_KERNELS_CUDA_LOWER_H_
#define PHASOR_KERNELS_CUDA_LOWER_H_

#include <algorithm>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/cuda/lowering.h"

namespace phasor::cuda {

using LoweredOr = absl::StatusOr<std::unique_ptr<Lowered>>;

LoweredOr LowerTask(const AngleTask& task);
LoweredOr LowerTask(const RotateTask& task);
LoweredOr LowerTask(const ToeplitzTask& task);
LoweredOr LowerTask(const WindowTask& task);
LoweredOr LowerTask(const MaskTask& task);
LoweredOr LowerTask(const BiasMatrixTask& task);
LoweredOr LowerTask(const AssembleTask& task);
LoweredOr LowerTask(const GatherRowsTask& task);
LoweredOr LowerTask(const AddTask& task);

// The same of tasks on device memory (LowerInPlace).
LoweredOr LowerTaskInPlace(const RotateTask& task);
LoweredOr LowerTaskInPlace(const AddTask& task);

// Why a task is left to the CPU.
inline absl::Status LeftToCpu(const char* reason) { return absl::UnimplementedError(reason); }

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_LOWER_H_
