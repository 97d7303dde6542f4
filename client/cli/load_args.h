// What stands on the command line of a load test.
#ifndef PHASOR_CLIENT_CLI_LOAD_ARGS_H_
#define PHASOR_CLIENT_CLI_LOAD_ARGS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace phasor::cli {

// "1.05s", "500ms", "20us", "2m"; a number alone is seconds. Nanoseconds, from 1 to a day's. Errors are of the usage and
// name `option`.
absl::StatusOr<int64_t> ParseDuration(std::string_view option, std::string_view text);

// "table=9,apply-16m=1": names out of `allowed`, each once, with weights (1 where none is given).
absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> ParseMix(std::string_view text,
                                                                      const std::vector<std::string>& allowed);

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_LOAD_ARGS_H_
