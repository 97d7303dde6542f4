// phasor table: cos/sin tables and absolute tables, fetched in windows.
#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/call_report.h"
#include "client/cli/positions_arg.h"
#include "client/cli/progress.h"
#include "client/cli/result_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_names.h"
#include "kernels/core/narrow.h"

namespace phasor::cli {
namespace {

struct TableArgs {
  SpecArg spec;
  OutputArg output;
  std::string positions;
  v1::Dtype dtype = v1::DTYPE_F32;
  v1::TableForm form = v1::TABLE_FORM_UNSPECIFIED;
  v1::Precision precision = v1::PRECISION_EXACT;
  bool inv_freq = false;
  bool inverse = false;
};

using Answer = client::Reply<v1::PrecomputeResponse>;

// One call for rows [begin, end).
absl::StatusOr<Answer> Ask(client::Client& client, const TableArgs& args, const LoadedSpec& loaded,
                           const PositionsArg& positions, int64_t begin, int64_t end, bool validate_only) {
  v1::PrecomputeRequest request;
  request.set_validate_only(validate_only);
  v1::PrecomputeItem* item = request.add_items();
  *item->mutable_spec() = loaded.spec;
  if (loaded.sequence_length) item->set_sequence_length(*loaded.sequence_length);
  if (loaded.max_position) item->set_max_position(*loaded.max_position);
  item->set_precision(args.precision);
  item->set_dtype(args.dtype);
  v1::TableWindow* table = item->mutable_table();
  *table->mutable_positions() = positions.Window(begin, end);
  table->set_form(args.form);
  table->set_inverse(args.inverse);
  table->set_include_inv_freq(args.inv_freq && begin == 0);
  absl::StatusOr<Answer> answer = client.Precompute(request);
  if (!answer.ok()) return answer;
  if (answer->message.results_size() != 1) return absl::InternalError("the server answered with another number of results");
  if (absl::Status status = ItemStatus(answer->message.results(0).status()); !status.ok()) return status;
  return answer;
}

// The arrays of an answer in file order, by name.
std::vector<std::pair<std::string, const v1::Tensor*>> TensorsOf(const v1::PrecomputeResult& result) {
  std::vector<std::pair<std::string, const v1::Tensor*>> tensors;
  if (result.has_cos()) tensors.emplace_back("cos", &result.cos());
  if (result.has_sin()) tensors.emplace_back("sin", &result.sin());
  if (result.has_table()) tensors.emplace_back("table", &result.table());
  return tensors;
}

// The first rows as text, for a call without -o.
absl::Status PrintPreview(const Tool& tool, const Answer& answer, const PositionsArg& positions) {
  constexpr int64_t kColumns = 6;
  for (const auto& [name, tensor] : TensorsOf(answer.message.results(0))) {
    const auto pieces = answer.payloads.Find(tensor->data());
    if (!pieces) return absl::InternalError("the answer lacks its data");
    std::string bytes;
    for (const raw::Piece& piece : *pieces) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
    const int64_t columns = tensor->shape(1), shown = std::min(columns, kColumns);
    std::string text =
        absl::StrFormat("%s [%d, %d] %s\n", name, tensor->shape(0), columns, std::string(Name(FromWire(tensor->dtype()))));
    for (int64_t row = 0; row < tensor->shape(0); ++row) {
      absl::StrAppendFormat(
          &text, "%10d",
          positions.ids.empty() ? positions.start + row * positions.stride : positions.ids[static_cast<size_t>(row)]);
      for (int64_t column = 0; column < shown; ++column) {
        VisitFloat(FromWire(tensor->dtype()), [&](auto tag) {
          using T = typename decltype(tag)::type;
          T value;
          std::memcpy(&value, bytes.data() + (row * columns + column) * static_cast<int64_t>(sizeof(T)), sizeof(T));
          absl::StrAppendFormat(&text, "  %12.9g", Widen<double>(value));
        });
      }
      absl::StrAppend(&text, columns > shown ? "  …\n" : "\n");
    }
    if (absl::Status status = tool.Print(text); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Preview(Tool& tool, client::Client& client, const TableArgs& args, const LoadedSpec& loaded,
                     const PositionsArg& positions) {
  constexpr int64_t kRows = 8;
  absl::StatusOr<Answer> answer = Ask(client, args, loaded, positions, 0, std::min(positions.count, kRows), false);
  if (!answer.ok()) return answer.status();
  if (absl::Status status = PrintPreview(tool, *answer, positions); !status.ok()) return status;
  tool.Say(absl::StrFormat("attention_factor %.17g; the first %d of %d rows; -o FILE writes all of them",
                           answer->message.results(0).attention_factor(), std::min(positions.count, kRows),
                           positions.count));
  return absl::OkStatus();
}

// Opens the file for `positions.count` rows of arrays that look like those of `first`.
absl::StatusOr<std::unique_ptr<ArrayWriter>> Open(client::Client& client, const TableArgs& args, const LoadedSpec& loaded,
                                                  const PositionsArg& positions, const v1::PrecomputeResult& first,
                                                  const std::string& fingerprint) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.output.path, args.output.format);
  if (!format.ok()) return format.status();
  std::vector<ArrayInfo> arrays;
  for (const auto& [name, tensor] : TensorsOf(first)) {
    arrays.push_back(InfoOf(name, *tensor));
    arrays.back().shape[0] = positions.count;
  }
  if (args.inv_freq) {
    arrays.push_back(InfoOf("inv_freq", first.inv_freq()));
    arrays.push_back({"attention_factor", DType::kF64, {}});
  }
  const auto metadata = MetadataOf(client, loaded.spec, fingerprint);
  if (!metadata.ok()) return metadata.status();
  return ArrayWriter::Create(args.output.path, *format, std::move(arrays), *metadata);
}

absl::Status Write(Tool& tool, client::Client& client, const TableArgs& args, const LoadedSpec& loaded,
                   const PositionsArg& positions) {
  // One row tells the shapes; the whole, when the server takes it in one item, tells the fingerprint.
  absl::StatusOr<Answer> shape = Ask(client, args, loaded, positions, 0, std::min<int64_t>(positions.count, 1), true);
  if (!shape.ok()) return shape.status();
  // The last one tells whether the server takes them all, before a file of that size is begun.
  if (positions.count > 1) {
    absl::StatusOr<Answer> last = Ask(client, args, loaded, positions, positions.count - 1, positions.count, true);
    if (!last.ok()) return last.status();
  }
  const absl::StatusOr<Answer> whole = Ask(client, args, loaded, positions, 0, positions.count, true);
  const std::string fingerprint = whole.ok() ? whole->message.results(0).fingerprint() : "";
  auto writer = Open(client, args, loaded, positions, shape->message.results(0), fingerprint);
  if (!writer.ok()) return writer.status();

  int64_t row_bytes = 0;
  for (const auto& [name, tensor] : TensorsOf(shape->message.results(0)))
    row_bytes += tensor->shape(1) * SizeOf(FromWire(tensor->dtype()));
  const int64_t window = std::max<int64_t>(1, kWindowBytes / std::max<int64_t>(row_bytes, 1));
  ProgressBar bar(tool.progress, "table", positions.count * row_bytes);
  CallReport report;
  for (int64_t begin = 0; begin < positions.count || begin == 0; begin += window) {
    const int64_t end = std::min(positions.count, begin + window);
    absl::StatusOr<Answer> answer = Ask(client, args, loaded, positions, begin, end, false);
    if (!answer.ok()) return answer.status();
    const v1::PrecomputeResult& result = answer->message.results(0);
    size_t index = 0;
    for (const auto& [name, tensor] : TensorsOf(result)) {
      if (absl::Status status = AppendTensor(**writer, index++, *tensor, answer->payloads); !status.ok()) return status;
    }
    if (args.inv_freq && begin == 0) {
      const double factor = result.attention_factor();
      if (absl::Status status = AppendTensor(**writer, index, result.inv_freq(), answer->payloads); !status.ok())
        return status;
      if (absl::Status status = (*writer)->Append(index + 1, &factor, sizeof factor); !status.ok()) return status;
    }
    report.Add(result, answer->message.stages());
    bar.Advance((end - begin) * row_bytes);
  }
  if (absl::Status status = (*writer)->Finish(); !status.ok()) return status;
  report.fingerprint = fingerprint;
  return report.Print(tool, absl::StrFormat("table of %d rows", positions.count), args.output.path, bar.seconds());
}

absl::Status Run(Tool& tool, const TableArgs& args) {
  absl::StatusOr<PositionsArg> positions = ParsePositions(args.positions);
  if (!positions.ok()) return positions.status();
  if (!args.output.path.empty()) {
    if (auto format = FormatOf(args.output.path, args.output.format); !format.ok())
      return UsageError(std::string(format.status().message()));
  }
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  absl::StatusOr<LoadedSpec> loaded = LoadSpec(args.spec, tool);
  if (!loaded.ok()) return loaded.status();
  if (loaded->spec.has_alibi()) return UsageError(absl::StrCat(loaded->name, " is an attention bias; allowed: phasor bias"));
  return args.output.path.empty() ? Preview(tool, **client, args, *loaded, *positions)
                                  : Write(tool, **client, args, *loaded, *positions);
}

}  // namespace

Command AddTable(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<TableArgs>();
  CLI::App* command = app.add_subcommand("table", "Compute a table: cos and sin of RoPE, or a sinusoidal table");
  command->footer(
      "Arrays written: `cos` and `sin` (forms half, duplicated, interleaved) or `table` (form concat, and sinusoids);\n"
      "with --inv-freq also `inv_freq` (radians per position, f64) and `attention_factor`.\n\n"
      "  phasor table config.json --positions 0:131072 -o llama.npz\n"
      "  phasor table rope_linear head_dim=128 factor=8 --positions 0,5,17 --dtype bf16 -o t.safetensors\n"
      "  phasor table sinusoidal dim=512 --positions 0:16");
  args->spec.AddTo(*command);
  args->output.AddTo(*command, /*required=*/false);
  command->add_option("--positions", args->positions, "START:STOP[:STEP] (STOP not included), or a list such as 0,5,17")
      ->required();
  command->add_option("--dtype", args->dtype, "Element type")
      ->transform(CLI::CheckedTransformer(kDTypeNames))
      ->default_str("f32");
  command->add_option("--form", args->form, "Layout of the columns (default half; sinusoids have their own)")
      ->transform(CLI::CheckedTransformer(kTableFormNames));
  command->add_option("--precision", args->precision, "exact: correctly rounded; compat_f32: what float32 libraries mean")
      ->transform(CLI::CheckedTransformer(kPrecisionNames))
      ->default_str("exact");
  command->add_flag("--inv-freq", args->inv_freq, "Also write inv_freq and attention_factor");
  command->add_flag("--inverse", args->inverse, "The table of the inverse rotation: divided by the attention factor");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
