// Client streams in the wrapper, with readers made for the occasion: how they may go on, pauses, shutdown.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "server/transport.h"

namespace phasor::server {
namespace {

using Raw = v1::PositionService::WithRawMethod_UploadTensor<v1::PositionService::Service>;
using std::chrono::milliseconds;

struct Behaviour {
  std::function<void(Turn)> message = [](Turn turn) { std::move(turn).More(); };
  std::function<void(Reply)> end = [](Reply reply) { std::move(reply).Send(AnswerWith(v1::UploadTensorResponse())); };
};

class Reader final : public MessageReader {
 public:
  explicit Reader(Behaviour behaviour) : behaviour_(std::move(behaviour)) {}
  void OnMessage(grpc::ByteBuffer, Turn turn) override { behaviour_.message(std::move(turn)); }
  void OnEnd(Reply reply) override { behaviour_.end(std::move(reply)); }

 private:
  const Behaviour behaviour_;
};

class StreamCallTest : public ::testing::Test {
 protected:
  void Start(Behaviour behaviour, milliseconds longest_pause = milliseconds(30'000)) {
    ServiceMethods service;
    service.name = "phasor.v1.PositionService";
    auto raw = std::make_unique<Raw>();
    Method method;
    method.name = "phasor.v1.PositionService/UploadTensor";
    method.posted = 2;
    method.metrics = metrics_.AddMethod(method.name, ResponsePath::kProto);
    method.request_next_stream = [it = raw.get()](auto* call, auto* reader, auto* queue, void* tag) {
      it->RequestUploadTensor(call, reader, queue, queue, tag);
    };
    method.longest_pause = longest_pause;
    method.open = [behaviour = std::move(behaviour)](const std::string&, std::shared_ptr<CallContext>) {
      return std::make_unique<Reader>(behaviour);
    };
    service.methods.push_back(std::move(method));
    service.service = std::move(raw);
    std::vector<ServiceMethods> services;
    services.push_back(std::move(service));
    TransportOptions options;
    options.addresses = {"127.0.0.1:0"};
    auto started = Transport::Start(options, std::move(services), &group_);
    ASSERT_TRUE(started.ok()) << started.status();
    transport_ = *std::move(started);
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    stub_ = v1::PositionService::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(transport_->ports().front()), grpc::InsecureChannelCredentials(), arguments));
  }

  // Sends so many messages, and, unless `silent`, the end.
  grpc::Status Call(int messages, bool silent = false) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::UploadTensorResponse response;
    const auto writer = stub_->UploadTensor(&context, &response);
    v1::UploadTensorRequest request;
    request.set_data(std::string(1000, 'x'));
    for (int i = 0; i < messages && writer->Write(request); ++i) {
    }
    if (!silent) writer->WritesDone();
    return writer->Finish();
  }

  bool AwaitIdle() {
    for (int i = 0; i < 2000 && (group_.calls() != 0 || metrics_.inflight_requests().load() != 0); ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return group_.calls() == 0 && metrics_.inflight_requests().load() == 0;
  }

  Metrics metrics_{{.version = "0", .numerics_version = 1, .backend = "b", .backend_description = "d"}};
  CallAdmission admission_{100, &metrics_.inflight_requests()};
  AccessLog log_{std::make_shared<Logger>(LogOptions{}, [](std::string_view) {}), 1};
  CallGroup group_{&admission_, &metrics_, &log_, false};
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<v1::PositionService::Stub> stub_;
};

TEST_F(StreamCallTest, EveryMessageIsReadAndTheEndAnswers) {
  auto seen = std::make_shared<int>(0);
  Behaviour behaviour;
  behaviour.message = [seen](Turn turn) {
    ++*seen;
    std::thread([turn = std::move(turn)]() mutable { std::move(turn).More(); }).detach();
  };
  Start(behaviour);
  EXPECT_TRUE(Call(20).ok());
  EXPECT_TRUE(AwaitIdle());
  EXPECT_EQ(*seen, 20);
  EXPECT_GE(admission_.traffic(), 20 * 1000);
}

TEST_F(StreamCallTest, AReaderMayAnswerBeforeTheEnd) {
  Behaviour behaviour;
  behaviour.message = [](Turn turn) {
    std::thread([turn = std::move(turn)]() mutable {
      std::move(turn).Stop(AnswerWith(v1::UploadTensorResponse()));
    }).detach();
  };
  Start(behaviour);
  for (int i = 0; i < 20; ++i) EXPECT_TRUE(Call(1 + i * 10).ok());
  EXPECT_TRUE(Call(1, /*silent=*/true).ok());
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(StreamCallTest, AReaderThatDoesNotSayHowToGoOnEndsTheCall) {
  Behaviour behaviour;
  behaviour.message = [](Turn) {};
  Start(behaviour);
  EXPECT_EQ(Call(5).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(StreamCallTest, AStreamThatPausesTooLongIsEnded) {
  Start(Behaviour(), milliseconds(200));
  const auto start = std::chrono::steady_clock::now();
  const grpc::Status status = Call(3, /*silent=*/true);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_NE(status.error_message().find("200 ms"), std::string::npos) << status.error_message();
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(200));
  EXPECT_TRUE(AwaitIdle());
}

// What takes long on this side is no pause of the client.
TEST_F(StreamCallTest, ASlowReaderIsNoPause) {
  Behaviour behaviour;
  behaviour.message = [](Turn turn) {
    std::thread([turn = std::move(turn)]() mutable {
      std::this_thread::sleep_for(milliseconds(700));
      std::move(turn).Stop(AnswerWith(v1::UploadTensorResponse()));
    }).detach();
  };
  Start(behaviour, milliseconds(200));
  EXPECT_TRUE(Call(1, /*silent=*/true).ok());
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(StreamCallTest, ShutdownEndsStreamsInEveryState) {
  Behaviour behaviour;
  behaviour.message = [](Turn turn) {
    std::thread([turn = std::move(turn)]() mutable {
      std::this_thread::sleep_for(milliseconds(5));
      std::move(turn).More();
    }).detach();
  };
  Start(behaviour);
  std::vector<std::thread> clients;
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([this, t] {
      while (Call(t * 3, /*silent=*/t == 1).ok()) {
      }
    });
  }
  std::this_thread::sleep_for(milliseconds(100));
  transport_->Shutdown(milliseconds(50));
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(group_.calls(), 0);
  EXPECT_EQ(metrics_.inflight_requests().load(), 0);
}

}  // namespace
}  // namespace phasor::server
