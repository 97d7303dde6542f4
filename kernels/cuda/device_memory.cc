#include "kernels/cuda/device_memory.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace phasor::cuda {
namespace {

constexpr int64_t kEverything = std::numeric_limits<int64_t>::max();

}  // namespace

DeviceBuffer::~DeviceBuffer() {
  if (data_ != nullptr) memory_->Return(data_, size_);
}

DeviceBuffer& DeviceBuffer::operator=(DeviceBuffer&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

DeviceMemory::DeviceMemory(Driver* driver, int device, int64_t budget_bytes)
    : driver_(driver), device_(device), budget_(budget_bytes) {
  stats_.budget_bytes = budget_bytes;
}

DeviceMemory::~DeviceMemory() { ReleaseUnused(); }

absl::StatusOr<DeviceBuffer> DeviceMemory::Allocate(int64_t bytes) {
  for (bool tried = false;; tried = true) {
    std::unique_lock lock(mutex_);
    if (const auto kept = kept_.find(bytes); kept != kept_.end()) {
      std::byte* const data = kept->second.back();
      kept->second.pop_back();
      if (kept->second.empty()) kept_.erase(kept);
      stats_.kept_bytes -= bytes;
      stats_.used_bytes += bytes;
      return DeviceBuffer(this, data, bytes);
    }
    const int64_t short_of = stats_.used_bytes + stats_.kept_bytes - (budget_ - bytes);
    if (short_of <= 0) {
      stats_.used_bytes += bytes;
      break;
    }
    if (tried || bytes > budget_) {
      return absl::ResourceExhaustedError(absl::StrCat("device ", device_, ": ", bytes, " bytes beside ", stats_.used_bytes,
                                                       " in use are more than the budget of ", budget_));
    }
    lock.unlock();
    Release(short_of);
  }
  auto data = driver_->Allocate(device_, bytes);
  // The budget may be more than others on this device have left.
  if (!data.ok() && IsOutOfMemory(data.status()) && ReleaseUnused() > 0) data = driver_->Allocate(device_, bytes);
  if (data.ok()) return DeviceBuffer(this, *data, bytes);
  const std::lock_guard lock(mutex_);
  stats_.used_bytes -= bytes;
  return data.status();
}

void DeviceMemory::Return(std::byte* data, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  kept_[bytes].push_back(data);
  stats_.used_bytes -= bytes;
  stats_.kept_bytes += bytes;
}

DeviceMemory::Blocks DeviceMemory::TakeKept(int64_t bytes) {
  Blocks taken;
  for (int64_t sum = 0; sum < bytes && !kept_.empty();) {
    const auto largest = std::prev(kept_.end());
    const int64_t size = largest->first;
    taken.emplace_back(largest->second.back(), size);
    largest->second.pop_back();
    if (largest->second.empty()) kept_.erase(largest);
    stats_.kept_bytes -= size;
    sum += size;
  }
  return taken;
}

std::vector<std::shared_ptr<DeviceMemory::Table>> DeviceMemory::TakeTables(int64_t bytes) {
  std::vector<std::shared_ptr<Table>> taken;
  int64_t sum = 0;
  for (auto id = order_.end(); id != order_.begin() && sum < bytes;) {
    --id;
    const auto entry = tables_.find(*id);
    // Handles are made under the lock, so that one is all there is.
    if (!entry->second.table->ready_ || entry->second.table.use_count() > 1) continue;
    sum += entry->second.table->size();
    stats_.table_bytes -= entry->second.table->size();
    --stats_.tables;
    ++stats_.table_evictions;
    taken.push_back(std::move(entry->second.table));
    tables_.erase(entry);
    id = order_.erase(id);
  }
  return taken;
}

int64_t DeviceMemory::Release(int64_t bytes) {
  int64_t released = 0;
  const auto release_kept = [&] {
    Blocks blocks;
    {
      const std::lock_guard lock(mutex_);
      blocks = TakeKept(bytes - released);
    }
    for (const auto& [data, size] : blocks) {
      driver_->Free(device_, data);
      released += size;
    }
  };
  release_kept();
  if (released >= bytes) return released;
  std::vector<std::shared_ptr<Table>> tables;
  {
    const std::lock_guard lock(mutex_);
    tables = TakeTables(bytes - released);
  }
  tables.clear();  // their blocks are kept ones now
  release_kept();
  return released;
}

int64_t DeviceMemory::ReleaseUnused() { return Release(kEverything); }

absl::StatusOr<DeviceMemory::TableHandle> DeviceMemory::FindOrUpload(
    const Constant& constant, const std::function<absl::Status(std::byte* to)>& upload) {
  std::shared_ptr<Table> table;
  {
    std::unique_lock lock(mutex_);
    if (const auto found = tables_.find(constant.id); found != tables_.end()) {
      table = found->second.table;
      order_.splice(order_.begin(), order_, found->second.used);
      uploaded_.wait(lock, [&] { return table->ready_; });
      if (!table->status_.ok()) return table->status_;
      ++stats_.table_hits;
      return table;
    }
    table = std::make_shared<Table>();
    order_.push_front(constant.id);
    tables_[constant.id] = {table, order_.begin()};
    ++stats_.tables;
  }
  auto buffer = Allocate(constant.bytes);
  absl::Status status = buffer.status();
  if (status.ok()) status = upload(buffer->data());
  const std::lock_guard lock(mutex_);
  table->status_ = status;
  table->ready_ = true;
  if (status.ok()) {
    table->buffer_ = *std::move(buffer);
    stats_.table_bytes += constant.bytes;
    ++stats_.table_uploads;
  } else {
    const auto entry = tables_.find(constant.id);
    order_.erase(entry->second.used);
    tables_.erase(entry);
    --stats_.tables;
  }
  uploaded_.notify_all();
  if (!status.ok()) return status;
  return table;
}

DeviceMemory::Stats DeviceMemory::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace phasor::cuda
