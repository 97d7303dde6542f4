// Does this machine, with this backend, give the right bits?
#ifndef PHASOR_SERVER_SELF_TEST_H_
#define PHASOR_SERVER_SELF_TEST_H_

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor::server {

// Builds a few rows of a RoPE table, near and far, and compares every bit with constants. Milliseconds. So little is the
// CPU's where a backend has devices too; those are tried before they are chosen (kernels/cuda/usable_devices.h). Errors:
// INTERNAL naming the entry that is wrong.
absl::Status SelfTest(const Backend& backend);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SELF_TEST_H_
