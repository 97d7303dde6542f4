// grpc.health.v1 at a transport of its own: what Check and Watch say, how streams end, and what they may hold.
#include "server/health_service.h"

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "server/transport.h"

namespace phasor::server {
namespace {

using Stub = grpc::health::v1::Health::Stub;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;
using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kService[] = "phasor.v1.PositionService";
constexpr auto kServing = HealthCheckResponse::SERVING;
constexpr auto kNotServing = HealthCheckResponse::NOT_SERVING;
constexpr auto kUnknown = HealthCheckResponse::SERVICE_UNKNOWN;

// One stream of Watch.
class Watcher {
 public:
  Watcher(Stub* stub, const std::string& service) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    HealthCheckRequest request;
    request.set_service(service);
    reader_ = stub->Watch(&context_, request);
  }
  ~Watcher() {
    context_.TryCancel();
    if (reader_ != nullptr) static_cast<void>(Finish());
  }
  // The next status, UNKNOWN at the end.
  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    return reader_->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
  }
  void Cancel() { context_.TryCancel(); }
  grpc::Status Finish() {
    HealthCheckResponse response;
    while (reader_->Read(&response)) {
    }
    const grpc::Status status = reader_->Finish();
    reader_.reset();
    return status;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> reader_;
};

class HealthServiceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ServiceMethods service;
    service.name = kService;
    service.service = std::make_unique<v1::PositionService::Service>();
    std::vector<ServiceMethods> services;
    services.push_back(std::move(service));
    TransportOptions options;
    options.addresses = {"127.0.0.1:0"};
    options.threads = 2;
    options.max_concurrent_streams = 2 * static_cast<int>(kMaxHealthWatches);
    auto started = Transport::Start(options, std::move(services), &group_);
    ASSERT_TRUE(started.ok()) << started.status();
    transport_ = *std::move(started);
    stub_ = NewStub();
  }

  // With a connection of its own. `window`: bytes that it takes before anybody reads; 0: gRPC's default.
  std::unique_ptr<Stub> NewStub(int window = 0) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (window > 0) {
      arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, window);
      arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    }
    return grpc::health::v1::Health::NewStub(grpc::CreateCustomChannel(
        "127.0.0.1:" + std::to_string(transport_->ports().front()), grpc::InsecureChannelCredentials(), arguments));
  }

  grpc::Status Check(const std::string& service, HealthCheckResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    HealthCheckRequest request;
    request.set_service(service);
    return stub_->Check(&context, request, response);
  }
  HealthCheckResponse::ServingStatus Check(const std::string& service) {
    HealthCheckResponse response;
    const grpc::Status status = Check(service, &response);
    return status.ok() ? response.status() : HealthCheckResponse::UNKNOWN;
  }

  // Calls of a method that ended with a code.
  int64_t Ended(const std::string& method, const std::string& code) const {
    const std::string text = metrics_.Scrape();
    const std::string series =
        "phasor_requests_total{code=\"" + code + "\",method=\"grpc.health.v1.Health/" + method + "\"} ";
    const size_t at = text.find(series);
    return at == std::string::npos ? -1 : std::stoll(text.substr(at + series.size()));
  }
  bool AwaitEnded(const std::string& method, const std::string& code, int64_t calls, milliseconds limit) {
    for (const auto end = std::chrono::steady_clock::now() + limit; std::chrono::steady_clock::now() < end;) {
      if (Ended(method, code) == calls) return true;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return false;
  }

  Metrics metrics_{{.version = "0", .numerics_version = 1, .backend = "b", .backend_description = "d"}};
  CallAdmission admission_{0, &metrics_.inflight_requests()};  // nothing but health is served
  AccessLog log_{std::make_shared<Logger>(LogOptions{}, [](std::string_view) {}), 1};
  CallGroup group_{&admission_, &metrics_, &log_, false};
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Stub> stub_;
};

TEST_F(HealthServiceTest, CheckSaysTheStatusOfEachServiceByName) {
  EXPECT_EQ(Check(""), kNotServing);
  EXPECT_EQ(Check(kService), kNotServing);
  EXPECT_EQ(Check(kLivenessService), kServing);
  transport_->SetServing(true);
  EXPECT_EQ(Check(""), kServing);
  EXPECT_EQ(Check(kService), kServing);
  transport_->SetServing(false);
  EXPECT_EQ(Check(""), kNotServing);
  EXPECT_EQ(Check(kService), kNotServing);
  EXPECT_EQ(Check(kLivenessService), kServing);
  EXPECT_TRUE(AwaitEnded("Check", "OK", 8, std::chrono::seconds(20)));  // counted a moment after the answer
  EXPECT_EQ(metrics_.inflight_requests().load(), 0);
}

TEST_F(HealthServiceTest, CheckOfAnUnknownServiceIsNotFound) {
  HealthCheckResponse response;
  const grpc::Status status = Check("no.such.Service", &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), ::testing::AllOf(HasSubstr("no.such.Service"), HasSubstr(kService)));
  EXPECT_EQ(Check("phasor.v1.positionservice", &response).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(HealthServiceTest, RequestsThatAreNoNameAreRefused) {
  HealthCheckResponse response;
  EXPECT_EQ(Check(std::string(kMaxHealthNameBytes, 'x'), &response).error_code(), grpc::StatusCode::NOT_FOUND);
  for (const size_t size : {kMaxHealthNameBytes + 1, size_t{3} << 20}) {
    const std::string name(size, 'x');
    EXPECT_EQ(Check(name, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT) << size;
    EXPECT_EQ(Watcher(stub_.get(), name).Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << size;
  }
  // A name that is no UTF-8, and a short one beside something long that nobody knows: generated code would send neither.
  grpc::GenericStub raw(
      grpc::CreateChannel("127.0.0.1:" + std::to_string(transport_->ports().front()), grpc::InsecureChannelCredentials()));
  for (const std::string& bytes : {std::string("\x0a\x01\xff"), "\x7a\xd0\x0f" + std::string(2000, 'x')}) {
    grpc::CompletionQueue queue;
    grpc::ClientContext context;
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    const auto call = raw.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check", request, &queue);
    call->StartCall();
    grpc::ByteBuffer answer;
    grpc::Status status;
    call->Finish(&answer, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << bytes.size();
  }
}

TEST_F(HealthServiceTest, WatchSaysTheStatusAtOnceAndThenEachChange) {
  Watcher whole(stub_.get(), ""), one(stub_.get(), kService), live(stub_.get(), kLivenessService);
  EXPECT_EQ(whole.Next(), kNotServing);
  EXPECT_EQ(one.Next(), kNotServing);
  EXPECT_EQ(live.Next(), kServing);
  for (int i = 0; i < 20; ++i) {
    const bool serving = i % 2 == 0;
    transport_->SetServing(serving);
    transport_->SetServing(serving);  // no change: no message
    EXPECT_EQ(whole.Next(), serving ? kServing : kNotServing) << i;
    EXPECT_EQ(one.Next(), serving ? kServing : kNotServing) << i;
  }
}

TEST_F(HealthServiceTest, WatchOfAnUnknownServiceGoesOn) {
  Watcher watcher(stub_.get(), "no.such.Service");
  EXPECT_EQ(watcher.Next(), kUnknown);
  transport_->SetServing(true);
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(Ended("Watch", "OK") + Ended("Watch", "NOT_FOUND"), 0);
  watcher.Cancel();
  EXPECT_EQ(watcher.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

// The client's window is full after some twenty messages. What comes then waits here: the newest status, and nothing else.
TEST_F(HealthServiceTest, ASlowWatcherIsOwedNoMoreThanTheNewestStatus) {
  constexpr int kChanges = 2000;
  const auto slow = NewStub(/*window=*/128);
  Watcher watcher(slow.get(), "");
  EXPECT_EQ(watcher.Next(), kNotServing);
  for (int i = 1; i <= kChanges; ++i) {
    transport_->SetServing(i % 2 == 1);
    if (i < 200) std::this_thread::sleep_for(milliseconds(1));  // else changes come faster than any message goes
  }
  std::this_thread::sleep_for(milliseconds(100));
  const int64_t sent = admission_.traffic() / 2;  // a message has two bytes
  EXPECT_GT(sent, 5);
  EXPECT_LT(sent, 150);
  // Statuses alternate, so their number says which one went last. When the client reads on it gets those, and one more.
  const auto newest = sent % 2 == 1 ? kServing : kNotServing;
  transport_->SetServing(newest == kServing);
  auto last = kNotServing;
  for (int64_t i = 1; i < sent + 1; ++i) {
    const auto status = watcher.Next();
    EXPECT_NE(status, last);
    last = status;
  }
  EXPECT_EQ(last, newest);
  EXPECT_EQ(admission_.traffic() / 2, sent + 1);
}

TEST_F(HealthServiceTest, ClientsThatHaveGoneAreForgottenAtOnce) {
  constexpr int kWatchers = 50;
  {
    std::vector<std::unique_ptr<Watcher>> watchers;
    for (int i = 0; i < kWatchers; ++i) {
      watchers.push_back(std::make_unique<Watcher>(stub_.get(), i % 2 == 0 ? "" : "no.such.Service"));
      EXPECT_EQ(watchers.back()->Next(), i % 2 == 0 ? kNotServing : kUnknown);
    }
    EXPECT_EQ(metrics_.inflight_requests().load(), 0);
    for (const auto& watcher : watchers) watcher->Cancel();
    EXPECT_TRUE(AwaitEnded("Watch", "CANCELLED", kWatchers, std::chrono::seconds(20)));
  }
  // So is one whose connection is gone, and one whose deadline has passed.
  {
    const auto other = NewStub();
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + milliseconds(200));
    const auto reader = other->Watch(&context, HealthCheckRequest());
    HealthCheckResponse response;
    while (reader->Read(&response)) {
    }
    EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  // The server's own clock says either, by whether the client's word comes first.
  for (int i = 0; i < 4000 && Ended("Watch", "CANCELLED") + Ended("Watch", "DEADLINE_EXCEEDED") <= kWatchers; ++i) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(Ended("Watch", "CANCELLED") + Ended("Watch", "DEADLINE_EXCEEDED"), kWatchers + 1);
}

TEST_F(HealthServiceTest, TheNumberOfStreamsIsBoundedAndEachIsTold) {
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncReader<HealthCheckResponse>> reader;
    HealthCheckResponse response;
  };
  grpc::CompletionQueue queue;
  // How many of the next `n` events are good.
  const auto good = [&queue](size_t n) {
    size_t count = 0;
    void* tag = nullptr;
    bool ok = false;
    for (size_t i = 0; i < n && queue.Next(&tag, &ok); ++i) count += ok ? 1 : 0;
    return count;
  };
  std::vector<std::unique_ptr<Stream>> streams;
  for (size_t i = 0; i < kMaxHealthWatches; ++i) {
    streams.push_back(std::make_unique<Stream>());
    streams.back()->reader = stub_->AsyncWatch(&streams.back()->context, HealthCheckRequest(), &queue, nullptr);
  }
  const auto read_all = [&] {
    for (const auto& stream : streams) stream->reader->Read(&stream->response, nullptr);
    return good(streams.size());
  };
  ASSERT_EQ(good(streams.size()), kMaxHealthWatches);
  ASSERT_EQ(read_all(), kMaxHealthWatches);

  const grpc::Status refused = Watcher(stub_.get(), "").Finish();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << refused.error_message();
  EXPECT_THAT(refused.error_message(), HasSubstr(std::to_string(kMaxHealthWatches)));
  EXPECT_EQ(Check(""), kNotServing);  // is not kept from anybody

  transport_->SetServing(true);
  ASSERT_EQ(read_all(), kMaxHealthWatches);
  for (const auto& stream : streams) ASSERT_EQ(stream->response.status(), kServing);

  // One goes, and there is room for another.
  streams.front()->context.TryCancel();
  ASSERT_TRUE(AwaitEnded("Watch", "CANCELLED", 1, std::chrono::seconds(20)));
  EXPECT_EQ(Watcher(stub_.get(), "").Next(), kServing);

  for (const auto& stream : streams) stream->context.TryCancel();
  for (const auto& stream : streams) {
    stream->reader->Read(&stream->response, nullptr);
  }
  good(streams.size());
  std::vector<grpc::Status> statuses(streams.size());
  for (size_t i = 0; i < streams.size(); ++i) streams[i]->reader->Finish(&statuses[i], nullptr);
  good(streams.size());
}

TEST_F(HealthServiceTest, ShutdownTellsWatchersAndEndsTheirStreams) {
  transport_->SetServing(true);
  Watcher whole(stub_.get(), ""), live(stub_.get(), kLivenessService), unknown(stub_.get(), "no.such.Service");
  EXPECT_EQ(whole.Next(), kServing);
  EXPECT_EQ(live.Next(), kServing);
  EXPECT_EQ(unknown.Next(), kUnknown);
  // One that never reads holds nothing up.
  const auto slow = NewStub(/*window=*/128);
  Watcher silent(slow.get(), "");
  EXPECT_EQ(silent.Next(), kServing);
  for (int i = 0; i < 60; ++i) {
    transport_->SetServing(i % 2 == 1);
    std::this_thread::sleep_for(milliseconds(1));
  }
  const auto start = std::chrono::steady_clock::now();
  transport_->Shutdown(std::chrono::minutes(5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  auto last = HealthCheckResponse::UNKNOWN;
  for (auto status = whole.Next(); status != HealthCheckResponse::UNKNOWN; status = whole.Next()) last = status;
  EXPECT_EQ(last, kNotServing);
  for (Watcher* watcher : {&whole, &live, &unknown}) {
    const grpc::Status status = watcher->Finish();
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("shutting down"));
  }
}

// Changes, streams that come and streams that go, all at once: every stream that stays learns the last status.
TEST_F(HealthServiceTest, ChangesAndStreamsOnManyThreads) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; !stop.load(); ++i) transport_->SetServing(i % 2 == 0);
    });
  }
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      const auto stub = NewStub();
      for (int i = 0; !stop.load(); ++i) {
        Watcher watcher(stub.get(), i % 3 == 0 ? "no.such.Service" : "");
        if (i % 3 == 1) watcher.Next();
      }
    });
  }
  std::vector<std::unique_ptr<Watcher>> staying;
  for (int i = 0; i < 4; ++i) staying.push_back(std::make_unique<Watcher>(stub_.get(), ""));
  std::atomic<int> serving{0};
  for (const auto& watcher : staying) {
    threads.emplace_back([&, it = watcher.get()] {
      auto last = HealthCheckResponse::UNKNOWN;
      for (auto status = it->Next(); status != HealthCheckResponse::UNKNOWN; status = it->Next()) {
        EXPECT_NE(status, last);
        last = status;
      }
      serving.fetch_add(last == kNotServing ? 1 : 0);
    });
  }
  std::this_thread::sleep_for(milliseconds(500));
  stop.store(true);
  for (int t = 0; t < 4; ++t) threads[static_cast<size_t>(t)].join();
  transport_->SetServing(true);
  EXPECT_EQ(Check(""), kServing);
  transport_->Shutdown(std::chrono::seconds(30));
  for (size_t t = 4; t < threads.size(); ++t) threads[t].join();
  EXPECT_EQ(serving.load(), 4);
}

}  // namespace
}  // namespace phasor::server
