// accept4, in place of the C library's. gRPC 1.51 gives a listener up for good at any error but EAGAIN, so that a moment
// without descriptors, or a client that hangs up while it is being accepted, ends the service for all who come later.
//
// Part of programs, not of a library: it is for the whole process, gRPC's shared libraries included.
#include "server/lasting_accepts.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

namespace phasor::server {
namespace {

int Accept(int listener, sockaddr* address, socklen_t* length, int flags) {
  return static_cast<int>(syscall(SYS_accept4, listener, address, length, flags));
}

int OpenReserve() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

// A descriptor that is given up for as long as it takes to close a connection which there is no descriptor for: left in the
// kernel's queue it would be found again and again.
class Reserve {
 public:
  bool CloseNext(int listener) {
    const int spare = descriptor_.exchange(-1);
    if (spare < 0) return false;  // another thread is at it, or the descriptor was lost to one
    close(spare);
    const int connection = Accept(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection >= 0) close(connection);
    descriptor_.store(OpenReserve());
    if (connection >= 0) refused_.fetch_add(1, std::memory_order_relaxed);
    return connection >= 0;
  }
  void Refill() {
    if (descriptor_.load(std::memory_order_relaxed) >= 0) return;
    const int fresh = OpenReserve();
    int none = -1;
    if (fresh >= 0 && !descriptor_.compare_exchange_strong(none, fresh)) close(fresh);
  }
  int64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  std::atomic<int> descriptor_{OpenReserve()};
  std::atomic<int64_t> refused_{0};
};

// The process has one table of descriptors, and so one reserve.
Reserve& TheReserve() {
  static Reserve reserve;
  return reserve;
}

}  // namespace

int64_t RefusedConnections() { return TheReserve().refused(); }

void RaiseDescriptorLimit() {
  TheReserve();
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace phasor::server

extern "C" __attribute__((visibility("default"))) int accept4(int listener, sockaddr* address, socklen_t* length,
                                                              int flags) {
  while (true) {
    const int connection = phasor::server::Accept(listener, address, length, flags);
    if (connection >= 0) {
      phasor::server::TheReserve().Refill();
      return connection;
    }
    switch (errno) {
      case EMFILE:
      case ENFILE:
        if (phasor::server::TheReserve().CloseNext(listener)) continue;
        errno = EAGAIN;  // whoever comes next brings the listener back
        return -1;
      case ENOBUFS:
      case ENOMEM:
        errno = EAGAIN;
        return -1;
      // What the connection itself ran into (accept(2)): it is gone from the queue.
      case ECONNABORTED:
      case EPROTO:
      case EPERM:
      case ENETDOWN:
      case ENOPROTOOPT:
      case EHOSTDOWN:
      case ENONET:
      case EHOSTUNREACH:
      case ENETUNREACH:
        continue;
      default:
        return -1;
    }
  }
}
