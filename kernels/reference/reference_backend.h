// The slow, obvious backend: every element on its own, from 320-bit arithmetic, rounded once. It shares no code with the
// fast path, so it is the oracle of the conformance tests; a server can also be run on it.
#ifndef PHASOR_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
#define PHASOR_KERNELS_REFERENCE_REFERENCE_BACKEND_H_

#include <memory>

#include "kernels/backend.h"

namespace phasor {

// Stateless. About 50 µs for an angle entry, a few µs for a bias entry.
std::unique_ptr<Backend> MakeReferenceBackend();

}  // namespace phasor

#endif  // PHASOR_KERNELS_REFERENCE_REFERENCE_BACKEND_H_
