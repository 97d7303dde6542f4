// phasord.
#include <csignal>

#include "server/lasting_accepts.h"
#include "server/phasord.h"

int main(int argc, char** argv) {
  phasor::server::RaiseDescriptorLimit();
  // A region above the limit on files' sizes is an error of that call.
  std::signal(SIGXFSZ, SIG_IGN);
  return phasor::server::RunPhasord(argc, argv, {}, &phasor::server::RefusedConnections);
}
