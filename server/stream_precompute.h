// StreamPrecompute: tables and biases in chunks that are made while they are sent.
#ifndef PHASOR_SERVER_STREAM_PRECOMPUTE_H_
#define PHASOR_SERVER_STREAM_PRECOMPUTE_H_

#include <cstdint>
#include <memory>

#include "grpcpp/support/byte_buffer.h"

#include "server/method.h"
#include "server/services.h"

namespace phasor::server {

// Begins a call, or refuses it and gives null.
std::shared_ptr<MessageSource> OpenPrecomputeStream(ServiceContext* context, const grpc::ByteBuffer& request, Outlet outlet);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_STREAM_PRECOMPUTE_H_
