// What decides the bits of an addition beside its tensors and plans.
#ifndef PHASOR_SERVER_ADD_KEY_H_
#define PHASOR_SERVER_ADD_KEY_H_

#include <string>

#include "phasor/v1/position_service.pb.h"

#include "server/add_work.h"

namespace phasor::server {

// Canonical bytes of it, for Work::key. Everything else of `work` is filled in.
std::string KeyOfAdd(const v1::AddOperation& add, const AddWork& work);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ADD_KEY_H_
