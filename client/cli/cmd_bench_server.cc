// phasor bench-server: load on a server, and how it took it.
#include <malloc.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/embedded.h"
#include "client/cli/load_args.h"
#include "client/cli/load_report.h"
#include "client/cli/load_run.h"
#include "client/cli/load_scenarios.h"
#include "client/cli/progress.h"
#include "client/cli/tool.h"

namespace phasor::cli {
namespace {

constexpr int64_t kMostRequests = 100'000'000;
constexpr int64_t kMostCallers = 1024;
constexpr int64_t kClosedCallers = 16, kOpenCallers = 64;
constexpr double kMostRate = 1e6;

struct BenchArgs {
  std::optional<double> rate;
  std::optional<int64_t> concurrency, requests;
  int64_t connections = 1;
  std::string duration, idle_gap, mix = "table";
};

// Everything of the plan that needs no server, checked.
struct BenchPlan {
  LoadPlan load;
  std::string mode;
  int64_t callers = 1;
  std::vector<std::pair<std::string, int64_t>> mix;
};

absl::StatusOr<BenchPlan> MakePlan(const BenchArgs& args) {
  BenchPlan plan;
  plan.load.requests = args.requests.value_or(kMostRequests);
  if (!args.duration.empty() || !args.requests) {
    const auto duration = ParseDuration("--duration", args.duration.empty() ? "10s" : args.duration);
    if (!duration.ok()) return duration.status();
    plan.load.duration_ns = *duration;
  }
  if (args.rate && !(*args.rate >= 1e-3 && *args.rate <= kMostRate)) {
    return UsageError(absl::StrFormat("--rate: given %g; allowed: 0.001 to %g calls per second", *args.rate, kMostRate));
  }
  plan.mode = args.rate ? "rate" : args.idle_gap.empty() ? "closed" : "idle";
  plan.load.rate = args.rate.value_or(0);
  plan.callers = args.concurrency.value_or(args.rate ? kOpenCallers : kClosedCallers);
  if (plan.mode == "idle") {
    if (args.concurrency.value_or(1) != 1 || args.connections != 1) {
      return UsageError(
          "--idle-gap: one call at a time over one connection; allowed: no --concurrency or --connections beside it");
    }
    const auto gap = ParseDuration("--idle-gap", args.idle_gap);
    if (!gap.ok()) return gap.status();
    if (*gap >= plan.load.duration_ns) {
      return UsageError(absl::StrCat("--idle-gap: given '", args.idle_gap, "'; allowed: less than --duration, ",
                                     args.duration.empty() ? "10s by default" : args.duration,
                                     ": every call comes after a pause of this length"));
    }
    plan.load.gap_ns = *gap;
    plan.callers = 1;
  }
  if (args.connections > plan.callers) {
    return UsageError(
        absl::StrCat("--connections: given ", args.connections, "; allowed: up to the calls in flight, ", plan.callers));
  }
  auto mix = ParseMix(args.mix, LoadScenarioNames());
  if (!mix.ok()) return mix.status();
  plan.mix = *std::move(mix);
  return plan;
}

// A call of each kind over each connection, which nothing counts: connections are made and tables built, and what the server
// would refuse is refused here.
absl::Status WarmUp(LoadRun& run, const std::vector<std::string>& names) {
  for (size_t i = 0; i < run.calls.size(); ++i) {
    for (const auto& client : run.clients) {
      if (absl::Status status = run.calls[i](*client).status; !status.ok()) {
        absl::Status named(status.code(), absl::StrCat(names[i], ": ", status.message()));
        status.ForEachPayload([&](auto url, const auto& payload) { named.SetPayload(url, payload); });
        return named;
      }
    }
  }
  return absl::OkStatus();
}

// What the server's main sets, for the same reason: most of the time of a large message is page faults otherwise.
void TuneMalloc() {
  mallopt(M_MMAP_THRESHOLD, 256 << 20);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

// Draws how far the run is: by whichever bound is nearer.
std::function<void(int64_t, int64_t, double)> Progressed(Tool& tool, const LoadPlan& plan) {
  auto line = std::make_shared<ProgressLine>(tool.progress, "bench");
  return [line, plan](int64_t calls, int64_t failed, double seconds) {
    const double share = std::max(static_cast<double>(calls) / static_cast<double>(plan.requests),
                                  seconds * 1e9 / static_cast<double>(plan.duration_ns));
    line->Show(share, absl::StrFormat("%d calls, %d failed, %.1f s", calls, failed, seconds));
  };
}

absl::Status Run(Tool& tool, const BenchArgs& args) {
  const absl::StatusOr<BenchPlan> plan = MakePlan(args);
  if (!plan.ok()) return plan.status();
  TuneMalloc();
  std::unique_ptr<EmbeddedServer> embedded;  // outlives the clients
  LoadReport report;
  report.server = tool.server;
  if (tool.server.empty()) {
    auto started = EmbeddedServer::Start(tool.backend, /*on_loopback=*/true);
    if (!started.ok()) return started.status();
    embedded = *std::move(started);
    report.server = embedded->Address();
    report.embedded = true;
  }
  LoadRun run;
  run.plan = plan->load;
  run.callers = plan->callers;
  for (const auto& [name, weight] : plan->mix) {
    report.names.push_back(name);
    run.weights.push_back(weight);
    for (const LoadScenario& scenario : LoadScenarios()) {
      if (scenario.name == name) run.calls.push_back(scenario.prepare());
    }
  }
  client::ClientOptions options;
  options.deadline = std::chrono::seconds(tool.timeout_seconds);
  options.stream_deadline = options.deadline;
  options.max_attempts = 1;  // a refusal is a result
  options.own_connection = true;
  for (int64_t i = 0; i < args.connections; ++i) run.clients.push_back(client::Client::Connect(report.server, options));
  if (absl::Status status = WarmUp(run, report.names); !status.ok()) return status;

  run.progress = Progressed(tool, plan->load);
  report.mode = plan->mode;
  report.rate = plan->load.rate;
  report.gap_ns = plan->load.gap_ns;
  report.concurrency = plan->callers;
  report.connections = args.connections;
  report.result = run.Run();
  run.progress = nullptr;  // ends its line
  if (absl::Status status = tool.Print(tool.json ? report.Json() : report.Text()); !status.ok()) return status;
  const int64_t failed = report.result.all.failed();
  if (failed == 0) return absl::OkStatus();
  const auto& [code, failure] = *report.result.all.failures.begin();
  return SaidInOutput(absl::Status(
      code, absl::StrCat(failed, " of ", report.result.all.calls, " calls failed; the first one: ", failure.message)));
}

std::string Footer() {
  std::string text = "Scenarios for --mix:\n";
  for (const LoadScenario& scenario : LoadScenarios()) {
    absl::StrAppendFormat(&text, "  %-13s %s\n", scenario.name, scenario.what);
  }
  return text +
         "\nLatency counts from when a call was due: with --rate that is the schedule, however late the call began, so that "
         "a\n"
         "server that stalls is charged for every call that waited. Calls are not tried again. Without --server the server "
         "runs\n"
         "in this process and is reached over loopback TCP; both share the processors, so start one apart for figures.\n\n"
         "  phasor --server 127.0.0.1:50051 bench-server --rate 2000 --duration 30s --connections 4\n"
         "  phasor bench-server --concurrency 8 --requests 10000 --mix table=9,apply-1m=1\n"
         "  phasor bench-server --idle-gap 1.05s --requests 60\n\n"
         "Exit code: 1 when a call failed.";
}

}  // namespace

Command AddBenchServer(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<BenchArgs>();
  CLI::App* command = app.add_subcommand("bench-server", "Put a bounded load on a server: latencies, rates, errors");
  command->footer(Footer());
  CLI::Option* rate =
      command->add_option("--rate", args->rate,
                          "Calls per second that are due whatever the server does (default: a call when a caller is free)");
  command
      ->add_option("--concurrency", args->concurrency,
                   absl::StrCat("Calls in flight; with --rate: at most (default ", kClosedCallers, "; with --rate ",
                                kOpenCallers, ")"))
      ->check(CLI::Range(int64_t{1}, kMostCallers));
  command->add_option("--connections", args->connections, "Connections that the callers share")
      ->check(CLI::Range(int64_t{1}, kMostCallers))
      ->default_str("1");
  command->add_option("--requests", args->requests, "Calls at most")->check(CLI::Range(int64_t{1}, kMostRequests));
  command->add_option("--duration", args->duration, "How long, such as 30s or 500ms (default 10s, without --requests)");
  command->add_option("--idle-gap", args->idle_gap, "One call after each pause of this length, such as 1.05s")
      ->excludes(rate);
  command->add_option("--mix", args->mix, "Scenarios and their weights: table=9,apply-1m=1")->default_str("table");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
