// Distill: a fit on the training thread, told in messages.
#ifndef PHASOR_SERVER_DISTILL_STREAM_H_
#define PHASOR_SERVER_DISTILL_STREAM_H_

#include <memory>

#include "grpcpp/support/byte_buffer.h"

#include "kernels/backend.h"
#include "server/method.h"
#include "server/services.h"

namespace phasor::server {

// Begins a call, or refuses it and gives null.
std::shared_ptr<MessageSource> OpenDistillStream(ServiceContext* context, std::shared_ptr<const Backend> backend,
                                                 grpc::ByteBuffer request, Outlet outlet);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_DISTILL_STREAM_H_
