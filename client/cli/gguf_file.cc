#include "client/cli/gguf_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <functional>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "client/cli/text.h"
#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "server/resolve/gguf_model.h"

namespace phasor::cli {
namespace {

constexpr std::string_view kMagic = "GGUF";
constexpr uint64_t kFirstRead = 1 << 20;  // the head of a model with a small vocabulary
constexpr uint64_t kLongestHead = uint64_t{1} << 30;
constexpr uint64_t kMostValues = 65536;  // of one tensor: the server takes no more

// `size` bytes at `offset`, fewer at the end of the file.
using ReadAt = std::function<absl::StatusOr<std::string>(uint64_t offset, uint64_t size)>;

// Closes at the end of its life.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

absl::Status Unreadable(std::string_view path) {
  return absl::Status(errno == ENOENT ? absl::StatusCode::kNotFound : absl::StatusCode::kFailedPrecondition,
                      absl::StrCat("cannot read '", View(path), "': ", std::strerror(errno)));
}

absl::StatusOr<std::string> ReadDescriptor(int fd, std::string_view path, uint64_t offset, uint64_t size) {
  std::string bytes(size, '\0');
  uint64_t done = 0;
  while (done < size) {
    const ssize_t got = pread(fd, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return Unreadable(path);
    if (got == 0) break;
    done += static_cast<uint64_t>(got);
  }
  bytes.resize(done);
  return bytes;
}

absl::Status Refused(std::string_view name, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(View(name), ": ", View(why)));
}

// ggml's numbers of the types that a table of factors may have.
std::optional<DType> FloatType(uint32_t type) {
  switch (type) {
    case 0:
      return DType::kF32;
    case 1:
      return DType::kF16;
    case 30:
      return DType::kBF16;
    default:
      return std::nullopt;
  }
}

absl::Status AddTensor(const server::GgufHead& head, const server::GgufTensorInfo& info, const ReadAt& read_at,
                       std::string_view name, v1::GgufHeader& out) {
  const std::string shown = server::GgufPrintable(info.name);
  const auto dtype = FloatType(info.type);
  if (!dtype) {
    return Refused(name, absl::StrCat(shown, ": given type ", info.type, "; allowed: 0 (f32), 1 (f16), 30 (bf16)"));
  }
  if (info.elements > kMostValues) {
    return Refused(name, absl::StrCat(shown, ": given ", info.elements, " values; allowed: at most ", kMostValues));
  }
  const uint64_t width = static_cast<uint64_t>(SizeOf(*dtype));
  if (info.offset > INT64_MAX - head.data_offset) return Refused(name, absl::StrCat(shown, ": beyond the end of the file"));
  absl::StatusOr<std::string> bytes = read_at(head.data_offset + info.offset, info.elements * width);
  if (!bytes.ok()) return bytes.status();
  if (bytes->size() != info.elements * width) return Refused(name, absl::StrCat(shown, ": beyond the end of the file"));
  std::vector<float> values(info.elements);
  VisitFloat(*dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, bytes->data() + i * sizeof(T), sizeof(T));
      values[i] = static_cast<float>(Widen<double>(value));  // exact: float32 or narrower
    }
  });
  v1::GgufTensor* tensor = out.add_tensors();
  tensor->set_name(std::string(info.name));
  tensor->set_data(std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)));
  return absl::OkStatus();
}

absl::StatusOr<v1::GgufHeader> Read(const ReadAt& read_at, std::string_view name) {
  std::string bytes;
  for (uint64_t size = kFirstRead;; size *= 4) {
    absl::StatusOr<std::string> more = read_at(bytes.size(), size - bytes.size());
    if (!more.ok()) return more.status();
    const bool end = more->size() < size - bytes.size();
    bytes += *more;
    bool truncated = false;
    const auto head = server::ParseGgufHead(bytes, &truncated);
    if (!head.ok() && truncated && !end && size < kLongestHead) continue;
    if (!head.ok()) return Refused(name, std::string(head.status().message()));
    v1::GgufHeader out;
    out.set_header(server::CompactGgufHead(*head));
    for (const server::GgufTensorInfo& info : head->tensors) {
      if (!server::GgufDecidesPositions(info.name)) continue;
      if (absl::Status status = AddTensor(*head, info, read_at, name, out); !status.ok()) return status;
    }
    return out;
  }
}

}  // namespace

bool IsGgufFile(const std::string& path) {
  if (absl::EndsWith(path, ".gguf")) return true;
  struct stat about{};
  if (path == "-" || stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return false;
  const Descriptor file(path);
  if (file.get() < 0) return false;
  const auto first = ReadDescriptor(file.get(), path, 0, kMagic.size());
  return first.ok() && *first == kMagic;
}

absl::StatusOr<v1::GgufHeader> ReadGgufFile(const std::string& path) {
  const Descriptor file(path);
  if (file.get() < 0) return Unreadable(path);
  return Read([&](uint64_t offset, uint64_t size) { return ReadDescriptor(file.get(), path, offset, size); }, path);
}

absl::StatusOr<v1::GgufHeader> ReadGgufBytes(std::string_view bytes, std::string_view name) {
  return Read(
      [&](uint64_t offset, uint64_t size) -> absl::StatusOr<std::string> {
        const uint64_t start = std::min<uint64_t>(offset, bytes.size());
        return std::string(bytes.substr(start, size));
      },
      name);
}

}  // namespace phasor::cli
