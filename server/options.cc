#include "server/options.h"

#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <set>
#include <sstream>

#include "CLI/CLI.hpp"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

#include "kernels/backend.h"
#include "kernels/cpu/cpu_target.h"
#include "kernels/encodings/plan.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr char kDescription[] =
    "phasord: position encodings and attention biases over gRPC.\n"
    "\n"
    "When it is ready it prints `listening on ADDRESS:PORT` on standard output, a line for each --listen in their order;\n"
    "logs go to standard error.\n"
    "SIGTERM or SIGINT drains: health says NOT_SERVING, calls are served for --drain-delay more, calls that run then may\n"
    "end within --drain-grace, and the exit code is 0. A second signal exits at once (130 after SIGINT, 143 after "
    "SIGTERM).\n"
    "Every flag is also an environment variable: --max-queue is PHASOR_MAX_QUEUE. A flag wins.";
constexpr char kExamples[] =
    "Examples:\n"
    "  phasord                                           # loopback, port 50051\n"
    "  phasord --listen=127.0.0.1:0                      # a free port\n"
    "  phasord --warm=dtype=bf16,positions=131072,config.json --cache-bytes=4GiB\n"
    "  phasord --admin-listen=unix:/run/phasor/admin.sock --log-format=json\n"
    "Connections are not encrypted in this version: put a proxy that speaks TLS in front, or stay on loopback.";

constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();

std::string VariableOf(std::string_view flag) {
  return Cat("PHASOR_", absl::AsciiStrToUpper(absl::StrReplaceAll(ToAbsl(flag.substr(2)), {{"-", "_"}})));
}

// Of a lease or a pause; what is shorter would end before anybody could use it.
constexpr std::chrono::milliseconds kShortest{10};

// Adds flags to an App that all know their variable, their group and their default, and that say what is allowed when they
// are given something else.
class FlagBuilder {
 public:
  FlagBuilder(CLI::App* app, PhasordOptions* options) : app_(app), options_(options) {}

  void Group(std::string name) { group_ = std::move(name); }

  // `set` returns why a value is refused.
  void Add(const std::string& flag, const std::string& type, const std::string& fallback, const std::string& help,
           std::function<absl::Status(const std::string&)> set) {
    Register(app_->add_option_function<std::string>(
                 flag,
                 [flag, set = std::move(set)](const std::string& text) {
                   if (absl::Status status = set(text); !status.ok()) {
                     throw CLI::ValidationError(flag, std::string(status.message()));
                   }
                 },
                 help),
             flag, type, fallback);
  }

  // A list: the flag may be repeated; `separators` split values (of the variable, too).
  void AddList(const std::string& flag, const std::string& type, std::vector<std::string>* target, const char* separators,
               const std::string& help) {
    const std::string fallback = absl::StrJoin(*target, ",");
    auto* option = app_->add_option_function<std::vector<std::string>>(
        flag,
        [target, separators](const std::vector<std::string>& values) {
          target->clear();
          for (const std::string& value : values) {
            for (const auto piece : absl::StrSplit(value, absl::ByAnyChar(separators), absl::SkipWhitespace())) {
              target->emplace_back(absl::StripAsciiWhitespace(piece));
            }
          }
        },
        help);
    Register(option->expected(1, -1)->allow_extra_args(false), flag, type, fallback);
  }

  void AddText(const std::string& flag, const std::string& type, std::string* target, const std::string& help) {
    Add(flag, type, *target, help, [target](const std::string& text) {
      *target = text;
      return absl::OkStatus();
    });
  }

  void AddSize(const std::string& flag, int64_t* target, int64_t lowest, int64_t highest, const std::string& help) {
    Add(flag, "SIZE", FormatSize(*target), help, [=](const std::string& text) -> absl::Status {
      const auto size = ParseSize(text);
      if (!size.ok()) return size.status();
      if (*size < lowest || *size > highest) return OutOfRange(text, FormatSize(lowest), FormatSize(highest));
      *target = *size;
      return absl::OkStatus();
    });
  }

  template <typename Integer>
  void AddInteger(const std::string& flag, Integer* target, int64_t lowest, int64_t highest, const std::string& help) {
    Add(flag, "N", Cat(*target), help, [=](const std::string& text) -> absl::Status {
      int64_t value = 0;
      if (!absl::SimpleAtoi(text, &value) || value < lowest || value > highest) {
        return OutOfRange(text, Cat(lowest), Cat(highest));
      }
      *target = static_cast<Integer>(value);
      return absl::OkStatus();
    });
  }

  template <typename Duration>
  void AddDuration(const std::string& flag, Duration* target, const std::string& fallback, const std::string& help,
                   std::chrono::milliseconds lowest = {}) {
    Add(flag, "TIME", fallback, help, [=](const std::string& text) -> absl::Status {
      const auto duration = ParseDuration(text);
      if (!duration.ok()) return duration.status();
      if (*duration < lowest) {
        return absl::InvalidArgumentError(Cat("given \"", text, "\"; allowed: at least ", lowest.count(), "ms"));
      }
      *target = std::chrono::duration_cast<Duration>(*duration);
      return absl::OkStatus();
    });
  }

  void AddChoice(const std::string& flag, const std::string& fallback, std::vector<std::string> choices,
                 const std::string& help, std::function<void(const std::string&)> set) {
    Add(flag, absl::StrJoin(choices, "|"), fallback, help, [=](const std::string& text) -> absl::Status {
      if (std::find(choices.begin(), choices.end(), text) == choices.end()) {
        return absl::InvalidArgumentError(Cat("given \"", text, "\"; allowed: ", absl::StrJoin(choices, ", ")));
      }
      set(text);
      return absl::OkStatus();
    });
  }

  // Numbers with commas between them, or all.
  void AddIds(const std::string& flag, std::vector<int>* target, const std::string& help) {
    Add(flag, "IDS", "all", help, [=](const std::string& text) -> absl::Status {
      target->clear();
      if (text == "all") return absl::OkStatus();
      for (const absl::string_view piece : absl::StrSplit(text, ',')) {
        int id = 0;
        if (!absl::SimpleAtoi(piece, &id) || id < 0) {
          return absl::InvalidArgumentError(Cat("given \"", text, "\"; allowed: all, or numbers of devices as in 0,2"));
        }
        target->push_back(id);
      }
      return absl::OkStatus();
    });
  }

  void AddSwitch(const std::string& flag, bool* target, const std::string& help) {
    Register(app_->add_flag(flag, *target, help), flag, "", "false");
  }

  const std::set<std::string>& variables() const { return variables_; }

 private:
  static absl::Status OutOfRange(std::string_view given, std::string_view lowest, std::string_view highest) {
    return absl::InvalidArgumentError(Cat("given \"", given, "\"; allowed: ", lowest, " to ", highest));
  }

  void Register(CLI::Option* option, const std::string& flag, const std::string& type, const std::string& fallback) {
    option->envname(VariableOf(flag))->group(group_)->default_str(fallback);
    if (!type.empty()) option->type_name(type);
    variables_.insert(VariableOf(flag));
  }

  CLI::App* const app_;
  PhasordOptions* const options_;
  std::string group_;
  std::set<std::string> variables_;
};

std::vector<std::string> BackendNames() {
  std::vector<std::string> names = {"auto"};
  for (const BackendInfo& backend : ListBackends()) names.emplace_back(backend.name);
  return names;
}

void AddListeners(FlagBuilder* flags, PhasordOptions* options) {
  ServerOptions& server = options->server;
  flags->Group("Listeners");
  flags->AddList("--listen", "HOST:PORT", &server.listen, ",",
                 "Where calls are served; may be repeated. Port 0 picks a free one; unix:PATH works too");
  flags->AddList("--admin-listen", "ADDRESS", &server.admin_listen, ",",
                 "Where calls that change something (EvictTables) are served as well: unix:PATH or a loopback HOST:PORT");
  flags->AddText("--metrics-listen", "HOST:PORT", &server.metrics_listen,
                 "Where Prometheus scrapes /metrics; off: nowhere. When the default is taken, a free port is");
  flags->AddInteger("--max-concurrent-streams", &server.max_concurrent_streams, 1, 65536, "Calls at once per connection");
  flags->AddDuration("--max-connection-age", &server.max_connection_age, "0",
                     "Age at which clients are asked to connect anew, so that balancers spread them; 0: never");
  flags->AddSwitch("--channelz", &server.channelz, "Serve grpc.channelz.v1, gRPC's own view of its connections");
}

void AddWork(FlagBuilder* flags, PhasordOptions* options) {
  ServerOptions& server = options->server;
  flags->Group("Work");
  flags->AddChoice("--backend", "auto", BackendNames(), "What computes; auto takes the first that can run here",
                   [&server](const std::string& name) { server.backend = name; });
  std::vector<std::string> targets = CpuTargets();
  targets.insert(targets.begin(), "auto");
  flags->AddChoice("--cpu-target", "auto", std::move(targets), "Instruction set of the cpu backend; the bits are the same",
                   [options](const std::string& name) { options->cpu_target = name; });
  flags->AddIds("--cuda-devices", &server.devices.devices, "Devices that the cuda backend uses, as 0,2; or all");
  flags->AddSize("--cuda-bytes", &server.devices.device_bytes, 0, kInt64Max,
                 "What it may hold of each device's memory; 0: half of what is free at the start");
  flags->AddSize("--cuda-min-bytes", &server.devices.min_device_bytes, 0, kInt64Max,
                 "Work that moves fewer bytes than this stays on the CPU, which is quicker at it");
  flags->AddChoice("--cuda-out-of-memory", "cpu", {"cpu", "refuse"},
                   "What is done with work that a device has no memory for: left to the CPU, or refused",
                   [&server](const std::string& name) { server.devices.cpu_when_out_of_memory = name == "cpu"; });
  flags->AddInteger("--cuda-ipc-handles", &server.device_memory.max_handles, 0, 4096,
                    "How many allocations of other programs on this host may be mapped at once, so that their tensors are "
                    "worked on where they lie on a device (Tensor.device); 0: none is");
  flags->AddInteger("--cuda-ipc-peer-handles", &server.device_memory.peer_handles, 0, 4096,
                    "The same of one peer: all who come through Unix sockets, or all who come through loopback");
  flags->AddDuration("--cuda-ipc-lease", &server.device_memory.lease, "5s",
                     "How long one stays mapped after its last use; at least 10ms", kShortest);
  flags->AddInteger("--threads", &server.worker_threads, 0, 1024,
                    "Threads that build tables and run kernels; 0: as many as the CPU quota allows");
  flags->AddInteger(
      "--rpc-threads", &server.rpc_threads, 0, 64,
      "Threads that parse requests and finish calls, all but one at rest while little is to do; 0: as many as the CPU quota "
      "allows, at most 4");
  flags->AddSize("--cache-bytes", &server.cache_bytes, 0, kInt64Max, "What the table cache may hold");
  flags->AddSize("--pool-keep-bytes", &server.pool_keep_bytes, 0, kInt64Max,
                 "Buffers kept for the next request rather than given back to the system");
  flags->AddSize("--upload-bytes", &server.uploads.total_bytes, 0, kInt64Max,
                 "What content sent with UploadTensor may hold in all; 0: none is taken");
  flags->AddSize("--upload-peer-bytes", &server.uploads.peer_bytes, 0, kInt64Max, "The same of one peer (by address)");
  flags->AddDuration("--upload-ttl", &server.uploads.ttl, "1h", "How long such content is kept after its last use");
  flags->AddSize("--stream-chunk-bytes", &server.streams.chunk_bytes, kLeastChunkBytes, kMostChunkBytes,
                 "Payload of a stream's message, where the caller does not say");
  flags->AddInteger("--stream-window", &server.streams.window, 1, 64, "Chunks that are made ahead of the one being sent");
  flags->AddDuration("--stream-pause", &server.streams.pause, "30s",
                     "How long a stream's peer may neither send nor take a message before it is cut off; at least 10ms",
                     kShortest);
  flags->AddList("--warm", "TABLE", &server.warm, ";\n",
                 "Table to build before health turns on; may be repeated (in the variable: separated by ;): "
                 "[dtype=f32,][positions=N,][length=N,][layer_type=T,]SOURCE, where SOURCE is the path of a config.json or "
                 "an EncodingSpec as JSON");
}

void AddSharedMemory(FlagBuilder* flags, RegionOptions* regions) {
  flags->Group("Shared memory, for programs of the same user on this host (see SharedMemoryService)");
  flags->AddSize("--shared-memory-bytes", &regions->total_bytes, 0, kInt64Max,
                 "What regions may hold in all; 0: no memory is shared");
  flags->AddSize("--shared-memory-peer-bytes", &regions->peer_bytes, 0, kInt64Max,
                 "The same of one peer: all who come through Unix sockets, or all who come through loopback");
  flags->AddInteger("--shared-memory-regions", &regions->max_regions, 0, 65536,
                    "How many regions there may be; each takes a file descriptor");
  flags->AddDuration("--shared-memory-lease", &regions->lease, "5m",
                     "How long a region is kept after its last use; at least 10ms", kShortest);
}

void AddLimits(FlagBuilder* flags, Limits* limits) {
  flags->Group("Limits on what callers may ask for (GetServerInfo tells them)");
  for (const LimitRow& row : LimitRows()) {
    const std::string flag = Cat("--", absl::StrReplaceAll(ToAbsl(row.name), {{"_", "-"}}));
    std::string help = std::string(row.meaning);
    help[0] = absl::ascii_toupper(static_cast<unsigned char>(help[0]));
    if (row.unit == "bytes") {
      flags->AddSize(flag, &(limits->*row.field), row.lowest, row.highest, help);
    } else {
      flags->AddInteger(flag, &(limits->*row.field), row.lowest, row.highest, help);
    }
  }
}

void AddOperation(FlagBuilder* flags, PhasordOptions* options) {
  flags->Group("Logs and life cycle");
  flags->AddChoice("--log-format", "text", {"text", "json"}, "Form of log lines",
                   [options](const std::string& format) { options->log.json = format == "json"; });
  flags->AddChoice("--log-level", "info", {"debug", "info", "warning", "error", "off"}, "Least severity that is logged",
                   [options](const std::string& level) {
                     options->log.level = level == "debug"     ? LogLevel::kDebug
                                          : level == "info"    ? LogLevel::kInfo
                                          : level == "warning" ? LogLevel::kWarning
                                          : level == "error"   ? LogLevel::kError
                                                               : LogLevel::kOff;
                   });
  flags->AddInteger("--log-access-every", &options->server.log_access_every, 0, kInt64Max,
                    "Log one in so many successful calls (failed ones always); 0: none");
  flags->AddDuration("--drain-delay", &options->drain_delay, "5s",
                     "From the signal until new calls are refused, so that load balancers notice");
  flags->AddDuration("--drain-grace", &options->drain_grace, "30s", "Then, how long running calls may take to end");
  flags->AddSwitch("--check-config", &options->check_config,
                   "Check every flag and exit: 0 when all are right (that ports are free is not looked at)");
  flags->AddSwitch("--print-metrics", &options->print_metrics, "Print the metrics as a fresh server has them, and exit");
}

// What the flags of shared memory say only together: where there is any, somebody can get some. A quota of one peer that
// nobody gave may be above the total, which then counts alone.
absl::Status CheckRegions(const RegionOptions& regions, bool peer_given) {
  if (regions.total_bytes == 0) return absl::OkStatus();
  if (regions.max_regions < 1) {
    return absl::InvalidArgumentError(Cat("--shared-memory-regions: given \"", regions.max_regions,
                                          "\"; allowed: 1 to 65536 where --shared-memory-bytes is not 0"));
  }
  if (peer_given && (regions.peer_bytes < 1 || regions.peer_bytes > regions.total_bytes)) {
    return absl::InvalidArgumentError(Cat("--shared-memory-peer-bytes: given \"", FormatSize(regions.peer_bytes),
                                          "\"; allowed: 1 to ", FormatSize(regions.total_bytes),
                                          ", which --shared-memory-bytes allows in all"));
  }
  return absl::OkStatus();
}

std::vector<std::string> UnknownVariables(const std::set<std::string>& known) {
  std::vector<std::string> unknown;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable(*entry);
    const std::string name(variable.substr(0, variable.find('=')));
    if (!absl::StartsWith(name, "PHASOR_") || known.contains(name)) continue;
    // Kubernetes sets such names for a service called phasor; the tool and the build have theirs.
    if (absl::StrContains(name, "_SERVICE_") || absl::StrContains(name, "_PORT")) continue;
    if (name == "PHASOR_SERVER" || name == "PHASOR_TOOLS_DIR") continue;
    unknown.push_back(name);
  }
  return unknown;
}

void ListEffective(const CLI::App& app, PhasordOptions* options) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->get_envname().empty()) continue;
    options->effective.emplace_back(option->get_lnames().front(),
                                    option->count() > 0 ? absl::StrJoin(option->results(), ",") : option->get_default_str());
  }
}

}  // namespace

ParsedOptions ParseOptions(int argc, const char* const* argv) {
  PhasordOptions options;
  options.server.listen = {"127.0.0.1:50051"};
  options.server.metrics_listen = "127.0.0.1:9464";
  options.server.release_idle_memory = true;
  CLI::App app(kDescription);
  app.name("phasord");
  app.footer(kExamples);
  app.get_formatter()->column_width(42);
  app.set_help_flag("-h,--help", "This text")->group("Help");
  app.set_version_flag("--version", Cat("phasord ", PHASOR_VERSION, ", numerics ", kNumericsVersion), "Version")
      ->group("Help");
  FlagBuilder flags(&app, &options);
  AddListeners(&flags, &options);
  AddWork(&flags, &options);
  AddSharedMemory(&flags, &options.server.regions);
  AddLimits(&flags, &options.server.limits);
  AddOperation(&flags, &options);

  ParsedOptions parsed;
  // CLI11 speaks by exceptions: help and version are among them.
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream out, err;
    parsed.exit_code = app.exit(error, out, err) == 0 ? 0 : 2;
    parsed.text = parsed.exit_code == 0 ? out.str() : Cat("phasord: ", error.what(), "\n");
    return parsed;
  }
  const bool peer_given = app.get_option("--shared-memory-peer-bytes")->count() > 0;
  if (absl::Status status = CheckRegions(options.server.regions, peer_given); !status.ok()) {
    parsed.exit_code = 2;
    parsed.text = Cat("phasord: ", status.message(), "\n");
    return parsed;
  }
  if (options.server.metrics_listen == "off") options.server.metrics_listen.clear();
  options.server.metrics_fallback = app.get_option("--metrics-listen")->count() == 0;
  options.unknown_variables = UnknownVariables(flags.variables());
  ListEffective(app, &options);
  parsed.options = std::move(options);
  return parsed;
}

}  // namespace phasor::server
