// phasor memory: what an encoding takes in memory.
#include "client/cli/tool.h"

namespace phasor::cli {

Command AddMemory(CLI::App& app, Tool& tool) {
  CLI::App* command = app.add_subcommand("memory", "Tell what tables, biases and ids of a model take in memory");
  return {command, [] { return absl::UnimplementedError("memory: not there yet"); }};
}

}  // namespace phasor::cli
