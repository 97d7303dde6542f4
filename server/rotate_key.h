// What decides the bits of a rotation beside its plans and tensors.
#ifndef PHASOR_SERVER_ROTATE_KEY_H_
#define PHASOR_SERVER_ROTATE_KEY_H_

#include <string>

#include "server/rotate_work.h"

namespace phasor::server {

// Canonical bytes for Work::key: operation, factors, the caller's tables by hash, positions.
std::string KeyOf(const RotateWork& work);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ROTATE_KEY_H_
