// Memory of other processes on the fake device: handles of every kind, several devices, several threads, every call made to
// fail.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/kernels/cuda/in_place_cases.h"

namespace phasor::cuda {
namespace {

TEST(InPlaceTest, HandlesThatStandForNothing) {
  FakeOptions fake;
  fake.devices = 2;
  BackendOptions options;
  options.devices = {0};
  OnFake on(fake, options);
  EXPECT_EQ(on.sharing->devices(), std::vector<int>{0});
  const std::string good = on.driver->Export(0, 100), other = on.driver->Export(1, 100), freed = on.driver->Export(0, 100);
  on.driver->Unexport(freed);
  for (const std::string& handle : {std::string(), std::string(63, 'h'), std::string(65, 'h'), good + "x", other, freed,
                                    std::string(64, '\0'), std::string(64, '\xff')}) {
    EXPECT_EQ(on.sharing->Open(0, handle).status().code(), absl::StatusCode::kInvalidArgument);
  }
  for (const int device : {1, -1, 2}) {
    EXPECT_EQ(on.sharing->Open(device, other).status().code(), absl::StatusCode::kInvalidArgument) << device;
  }
  EXPECT_EQ(on.driver->opened(), 0);
  EXPECT_EQ(on.backend->stats().device_lost, 0);
  EXPECT_EQ(SharingOf(**CreateBackend("cpu")), nullptr);
}

TEST(InPlaceTest, AnAllocationMayBeOpenSeveralTimes) {
  OnFake on;
  const std::string handle = on.driver->Export(0, 64 * 4);
  const std::string bytes = SomeBytes(DType::kF32, 64, 3);
  on.driver->Write(handle, bytes);
  const auto one = on.sharing->Open(0, handle), two = on.sharing->Open(0, handle);
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ(one->data, two->data);
  on.sharing->Close(0, one->data);
  EXPECT_EQ(on.driver->opened(), 1);
  const std::string table = SomeBytes(DType::kF32, 32, 5);
  RotateTask task = Rotation(DType::kF32, 1, 1, 64, 32, Form::kDense);
  task.cos = task.sin = table.data();
  task.x = task.y = two->data;
  EXPECT_TRUE(on.backend->Run(task, {0, 1}, nullptr).ok()) << "still mapped";
  EXPECT_EQ(on.launches(), 1);
  on.sharing->Close(0, two->data);
  on.sharing->Close(0, two->data);  // nothing is left to close
  EXPECT_EQ(on.driver->opened(), 0);
}

TEST(InPlaceTest, AHandleOfMemoryThatWasFreedAndTakenAgain) {
  OnFake on;
  const std::string old = on.driver->Export(0, 4096);
  const auto first = on.sharing->Open(0, old);
  ASSERT_TRUE(first.ok());
  const std::string handle = on.driver->ExportAgain(old);
  EXPECT_TRUE(absl::IsAlreadyExists(on.sharing->Open(0, handle).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(on.sharing->Open(0, old).status())) << "freed";
  on.sharing->Close(0, first->data);
  const auto second = on.sharing->Open(0, handle);
  ASSERT_TRUE(second.ok()) << second.status();
  on.sharing->Close(0, second->data);
  EXPECT_EQ(on.backend->stats().device_lost, 0);
}

// The other device has less to do, and cannot do it.
TEST(InPlaceTest, WorkGoesWhereItsMemoryIs) {
  FakeOptions fake;
  fake.devices = 2;
  OnFake on(fake);
  const std::string table = SomeBytes(DType::kF32, 40 * 32, 5);
  std::vector<Task> tasks;
  std::vector<int64_t> rows;
  std::vector<std::pair<int, std::byte*>> mapped;
  for (const int device : {1, 1, 0, 1}) {
    const auto mapping = on.sharing->Open(device, on.driver->Export(device, 40 * 64 * 4));
    ASSERT_TRUE(mapping.ok());
    mapped.emplace_back(device, mapping->data);
    RotateTask task = Rotation(DType::kF32, 40, 1, 64, 32, Form::kDense);
    task.cos = task.sin = table.data();
    task.x = task.y = mapping->data;
    tasks.push_back(task);
    rows.push_back(40);
  }
  std::vector<float> host(40 * 64);
  RotateTask task = std::get<RotateTask>(tasks[0]);
  task.x = task.y = host.data();
  tasks.push_back(task);  // of the host: small
  rows.push_back(40);
  CancelFlag notes{false};
  ASSERT_TRUE(on.backend->RunAll(tasks, rows, &notes).ok());
  EXPECT_EQ(on.launches(0), 1);
  EXPECT_EQ(on.launches(1), 3);
  EXPECT_EQ(PlaceOfWork(*on.backend, notes), "cuda,cpu:small");
  for (const auto& [device, data] : mapped) on.sharing->Close(device, data);
}

TEST(InPlaceTest, EveryCallMayFail) {
  const std::string table = SomeBytes(DType::kF32, 100 * 32, 5), bytes = SomeBytes(DType::kF32, 100 * 64, 3);
  RotateTask task = Rotation(DType::kF32, 100, 1, 64, 32, Form::kDense);
  task.cos = task.sin = table.data();
  std::string once = bytes;
  task.x = task.y = once.data();
  ASSERT_TRUE((*CreateBackend("reference"))->Run(task, {0, 100}, nullptr).ok());
  for (const auto code : {absl::StatusCode::kInternal, absl::StatusCode::kAborted, absl::StatusCode::kResourceExhausted}) {
    int64_t n = 1, failed = 0;
    for (bool came = true; came; ++n) {
      int lost = 0;
      BackendOptions options;
      options.on_device_lost = [&](const absl::Status&) { ++lost; };
      OnFake on({}, options);
      const std::string handle = on.driver->Export(0, static_cast<int64_t>(bytes.size()));
      on.driver->Write(handle, bytes);
      const int64_t before = on.driver->calls();
      on.driver->FailCall(n, absl::Status(code, "fakeError"));
      const auto mapped = on.sharing->Open(0, handle);
      absl::Status status = mapped.status();
      if (mapped.ok()) {
        task.x = task.y = mapped->data;
        status = on.backend->Run(task, {0, 100}, nullptr);
        came = on.driver->calls() - before >= n;
        on.sharing->Close(0, mapped->data);
      }
      EXPECT_EQ(on.driver->opened(), 0);
      const std::string after = on.driver->Read(handle);
      if (status.ok()) {
        EXPECT_TRUE(after == once) << n;
        continue;
      }
      ++failed;
      EXPECT_TRUE(after == bytes || after == once) << n << ": never twice";
      EXPECT_EQ(status.code(), code == absl::StatusCode::kAborted ? absl::StatusCode::kUnavailable : code) << n;
      EXPECT_EQ(lost, code == absl::StatusCode::kAborted ? 1 : 0) << n;
      EXPECT_EQ(on.backend->stats().left_to_cpu, (std::array<int64_t, kCpuReasons>{})) << n;
      if (code == absl::StatusCode::kAborted) {
        EXPECT_TRUE(absl::IsUnavailable(on.sharing->Open(0, handle).status())) << n;
        EXPECT_EQ(lost, 1);
        continue;
      }
      // The device goes on.
      const auto again = on.sharing->Open(0, handle);
      ASSERT_TRUE(again.ok()) << n;
      task.x = task.y = again->data;
      EXPECT_TRUE(on.backend->Run(task, {0, 100}, nullptr).ok()) << n;
      on.sharing->Close(0, again->data);
    }
    EXPECT_GT(failed, code == absl::StatusCode::kResourceExhausted ? 10 : 30) << code;
  }
}

TEST(InPlaceTest, ThreadsOpenWorkAndCloseSideBySide) {
  FakeOptions fake;
  fake.devices = 2;
  OnFake on(fake);
  const std::string bytes = SomeBytes(DType::kF32, 4 * 30 * 64, 3), table = SomeBytes(DType::kF32, 30 * 32, 5);
  std::string expected = bytes;
  RotateTask task = Rotation(DType::kF32, 30, 1, 64, 32, Form::kDense);
  task.cos = task.sin = table.data();
  for (int t = 0; t < 4; ++t) {
    task.x = task.y = expected.data() + t * 30 * 64 * 4;
    for (int i = 0; i < 6; ++i) ASSERT_TRUE((*CreateBackend("reference"))->Run(task, {0, 30}, nullptr).ok());
  }
  const std::string handle = on.driver->Export(1, static_cast<int64_t>(bytes.size()));
  on.driver->Write(handle, bytes);
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      RotateTask own = task;
      for (int i = 0; i < 6; ++i) {
        const auto mapped = on.sharing->Open(1, handle);
        if (!mapped.ok()) {
          ++failed;
          continue;
        }
        own.x = own.y = mapped->data + t * 30 * 64 * 4;
        if (!on.backend->Run(own, {0, 30}, nullptr).ok()) ++failed;
        on.sharing->Close(1, mapped->data);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, 0);
  EXPECT_TRUE(on.driver->Read(handle) == expected);
  EXPECT_EQ(on.launches(0), 0);
}

}  // namespace
}  // namespace phasor::cuda
