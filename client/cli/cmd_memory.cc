// phasor memory: what an encoding takes in memory.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

struct MemoryArgs {
  SpecArg spec;
  int64_t batch = 0, queries = 0, keys = 0;
  v1::Dtype dtype = v1::DTYPE_F32;
};

// A configuration goes as it is, with all its layer types; anything else as a spec.
absl::Status Fill(const MemoryArgs& args, Tool& tool, v1::ComparedSide& source) {
  SpecArg spec = args.spec;
  if (spec.tokens.size() == 1) {
    absl::StatusOr<v1::ResolveModelRequest> config = LoadConfig(args.spec);
    if (config.ok() && absl::StrContains(config->config_json(), "\"model_type\"")) {
      source.set_config_json(std::move(*config->mutable_config_json()));
      source.set_layer_type(args.spec.layer_type);
      return absl::OkStatus();
    }
    // Standard input is read once.
    if (config.ok() && spec.tokens.front() == "-") {
      spec.tokens = {std::string(absl::StripAsciiWhitespace(config->config_json()))};
    }
  }
  absl::StatusOr<LoadedSpec> loaded = LoadSpec(spec, tool);
  if (!loaded.ok()) return loaded.status();
  *source.mutable_spec() = std::move(loaded->spec);
  return absl::OkStatus();
}

std::string CountText(double count) {
  if (count == 0) return "–";
  return count < 1e6 ? absl::StrFormat("%.0f", count) : absl::StrFormat("%.3g", count);
}

std::string BytesOrNone(double bytes) { return bytes > 0 ? FormatBytes(bytes) : "–"; }

// Cells as wide as the widest of their column, counted in characters.
class Table {
 public:
  void Add(std::vector<std::string> cells) {
    if (widths_.size() < cells.size()) widths_.resize(cells.size());
    for (size_t i = 0; i < cells.size(); ++i) widths_[i] = std::max(widths_[i], Width(cells[i]));
    rows_.push_back(std::move(cells));
  }
  std::string Text() const {
    std::string text;
    for (const auto& row : rows_) {
      std::string line;
      for (size_t i = 0; i < row.size(); ++i) {
        line += row[i];
        if (i + 1 < row.size()) line.append(widths_[i] - Width(row[i]) + 2, ' ');
      }
      absl::StrAppend(&text, line, "\n");
    }
    return text;
  }

 private:
  static size_t Width(const std::string& text) {  // of UTF-8
    size_t width = 0;
    for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80 ? 1 : 0;
    return width;
  }
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

absl::Status Run(Tool& tool, const MemoryArgs& args) {
  v1::PlanMemoryRequest request;
  request.set_batch(args.batch);
  request.set_query_length(args.queries);
  request.set_key_length(args.keys);
  request.set_dtype(args.dtype);
  if (absl::Status status = Fill(args, tool, *request.mutable_source()); !status.ok()) return status;
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  const auto answer = (*client)->PlanMemory(request);
  if (!answer.ok()) return answer.status();
  if (tool.json) return tool.PrintJson(*answer);
  Table table;
  table.Add({"", "layers", "what", "form", "bytes", "in cache", "on device", "operations", "note"});
  for (const v1::MemoryUse& use : answer->uses()) {
    table.Add({use.advised() ? "*" : "", use.layer_type(), use.what(), use.form(), BytesOrNone(use.bytes()),
               BytesOrNone(use.cached_bytes()), BytesOrNone(use.device_bytes()), CountText(use.operations()), use.note()});
  }
  return tool.Print(absl::StrCat(table.Text(), "\n* ", answer->advice(), "\n"));
}

}  // namespace

Command AddMemory(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<MemoryArgs>();
  CLI::App* command = app.add_subcommand("memory", "Tell what tables, biases and ids of a model take in memory");
  command->footer(
      "  phasor memory llama/config.json --keys 131072\n"
      "  phasor memory bloom.json --batch 8 --queries 1 --keys 2048 --dtype bf16\n"
      "  phasor memory rope_default head_dim=128 --keys 8192 --json");
  args->spec.AddTo(*command);
  command->add_option("--batch", args->batch, "Sequences (default 1)");
  command->add_option("--queries", args->queries, "Queries of a sequence (default as many as keys)");
  command->add_option("--keys", args->keys, "Keys of a sequence")->required();
  AddChoice(*command, "--dtype", args->dtype, kDTypeNames, "Element type")->default_str("f32");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
