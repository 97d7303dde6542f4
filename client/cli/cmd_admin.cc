// phasor tables, info, health: server state.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/tool.h"

namespace phasor::cli {
namespace {

struct TablesArgs {
  std::vector<std::string> evict;
  bool evict_all = false;
};

absl::Status Evict(Tool& tool, client::Client& client, const TablesArgs& args) {
  v1::EvictTablesRequest request;
  for (const std::string& name : args.evict) request.add_names(name);
  request.set_all(args.evict_all);
  auto answer = client.EvictTables(request);
  if (!answer.ok()) return answer.status();
  if (tool.json) return tool.PrintJson(*answer);
  return tool.Print(
      absl::StrCat("evicted ", answer->tiles(), " tiles, ", FormatBytes(static_cast<double>(answer->bytes())), "\n"));
}

absl::Status RunTables(Tool& tool, const TablesArgs& args) {
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  if (args.evict_all || !args.evict.empty()) return Evict(tool, **client, args);
  v1::ListTablesRequest request;
  v1::ListTablesResponse all;
  do {
    auto page = (*client)->ListTables(request);
    if (!page.ok()) return page.status();
    all.mutable_tables()->MergeFrom(page->tables());
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  if (tool.json) return tool.PrintJson(all);
  if (all.tables().empty()) return tool.Print("the cache is empty\n");
  std::string text =
      absl::StrFormat("%-24s %-18s %-5s %8s %10s %12s %8s\n", "name", "scheme", "dtype", "tiles", "rows", "bytes", "hits");
  for (const v1::CachedTable& table : all.tables()) {
    absl::StrAppendFormat(&text, "%-24s %-18s %-5s %8d %10d %12s %8d\n", table.name(), table.scheme(), table.dtype(),
                          table.tiles(), table.rows(), FormatBytes(static_cast<double>(table.bytes())), table.hits());
  }
  return tool.Print(text);
}

absl::Status RunInfo(Tool& tool) {
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  auto info = (*client)->GetServerInfo();
  if (!info.ok()) return info.status();
  if (tool.json) return tool.PrintJson(*info);
  const auto bytes = [](int64_t count) { return FormatBytes(static_cast<double>(count)); };
  std::string text = absl::StrFormat("phasord %s, numerics %d, backend %s (%s), %d worker threads, up %.0f s%s\n",
                                     info->version(), info->numerics_version(), info->backend(), info->backend_description(),
                                     info->worker_threads(), info->uptime_seconds(), info->draining() ? ", draining" : "");
  for (const v1::BackendState& backend : info->backends()) {
    if (!backend.usable()) absl::StrAppend(&text, "backend ", backend.name(), " is not usable: ", backend.reason(), "\n");
  }
  const v1::MemoryState& memory = info->memory();
  absl::StrAppend(&text, "memory: resident ", bytes(memory.resident_bytes()), ", cache ", bytes(memory.cache_bytes()),
                  " of ", bytes(memory.cache_capacity_bytes()), ", evicted and in use ",
                  bytes(memory.evicted_in_use_bytes()), ", pool ", bytes(memory.pool_used_bytes()), " used, ",
                  bytes(memory.pool_free_bytes()), " free, in flight ", bytes(memory.inflight_bytes()), "\n\nlimits\n");
  for (const v1::Limit& limit : info->limits()) {
    absl::StrAppendFormat(&text, "  %-22s %14d %-10s %s\n", limit.name(), limit.value(), limit.unit(), limit.meaning());
  }
  return tool.Print(text);
}

absl::Status RunHealth(Tool& tool, const std::string& service) {
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  if (absl::Status status = (*client)->CheckHealth(service); !status.ok()) return status;
  return tool.Print(tool.json ? "{\"status\": \"SERVING\"}\n" : "SERVING\n");
}

}  // namespace

Command AddTables(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<TablesArgs>();
  CLI::App* command = app.add_subcommand("tables", "List what the server's cache holds, or evict from it");
  command->add_option("--evict", args->evict, "Evict the table of this name (on the server's admin listener)");
  command->add_flag("--evict-all", args->evict_all, "Evict everything (on the server's admin listener)");
  return {command, [args, &tool] { return RunTables(tool, *args); }};
}

Command AddInfo(CLI::App& app, Tool& tool) {
  CLI::App* command = app.add_subcommand("info", "Show the server's version, backend, memory and limits");
  return {command, [&tool] { return RunInfo(tool); }};
}

Command AddHealth(CLI::App& app, Tool& tool) {
  auto service = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("health", "Exit with 0 when the server is serving (for container health checks)");
  command->add_option("SERVICE", *service, "Full service name, or liveness (default: the server as a whole)");
  return {command, [service, &tool] { return RunHealth(tool, *service); }};
}

}  // namespace phasor::cli
