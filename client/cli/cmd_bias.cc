// phasor bias: attention biases, fetched by heads and queries.
#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "client/cli/call_report.h"
#include "client/cli/progress.h"
#include "client/cli/result_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
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
  v1::BiasForm form = v1::BIAS_FORM_VECTOR;
};

using Answer = client::Reply<v1::PrecomputeResponse>;

// Which part of the bias a call is for.
struct Part {
  int64_t first_head = 0;
  int64_t heads = 0;  // 0: all from first_head on
  int64_t first_query = 0;
  int64_t queries = 0;
};

absl::StatusOr<Answer> Ask(client::Client& client, const BiasArgs& args, const LoadedSpec& loaded, const Part& part,
                           bool validate_only) {
  v1::PrecomputeRequest request;
  request.set_validate_only(validate_only);
  v1::PrecomputeItem* item = request.add_items();
  *item->mutable_spec() = loaded.spec;
  item->set_dtype(args.dtype);
  v1::BiasWindow* bias = item->mutable_bias();
  bias->set_queries(part.queries);
  bias->set_keys(args.keys);
  bias->set_query_offset(args.query_offset.value_or(args.keys - args.queries) + part.first_query);
  bias->set_first_head(part.first_head);
  if (part.heads > 0) bias->set_head_count(part.heads);
  bias->set_form(args.form);
  absl::StatusOr<Answer> answer = client.Precompute(request);
  if (!answer.ok()) return answer;
  if (answer->message.results_size() != 1) return absl::InternalError("the server answered with another number of results");
  if (absl::Status status = ItemStatus(answer->message.results(0).status()); !status.ok()) return status;
  return answer;
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

absl::Status Write(Tool& tool, client::Client& client, const BiasArgs& args, const LoadedSpec& loaded, const Part& all) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.output.path, args.output.format);
  if (!format.ok()) return format.status();
  // Sizes do not depend on how much is asked for at once: one query of every head tells the heads there are.
  Part probe = all;
  const bool full = args.form == v1::BIAS_FORM_FULL;
  if (full) probe.queries = std::min<int64_t>(args.queries, 1);
  absl::StatusOr<Answer> shape = Ask(client, args, loaded, probe, true);
  if (!shape.ok()) return shape.status();
  ArrayInfo info = InfoOf("bias", shape->message.results(0).bias());
  if (full) info.shape[1] = args.queries;
  const absl::StatusOr<Answer> whole = Ask(client, args, loaded, all, true);
  const std::string fingerprint = whole.ok() ? whole->message.results(0).fingerprint() : "";
  const auto metadata = MetadataOf(client, loaded.spec, fingerprint);
  if (!metadata.ok()) return metadata.status();
  auto writer = ArrayWriter::Create(args.output.path, *format, {info}, *metadata);
  if (!writer.ok()) return writer.status();

  const int64_t heads = info.shape[0], head_bytes = info.bytes() / std::max<int64_t>(heads, 1);
  const int64_t heads_at_once = std::clamp<int64_t>(kWindowBytes / std::max<int64_t>(head_bytes, 1), 1, heads);
  const int64_t queries_at_once =
      full ? std::clamp<int64_t>(kWindowBytes / std::max<int64_t>(head_bytes / args.queries, 1), 1, args.queries)
           : args.queries;
  ProgressBar bar(tool.progress, "bias", info.bytes());
  CallReport report;
  for (int64_t head = 0; head < heads; head += heads_at_once) {
    for (int64_t query = 0; query < args.queries; query += queries_at_once) {
      const Part part{.first_head = all.first_head + head,
                      .heads = std::min(heads_at_once, heads - head),
                      .first_query = query,
                      .queries = std::min(queries_at_once, args.queries - query)};
      absl::StatusOr<Answer> answer = Ask(client, args, loaded, part, false);
      if (!answer.ok()) return answer.status();
      const v1::PrecomputeResult& result = answer->message.results(0);
      if (absl::Status status = AppendTensor(**writer, 0, result.bias(), answer->payloads); !status.ok()) return status;
      report.Add(result, answer->message.stages());
      bar.Advance(result.payload_bytes());
    }
  }
  if (absl::Status status = (*writer)->Finish(); !status.ok()) return status;
  report.fingerprint = fingerprint;
  return report.Print(tool, absl::StrFormat("bias of %d heads, %d queries, %d keys", heads, args.queries, args.keys),
                      args.output.path, bar.seconds());
}

absl::Status Run(Tool& tool, const BiasArgs& args) {
  absl::StatusOr<Part> all = ParseHeads(args);
  if (!all.ok()) return all.status();
  if (auto format = FormatOf(args.output.path, args.output.format); !format.ok()) return format.status();
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  absl::StatusOr<LoadedSpec> loaded = LoadSpec(args.spec, tool);
  if (!loaded.ok()) return loaded.status();
  if (!loaded->spec.has_alibi())
    return UsageError(absl::StrCat(loaded->name, " is no attention bias; allowed: phasor table"));
  return Write(tool, **client, args, *loaded, *all);
}

}  // namespace

Command AddBias(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<BiasArgs>();
  CLI::App* command = app.add_subcommand("bias", "Compute an attention bias (ALiBi)");
  command->footer(
      "Writes the array `bias`: [heads, queries + keys - 1] (vector, the default: entry d is the bias at\n"
      "key - query = d - (queries - 1) - query offset), [heads, queries, keys] (full) or [heads, keys] (row: the last "
      "query).\n\n"
      "  phasor bias bloom.json --queries 2048 --keys 2048 -o bloom.npy\n"
      "  phasor bias alibi num_heads=12 form=symmetric --queries 1 --keys 512 --form row -o row.npy");
  args->spec.AddTo(*command);
  args->output.AddTo(*command, /*required=*/true);
  command->add_option("--queries", args->queries, "Number of queries")->required();
  command->add_option("--keys", args->keys, "Number of keys")->required();
  command->add_option("--query-offset", args->query_offset,
                      "Position of the first query (default keys - queries: the last query at the last key)");
  command->add_option("--heads", args->heads, "FIRST:COUNT of the model's heads (default all)");
  AddChoice(*command, "--dtype", args->dtype, kDTypeNames, "Element type")->default_str("f32");
  AddChoice(*command, "--form", args->form, kBiasFormNames, "full, vector or row")->default_str("vector");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
