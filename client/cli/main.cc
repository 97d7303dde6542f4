#include <csignal>

#include "client/cli/tool.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe is an error of the write, with a message
  return phasor::cli::RunTool(argc, argv);
}
