#include "kernels/cuda/cuda_backend.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/health.h"
#include "kernels/cuda/ipc_mappings.h"
#include "kernels/cuda/lowering.h"
#include "kernels/cuda/pipeline.h"

namespace phasor::cuda {
namespace {

// What Run is given at once: a millisecond of a fast bus, and several chunks for its pipeline.
constexpr int64_t kSliceBytes = int64_t{32} << 20;

// The same of work on memory that is there already: some milliseconds of the device's own memory.
constexpr int64_t kSliceBytesThere = int64_t{4} << 30;

// A task that fills a chunk by itself gains nothing from company.
constexpr int64_t kLargestInGroup = int64_t{1} << 20;

CpuReason ReasonOf(const absl::Status& unimplemented) {
  for (int i = 0; i < kCpuReasons; ++i) {
    if (unimplemented.message() == absl::string_view(Name(static_cast<CpuReason>(i)).data()))
      return static_cast<CpuReason>(i);
  }
  return CpuReason::kTask;
}

class DriverPinning final : public HostPinning {
 public:
  DriverPinning(std::shared_ptr<Driver> driver, std::shared_ptr<Health> health, std::shared_ptr<std::atomic<int64_t>> failed)
      : driver_(std::move(driver)), health_(std::move(health)), failed_(std::move(failed)) {}
  bool Pin(std::byte* memory, int64_t bytes) const override {
    const absl::Status status = driver_->Pin(memory, bytes);
    if (!status.ok()) failed_->fetch_add(1, std::memory_order_relaxed);
    if (IsDeviceLost(status)) (void)health_->Lose(status);
    return status.ok();
  }
  void Unpin(std::byte* memory) const override { driver_->Unpin(memory); }

 private:
  const std::shared_ptr<Driver> driver_;
  const std::shared_ptr<Health> health_;
  const std::shared_ptr<std::atomic<int64_t>> failed_;
};

std::vector<int> IdsOf(const std::vector<std::unique_ptr<Device>>& devices) {
  std::vector<int> ids;
  for (const auto& device : devices) ids.push_back(device->info().id);
  return ids;
}

class CudaBackend final : public Backend, public SharesDevices {
 public:
  CudaBackend(std::shared_ptr<Driver> driver, std::unique_ptr<Backend> cpu, const BackendOptions& options,
              std::vector<std::unique_ptr<Device>> devices, std::string left_out)
      : driver_(std::move(driver)),
        cpu_(std::move(cpu)),
        options_(options),
        left_out_(std::move(left_out)),
        devices_(std::move(devices)),
        health_(std::make_shared<Health>(options.on_device_lost)),
        mappings_(std::make_shared<IpcMappings>(driver_, IdsOf(devices_),
                                                [health = health_](absl::Status status) { return health->Lose(status); })) {
    driver_->PinThrough(devices_.front()->info().id);
  }

  std::string_view name() const override { return "cuda"; }

  std::string description() const override {
    std::vector<std::string> names;
    for (const auto& device : devices_) {
      const DeviceInfo& info = device->info();
      names.push_back(absl::StrCat(info.id, ": ", info.name, " (compute capability ", info.major, ".", info.minor,
                                   info.uuid.empty() ? "" : ", ", info.uuid, ")"));
    }
    return absl::StrCat(absl::StrJoin(names, ", "), "; small work on ", cpu_->description(),
                        left_out_.empty() ? "" : "; not used: ", left_out_);
  }

  absl::Status Run(const Task& task, RowRange rows, const CancelFlag* cancel) const override {
    if (health_->lost()) return Health::Lost();
    if (const auto device = DeviceOf(task)) return RunInPlace(*device, task, rows, cancel);
    const auto lowered = Lower(task);
    if (!lowered.ok()) {
      if (!absl::IsUnimplemented(lowered.status())) return lowered.status();
      return RunOnCpu(ReasonOf(lowered.status()), task, rows, cancel);
    }
    if (absl::Status status = (*lowered)->CheckRows(rows); !status.ok()) return status;
    const int64_t bytes = BytesOf(**lowered, rows);
    if (bytes < options_.min_device_bytes) return RunOnCpu(CpuReason::kSmall, task, rows, cancel);
    bool began = false;
    absl::Status status = RunOnDevice(Choose(), **lowered, rows, bytes, cancel, &began);
    return MayMoveToCpu(status, began) ? RunOnCpu(CpuReason::kMemory, task, rows, cancel) : status;
  }

  absl::Status RunAll(std::span<const Task> tasks, std::span<const int64_t> rows, const CancelFlag* cancel) const override {
    if (health_->lost()) return Health::Lost();
    Group group;
    for (size_t i = 0; i < tasks.size(); ++i) {
      if (absl::Status status = AddTo(&group, i, tasks[i], rows[i], cancel); !status.ok()) return status;
    }
    if (group.parts.empty()) return absl::OkStatus();
    auto reason = CpuReason::kSmall;
    if (group.bytes >= options_.min_device_bytes) {
      const auto count = static_cast<int64_t>(group.parts.size());
      const std::unique_ptr<Lowered> lowered = LowerGroup(std::move(group.parts), std::move(group.rows));
      bool began = false;
      const absl::Status status = RunOnDevice(Choose(), *lowered, {0, count}, group.bytes, cancel, &began, count);
      if (!MayMoveToCpu(status, began)) return status;
      reason = CpuReason::kMemory;
    }
    for (const size_t i : group.tasks) {
      if (absl::Status status = RunOnCpu(reason, tasks[i], {0, rows[i]}, cancel); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  int64_t RowsPerSlice(const Task& task) const override {
    const int64_t on_cpu = cpu_->RowsPerSlice(task);
    const int64_t row_bytes = MovedBytesPerRow(task);
    if (row_bytes <= 0) return on_cpu;
    return std::max(on_cpu, (DeviceOf(task) ? kSliceBytesThere : kSliceBytes) / row_bytes);
  }

  int64_t BytesAtOnce() const override { return kSliceBytes; }

  std::shared_ptr<const HostPinning> pinning() const override {
    return std::make_shared<DriverPinning>(driver_, health_, unpinned_);
  }

  std::shared_ptr<const DeviceSharing> sharing() const override { return mappings_; }

  BackendStats stats() const override {
    BackendStats stats;
    for (const auto& device : devices_) {
      absl::Status error;
      stats.devices.push_back(device->stats(&error));
      if (IsDeviceLost(error)) (void)health_->Lose(error);
    }
    for (int i = 0; i < kCpuReasons; ++i) {
      stats.left_to_cpu[static_cast<size_t>(i)] = left_to_cpu_[static_cast<size_t>(i)].load(std::memory_order_relaxed);
    }
    stats.out_of_memory = out_of_memory_.load(std::memory_order_relaxed);
    stats.device_lost = health_->lost() ? 1 : 0;
    stats.unpinned = unpinned_->load(std::memory_order_relaxed);
    stats.other_errors = other_errors_.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  // Of work on memory that is mapped there.
  std::optional<int> DeviceOf(const Task& task) const {
    return mappings_->count() == 0 ? std::nullopt : mappings_->DeviceOf(PlaceOf(task));
  }

  // The CPU cannot do it.
  absl::Status RunInPlace(int id, const Task& task, RowRange rows, const CancelFlag* cancel) const {
    const auto lowered = LowerInPlace(task);
    if (!lowered.ok()) return lowered.status();
    if (absl::Status status = (*lowered)->CheckRows(rows); !status.ok()) return status;
    const auto device =
        std::find_if(devices_.begin(), devices_.end(), [&](const auto& each) { return each->info().id == id; });
    bool began = false;
    return RunOnDevice(**device, **lowered, rows, MovedBytesPerRow(task) * (rows.end - rows.begin), cancel, &began);
  }

  // Work that has had no effect for lack of memory can be done elsewhere.
  bool MayMoveToCpu(const absl::Status& status, bool began) const {
    return IsOutOfMemory(status) && !began && options_.cpu_when_out_of_memory;
  }

  // Tasks that go to a device together.
  struct Group {
    std::vector<std::unique_ptr<Lowered>> parts;
    std::vector<int64_t> rows;
    std::vector<size_t> tasks;  // their numbers
    int64_t bytes = 0;
  };

  // Takes the task into the group, or runs it at once: where it is the CPU's, or large enough by itself.
  absl::Status AddTo(Group* group, size_t number, const Task& task, int64_t rows, const CancelFlag* cancel) const {
    if (rows <= 0) return absl::OkStatus();
    if (DeviceOf(task)) return Run(task, {0, rows}, cancel);
    auto lowered = Lower(task);
    if (!lowered.ok()) {
      if (!absl::IsUnimplemented(lowered.status())) return lowered.status();
      return RunOnCpu(ReasonOf(lowered.status()), task, {0, rows}, cancel);
    }
    if (absl::Status status = (*lowered)->CheckRows({0, rows}); !status.ok()) return status;
    const int64_t bytes = BytesOf(**lowered, {0, rows});
    if (bytes > kLargestInGroup) return Run(task, {0, rows}, cancel);
    group->parts.push_back(*std::move(lowered));
    group->rows.push_back(rows);
    group->tasks.push_back(number);
    group->bytes += bytes;
    return absl::OkStatus();
  }

  static int64_t BytesOf(const Lowered& lowered, RowRange rows) {
    int64_t bytes = lowered.bytes_per_row() * (rows.end - rows.begin);
    for (const Constant& constant : lowered.constants()) bytes += constant.id == 0 ? constant.bytes : 0;
    return bytes;
  }

  absl::Status RunOnCpu(CpuReason reason, const Task& task, RowRange rows, const CancelFlag* cancel) const {
    left_to_cpu_[static_cast<size_t>(reason)].fetch_add(1, std::memory_order_relaxed);
    if (cancel != nullptr) cancel->NoteCpu(reason);
    return cpu_->Run(task, rows, cancel);
  }

  // The one with the least to do.
  Device& Choose() const {
    return **std::min_element(devices_.begin(), devices_.end(), [](const auto& a, const auto& b) {
      return a->load().load(std::memory_order_relaxed) < b->load().load(std::memory_order_relaxed);
    });
  }

  absl::Status RunOnDevice(Device& device, const Lowered& lowered, RowRange rows, int64_t bytes, const CancelFlag* cancel,
                           bool* began, int64_t grouped = 0) const {
    device.load().fetch_add(bytes, std::memory_order_relaxed);
    absl::Status status = Attempt(device, lowered, rows, cancel, began, grouped);
    if (IsOutOfMemory(status)) {
      out_of_memory_.fetch_add(1, std::memory_order_relaxed);
      if (!*began) {
        device.ReleaseUnused();
        status = Attempt(device, lowered, rows, cancel, began, grouped);
      }
    }
    device.load().fetch_sub(bytes, std::memory_order_relaxed);
    if (status.ok()) {
      if (cancel != nullptr) cancel->NoteDevice();
      return status;
    }
    if (IsDeviceLost(status)) return health_->Lose(status);
    if (!IsOutOfMemory(status) && !absl::IsCancelled(status)) other_errors_.fetch_add(1, std::memory_order_relaxed);
    return status;
  }

  absl::Status Attempt(Device& device, const Lowered& lowered, RowRange rows, const CancelFlag* cancel, bool* began,
                       int64_t grouped) const {
    auto lane = device.TakeLane();
    if (!lane.ok()) return lane.status();
    DeviceTimes times;
    const absl::Status status = RunPipeline(lowered, rows, cancel, {}, **lane, &times, began);
    device.Add(times, status.ok() ? grouped : 0);
    return status;
  }

  const std::shared_ptr<Driver> driver_;
  const std::unique_ptr<Backend> cpu_;
  const BackendOptions options_;
  const std::string left_out_;
  const std::vector<std::unique_ptr<Device>> devices_;
  const std::shared_ptr<Health> health_;
  const std::shared_ptr<IpcMappings> mappings_;
  const std::shared_ptr<std::atomic<int64_t>> unpinned_ = std::make_shared<std::atomic<int64_t>>(0);
  mutable std::array<std::atomic<int64_t>, kCpuReasons> left_to_cpu_{};
  mutable std::atomic<int64_t> out_of_memory_{0}, other_errors_{0};
};

// Half of what is free, so that whoever else uses the device has room.
absl::StatusOr<int64_t> BudgetOf(Driver& driver, const DeviceInfo& info, const BackendOptions& options) {
  if (!info.unusable.empty()) return absl::UnavailableError(info.unusable);
  if (options.device_bytes > 0) return std::min(options.device_bytes, info.total_bytes);
  auto free = driver.FreeBytes(info.id);
  if (!free.ok()) return free.status();
  return *free / 2;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Backend>> MakeCudaBackend(std::shared_ptr<Driver> driver, std::unique_ptr<Backend> cpu,
                                                         const BackendOptions& options, std::string left_out) {
  auto found = driver->Devices();
  if (!found.ok()) return found.status();
  for (const int id : options.devices) {
    const bool known = std::any_of(found->begin(), found->end(), [&](const DeviceInfo& info) { return info.id == id; });
    if (!known) {
      return absl::InvalidArgumentError(absl::StrCat("device: given ", id, "; allowed: 0 … ", found->size() - 1));
    }
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (const DeviceInfo& info : *found) {
    if (!options.devices.empty() &&
        std::find(options.devices.begin(), options.devices.end(), info.id) == options.devices.end()) {
      continue;
    }
    const auto budget = BudgetOf(*driver, info, options);
    if (budget.ok()) {
      devices.push_back(std::make_unique<Device>(driver.get(), info, *budget));
    } else {
      absl::StrAppend(&left_out, left_out.empty() ? "" : "; ", NameOf(info), ": ", budget.status().message());
    }
  }
  if (devices.empty()) return absl::UnavailableError(left_out);
  return std::make_unique<CudaBackend>(std::move(driver), std::move(cpu), options, std::move(devices), std::move(left_out));
}

}  // namespace phasor::cuda
