// The load generator itself: callers that take calls from a schedule, and what they saw.
#ifndef PHASOR_CLIENT_CLI_LOAD_RUN_H_
#define PHASOR_CLIENT_CLI_LOAD_RUN_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "client/cli/load_latency.h"
#include "client/cli/load_scenarios.h"
#include "client/cli/load_schedule.h"
#include "client/phasor_client.h"

namespace phasor::cli {

// Of the calls of a scenario, or of all.
struct LoadTally {
  struct Failure {
    int64_t count = 0;
    std::string message;  // of the first one
  };
  int64_t calls = 0;
  int64_t sent_bytes = 0, received_bytes = 0;
  LatencyHistogram latency;  // of calls that succeeded
  std::map<absl::StatusCode, Failure> failures;

  int64_t failed() const;
  void Add(const CallOutcome& outcome, int64_t latency_ns);
  void Merge(const LoadTally& other);
};

struct LoadResult {
  std::vector<LoadTally> scenarios;  // in the order of LoadRun::calls
  LoadTally all;
  LatencyHistogram behind;  // how long after they were due calls were begun
  int64_t missed = 0;       // Schedule::missed
  double seconds = 0;       // until the last call ended
};

struct LoadRun {
  LoadPlan plan;
  std::vector<int64_t> weights;  // of `calls`
  std::vector<std::function<CallOutcome(client::Client&)>> calls;
  std::vector<std::unique_ptr<client::Client>> clients;
  int64_t callers = 1;  // calls in flight at most; caller k uses client k mod clients

  // Called on this thread about ten times a second, with what has been done so far.
  std::function<void(int64_t calls, int64_t failed, double seconds)> progress;

  // Blocks until the schedule is over and the last call has ended. A call's latency counts from when it was due.
  LoadResult Run();
};

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_LOAD_RUN_H_
