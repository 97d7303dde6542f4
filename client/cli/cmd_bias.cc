// phasor bias: attention biases, fetched by heads and queries.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "client/cli/array_file.h"
#include "client/cli/call_report.h"
#include "client/cli/positions_arg.h"
#include "client/cli/progress.h"
#include "client/cli/result_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_data.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

struct BiasArgs {
  SpecArg spec;
  OutputArg output;
  int64_t queries = 0, keys = 0;
  std::optional<int64_t> query_offset;
  std::string heads;
  v1::Dtype dtype = v1::DTYPE_F32;
  v1::BiasForm form = v1::BIAS_FORM_UNSPECIFIED;
  bool indices = false;
  std::string query_positions, key_positions;
  bool causal = false;
  std::optional<int64_t> sliding_window, chunk, prefix;
  std::string key_padding;
};

// The options as the wire has them.
struct BiasOptions {
  v1::BiasWindow window;  // but for queries and heads
  std::optional<PositionsArg> query_positions;
  raw::Payloads payloads;  // of the mask
};

using Answer = client::Reply<v1::PrecomputeResponse>;

// Which part of the bias a call is for.
struct Part {
  int64_t first_head = 0;
  int64_t heads = 0;  // 0: all from first_head on
  int64_t first_query = 0;
  int64_t queries = 0;
};

absl::StatusOr<Answer> Ask(client::Client& client, const BiasArgs& args, const LoadedSpec& loaded,
                           const BiasOptions& options, const Part& part, bool validate_only) {
  v1::PrecomputeRequest request;
  request.set_validate_only(validate_only);
  v1::PrecomputeItem* item = request.add_items();
  *item->mutable_spec() = loaded.spec;
  item->set_dtype(args.indices ? v1::DTYPE_I64 : args.dtype);
  v1::BiasWindow* bias = item->mutable_bias();
  *bias = options.window;
  bias->set_queries(part.queries);
  bias->set_query_offset(args.query_offset.value_or(args.keys - args.queries) + part.first_query);
  if (options.query_positions) {
    *bias->mutable_query_positions() = options.query_positions->Window(part.first_query, part.first_query + part.queries);
  }
  if (!args.indices) {
    bias->set_first_head(part.first_head);
    if (part.heads > 0) bias->set_head_count(part.heads);
  }
  raw::Payloads payloads = options.payloads;
  MoveData(*item->mutable_spec(), payloads);
  absl::StatusOr<Answer> answer = client.Precompute(request, payloads);
  if (!answer.ok()) return answer;
  if (answer->message.results_size() != 1) return absl::InternalError("the server answered with another number of results");
  if (absl::Status status = ItemStatus(answer->message.results(0).status()); !status.ok()) return status;
  return answer;
}

absl::Status ReadPadding(const std::string& path, BiasOptions* options) {
  absl::StatusOr<ArrayFormat> format = FormatOf(path, "");
  if (!format.ok()) return format.status();
  auto arrays = ReadArrays(path, *format);
  if (!arrays.ok()) return arrays.status();
  if (arrays->size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has ", arrays->size(), " arrays; allowed: 1"));
  }
  auto owner = std::make_shared<const LoadedArray>(std::move(arrays->front()));
  v1::Tensor* tensor = options->window.mutable_masking()->mutable_key_padding();
  tensor->set_dtype(ToWire(owner->info.dtype));
  for (const int64_t extent : owner->info.shape) tensor->add_shape(extent);
  const raw::Piece piece{owner, owner->data.data(), owner->data.size()};
  tensor->set_data(options->payloads.Add({&piece, 1}));
  return absl::OkStatus();
}

// Biases over the tokens of a window: queries and keys are these, all of them.
bool IsWindow(const v1::EncodingSpec& spec) { return spec.has_window_bias() || spec.has_continuous_window_bias(); }

// Whether one vector per head says everything; the others are asked for in full unless a form is given.
bool IsByDistance(const v1::EncodingSpec& spec) {
  return !IsWindow(spec) && !spec.has_fire() && !spec.has_forgetting_bias() && !spec.has_tupe();
}

absl::StatusOr<BiasOptions> OptionsOf(const BiasArgs& args, const v1::EncodingSpec& spec) {
  BiasOptions options;
  v1::BiasWindow& window = options.window;
  window.set_keys(args.keys);
  window.set_indices(args.indices);
  if (!args.query_positions.empty()) {
    absl::StatusOr<PositionsArg> positions = ParsePositions(args.query_positions);
    if (!positions.ok()) return positions.status();
    if (positions->count != args.queries) {
      return UsageError(absl::StrCat("--query-positions: given ", positions->count, " positions; allowed: ", args.queries,
                                     ", one per query"));
    }
    options.query_positions = *std::move(positions);
  }
  if (!args.key_positions.empty()) {
    absl::StatusOr<PositionsArg> positions = ParsePositions(args.key_positions);
    if (!positions.ok()) return positions.status();
    *window.mutable_key_positions() = positions->Window(0, positions->count);
  }
  if (args.causal) window.mutable_masking()->set_causal(true);
  if (args.sliding_window) window.mutable_masking()->set_sliding_window(*args.sliding_window);
  if (args.chunk) window.mutable_masking()->set_chunk_size(*args.chunk);
  if (args.prefix) window.mutable_masking()->add_prefix(*args.prefix);
  if (!args.key_padding.empty()) {
    if (absl::Status status = ReadPadding(args.key_padding, &options); !status.ok()) return status;
  }
  const bool full =
      args.indices || options.query_positions || window.has_key_positions() || window.has_masking() || !IsByDistance(spec);
  window.set_form(args.form != v1::BIAS_FORM_UNSPECIFIED ? args.form : full ? v1::BIAS_FORM_FULL : v1::BIAS_FORM_VECTOR);
  return options;
}

absl::StatusOr<Part> ParseHeads(const BiasArgs& args) {
  Part part{.queries = args.queries};
  if (args.heads.empty()) return part;
  const std::vector<std::string> ends = absl::StrSplit(args.heads, ':');
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &part.first_head) || !absl::SimpleAtoi(ends[1], &part.heads) ||
      part.first_head < 0 || part.heads < 1) {
    return UsageError(absl::StrCat("--heads: given '", args.heads, "'; allowed: FIRST:COUNT, such as 0:8"));
  }
  return part;
}

// Whether a batch axis comes before the heads, queries and keys.
bool HasBatch(const BiasArgs& args, const BiasOptions& options, const ArrayInfo& info) {
  const size_t own = (args.indices ? 0 : 1) + (options.window.form() == v1::BIAS_FORM_FULL ? 2 : 1);
  return info.shape.size() > own;
}

// Calls that the answer is fetched in: along heads and queries, which follow one another in the file; in one where a batch
// axis comes before them.
std::vector<Part> PartsOf(const BiasArgs& args, const v1::EncodingSpec& spec, const BiasOptions& options,
                          const ArrayInfo& info, const Part& all) {
  const bool full = options.window.form() == v1::BIAS_FORM_FULL;
  if (HasBatch(args, options, info) || info.bytes() == 0) return {all};
  const int64_t heads = args.indices ? 1 : info.shape[0], head_bytes = info.bytes() / heads;
  const int64_t heads_at_once = std::clamp<int64_t>(kWindowBytes / std::max<int64_t>(head_bytes, 1), 1, heads);
  const int64_t queries_at_once =
      full && !IsWindow(spec)
          ? std::clamp<int64_t>(kWindowBytes / std::max<int64_t>(head_bytes / args.queries, 1), 1, args.queries)
          : args.queries;
  std::vector<Part> parts;
  for (int64_t head = 0; head < heads; head += heads_at_once) {
    for (int64_t query = 0; query < args.queries; query += queries_at_once) {
      parts.push_back({.first_head = all.first_head + head,
                       .heads = std::min(heads_at_once, heads - head),
                       .first_query = query,
                       .queries = std::min(queries_at_once, args.queries - query)});
    }
  }
  return parts;
}

absl::Status Write(Tool& tool, client::Client& client, const BiasArgs& args, const LoadedSpec& loaded, const Part& all) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.output.path, args.output.format);
  if (!format.ok()) return format.status();
  const absl::StatusOr<BiasOptions> options = OptionsOf(args, loaded.spec);
  if (!options.ok()) return options.status();
  // Sizes do not depend on how much is asked for at once: one query of every head tells the heads there are.
  Part probe = all;
  const bool full = options->window.form() == v1::BIAS_FORM_FULL && !IsWindow(loaded.spec);
  if (full) probe.queries = std::min<int64_t>(args.queries, 1);
  absl::StatusOr<Answer> shape = Ask(client, args, loaded, *options, probe, true);
  if (!shape.ok()) return shape.status();
  ArrayInfo info = InfoOf("bias", shape->message.results(0).bias());
  if (full) info.shape[info.shape.size() - 2] = args.queries;
  const absl::StatusOr<Answer> whole = Ask(client, args, loaded, *options, all, true);
  const std::string fingerprint = whole.ok() ? whole->message.results(0).fingerprint() : "";
  const auto metadata = MetadataOf(client, WithoutData(loaded.spec), fingerprint);
  if (!metadata.ok()) return metadata.status();
  auto writer = ArrayWriter::Create(args.output.path, *format, {info}, *metadata);
  if (!writer.ok()) return writer.status();

  ProgressBar bar(tool.progress, "bias", info.bytes());
  CallReport report;
  for (const Part& part : PartsOf(args, loaded.spec, *options, info, all)) {
    absl::StatusOr<Answer> answer = Ask(client, args, loaded, *options, part, false);
    if (!answer.ok()) return answer.status();
    const v1::PrecomputeResult& result = answer->message.results(0);
    if (absl::Status status = AppendTensor(**writer, 0, result.bias(), answer->payloads); !status.ok()) return status;
    report.Add(result, answer->message.stages());
    bar.Advance(result.payload_bytes());
  }
  if (absl::Status status = (*writer)->Finish(); !status.ok()) return status;
  report.fingerprint = fingerprint;
  const std::string what =
      args.indices ? "indices" : absl::StrFormat("bias of %d heads", info.shape[HasBatch(args, *options, info) ? 1 : 0]);
  return report.Print(tool, absl::StrFormat("%s, %d queries, %d keys", what, args.queries, args.keys), args.output.path,
                      bar.seconds());
}

absl::Status Run(Tool& tool, const BiasArgs& args) {
  absl::StatusOr<Part> all = ParseHeads(args);
  if (!all.ok()) return all.status();
  if (auto format = FormatOf(args.output.path, args.output.format); !format.ok()) return format.status();
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  absl::StatusOr<LoadedSpec> loaded = LoadSpec(args.spec, tool);
  if (!loaded.ok()) return loaded.status();
  if (loaded->spec.has_rope() || loaded->spec.has_sinusoidal())
    return UsageError(absl::StrCat(loaded->name, " is no attention bias; allowed: phasor table"));
  return Write(tool, **client, args, *loaded, *all);
}

}  // namespace

Command AddBias(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<BiasArgs>();
  CLI::App* command = app.add_subcommand("bias", "Compute an attention bias, with masks");
  command->footer(
      "Writes the array `bias`: [heads, queries + keys - 1] (vector, the default: entry d is the bias at\n"
      "key - query = d - (queries - 1) - query offset), [heads, queries, keys] (full) or [heads, keys] (row: the last "
      "query).\n\n"
      "  phasor bias bloom.json --queries 2048 --keys 2048 -o bloom.npy\n"
      "  phasor bias alibi num_heads=12 form=symmetric --queries 1 --keys 512 --form row -o row.npy\n"
      "  phasor bias t5_bucket --weight table=relative.npy --queries 512 --keys 512 --form full -o t5.npy\n"
      "  phasor bias t5_bucket num_heads=8 --indices --queries 512 --keys 512 -o buckets.npy\n"
      "  phasor bias alibi num_heads=32 --queries 8 --keys 64 --causal --sliding-window 16 -o masked.npy");
  args->spec.AddTo(*command);
  args->output.AddTo(*command, /*required=*/true);
  command->add_option("--queries", args->queries, "Number of queries")->required();
  command->add_option("--keys", args->keys, "Number of keys")->required();
  command->add_option("--query-offset", args->query_offset,
                      "Position of the first query (default keys - queries: the last query at the last key)");
  command->add_option("--heads", args->heads, "FIRST:COUNT of the model's heads (default all)");
  AddChoice(*command, "--dtype", args->dtype, kDTypeNames, "Element type")->default_str("f32");
  AddChoice(*command, "--form", args->form, kBiasFormNames, "full, vector or row")
      ->default_str("vector; full with positions, masks or indices");
  command->add_flag("--indices", args->indices, "Row numbers of the scheme's table (int64) instead of values");
  command->add_option("--query-positions", args->query_positions,
                      "Positions of the queries in place of the offset: START:STOP[:STEP] or a list");
  command->add_option("--key-positions", args->key_positions, "Positions of the keys (default 0, 1, 2 …)");
  command->add_flag("--causal", args->causal, "Mask keys after the query");
  command->add_option("--sliding-window", args->sliding_window, "Mask keys so many places before the query, and further");
  command->add_option("--chunk", args->chunk, "Mask keys outside the query's chunk of so many places");
  command->add_option("--prefix", args->prefix, "So many first keys are not masked by --causal and --sliding-window");
  command->add_option("--key-padding", args->key_padding,
                      "File with the keys that are there: 0 and 1, [keys] or [batch, keys] (.npy, .npz, .safetensors)");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
