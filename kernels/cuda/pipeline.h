// Runs a lowered task on a lane, chunk after chunk.
#ifndef PHASOR_KERNELS_CUDA_PIPELINE_H_
#define PHASOR_KERNELS_CUDA_PIPELINE_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/cuda/lane.h"
#include "kernels/cuda/lowering.h"

namespace phasor::cuda {

struct PipelineOptions {
  int64_t chunk_bytes = int64_t{4} << 20;  // moved in and out, about; a chunk is one row at least
};

// Rows of the task. When it returns, with whatever status, the device touches no memory of the host's. `began` tells whether
// output may have been written: until then an error has had no effect, and the work can be done elsewhere. Errors: the
// driver's, CANCELLED.
absl::Status RunPipeline(const Lowered& lowered, RowRange rows, const CancelFlag* cancel, const PipelineOptions& options,
                         Lane& lane, DeviceTimes* times, bool* began);

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_PIPELINE_H_
