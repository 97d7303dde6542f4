// Where a server listens: what an address may look like, and whether a Unix socket can be made there.
#ifndef PHASOR_SERVER_ADDRESSES_H_
#define PHASOR_SERVER_ADDRESSES_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace phasor::server {

bool IsUnixAddress(std::string_view address);
// "HOST:PORT", port 0 … 65535; no other kind of address that gRPC knows.
bool IsHostPort(std::string_view address);
// HOST:PORT whose host is 127.…, localhost or [::1].
bool IsLoopback(std::string_view address);

// The path of unix:PATH or unix:///PATH.
std::string_view UnixPath(std::string_view address);

// Form only: HOST:PORT (loopback only when `loopback`) or unix:PATH with a path that gRPC takes as it is written: not empty,
// at most 107 bytes, no '%', '?' or '#', not a folder's. No two equal Unix paths. INVALID_ARGUMENT naming `flag`.
absl::Status CheckListenAddresses(std::string_view flag, const std::vector<std::string>& addresses, bool loopback);

// Whether a socket could be made at the path of a Unix address: its folder is there and may be written to, and nothing but a
// socket stands at the path. FAILED_PRECONDITION naming `flag`.
absl::Status CheckUnixPlace(std::string_view flag, std::string_view address);

// CheckUnixPlace; then, when a socket stands there: FAILED_PRECONDITION when somebody listens on it (or that cannot be
// told), else it was left behind, and is removed. gRPC itself would replace it either way.
absl::Status ClearUnixPath(std::string_view flag, std::string_view address);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ADDRESSES_H_
