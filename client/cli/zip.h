// The few ZIP structures that an .npz needs: stored members on writing; stored and deflated ones on reading.
#ifndef PHASOR_CLIENT_CLI_ZIP_H_
#define PHASOR_CLIENT_CLI_ZIP_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace phasor::cli {

// A stored member as the writer keeps track of it.
struct ZipMember {
  std::string name;
  int64_t header_offset = 0;
  int64_t size = 0;
  uint32_t crc = 0;
};

// The local header of a stored member. Sizes are in the 64-bit extra field, so that any size does.
std::string ZipLocalHeader(const ZipMember& member);
// Where the crc stands inside a local header: it is patched once the content is known.
inline constexpr int64_t kZipCrcOffset = 14;
// Central directory and end records for members that end at `directory_offset`.
std::string ZipDirectory(const std::vector<ZipMember>& members, int64_t directory_offset);

// A member as read.
struct ZipContent {
  std::string name;
  std::string data;
};
// Every member whose name ends in `suffix`. INVALID_ARGUMENT for anything that is not a sound archive; a member may not
// inflate to more than `limit` bytes.
absl::StatusOr<std::vector<ZipContent>> ReadZip(std::string_view bytes, std::string_view suffix, int64_t limit);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_ZIP_H_
