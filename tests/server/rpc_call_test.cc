// The wrapper round every call, with handlers made for the occasion: answers at every point of a call's life, cancelling at
// every point, and shutdown at every point.
#include "server/rpc_call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "server/transport.h"

namespace phasor::server {
namespace {

using Raw = v1::PositionService::WithRawMethod_Precompute<v1::PositionService::Service>;
constexpr char kMethod[] = "/phasor.v1.PositionService/Precompute";

// Replies that a handler has put away, for a test to take.
class Shelf {
 public:
  void Put(Reply reply) {
    {
      const std::lock_guard lock(mutex_);
      replies_.push_back(std::make_unique<Reply>(std::move(reply)));
    }
    arrived_.notify_one();
  }
  // Waits for one; null after 20 s.
  std::unique_ptr<Reply> Take() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::seconds(20), [this] { return !replies_.empty(); })) return nullptr;
    auto reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::unique_ptr<Reply>> replies_;
};

Outcome Bytes(size_t size) {
  Outcome outcome;
  const grpc::Slice slice(std::string(size, 'x'));
  outcome.response = grpc::ByteBuffer(&slice, 1);
  return outcome;
}

class RpcCallTest : public ::testing::Test {
 protected:
  using Handle = std::function<void(grpc::ByteBuffer, Reply)>;

  void Start(Handle handle, int posted = 4) {
    ServiceMethods service;
    service.name = "phasor.v1.PositionService";
    auto raw = std::make_unique<Raw>();
    Method method;
    method.name = "phasor.v1.PositionService/Precompute";
    method.posted = posted;
    method.metrics = metrics_.AddMethod(method.name, ResponsePath::kZeroCopy);
    method.request_next = [it = raw.get()](auto* call, auto* request, auto* writer, auto* queue, void* tag) {
      it->RequestPrecompute(call, request, writer, queue, queue, tag);
    };
    method.handle = std::move(handle);
    service.methods.push_back(std::move(method));
    service.service = std::move(raw);
    std::vector<ServiceMethods> services;
    services.push_back(std::move(service));
    TransportOptions options;
    options.addresses = {"127.0.0.1:0"};
    options.threads = 2;
    auto started = Transport::Start(options, std::move(services), &group_);
    ASSERT_TRUE(started.ok()) << started.status();
    transport_ = *std::move(started);
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    channel_ = grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(transport_->ports().front()),
                                         grpc::InsecureChannelCredentials(), arguments);
  }

  grpc::Status Call(grpc::ClientContext* context, grpc::ByteBuffer* response) {
    grpc::ByteBuffer request;
    const grpc::Slice slice("hello");
    request = grpc::ByteBuffer(&slice, 1);
    const grpc::internal::RpcMethod method(kMethod, grpc::internal::RpcMethod::NORMAL_RPC);
    return grpc::internal::BlockingUnaryCall(channel_.get(), method, context, request, response);
  }
  grpc::Status Call() {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    return Call(&context, &response);
  }

  bool AwaitIdle() {
    for (int i = 0; i < 2000 && (group_.calls() != 0 || inflight() != 0); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return group_.calls() == 0 && inflight() == 0;
  }
  int64_t inflight() { return metrics_.inflight_requests().load(); }

  Metrics metrics_{{.version = "0", .numerics_version = 1, .backend = "b", .backend_description = "d"}};
  CallAdmission admission_{100, &metrics_.inflight_requests()};
  // The lines that were logged.
  std::vector<std::string> Lines() {
    const std::lock_guard lock(lines_mutex_);
    return lines_;
  }

  std::mutex lines_mutex_;
  std::vector<std::string> lines_;
  AccessLog log_{std::make_shared<Logger>(LogOptions{},
                                          [this](std::string_view line) {
                                            const std::lock_guard lock(lines_mutex_);
                                            lines_.emplace_back(line);
                                          }),
                 1};
  CallGroup group_{&admission_, &metrics_, &log_, false};
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(RpcCallTest, AHandlerThatGivesNoAnswerAnswersInternal) {
  Start([](grpc::ByteBuffer, Reply) {});
  const grpc::Status status = Call();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(status.error_message().find("handler"), std::string::npos);  // nothing internal leaks
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(RpcCallTest, AnswersFromAnyThread) {
  Start([](grpc::ByteBuffer request, Reply reply) {
    std::thread([size = request.Length(), answer = std::move(reply)]() mutable {
      std::move(answer).Send(Bytes(size * 1000));
    }).detach();
  });
  for (int i = 0; i < 50; ++i) {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    ASSERT_TRUE(Call(&context, &response).ok());
    EXPECT_EQ(response.Length(), 5000u);
  }
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(RpcCallTest, ACancelledCallIsToldAndMayStillAnswer) {
  Shelf shelf;
  Start([&shelf](grpc::ByteBuffer, Reply reply) { shelf.Put(std::move(reply)); });
  for (int i = 0; i < 20; ++i) {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    std::thread client([&] { EXPECT_EQ(Call(&context, &response).error_code(), grpc::StatusCode::CANCELLED); });
    auto reply = shelf.Take();
    ASSERT_NE(reply, nullptr);
    const std::shared_ptr<CallContext> seen = reply->context();
    context.TryCancel();
    client.join();
    for (int n = 0; n < 2000 && !seen->cancelled.load(); ++n) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(seen->cancelled.load());
    EXPECT_EQ(seen->Check().code(), absl::StatusCode::kCancelled);
    std::move(*reply).Send(i % 2 == 0 ? Bytes(1 << 20) : Refuse(absl::CancelledError("gone")));
    EXPECT_TRUE(AwaitIdle());
  }
  // The log knows who they were.
  const std::vector<std::string> lines = Lines();
  EXPECT_EQ(lines.size(), 20u);
  for (const std::string& line : lines) {
    EXPECT_NE(line.find("code=CANCELLED"), std::string::npos) << line;
    EXPECT_NE(line.find("peer=ipv4:127.0.0.1:"), std::string::npos) << line;
  }
}

TEST_F(RpcCallTest, DeadlinesReachTheHandlerAndEndTheCall) {
  Shelf shelf;
  Start([&shelf](grpc::ByteBuffer, Reply reply) { shelf.Put(std::move(reply)); });
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  grpc::ByteBuffer response;
  std::thread client([&] { EXPECT_EQ(Call(&context, &response).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED); });
  auto reply = shelf.Take();
  ASSERT_NE(reply, nullptr);
  // The wire carries what is left in whole milliseconds, rounded up.
  EXPECT_LE(reply->context()->deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(310));
  EXPECT_GT(reply->context()->deadline, std::chrono::steady_clock::now());
  client.join();
  std::move(*reply).Send(Bytes(10));
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(RpcCallTest, WhatIsHeldLivesUntilTheAnswerIsSent) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> watched = held;
  Start([&held](grpc::ByteBuffer, Reply reply) {
    reply.Hold(std::move(held));
    std::move(reply).Send(Bytes(1 << 20));
  });
  EXPECT_TRUE(Call().ok());
  EXPECT_TRUE(AwaitIdle());
  EXPECT_TRUE(watched.expired());
}

// The client's cancelling races with every step of the answer.
TEST_F(RpcCallTest, CancellingRacesWithTheAnswer) {
  Start([](grpc::ByteBuffer, Reply reply) { std::move(reply).Send(Bytes(256 << 10)); });
  for (int i = 0; i < 300; ++i) {
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    std::thread client([&] { Call(&context, &response); });
    std::this_thread::sleep_for(std::chrono::microseconds((i * 7) % 500));
    context.TryCancel();
    client.join();
  }
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(RpcCallTest, MoreCallsThanPostedAreServed) {
  Start([](grpc::ByteBuffer, Reply reply) { std::move(reply).Send(Bytes(1)); }, /*posted=*/1);
  std::vector<std::thread> clients;
  for (int t = 0; t < 16; ++t) {
    clients.emplace_back([this] {
      for (int i = 0; i < 20; ++i) EXPECT_TRUE(Call().ok());
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(RpcCallTest, AdmissionCountsAndRefuses) {
  Shelf shelf;
  Start([&shelf](grpc::ByteBuffer, Reply reply) { shelf.Put(std::move(reply)); }, /*posted=*/64);
  std::vector<std::thread> clients;
  std::atomic<int> ok{0}, unavailable{0};
  for (int i = 0; i < 103; ++i) {
    clients.emplace_back([&] {
      const grpc::StatusCode code = Call().error_code();
      (code == grpc::StatusCode::OK ? ok : unavailable).fetch_add(1);
    });
  }
  std::vector<std::unique_ptr<Reply>> taken;
  for (int i = 0; i < 100; ++i) {
    taken.push_back(shelf.Take());
    ASSERT_NE(taken.back(), nullptr);
  }
  for (int n = 0; n < 2000 && unavailable.load() < 3; ++n) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  for (auto& reply : taken) std::move(*reply).Send(Bytes(1));
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(ok.load(), 100);
  EXPECT_EQ(unavailable.load(), 3);
  EXPECT_TRUE(AwaitIdle());
}

TEST_F(RpcCallTest, ShutdownCancelsAPendingCallAndWaitsForItsAnswer) {
  Shelf shelf;
  Start([&shelf](grpc::ByteBuffer, Reply reply) { shelf.Put(std::move(reply)); });
  std::thread client([this] { EXPECT_FALSE(Call().ok()); });
  auto reply = shelf.Take();
  ASSERT_NE(reply, nullptr);
  const std::shared_ptr<CallContext> seen = reply->context();
  std::thread worker([&] {
    while (!seen->cancelled.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::move(*reply).Send(Bytes(10));
  });
  transport_->Shutdown(std::chrono::milliseconds(20));
  worker.join();
  client.join();
  EXPECT_EQ(group_.calls(), 0);
}

class ShutdownTest : public RpcCallTest, public ::testing::WithParamInterface<int> {};

TEST_P(ShutdownTest, InTheMiddleOfTraffic) {
  Start([](grpc::ByteBuffer, Reply reply) {
    std::thread([answer = std::move(reply)]() mutable { std::move(answer).Send(Bytes(1000)); }).detach();
  });
  std::vector<std::thread> clients;
  for (int t = 0; t < 4; ++t) {
    clients.emplace_back([this] {
      while (Call().ok()) {
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(20 + 7 * GetParam()));
  transport_->Shutdown(std::chrono::milliseconds(GetParam() % 2 == 0 ? 0 : 500));
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(group_.calls(), 0);
  EXPECT_EQ(inflight(), 0);
}
INSTANTIATE_TEST_SUITE_P(Times, ShutdownTest, ::testing::Range(0, 6));

}  // namespace
}  // namespace phasor::server
