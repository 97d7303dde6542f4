// --positions on the command line.
#ifndef PHASOR_CLIENT_CLI_POSITIONS_ARG_H_
#define PHASOR_CLIENT_CLI_POSITIONS_ARG_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/positions.pb.h"

namespace phasor::cli {

// Coordinates along one axis: one list is not empty.
struct AxisArg {
  std::vector<int64_t> ids = {};
  std::vector<double> fractional = {};
};

// START:STOP or START:STOP:STEP (STOP not included, as in Python); a list such as 0,5,17 or 0.5,1.25; a grid such as
// grid:16x24, the last axis fastest; or a .npy file of [count], or of [axes, count] for several axes.
struct PositionsArg {
  int64_t start = 0;
  int64_t stride = 1;
  int64_t count = 0;
  std::vector<int64_t> ids;  // when not empty, `count` of them
  // When not empty, `count` entries each, and the members above do not count: fractional ids, or several axes.
  std::vector<AxisArg> axes = {};

  // Of a row, for people and as JSON: "5", "0.5", "[0, 3]".
  std::string Text(int64_t row) const;
  // Rows [begin, end) as the wire has them.
  v1::Positions Window(int64_t begin, int64_t end) const;
};

absl::StatusOr<PositionsArg> ParsePositions(const std::string& text);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_POSITIONS_ARG_H_
