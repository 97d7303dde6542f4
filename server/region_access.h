// Places in shared memory as requests name them.
#ifndef PHASOR_SERVER_REGION_ACCESS_H_
#define PHASOR_SERVER_REGION_ACCESS_H_

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/position_service.pb.h"
#include "phasor/v1/tensor.pb.h"

#include "server/region_store.h"
#include "server/request.h"

namespace phasor::server {

class DeviceStore;

// Who calls, as far as shared memory and memory of devices go.
struct RegionAccess {
  RegionStore* store = nullptr;    // null: no memory is shared
  DeviceStore* devices = nullptr;  // null: nor any of devices
  bool is_local = false;           // the caller is on this host
  std::string owner;               // for the store
};

// `peer` as gRPC spells it: "unix:", "ipv4:127.0.0.1:50000", "ipv6:%5B::1%5D:50000". Everybody at a Unix socket is one
// owner, at loopback another, inside the process a third; anybody else is not local.
RegionAccess RegionAccessOf(RegionStore* store, std::string_view peer, DeviceStore* devices = nullptr);

// OK when the caller may use shared memory at all; SharedMemoryOff or NotLocal at `field`.
absl::Status CheckAccess(std::string_view field, const RegionAccess* access);

enum class PlaceUse : uint8_t { kRead, kWrite };

// The range, which lies within a region of the caller's. `access`: null means that no memory is shared. Errors below `path`:
// as CheckAccess, INVALID_ARGUMENT, RegionNotFound.
absl::StatusOr<SharedPlace> ParsePlace(const v1::SharedMemory& message, std::string_view path, PlaceUse use,
                                       const RegionAccess* access);

// Where the result of a valid item goes: item->place or item->shared.
absl::Status ParsePlacement(const v1::PrecomputeItem& message, const RegionAccess* access, PrecomputeItem* item);
// item->places, those of tensors on devices among them.
absl::Status ParsePlacement(const v1::ApplyItem& message, const RegionAccess* access, ApplyItem* item);

// OK when nothing that a call writes in shared memory overlaps what it reads or writes elsewhere. INVALID_ARGUMENT
// otherwise, naming two ranges.
absl::Status CheckOverlaps(const Batch<PrecomputeItem>& items);
absl::Status CheckOverlaps(const Batch<ApplyItem>& items);
inline absl::Status CheckOverlaps(const Batch<ScoresItem>&) { return absl::OkStatus(); }

// For answers.
void Write(const Region& region, std::chrono::milliseconds lease, v1::SharedRegion* out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_REGION_ACCESS_H_
