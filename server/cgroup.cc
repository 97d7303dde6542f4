#include "server/cgroup.h"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace phasor::server {
namespace {

std::optional<double> Ratio(const std::string& quota, const std::string& period) {
  char* end = nullptr;
  const double q = std::strtod(quota.c_str(), &end);
  if (end == quota.c_str() || q <= 0) return std::nullopt;  // "max" (v2) or −1 (v1): no quota
  const double p = std::strtod(period.c_str(), &end);
  if (end == period.c_str() || p <= 0) return std::nullopt;
  return q / p;
}

std::optional<double> QuotaOfFolder(const std::string& folder) {
  std::string quota, period;
  if (std::ifstream v2(folder + "/cpu.max"); v2 >> quota >> period) return Ratio(quota, period);
  std::ifstream v1_quota(folder + "/cpu.cfs_quota_us"), v1_period(folder + "/cpu.cfs_period_us");
  if (v1_quota >> quota && v1_period >> period) return Ratio(quota, period);
  return std::nullopt;
}

bool HasCpuController(const std::string& controllers) {
  std::istringstream list(controllers);
  for (std::string name; std::getline(list, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

std::optional<double> CgroupCpuQuota(const std::string& root) {
  std::optional<double> smallest;
  const auto consider = [&](const std::string& folder) {
    const std::optional<double> quota = QuotaOfFolder(folder);
    if (quota && (!smallest || *quota < *smallest)) smallest = quota;
  };
  // Lines are "id:controllers:path"; v2 has the id 0 and no controllers. Inside a container the path may name a folder that
  // is not mounted: the mount's own root is then the container's group, so it is always looked at.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':');
    const size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    std::vector<std::string> mounts;
    if (controllers.empty()) {
      mounts = {root + "/sys/fs/cgroup", root + "/sys/fs/cgroup/unified"};
    } else if (HasCpuController(controllers)) {
      mounts = {root + "/sys/fs/cgroup/cpu", root + "/sys/fs/cgroup/" + controllers};
    }
    for (const std::string& mount : mounts) {
      std::string path = line.substr(second + 1);
      while (!path.empty() && path != "/") {
        consider(mount + path);
        path.resize(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
      }
      consider(mount);
    }
  }
  return smallest;
}

int DefaultWorkerThreads() {
  int processors = static_cast<int>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) processors = CPU_COUNT(&set);
  if (const std::optional<double> quota = CgroupCpuQuota()) {
    processors = std::min(processors, static_cast<int>(std::ceil(std::min(*quota, 1e6))));
  }
  return std::max(processors, 1);
}

}  // namespace phasor::server
