// Client::Distill.
#include <chrono>
#include <thread>

#include "grpcpp/client_context.h"
#include "phasor/v1/catalog_service.grpc.pb.h"

#include "client/call_status.h"
#include "client/phasor_client.h"

namespace phasor::client {

absl::Status Client::Distill(const v1::DistillRequest& request, DistillSink sink) {
  using Clock = std::chrono::system_clock;
  const bool has_deadline = options_.stream_deadline.count() > 0;
  const Clock::time_point deadline = has_deadline ? Clock::now() + options_.stream_deadline : Clock::time_point::max();
  const auto stub = v1::CatalogService::NewStub(channel_);
  for (int attempt = 0;; ++attempt) {
    grpc::ClientContext context;
    if (has_deadline) context.set_deadline(deadline);
    const auto reader = stub->Distill(&context, request);
    absl::Status status;
    bool moved = false;
    v1::DistillResponse message;
    while (status.ok() && reader->Read(&message)) {
      moved = true;
      status = sink(message);
    }
    if (!status.ok()) context.TryCancel();
    const grpc::Status finished = reader->Finish();
    if (!status.ok()) return status;
    if (finished.ok()) return absl::OkStatus();
    const std::chrono::milliseconds pause = PauseBefore(context, attempt);
    if (moved || !MayTryAgain(finished, pause, attempt, deadline)) return FromGrpc(finished);
    std::this_thread::sleep_for(pause);
  }
}

}  // namespace phasor::client
