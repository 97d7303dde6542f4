// A server that has seen its traffic takes no fresh memory for more of it: page faults and large allocations of the built
// binary are counted, which depends on no clock.
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "phasor/v1/position_service.grpc.pb.h"

#include "client/phasor_client.h"
#include "tests/e2e/malloc_watch.h"

namespace phasor::client {
namespace {

// phasord with the counting malloc, on a free port. Ends with this.
class WatchedServer {
 public:
  WatchedServer() {
    std::string path = absl::StrCat(testing::TempDir(), "/malloc-watch-XXXXXX");
    const int file = mkstemp(path.data());
    EXPECT_EQ(ftruncate(file, sizeof(MallocCounts)), 0);
    counts_ = static_cast<MallocCounts*>(mmap(nullptr, sizeof(MallocCounts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
    close(file);
    int out[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::vector<std::string> arguments = {PHASORD, "--listen=127.0.0.1:0", "--log-level=error"};
    std::vector<std::string> variables = {absl::StrCat("LD_PRELOAD=", MALLOC_WATCH),
                                          absl::StrCat("PHASOR_MALLOC_WATCH=", path)};
    const auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> list;
      for (std::string& text : texts) list.push_back(text.data());
      list.push_back(nullptr);
      return list;
    };
    EXPECT_EQ(posix_spawn(&pid_, PHASORD, &actions, nullptr, pointers(arguments).data(), pointers(variables).data()), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(out[1]);
    FILE* const lines = fdopen(out[0], "r");
    char line[256] = "";
    EXPECT_NE(std::fgets(line, sizeof line, lines), nullptr);
    std::fclose(lines);
    unlink(path.c_str());  // both sides have it mapped by now
    const std::vector<std::string> words = absl::StrSplit(line, absl::ByAnyChar(" \n"), absl::SkipEmpty());
    EXPECT_EQ(words.size(), 3u) << line;
    address_ = words.empty() ? "" : words.back();
  }
  ~WatchedServer() {
    kill(pid_, SIGTERM);
    int status = 0;
    waitpid(pid_, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    munmap(counts_, sizeof(MallocCounts));
  }

  const std::string& address() const { return address_; }
  int64_t large_allocations() const { return counts_->large; }
  int64_t last_large() const { return counts_->last_size; }

  // Minor faults of all its threads since it started.
  int64_t faults() const {
    std::ifstream file(absl::StrCat("/proc/", pid_, "/stat"));
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    const std::vector<std::string> fields = absl::StrSplit(text.substr(text.rfind(')') + 2), ' ');
    return std::stoll(fields[7]);  // field 10 of all
  }

 private:
  pid_t pid_ = 0;
  MallocCounts* counts_ = nullptr;
  std::string address_;
};

constexpr int64_t kBytes = int64_t{16} << 20;
constexpr int kWarmCalls = 24, kCalls = 32;
constexpr int64_t kMostFaults = 16;

// Calls are judged by their median: malloc has several arenas, and a thread that meets another one for the first time takes
// its pages once.
void ExpectSteady(WatchedServer& server, const std::string& what, const std::function<void()>& call) {
  for (int i = 0; i < kWarmCalls; ++i) call();
  const int64_t large = server.large_allocations();
  std::vector<int64_t> faults;
  for (int i = 0; i < kCalls; ++i) {
    const int64_t before = server.faults();
    call();
    faults.push_back(server.faults() - before);
  }
  std::sort(faults.begin(), faults.end());
  const int64_t allocated = server.large_allocations() - large;
  std::printf("%s: %ld faults a call (median; %ld at most), %.2f allocations above 128 KiB\n", what.c_str(),
              static_cast<long>(faults[kCalls / 2]), static_cast<long>(faults.back()), 1.0 * allocated / kCalls);
  EXPECT_LE(faults[kCalls / 2], kMostFaults) << what;
  EXPECT_EQ(allocated, 0) << what << ": the last of " << server.last_large() << " bytes";
}

v1::PrecomputeItem Table(const std::string& more) {
  v1::PrecomputeItem item;
  const std::string text = absl::StrCat("spec { rope { head_dim: 128 } } table { positions { range { ", more, " } } }");
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &item)) << text;
  return item;
}

class SteadyMemoryTest : public testing::Test {
 protected:
  WatchedServer server_;
  std::unique_ptr<Client> client_ = Client::Connect(server_.address());
};

TEST_F(SteadyMemoryTest, Tables) {
  v1::PrecomputeRequest request;
  *request.add_items() = Table("count: 32768");  // 16 MiB of cos and sin
  const auto call = [&] {
    const auto reply = client_->Precompute(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->message.results(0).payload_bytes(), kBytes);
  };
  ExpectSteady(server_, "cached table", call);
  // Scattered positions are gathered into a buffer of their own.
  *request.mutable_items(0) = Table("count: 32768 stride: 3");
  ExpectSteady(server_, "gathered table", call);
  *request.mutable_items(0) = Table("count: 32768");
  request.mutable_items(0)->set_dtype(v1::DTYPE_BF16);
  v1::StreamPrecomputeRequest stream;
  *stream.mutable_items() = request.items();
  ExpectSteady(server_, "streamed table", [&] {
    const auto status =
        client_->StreamPrecompute(stream, {}, [](const auto&, const raw::Payloads&) { return absl::OkStatus(); });
    ASSERT_TRUE(status.ok()) << status;
  });
}

TEST_F(SteadyMemoryTest, Apply) {
  const std::vector<std::byte> tensor(static_cast<size_t>(kBytes));
  raw::Payloads payloads;
  const raw::Piece piece{nullptr, tensor.data(), tensor.size()};
  v1::ApplyRequest request;
  v1::ApplyItem* item = request.add_items();
  item->mutable_spec()->mutable_rope()->set_head_dim(128);
  v1::Tensor* q = item->add_tensors();
  q->set_dtype(v1::DTYPE_F32);
  for (int64_t extent : {1, 1024, 32, 128}) q->add_shape(extent);
  q->set_data(payloads.Add({&piece, 1}));
  ExpectSteady(server_, "apply", [&] {
    const auto reply = client_->Apply(request, payloads);
    ASSERT_TRUE(reply.ok()) << reply.status();
    ASSERT_EQ(reply->message.results(0).status().code(), 0) << reply->message.results(0).status().message();
    ASSERT_EQ(reply->payloads.total_bytes(), kBytes);
  });
}

}  // namespace
}  // namespace phasor::client
