#include "tests/bench/cuda/host_gates.h"

#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/backend.h"
#include "kernels/cuda/cuda_backend.h"

namespace phasor::cuda {
namespace {

constexpr int64_t kHeads = 32, kPairs = 64, kTokenBytes = kHeads * kPairs * 4;  // of bf16

std::string TextOf(const absl::Status& status) { return std::string(status.message()); }

ReportRow Failed(std::string name, RowKind kind, double limit, const absl::Status& status) {
  return {std::move(name), kind, std::numeric_limits<double>::quiet_NaN(), limit, TextOf(status)};
}

// Numbers of bf16, ±0.5 to ±2.
void FillWithNumbers(std::byte* data, int64_t bytes) {
  std::mt19937 random(1);
  for (int64_t i = 0; i + 1 < bytes; i += 2) {
    const auto bits = static_cast<uint16_t>(0x3f00 | (random() & 0x80ff));
    std::memcpy(data + i, &bits, 2);
  }
}

enum class Memory : uint8_t {
  kOfTheRuntime,
  kOfTheSystem,  // huge pages where there are, pinned where they are: as server/buffer_pool.cc has it
};

// Pinned host memory with numbers of bf16 in it.
class Host {
 public:
  Host(Driver& driver, int64_t bytes, Memory memory = Memory::kOfTheRuntime) : driver_(driver) {
    memory == Memory::kOfTheRuntime ? Allocate(bytes) : Map(bytes);
    if (status.ok()) FillWithNumbers(data, bytes);
  }
  ~Host() {
    if (status.ok()) mapped_ == nullptr ? driver_.FreePinned(data) : driver_.Unpin(data);
    if (mapped_ != nullptr) munmap(mapped_, mapped_bytes_);
  }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  std::byte* data = nullptr;
  absl::Status status;

 private:
  void Allocate(int64_t bytes) {
    const auto made = driver_.AllocatePinned(bytes);
    status = made.status();
    if (made.ok()) data = *made;
  }
  void Map(int64_t bytes) {
    constexpr size_t kHugePage = size_t{2} << 20;
    const size_t whole = (static_cast<size_t>(bytes) + kHugePage - 1) / kHugePage * kHugePage;
    mapped_bytes_ = whole + kHugePage;
    void* const mapped = mmap(nullptr, mapped_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) {
      status = absl::ResourceExhaustedError("mmap");
      return;
    }
    mapped_ = mapped;
    data = static_cast<std::byte*>(mapped) + (kHugePage - reinterpret_cast<uintptr_t>(mapped) % kHugePage) % kHugePage;
    madvise(data, whole, MADV_HUGEPAGE);
    status = driver_.Pin(data, static_cast<int64_t>(whole));
  }

  Driver& driver_;
  void* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
};

using Work = std::function<absl::Status()>;

// Seconds of each, medians of rounds in which they take turns; once before that for nothing.
absl::StatusOr<std::vector<double>> SecondsOf(const std::vector<Work>& works, int rounds) {
  std::vector<std::vector<double>> seconds(works.size());
  for (int round = -1; round < rounds; ++round) {
    for (size_t i = 0; i < works.size(); ++i) {
      const auto begin = std::chrono::steady_clock::now();
      if (absl::Status status = works[i](); !status.ok()) return status;
      const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
      if (round >= 0) seconds[i].push_back(took.count());
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& each : seconds) medians.push_back(Median(std::move(each)));
  return medians;
}

// By one angle, of which the cosine is 0.6: numbers stay as large as they are, however often they are turned.
struct Row {
  std::vector<float> cos = std::vector<float>(kPairs, 0.6f), sin = std::vector<float>(kPairs, 0.8f);
};

RotateTask Rotation(std::byte* x, int64_t tokens, const Row& row) {
  RotateTask task;
  task.dtype = DType::kBF16;
  task.tokens = tokens;
  task.heads = kHeads;
  task.head_dim = 2 * kPairs;
  task.pairs = kPairs;
  task.x = task.y = x;
  task.x_token_stride = task.y_token_stride = 2 * kHeads * kPairs;
  task.x_head_stride = task.y_head_stride = 2 * kPairs;
  task.table_stride = 0;  // one row for all: the table is none of the matter
  task.cos = row.cos.data();
  task.sin = row.sin.data();
  return task;
}

absl::StatusOr<std::unique_ptr<Backend>> DeviceBackend(const std::shared_ptr<Driver>& driver) {
  BackendOptions options;
  options.devices = {0};
  options.min_device_bytes = 0;
  options.cpu_when_out_of_memory = false;  // else a figure of the CPU would go for the device's
  return MakeCudaBackend(driver, *CreateBackend("cpu"), options);
}

// Copies of `bytes` to device 0 and back, on a stream of their own.
class Copies {
 public:
  Copies(Driver& driver, int64_t bytes) : driver_(driver) {
    auto memory = driver.Allocate(0, bytes);
    auto stream = driver.CreateStream(0);
    auto event = driver.CreateEvent(0);
    for (const absl::Status& each : {memory.status(), stream.status(), event.status()}) status.Update(each);
    if (memory.ok()) memory_ = *memory;
    if (stream.ok()) stream_ = *stream;
    if (event.ok()) event_ = *event;
  }
  ~Copies() {
    if (status.ok()) Finish(absl::OkStatus()).IgnoreError();  // what failed may have left a copy on its way
    if (event_ != Driver::Event{}) driver_.DestroyEvent(event_);
    if (stream_ != Driver::Stream{}) driver_.DestroyStream(stream_);
    if (memory_ != nullptr) driver_.Free(0, memory_);
  }
  Copies(const Copies&) = delete;
  Copies& operator=(const Copies&) = delete;

  absl::Status In(std::byte* host, int64_t bytes) { return Finish(driver_.CopyIn(stream_, Strip{host, bytes}, memory_)); }
  absl::Status Out(std::byte* host, int64_t bytes) { return Finish(driver_.CopyOut(stream_, memory_, Strip{host, bytes})); }

  absl::Status status;

 private:
  absl::Status Finish(absl::Status put) {
    put.Update(driver_.Record(event_, stream_));
    put.Update(driver_.Synchronize(event_));
    return put;
  }
  Driver& driver_;
  std::byte* memory_ = nullptr;
  Driver::Stream stream_{};
  Driver::Event event_{};
};

// What copies take, and all of the work between them.
std::vector<ReportRow> HostPath(const std::shared_ptr<Driver>& driver, const HostGateSizes& sizes, Memory memory) {
  const std::string where = memory == Memory::kOfTheRuntime ? "" : ", in the server's own memory";
  const std::string name = absl::StrCat("host to host, ÷ the slower pinned copy", where);
  const auto failed = [&](const absl::Status& status) {
    return std::vector<ReportRow>{Failed(name, RowKind::kAtMost, 1.25, status)};
  };
  auto backend = DeviceBackend(driver);
  if (!backend.ok()) return failed(backend.status());
  const int64_t tokens = std::max<int64_t>(1, sizes.bytes / kTokenBytes), bytes = tokens * kTokenBytes;
  const Host host(*driver, bytes, memory);
  if (!host.status.ok()) return failed(host.status);
  Copies copies(*driver, bytes);
  if (!copies.status.ok()) return failed(copies.status);
  const Row row;
  const Task task = Rotation(host.data, tokens, row);
  const auto seconds = SecondsOf({[&] { return copies.In(host.data, bytes); }, [&] { return copies.Out(host.data, bytes); },
                                  [&] { return (*backend)->Run(task, {0, tokens}, nullptr); }},
                                 sizes.rounds);
  if (!seconds.ok()) return failed(seconds.status());
  // Only here are copies of many chunks on their way while the next ones are put on the streams.
  FillWithNumbers(host.data, bytes);
  const auto cpu = *CreateBackend("cpu");
  if (absl::Status status = RotatesAlike(**backend, *cpu, host.data, bytes); !status.ok()) return failed(status);
  const double in = (*seconds)[0], out = (*seconds)[1], whole = (*seconds)[2];
  const auto gigabytes = static_cast<double>(bytes) * 1e-9;
  return {{name, RowKind::kAtMost, whole / std::max(in, out), 1.25},
          {absl::StrCat("pinned copy to the device, GB/s", where), RowKind::kFigure, gigabytes / in},
          {absl::StrCat("pinned copy from the device, GB/s", where), RowKind::kFigure, gigabytes / out}};
}

}  // namespace

absl::Status RotatesAlike(const Backend& one, const Backend& other, std::byte* data, int64_t bytes) {
  const int64_t tokens = bytes / kTokenBytes;
  std::vector<std::byte> copy(data, data + bytes);
  const Row row;
  const Task task = Rotation(data, tokens, row), task_of_copy = Rotation(copy.data(), tokens, row);
  if (absl::Status status = one.Run(task, {0, tokens}, nullptr); !status.ok()) return status;
  if (absl::Status status = other.Run(task_of_copy, {0, tokens}, nullptr); !status.ok()) return status;
  const auto differs = std::mismatch(copy.begin(), copy.end(), data);
  if (differs.first == copy.end()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("other bits than the CPU's, at byte ", differs.first - copy.begin()));
}

std::vector<ReportRow> HostPathGate(const std::shared_ptr<Driver>& driver, const HostGateSizes& sizes) {
  std::vector<ReportRow> rows;
  for (const Memory memory : {Memory::kOfTheRuntime, Memory::kOfTheSystem}) {
    for (ReportRow& row : HostPath(driver, sizes, memory)) rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<ReportRow> GroupFigures(const std::shared_ptr<Driver>& driver, const HostGateSizes& sizes) {
  const std::string name = "256 requests of 1 token with their copies, ÷ one";
  const auto failed = [&](const absl::Status& status) {
    return std::vector<ReportRow>{Failed(name, RowKind::kFigure, 0, status)};
  };
  auto backend = DeviceBackend(driver);
  if (!backend.ok()) return failed(backend.status());
  constexpr int kRequests = 256;
  const Host host(*driver, kRequests * kTokenBytes);
  if (!host.status.ok()) return failed(host.status);
  const Row row;
  std::vector<Task> tasks;
  for (int i = 0; i < kRequests; ++i) tasks.emplace_back(Rotation(host.data + i * kTokenBytes, 1, row));
  const std::vector<int64_t> rows(kRequests, 1);
  const auto one = [&] { return (*backend)->Run(tasks[0], {0, 1}, nullptr); };
  const auto each = [&] {
    for (const Task& task : tasks) {
      if (absl::Status status = (*backend)->Run(task, {0, 1}, nullptr); !status.ok()) return status;
    }
    return absl::OkStatus();
  };
  const auto seconds = SecondsOf({one, [&] { return (*backend)->RunAll(tasks, rows, nullptr); }, each}, sizes.rounds);
  if (!seconds.ok()) return failed(seconds.status());
  return {{name, RowKind::kFigure, (*seconds)[1] / (*seconds)[0]},
          {"the same one after the other, ÷ together", RowKind::kFigure, (*seconds)[2] / (*seconds)[1]},
          {"one request of 1 token with its copies, µs", RowKind::kFigure, (*seconds)[0] * 1e6}};
}

std::vector<ReportRow> BreakEvenFigure(const std::shared_ptr<Driver>& driver, const HostGateSizes& sizes) {
  const std::string name = "bytes moved from which the device is quicker, KiB";
  const auto failed = [&](const absl::Status& status) {
    return std::vector<ReportRow>{Failed(name, RowKind::kFigure, 0, status)};
  };
  auto backend = DeviceBackend(driver);
  if (!backend.ok()) return failed(backend.status());
  const auto cpu = *CreateBackend("cpu");
  const Host host(*driver, sizes.largest_of_few);
  if (!host.status.ok()) return failed(host.status);
  const Row row;
  // In and out are counted, as --cuda-min-bytes does. From the largest down, so that one odd size decides nothing.
  double quicker_from = std::numeric_limits<double>::infinity();
  for (int64_t bytes = sizes.largest_of_few; bytes >= kTokenBytes; bytes /= 2) {
    const int64_t tokens = bytes / kTokenBytes;
    const Task task = Rotation(host.data, tokens, row);
    const auto seconds = SecondsOf(
        {[&] { return (*backend)->Run(task, {0, tokens}, nullptr); }, [&] { return cpu->Run(task, {0, tokens}, nullptr); }},
        sizes.rounds);
    if (!seconds.ok()) return failed(seconds.status());
    if ((*seconds)[0] > (*seconds)[1]) break;
    quicker_from = static_cast<double>(2 * bytes) / 1024;
  }
  if (quicker_from == std::numeric_limits<double>::infinity()) {
    return {{"bytes moved up to which one core is quicker, at least, KiB", RowKind::kFigure,
             static_cast<double>(2 * sizes.largest_of_few) / 1024}};
  }
  const double flag = static_cast<double>(BackendOptions().min_device_bytes) / 1024;
  return {{name, RowKind::kFigure, quicker_from}, {"the same as --cuda-min-bytes has it, KiB", RowKind::kFigure, flag}};
}

}  // namespace phasor::cuda
