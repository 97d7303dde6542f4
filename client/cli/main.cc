#include <csignal>

#include "client/cli/tool.h"

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a closed pipe and a file size limit are errors of the write, with a message
  std::signal(SIGXFSZ, SIG_IGN);
  return phasor::cli::RunTool(argc, argv);
}
