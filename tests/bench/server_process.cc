#include "tests/bench/server_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include "tests/bench/bare_server.h"
#include "tests/bench/rpc_servers.h"

extern char** environ;

namespace phasor::bench {
namespace {

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// Prints the port and waits for the owner to go.
int ServeUntilTheEnd(int port) {
  std::printf("%d\n", port);
  std::fflush(stdout);
  char byte = 0;
  while (read(STDIN_FILENO, &byte, 1) > 0) {
  }
  return 0;
}

void Echo(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
  std::vector<char> memory(size_t{1} << 16);
  for (ssize_t got = 0; (got = read(fd, memory.data(), memory.size())) > 0;) {
    for (ssize_t sent = 0, step = 0; sent < got; sent += step) {
      step = write(fd, memory.data() + sent, static_cast<size_t>(got - sent));
      if (step <= 0) return;
    }
  }
}

int ServeSocket() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 || listen(listener, 4) != 0) Fail("listen");
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::thread([listener] {
    for (int fd = 0; (fd = accept(listener, nullptr, nullptr)) >= 0;) std::thread(Echo, fd).detach();
  }).detach();
  const int code = ServeUntilTheEnd(ntohs(address.sin_port));
  _exit(code);  // the threads hold descriptors only
}

}  // namespace

int Serve(const std::string& kind) {
  if (kind == "socket") return ServeSocket();
  if (kind == "echo") {
    const BareEchoServer server;
    return ServeUntilTheEnd(server.port());
  }
  if (kind == "phasor" || kind == "phasor-no-cache") {
    const auto server = StartPhasor(kind == "phasor" ? int64_t{1} << 30 : 0);
    return ServeUntilTheEnd(server->ports()[0]);
  }
  std::fprintf(stderr, "--serve: given '%s'; allowed: phasor, phasor-no-cache, echo, socket\n", kind.c_str());
  return 2;
}

ServerProcess::ServerProcess(const std::string& option, const std::string& value) {
  int input[2], output[2];
  if (pipe2(input, O_CLOEXEC) != 0 || pipe2(output, O_CLOEXEC) != 0) Fail("pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  std::string program = "phasor_bench", first = option, second = value;
  char* argv[] = {program.data(), first.data(), second.data(), nullptr};
  if (posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv, environ) != 0) Fail("posix_spawn");
  posix_spawn_file_actions_destroy(&actions);
  close(input[0]);
  close(output[1]);
  input_ = input[1];
  FILE* text = fdopen(output[0], "r");
  if (text == nullptr || std::fscanf(text, "%d", &port_) != 1) Fail("a process of the benchmarks did not start");
  std::fclose(text);
}

ServerProcess::~ServerProcess() {
  close(input_);
  waitpid(pid_, nullptr, 0);
}

int64_t ServerProcess::cpu_ns() const {
  clockid_t clock{};
  timespec time{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &time) != 0) Fail("clock_getcpuclockid");
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

}  // namespace phasor::bench
