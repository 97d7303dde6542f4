// StreamApply: tensors in and out in chunks; receiving, computing and sending overlap.
#ifndef PHASOR_SERVER_STREAM_APPLY_H_
#define PHASOR_SERVER_STREAM_APPLY_H_

#include <memory>

#include "server/method.h"
#include "server/services.h"

namespace phasor::server {

std::shared_ptr<MessageExchange> OpenApplyStream(ServiceContext* context, Line line);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_STREAM_APPLY_H_
