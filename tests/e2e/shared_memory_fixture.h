// What the tests of shared memory have in common.
#ifndef PHASOR_TESTS_E2E_SHARED_MEMORY_FIXTURE_H_
#define PHASOR_TESTS_E2E_SHARED_MEMORY_FIXTURE_H_

#include <unistd.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "client/phasor_client.h"
#include "client/shared_memory.h"
#include "tests/e2e/fixture.h"

namespace phasor::server {

using client::Client;
using client::RegionMapping;
using client::SharedMemory;

inline constexpr int64_t kMiB = int64_t{1} << 20;

template <typename M>
M FromText(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

// A server that shares memory, at a Unix socket beside TCP.
class SharedMemoryTest : public ::testing::Test {
 protected:
  ServerOptions Options() {
    ServerOptions options = LoopbackOptions();
    path_ = absl::StrCat(testing::TempDir(), "phasor_shared_", getpid(), ".sock");
    options.listen.push_back("unix:" + path_);
    options.regions.total_bytes = 64 * kMiB;
    options.regions.peer_bytes = 48 * kMiB;
    return options;
  }
  void Start(const ServerOptions& options) {
    server_ = std::make_unique<TestServer>(options);
    socket_ = Client::Connect("unix:" + path_);
    tcp_ = Client::Connect(absl::StrCat("127.0.0.1:", (*server_)->ports().front()));
  }
  void SetUp() override { Start(Options()); }

  std::string path_;
  std::unique_ptr<TestServer> server_;
  std::unique_ptr<Client> socket_, tcp_;
};

}  // namespace phasor::server

#endif  // PHASOR_TESTS_E2E_SHARED_MEMORY_FIXTURE_H_
