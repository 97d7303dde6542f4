// Shared memory from outside: who may use it, how much and for how long, through a Unix socket and loopback TCP.
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"
#include "gtest/gtest.h"

#include "tests/e2e/shared_memory_fixture.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

constexpr char kTable[] = "spec { rope { head_dim: 64 } } table { positions { range { count: 10 } } }";

TEST_F(SharedMemoryTest, EachListenerHasRegionsOfItsOwn) {
  const auto memory = SharedMemory::Create(tcp_.get(), 4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  v1::RenewRegionRequest request;
  request.set_region((*memory)->name());
  EXPECT_TRUE(tcp_->RenewRegion(request).ok());
  EXPECT_EQ(socket_->RenewRegion(request).status().code(), absl::StatusCode::kNotFound);
  v1::ReleaseRegionRequest release;
  release.set_region((*memory)->name());
  EXPECT_EQ(socket_->ReleaseRegion(release).code(), absl::StatusCode::kNotFound);
  EXPECT_TRUE((*memory)->Renew().ok());
}

TEST_F(SharedMemoryTest, QuotasAndHostileSizes) {
  for (const auto& [size, code] : std::vector<std::pair<int64_t, absl::StatusCode>>{
           {0, absl::StatusCode::kInvalidArgument},
           {-1, absl::StatusCode::kInvalidArgument},
           {std::numeric_limits<int64_t>::min(), absl::StatusCode::kInvalidArgument},
           {std::numeric_limits<int64_t>::max(), absl::StatusCode::kResourceExhausted},
           {49 * kMiB, absl::StatusCode::kResourceExhausted}}) {
    v1::CreateRegionRequest request;
    request.set_size_bytes(size);
    const auto answer = socket_->CreateRegion(request);
    EXPECT_EQ(answer.status().code(), code) << size;
  }
  const auto most = SharedMemory::Create(socket_.get(), 48 * kMiB);
  ASSERT_TRUE(most.ok()) << most.status();
  EXPECT_EQ(SharedMemory::Create(socket_.get(), 1).status().code(), absl::StatusCode::kResourceExhausted);
  const auto other = SharedMemory::Create(tcp_.get(), 16 * kMiB);
  EXPECT_TRUE(other.ok()) << "another peer's quota";
  EXPECT_EQ(SharedMemory::Create(tcp_.get(), 1).status().code(), absl::StatusCode::kResourceExhausted) << "the quota of all";
  // A table that there is no room to share fails alone.
  v1::PrecomputeRequest request;
  for (int i = 0; i < 2; ++i) *request.add_items() = FromText<v1::PrecomputeItem>(kTable);
  request.mutable_items(0)->set_share(true);
  const auto answer = socket_->Precompute(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->message.results(0).status().code(), 8);
  EXPECT_EQ(answer->message.results(1).status().code(), 0);
  // The quota is named in one way, whichever call met it.
  v1::CreateRegionRequest region;
  region.set_size_bytes(1);
  google::rpc::Status refused;
  const auto details = tcp_->CreateRegion(region).status().GetPayload(client::kDetailsPayload);
  ASSERT_TRUE(details && refused.ParseFromString(std::string(*details)));
  for (const google::rpc::Status& status : {refused, answer->message.results(0).status()}) {
    google::rpc::ErrorInfo info;
    google::rpc::QuotaFailure failure;
    for (const auto& detail : status.details()) detail.UnpackTo(&info) || detail.UnpackTo(&failure);
    EXPECT_EQ(info.reason(), "QUOTA_EXCEEDED") << status.message();
    EXPECT_EQ(info.metadata().at("subject"), "shared memory");
    ASSERT_EQ(failure.violations_size(), 1);
    EXPECT_EQ(failure.violations(0).subject(), "shared memory");
  }
}

// A region is released, again and again, while calls work on it: they end well, or find none; and no byte stays behind.
TEST_F(SharedMemoryTest, RegionsAreReleasedUnderCallsThatUseThem) {
  std::atomic<bool> stop{false};
  std::atomic<int> good{0}, late{0};
  std::array<std::string, 2> names;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t] {
      while (!stop.load()) {
        v1::ApplyRequest request;
        v1::ApplyItem* item = request.add_items();
        item->mutable_spec()->mutable_rope()->set_head_dim(128);
        v1::Tensor* tensor = item->add_tensors();
        tensor->set_dtype(v1::DTYPE_F32);
        for (const int64_t extent : {1, 512, 8, 128}) tensor->add_shape(extent);
        {
          const std::lock_guard lock(mutex);
          tensor->mutable_shared_memory()->set_region(names[static_cast<size_t>(t) % 2]);
        }
        tensor->mutable_shared_memory()->set_size_bytes(2 * kMiB);
        if (tensor->shared_memory().region().empty()) continue;
        const auto answer = socket_->Apply(request, {});
        ASSERT_TRUE(answer.ok()) << answer.status();
        const int code = answer->message.results(0).status().code();
        ASSERT_TRUE(code == 0 || code == 9) << answer->message.results(0).status().message();
        ++(code == 0 ? good : late);
      }
    });
  }
  for (int i = 0; i < 60; ++i) {
    auto memory = SharedMemory::Create(socket_.get(), 2 * kMiB);
    ASSERT_TRUE(memory.ok()) << memory.status();
    {
      const std::lock_guard lock(mutex);
      names[static_cast<size_t>(i) % 2] = (*memory)->name();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(good.load(), 0);
  EXPECT_GT(late.load(), 0);
  EXPECT_TRUE(server_->AwaitMetric("phasor_memory_pool_bytes{space=\"shared\",state=\"used\"}",
                                   [](double bytes) { return bytes == 0; }));
}

TEST_F(SharedMemoryTest, WhatADeadClientLeavesIsReleasedWithItsLease) {
  server_.reset();
  ServerOptions options = Options();
  options.regions.lease = std::chrono::milliseconds(100);
  Start(options);
  v1::CreateRegionRequest request;
  request.set_size_bytes(kMiB);
  auto dead = Client::Connect("unix:" + path_);
  const auto made = dead->CreateRegion(request);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_DOUBLE_EQ(made->region().lease_seconds(), 0.1);
  const auto kept = SharedMemory::Create(socket_.get(), kMiB);
  ASSERT_TRUE(kept.ok()) << kept.status();
  dead.reset();
  EXPECT_TRUE(server_->AwaitMetric("phasor_shared_memory_regions_expired_total", [&](double n) {
    EXPECT_TRUE((*kept)->Renew().ok());
    return n == 1;
  }));
  EXPECT_EQ(server_->Metric("phasor_memory_pool_bytes{space=\"shared\",state=\"used\"}"), kMiB);
  EXPECT_EQ(RegionMapping::Map(made->region()).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(SharedMemoryTest, TheServersEndTakesItsRegionsAway) {
  v1::CreateRegionRequest request;
  request.set_size_bytes(kMiB);
  const auto made = socket_->CreateRegion(request);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(RegionMapping::Map(made->region()).ok());
  server_->Stop();
  EXPECT_EQ(RegionMapping::Map(made->region()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_NE(access(path_.c_str(), F_OK), 0) << "the socket is gone as well";
}

TEST_F(SharedMemoryTest, ServerInfoTells) {
  const auto memory = SharedMemory::Create(socket_.get(), 3 * kMiB);
  const auto info = tcp_->GetServerInfo();
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->memory().shared_memory_bytes(), 3 * kMiB);
  EXPECT_EQ(info->memory().shared_memory_capacity_bytes(), 64 * kMiB);
  EXPECT_EQ(info->memory().shared_memory_peer_capacity_bytes(), 48 * kMiB);
  EXPECT_EQ(info->memory().shared_memory_capacity_regions(), 128);
  EXPECT_EQ(info->shared_memory_lease_seconds(), 300);
}

// By default no memory is shared, and every call says so.
TEST(SharedMemoryOffTest, EveryCallSaysSo) {
  TestServer server;
  const auto client = Client::Connect(absl::StrCat("127.0.0.1:", server->ports().front()));
  v1::CreateRegionRequest create;
  create.set_size_bytes(1);
  v1::RenewRegionRequest renew;
  v1::ReleaseRegionRequest release;
  for (const absl::Status& status :
       {client->CreateRegion(create).status(), client->RenewRegion(renew).status(), client->ReleaseRegion(release)}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
    EXPECT_THAT(std::string(status.message()), HasSubstr("--shared-memory-bytes"));
  }
  v1::PrecomputeRequest tables;
  *tables.add_items() = FromText<v1::PrecomputeItem>(absl::StrCat(kTable, " share: true"));
  *tables.add_items() = FromText<v1::PrecomputeItem>(absl::StrCat(kTable, " output { region: \"x\" size_bytes: 9999 }"));
  *tables.add_items() = FromText<v1::PrecomputeItem>(kTable);
  const auto made = client->Precompute(tables);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(made->message.results(0).status().code(), 12);
  EXPECT_EQ(made->message.results(1).status().code(), 12);
  EXPECT_EQ(made->message.results(2).status().code(), 0);
  v1::ApplyRequest tensors;
  for (const char* rest :
       {"shared_memory { region: \"x\" size_bytes: 64 } }", "data: \"\" } outputs { region: \"x\" size_bytes: 64 }"}) {
    *tensors.add_items() = FromText<v1::ApplyItem>(absl::StrCat(
        "spec { rope { head_dim: 8 } } tensors { dtype: DTYPE_F32 shape: [1, ", rest[0] == 's' ? 2 : 0, ", 1, 8] ", rest));
  }
  raw::Payloads payloads;
  tensors.mutable_items(1)->mutable_tensors(0)->set_data(payloads.Add({}));
  const auto applied = client->Apply(tensors, payloads);
  ASSERT_TRUE(applied.ok()) << applied.status();
  EXPECT_EQ(applied->message.results(0).status().code(), 12);
  EXPECT_EQ(applied->message.results(1).status().code(), 12);
}

// Where the machine has a network: a caller who comes through it is refused, though it is this very process.
TEST_F(SharedMemoryTest, CallersFromTheNetworkAreRefused) {
  const std::string address = OwnAddress();
  server_.reset();
  ServerOptions options = Options();
  options.listen[0] = "0.0.0.0:0";
  Start(options);
  const auto memory = SharedMemory::Create(tcp_.get(), 4096);
  ASSERT_TRUE(memory.ok()) << memory.status();
  if (address.empty()) return;  // region_access_test has the rule
  const auto remote = Client::Connect(absl::StrCat(address, ":", (*server_)->ports().front()));
  v1::CreateRegionRequest create;
  create.set_size_bytes(1);
  EXPECT_EQ(remote->CreateRegion(create).status().code(), absl::StatusCode::kPermissionDenied);
  v1::ReleaseRegionRequest release;
  release.set_region((*memory)->name());
  EXPECT_EQ(remote->ReleaseRegion(release).code(), absl::StatusCode::kPermissionDenied);
  v1::PrecomputeRequest tables;
  *tables.add_items() = FromText<v1::PrecomputeItem>(absl::StrCat(kTable, " share: true"));
  const auto answer = remote->Precompute(tables);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->message.results(0).status().code(), 7);
}

}  // namespace
}  // namespace phasor::server
