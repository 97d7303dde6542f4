// A device from outside, by the server over sockets: where answers say that work was done, tensors that stay on the device,
// and the end of a process whose device is lost. The device is the fake one of the tests.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

#include "kernels/cuda/cuda_backend.h"
#include "tests/e2e/fixture.h"
#include "tests/kernels/cuda/fake_driver.h"

extern char** environ;

namespace phasor::server {
namespace {

using grpc::health::v1::HealthCheckResponse;
using ::testing::HasSubstr;

// The process with a fake device, on a free port. `lose_at`: the call to the driver that loses it.
class FakeDevicePhasord {
 public:
  explicit FakeDevicePhasord(int64_t lose_at, std::vector<std::string> more = {})
      : log_path_(absl::StrCat(testing::TempDir(), "/fake-device-XXXXXX")) {
    const int log = mkstemp(log_path_.data());
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, log, STDERR_FILENO);
    // One worker: every run makes the same calls to the driver.
    std::vector<std::string> arguments = {FAKE_DEVICE_PHASORD,    absl::StrCat(lose_at), "--listen=127.0.0.1:0",
                                          "--metrics-listen=off", "--threads=1",         "--drain-delay=1500ms",
                                          "--drain-grace=1s"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, FAKE_DEVICE_PHASORD, &actions, nullptr, pointers.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(log);
    lines_ = fdopen(out[0], "r");
    char line[256] = "";
    started_ = std::fgets(line, sizeof line, lines_) != nullptr;
    if (!started_) return;
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" :\n"), absl::SkipEmpty());
    int port = 0;
    EXPECT_TRUE(!words.empty() && absl::SimpleAtoi(words.back(), &port)) << line;
    channel_ = Connect(port);
    position_ = v1::PositionService::NewStub(channel_);
  }
  ~FakeDevicePhasord() {
    if (pid_ != 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::fclose(lines_);
    unlink(log_path_.c_str());
  }

  bool started() const { return started_; }
  void Terminate() { kill(pid_, SIGTERM); }
  // How it ends; −1 where it does not by itself, within a minute.
  int ExitCode() {
    int status = 0;
    for (int i = 0; i < 1200; ++i) {
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        pid_ = 0;
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return -1;
  }
  std::string Log() const {
    std::ifstream file(log_path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  grpc::Status Apply(const v1::ApplyRequest& request, v1::ApplyResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return position_->Apply(&context, request, response);
  }
  const std::shared_ptr<grpc::Channel>& channel() const { return channel_; }

 private:
  std::string log_path_;
  pid_t pid_ = 0;
  FILE* lines_ = nullptr;
  bool started_ = false;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::PositionService::Stub> position_;
};

// One tensor f32 [1, tokens, 8, 64] of ones.
v1::ApplyItem Rotation(int64_t tokens) {
  v1::ApplyItem item;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString("spec { rope { head_dim: 64 } }", &item));
  v1::Tensor* tensor = item.add_tensors();
  tensor->set_dtype(v1::DTYPE_F32);
  for (const int64_t extent : {int64_t{1}, tokens, int64_t{8}, int64_t{64}}) tensor->add_shape(extent);
  const float one = 1;
  for (int64_t i = 0; i < tokens * 8 * 64; ++i) tensor->mutable_data()->append(reinterpret_cast<const char*>(&one), 4);
  return item;
}
v1::ApplyRequest Request(const std::vector<int64_t>& tokens) {
  v1::ApplyRequest request;
  for (const int64_t count : tokens) *request.add_items() = Rotation(count);
  return request;
}
const std::vector<std::vector<int64_t>> kCalls = {{2000}, {3}, {2000, 3}, {2500}};

TEST(FakeDevicePhasordTest, AnswersNameThePlaceOfWork) {
  FakeDevicePhasord server(0);
  std::vector<std::string> places;
  for (const auto& tokens : kCalls) {
    v1::ApplyResponse response;
    const grpc::Status status = server.Apply(Request(tokens), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    for (const auto& result : response.results()) EXPECT_EQ(result.status().code(), 0) << result.status().message();
    places.push_back(response.results(0).backend());
  }
  EXPECT_THAT(places, testing::ElementsAre("cuda", "cpu:small", "cuda,cpu:small", "cuda"));
  EXPECT_EQ(CheckHealth(server.channel(), ""), HealthCheckResponse::SERVING);
  server.Terminate();
  EXPECT_EQ(server.ExitCode(), 0) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("connections: 32"));
}

// Nobody calls: who asks for metrics notices.
TEST(FakeDevicePhasordTest, AnIdleServerNoticesWhenItsMetricsAreRead) {
  const auto driver = std::make_shared<cuda::FakeDriver>(cuda::FakeOptions{});
  std::atomic<int> lost{0};
  ServerOptions options = LoopbackOptions();
  options.make_backend = [driver](const BackendOptions& devices) {
    return cuda::MakeCudaBackend(driver, *CreateBackend("cpu"), devices);
  };
  options.on_device_lost = [&] { ++lost; };
  TestServer server(options);
  EXPECT_EQ(server.Metric("phasor_device_errors_total{kind=\"lost\"}"), 0);
  EXPECT_EQ(lost, 0);
  driver->FailCall(1, absl::AbortedError("fakeErrorEccUncorrectable"));
  EXPECT_EQ(server.Metric("phasor_device_errors_total{kind=\"lost\"}"), 1);
  EXPECT_EQ(server.Metric("phasor_device_errors_total{kind=\"lost\"}"), 1);
  EXPECT_EQ(lost, 1);
}

// A table that is made before the server listens.
TEST(FakeDevicePhasordTest, ALossAtTheStartHasThatCodeToo) {
  FakeDevicePhasord server(30, {R"(--warm=dtype=f32,positions=4096,{"rope": {"headDim": 128}})"});
  EXPECT_FALSE(server.started());
  EXPECT_EQ(server.ExitCode(), 3) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("device lost"));
}

TEST(FakeDevicePhasordTest, ALostDeviceEndsTheProcessWithACodeOfItsOwn) {
  int64_t calls = 0;
  {
    FakeDevicePhasord server(0);
    v1::ApplyResponse response;
    for (const auto& tokens : kCalls) ASSERT_TRUE(server.Apply(Request(tokens), &response).ok());
    server.Terminate();
    ASSERT_EQ(server.ExitCode(), 0);
    const std::string log = server.Log();
    const size_t at = log.find("calls to the driver: ");
    ASSERT_NE(at, std::string::npos) << log;
    ASSERT_TRUE(absl::SimpleAtoi(absl::string_view(log).substr(at + 21, log.find('\n', at) - at - 21), &calls)) << log;
    ASSERT_GT(calls, 100);
  }
  FakeDevicePhasord server(calls - 10);  // of the last call's work
  v1::ApplyResponse response;
  for (size_t i = 0; i + 1 < kCalls.size(); ++i) ASSERT_TRUE(server.Apply(Request(kCalls[i]), &response).ok());
  ASSERT_EQ(CheckHealth(server.channel(), ""), HealthCheckResponse::SERVING);
  for (const auto& tokens : {kCalls.back(), kCalls.front(), {3}}) {
    const grpc::Status status = server.Apply(Request(tokens), &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE) << status.error_message();
  }
  EXPECT_EQ(CheckHealth(server.channel(), ""), HealthCheckResponse::NOT_SERVING);
  EXPECT_EQ(CheckHealth(server.channel(), "liveness"), HealthCheckResponse::SERVING);
  EXPECT_EQ(server.ExitCode(), 3) << server.Log();
  EXPECT_THAT(server.Log(), HasSubstr("device lost"));
  EXPECT_THAT(server.Log(), HasSubstr("fakeErrorIllegalAddress"));
}

// ---- Tensors that stay on the device, with the server in this process, where the test is the program that owns them.

struct ServerOnDevice {
  explicit ServerOnDevice(int64_t handles, std::vector<std::string> listen = {"127.0.0.1:0"})
      : driver(std::make_shared<cuda::FakeDriver>(cuda::FakeOptions{})) {
    ServerOptions options = LoopbackOptions();
    options.listen = std::move(listen);
    options.device_memory.max_handles = handles;
    options.device_memory.peer_handles = 3;
    options.device_memory.lease = std::chrono::milliseconds(200);
    options.make_backend = [driver = driver](const BackendOptions& devices) {
      return cuda::MakeCudaBackend(driver, *CreateBackend("cpu"), devices);
    };
    server = std::make_unique<TestServer>(options);
  }
  v1::ApplyResponse Apply(const v1::ApplyRequest& request) const {
    grpc::ClientContext context;
    v1::ApplyResponse response;
    const grpc::Status status = server->position().Apply(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    if (response.results().empty()) response.add_results()->mutable_status()->set_code(status.error_code());
    return response;
  }

  std::shared_ptr<cuda::FakeDriver> driver;
  std::unique_ptr<TestServer> server;
};

v1::ApplyRequest OnDevice(v1::ApplyRequest request, const std::string& handle, uint64_t offset) {
  v1::Tensor* tensor = request.mutable_items(0)->mutable_tensors(0);
  const uint64_t size = tensor->data().size();
  tensor->mutable_device()->set_handle(handle);
  tensor->mutable_device()->set_offset_bytes(offset);
  tensor->mutable_device()->set_size_bytes(size);
  return request;
}

std::string ReasonOf(const google::rpc::Status& status) {
  google::rpc::ErrorInfo info;
  for (const auto& detail : status.details()) detail.UnpackTo(&info);
  return info.reason();
}

TEST(DeviceMemoryTest, ATensorIsWorkedOnWhereItIs) {
  const ServerOnDevice on(4);
  const v1::ApplyRequest sent = Request({33});
  const std::string bytes = sent.items(0).tensors(0).data();
  const v1::ApplyResponse expected = on.Apply(sent);
  const std::string handle = on.driver->Export(0, static_cast<int64_t>(bytes.size()) + 4096);
  on.driver->Write(handle, std::string(4096, 'x') + bytes);
  const v1::ApplyResponse got = on.Apply(OnDevice(sent, handle, 4096));
  ASSERT_EQ(got.results(0).status().code(), 0) << got.results(0).status().message();
  EXPECT_TRUE(on.driver->Read(handle) == std::string(4096, 'x') + expected.results(0).tensors(0).data());
  EXPECT_EQ(got.results(0).fingerprint(), expected.results(0).fingerprint());
  EXPECT_EQ(got.results(0).backend(), "cuda");
  const v1::Tensor& tensor = got.results(0).tensors(0);
  EXPECT_TRUE(tensor.has_device());
  EXPECT_FALSE(tensor.has_data());
  EXPECT_EQ(tensor.device().handle(), handle);
  EXPECT_LT(got.ByteSizeLong(), 500u);
  EXPECT_EQ(on.server->Metric("phasor_device_memory_handles_capacity"), 4);
  EXPECT_EQ(on.server->Metric("phasor_device_memory_peer_handles_capacity"), 3);
  EXPECT_EQ(on.server->Metric("phasor_device_memory_opens_total{result=\"mapped\"}"), 1);
  EXPECT_EQ(on.server->Metric("phasor_device_memory_opens_total{result=\"found\"}"), 1);
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(on.server->admin().GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.memory().device_memory_capacity_handles(), 4);
  EXPECT_EQ(info.memory().device_memory_peer_capacity_handles(), 3);
  EXPECT_EQ(info.device_memory_lease_seconds(), 0.2);
  // Nobody uses it any more.
  EXPECT_TRUE(on.server->AwaitMetric("phasor_device_memory_handles", [](double value) { return value == 0; }));
  EXPECT_EQ(on.driver->opened(), 0);
}

TEST(DeviceMemoryTest, NotServedUnlessAskedFor) {
  const ServerOnDevice off(0);
  const std::string handle = off.driver->Export(0, 1 << 20);
  const v1::ApplyResponse refused = off.Apply(OnDevice(Request({33}), handle, 0));
  EXPECT_EQ(refused.results(0).status().code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(refused.results(0).status().message(), HasSubstr("items[0].tensors[0].device"));
  EXPECT_THAT(refused.results(0).status().message(), HasSubstr("--cuda-ipc-handles is 0"));
  EXPECT_EQ(off.driver->opened(), 0);

  // A flag without a device: calls hear why, and so does the log.
  ServerOptions options = LoopbackOptions();
  options.backend = "cpu";
  options.device_memory.max_handles = 4;
  TestServer cpu(options);
  EXPECT_THAT(cpu.log(),
              testing::Contains(testing::AllOf(HasSubstr("no device memory is served"), HasSubstr("no devices"))));
  grpc::ClientContext context;
  v1::ApplyResponse response;
  ASSERT_TRUE(cpu.position().Apply(&context, OnDevice(Request({33}), handle, 0), &response).ok());
  EXPECT_EQ(response.results(0).status().code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(response.results(0).status().message(), HasSubstr("has no devices"));
  grpc::ClientContext info_context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(cpu.admin().GetServerInfo(&info_context, {}, &info).ok());
  EXPECT_EQ(info.memory().device_memory_capacity_handles(), 0) << "no device, so none";
}

TEST(DeviceMemoryTest, CallersFromTheNetworkAreRefused) {
  const std::string address = OwnAddress();
  if (address.empty()) GTEST_SKIP() << "this machine has no address but loopback";
  const ServerOnDevice on(4, {"127.0.0.1:0", absl::StrCat(address, ":0")});
  const std::string handle = on.driver->Export(0, 1 << 20);
  const auto channel =
      grpc::CreateChannel(absl::StrCat(address, ":", (*on.server)->ports()[1]), grpc::InsecureChannelCredentials());
  grpc::ClientContext context;
  v1::ApplyResponse response;
  ASSERT_TRUE(v1::PositionService::NewStub(channel)->Apply(&context, OnDevice(Request({33}), handle, 0), &response).ok());
  EXPECT_EQ(response.results(0).status().code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(ReasonOf(response.results(0).status()), "NOT_LOCAL");
  EXPECT_EQ(on.driver->opened(), 0);
}

}  // namespace
}  // namespace phasor::server
