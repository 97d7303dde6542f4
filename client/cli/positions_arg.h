// --positions on the command line.
#ifndef PHASOR_CLIENT_CLI_POSITIONS_ARG_H_
#define PHASOR_CLIENT_CLI_POSITIONS_ARG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/positions.pb.h"

namespace phasor::cli {

// START:STOP or START:STOP:STEP (STOP not included, as in Python), or a list such as 0,5,17.
struct PositionsArg {
  int64_t start = 0;
  int64_t stride = 1;
  int64_t count = 0;
  std::vector<int64_t> ids;  // when not empty, `count` of them

  int64_t at(int64_t row) const { return ids.empty() ? start + row * stride : ids[static_cast<size_t>(row)]; }
  // Rows [begin, end) as the wire has them.
  v1::Positions Window(int64_t begin, int64_t end) const;
};

absl::StatusOr<PositionsArg> ParsePositions(const std::string& text);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_POSITIONS_ARG_H_
