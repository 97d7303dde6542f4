// phasor bias: attention biases of any size, as a stream.
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

// Heads of the model that are wanted.
struct Heads {
  int64_t first = 0;
  int64_t count = 0;  // 0: all from the first on
};

v1::StreamPrecomputeRequest RequestFor(const BiasArgs& args, const LoadedSpec& loaded, const BiasOptions& options,
                                       const Heads& heads) {
  v1::StreamPrecomputeRequest request;
  v1::PrecomputeItem* item = request.add_items();
  *item->mutable_spec() = loaded.spec;
  item->set_dtype(args.indices ? v1::DTYPE_I64 : args.dtype);
  v1::BiasWindow* bias = item->mutable_bias();
  *bias = options.window;
  bias->set_queries(args.queries);
  bias->set_query_offset(args.query_offset.value_or(args.keys - args.queries));
  if (options.query_positions) *bias->mutable_query_positions() = options.query_positions->Window(0, args.queries);
  if (!args.indices) {
    bias->set_first_head(heads.first);
    if (heads.count > 0) bias->set_head_count(heads.count);
  }
  return request;
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

absl::StatusOr<Heads> ParseHeads(const BiasArgs& args) {
  Heads heads;
  if (args.heads.empty()) return heads;
  const std::vector<std::string> ends = absl::StrSplit(args.heads, ':');
  if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &heads.first) || !absl::SimpleAtoi(ends[1], &heads.count) ||
      heads.first < 0 || heads.count < 1) {
    return UsageError(absl::StrCat("--heads: given '", args.heads, "'; allowed: FIRST:COUNT, such as 0:8"));
  }
  return heads;
}

// A stream on its way into a file, which begins when the header has come.
class BiasFile {
 public:
  BiasFile(Tool& tool, client::Client& client, const BiasArgs& args, v1::EncodingSpec spec, ArrayFormat format,
           v1::BiasForm form)
      : tool_(tool), client_(client), args_(args), spec_(std::move(spec)), format_(format), form_(form) {}

  absl::Status Take(const v1::StreamPrecomputeResponse& message, const raw::Payloads& payloads) {
    if (message.has_header()) return Begin(message.header().result());
    if (message.has_end()) {
      result_.set_cache(message.end().cache());
      *result_.mutable_stages() = message.end().stages();
      ended_ = true;
      return ItemStatus(message.end().status());
    }
    for (const v1::ChunkData& data : message.chunk().arrays()) {
      const auto pieces = payloads.Find(data.data());
      if (writer_ == nullptr || !pieces) return absl::InternalError("the stream lacks its header or its data");
      for (const raw::Piece& piece : *pieces) {
        const auto size = static_cast<int64_t>(piece.size);
        if (absl::Status status = writer_->Append(0, piece.data, size); !status.ok()) return status;
        bar_->Advance(size);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Finish() {
    if (!ended_) return absl::InternalError("the stream ended before its item");
    if (absl::Status status = writer_->Finish(); !status.ok()) return status;
    CallReport report;
    report.Add(result_, result_.stages());
    const std::vector<int64_t>& shape = info_.shape;
    // A batch axis may come before the heads.
    const size_t own = form_ == v1::BIAS_FORM_FULL ? 3 : 2;
    const std::string what =
        args_.indices ? "indices" : absl::StrFormat("bias of %d heads", shape[shape.size() > own ? 1 : 0]);
    return report.Print(tool_, absl::StrFormat("%s, %d queries, %d keys", what, args_.queries, args_.keys),
                        args_.output.path, bar_->seconds());
  }

 private:
  absl::Status Begin(const v1::PrecomputeResult& result) {
    if (absl::Status status = ItemStatus(result.status()); !status.ok()) return status;
    result_ = result;
    info_ = InfoOf("bias", result.bias());
    const auto metadata = MetadataOf(client_, spec_, result.fingerprint());
    if (!metadata.ok()) return metadata.status();
    auto writer = ArrayWriter::Create(args_.output.path, format_, {info_}, *metadata);
    if (!writer.ok()) return writer.status();
    writer_ = *std::move(writer);
    bar_ = std::make_unique<ProgressBar>(tool_.progress, "bias", info_.bytes());
    return absl::OkStatus();
  }

  Tool& tool_;
  client::Client& client_;
  const BiasArgs& args_;
  const v1::EncodingSpec spec_;
  const ArrayFormat format_;
  const v1::BiasForm form_;
  ArrayInfo info_;
  v1::PrecomputeResult result_;
  std::unique_ptr<ArrayWriter> writer_;
  std::unique_ptr<ProgressBar> bar_;
  bool ended_ = false;
};

absl::Status Write(Tool& tool, client::Client& client, const BiasArgs& args, const LoadedSpec& loaded, const Heads& heads) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.output.path, args.output.format);
  if (!format.ok()) return format.status();
  const absl::StatusOr<BiasOptions> options = OptionsOf(args, loaded.spec);
  if (!options.ok()) return options.status();
  v1::StreamPrecomputeRequest request = RequestFor(args, loaded, *options, heads);
  raw::Payloads payloads = options->payloads;
  MoveData(*request.mutable_items(0)->mutable_spec(), payloads);
  BiasFile file(tool, client, args, WithoutData(loaded.spec), *format, options->window.form());
  const absl::Status status = client.StreamPrecompute(
      request, payloads,
      [&file](const v1::StreamPrecomputeResponse& message, const raw::Payloads& data) { return file.Take(message, data); });
  return status.ok() ? file.Finish() : status;
}

absl::Status Run(Tool& tool, const BiasArgs& args) {
  const absl::StatusOr<Heads> heads = ParseHeads(args);
  if (!heads.ok()) return heads.status();
  if (auto format = FormatOf(args.output.path, args.output.format); !format.ok()) return format.status();
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  absl::StatusOr<LoadedSpec> loaded = LoadSpec(args.spec, tool);
  if (!loaded.ok()) return loaded.status();
  if (loaded->spec.has_rope() || loaded->spec.has_sinusoidal())
    return UsageError(absl::StrCat(loaded->name, " is no attention bias; allowed: phasor table"));
  return Write(tool, **client, args, *loaded, *heads);
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
