// What a load test found, for people and for scripts.
#ifndef PHASOR_CLIENT_CLI_LOAD_REPORT_H_
#define PHASOR_CLIENT_CLI_LOAD_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/load_run.h"

namespace phasor::cli {

struct LoadReport {
  std::string server;     // address; of the embedded one too
  bool embedded = false;  // the server shared this process
  std::string mode;       // "rate", "closed" or "idle"
  double rate = 0;        // wanted calls per second; 0: as they went
  int64_t gap_ns = 0;     // of "idle"
  int64_t concurrency = 1, connections = 1;
  std::vector<std::string> names;  // of the scenarios
  LoadResult result;

  std::string Text() const;
  std::string Json() const;  // one object and a line end
};

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_LOAD_REPORT_H_
