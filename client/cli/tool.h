// What every command of the phasor tool shares: the connection, how to print, and how errors end the process.
#ifndef PHASOR_CLIENT_CLI_TOOL_H_
#define PHASOR_CLIENT_CLI_TOOL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message.h"

#include "client/phasor_client.h"

namespace phasor::cli {

// Exit codes of the tool.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed =
    1;  // a refused or failed call; the message names the field, what was given and what is allowed
inline constexpr int kExitUsage = 2;

// An error of the command line itself, as opposed to one of a call.
absl::Status UsageError(std::string_view message);
bool IsUsageError(const absl::Status& status);
// An error of which standard output, where it is JSON, has told already.
absl::Status SaidInOutput(absl::Status status);

enum class Progress { kAuto, kAlways, kNever };

// Options before the command, and the client they lead to.
class Tool {
 public:
  Tool();
  ~Tool();

  std::string server;  // empty: embedded
  std::string backend = "auto";
  bool json = false;
  Progress progress = Progress::kAuto;
  int64_t timeout_seconds = 60;

  // Connects to `server`, or starts the embedded server, on first use.
  absl::StatusOr<client::Client*> Connect();

  // Prints to standard output; a broken pipe is an error.
  absl::Status Print(std::string_view text) const;
  // A message as proto3 JSON: field names as in the .proto, every field, doubles in shortest form.
  absl::Status PrintJson(const google::protobuf::Message& message) const;
  // A line to standard error, for people.
  void Say(std::string_view text) const;

 private:
  struct Embedded;
  std::unique_ptr<Embedded> embedded_;
  std::unique_ptr<client::Client> client_;
};

// A command: adds its subcommand to `app` and returns what to run when it was chosen.
struct Command {
  CLI::App* app;
  std::function<absl::Status()> run;
};
Command AddSchemes(CLI::App& app, Tool& tool);
Command AddCard(CLI::App& app, Tool& tool);
Command AddResolve(CLI::App& app, Tool& tool);
Command AddCompare(CLI::App& app, Tool& tool);
Command AddDiagnose(CLI::App& app, Tool& tool);
Command AddDistill(CLI::App& app, Tool& tool);
Command AddRecommend(CLI::App& app, Tool& tool);
Command AddMemory(CLI::App& app, Tool& tool);
Command AddPlot(CLI::App& app, Tool& tool);
Command AddTable(CLI::App& app, Tool& tool);
Command AddBenchServer(CLI::App& app, Tool& tool);
Command AddBias(CLI::App& app, Tool& tool);
Command AddApply(CLI::App& app, Tool& tool);
Command AddResize(CLI::App& app, Tool& tool);
Command AddScores(CLI::App& app, Tool& tool);
Command AddUpload(CLI::App& app, Tool& tool);
Command AddTables(CLI::App& app, Tool& tool);
Command AddInfo(CLI::App& app, Tool& tool);
Command AddHealth(CLI::App& app, Tool& tool);

// The whole tool; what main() returns.
int RunTool(int argc, const char* const* argv);

// proto3 JSON with the options that the tool uses everywhere.
absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message, bool pretty);

// "64.0 MiB", "1.3 ms", hex digits.
std::string FormatBytes(double bytes);
std::string FormatNanoseconds(double ns);
std::string FormatHex(std::string_view bytes);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_TOOL_H_
