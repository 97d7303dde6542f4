#include "tests/kernels/cuda/host_grid.h"

#include "kernels/cuda/kernels.cuh"

namespace phasor::cuda {

void HostGrid::Launch(const KernelParams& params) const {
  const LaunchShape shape = ShapeFor(WorksOf(params), resident_blocks);
  if (shape.blocks == 0) return;
  VisitBody(params, [&](const auto& body) { Run(body, shape); });
}

}  // namespace phasor::cuda
