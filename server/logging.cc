#include "server/logging.h"

#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "grpc/support/log.h"
#include "spdlog/async.h"
#include "spdlog/async_logger.h"
#include "spdlog/sinks/stdout_sinks.h"

#include "server/text.h"

namespace phasor::server {
namespace {

constexpr size_t kQueuedLines = 8192;

std::string_view LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "DEBUG";
    case LogLevel::kInfo:
      return "INFO";
    case LogLevel::kWarning:
      return "WARNING";
    case LogLevel::kError:
    case LogLevel::kOff:
      break;
  }
  return "ERROR";
}

// Length of the UTF-8 sequence at the start of `text`, 0 when there is none (overlong forms and surrogates included).
size_t Utf8Length(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto tail = [&](size_t i) { return i < text.size() && (byte(i) & 0xC0) == 0x80; };
  if (byte(0) < 0x80) return 1;
  if (byte(0) >= 0xC2 && byte(0) < 0xE0) return tail(1) ? 2 : 0;
  if (byte(0) >= 0xE0 && byte(0) < 0xF0) {
    if (!tail(1) || !tail(2)) return 0;
    if ((byte(0) == 0xE0 && byte(1) < 0xA0) || (byte(0) == 0xED && byte(1) > 0x9F)) return 0;
    return 3;
  }
  if (byte(0) >= 0xF0 && byte(0) < 0xF5) {
    if (!tail(1) || !tail(2) || !tail(3)) return 0;
    if ((byte(0) == 0xF0 && byte(1) < 0x90) || (byte(0) == 0xF4 && byte(1) > 0x8F)) return 0;
    return 4;
  }
  return 0;
}

void AppendQuoted(std::string_view text, std::string* line) {
  line->push_back('"');
  while (!text.empty()) {
    const size_t length = Utf8Length(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      line->append("\\ufffd");
    } else if (length > 1) {
      line->append(text.substr(0, length));
    } else if (c == '"' || c == '\\') {
      line->push_back('\\');
      line->push_back(text[0]);
    } else if (c < 0x20 || c == 0x7F) {
      absl::StrAppendFormat(line, "\\u%04x", c);
    } else {
      line->push_back(text[0]);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  line->push_back('"');
}

bool IsPlainWord(std::string_view text) {
  if (text.empty()) return false;
  for (const char c : text) {
    if (c <= ' ' || c == '"' || c == '=' || c == '\\' || static_cast<unsigned char>(c) >= 0x7F) return false;
  }
  return true;
}

void AppendValue(const LogField& field, bool json, std::string* line) {
  if (const auto* text = std::get_if<std::string_view>(&field.value)) {
    if (!json && IsPlainWord(*text)) {
      line->append(*text);
    } else {
      AppendQuoted(*text, line);
    }
  } else if (const auto* integer = std::get_if<int64_t>(&field.value)) {
    Append(line, *integer);
  } else if (const auto* number = std::get_if<double>(&field.value)) {
    if (std::isfinite(*number)) {
      Append(line, *number);
    } else {
      line->append(json ? "null" : "none");
    }
  } else {
    line->append(std::get<bool>(field.value) ? "true" : "false");
  }
}

}  // namespace

std::string FormatLogLine(bool json, std::chrono::system_clock::time_point time, LogLevel level, std::string_view message,
                          std::span<const LogField> fields) {
  const std::string stamp = absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromChrono(time), absl::UTCTimeZone());
  std::string line;
  if (json) {
    line = Cat("{\"ts\":\"", stamp, "\",\"severity\":\"", LevelName(level), "\",\"msg\":");
    AppendQuoted(message, &line);
  } else {
    line = Cat(stamp, " ", LevelName(level), " ", message);
  }
  for (const LogField& field : fields) {
    if (json) {
      line.push_back(',');
      AppendQuoted(field.key, &line);
      line.push_back(':');
    } else {
      Append(&line, " ", field.key, "=");
    }
    AppendValue(field, json, &line);
  }
  if (json) line.push_back('}');
  return line;
}

struct Logger::Queue {
  std::shared_ptr<spdlog::details::thread_pool> thread;
  std::shared_ptr<spdlog::async_logger> logger;
};

Logger::Logger(LogOptions options) : options_(options) {
  if (options_.level == LogLevel::kOff) return;
  queue_ = std::make_unique<Queue>();
  queue_->thread = std::make_shared<spdlog::details::thread_pool>(kQueuedLines, 1);
  queue_->logger = std::make_shared<spdlog::async_logger>("phasor", std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                                                          queue_->thread, spdlog::async_overflow_policy::overrun_oldest);
  queue_->logger->set_pattern("%v");
  queue_->logger->set_level(spdlog::level::trace);
}

Logger::Logger(LogOptions options, std::function<void(std::string_view)> sink) : options_(options), sink_(std::move(sink)) {}

Logger::~Logger() {
  if (queue_ == nullptr) return;
  queue_->logger->flush();
  queue_->logger.reset();
  queue_->thread.reset();  // joins after the last line
}

void Logger::Event(LogLevel level, std::string_view message, std::span<const LogField> fields) {
  if (!enabled(level)) return;
  const std::string line = FormatLogLine(options_.json, std::chrono::system_clock::now(), level, message, fields);
  if (sink_) {
    sink_(line);
  } else {
    queue_->logger->log(spdlog::level::info, line);
  }
}

namespace {

// gRPC takes a plain function, so the logger has to be found through a global; it is set and cleared by the guard alone.
struct GrpcLogTarget {
  // The logger, unless this second has had its share.
  std::shared_ptr<Logger> Take() {
    constexpr int kLinesPerSecond = 10;
    const auto now = std::chrono::steady_clock::now();
    const std::lock_guard lock(mutex);
    if (now - second_began >= std::chrono::seconds(1)) {
      second_began = now;
      lines = 0;
    }
    return lines++ < kLinesPerSecond ? logger : nullptr;
  }

  std::mutex mutex;
  std::shared_ptr<Logger> logger;
  std::chrono::steady_clock::time_point second_began;
  int lines = 0;
};
GrpcLogTarget& GrpcTarget() {
  static auto* target = new GrpcLogTarget;  // never destroyed: gRPC's threads may log until the process is gone
  return *target;
}

void LogFromGrpc(gpr_log_func_args* args) {
  const std::shared_ptr<Logger> logger = GrpcTarget().Take();
  if (logger == nullptr) return;
  const LogLevel level = args->severity == GPR_LOG_SEVERITY_ERROR  ? LogLevel::kWarning
                         : args->severity == GPR_LOG_SEVERITY_INFO ? LogLevel::kInfo
                                                                   : LogLevel::kDebug;
  const char* slash = std::strrchr(args->file, '/');
  logger->Event(level, "grpc",
                {{"source", std::string_view(slash == nullptr ? args->file : slash + 1)},
                 {"line", static_cast<int64_t>(args->line)},
                 {"text", std::string_view(args->message)}});
}

}  // namespace

GrpcLogGuard::GrpcLogGuard(std::shared_ptr<Logger> logger) {
  {
    const std::lock_guard lock(GrpcTarget().mutex);
    GrpcTarget().logger = std::move(logger);
  }
  gpr_set_log_function(LogFromGrpc);
}

GrpcLogGuard::~GrpcLogGuard() {
  std::shared_ptr<Logger> last;
  {
    const std::lock_guard lock(GrpcTarget().mutex);
    last = std::move(GrpcTarget().logger);
  }
  gpr_set_log_function(nullptr);
}

}  // namespace phasor::server
