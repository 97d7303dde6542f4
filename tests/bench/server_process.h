// Servers in processes of their own: what they cost can be told apart from what their clients do.
#ifndef PHASOR_TESTS_BENCH_SERVER_PROCESS_H_
#define PHASOR_TESTS_BENCH_SERVER_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

namespace phasor::bench {

// This program once more, as a server on a free loopback port. It ends with its owner, whatever becomes of that.
class ServerProcess {
 public:
  // "phasor": as it starts by default. "phasor-no-cache": every table is made anew. "echo": BareEchoServer. "socket": sends
  // back what comes over a TCP connection. Ends the program with a message where that fails.
  explicit ServerProcess(const std::string& kind) : ServerProcess("--serve", kind) {}
  ~ServerProcess();
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  int port() const { return port_; }
  // A client instead, which calls again and again: "table:PORT" asks for a table of 1 GiB, "stream:PORT" streams as much to
  // Apply. Returns when the first call is over.
  static std::unique_ptr<ServerProcess> Caller(const std::string& what, int port) {
    return std::unique_ptr<ServerProcess>(new ServerProcess("--call", what + ":" + std::to_string(port)));
  }

  // Processor time of all its threads so far, nanoseconds.
  int64_t cpu_ns() const;

 private:
  ServerProcess(const std::string& option, const std::string& value);

  pid_t pid_ = 0;
  int input_ = -1;  // the server ends when it closes
  int port_ = 0;
};

// What the other process runs: prints its port, serves until standard input ends, and returns the exit code.
int Serve(const std::string& kind);
// Likewise of a caller.
int CallAgainAndAgain(const std::string& what);

}  // namespace phasor::bench

#endif  // PHASOR_TESTS_BENCH_SERVER_PROCESS_H_
