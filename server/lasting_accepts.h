// A listener that goes on accepting whatever one connection ran into, in a program that has lasting_accepts.cc.
#ifndef PHASOR_SERVER_LASTING_ACCEPTS_H_
#define PHASOR_SERVER_LASTING_ACCEPTS_H_

#include <cstdint>

namespace phasor::server {

// Connections that were closed as they came, because no file descriptor was left. Thread-safe.
int64_t RefusedConnections();

// As many descriptors as the system allows this process, where fewer are what it starts with (1024 often).
void RaiseDescriptorLimit();

}  // namespace phasor::server

#endif  // PHASOR_SERVER_LASTING_ACCEPTS_H_
