// A device from outside, by the server over sockets: where answers say that work was done, tensors that stay on the device,
// and the end of a process whose device is lost. The device is the fake one of the tests.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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
  explicit FakeDevicePhasord(int64_t lose_at) : log_path_(absl::StrCat(testing::TempDir(), "/fake-device-XXXXXX")) {
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
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, FAKE_DEVICE_PHASORD, &actions, nullptr, pointers.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    close(log);
    lines_ = fdopen(out[0], "r");
    char line[256] = "";
    EXPECT_NE(std::fgets(line, sizeof line, lines_), nullptr);
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

}  // namespace
}  // namespace phasor::server
