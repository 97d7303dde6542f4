#include "server/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "server/device_store.h"

namespace phasor::server {
namespace {

// Newer than the headers of Debian 12.
constexpr unsigned kNoExec = 0x8;         // MFD_NOEXEC_SEAL, Linux 6.3
constexpr int kSealFutureWrite = 0x0010;  // F_SEAL_FUTURE_WRITE, Linux 5.1

absl::StatusOr<std::string> RandomName() {
  std::array<char, 16> bits;
  if (getrandom(bits.data(), bits.size(), 0) != static_cast<ssize_t>(bits.size())) {
    return absl::InternalError("the system gives no random bits");
  }
  return absl::BytesToHexString(absl::string_view(bits.data(), bits.size()));
}

absl::Status Failed(const char* what, int error) {
  if (error == ENOMEM || error == ENOSPC || error == EMFILE || error == ENFILE || error == EDQUOT) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory to share (", what, ": ", std::strerror(error), ")"));
  }
  return absl::InternalError(absl::StrCat("memory cannot be shared (", what, ": ", std::strerror(error), ")"));
}

int OpenMemory(const std::string& name) {
  const std::string label = absl::StrCat("phasor-", name);
  const int fd = memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExec);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create(label.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

// A number behind `name` (or the first one, where there is no name) in a file of the kernel's; nothing where there is none.
std::optional<int64_t> NumberIn(const char* path, const std::string& name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    if (!name.empty() && word != name) continue;
    int64_t number = 0;
    if (name.empty() ? absl::SimpleAtoi(word, &number) : static_cast<bool>(file >> number)) return number;
    return std::nullopt;
  }
  return std::nullopt;
}

// What could still be allocated, as far as the system says. Without looking, fallocate would take page after page until the
// kernel ends some process, whichever.
int64_t AvailableBytes() {
  int64_t available = std::numeric_limits<int64_t>::max();
  if (const auto kib = NumberIn("/proc/meminfo", "MemAvailable:")) available = *kib * 1024;
  const auto most = NumberIn("/sys/fs/cgroup/memory.max", ""), now = NumberIn("/sys/fs/cgroup/memory.current", "");
  if (most && now) available = std::min(available, *most - *now);
  return available / 8 * 7;
}

// Gives the file its size, all of its pages, and the seals that keep both.
absl::Status Prepare(int fd, int64_t size) {
  if (fchmod(fd, 0600) != 0) return Failed("fchmod", errno);
  int error = EINTR;
  while (error == EINTR) error = posix_fallocate(fd, 0, size);
  if (error != 0) return Failed("fallocate", error);
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return Failed("seal", errno);
  return absl::OkStatus();
}

}  // namespace

int64_t Region::Rounded(int64_t size) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  if (size < 1 || size > std::numeric_limits<int64_t>::max() - page) return 0;
  return (size + page - 1) / page * page;
}

absl::StatusOr<std::shared_ptr<Region>> Region::Make(RegionKind kind, int64_t size) {
  const int64_t rounded = Rounded(size);
  if (rounded == 0 || rounded > AvailableBytes()) return Failed("size", ENOMEM);
  absl::StatusOr<std::string> name = RandomName();
  if (!name.ok()) return name.status();
  const int fd = OpenMemory(*name);
  if (fd < 0) return Failed("memfd_create", errno);
  absl::Status status = Prepare(fd, rounded);
  // A writable region gets no more seals, and nobody may add any that would keep a client from mapping it.
  if (status.ok() && kind == RegionKind::kWritable && fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL) != 0) {
    status = Failed("seal", errno);
  }
  void* data = MAP_FAILED;
  if (status.ok()) {
    data = mmap(nullptr, static_cast<size_t>(rounded), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
    if (data == MAP_FAILED) status = Failed("mmap", errno);
  }
  if (!status.ok()) {
    close(fd);
    return status;
  }
  return std::shared_ptr<Region>(new Region(kind, *std::move(name), fd, static_cast<std::byte*>(data), rounded));
}

Region::Region(RegionKind kind, std::string name, int fd, std::byte* data, int64_t size)
    : kind_(kind),
      name_(std::move(name)),
      path_(absl::StrCat("/proc/", getpid(), "/fd/", fd)),
      fd_(fd),
      data_(data),
      size_(size) {}

Region::~Region() {
  if (kind_ == RegionKind::kWritable) madvise(data_, static_cast<size_t>(size_), MADV_REMOVE);
  munmap(data_, static_cast<size_t>(size_));
  Unname();
}

absl::Status Region::Seal() {
  if (fcntl(fd_, F_ADD_SEALS, kSealFutureWrite | F_SEAL_SEAL) != 0) return Failed("seal", errno);
  return absl::OkStatus();
}

void Region::Unname() {
  if (fd_ >= 0) close(std::exchange(fd_, -1));
}

std::byte* SharedPlace::data() const { return (region != nullptr ? region->data() : allocation->data()) + offset; }

std::shared_ptr<const void> SharedPlace::owner() const {
  if (region != nullptr) return region;
  return allocation;
}

}  // namespace phasor::server
