// One or two encodings or tables on the command line, for commands that compare and draw.
#ifndef PHASOR_CLIENT_CLI_SIDE_ARG_H_
#define PHASOR_CLIENT_CLI_SIDE_ARG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "phasor/v1/compare.pb.h"

#include "client/cli/tool.h"

namespace phasor::cli {

// A SPEC as everywhere, or a file of arrays (.npy, .npz, .safetensors).
struct SideArg {
  std::vector<std::string> tokens;
  std::string layer_type;
  std::string content;                    // of a table: "cos", "cos_sin", "bias" …; empty: found out
  std::optional<int64_t> first_position;  // of a table
  std::vector<std::string> weights;       // "NAME=FILE"
  bool compat_f32 = false;
};

// Tokens of several SPECs: one that is no key=value begins the next. A token with spaces is several, unless it is JSON or
// the name of a file. More than `most`: an error of usage.
absl::StatusOr<std::vector<std::vector<std::string>>> SplitSpecs(const std::vector<std::string>& tokens, size_t most);

// Reads what the tokens name. `length`: for configurations that depend on it.
absl::StatusOr<v1::ComparedSide> LoadSide(const SideArg& argument, std::optional<int64_t> length, Tool& tool);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_SIDE_ARG_H_
