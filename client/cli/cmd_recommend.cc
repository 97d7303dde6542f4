// phasor recommend: which encoding to take.
#include "client/cli/tool.h"

namespace phasor::cli {

Command AddRecommend(CLI::App& app, Tool& tool) {
  CLI::App* command = app.add_subcommand("recommend", "Choose an encoding, with reasons and numbers");
  return {command, [] { return absl::UnimplementedError("recommend: not there yet"); }};
}

}  // namespace phasor::cli
