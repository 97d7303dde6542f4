#include "kernels/cuda/ipc_mappings.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace phasor::cuda {
namespace {

uintptr_t AddressOf(const void* at) { return reinterpret_cast<uintptr_t>(at); }

}  // namespace

absl::StatusOr<DeviceMapping> IpcMappings::Open(int device, std::string_view handle) const {
  if (handle.size() != kDeviceHandleBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a handle of ", handle.size(), " bytes"));
  }
  if (std::find(devices_.begin(), devices_.end(), device) == devices_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("device ", device, " is not used"));
  }
  auto opened = driver_->OpenIpc(device, handle);
  if (!opened.ok()) return IsDeviceLost(opened.status()) ? on_lost_(opened.status()) : opened.status();
  const uintptr_t begin = AddressOf(opened->data);
  absl::Status status;
  {
    const std::lock_guard lock(mutex_);
    Range& range = ranges_[begin];
    if (range.opened == 0) range.device = device;
    range.end = std::max(range.end, begin + static_cast<uintptr_t>(opened->size));
    if (range.device != device) status = absl::InvalidArgumentError(absl::StrCat("memory of device ", range.device));
    if (status.ok()) ++range.opened;
  }
  if (!status.ok()) {
    driver_->CloseIpc(device, opened->data);
    return status;
  }
  count_.fetch_add(1, std::memory_order_relaxed);
  return opened;
}

void IpcMappings::Close(int device, std::byte* data) const {
  {
    const std::lock_guard lock(mutex_);
    const auto found = ranges_.find(AddressOf(data));
    if (found == ranges_.end()) return;
    if (--found->second.opened == 0) ranges_.erase(found);
  }
  count_.fetch_sub(1, std::memory_order_relaxed);
  driver_->CloseIpc(device, data);
}

std::optional<int> IpcMappings::DeviceOf(const void* address) const {
  // Who has a mapping open, and asks, has seen the count go up.
  if (address == nullptr || count() == 0) return std::nullopt;
  const uintptr_t at = AddressOf(address);
  const std::lock_guard lock(mutex_);
  // They may overlap: handles may stand for parts of one allocation.
  for (const auto& [begin, range] : ranges_) {
    if (begin <= at && at < range.end) return range.device;
  }
  return std::nullopt;
}

}  // namespace phasor::cuda
