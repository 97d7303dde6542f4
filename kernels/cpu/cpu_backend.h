// The CPU backend: Highway kernels, dispatched at run time.
#ifndef PHASOR_KERNELS_CPU_CPU_BACKEND_H_
#define PHASOR_KERNELS_CPU_CPU_BACKEND_H_

#include <memory>

#include "kernels/backend.h"

namespace phasor {

// Never null. The backend keeps the set-up of the angle plans it ran last (AngleSetupCache), so that a table cut into many
// Run calls pays for it once.
std::unique_ptr<Backend> MakeCpuBackend();

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_CPU_BACKEND_H_
