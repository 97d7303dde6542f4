#include "server/signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

namespace phasor::server {
namespace {

sigset_t StopSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

}  // namespace

void BlockSignals() {
  const sigset_t set = StopSignals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int WaitForSignal() {
  const sigset_t set = StopSignals();
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  return number;
}

void ExitOnNextSignal() {
  // Detached: it ends with the process, one way or the other.
  std::thread([] { _exit(128 + WaitForSignal()); }).detach();
}

}  // namespace phasor::server
