// One line per event on standard error, as text or JSON. Lines are handed to a thread of their own through a bounded queue,
// so that a slow reader of the log never holds up a call; when the queue is full, the oldest lines are dropped.
#ifndef PHASOR_SERVER_LOGGING_H_
#define PHASOR_SERVER_LOGGING_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>

namespace phasor::server {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

// One key and its value. Values of strings must outlive the call only.
struct LogField {
  std::string_view key;
  std::variant<std::string_view, int64_t, double, bool> value;
};

struct LogOptions {
  bool json = false;
  LogLevel level = LogLevel::kInfo;
};

// `message` is a fixed phrase ("request", "listening"); everything that varies is a field.
// Text:  2026-11-29T17:34:40.123Z INFO request method=phasor.v1.… code=OK bytes=4096
// JSON:  {"ts":"2026-11-29T17:34:40.123Z","severity":"INFO","msg":"request","method":"phasor.v1.…","code":"OK","bytes":4096}
// Control characters and bytes that are no UTF-8 are escaped, so that a line stays a line whatever a caller sent.
std::string FormatLogLine(bool json, std::chrono::system_clock::time_point time, LogLevel level, std::string_view message,
                          std::span<const LogField> fields);

// Thread-safe.
class Logger {
 public:
  // Lines go to standard error.
  explicit Logger(LogOptions options);
  // Lines go to `sink`, called on the calling thread: for tests.
  Logger(LogOptions options, std::function<void(std::string_view line)> sink);
  ~Logger();  // writes what is queued

  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  bool enabled(LogLevel level) const { return level >= options_.level && options_.level != LogLevel::kOff; }
  void Event(LogLevel level, std::string_view message, std::span<const LogField> fields);
  void Event(LogLevel level, std::string_view message, std::initializer_list<LogField> fields = {}) {
    Event(level, message, std::span<const LogField>(fields.begin(), fields.size()));
  }

 private:
  struct Queue;
  LogOptions options_;
  std::function<void(std::string_view)> sink_;
  std::unique_ptr<Queue> queue_;
};

// Sends gRPC's own log through `logger` (its errors as warnings: they are about connections, and at most ten in a second: a
// caller can provoke them) until the guard dies. gRPC has one log function per process, so this is for the server's binary,
// once.
class GrpcLogGuard {
 public:
  explicit GrpcLogGuard(std::shared_ptr<Logger> logger);
  ~GrpcLogGuard();
  GrpcLogGuard(const GrpcLogGuard&) = delete;
  GrpcLogGuard& operator=(const GrpcLogGuard&) = delete;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_LOGGING_H_
