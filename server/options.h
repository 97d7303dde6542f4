// phasord's flags. Each is an environment variable too: --max-queue is PHASOR_MAX_QUEUE; a flag wins.
#ifndef PHASOR_SERVER_OPTIONS_H_
#define PHASOR_SERVER_OPTIONS_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "server/logging.h"
#include "server/server.h"

namespace phasor::server {

struct PhasordOptions {
  ServerOptions server;
  LogOptions log;
  std::chrono::milliseconds drain_delay{5000};
  std::chrono::milliseconds drain_grace{30000};
  std::string cpu_target = "auto";
  bool check_config = false;
  bool print_metrics = false;
  // Every flag with its effective value, for the log.
  std::vector<std::pair<std::string, std::string>> effective;
  // PHASOR_… variables that no flag has: probably misspelt.
  std::vector<std::string> unknown_variables;
};

struct ParsedOptions {
  std::optional<PhasordOptions> options;  // nothing: print `text` and exit with `exit_code`
  int exit_code = 0;                      // 0 for --help and --version, 2 for a wrong value
  std::string text;
};

// Reads flags and the environment of the process. What a value means beyond its form is CheckOptions' matter (server.h).
ParsedOptions ParseOptions(int argc, const char* const* argv);

// "4096", "64KiB", "1.5GiB" (KiB, MiB, GiB, TiB) → bytes. INVALID_ARGUMENT otherwise, and for a value that is not whole or
// not below 2^63.
absl::StatusOr<int64_t> ParseSize(std::string_view text);
// "250ms", "5s", "1.5m", "1h"; a bare number is seconds. INVALID_ARGUMENT otherwise, and for more than a year.
absl::StatusOr<std::chrono::milliseconds> ParseDuration(std::string_view text);
// The shortest of those spellings that is exact: 1073741824 → "1GiB".
std::string FormatSize(int64_t bytes);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_OPTIONS_H_
