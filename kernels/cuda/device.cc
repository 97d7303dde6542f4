#include "kernels/cuda/device.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace phasor::cuda {

Device::~Device() { free_.clear(); }

absl::StatusOr<Device::LaneLease> Device::TakeLane() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (!free_.empty()) {
      std::unique_ptr<Lane> lane = std::move(free_.back());
      free_.pop_back();
      return LaneLease(this, std::move(lane));
    }
    if (lanes_ < kMaxLanes) break;
    given_back_.wait(lock);
  }
  ++lanes_;
  lock.unlock();
  auto lane = Lane::Create(driver_, &memory_, info_.id);
  if (lane.ok()) return LaneLease(this, *std::move(lane));
  lock.lock();
  --lanes_;
  given_back_.notify_one();
  return lane.status();
}

void Device::GiveBack(std::unique_ptr<Lane> lane) {
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(lane));
  given_back_.notify_one();
}

void Device::ReleaseUnused() {
  std::vector<std::unique_ptr<Lane>> lanes;
  {
    const std::lock_guard lock(mutex_);
    lanes.swap(free_);
    lanes_ -= static_cast<int>(lanes.size());
  }
  lanes.clear();
  given_back_.notify_all();
  memory_.ReleaseUnused();
}

void Device::Add(const DeviceTimes& times, int64_t grouped_tasks) {
  const std::lock_guard lock(mutex_);
  times_.copy_in += times.copy_in;
  times_.kernel += times.kernel;
  times_.copy_out += times.copy_out;
  times_.launches += times.launches;
  times_.bytes_in += times.bytes_in;
  times_.bytes_out += times.bytes_out;
  if (grouped_tasks > 0) {
    grouped_launches_ += times.launches;
    grouped_tasks_ += grouped_tasks;
  }
}

DeviceStats Device::stats(absl::Status* error) {
  DeviceStats stats;
  stats.id = info_.id;
  stats.name = info_.name;
  stats.compute_capability = absl::StrCat(info_.major, ".", info_.minor);
  stats.uuid = info_.uuid;
  stats.total_bytes = info_.total_bytes;
  const auto free = driver_->FreeBytes(info_.id);
  *error = free.status();
  stats.free_bytes = free.value_or(0);
  const DeviceMemory::Stats memory = memory_.stats();
  stats.used_bytes = memory.used_bytes;
  stats.kept_bytes = memory.kept_bytes;
  stats.budget_bytes = memory.budget_bytes;
  stats.table_bytes = memory.table_bytes;
  stats.tables = memory.tables;
  stats.table_hits = memory.table_hits;
  stats.table_uploads = memory.table_uploads;
  stats.table_evictions = memory.table_evictions;
  const std::lock_guard lock(mutex_);
  stats.copy_in_seconds = times_.copy_in;
  stats.kernel_seconds = times_.kernel;
  stats.copy_out_seconds = times_.copy_out;
  stats.bytes_in = times_.bytes_in;
  stats.bytes_out = times_.bytes_out;
  stats.launches = times_.launches;
  stats.grouped_launches = grouped_launches_;
  stats.grouped_tasks = grouped_tasks_;
  return stats;
}

}  // namespace phasor::cuda
