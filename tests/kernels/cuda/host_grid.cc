#include "tests/kernels/cuda/host_grid.h"

#include <cstdlib>
#include <string>

#include "kernels/cuda/kernels.cuh"

namespace phasor::cuda {

HostGrid HostGrid::Wanted() const {
  const char* const text = std::getenv("PHASOR_GRID");
  if (text == nullptr) return *this;
  const std::string wanted(text);
  HostGrid grid = *this;
  grid.order = wanted.starts_with("forward")    ? ThreadOrder::kForward
               : wanted.starts_with("reversed") ? ThreadOrder::kReversed
                                                : ThreadOrder::kShuffled;
  grid.os_threads = std::atoi(wanted.substr(wanted.find(' ') + 1).c_str());
  return grid;
}

void HostGrid::Launch(const KernelParams& params) const {
  // Filled once, so that threads of small tasks have several works, too.
  const LaunchShape shape = ShapeFor(WorksOf(params), resident_blocks, 1);
  if (shape.blocks == 0) return;
  VisitBody(params, [&](const auto& body) { Run(body, shape); });
}

}  // namespace phasor::cuda
