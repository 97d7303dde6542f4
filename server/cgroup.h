// How many processors this process may really use.
#ifndef PHASOR_SERVER_CGROUP_H_
#define PHASOR_SERVER_CGROUP_H_

#include <optional>
#include <string>

namespace phasor::server {

// The CPU quota of the process's control group in processors (1.5: one and a half), the smallest along its path; nothing
// when none is set. Reads v2 (cpu.max) and v1 (cpu.cfs_quota_us, cpu.cfs_period_us). `root` stands before /proc and /sys,
// for tests.
std::optional<double> CgroupCpuQuota(const std::string& root = "");

// Worker threads for this machine: the quota rounded up, at most the processors that the scheduler lets us run on, at
// least 1.
int DefaultWorkerThreads();

}  // namespace phasor::server

#endif  // PHASOR_SERVER_CGROUP_H_
