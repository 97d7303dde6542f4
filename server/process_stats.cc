#include "server/process_stats.h"

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>

namespace phasor::server {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Fields of /proc/self/stat from the third on; the second is a name in parentheses that may hold spaces.
std::istringstream StatFields() {
  const std::string stat = ReadFile("/proc/self/stat");
  const size_t end = stat.rfind(')');
  return std::istringstream(end == std::string::npos ? std::string() : stat.substr(end + 1));
}

double BootTime() {
  std::ifstream file("/proc/stat");
  std::string key;
  while (file >> key) {
    if (key == "btime") {
      double seconds = 0;
      file >> seconds;
      return seconds;
    }
    std::getline(file, key);
  }
  return 0;
}

int64_t CountFds() {
  DIR* folder = opendir("/proc/self/fd");
  if (folder == nullptr) return 0;
  int64_t entries = 0;
  while (readdir(folder) != nullptr) ++entries;
  closedir(folder);
  return std::max<int64_t>(0, entries - 3);  // ".", ".." and the folder's own descriptor
}

}  // namespace

int64_t ReadResidentBytes() {
  std::istringstream statm(ReadFile("/proc/self/statm"));
  int64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

MallocStats ReadMallocStats() {
  MallocStats stats;
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  stats.used_bytes = static_cast<int64_t>(info.uordblks + info.hblkhd);
  stats.free_bytes = static_cast<int64_t>(info.fordblks);
#endif
  return stats;
}

ProcessStats ReadProcessStats() {
  ProcessStats stats;
  std::istringstream statm(ReadFile("/proc/self/statm"));
  statm >> stats.virtual_bytes >> stats.resident_bytes;
  stats.virtual_bytes *= sysconf(_SC_PAGESIZE);
  stats.resident_bytes *= sysconf(_SC_PAGESIZE);

  const double ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::istringstream fields = StatFields();
  std::string skipped;
  double user = 0, system = 0, start = 0;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  fields >> user >> system;
  for (int field = 16; field < 22; ++field) fields >> skipped;
  fields >> start;
  stats.cpu_seconds = (user + system) / ticks;
  stats.start_time_seconds = BootTime() + start / ticks;

  stats.open_fds = CountFds();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) stats.max_fds = static_cast<int64_t>(limit.rlim_cur);
  return stats;
}

}  // namespace phasor::server
