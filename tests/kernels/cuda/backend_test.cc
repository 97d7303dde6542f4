// The device runtime on the fake device: bits through the pipeline, memory within its budget, and every call made to fail.
#include "kernels/backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/encodings/encoding.h"
#include "tests/kernels/cuda/fake_driver.h"

namespace phasor::cuda {
namespace {

// A Toeplitz matrix to make, and what it must be.
struct Matrix {
  Matrix(int64_t heads, int64_t queries, int64_t keys) : vector(heads * (queries + keys - 1)), out(heads * queries * keys) {
    for (size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<uint32_t>(i * 2654435761u);
    task.heads = heads;
    task.queries = queries;
    task.keys = keys;
    task.vector = vector.data();
    task.vector_stride = queries + keys - 1;
    task.out = out.data();
    Clear();
  }
  void Clear() { std::fill(out.begin(), out.end(), 0xeeeeeeee); }
  RowRange rows() const { return {0, task.heads * task.queries}; }
  bool Right() const {
    for (int64_t r = 0; r < rows().end; ++r) {
      const uint32_t* from = &vector[r / task.queries * task.vector_stride + (task.queries - 1 - r % task.queries)];
      if (std::memcmp(&out[r * task.keys], from, task.keys * 4) != 0) return false;
    }
    return true;
  }
  bool Untouched() const {
    return std::all_of(out.begin(), out.end(), [](uint32_t v) { return v == 0xeeeeeeee; });
  }

  std::vector<uint32_t> vector, out;
  ToeplitzTask task;
};

struct OnFake {
  explicit OnFake(FakeOptions fake = {}, BackendOptions options = {}) : driver(std::make_shared<FakeDriver>(fake)) {
    if (options.min_device_bytes == BackendOptions().min_device_bytes) options.min_device_bytes = 0;
    auto made = MakeCudaBackend(driver, *CreateBackend("cpu"), options);
    EXPECT_TRUE(made.ok()) << made.status();
    if (made.ok()) backend = *std::move(made);
  }
  std::shared_ptr<FakeDriver> driver;
  std::unique_ptr<Backend> backend;
};

TEST(CudaBackendTest, ChunksOverlapAndTheBitsAreRight) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    FakeOptions fake;
    fake.seed = seed;
    OnFake s(fake);
    Matrix m(3, 700, 1500);  // 12 MiB: 4 chunks, a slot twice
    CancelFlag flag{false};
    ASSERT_TRUE(s.backend->Run(m.task, m.rows(), &flag).ok());
    EXPECT_TRUE(m.Right()) << seed;
    EXPECT_TRUE(flag.ran_on_device());
    EXPECT_FALSE(flag.ran_on_cpu(CpuReason::kSmall));
    EXPECT_EQ(s.driver->launches(), 4);
    const BackendStats stats = s.backend->stats();
    EXPECT_EQ(stats.devices[0].launches, 4);
    EXPECT_EQ(stats.devices[0].bytes_out, 3 * 700 * 1500 * 4);
    EXPECT_GT(stats.devices[0].kernel_seconds, 0);
    EXPECT_GT(stats.devices[0].used_bytes, 0);
  }
}

TEST(CudaBackendTest, SmallWorkAndForeignTasksAreTheCpus) {
  BackendOptions options;
  options.min_device_bytes = 4096;
  OnFake s({}, options);
  Matrix small(1, 8, 8), large(1, 64, 64);
  CancelFlag flag{false};
  ASSERT_TRUE(s.backend->Run(small.task, small.rows(), &flag).ok());
  EXPECT_TRUE(small.Right());
  EXPECT_TRUE(flag.ran_on_cpu(CpuReason::kSmall));
  EXPECT_FALSE(flag.ran_on_device());
  ASSERT_TRUE(s.backend->Run(large.task, large.rows(), nullptr).ok());
  EXPECT_TRUE(large.Right());
  EXPECT_EQ(s.driver->launches(), 1);

  double features[3] = {0, 1, 2}, out[3];
  PerceptronTask foreign;
  foreign.features = features;
  foreign.out = out;
  foreign.heads = 0;
  foreign.perceptron = nullptr;
  CancelFlag other{false};
  s.backend->Run(foreign, {0, 0}, &other).IgnoreError();
  EXPECT_TRUE(other.ran_on_cpu(CpuReason::kTask));
  const BackendStats stats = s.backend->stats();
  EXPECT_EQ(stats.left_to_cpu[static_cast<size_t>(CpuReason::kSmall)], 1);
  EXPECT_EQ(stats.left_to_cpu[static_cast<size_t>(CpuReason::kTask)], 1);
}

TEST(CudaBackendTest, ACancelledCallStopsBetweenChunks) {
  OnFake s;
  Matrix m(1, 1000, 1000);
  CancelFlag flag{true};
  EXPECT_TRUE(absl::IsCancelled(s.backend->Run(m.task, m.rows(), &flag)));
  EXPECT_TRUE(m.Untouched());
  EXPECT_EQ(s.driver->launches(), 0);
}

TEST(CudaBackendTest, EveryCallMayFail) {
  // Made once without failures, to know how many calls there are.
  int64_t calls = 0, before = 0;
  {
    OnFake s;
    Matrix m(1, 1500, 1500);
    before = s.driver->calls();
    ASSERT_TRUE(s.backend->Run(m.task, m.rows(), nullptr).ok());
    calls = s.driver->calls();
  }
  ASSERT_GT(calls, before + 30);
  for (const auto code : {absl::StatusCode::kInternal, absl::StatusCode::kAborted}) {
    for (int64_t n = 1; n <= calls - before; ++n) {
      BackendOptions options;
      int lost = 0;
      options.on_device_lost = [&](const absl::Status& status) {
        ++lost;
        EXPECT_EQ(status.message(), "fakeError");
      };
      OnFake s({}, options);
      Matrix m(1, 1500, 1500);
      s.driver->FailCall(n, absl::Status(code, "fakeError"));
      const absl::Status status = s.backend->Run(m.task, m.rows(), nullptr);
      if (status.ok()) {
        EXPECT_TRUE(m.Right()) << n;  // a time that could not be read
        continue;
      }
      m.Clear();  // nothing may be written from here on
      if (code == absl::StatusCode::kAborted) {
        EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << n;
        EXPECT_EQ(lost, 1) << n;
        EXPECT_EQ(s.backend->Run(m.task, m.rows(), nullptr).code(), absl::StatusCode::kUnavailable);
        EXPECT_EQ(lost, 1) << n;
        EXPECT_EQ(s.backend->stats().device_lost, 1);
        continue;
      }
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << n;
      EXPECT_EQ(s.backend->stats().other_errors, 1) << n;
      // What was on its way has ended before Run did: the next one is right.
      ASSERT_TRUE(s.backend->Run(m.task, m.rows(), nullptr).ok()) << n;
      EXPECT_TRUE(m.Right()) << n;
    }
  }
}

TEST(CudaBackendTest, WithoutMemoryTheCpuDoesItOrSaysSo) {
  for (const bool cpu : {true, false}) {
    FakeOptions fake;
    fake.device_bytes = 1 << 20;  // less than a chunk
    BackendOptions options;
    options.device_bytes = int64_t{1} << 30;
    options.cpu_when_out_of_memory = cpu;
    OnFake s(fake, options);
    Matrix m(1, 1500, 1500);
    CancelFlag flag{false};
    const absl::Status status = s.backend->Run(m.task, m.rows(), &flag);
    EXPECT_EQ(status.ok(), cpu) << status;
    EXPECT_EQ(s.backend->stats().out_of_memory, 1);
    if (cpu) {
      EXPECT_TRUE(m.Right());
      EXPECT_TRUE(flag.ran_on_cpu(CpuReason::kMemory));
    } else {
      EXPECT_TRUE(absl::IsResourceExhausted(status));
      EXPECT_TRUE(m.Untouched());
    }
  }
}

// Chunks are not of one size: the first of a table ends where a pass of positions does. However little memory there is,
// either there is enough from the start, or the CPU does all of it.
TEST(CudaBackendTest, WhateverMemoryThereIsTheWorkIsDone) {
  RopeSpec rope;
  rope.head_dim = 8192;
  const auto resolved = Resolve(*Canonicalize(EncodingSpec(rope)), std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok());
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  constexpr int64_t kRows = 400, kFirst = 9;
  std::vector<float> table(2 * kRows * 4096), expected(table.size());
  AngleTask task;
  task.plan = &plan;
  task.row_stride = 4096;
  task.positions.start = 1000;
  task.cos = expected.data();
  task.sin = expected.data() + expected.size() / 2;
  ASSERT_TRUE((*CreateBackend("cpu"))->Run(task, {kFirst, kRows}, nullptr).ok());
  task.cos = table.data();
  task.sin = table.data() + table.size() / 2;
  int on_device = 0, on_cpu = 0;
  for (int64_t budget = int64_t{10} << 20; budget < (int64_t{22} << 20); budget += int64_t{512} << 10) {
    BackendOptions options;
    options.device_bytes = budget;
    OnFake s({}, options);
    CancelFlag flag{false};
    std::fill(table.begin(), table.end(), 0.0f);
    const absl::Status status = s.backend->Run(task, {kFirst, kRows}, &flag);
    ASSERT_TRUE(status.ok()) << budget << ": " << status;
    EXPECT_EQ(table, expected) << budget;
    ++(flag.ran_on_cpu(CpuReason::kMemory) ? on_cpu : on_device);
  }
  EXPECT_GT(on_device, 0);
  EXPECT_GT(on_cpu, 0);
}

TEST(CudaBackendTest, ALossShowsInTheFiguresOfAnIdleDevice) {
  BackendOptions options;
  int lost = 0;
  options.on_device_lost = [&](const absl::Status& status) {
    ++lost;
    EXPECT_EQ(status.message(), "fakeError");
  };
  OnFake s({}, options);
  s.driver->FailCall(1, absl::InternalError("passing"));
  EXPECT_EQ(s.backend->stats().device_lost, 0);
  EXPECT_EQ(lost, 0);
  s.driver->FailCall(1, absl::AbortedError("fakeError"));
  EXPECT_EQ(s.backend->stats().device_lost, 1);
  EXPECT_EQ(lost, 1);
  Matrix m(1, 1500, 1500);
  EXPECT_TRUE(absl::IsUnavailable(s.backend->Run(m.task, m.rows(), nullptr)));
  EXPECT_EQ(s.backend->stats().device_lost, 1);
  EXPECT_EQ(lost, 1);
}

// Nor is one that fails while memory is pinned a slow copy and nothing else.
TEST(CudaBackendTest, PinningThatFails) {
  BackendOptions options;
  int lost = 0;
  options.on_device_lost = [&](const absl::Status&) { ++lost; };
  OnFake s({}, options);
  std::vector<std::byte> block(4096);
  const auto pinning = s.backend->pinning();
  s.driver->FailCall(1, absl::ResourceExhaustedError("fakeErrorMemoryAllocation"));
  EXPECT_FALSE(pinning->Pin(block.data(), 4096));
  EXPECT_TRUE(pinning->Pin(block.data(), 4096));
  pinning->Unpin(block.data());
  EXPECT_EQ(s.backend->stats().unpinned, 1);
  EXPECT_EQ(lost, 0);
  s.driver->FailCall(1, absl::AbortedError("fakeError"));
  EXPECT_FALSE(pinning->Pin(block.data(), 4096));
  EXPECT_EQ(lost, 1);
}

// A tensor rotated where it lies must not be rotated twice: once output may have been written, nothing else does the work.
TEST(CudaBackendTest, WorkInPlaceIsDoneOnceWhateverFails) {
  constexpr int64_t kTokens = 3000, kHeads = 4, kPairs = 64;
  std::vector<float> x(kTokens * kHeads * 2 * kPairs), table(kTokens * kPairs, 0.75f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1013) / 1013.0f;
  std::vector<float> data = x;
  RotateTask task;
  task.tokens = kTokens;
  task.heads = kHeads;
  task.head_dim = 2 * kPairs;
  task.pairs = kPairs;
  task.x = task.y = data.data();
  task.x_token_stride = task.y_token_stride = kHeads * 2 * kPairs;
  task.x_head_stride = task.y_head_stride = 2 * kPairs;
  task.cos = task.sin = table.data();
  task.table_stride = kPairs;
  ASSERT_TRUE((*CreateBackend("cpu"))->Run(task, {0, kTokens}, nullptr).ok());
  const std::vector<float> once = data;

  int refused = 0;
  for (int64_t n = 1;; ++n) {
    OnFake s;
    std::copy(x.begin(), x.end(), data.begin());
    const int64_t before = s.driver->calls();
    s.driver->FailCall(n, absl::ResourceExhaustedError("fakeErrorMemoryAllocation"));
    const absl::Status status = s.backend->Run(task, {0, kTokens}, nullptr);
    if (s.driver->calls() - before < n) break;  // the call that was to fail never came
    if (status.ok()) {
      EXPECT_EQ(data, once) << n;
    } else {
      EXPECT_TRUE(absl::IsResourceExhausted(status)) << n;
      ++refused;
    }
  }
  EXPECT_GT(refused, 5);  // copies and launches, of every chunk
}

TEST(CudaBackendTest, LanesThatNobodyUsesMakeRoom) {
  FakeOptions fake;
  fake.device_bytes = int64_t{40} << 20;
  BackendOptions options;
  options.device_bytes = fake.device_bytes;
  options.cpu_when_out_of_memory = false;
  OnFake s(fake, options);
  // Until two lanes have worked side by side and hold their slots.
  for (int i = 0; i < 200 && s.backend->stats().devices[0].used_bytes < (int64_t{20} << 20); ++i) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        Matrix m(1, 1500, 1500);
        EXPECT_TRUE(s.backend->Run(m.task, m.rows(), nullptr).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  ASSERT_GE(s.backend->stats().devices[0].used_bytes, int64_t{20} << 20);
  Matrix row(1, 1, 4 << 20);  // 16 MiB, and a vector of as much: not beside the slots of both
  EXPECT_TRUE(s.backend->Run(row.task, row.rows(), nullptr).ok());
  EXPECT_TRUE(row.Right());
}

TEST(CudaBackendTest, WhatIsKeptMakesRoomBeforeTheSecondAttempt) {
  for (int64_t failures = 1; failures <= 3; ++failures) {
    BackendOptions options;
    options.cpu_when_out_of_memory = false;
    OnFake s({}, options);
    Matrix m(1, 1500, 1500), larger(1, 3, 1 << 21);  // a row of 8 MiB: beyond the slots of the first
    ASSERT_TRUE(s.backend->Run(m.task, m.rows(), nullptr).ok());
    s.driver->FailAllocations(failures);
    const absl::Status status = s.backend->Run(larger.task, larger.rows(), nullptr);
    // The allocation is tried again after kept blocks have gone back, and the work after everything has.
    EXPECT_EQ(status.code(), failures < 3 ? absl::StatusCode::kOk : absl::StatusCode::kResourceExhausted) << failures;
    EXPECT_EQ(larger.Right(), failures < 3) << failures;
    EXPECT_EQ(s.backend->stats().out_of_memory, failures == 1 ? 0 : 1) << failures;
  }
}

TEST(CudaBackendTest, TheDeviceWithTheLeastToDoIsChosen) {
  FakeOptions fake;
  fake.devices = 3;
  BackendOptions options;
  options.devices = {0, 2};
  OnFake s(fake, options);
  ASSERT_EQ(s.backend->stats().devices.size(), 2u);
  EXPECT_EQ(s.backend->stats().devices[1].uuid, "GPU-fa4e-2");
  EXPECT_THAT(s.backend->description(), testing::HasSubstr("2: Fake (compute capability 9.0, GPU-fa4e-2)"));
  options.devices = {3};
  const auto unknown = MakeCudaBackend(s.driver, *CreateBackend("cpu"), options);
  EXPECT_EQ(unknown.status().message(), "device: given 3; allowed: 0 … 2");
}

// Rotations of a batch: small tensors of their own, tables that some share.
TEST(CudaBackendTest, ManySmallRotationsShareALaunchAndTheirTable) {
  constexpr int kTasks = 300, kPairs = 32, kRows = 64;
  std::vector<float> table(2 * kRows * kPairs);
  for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 97) / 97.0f - 0.5f;
  const SharedTable shared{7, table.data(), static_cast<int64_t>(table.size() * sizeof(float))};
  std::vector<std::vector<float>> x;
  std::vector<Task> tasks;
  std::vector<int64_t> rows;
  for (int i = 0; i < kTasks; ++i) {
    x.emplace_back(static_cast<size_t>((1 + i % 3) * 2 * 2 * kPairs), static_cast<float>(i));
    for (size_t k = 0; k < x.back().size(); ++k) x.back()[k] += static_cast<float>(k) / 256.0f;
  }
  const auto make = [&](std::vector<std::vector<float>>& data) {
    tasks.clear();
    rows.clear();
    for (int i = 0; i < kTasks; ++i) {
      RotateTask task;
      task.tokens = 1 + i % 3;
      task.heads = 2;
      task.head_dim = 2 * kPairs;
      task.pairs = kPairs;
      task.x = task.y = data[static_cast<size_t>(i)].data();
      task.x_token_stride = task.y_token_stride = task.heads * task.head_dim;
      task.x_head_stride = task.y_head_stride = task.head_dim;
      task.cos = table.data() + (i % 50) * kPairs;
      task.sin = table.data() + (kRows + i % 50) * kPairs;
      task.table_stride = kPairs;
      task.shared = &shared;
      rows.push_back(task.tokens);
      tasks.push_back(task);
    }
  };
  std::vector<std::vector<float>> expected = x;
  make(expected);
  ASSERT_TRUE((*CreateBackend("reference"))->RunAll(tasks, rows, nullptr).ok());
  OnFake s;
  make(x);
  CancelFlag flag{false};
  ASSERT_TRUE(s.backend->RunAll(tasks, rows, &flag).ok());
  for (int i = 0; i < kTasks; ++i) EXPECT_EQ(x[static_cast<size_t>(i)], expected[static_cast<size_t>(i)]) << i;
  EXPECT_EQ(s.driver->launches(), 2);  // 256 fit in the parameters of one
  EXPECT_TRUE(flag.ran_on_device());
  const DeviceStats stats = s.backend->stats().devices[0];
  EXPECT_EQ(stats.grouped_launches, 2);
  EXPECT_EQ(stats.grouped_tasks, kTasks);
  EXPECT_EQ(stats.table_uploads, 1);
  // The table is there for the next call, and goes when memory is short and nobody uses it.
  ASSERT_TRUE(s.backend->RunAll(tasks, rows, nullptr).ok());
  EXPECT_EQ(s.backend->stats().devices[0].table_hits, 1);
  EXPECT_EQ(s.backend->stats().devices[0].table_bytes, shared.bytes);

  // Where the whole group is not worth a device, each is the CPU's.
  BackendOptions options;
  options.min_device_bytes = int64_t{1} << 30;
  OnFake cpu({}, options);
  x = expected;
  make(x);
  ASSERT_TRUE(cpu.backend->RunAll(tasks, rows, nullptr).ok());
  EXPECT_EQ(cpu.backend->stats().left_to_cpu[static_cast<size_t>(CpuReason::kSmall)], kTasks);
  EXPECT_EQ(cpu.driver->launches(), 0);
}

TEST(CudaBackendTest, ManyThreadsShareLanesAndDevices) {
  FakeOptions fake;
  fake.devices = 2;
  OnFake s(fake);
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 5; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 10; ++i) {
        Matrix m(1, 100 + 37 * t, 500 + i);
        const absl::Status status = s.backend->Run(m.task, m.rows(), nullptr);
        if (!status.ok() || !m.Right()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace phasor::cuda
