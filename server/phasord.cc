#include "server/phasord.h"

#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "grpc/grpc.h"

#include "kernels/cpu/cpu_target.h"
#include "server/logging.h"
#include "server/options.h"
#include "server/server.h"
#include "server/signals.h"
#include "server/text.h"

#if __has_include("google/protobuf/stubs/logging.h")
#include "google/protobuf/stubs/logging.h"  // before protobuf 22, which logs through Abseil
#endif

namespace phasor::server {
namespace {

// By default glibc maps and unmaps every buffer of some megabytes, and most of the time of a large message is page faults
// (1.7 to 2.6 times, measured). Large buffers come from the heap instead and stay in it, until the server is idle
// (memory_keeper.h).
void TuneMalloc() {
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
  // Each arena keeps what its largest messages needed, and glibc makes eight for every processor. Few are enough: on two
  // processors two answer as many calls, and 120 rotations of 32 MiB leave 220 MB resident instead of 430.
  mallopt(M_ARENA_MAX, static_cast<int>(std::max(2u, std::thread::hardware_concurrency() / 4)));
}

// Of a process that ended because a device's state was lost: a supervisor should start it again, perhaps elsewhere.
constexpr int kDeviceLostExitCode = 3;

int Fail(const absl::Status& status, bool device_lost = false) {
  std::fprintf(stderr, "phasord: %s\n", std::string(status.message()).c_str());
  if (device_lost) return kDeviceLostExitCode;
  return status.code() == absl::StatusCode::kInternal ? 1 : 2;
}

void LogConfiguration(const PhasordOptions& options, Logger* logger) {
  std::vector<LogField> fields;
  for (const auto& [flag, value] : options.effective) fields.push_back({flag, std::string_view(value)});
  logger->Event(LogLevel::kInfo, "configuration", fields);
  for (const std::string& name : options.unknown_variables) {
    logger->Event(LogLevel::kWarning, "unknown variable, see --help", {{"name", std::string_view(name)}});
  }
}

// Ends the process with `code` after `limit`: a drain that gets stuck must not need anybody to notice.
void ExitAfter(std::chrono::milliseconds limit, int code) {
  std::thread([limit, code] {
    std::this_thread::sleep_for(limit);
    std::fputs("phasord: the drain is stuck, giving up\n", stderr);
    _exit(code);
  }).detach();
}

// Work on a device takes one of the hardware's connections for each of its streams, which share them where they are fewer:
// then one call's work waits for another's. The runtime reads it when it first asks for a device.
void AskForDeviceConnections() { setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", /*overwrite=*/0); }

// Serves until a signal, then drains.
void ServeAndDrain(const PhasordOptions& options, Server* server, Logger* logger) {
  const int number = WaitForSignal();
  ExitOnNextSignal();
  ExitAfter(options.drain_delay + options.drain_grace + std::chrono::seconds(30),
            server->device_lost() ? kDeviceLostExitCode : 1);
  logger->Event(LogLevel::kInfo, "draining",
                {{"signal", number == SIGTERM ? std::string_view("SIGTERM") : std::string_view("SIGINT")},
                 {"delay_ms", static_cast<int64_t>(options.drain_delay.count())},
                 {"grace_ms", static_cast<int64_t>(options.drain_grace.count())},
                 {"inflight_requests", server->inflight_requests()}});
  server->BeginDrain();
  std::this_thread::sleep_for(options.drain_delay);
  server->Shutdown(options.drain_grace);
  logger->Event(LogLevel::kInfo, "stopped");
}

int Run(int argc, char** argv, const BackendMaker& make_backend, std::function<int64_t()> refused_connections) {
  // protobuf prints a line for every string of a request that is no UTF-8: callers would write the log.
#if __has_include("google/protobuf/stubs/logging.h")
  google::protobuf::SetLogHandler(nullptr);
#endif
  ParsedOptions parsed = ParseOptions(argc, argv);
  if (!parsed.options) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  PhasordOptions options = *std::move(parsed.options);
  if (absl::Status status = ForceCpuTarget(options.cpu_target); !status.ok()) return Fail(status);
  if (options.check_config) {
    if (absl::Status status = CheckOptions(options.server); !status.ok()) return Fail(status);
    std::puts("the configuration is good");
    return 0;
  }
  if (options.print_metrics) {
    options.log.level = LogLevel::kOff;
    options.server.listen.clear();
    options.server.admin_listen.clear();
    options.server.metrics_listen.clear();
  }
  auto logger = std::make_shared<Logger>(options.log);
  const GrpcLogGuard grpc_log(logger);
  LogConfiguration(options, logger.get());
  options.server.make_backend = make_backend;
  options.server.refused_connections = std::move(refused_connections);
  // The way out is that of a signal: health turns off, calls end, then the process.
  const auto device_lost = std::make_shared<std::atomic<bool>>(false);
  options.server.on_device_lost = [device_lost] {
    device_lost->store(true);
    kill(getpid(), SIGTERM);
  };
  auto server = Server::Start(options.server, logger);
  if (!server.ok()) {
    logger->Event(LogLevel::kError, "cannot start", {{"reason", ToStd(server.status().message())}});
    return Fail(server.status(), device_lost->load());
  }
  if (options.print_metrics) {
    std::fputs((*server)->ScrapeMetrics().c_str(), stdout);
    return 0;
  }
  for (const std::string& address : (*server)->addresses()) {
    std::printf("listening on %s\n", address.c_str());
  }
  std::fflush(stdout);
  ServeAndDrain(options, server->get(), logger.get());
  return (*server)->device_lost() ? kDeviceLostExitCode : 0;
}

}  // namespace

int RunPhasord(int argc, char** argv, const BackendMaker& make_backend, std::function<int64_t()> refused_connections) {
  BlockSignals();
  TuneMalloc();
  AskForDeviceConnections();
  // Held until the process ends: gRPC's last shutdown joins a thread of its own that polls for up to ten seconds after a
  // large message was sent, with nothing left to do.
  grpc_init();
  return Run(argc, argv, make_backend, std::move(refused_connections));
}

}  // namespace phasor::server
