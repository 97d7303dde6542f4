// What a load generator's calls ask for.
#ifndef PHASOR_CLIENT_CLI_LOAD_SCENARIOS_H_
#define PHASOR_CLIENT_CLI_LOAD_SCENARIOS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "client/phasor_client.h"

namespace phasor::cli {

// How a call went. Bytes are payloads: tensors and tables, without what frames them.
struct CallOutcome {
  absl::Status status;  // of the call, else of its first item that failed
  int64_t sent_bytes = 0, received_bytes = 0;
};

struct LoadScenario {
  std::string name;
  std::string what;  // a line for help
  // Makes the requests once; the function then makes a call with them, on any thread. It blocks.
  std::function<std::function<CallOutcome(client::Client&)>()> prepare;
};

// In the order that help lists them.
const std::vector<LoadScenario>& LoadScenarios();
std::vector<std::string> LoadScenarioNames();

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_LOAD_SCENARIOS_H_
