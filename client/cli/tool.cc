#include "client/cli/tool.h"

#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "google/protobuf/util/json_util.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "client/cli/embedded.h"
#include "client/cli/text.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

constexpr char kUsagePayload[] = "phasor.cli/usage";
constexpr char kSaidPayload[] = "phasor.cli/said";

const std::map<std::string, Progress> kProgressNames = {
    {"auto", Progress::kAuto}, {"always", Progress::kAlways}, {"never", Progress::kNever}};

}  // namespace

absl::Status UsageError(std::string_view message) {
  absl::Status status = absl::InvalidArgumentError(View(message));
  status.SetPayload(kUsagePayload, absl::Cord());
  return status;
}

bool IsUsageError(const absl::Status& status) { return status.GetPayload(kUsagePayload).has_value(); }

absl::Status SaidInOutput(absl::Status status) {
  status.SetPayload(kSaidPayload, absl::Cord());
  return status;
}

struct Tool::Embedded {
  std::unique_ptr<EmbeddedServer> server;
};

Tool::Tool() = default;
Tool::~Tool() {
  client_.reset();  // its channel must be gone before the server that it is in process with
  embedded_.reset();
}

absl::StatusOr<client::Client*> Tool::Connect() {
  if (client_ != nullptr) return client_.get();
  const client::ClientOptions options{.deadline = std::chrono::seconds(timeout_seconds)};
  if (!server.empty()) {
    client_ = client::Client::Connect(server, options);
    return client_.get();
  }
  absl::StatusOr<std::unique_ptr<EmbeddedServer>> started = EmbeddedServer::Start(backend);
  if (!started.ok()) return started.status();
  embedded_ = std::make_unique<Embedded>();
  embedded_->server = *std::move(started);
  client_ = client::Client::Over(embedded_->server->Channel(), options);
  return client_.get();
}

absl::Status Tool::Print(std::string_view text) const {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return absl::DataLossError("cannot write to standard output");
  }
  return absl::OkStatus();
}

absl::Status Tool::PrintJson(const google::protobuf::Message& message) const {
  absl::StatusOr<std::string> text = ToJson(message, /*pretty=*/true);
  return text.ok() ? Print(*text) : text.status();
}

void Tool::Say(std::string_view text) const { std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data()); }

absl::StatusOr<std::string> ToJson(const google::protobuf::Message& message, bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = pretty;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = pretty;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return absl::InternalError(absl::StrCat("cannot print as JSON: ", std::string(status.message())));
  return text;
}

std::string FormatBytes(double bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int unit = 0;
  while (bytes >= 1024 && unit < 4) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", bytes) : absl::StrFormat("%.1f %s", bytes, kUnits[unit]);
}

std::string FormatNanoseconds(double ns) {
  if (ns < 1e3) return absl::StrFormat("%.0f ns", ns);
  if (ns < 1e6) return absl::StrFormat("%.1f us", ns / 1e3);
  if (ns < 1e9) return absl::StrFormat("%.1f ms", ns / 1e6);
  return absl::StrFormat("%.2f s", ns / 1e9);
}

std::string FormatHex(std::string_view bytes) {
  std::string text;
  for (const unsigned char byte : bytes) absl::StrAppendFormat(&text, "%02x", byte);
  return text;
}

namespace {

// {"error": {code, message, violations: [{field, description}]}}, for scripts.
std::string ErrorJson(const absl::Status& status) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.StartObject();
  writer.Key("error");
  writer.StartObject();
  writer.Key("code");
  writer.String(absl::StatusCodeToString(status.code()).c_str());
  writer.Key("message");
  writer.String(std::string(status.message()).c_str());
  writer.Key("violations");
  writer.StartArray();
  google::rpc::Status details;
  google::rpc::BadRequest bad_request;
  const auto payload = status.GetPayload(client::kDetailsPayload);
  if (payload && details.ParseFromString(std::string(*payload))) {
    for (const auto& detail : details.details()) {
      if (!detail.UnpackTo(&bad_request)) continue;
      for (const auto& violation : bad_request.field_violations()) {
        writer.StartObject();
        writer.Key("field");
        writer.String(violation.field().c_str());
        writer.Key("description");
        writer.String(violation.description().c_str());
        writer.EndObject();
      }
    }
  }
  writer.EndArray();
  writer.EndObject();
  writer.EndObject();
  return absl::StrCat(buffer.GetString(), "\n");
}

int Report(const Tool& tool, const absl::Status& status) {
  if (status.ok()) return kExitOk;
  tool.Say(absl::StrCat("phasor: ", status.message()));
  if (absl::StrContains(status.message(), "sequence_length: given nothing"))
    tool.Say("(--length gives the sequence length)");
  if (tool.json && !status.GetPayload(kSaidPayload)) (void)tool.Print(ErrorJson(status));
  if (IsUsageError(status)) return kExitUsage;
  if (status.code() != absl::StatusCode::kInvalidArgument)
    tool.Say(absl::StrCat("(", absl::StatusCodeToString(status.code()), ")"));
  return kExitFailed;
}

void AddGlobalOptions(CLI::App& app, Tool& tool) {
  app.require_subcommand(1);
  app.fallthrough();
  app.set_version_flag("--version", std::string("phasor " PHASOR_VERSION));
  app.add_option("--server", tool.server,
                 "HOST:PORT of a server; without it the tool runs the very same server inside its own process")
      ->envname("PHASOR_SERVER");
  app.add_option("--backend", tool.backend, "Backend of the embedded server: auto, cuda, cpu or reference")
      ->check(CLI::IsMember({"auto", "cuda", "cpu", "reference"}))
      ->default_str("auto");
  app.add_flag("--json", tool.json, "Print JSON on standard output, for scripts");
  app.add_option("--timeout", tool.timeout_seconds, "Seconds that one call may take")
      ->check(CLI::Range(1, 86400))
      ->default_str("60");
  AddChoice(app, "--progress", tool.progress, kProgressNames, "Progress bar: auto (on a terminal), always or never")
      ->default_str("auto");
}

}  // namespace

int RunTool(int argc, const char* const* argv) {
  Tool tool;
  CLI::App app(
      "phasor: exact position encodings and attention biases.\n\n"
      "Reads a model's config.json and gives the exact numbers of its position encoding, from a Phasor server or without "
      "one.",
      "phasor");
  AddGlobalOptions(app, tool);
  app.footer(
      "Start here:\n"
      "  phasor resolve config.json                              what does this model use?\n"
      "  phasor table config.json --positions 0:4096 -o t.npz    its cos and sin\n"
      "  phasor bias bloom.json --queries 512 --keys 512 -o b.npy\n"
      "  phasor apply config.json --input q.npy -o rotated.npy\n\n"
      "Exit code: 0; 2 for wrong usage; 1 for a refused or failed call.");
  std::vector<Command> commands;
  for (const auto add :
       {AddSchemes, AddCard, AddResolve, AddCompare, AddDiagnose, AddDistill, AddRecommend, AddMemory, AddPlot, AddTable,
        AddBias, AddApply, AddResize, AddScores, AddUpload, AddTables, AddInfo, AddHealth, AddBenchServer}) {
    commands.push_back(add(app, tool));
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const std::vector<std::string> unknown = app.remaining();
    if (app.get_subcommands().empty() && !unknown.empty()) {
      std::vector<std::string> names;
      for (const Command& command : commands) names.push_back(command.app->get_name());
      tool.Say(absl::StrCat("phasor: command: given '", unknown.front(), "'; allowed: ", absl::StrJoin(names, ", ")));
      return kExitUsage;
    }
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  for (const Command& command : commands) {
    if (command.app->parsed()) return Report(tool, command.run());
  }
  return kExitUsage;
}

}  // namespace phasor::cli
