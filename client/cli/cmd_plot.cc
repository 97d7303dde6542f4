// phasor plot: pictures.
#include "client/cli/tool.h"

namespace phasor::cli {

Command AddPlot(CLI::App& app, Tool& tool) {
  CLI::App* command = app.add_subcommand("plot", "Draw an encoding as a picture");
  return {command, [] { return absl::UnimplementedError("plot: not there yet"); }};
}

}  // namespace phasor::cli
