#include "server/device_access.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "server/device_store.h"
#include "server/grpc_status.h"

namespace phasor::server {
namespace {

// As of shared memory; the kernels' vectors need 16.
constexpr uint64_t kAlignment = 64;

std::string At(std::string_view path, std::string_view field) {
  std::string text(path);
  return text.append(".").append(field);
}

// What can be said without asking the device.
absl::Status CheckForm(const v1::DeviceMemory& message, std::string_view path, const std::vector<int>& devices) {
  if (message.handle().size() != kDeviceHandleBytes) {
    return InvalidField(At(path, "handle"), absl::StrCat(message.handle().size(), " bytes"),
                        absl::StrCat(kDeviceHandleBytes, " bytes, as cudaIpcGetMemHandle gives them"));
  }
  const bool known =
      std::any_of(devices.begin(), devices.end(), [&](int id) { return static_cast<uint32_t>(id) == message.device(); });
  if (!known) {
    return InvalidField(At(path, "device"), absl::StrCat(message.device()),
                        absl::StrCat("a device of the server: ", absl::StrJoin(devices, ", ")));
  }
  if (message.offset_bytes() % kAlignment != 0) {
    return InvalidField(At(path, "offset_bytes"), absl::StrCat(message.offset_bytes()),
                        absl::StrCat("a multiple of ", kAlignment));
  }
  if (message.size_bytes() < 1) return InvalidField(At(path, "size_bytes"), "0", "at least 1");
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<SharedPlace> ParseDevicePlace(const v1::DeviceMemory& message, std::string_view path,
                                             const RegionAccess* access) {
  if (access == nullptr || access->devices == nullptr) return DeviceMemoryOff(path, "not in this call");
  DeviceStore& store = *access->devices;
  if (!store.on()) return DeviceMemoryOff(path, store.why_off());
  if (!access->is_local) return NotLocal(path, "device memory");
  if (absl::Status status = CheckForm(message, path, store.devices()); !status.ok()) return status;
  auto opened = store.Open(access->owner, static_cast<int>(message.device()), message.handle());
  if (absl::IsUnimplemented(opened.status())) {
    return DeviceMemoryOff(path,
                           absl::StrCat("the driver does not tell how large the allocation is, so that no range could be "
                                        "checked against it: ",
                                        opened.status().message()));
  }
  if (absl::IsInvalidArgument(opened.status())) {
    return InvalidField(At(path, "handle"), absl::StrCat("a handle that does not open: ", opened.status().message()),
                        absl::StrCat("one of memory that another process on this host has, of device ", message.device(),
                                     ", by cudaMalloc and cudaIpcGetMemHandle"));
  }
  if (!opened.ok()) return opened.status();
  const auto whole = static_cast<uint64_t>((*opened)->size());
  const uint64_t offset = message.offset_bytes(), size = message.size_bytes();
  if (offset >= whole) {
    return InvalidField(At(path, "offset_bytes"), absl::StrCat(offset),
                        absl::StrCat("below ", whole, ", the size of the allocation"));
  }
  if (size > whole - offset) {
    return InvalidField(At(path, "size_bytes"), absl::StrCat(size),
                        absl::StrCat("1 … ", whole - offset, ", what the allocation has from offset_bytes on"));
  }
  return SharedPlace{nullptr, static_cast<int64_t>(offset), static_cast<int64_t>(size), *std::move(opened)};
}

void Write(const DeviceAllocation& allocation, int64_t offset, int64_t size, v1::DeviceMemory* out) {
  out->set_handle(allocation.handle());
  out->set_device(static_cast<uint32_t>(allocation.device()));
  out->set_offset_bytes(static_cast<uint64_t>(offset));
  out->set_size_bytes(static_cast<uint64_t>(size));
}

}  // namespace phasor::server
