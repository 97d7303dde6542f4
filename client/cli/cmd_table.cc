// phasor table: cos/sin tables and absolute tables, fetched in windows.
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "google/rpc/error_details.pb.h"
#include "google/rpc/status.pb.h"

#include "client/cli/call_report.h"
#include "client/cli/positions_arg.h"
#include "client/cli/progress.h"
#include "client/cli/result_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_data.h"
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
  v1::TensorRole role = v1::TENSOR_ROLE_UNSPECIFIED;
  bool inv_freq = false;
  bool inverse = false;
  bool indices = false;
};

using Answer = client::Reply<v1::PrecomputeResponse>;

// Rows are asked for in windows, whose fields are not what the caller gave: an error about a position names that instead.
absl::Status OfThePositions(const absl::Status& status, const std::string& given) {
  constexpr char kField[] = "items[0].table.positions.";
  constexpr size_t kMostShown = 100;
  google::rpc::Status details;
  google::rpc::ErrorInfo info;
  const auto payload = status.GetPayload(client::kDetailsPayload);
  if (!payload || !details.ParseFromString(std::string(*payload))) return status;
  for (const auto& detail : details.details()) {
    if (!detail.UnpackTo(&info)) continue;
    const auto& told = info.metadata();
    if (!told.contains("field") || !told.contains("given") || !told.contains("allowed")) return status;
    if (!told.at("field").starts_with(kField)) return status;
    absl::Status named(status.code(), absl::StrCat("--positions: given '", given.substr(0, kMostShown),
                                                   given.size() > kMostShown ? "…" : "", "', which has ", told.at("given"),
                                                   "; allowed: ", told.at("allowed")));
    named.SetPayload(client::kDetailsPayload, *payload);
    return named;
  }
  return status;
}

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
  if (!args.indices) item->set_dtype(args.dtype);
  v1::TableWindow* table = item->mutable_table();
  *table->mutable_positions() = positions.Window(begin, end);
  table->set_form(args.form);
  table->set_role(args.role);
  table->set_inverse(args.inverse);
  table->set_indices(args.indices);
  table->set_include_inv_freq(args.inv_freq && begin == 0);
  raw::Payloads payloads;
  MoveData(*item->mutable_spec(), payloads);
  MoveData(*table->mutable_positions(), payloads);
  absl::StatusOr<Answer> answer = client.Precompute(request, payloads);
  if (!answer.ok()) return answer;
  if (answer->message.results_size() != 1) return absl::InternalError("the server answered with another number of results");
  if (absl::Status status = ItemStatus(answer->message.results(0).status()); !status.ok()) {
    return OfThePositions(status, args.positions);
  }
  return answer;
}

// Whether the server takes the last row: what is shown and what is written is a window of rows before it.
absl::Status CheckLast(client::Client& client, const TableArgs& args, const LoadedSpec& loaded,
                       const PositionsArg& positions) {
  if (positions.count < 2) return absl::OkStatus();
  return Ask(client, args, loaded, positions, positions.count - 1, positions.count, true).status();
}

// The arrays of an answer in file order, by name.
std::vector<std::pair<std::string, const v1::Tensor*>> TensorsOf(const v1::PrecomputeResult& result) {
  std::vector<std::pair<std::string, const v1::Tensor*>> tensors;
  if (result.has_cos()) tensors.emplace_back("cos", &result.cos());
  if (result.has_sin()) tensors.emplace_back("sin", &result.sin());
  if (result.has_table()) tensors.emplace_back("table", &result.table());
  return tensors;
}

// Columns of a table; row numbers have no such axis.
int64_t ColumnsOf(const v1::Tensor& tensor) { return tensor.shape_size() > 1 ? tensor.shape(1) : 1; }

// The elements of a tensor as doubles, row by row.
absl::StatusOr<std::vector<double>> ValuesOf(const v1::Tensor& tensor, const raw::Payloads& payloads) {
  const auto pieces = payloads.Find(tensor.data());
  if (!pieces) return absl::InternalError("the answer lacks its data");
  std::string bytes;
  for (const raw::Piece& piece : *pieces) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
  if (tensor.dtype() == v1::DTYPE_I64) {  // row numbers
    std::vector<double> numbers(bytes.size() / sizeof(int64_t));
    for (size_t i = 0; i < numbers.size(); ++i) {
      int64_t number;
      std::memcpy(&number, bytes.data() + i * sizeof number, sizeof number);
      numbers[i] = static_cast<double>(number);
    }
    return numbers;
  }
  return VisitFloat(FromWire(tensor.dtype()), [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::vector<double> values(bytes.size() / sizeof(T));
    for (size_t i = 0; i < values.size(); ++i) {
      T value;
      std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
      values[i] = Widen<double>(value);
    }
    return values;
  });
}

std::string PreviewText(const std::string& name, const v1::Tensor& tensor, const std::vector<double>& values,
                        const PositionsArg& positions) {
  constexpr int64_t kColumns = 6;
  const int64_t rows = tensor.shape(0), columns = ColumnsOf(tensor), shown = std::min(columns, kColumns);
  std::string text = absl::StrFormat("%s [%d, %d] %s\n", name, rows, columns, std::string(Name(FromWire(tensor.dtype()))));
  for (int64_t row = 0; row < rows; ++row) {
    absl::StrAppendFormat(&text, "%10s", positions.Text(row));
    for (int64_t column = 0; column < shown; ++column) {
      absl::StrAppendFormat(&text, "  %12.9g", values[static_cast<size_t>(row * columns + column)]);
    }
    absl::StrAppend(&text, columns > shown ? "  …\n" : "\n");
  }
  return text;
}

// {"positions": […], "cos": [[…], …], …, "attention_factor": …}
void WritePreview(rapidjson::Writer<rapidjson::StringBuffer>& writer, const std::string& name, const v1::Tensor& tensor,
                  const std::vector<double>& values) {
  writer.Key(name.c_str());
  writer.StartArray();
  for (int64_t row = 0; row < tensor.shape(0); ++row) {
    writer.StartArray();
    for (int64_t column = 0; column < ColumnsOf(tensor); ++column) {
      writer.Double(values[static_cast<size_t>(row * ColumnsOf(tensor) + column)]);
    }
    writer.EndArray();
  }
  writer.EndArray();
}

// The first rows, for a call without -o.
absl::Status Preview(Tool& tool, client::Client& client, const TableArgs& args, const LoadedSpec& loaded,
                     const PositionsArg& positions) {
  constexpr int64_t kRows = 8;
  const int64_t rows = std::min(positions.count, kRows);
  absl::StatusOr<Answer> answer = Ask(client, args, loaded, positions, 0, rows, false);
  if (!answer.ok()) return answer.status();
  if (absl::Status status = CheckLast(client, args, loaded, positions); !status.ok()) return status;
  const v1::PrecomputeResult& result = answer->message.results(0);
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
  writer.StartObject();
  writer.Key("positions");
  writer.StartArray();
  for (int64_t row = 0; row < rows; ++row) {
    const std::string position = positions.Text(row);
    writer.RawValue(position.data(), position.size(), rapidjson::kNumberType);
  }
  writer.EndArray();
  std::string text;
  for (const auto& [name, tensor] : TensorsOf(result)) {
    absl::StatusOr<std::vector<double>> values = ValuesOf(*tensor, answer->payloads);
    if (!values.ok()) return values.status();
    text += PreviewText(name, *tensor, *values, positions);
    WritePreview(writer, name, *tensor, *values);
  }
  writer.Key("attention_factor");
  writer.Double(result.attention_factor());
  writer.EndObject();
  if (absl::Status status = tool.Print(tool.json ? absl::StrCat(buffer.GetString(), "\n") : text); !status.ok())
    return status;
  tool.Say(absl::StrFormat("attention_factor %.17g; the first %d of %d rows; -o FILE writes all of them",
                           result.attention_factor(), rows, positions.count));
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
  const auto metadata = MetadataOf(client, WithoutData(loaded.spec), fingerprint);
  if (!metadata.ok()) return metadata.status();
  return ArrayWriter::Create(args.output.path, *format, std::move(arrays), *metadata);
}

absl::Status Write(Tool& tool, client::Client& client, const TableArgs& args, const LoadedSpec& loaded,
                   const PositionsArg& positions) {
  // One row tells the shapes; the whole, when the server takes it in one item, tells the fingerprint.
  absl::StatusOr<Answer> shape = Ask(client, args, loaded, positions, 0, std::min<int64_t>(positions.count, 1), true);
  if (!shape.ok()) return shape.status();
  // The last one tells whether the server takes them all, before a file of that size is begun.
  if (absl::Status status = CheckLast(client, args, loaded, positions); !status.ok()) return status;
  const absl::StatusOr<Answer> whole = Ask(client, args, loaded, positions, 0, positions.count, true);
  const std::string fingerprint = whole.ok() ? whole->message.results(0).fingerprint() : "";
  auto writer = Open(client, args, loaded, positions, shape->message.results(0), fingerprint);
  if (!writer.ok()) return writer.status();

  int64_t row_bytes = 0;
  for (const auto& [name, tensor] : TensorsOf(shape->message.results(0)))
    row_bytes += ColumnsOf(*tensor) * SizeOf(FromWire(tensor->dtype()));
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
    if (auto format = FormatOf(args.output.path, args.output.format); !format.ok()) return format.status();
  }
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  absl::StatusOr<LoadedSpec> loaded = LoadSpec(args.spec, tool);
  if (!loaded.ok()) return loaded.status();
  if (!IsTable(loaded->spec)) return UsageError(absl::StrCat(loaded->name, " has no table; allowed: phasor bias"));
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
      "  phasor table sinusoidal dim=512 --positions 0:16\n"
      "  phasor table timestep dim=320 flip_sin_to_cos=true downscale_freq_shift=0 --positions 0.5,999\n"
      "  phasor table learned position_offset=2 --weight table=embed_positions.npy --positions 0:16");
  args->spec.AddTo(*command);
  args->output.AddTo(*command, /*required=*/false);
  command
      ->add_option("--positions", args->positions,
                   "START:STOP[:STEP] (STOP not included), a list such as 0,5,17 or 0.5,1.25, a grid such as grid:16x24, or "
                   "a .npy file of [count] or [axes, count]")
      ->required();
  AddChoice(*command, "--dtype", args->dtype, kDTypeNames, "Element type")->default_str("f32");
  AddChoice(*command, "--form", args->form, kTableFormNames,
            "Layout of the columns (default half; sinusoids have their own)");
  AddChoice(*command, "--precision", args->precision, kPrecisionNames,
            "exact: correctly rounded; compat_f32: what float32 libraries mean")
      ->default_str("exact");
  AddChoice(*command, "--role", args->role, kRoleNames, "Whose table: of xPos (required) and PoPE, where the two differ");
  command->add_flag("--inv-freq", args->inv_freq, "Also write inv_freq and attention_factor");
  command->add_flag("--indices", args->indices, "The rows' numbers in a learned table instead of the rows");
  command->add_flag("--inverse", args->inverse, "The table of the inverse rotation: divided by the attention factor");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
