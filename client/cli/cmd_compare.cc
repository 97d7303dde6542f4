// phasor compare: in what two encodings differ.
#include "client/cli/tool.h"

namespace phasor::cli {

Command AddCompare(CLI::App& app, Tool& tool) {
  CLI::App* command = app.add_subcommand("compare", "Tell in what two specs, configurations or tables differ");
  return {command, [] { return absl::UnimplementedError("compare: not there yet"); }};
}

}  // namespace phasor::cli
