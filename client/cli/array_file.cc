#include "client/cli/array_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"

#include "client/cli/npy.h"
#include "client/cli/safetensors.h"
#include "client/cli/text.h"
#include "client/cli/tool.h"
#include "client/cli/zip.h"
#include "kernels/core/checked_math.h"

namespace phasor::cli {
namespace {

absl::Status SystemError(std::string_view doing, const std::string& path) {
  const int error = errno;
  const std::string text = absl::StrCat("cannot ", View(doing), " '", path, "': ", std::strerror(error));
  return error == ENOENT ? absl::NotFoundError(text) : absl::InvalidArgumentError(text);
}

namespace fs = std::filesystem;

// An array like the others, so that programs that walk over a file's arrays meet nothing else.
constexpr std::string_view kMetadataMember = "phasor_metadata.npy";

}  // namespace

// Where an array's bytes go.
struct ArrayWriter::Member {
  int64_t offset = 0;   // of the first element
  int64_t written = 0;  // bytes so far
  ZipMember zip;        // .npz: header offset, size and running checksum
};

int64_t ArrayInfo::bytes() const { return CheckedElements(shape).value_or(0) * SizeOf(dtype); }

absl::StatusOr<ArrayFormat> FormatOf(std::string_view path, std::string_view format) {
  constexpr std::pair<std::string_view, ArrayFormat> kFormats[] = {
      {"npy", ArrayFormat::kNpy}, {"npz", ArrayFormat::kNpz}, {"safetensors", ArrayFormat::kSafetensors}};
  const size_t dot = path.rfind('.');
  const std::string_view name = !format.empty() ? format : dot == std::string_view::npos ? "" : path.substr(dot + 1);
  for (const auto& [extension, value] : kFormats) {
    if (name == extension) return value;
  }
  if (!format.empty()) {
    return UsageError(absl::StrCat("--format: given '", View(format), "'; allowed: npy, npz, safetensors"));
  }
  return UsageError(absl::StrCat("'", View(path), "' does not say its format; allowed: a name that ends in .npy, .npz or ",
                                 ".safetensors, or --format npy|npz|safetensors"));
}

absl::Status CheckHolds(ArrayFormat format, const std::vector<ArrayInfo>& arrays) {
  if (format == ArrayFormat::kNpy && arrays.size() != 1) {
    return UsageError(absl::StrCat("a .npy file holds one array and there are ", arrays.size(),
                                   "; allowed: .npz or .safetensors, or for a table --form concat"));
  }
  if (format == ArrayFormat::kSafetensors) return absl::OkStatus();
  for (const ArrayInfo& info : arrays) {
    if (const auto header = NpyHeader(info); !header.ok()) return UsageError(std::string(header.status().message()));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ArrayWriter>> ArrayWriter::Create(const std::string& path, ArrayFormat format,
                                                                 std::vector<ArrayInfo> arrays, const Metadata& metadata) {
  if (absl::Status status = CheckHolds(format, arrays); !status.ok()) return status;
  std::unique_ptr<ArrayWriter> writer(new ArrayWriter);
  writer->path_ = path;
  writer->format_ = format;
  writer->arrays_ = std::move(arrays);
  if (absl::Status status = writer->Open(); !status.ok()) return status;
  if (absl::Status status = writer->LayOut(format, metadata); !status.ok()) return status;
  return writer;
}

ArrayWriter::~ArrayWriter() {
  if (fd_ >= 0) close(fd_);
  if (!temporary_.empty()) unlink(temporary_.c_str());
}

absl::Status ArrayWriter::Open() {
  std::error_code error;
  const fs::file_status status = path_ == "-" ? fs::file_status(fs::file_type::character) : fs::status(path_, error);
  std::string folder;
  if (status.type() == fs::file_type::not_found || status.type() == fs::file_type::regular) {
    // Through links, so that what they point to is replaced and not the link; weakly: it need not be there.
    const fs::path target = fs::weakly_canonical(path_, error);
    target_ = error ? path_ : target.string();
    folder = target.has_parent_path() ? target.parent_path().string() : ".";
  } else if (status.type() == fs::file_type::directory) {
    return absl::InvalidArgumentError(absl::StrCat("cannot write '", path_, "': it is a directory"));
  } else {
    folder = fs::temp_directory_path(error).string();
  }
  // Without a name the file vanishes with the process, whatever ends it. Not every file system can do that.
  fd_ = open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
  if (fd_ < 0) {
    temporary_ = absl::StrCat(folder, "/.phasor-XXXXXX");
    fd_ = mkstemp(temporary_.data());
    if (fd_ < 0) {
      temporary_.clear();
      return SystemError("write", path_);
    }
    const mode_t mask = umask(0);
    umask(mask);
    fchmod(fd_, 0666 & ~mask);
  }
  struct stat old;
  if (!target_.empty() && stat(target_.c_str(), &old) == 0) fchmod(fd_, old.st_mode & 07777);
  return absl::OkStatus();
}

absl::Status ArrayWriter::LayOut(ArrayFormat format, const Metadata& metadata) {
  members_.resize(arrays_.size());
  if (format == ArrayFormat::kSafetensors) {
    const std::string header = SafetensorsHeader(arrays_, metadata);
    end_ = static_cast<int64_t>(header.size());
    for (size_t i = 0; i < arrays_.size(); ++i) {
      members_[i].offset = end_;
      end_ += arrays_[i].bytes();
    }
    return WriteAt(0, header.data(), static_cast<int64_t>(header.size()));
  }
  for (size_t i = 0; i < arrays_.size(); ++i) {
    absl::StatusOr<std::string> npy = NpyHeader(arrays_[i]);
    if (!npy.ok()) return npy.status();
    std::string head;
    ZipMember& zip = members_[i].zip;
    if (format == ArrayFormat::kNpz) {
      zip.name = arrays_[i].name + ".npy";
      zip.header_offset = end_;
      zip.size = static_cast<int64_t>(npy->size()) + arrays_[i].bytes();
      zip.crc = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(npy->data()), npy->size()));
      head = ZipLocalHeader(zip);
    }
    head += *npy;
    if (absl::Status status = WriteAt(end_, head.data(), static_cast<int64_t>(head.size())); !status.ok()) return status;
    members_[i].offset = end_ + static_cast<int64_t>(head.size());
    end_ = members_[i].offset + arrays_[i].bytes();
  }
  if (format != ArrayFormat::kNpz || metadata.empty()) return absl::OkStatus();
  // The metadata is one more member, complete from the start.
  const std::string text = NpyBytes(MetadataJson(metadata));
  Member member;
  member.zip.name = kMetadataMember;
  member.zip.header_offset = end_;
  member.zip.size = static_cast<int64_t>(text.size());
  member.zip.crc = static_cast<uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
  const std::string head = ZipLocalHeader(member.zip) + text;
  if (absl::Status status = WriteAt(end_, head.data(), static_cast<int64_t>(head.size())); !status.ok()) return status;
  end_ += static_cast<int64_t>(head.size());
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::Status ArrayWriter::WriteAt(int64_t offset, const void* data, int64_t size) {
  const char* at = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t written = pwrite(fd_, at, static_cast<size_t>(size), offset);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return SystemError("write", path_);
    at += written;
    offset += written;
    size -= written;
  }
  return absl::OkStatus();
}

absl::Status ArrayWriter::Append(size_t index, const void* data, int64_t size) {
  Member& member = members_[index];
  if (size > arrays_[index].bytes() - member.written) {
    return absl::InternalError(absl::StrCat("array '", arrays_[index].name, "' is longer than announced"));
  }
  if (absl::Status status = WriteAt(member.offset + member.written, data, size); !status.ok()) return status;
  if (format_ == ArrayFormat::kNpz) {
    member.zip.crc =
        static_cast<uint32_t>(crc32_z(member.zip.crc, static_cast<const Bytef*>(data), static_cast<size_t>(size)));
  }
  member.written += size;
  return absl::OkStatus();
}

absl::Status ArrayWriter::FinishZip() {
  std::vector<ZipMember> members;
  for (const Member& member : members_) {
    char crc[4];
    for (int i = 0; i < 4; ++i) crc[i] = static_cast<char>(member.zip.crc >> (8 * i));
    if (absl::Status status = WriteAt(member.zip.header_offset + kZipCrcOffset, crc, 4); !status.ok()) return status;
    members.push_back(member.zip);
  }
  const std::string directory = ZipDirectory(members, end_);
  return WriteAt(end_, directory.data(), static_cast<int64_t>(directory.size()));
}

absl::Status ArrayWriter::Finish() {
  for (size_t i = 0; i < arrays_.size(); ++i) {
    if (members_[i].written != arrays_[i].bytes()) {
      return absl::InternalError(absl::StrCat("array '", arrays_[i].name, "' is shorter than announced"));
    }
  }
  if (format_ == ArrayFormat::kNpz) {
    if (absl::Status status = FinishZip(); !status.ok()) return status;
  }
  return Publish();
}

absl::Status ArrayWriter::Publish() {
  if (target_.empty()) {
    if (path_ == "-") return CopyTo(STDOUT_FILENO, "standard output");
    const int out = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (out < 0) return SystemError("write", path_);
    absl::Status status = CopyTo(out, path_);
    if (close(out) != 0 && status.ok()) status = SystemError("write", path_);
    return status;
  }
  if (temporary_.empty()) {
    // The unnamed file gets a name beside the target first: a link cannot replace a file, a rename can.
    const std::string name = absl::StrCat(target_, ".", getpid(), ".tmp");
    unlink(name.c_str());  // of an earlier process with this id
    if (linkat(AT_FDCWD, absl::StrCat("/proc/self/fd/", fd_).c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return SystemError("write", path_);
    }
    temporary_ = name;
  }
  if (rename(temporary_.c_str(), target_.c_str()) != 0) return SystemError("write", path_);
  temporary_.clear();
  return absl::OkStatus();
}

absl::Status ArrayWriter::CopyTo(int fd, const std::string& name) {
  std::vector<char> buffer(1 << 20);
  int64_t offset = 0;
  while (true) {
    const ssize_t got = pread(fd_, buffer.data(), buffer.size(), offset);
    if (got < 0) return SystemError("read back what was written for", name);
    if (got == 0) return absl::OkStatus();
    for (ssize_t sent = 0; sent < got;) {
      const ssize_t put = write(fd, buffer.data() + sent, static_cast<size_t>(got - sent));
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return SystemError("write", name);
      sent += put;
    }
    offset += got;
  }
}

absl::StatusOr<std::string> ReadWhole(const std::string& path, int64_t limit) {
  const int fd = path == "-" ? dup(STDIN_FILENO) : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("read", path);
  std::string out;
  std::vector<char> buffer(1 << 20);
  absl::Status status;
  while (true) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) status = SystemError("read", path);
    if (got <= 0) break;
    if (static_cast<int64_t>(out.size()) + got > limit) {
      status = absl::InvalidArgumentError(absl::StrCat("'", path, "' is longer than allowed: up to ", limit, " bytes"));
      break;
    }
    out.append(buffer.data(), static_cast<size_t>(got));
  }
  close(fd);
  if (!status.ok()) return status;
  return out;
}

absl::StatusOr<std::vector<LoadedArray>> ParseArrays(std::string_view bytes, ArrayFormat format) {
  if (format == ArrayFormat::kSafetensors) return ParseSafetensors(bytes);
  constexpr int64_t kInflateLimit = int64_t{8} << 30;
  std::vector<ZipContent> members;
  if (format == ArrayFormat::kNpz) {
    auto read = ReadZip(bytes, ".npy", kInflateLimit);
    if (!read.ok()) return read.status();
    members = *std::move(read);
  } else {
    members.push_back({"array.npy", std::string(bytes)});
  }
  std::vector<LoadedArray> out;
  for (const ZipContent& member : members) {
    if (member.name == kMetadataMember) continue;
    auto parsed = ParseNpyHeader(member.data);
    if (!parsed.ok()) return parsed.status();
    const std::optional<int64_t> elements = CheckedElements(parsed->info.shape);
    const int64_t held = static_cast<int64_t>(member.data.size() - parsed->header_bytes);
    if (!elements || CheckedMul(*elements, SizeOf(parsed->info.dtype)) != held) {
      return absl::InvalidArgumentError(
          absl::StrCat("array '", member.name, "' holds ", held, " bytes, which its shape and type do not give"));
    }
    parsed->info.name = member.name.substr(0, member.name.size() - 4);
    const auto* data = reinterpret_cast<const std::byte*>(member.data.data() + parsed->header_bytes);
    out.push_back({parsed->info, std::vector<std::byte>(data, data + held)});
  }
  return out;
}

absl::StatusOr<std::vector<LoadedArray>> ReadArrays(const std::string& path, ArrayFormat format) {
  constexpr int64_t kFileLimit = int64_t{8} << 30;
  absl::StatusOr<std::string> bytes = ReadWhole(path, kFileLimit);
  if (!bytes.ok()) return bytes.status();
  auto arrays = ParseArrays(*bytes, format);
  if (!arrays.ok()) return absl::Status(arrays.status().code(), absl::StrCat(path, ": ", arrays.status().message()));
  return arrays;
}

}  // namespace phasor::cli
