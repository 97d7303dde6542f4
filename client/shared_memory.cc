#include "client/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace phasor::client {
namespace {

// What the descriptor leads to, as the kernel names it.
std::string TargetOf(int fd) {
  std::array<char, 256> text;
  const ssize_t length = readlink(absl::StrCat("/proc/self/fd/", fd).c_str(), text.data(), text.size());
  return length > 0 ? std::string(text.data(), static_cast<size_t>(length)) : std::string();
}

absl::Status NotThere(const v1::SharedRegion& region, const std::string& why) {
  return absl::NotFoundError(
      absl::StrCat("region ", region.region(), " cannot be mapped: ", why,
                   " (it was released, or the server runs as another user or in another PID namespace)"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<RegionMapping>> RegionMapping::Map(const v1::SharedRegion& region) {
  const int fd = open(region.path().c_str(), (region.read_only() ? O_RDONLY : O_RDWR) | O_CLOEXEC);
  if (fd < 0) return NotThere(region, absl::StrCat(region.path(), ": ", std::strerror(errno)));
  // The number may have been given to something else since.
  struct stat found{};
  if (TargetOf(fd) != absl::StrCat("/memfd:phasor-", region.region(), " (deleted)") || fstat(fd, &found) != 0 ||
      found.st_size != region.size_bytes()) {
    close(fd);
    return NotThere(region, absl::StrCat(region.path(), " is something else"));
  }
  const auto size = static_cast<size_t>(region.size_bytes());
  void* data = mmap(nullptr, size, region.read_only() ? PROT_READ : PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  const int error = errno;
  close(fd);
  if (data == MAP_FAILED) return NotThere(region, std::strerror(error));
  return std::unique_ptr<RegionMapping>(new RegionMapping(region, {static_cast<std::byte*>(data), size}));
}

RegionMapping::~RegionMapping() { munmap(bytes_.data(), bytes_.size()); }

absl::StatusOr<std::span<const std::byte>> RegionMapping::At(const v1::SharedMemory& place) const {
  if (place.region() != region_.region() || place.offset_bytes() > bytes_.size() ||
      place.size_bytes() > bytes_.size() - place.offset_bytes()) {
    return absl::InvalidArgumentError("the place is not within the region");
  }
  return std::span<const std::byte>(bytes_).subspan(place.offset_bytes(), place.size_bytes());
}

absl::StatusOr<std::unique_ptr<SharedMemory>> SharedMemory::Create(Client* client, int64_t size_bytes) {
  v1::CreateRegionRequest request;
  request.set_size_bytes(size_bytes);
  const auto made = client->CreateRegion(request);
  if (!made.ok()) return made.status();
  auto mapping = RegionMapping::Map(made->region());
  if (!mapping.ok()) {
    v1::ReleaseRegionRequest release;
    release.set_region(made->region().region());
    client->ReleaseRegion(release).IgnoreError();
    return mapping.status();
  }
  return std::unique_ptr<SharedMemory>(new SharedMemory(client, *std::move(mapping)));
}

SharedMemory::~SharedMemory() {
  v1::ReleaseRegionRequest request;
  request.set_region(name());
  client_->ReleaseRegion(request).IgnoreError();
}

v1::SharedMemory SharedMemory::Place(int64_t offset, int64_t size) const {
  v1::SharedMemory place;
  place.set_region(name());
  place.set_offset_bytes(static_cast<uint64_t>(offset));
  place.set_size_bytes(static_cast<uint64_t>(size));
  return place;
}

absl::Status SharedMemory::Renew() {
  v1::RenewRegionRequest request;
  request.set_region(name());
  return client_->RenewRegion(request).status();
}

}  // namespace phasor::client
