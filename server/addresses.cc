#include "server/addresses.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>

#include "absl/strings/numbers.h"

#include "server/text.h"

namespace phasor::server {
namespace {

constexpr size_t kLongestPath = sizeof(sockaddr_un::sun_path) - 1;

absl::Status BadAddress(std::string_view flag, std::string_view given, std::string_view allowed) {
  return absl::InvalidArgumentError(Cat(flag, ": given \"", given, "\"; allowed: ", allowed));
}

absl::Status CannotListen(std::string_view flag, std::string_view address, std::string_view why, std::string_view allowed) {
  return absl::FailedPreconditionError(Cat(flag, ": cannot listen on ", address, ": ", why, ". Allowed: ", allowed));
}

absl::Status CheckUnixForm(std::string_view flag, std::string_view address) {
  constexpr std::string_view kAllowed =
      "unix:PATH, PATH that of a socket (not of a folder), absolute or from the working folder";
  const std::string_view path = UnixPath(address);
  // gRPC takes an empty path as a socket without a name, which anybody on the host can reach.
  if (path.empty() || path.back() == '/' || path == "." || path == ".." || path.ends_with("/.") || path.ends_with("/..")) {
    return BadAddress(flag, address, kAllowed);
  }
  // unix://NAME/PATH: NAME would be an authority, not a folder.
  if (path.starts_with("//")) return BadAddress(flag, address, kAllowed);
  if (path.size() > kLongestPath)
    return BadAddress(flag, address, Cat("unix:PATH, PATH of at most ", kLongestPath, " bytes"));
  if (path.find_first_of("%?#") != std::string_view::npos) {
    return BadAddress(flag, address, "unix:PATH without %, ? and #, which addresses read as something else");
  }
  return absl::OkStatus();
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// errno of a connection to the socket at `path`; 0: somebody listens.
int TryConnect(const std::string& path) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return errno;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int error = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 ? 0 : errno;
  close(fd);
  return error;
}

}  // namespace

bool IsUnixAddress(std::string_view address) { return address.starts_with("unix:"); }

bool IsHostPort(std::string_view address) {
  for (const std::string_view scheme : {"unix:", "unix-abstract:", "vsock:"}) {
    if (address.starts_with(scheme)) return false;
  }
  const size_t colon = address.rfind(':');
  int port = -1;
  return colon != std::string_view::npos && colon > 0 && absl::SimpleAtoi(ToAbsl(address.substr(colon + 1)), &port) &&
         port >= 0 && port <= 65535;
}

bool IsLoopback(std::string_view address) {
  return IsHostPort(address) &&
         (address.starts_with("127.") || address.starts_with("localhost:") || address.starts_with("[::1]:"));
}

std::string_view UnixPath(std::string_view address) {
  address.remove_prefix(std::string_view("unix:").size());
  if (address.starts_with("///")) address.remove_prefix(2);
  return address;
}

absl::Status CheckListenAddresses(std::string_view flag, const std::vector<std::string>& addresses, bool loopback) {
  std::set<std::string> paths;
  for (const std::string& address : addresses) {
    if (IsUnixAddress(address)) {
      if (absl::Status status = CheckUnixForm(flag, address); !status.ok()) return status;
      // However it is spelled: the later listener would take the socket from the earlier one.
      std::error_code failed;
      const std::filesystem::path place =
          std::filesystem::weakly_canonical(std::filesystem::absolute(UnixPath(address), failed), failed);
      if (!paths.insert(failed ? std::string(UnixPath(address)) : place.string()).second)
        return BadAddress(flag, address, "every path once");
    } else if (loopback && !IsLoopback(address)) {
      return BadAddress(flag, address, "unix:PATH, or HOST:PORT with a loopback host (127.0.0.1, localhost, [::1])");
    } else if (!loopback && !IsHostPort(address)) {
      return BadAddress(flag, address, "HOST:PORT (port 0 picks a free one) or unix:PATH");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckUnixPlace(std::string_view flag, std::string_view address) {
  const std::string path(UnixPath(address));
  const std::string folder = FolderOf(path);
  struct stat found{};
  if (stat(folder.c_str(), &found) != 0 || !S_ISDIR(found.st_mode)) {
    return CannotListen(flag, address, Cat("there is no folder ", folder), "a path in a folder that exists");
  }
  if (access(folder.c_str(), W_OK | X_OK) != 0) {
    return CannotListen(flag, address, Cat("the folder ", folder, " may not be written to"),
                        "a path in a folder that this user may write to");
  }
  if (lstat(path.c_str(), &found) == 0 && !S_ISSOCK(found.st_mode)) {
    return CannotListen(flag, address, "something that is no socket stands there",
                        "a path with nothing, or an unused socket");
  }
  return absl::OkStatus();
}

absl::Status ClearUnixPath(std::string_view flag, std::string_view address) {
  if (absl::Status status = CheckUnixPlace(flag, address); !status.ok()) return status;
  const std::string path(UnixPath(address));
  switch (const int error = TryConnect(path)) {
    case ENOENT:
      return absl::OkStatus();
    case ECONNREFUSED:
      if (unlink(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
      return CannotListen(flag, address, Cat("the unused socket there cannot be removed (", std::strerror(errno), ")"),
                          "a path with nothing, or a socket that this user may remove");
    case 0:
    case EAGAIN:  // somebody who is too busy to answer
      return CannotListen(flag, address, "the socket is taken, a process listens on it", "a path that nobody listens on");
    default:
      return CannotListen(flag, address,
                          Cat("whether the socket there is taken cannot be told (", std::strerror(error), ")"),
                          "a path with nothing, or an unused socket");
  }
}

}  // namespace phasor::server
