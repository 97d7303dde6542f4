// phasor diagnose: what a table is, what went wrong in it.
#include "client/cli/tool.h"

namespace phasor::cli {

Command AddDiagnose(CLI::App& app, Tool& tool) {
  CLI::App* command =
      app.add_subcommand("diagnose", "Tell what a table is and what went wrong in it, or what to check for a symptom");
  return {command, [] { return absl::UnimplementedError("diagnose: not there yet"); }};
}

}  // namespace phasor::cli
