// phasor scores: attention scores of queries and keys from files.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "client/cli/call_report.h"
#include "client/cli/positions_arg.h"
#include "client/cli/result_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

struct ScoresArgs {
  std::string q, k, rope;
  std::vector<std::string> biases, terms, weights, bias_weights;
  std::optional<int64_t> length;
  std::string query_positions, key_positions;
  v1::Layout layout = v1::LAYOUT_BSHD;
  v1::Dtype dtype = v1::DTYPE_UNSPECIFIED;
  std::optional<double> scale;
  int64_t first_head = 0;
  bool bias_then_scale = false, causal = false, softmax = false, omit_content = false;
  std::optional<int64_t> window, chunk;
  std::vector<int64_t> prefix, cu_seqlens, key_cu_seqlens;
  std::string key_padding;
  OutputArg output;
};

struct Request {
  v1::ScoresRequest message;
  raw::Payloads payloads;
};

// The only array of a file.
absl::StatusOr<std::shared_ptr<LoadedArray>> LoadOne(const std::string& option, const std::string& path) {
  absl::StatusOr<ArrayFormat> format = FormatOf(path, "");
  if (!format.ok()) return format.status();
  absl::StatusOr<std::vector<LoadedArray>> arrays = ReadArrays(path, *format);
  if (!arrays.ok()) return arrays.status();
  if (arrays->size() != 1) {
    return UsageError(absl::StrCat(option, ": ", path, " holds ", arrays->size(), " arrays; allowed: one"));
  }
  return std::make_shared<LoadedArray>(std::move(arrays->front()));
}

void SetTensor(const std::shared_ptr<LoadedArray>& array, v1::Tensor* tensor, raw::Payloads& payloads) {
  tensor->set_dtype(ToWire(array->info.dtype));
  for (const int64_t extent : array->info.shape) tensor->add_shape(extent);
  const raw::Piece piece{array, array->data.data(), array->data.size()};
  tensor->set_data(payloads.Add({&piece, 1}));
}

// A spec in one argument: as SPEC is elsewhere, its words separated by blanks.
absl::StatusOr<LoadedSpec> LoadOneSpec(const std::string& text, const ScoresArgs& args, Tool& tool) {
  SpecArg argument;
  const size_t first = text.find_first_not_of(' ');
  if (first != std::string::npos && text[first] == '{') {
    argument.tokens = {text};
  } else {
    argument.tokens = absl::StrSplit(text, ' ', absl::SkipEmpty());
  }
  argument.length = args.length;
  return LoadSpec(argument, tool);
}

absl::Status SetPositions(const std::string& text, v1::Positions* out) {
  if (text.empty()) return absl::OkStatus();
  absl::StatusOr<PositionsArg> positions = ParsePositions(text);
  if (!positions.ok()) return positions.status();
  *out = positions->Window(0, positions->count);
  return absl::OkStatus();
}

// INDEX:NAME=FILE: a weight of the INDEX-th of `specs`, which are called `what`.
absl::Status AddWeight(const std::string& option, const std::string& what, const std::string& text,
                       google::protobuf::RepeatedPtrField<v1::EncodingSpec>* specs, raw::Payloads& payloads) {
  const size_t colon = text.find(':'), equals = text.find('=');
  const std::string usage = absl::StrCat(option, ": given ", text, "; allowed: INDEX:NAME=FILE, such as 0:keys=table.npy");
  if (colon == std::string::npos || equals == std::string::npos || equals < colon) return UsageError(usage);
  const std::string number = text.substr(0, colon);
  int index = 0;
  if (number.empty() || number.find_first_not_of("0123456789") != std::string::npos || number.size() > 4)
    return UsageError(usage);
  index = std::stoi(number);
  if (index >= specs->size()) {
    const std::string allowed = specs->empty() ? "none" : absl::StrCat("0 … ", specs->size() - 1);
    return UsageError(absl::StrCat(option, ": given ", what, " ", index, "; allowed: ", allowed));
  }
  auto array = LoadOne(option, text.substr(equals + 1));
  if (!array.ok()) return array.status();
  v1::Weight* weight = specs->Mutable(index)->add_weights();
  weight->set_name(text.substr(colon + 1, equals - colon - 1));
  SetTensor(*array, weight->mutable_tensor(), payloads);
  return absl::OkStatus();
}

absl::Status SetMasking(const ScoresArgs& args, v1::ScoresItem* item, raw::Payloads& payloads) {
  if (args.causal) item->mutable_masking()->set_causal(true);
  if (args.window) item->mutable_masking()->set_sliding_window(*args.window);
  if (args.chunk) item->mutable_masking()->set_chunk_size(*args.chunk);
  for (const int64_t keys : args.prefix) item->mutable_masking()->add_prefix(keys);
  for (const int64_t end : args.cu_seqlens) item->mutable_masking()->add_query_cu_seqlens(end);
  for (const int64_t end : args.key_cu_seqlens) item->mutable_masking()->add_key_cu_seqlens(end);
  if (args.key_padding.empty()) return absl::OkStatus();
  auto array = LoadOne("--key-padding", args.key_padding);
  if (!array.ok()) return array.status();
  SetTensor(*array, item->mutable_masking()->mutable_key_padding(), payloads);
  return absl::OkStatus();
}

absl::Status SetSpecs(const ScoresArgs& args, Tool& tool, v1::ScoresItem* item) {
  if (!args.rope.empty()) {
    auto loaded = LoadOneSpec(args.rope, args, tool);
    if (!loaded.ok()) return loaded.status();
    *item->mutable_rotation() = loaded->spec;
    if (loaded->sequence_length) item->set_sequence_length(*loaded->sequence_length);
  }
  for (const std::string& text : args.terms) {
    auto loaded = LoadOneSpec(text, args, tool);
    if (!loaded.ok()) return loaded.status();
    *item->add_terms() = loaded->spec;
  }
  for (const std::string& text : args.biases) {
    auto loaded = LoadOneSpec(text, args, tool);
    if (!loaded.ok()) return loaded.status();
    *item->add_biases() = loaded->spec;
  }
  return absl::OkStatus();
}

absl::StatusOr<Request> Build(const ScoresArgs& args, Tool& tool) {
  Request request;
  v1::ScoresItem* item = request.message.add_items();
  auto q = LoadOne("--q", args.q);
  if (!q.ok()) return q.status();
  auto k = LoadOne("--k", args.k);
  if (!k.ok()) return k.status();
  SetTensor(*q, item->mutable_q(), request.payloads);
  SetTensor(*k, item->mutable_k(), request.payloads);
  if (absl::Status status = SetSpecs(args, tool, item); !status.ok()) return status;
  for (const std::string& weight : args.weights) {
    absl::Status status = AddWeight("--weight", "term", weight, item->mutable_terms(), request.payloads);
    if (!status.ok()) return status;
  }
  for (const std::string& weight : args.bias_weights) {
    absl::Status status = AddWeight("--bias-weight", "bias", weight, item->mutable_biases(), request.payloads);
    if (!status.ok()) return status;
  }
  absl::Status status = SetMasking(args, item, request.payloads);
  if (!status.ok()) return status;
  if (!args.query_positions.empty()) status = SetPositions(args.query_positions, item->mutable_query_positions());
  if (status.ok() && !args.key_positions.empty()) status = SetPositions(args.key_positions, item->mutable_key_positions());
  if (!status.ok()) return status;
  item->set_layout(args.layout);
  item->set_dtype(args.dtype);
  item->set_first_head(args.first_head);
  item->set_omit_content(args.omit_content);
  item->set_softmax(args.softmax);
  if (args.scale) item->set_scale(*args.scale);
  if (args.bias_then_scale) item->set_scale_order(v1::SCALE_ORDER_BIAS_THEN_SCALE);
  return request;
}

absl::Status Write(client::Client& client, const ScoresArgs& args, const v1::ScoresResult& result,
                   const raw::Payloads& payloads) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.output.path, args.output.format);
  if (!format.ok()) return format.status();
  std::vector<ArrayInfo> arrays = {InfoOf("scores", result.scores())};
  if (result.has_values()) arrays.push_back(InfoOf("values", result.values()));
  if (absl::Status status = CheckHolds(*format, arrays); !status.ok()) return status;
  const auto metadata = MetadataOf(client, v1::EncodingSpec(), "");
  if (!metadata.ok()) return metadata.status();
  auto writer = ArrayWriter::Create(args.output.path, *format, std::move(arrays), *metadata);
  if (!writer.ok()) return writer.status();
  absl::Status status = AppendTensor(**writer, 0, result.scores(), payloads);
  if (status.ok() && result.has_values()) status = AppendTensor(**writer, 1, result.values(), payloads);
  return status.ok() ? (*writer)->Finish() : status;
}

absl::Status Run(Tool& tool, const ScoresArgs& args) {
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  absl::StatusOr<Request> request = Build(args, tool);
  if (!request.ok()) return request.status();
  const auto start = std::chrono::steady_clock::now();
  auto answer = (*client)->Scores(request->message, request->payloads);
  if (!answer.ok()) return answer.status();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (answer->message.results_size() != 1) return absl::InternalError("the server answered with another number of results");
  const v1::ScoresResult& result = answer->message.results(0);
  if (absl::Status status = ItemStatus(result.status()); !status.ok()) return status;
  if (absl::Status status = Write(**client, args, result, answer->payloads); !status.ok()) return status;
  CallReport report;
  report.Add(result, answer->message.stages());
  return report.Print(tool, absl::StrFormat("%s, scale %.9g", args.softmax ? "probabilities" : "scores", result.scale()),
                      args.output.path, seconds);
}

}  // namespace

Command AddScores(CLI::App& app, Tool& tool) {
  CLI::App* command = app.add_subcommand("scores", "Attention scores: q·k with rotation, terms, biases and masks");
  const auto args = std::make_shared<ScoresArgs>();
  command->add_option("--q", args->q, "Queries, [batch, sequence, heads, channels]")->required();
  command->add_option("--k", args->k, "Keys, of the same type")->required();
  command->add_option("--rope", args->rope, "SPEC that rotates both, words separated by blanks");
  command->add_option("--length", args->length, "Sequence length, for schemes that depend on it");
  command->add_option("--bias", args->biases, "SPEC of a bias; may be given several times")->allow_extra_args(false);
  command->add_option("--term", args->terms, "SPEC of a term of q and k; may be given several times")
      ->allow_extra_args(false);
  command->add_option("--weight", args->weights, "TERM:NAME=FILE: a weight of the TERM-th --term, from 0")
      ->allow_extra_args(false);
  command->add_option("--bias-weight", args->bias_weights, "BIAS:NAME=FILE: a weight of the BIAS-th --bias, from 0")
      ->allow_extra_args(false);
  command->add_option("--query-positions", args->query_positions,
                      "START:STOP[:STEP] or a list (default: aligned to the last key)");
  command->add_option("--key-positions", args->key_positions, "The same for keys (default: from 0)");
  AddChoice(*command, "--layout", args->layout, kLayoutNames, "Axes of the arrays (default: bshd)");
  AddChoice(*command, "--dtype", args->dtype, kDTypeNames, "Type of the answer (default: that of q)");
  command->add_option("--scale", args->scale, "Factor on q·k (default: 1/√channels)");
  command->add_option("--first-head", args->first_head, "First global head of the arrays");
  command->add_flag("--bias-then-scale", args->bias_then_scale, "(q·k + bias)·scale instead of q·k·scale + bias");
  command->add_flag("--causal", args->causal, "Hide keys after the query");
  command->add_option("--window", args->window, "Hide keys that many places or more away");
  command->add_option("--chunk", args->chunk, "Hide keys outside the query's chunk of so many places");
  command
      ->add_option("--prefix", args->prefix,
                   "So many first keys are not hidden by --causal and --window: one number, or one per batch row (2,0)")
      ->delimiter(',');
  command->add_option("--key-padding", args->key_padding,
                      "File with the keys that are there: 0 and 1, [keys] or [batch, keys] (.npy, .npz, .safetensors)");
  command
      ->add_option("--cu-seqlens", args->cu_seqlens,
                   "Packing: ends of the sequences, from 0 (0,3,5); a query sees its own sequence only")
      ->delimiter(',');
  command->add_option("--key-cu-seqlens", args->key_cu_seqlens, "The same for keys (default: as --cu-seqlens)")
      ->delimiter(',');
  command->add_flag("--softmax", args->softmax, "Write probabilities");
  command->add_flag("--omit-content", args->omit_content, "Leave q·k out");
  args->output.AddTo(*command, true);
  return {command, [&tool, args] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
