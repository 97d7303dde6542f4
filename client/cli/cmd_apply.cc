// phasor apply: rotate tensors from files.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/add_args.h"
#include "client/cli/call_report.h"
#include "client/cli/positions_arg.h"
#include "client/cli/result_file.h"
#include "client/cli/rotate_args.h"
#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_data.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

struct ApplyArgs {
  SpecArg spec;
  OutputArg output;
  std::vector<std::string> inputs;
  std::string positions;
  v1::Layout layout = v1::LAYOUT_UNSPECIFIED;
  v1::Precision precision = v1::PRECISION_EXACT;
  RotateArgs rotate;
  AddArgs adding;
};

// Every array of every input file. An .npy array is named after its file.
absl::StatusOr<std::vector<LoadedArray>> Load(const ApplyArgs& args) {
  std::vector<LoadedArray> all;
  std::set<std::string> names;
  for (const std::string& path : args.inputs) {
    absl::StatusOr<ArrayFormat> format = FormatOf(path, path == "-" ? args.output.format : "");
    if (!format.ok()) return format.status();
    absl::StatusOr<std::vector<LoadedArray>> arrays = ReadArrays(path, *format);
    if (!arrays.ok()) return arrays.status();
    for (LoadedArray& array : *arrays) {
      if (*format == ArrayFormat::kNpy)
        array.info.name = path == "-" ? "input" : std::filesystem::path(path).stem().string();
      if (!names.insert(array.info.name).second) {
        return UsageError(absl::StrCat("--input: two arrays are named '", array.info.name, "'; allowed: different names"));
      }
      all.push_back(std::move(array));
    }
  }
  if (all.empty()) return UsageError("--input: the files hold no arrays");
  return all;
}

// How many tokens the tensors have, by their layout; −1 for a shape that has no such axis (the server will say so).
int64_t TokensOf(v1::Layout layout, const std::vector<int64_t>& shape) {
  const size_t axis = layout == v1::LAYOUT_BHSD ? 2 : layout == v1::LAYOUT_BSHD || layout == v1::LAYOUT_UNSPECIFIED ? 1 : 0;
  return axis < shape.size() ? shape[axis] : -1;
}

struct Request {
  v1::ApplyRequest message;
  raw::Payloads payloads;
};

absl::StatusOr<Request> Build(Tool& tool, const ApplyArgs& args, const LoadedSpec& loaded,
                              const std::shared_ptr<std::vector<LoadedArray>>& arrays) {
  Request request;
  v1::ApplyItem* item = request.message.add_items();
  if (args.rotate.table.empty()) {
    *item->mutable_spec() = loaded.spec;
    MoveData(*item->mutable_spec(), request.payloads);
  }
  if (loaded.sequence_length) item->set_sequence_length(*loaded.sequence_length);
  if (loaded.max_position) item->set_max_position(*loaded.max_position);
  item->set_precision(args.precision);
  item->set_layout(args.layout);
  if (!args.positions.empty()) {
    absl::StatusOr<PositionsArg> positions = ParsePositions(args.positions);
    if (!positions.ok()) return positions.status();
    *item->mutable_positions() = positions->Window(0, positions->count);
    MoveData(*item->mutable_positions(), request.payloads);
  }
  const int64_t tokens = TokensOf(args.layout, arrays->front().info.shape);
  const absl::Status status = args.adding.add ? args.adding.Fill(tool, args.rotate, *item, request.payloads)
                                              : args.rotate.Fill(tool, tokens, *item, request.payloads);
  if (!status.ok()) return status;
  for (const LoadedArray& array : *arrays) {
    v1::Tensor* tensor = item->add_tensors();
    tensor->set_dtype(ToWire(array.info.dtype));
    for (const int64_t extent : array.info.shape) tensor->add_shape(extent);
    const raw::Piece piece{arrays, array.data.data(), array.data.size()};
    tensor->set_data(request.payloads.Add({&piece, 1}));
  }
  return request;
}

absl::Status Write(client::Client& client, const ApplyArgs& args, const LoadedSpec& loaded,
                   const std::vector<LoadedArray>& inputs, const v1::ApplyResult& result, const raw::Payloads& payloads) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.output.path, args.output.format);
  if (!format.ok()) return format.status();
  std::vector<ArrayInfo> arrays;
  for (int i = 0; i < result.tensors_size(); ++i)
    arrays.push_back(InfoOf(inputs[static_cast<size_t>(i)].info.name, result.tensors(i)));
  const auto metadata = MetadataOf(client, WithoutData(loaded.spec), result.fingerprint());
  if (!metadata.ok()) return metadata.status();
  auto writer = ArrayWriter::Create(args.output.path, *format, std::move(arrays), *metadata);
  if (!writer.ok()) return writer.status();
  for (int i = 0; i < result.tensors_size(); ++i) {
    if (absl::Status status = AppendTensor(**writer, static_cast<size_t>(i), result.tensors(i), payloads); !status.ok())
      return status;
  }
  return (*writer)->Finish();
}

absl::Status Run(Tool& tool, const ApplyArgs& args) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.output.path, args.output.format);
  if (!format.ok()) return format.status();
  absl::StatusOr<std::vector<LoadedArray>> loaded_arrays = Load(args);
  if (!loaded_arrays.ok()) return loaded_arrays.status();
  const auto arrays = std::make_shared<std::vector<LoadedArray>>(*std::move(loaded_arrays));
  std::vector<ArrayInfo> infos;
  for (const LoadedArray& array : *arrays) infos.push_back(array.info);
  if (absl::Status status = CheckHolds(*format, infos); !status.ok()) return status;

  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  absl::StatusOr<LoadedSpec> loaded = LoadedSpec();
  if (args.spec.tokens.empty() == args.rotate.table.empty()) {
    return UsageError("SPEC: allowed: a scheme, or --table in its place");
  }
  if (args.rotate.table.empty()) loaded = LoadSpec(args.spec, tool);
  if (!loaded.ok()) return loaded.status();
  absl::StatusOr<Request> request = Build(tool, args, *loaded, arrays);
  if (!request.ok()) return request.status();
  const auto start = std::chrono::steady_clock::now();
  auto answer = (*client)->Apply(request->message, request->payloads);
  if (!answer.ok()) return answer.status();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (answer->message.results_size() != 1) return absl::InternalError("the server answered with another number of results");
  const v1::ApplyResult& result = answer->message.results(0);
  if (absl::Status status = ItemStatus(result.status()); !status.ok()) return status;
  if (result.tensors_size() != static_cast<int>(arrays->size()))
    return absl::InternalError("the server answered with another number of tensors");
  if (absl::Status status = Write(**client, args, *loaded, *arrays, result, answer->payloads); !status.ok()) return status;
  CallReport report;
  report.Add(result, answer->message.stages());
  return report.Print(tool,
                      absl::StrFormat("%s %d tensor%s", args.adding.add ? "added to" : args.rotate.done(), arrays->size(),
                                      arrays->size() == 1 ? "" : "s"),
                      args.output.path, seconds);
}

}  // namespace

Command AddApply(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<ApplyArgs>();
  CLI::App* command = app.add_subcommand("apply", "Rotate tensors (q, k) from files");
  command->footer(
      "Reads every array of the input files and writes them, rotated, under the same names (an .npy array is named after "
      "its\n"
      "file). All tensors share batch and sequence; each has its own number of heads.\n\n"
      "  phasor apply config.json --input q.npy --input k.npy -o rotated.npz\n"
      "  phasor apply config.json --input qk.safetensors --positions 100:228 --layout bhsd -o out.safetensors\n"
      "  phasor apply sinusoidal dim=512 --add --scale-sqrt-dim --input x.npy -o y.npy");
  args->spec.AddTo(*command);
  command->get_option("SPEC")->required(false);  // --table takes its place
  args->output.AddTo(*command, /*required=*/true);
  command->add_option("--input", args->inputs, ".npy, .npz or .safetensors; may be given several times")->required();
  command->add_option("--positions", args->positions, "START:STOP[:STEP] or a list, one per token (default 0, 1, 2, …)");
  AddChoice(*command, "--layout", args->layout, kLayoutNames,
            "Axes of the tensors: bshd, bhsd, sbhd, thd or t_hd; to add: bsd, sbd or td")
      ->default_str("bshd, to add bsd");
  AddChoice(*command, "--precision", args->precision, kPrecisionNames, "Of the table: exact or compat_f32")
      ->default_str("exact");
  args->rotate.AddTo(*command);
  args->adding.AddTo(*command);
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
