// When a load generator's calls are due, and which they are: decided by their numbers alone, not by how fast the server is.
#ifndef PHASOR_CLIENT_CLI_LOAD_SCHEDULE_H_
#define PHASOR_CLIENT_CLI_LOAD_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <mutex>
#include <optional>
#include <vector>

namespace phasor::cli {

// Times are nanoseconds since the start of the run.
struct LoadPlan {
  double rate = 0;     // calls per second that are due whatever the server does (open loop); 0: one when a caller is free
  int64_t gap_ns = 0;  // closed loop: pause before every call
  int64_t requests = std::numeric_limits<int64_t>::max();     // at most so many calls
  int64_t duration_ns = std::numeric_limits<int64_t>::max();  // none is due or begun at this time or later
};

struct Arrival {
  int64_t index = 0;  // 0, 1, 2 …
  int64_t due_ns = 0;
};

// Thread-safe.
class Schedule {
 public:
  explicit Schedule(const LoadPlan& plan) : plan_(plan) {}

  // The next call for a caller that is free at `now_ns`; nothing when the run is over. A call may have been due before now:
  // its latency counts from then all the same.
  std::optional<Arrival> Next(int64_t now_ns);

  // Calls that were due within the run and were never begun, because every caller was busy until its end. To be asked when
  // it is over.
  int64_t missed() const;

 private:
  int64_t DueAt(int64_t index) const;

  const LoadPlan plan_;
  mutable std::mutex mutex_;
  int64_t next_ = 0;
  bool is_late_ = false;  // the time was up while calls were due
};

// Which scenario a call is of: in proportion to the weights, evenly spread, the same in every run.
class Mix {
 public:
  // Weights ≥ 1 each, their sum at most kMostWeight.
  static constexpr int64_t kMostWeight = 10000;
  explicit Mix(const std::vector<int64_t>& weights);

  size_t Pick(int64_t index) const { return cycle_[static_cast<size_t>(index) % cycle_.size()]; }

 private:
  std::vector<size_t> cycle_;
};

}  // namespace phasor::cli

#endif  // PHASOR_CLIENT_CLI_LOAD_SCHEDULE_H_
