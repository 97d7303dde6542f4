// Memory shared with a server on this host: what calls work on in place, and tables that the server shares.
#ifndef PHASOR_CLIENT_SHARED_MEMORY_H_
#define PHASOR_CLIENT_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "phasor/v1/tensor.pb.h"

#include "client/phasor_client.h"

namespace phasor::client {

// A region of the server's, mapped into this process. Functions are thread-safe; what is written to the bytes while a call
// works on them is the caller's matter.
class RegionMapping {
 public:
  // Opens and maps what the server answered with; a read-only region can only be read. NOT_FOUND when it is not there: it
  // was released, or this process may not see the server's (another user, host or PID namespace).
  static absl::StatusOr<std::unique_ptr<RegionMapping>> Map(const v1::SharedRegion& region);
  ~RegionMapping();
  RegionMapping(const RegionMapping&) = delete;
  RegionMapping& operator=(const RegionMapping&) = delete;

  const v1::SharedRegion& region() const { return region_; }
  std::span<std::byte> bytes() const { return bytes_; }
  // The bytes of a tensor of an answer. INVALID_ARGUMENT when the place is not within this region.
  absl::StatusOr<std::span<const std::byte>> At(const v1::SharedMemory& place) const;

 private:
  RegionMapping(v1::SharedRegion region, std::span<std::byte> bytes) : region_(std::move(region)), bytes_(bytes) {}

  const v1::SharedRegion region_;
  const std::span<std::byte> bytes_;
};

// A region of one's own: made and mapped here, unmapped and released at the end (an error of that last call is lost; the
// server releases what nobody uses). `client` must outlive it.
class SharedMemory {
 public:
  // Zeros, at least `size_bytes` ≥ 1 of them, rounded up to whole pages. Errors: the server's, and those of Map.
  static absl::StatusOr<std::unique_ptr<SharedMemory>> Create(Client* client, int64_t size_bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  const std::string& name() const { return mapping_->region().region(); }
  std::span<std::byte> bytes() const { return mapping_->bytes(); }
  // For Tensor.shared_memory, ApplyItem.outputs and PrecomputeItem.output. `offset`: a multiple of 64.
  v1::SharedMemory Place(int64_t offset, int64_t size) const;
  // Counts as a use: any call that names the region does as well.
  absl::Status Renew();

 private:
  SharedMemory(Client* client, std::unique_ptr<RegionMapping> mapping) : client_(client), mapping_(std::move(mapping)) {}

  Client* const client_;
  const std::unique_ptr<RegionMapping> mapping_;
};

}  // namespace phasor::client

#endif  // PHASOR_CLIENT_SHARED_MEMORY_H_
