// The services of the contract, each as a gRPC service object and its methods' handlers.
#ifndef PHASOR_SERVER_SERVICES_H_
#define PHASOR_SERVER_SERVICES_H_

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/backend.h"
#include "server/answer_memo.h"
#include "server/control_thread.h"
#include "server/device_store.h"
#include "server/engine.h"
#include "server/limits.h"
#include "server/method.h"
#include "server/metrics.h"
#include "server/region_store.h"
#include "server/request_parser.h"
#include "server/rpc_call.h"
#include "server/stream_options.h"
#include "server/transport.h"
#include "server/upload_store.h"

namespace phasor::server {

// What handlers work with. Everything pointed to outlives every call.
struct ServiceContext {
  ServiceContext(const Limits& given, const StreamOptions& stream_options, UploadStore* store, RegionStore* shared)
      : limits(given), streams(stream_options), parser(given, store), uploads(store), regions(shared) {}

  const Limits limits;
  const StreamOptions streams;
  const RequestParser parser;
  Engine* engine = nullptr;
  UploadStore* const uploads;
  RegionStore* const regions;
  DeviceStore* devices = nullptr;
  AnswerMemo answers;
  Metrics* metrics = nullptr;
  CallAdmission* admission = nullptr;
  ControlThread* control = nullptr;
  ControlThread* knowledge = nullptr;  // of its own, for calls that may think for a second: nobody waits behind them
  ControlThread* training = nullptr;   // for fits of a minute; few wait
  ControlThread* reading = nullptr;    // for requests of the data plane that take long to parse
  std::string version;
  std::vector<BackendInfo> backends;  // as they were at the start
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();
  std::atomic<bool> draining{false};
};

// A service object belongs to one gRPC server, so every transport gets its own set. `context` must outlive it.
ServiceMethods MakePositionService(ServiceContext* context);
ServiceMethods MakeCatalogService(ServiceContext* context);
ServiceMethods MakeAdminService(ServiceContext* context);
ServiceMethods MakeSharedMemoryService(ServiceContext* context);

// The engine's refusals say why; callers are told when to come back.
Outcome RefuseFromEngine(const absl::Status& status);

// A control-plane method that answers at once, on the queue's thread: `answer` takes a Request and a const Reply& and gives
// a StatusOr of the response.
template <typename Request, typename Answer>
std::function<void(grpc::ByteBuffer, Reply)> Immediate(Answer answer) {
  return [answer = std::move(answer)](grpc::ByteBuffer bytes, Reply reply) {
    Request request;
    if (absl::Status status = ParseMessage(&bytes, &request); !status.ok()) {
      return std::move(reply).Send(Refuse(std::move(status)));
    }
    auto response = answer(request, std::as_const(reply));
    std::move(reply).Send(response.ok() ? AnswerWith(*response) : Refuse(response.status()));
  };
}

// The same on one of the context's threads, unless the caller has gone by then.
template <typename Request, typename Answer>
std::function<void(grpc::ByteBuffer, Reply)> OnControlThread(
    ServiceContext* context, Answer answer, ControlThread* ServiceContext::* thread = &ServiceContext::control) {
  auto run = std::make_shared<Answer>(std::move(answer));
  return [context, thread, run = std::move(run)](grpc::ByteBuffer bytes, Reply reply) {
    Request request;
    if (absl::Status status = ParseMessage(&bytes, &request); !status.ok()) {
      return std::move(reply).Send(Refuse(std::move(status)));
    }
    auto pending = std::make_shared<Reply>(std::move(reply));
    absl::AnyInvocable<void() &&> work = [run, request = std::move(request), pending] {
      if (absl::Status gone = pending->context()->Check(); !gone.ok()) {
        return std::move(*pending).Send(Refuse(std::move(gone)));
      }
      auto response = (*run)(request, std::as_const(*pending));
      std::move(*pending).Send(response.ok() ? AnswerWith(*response) : Refuse(response.status()));
    };
    if (!(context->*thread)->Submit(work)) {
      std::move(*pending).Send(
          Refuse(Unavailable("OVERLOADED", "too many control calls are waiting", std::chrono::milliseconds(100)),
                 RejectReason::kQueueFull));
    }
  };
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SERVICES_H_
