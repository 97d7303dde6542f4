// Gives memory back to the system once large traffic is over. While it lasts, buffers that are kept are what makes it fast.
#ifndef PHASOR_SERVER_MEMORY_KEEPER_H_
#define PHASOR_SERVER_MEMORY_KEEPER_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>

namespace phasor::server {

// Decides when. Not thread-safe.
class QuietWatch {
 public:
  static constexpr int64_t kLargeTraffic = int64_t{16} << 20;  // since memory was last given back, for it to be worth while
  static constexpr int64_t kQuietTraffic = int64_t{1} << 20;   // between two looks, and in flight: small calls do not count
  static constexpr int kQuietLooks = 4;
  // Small messages may take much memory (lists of positions, shared results, what is only described). Its growth since
  // memory was last given back, for it to be worth while; between two looks, for it to be no growth; and the looks without.
  static constexpr int64_t kLargeGrowth = int64_t{64} << 20;
  static constexpr int64_t kSteadyGrowth = int64_t{4} << 20;
  static constexpr int kSteadyLooks = 20;

  // `traffic`: bytes of messages since start; `inflight`: bytes of calls that have not ended; `resident`: the process's
  // memory. True once after large traffic, when kQuietLooks looks in a row were quiet; and after large growth, when
  // kSteadyLooks were quiet and saw no more of it: longer, since calls may go on that neither number shows. GaveBack
  // follows.
  bool Look(int64_t traffic, int64_t inflight, int64_t resident);
  // How much memory is left then. What did not go is not tried again.
  void GaveBack(int64_t resident);

 private:
  int64_t last_ = 0;            // traffic at the last look
  int64_t given_back_ = 0;      // traffic when memory was last given back
  int64_t last_resident_ = -1;  // at the last look; −1: there was none
  int64_t least_resident_ = 0;  // since memory was last given back
  int quiet_ = 0;
  int steady_ = 0;
};

// A thread that looks twice a second: three numbers are read, and nothing else happens while there is traffic.
class MemoryKeeper {
 public:
  struct Actions {
    std::function<int64_t()> traffic;   // as in QuietWatch
    std::function<int64_t()> inflight;  // likewise
    std::function<int64_t()> resident;  // likewise
    std::function<void()> give_back;
  };
  explicit MemoryKeeper(Actions actions, std::chrono::milliseconds tick = std::chrono::milliseconds(500));
  ~MemoryKeeper();  // ends the thread

  MemoryKeeper(const MemoryKeeper&) = delete;
  MemoryKeeper& operator=(const MemoryKeeper&) = delete;

 private:
  void Run();

  const Actions actions_;
  const std::chrono::milliseconds tick_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;  // last: it uses the others
};

// What malloc holds free goes back to the system, page by page: of the whole process. Milliseconds.
void TrimMalloc();

}  // namespace phasor::server

#endif  // PHASOR_SERVER_MEMORY_KEEPER_H_
