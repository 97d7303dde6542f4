// What the kernel says about this process.
#ifndef PHASOR_SERVER_PROCESS_STATS_H_
#define PHASOR_SERVER_PROCESS_STATS_H_

#include <cstdint>

namespace phasor::server {

// A value that cannot be read is 0.
struct ProcessStats {
  int64_t resident_bytes = 0;
  int64_t virtual_bytes = 0;
  double cpu_seconds = 0;  // user and system, all threads
  int64_t open_fds = 0;
  int64_t max_fds = 0;
  double start_time_seconds = 0;  // since the epoch
};

// Reads /proc/self: tens of microseconds. Thread-safe.
ProcessStats ReadProcessStats();

// What malloc has handed out, and what it holds free; pages of the latter may be the system's again. Bytes; zeros where the
// C library does not tell. Locks each arena for a moment.
struct MallocStats {
  int64_t used_bytes = 0;
  int64_t free_bytes = 0;
};
MallocStats ReadMallocStats();

// Resident memory only, a few microseconds.
int64_t ReadResidentBytes();

}  // namespace phasor::server

#endif  // PHASOR_SERVER_PROCESS_STATS_H_
