// Memory that other processes of this user may open and map as well.
#ifndef PHASOR_SERVER_REGION_H_
#define PHASOR_SERVER_REGION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace phasor::server {

// What a region is for.
enum class RegionKind : uint8_t {
  kWritable,  // clients read and write it
  kReadOnly,  // the server fills it, then seals it: clients read it
};

// One region. Its pages are there from the start, so that neither a full file system nor a client can take them away: the
// file has no name in any folder (memfd_create) and is sealed against shrinking, which would end the server with SIGBUS.
// Clients open it as /proc/PID/fd/N, which the kernel lets processes of the same user do. Held by everyone who works on it;
// functions but Unname are thread-safe.
class Region {
 public:
  // `size` ≥ 1, rounded up to whole pages. The name is 128 random bits in hexadecimal. Errors: RESOURCE_EXHAUSTED when the
  // system has no descriptors or not the memory (asked for before any is taken), INTERNAL when it cannot share memory.
  static absl::StatusOr<std::shared_ptr<Region>> Make(RegionKind kind, int64_t size);
  // Gives the pages of a writable region back, whoever still maps them. Those of a read-only one live as long as mappings.
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  // What Make will round `size` to; 0 where that does not fit in 63 bits.
  static int64_t Rounded(int64_t size);

  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  std::byte* data() const { return data_; }
  int64_t size() const { return size_; }
  bool read_only() const { return kind_ == RegionKind::kReadOnly; }

  // Of a read-only region, once it is filled: nobody but this process can write to it from now on.
  absl::Status Seal();
  // No path leads to it any more. Not at the same time as Seal or itself.
  void Unname();

 private:
  Region(RegionKind kind, std::string name, int fd, std::byte* data, int64_t size);

  const RegionKind kind_;
  const std::string name_;
  const std::string path_;
  int fd_;  // −1: without a path
  std::byte* const data_;
  const int64_t size_;
};

class DeviceAllocation;

// Bytes [offset, offset + size) of a region, or of another process's memory on a device; it holds the one or the other.
struct SharedPlace {
  std::shared_ptr<Region> region;
  int64_t offset = 0;
  int64_t size = 0;
  std::shared_ptr<const DeviceAllocation> allocation = nullptr;

  explicit operator bool() const { return region != nullptr || allocation != nullptr; }  // false: no place
  std::byte* data() const;  // on a device: nothing that the host can read or write
  std::shared_ptr<const void> owner() const;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_REGION_H_
