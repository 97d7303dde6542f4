// phasor schemes, card, resolve: the catalogue.
#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "client/cli/card_pages.h"
#include "client/cli/card_text.h"
#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"

namespace phasor::cli {
namespace {

absl::Status RunSchemes(Tool& tool) {
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  auto answer = (*client)->ListSchemes();
  if (!answer.ok()) return answer.status();
  if (tool.json) return tool.PrintJson(*answer);
  std::string text;
  for (const v1::SchemeSummary& scheme : answer->schemes()) {
    absl::StrAppendFormat(&text, "%-18s %-6s %s%s\n", scheme.name(), scheme.family(), scheme.title(),
                          scheme.needs_sequence_length() ? "  (needs --length)" : "");
  }
  absl::StrAppend(&text, "\nphasor card SCHEME tells more.\n");
  return tool.Print(text);
}

struct CardArgs {
  std::string name;
  CardSizeArgs size;
  bool all = false;
  std::string output;
};

absl::Status RunCard(Tool& tool, const CardArgs& args) {
  if (args.all) {
    if (!args.name.empty()) return UsageError(absl::StrCat("SCHEME: given ", args.name, "; allowed: none with --all"));
    if (args.output.empty()) return UsageError("--output: given nothing; allowed: a folder, with --all");
    return WriteCardPages(tool, args.size, args.output);
  }
  if (args.name.empty()) return UsageError("SCHEME: given nothing; allowed: a name as `phasor schemes` lists it, or --all");
  if (!args.output.empty()) return UsageError("--output: given without --all; allowed: with --all");
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  v1::GetSchemeRequest request;
  request.set_name(args.name);
  request.set_positions(args.size.positions);
  request.set_width(args.size.width);
  request.set_heads(args.size.heads);
  auto card = (*client)->GetScheme(request);
  if (!card.ok()) return card.status();
  return tool.json ? tool.PrintJson(*card) : tool.Print(CardText(*card));
}

std::string LayerRanges(const google::protobuf::RepeatedField<int64_t>& layers) {
  std::string text;
  for (int i = 0; i < layers.size();) {
    int j = i;
    while (j + 1 < layers.size() && layers[j + 1] == layers[j] + 1) ++j;
    absl::StrAppend(&text, text.empty() ? "" : ", ", layers[i], j > i ? absl::StrCat("–", layers[j]) : "");
    i = j + 1;
  }
  return text;
}

void AppendNotes(std::string& text, absl::string_view title, const google::protobuf::RepeatedPtrField<v1::Warning>& notes) {
  for (const v1::Warning& note : notes)
    absl::StrAppend(&text, "  ", title, "  ", note.field(), note.field().empty() ? "" : ": ", note.message(), "\n");
}

void AppendNumbers(std::string& text, absl::string_view name, const google::protobuf::RepeatedField<double>& numbers) {
  constexpr int kShown = 4;
  if (numbers.empty()) return;
  std::vector<std::string> shown;
  for (int i = 0; i < std::min(numbers.size(), kShown); ++i) shown.push_back(absl::StrFormat("%.17g", numbers[i]));
  if (numbers.size() > kShown + 1) shown.push_back("…");
  if (numbers.size() > kShown) shown.push_back(absl::StrFormat("%.17g", numbers[numbers.size() - 1]));
  absl::StrAppend(&text, "  ", name, " [", numbers.size(), "]  ", absl::StrJoin(shown, ", "), "\n");
}

absl::Status AppendLayer(std::string& text, const v1::ResolvedLayer& layer) {
  absl::StrAppend(&text, "\n", layer.layer_type().empty() ? "all layers" : layer.layer_type());
  if (!layer.layers().empty()) absl::StrAppend(&text, "  (layers ", LayerRanges(layer.layers()), ")");
  absl::StrAppend(&text, "\n");
  if (layer.kind() == v1::POSITION_KIND_NONE) absl::StrAppend(&text, "  no position encoding\n");
  if (layer.kind() == v1::POSITION_KIND_UNSERVED)
    absl::StrAppend(&text, "  ", layer.unserved(), ": not served by this version\n");
  if (layer.has_spec()) {
    const auto json = ToJson(layer.spec(), /*pretty=*/false);
    if (!json.ok()) return json.status();
    absl::StrAppend(&text, "  scheme   ", layer.scheme(), "\n  spec     ", *json, "\n");
  }
  AppendNotes(text, "default", layer.defaults());
  AppendNotes(text, "derived", layer.derived());
  AppendNotes(text, "warning", layer.warnings());
  if (layer.num_q_heads() > 0)
    absl::StrAppend(&text, "  heads    ", layer.num_q_heads(), " query, ", layer.num_kv_heads(), " key/value\n");
  if (layer.max_position() > 0) absl::StrAppend(&text, "  maximum  ", layer.max_position(), " positions\n");
  AppendNumbers(text, "inv_freq", layer.inv_freq());
  AppendNumbers(text, "slopes", layer.slopes());
  if (layer.has_attention_factor())
    absl::StrAppendFormat(&text, "  attention_factor          %.17g\n", layer.attention_factor());
  if (layer.has_softmax_scale()) absl::StrAppendFormat(&text, "  softmax_scale             %.17g\n", layer.softmax_scale());
  if (layer.has_softmax_scale_multiplier())
    absl::StrAppendFormat(&text, "  softmax_scale_multiplier  %.17g\n", layer.softmax_scale_multiplier());
  if (layer.has_scale_after())
    absl::StrAppendFormat(&text, "  scale_after               %.17g  (times scores + bias)\n", layer.scale_after());
  if (layer.has_embedding_multiplier())
    absl::StrAppendFormat(&text, "  embedding_multiplier      %.17g\n", layer.embedding_multiplier());
  if (!layer.query_scale().empty()) absl::StrAppend(&text, "  query_scale  ", layer.query_scale(), "\n");
  for (const v1::NeededWeight& weight : layer.weights()) {
    absl::StrAppend(&text, "  weight   ", weight.name(), " [", absl::StrJoin(weight.shape(), ", "), "]",
                    weight.required() ? ", required" : "", ": ", weight.source(), "\n");
  }
  if (layer.has_mrope_positions()) {
    absl::StrAppend(&text, "  ids from images  ", v1::MropeLayout_Name(layer.mrope_layout()), "\n");
  }
  if (layer.has_grid_positions()) {
    absl::StrAppend(&text, "  rows and columns begin at ", absl::StrJoin(layer.grid_positions().starts(), ", "), "\n");
  }
  if (layer.inverse()) absl::StrAppend(&text, "  turns the other way: apply with --inverse\n");
  if (layer.needs_sequence_length()) absl::StrAppend(&text, "  depends on the sequence length (--length)\n");
  if (!layer.fingerprint().empty()) absl::StrAppend(&text, "  fingerprint  ", FormatHex(layer.fingerprint()), "\n");
  return absl::OkStatus();
}

absl::Status RunResolve(Tool& tool, const SpecArg& argument) {
  absl::StatusOr<v1::ResolveModelRequest> request = LoadConfig(argument);
  if (!request.ok()) return request.status();
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  auto model = (*client)->ResolveModel(*request);
  if (!model.ok()) return model.status();
  if (tool.json) return tool.PrintJson(*model);
  std::string text = absl::StrCat("model_type ", model->model_type().empty() ? "(not said)" : model->model_type(), "\n");
  AppendNotes(text, "warning", model->warnings());
  for (const v1::ResolvedLayer& layer : model->layers()) {
    if (absl::Status status = AppendLayer(text, layer); !status.ok()) return status;
  }
  return tool.Print(text);
}

}  // namespace

Command AddSchemes(CLI::App& app, Tool& tool) {
  CLI::App* command = app.add_subcommand("schemes", "List the schemes there are");
  return {command, [&tool] { return RunSchemes(tool); }};
}

Command AddCard(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<CardArgs>();
  CLI::App* command = app.add_subcommand("card", "Explain a scheme: formula, parameters, users, costs, failures, programs");
  command->footer(
      "  phasor card rope_yarn\n  phasor card alibi --positions 32768 --heads 40\n"
      "  phasor card --all -o cards/      every card as a page, with an index and a poster");
  command->add_option("SCHEME", args->name, "Name as `phasor schemes` lists it");
  command->add_option("--positions", args->size.positions, "Size that costs are computed for (default 4096)");
  command->add_option("--width", args->size.width, "Width of a head, or of a row of an absolute table (default 128)");
  command->add_option("--heads", args->size.heads, "Heads (default 32)");
  command->add_flag("--all", args->all, "Write pages of all schemes: needs -o");
  command->add_option("-o,--output", args->output, "Folder for the pages");
  return {command, [args, &tool] { return RunCard(tool, *args); }};
}

Command AddResolve(CLI::App& app, Tool& tool) {
  auto argument = std::make_shared<SpecArg>();
  CLI::App* command = app.add_subcommand("resolve", "Read a model's configuration: canonical specs, defaults, warnings");
  command->footer(
      "  phasor resolve config.json\n  phasor resolve phi3/config.json --length 131072 --json\n  phasor resolve model.gguf");
  command
      ->add_option("CONFIG", argument->tokens,
                   "A model's config.json or .gguf file: a path, - for standard input, or inline JSON")
      ->required();
  command->add_option("--layer-type", argument->layer_type, "Only this layer type");
  command->add_option("--length", argument->length, "Sequence length, for schemes that depend on it");
  return {command, [argument, &tool] { return RunResolve(tool, *argument); }};
}

}  // namespace phasor::cli
