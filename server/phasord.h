// phasord as a function, so that a test's program can be one whose device is a test's.
#ifndef PHASOR_SERVER_PHASORD_H_
#define PHASOR_SERVER_PHASORD_H_

#include <cstdint>
#include <functional>

#include "server/server.h"

namespace phasor::server {

// From the arguments to the exit code: 0, 1 (failed), 2 (a wrong flag or configuration), 3 (a device's state was lost). Once
// a process, from main and before any other thread. `make_backend`: a test's backend; no flag leads to one.
// `refused_connections`: ServerOptions'.
int RunPhasord(int argc, char** argv, const BackendMaker& make_backend = {},
               std::function<int64_t()> refused_connections = {});

}  // namespace phasor::server

#endif  // PHASOR_SERVER_PHASORD_H_
