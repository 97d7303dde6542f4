// Streams both ways in the wrapper, with an exchange made for the occasion: what counts as a pause.
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
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

using Raw = v1::PositionService::WithRawMethod_StreamApply<v1::PositionService::Service>;
using std::chrono::milliseconds;

constexpr milliseconds kPause{600};

// Asks for a message at once, and meanwhile sends so many, each some time after the last. Ends with the client's stream.
class Teller final : public MessageExchange {
 public:
  Teller(Line line, int messages, milliseconds between) : line_(std::move(line)), messages_(messages), between_(between) {}
  ~Teller() override { thread_.join(); }

  void Start() override {
    line_->Read();
    thread_ = std::thread([this] {
      for (int i = 0; i < messages_; ++i) {
        std::this_thread::sleep_for(between_);
        const std::lock_guard lock(mutex_);
        if (!line_) return;
        const grpc::Slice slice(std::string("\x08\x01", 2));  // item: 1
        line_->Write(grpc::ByteBuffer(&slice, 1));
      }
    });
  }
  void OnMessage(grpc::ByteBuffer) override { End({}); }
  void OnReadEnd() override { End({}); }
  void OnWritten(bool) override {}
  void OnPause() override { End(Refuse(absl::DeadlineExceededError("paused"))); }

 private:
  void End(Outcome outcome) {
    const std::lock_guard lock(mutex_);
    if (line_) std::move(*std::exchange(line_, std::nullopt)).End(std::move(outcome));
  }

  std::mutex mutex_;
  std::optional<Line> line_;
  const int messages_;
  const milliseconds between_;
  std::thread thread_;
};

class DuplexCallTest : public ::testing::Test {
 protected:
  // A call whose client takes everything, and ends its side `then` after the last message.
  grpc::Status Call(int messages, milliseconds between, milliseconds then) {
    ServiceMethods service;
    service.name = "phasor.v1.PositionService";
    auto raw = std::make_unique<Raw>();
    Method method;
    method.name = "phasor.v1.PositionService/StreamApply";
    method.posted = 2;
    method.metrics = metrics_.AddMethod(method.name, ResponsePath::kProto);
    method.request_next_duplex = [it = raw.get()](auto* call, auto* stream, auto* queue, void* tag) {
      it->RequestStreamApply(call, stream, queue, queue, tag);
    };
    method.longest_pause = kPause;
    method.exchange = [=](Line line) { return std::make_shared<Teller>(std::move(line), messages, between); };
    service.methods.push_back(std::move(method));
    service.service = std::move(raw);
    std::vector<ServiceMethods> services;
    services.push_back(std::move(service));
    TransportOptions options;
    options.addresses = {"127.0.0.1:0"};
    auto transport = Transport::Start(options, std::move(services), &group_);
    if (!transport.ok()) return {grpc::StatusCode::INTERNAL, transport.status().ToString()};
    const auto stub = v1::PositionService::NewStub(grpc::CreateChannel(
        "127.0.0.1:" + std::to_string((*transport)->ports().front()), grpc::InsecureChannelCredentials()));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    const auto stream = stub->StreamApply(&context);
    v1::StreamApplyResponse message;
    for (int i = 0; i < messages && stream->Read(&message); ++i) EXPECT_EQ(message.item(), 1);
    std::this_thread::sleep_for(then);
    stream->WritesDone();
    return stream->Finish();
  }

  Metrics metrics_{{.version = "0", .numerics_version = 1, .backend = "b", .backend_description = "d"}};
  CallAdmission admission_{100, &metrics_.inflight_requests()};
  AccessLog log_{std::make_shared<Logger>(LogOptions{}, [](std::string_view) {}), 1};
  CallGroup group_{&admission_, &metrics_, &log_, false};
};

TEST_F(DuplexCallTest, WhoTakesMessagesIsNotCutOff) {
  const grpc::Status status = Call(5, kPause * 2 / 5, kPause / 6);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

TEST_F(DuplexCallTest, WhoNeitherSendsNorTakesIs) {
  EXPECT_EQ(Call(2, kPause / 6, kPause * 2).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace phasor::server
