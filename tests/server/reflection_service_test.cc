// grpc.reflection at a transport of its own: what it lists, that a client can build every type from its answers, what it
// refuses, and what its streams may hold.
#include "server/reflection_service.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/descriptor.pb.h"
#include "grpc/reflection/v1/reflection.grpc.pb.h"
#include "grpc/reflection/v1alpha/reflection.grpc.pb.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "server/transport.h"

namespace phasor::server {
namespace {

namespace v1r = grpc::reflection::v1;
namespace v1a = grpc::reflection::v1alpha;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr char kService[] = "phasor.v1.PositionService";

// A stream of questions in either version.
template <typename Service, typename Request, typename Response>
class Asker {
 public:
  explicit Asker(const std::shared_ptr<grpc::Channel>& channel) : stub_(Service::NewStub(channel)) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream_ = stub_->ServerReflectionInfo(&context_);
  }
  ~Asker() {
    if (stream_ == nullptr) return;
    context_.TryCancel();
    static_cast<void>(Finish());
  }
  // Without an answer: an empty one.
  Response Ask(const Request& request) {
    Response response;
    if (!stream_->Write(request) || !stream_->Read(&response)) return Response();
    return response;
  }
  Response File(const std::string& symbol) {
    Request request;
    request.set_host("somewhere");
    request.set_file_containing_symbol(symbol);
    return Ask(request);
  }
  grpc::Status Finish() {
    stream_->WritesDone();
    Response response;
    while (stream_->Read(&response)) {
    }
    const grpc::Status status = stream_->Finish();
    stream_.reset();
    return status;
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<typename Service::Stub> stub_;
  std::unique_ptr<grpc::ClientReaderWriter<Request, Response>> stream_;
};
using Asks = Asker<v1r::ServerReflection, v1r::ServerReflectionRequest, v1r::ServerReflectionResponse>;
using OldAsks = Asker<v1a::ServerReflection, v1a::ServerReflectionRequest, v1a::ServerReflectionResponse>;

class ReflectionServiceTest : public ::testing::Test {
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
    options.max_concurrent_streams = 2 * kMaxReflectionStreams;
    auto started = Transport::Start(options, std::move(services), &group_);
    ASSERT_TRUE(started.ok()) << started.status();
    transport_ = *std::move(started);
    channel_ =
        grpc::CreateChannel("127.0.0.1:" + std::to_string(transport_->ports().front()), grpc::InsecureChannelCredentials());
  }

  // What a message of these bytes ends with.
  grpc::Status EndAfter(const std::string& bytes) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    grpc::CompletionQueue queue;
    const auto next = [&queue] {
      void* tag = nullptr;
      bool ok = false;
      return queue.Next(&tag, &ok) && ok;
    };
    const auto call = stub.PrepareCall(&context, "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", &queue);
    call->StartCall(nullptr);
    EXPECT_TRUE(next());
    const grpc::Slice slice(bytes);
    call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
    next();
    grpc::ByteBuffer answer;
    call->Read(&answer, nullptr);
    EXPECT_FALSE(next());
    grpc::Status status;
    call->Finish(&status, nullptr);
    next();
    return status;
  }

  Metrics metrics_{{.version = "0", .numerics_version = 1, .backend = "b", .backend_description = "d"}};
  CallAdmission admission_{0, &metrics_.inflight_requests()};  // nothing but reflection is served
  AccessLog log_{std::make_shared<Logger>(LogOptions{}, [](std::string_view) {}), 1};
  CallGroup group_{&admission_, &metrics_, &log_, false};
  std::unique_ptr<Transport> transport_;
  std::shared_ptr<grpc::Channel> channel_;
};

TEST_F(ReflectionServiceTest, ListsEveryServiceOnce) {
  Asks asks(channel_);
  v1r::ServerReflectionRequest request;
  request.set_list_services("*");
  const auto response = asks.Ask(request);
  std::vector<std::string> names;
  for (const auto& service : response.list_services_response().service()) names.push_back(service.name());
  EXPECT_THAT(names, UnorderedElementsAre(kService, "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
                                          "grpc.reflection.v1alpha.ServerReflection"));
  EXPECT_EQ(response.original_request().list_services(), "*");
  EXPECT_TRUE(asks.Finish().ok());
  EXPECT_EQ(metrics_.inflight_requests().load(), 0);
}

// A client that knows nothing builds the types from one answer, and finds in them what the server's own have.
TEST_F(ReflectionServiceTest, AFileComesWithAllThatItImports) {
  Asks asks(channel_);
  for (const std::string& symbol :
       {std::string(kService), std::string(kService) + ".Apply", std::string("phasor.v1.PrecomputeItem"),
        std::string("phasor.v1.Tensor.shape"), std::string("grpc.health.v1.Health"), std::string("google.rpc.Status")}) {
    const auto response = asks.File(symbol);
    EXPECT_EQ(response.valid_host(), "somewhere");
    const auto& files = response.file_descriptor_response().file_descriptor_proto();
    ASSERT_GT(files.size(), 0) << symbol << response.ShortDebugString();
    google::protobuf::DescriptorPool pool;
    for (int i = files.size(); i-- > 0;) {
      google::protobuf::FileDescriptorProto file;
      ASSERT_TRUE(file.ParseFromString(files[i]));
      // Imports come after what imports them, though not always in an order that a pool takes.
      for (int j = files.size(); j-- > 0;) {
        google::protobuf::FileDescriptorProto other;
        ASSERT_TRUE(other.ParseFromString(files[j]));
        if (pool.FindFileByName(other.name()) == nullptr) pool.BuildFile(other);
      }
    }
    const auto* ours = google::protobuf::DescriptorPool::generated_pool()->FindFileContainingSymbol(symbol);
    const auto* theirs = pool.FindFileContainingSymbol(symbol);
    ASSERT_NE(theirs, nullptr) << symbol;
    EXPECT_EQ(theirs->DebugString(), ours->DebugString());

    v1r::ServerReflectionRequest by_name;
    by_name.set_file_by_filename(ours->name());
    EXPECT_EQ(asks.Ask(by_name).file_descriptor_response().SerializeAsString(),
              response.file_descriptor_response().SerializeAsString());
  }
}

TEST_F(ReflectionServiceTest, TheOlderNameAnswersTheSame) {
  Asks asks(channel_);
  OldAsks old(channel_);
  const auto answer = asks.File(kService);
  const auto old_answer = old.File(kService);
  ASSERT_GT(old_answer.file_descriptor_response().file_descriptor_proto_size(), 5);
  EXPECT_EQ(answer.SerializeAsString(), old_answer.SerializeAsString());
}

TEST_F(ReflectionServiceTest, WhatIsNotThereIsSaidAndTheStreamGoesOn) {
  Asks asks(channel_);
  const auto code = [&asks](const v1r::ServerReflectionRequest& request) {
    const auto response = asks.Ask(request);
    EXPECT_EQ(response.original_request().SerializeAsString(), request.SerializeAsString());
    return response.error_response().error_code();
  };
  const auto unknown = asks.File("phasor.v1.Nonsense");
  EXPECT_EQ(unknown.error_response().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(unknown.error_response().error_message(), HasSubstr("phasor.v1.Nonsense"));
  v1r::ServerReflectionRequest request;
  request.set_file_by_filename("../../etc/passwd");
  EXPECT_EQ(code(request), grpc::StatusCode::NOT_FOUND);
  request.mutable_file_containing_extension()->set_containing_type("phasor.v1.Tensor");
  request.mutable_file_containing_extension()->set_extension_number(-1);
  EXPECT_EQ(code(request), grpc::StatusCode::NOT_FOUND);
  request.set_all_extension_numbers_of_type("phasor.v1.Nonsense");
  EXPECT_EQ(code(request), grpc::StatusCode::NOT_FOUND);
  request.Clear();
  EXPECT_EQ(code(request), grpc::StatusCode::INVALID_ARGUMENT);

  request.set_all_extension_numbers_of_type("phasor.v1.Tensor");
  const auto none = asks.Ask(request).all_extension_numbers_response();
  EXPECT_EQ(none.base_type_name(), "phasor.v1.Tensor");
  EXPECT_EQ(none.extension_number_size(), 0);
  EXPECT_TRUE(asks.Finish().ok());
}

TEST_F(ReflectionServiceTest, MessagesThatAreNoQuestionEndTheStream) {
  EXPECT_EQ(EndAfter("\x22\x7fshort").error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(EndAfter("\x22\x01\xff").error_code(), grpc::StatusCode::INVALID_ARGUMENT);  // no UTF-8
  // 0x22: field 4, bytes; a length of two bytes.
  EXPECT_EQ(EndAfter("\x22\xfe\x1f" + std::string(4094, 'x')).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  Asks asks(channel_);
  EXPECT_EQ(asks.File(std::string(kMaxReflectionRequestBytes - 100, 'x')).error_response().error_code(),
            grpc::StatusCode::NOT_FOUND);
}

TEST_F(ReflectionServiceTest, TheNumberOfStreamsIsBounded) {
  std::vector<std::unique_ptr<Asks>> streams;
  for (int i = 0; i < kMaxReflectionStreams; ++i) {
    streams.push_back(std::make_unique<Asks>(channel_));
    ASSERT_EQ(streams.back()->File("x.y").error_response().error_code(), grpc::StatusCode::NOT_FOUND) << i;
  }
  Asks refused(channel_);
  EXPECT_EQ(refused.File("x.y").message_response_case(), v1r::ServerReflectionResponse::MESSAGE_RESPONSE_NOT_SET);
  const grpc::Status status = refused.Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
  streams.pop_back();
  // The server learns a moment later that it is gone.
  for (int i = 0; i < 400; ++i) {
    Asks other(channel_);
    if (other.File("x.y").has_error_response()) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "there is no room after a stream has gone";
}

TEST_F(ReflectionServiceTest, StreamsDoNotHoldUpAShutdown) {
  Asks idle(channel_);
  ASSERT_TRUE(idle.File("x.y").has_error_response());
  const auto start = std::chrono::steady_clock::now();
  transport_->Shutdown(std::chrono::minutes(5));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
  EXPECT_FALSE(idle.Finish().ok());
}

}  // namespace
}  // namespace phasor::server
