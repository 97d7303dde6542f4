// phasor resize: learned tables from files, in another size.
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

#include "client/cli/call_report.h"
#include "client/cli/result_file.h"
#include "client/cli/tool.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

const std::map<std::string, v1::Interpolation> kInterpolationNames = {
    {"linear", v1::INTERPOLATION_LINEAR}, {"cubic", v1::INTERPOLATION_CUBIC}, {"nearest", v1::INTERPOLATION_NEAREST}};

struct ResizeArgs {
  std::string table;
  std::string array;  // empty: the only one
  std::string source, target;
  v1::Interpolation interpolation = v1::INTERPOLATION_CUBIC;
  bool antialias = false, align_corners = false;
  int64_t extra_first = 0, extra_last = 0;
  OutputArg output;
};

// "512" or "14x14".
absl::StatusOr<std::vector<int64_t>> Extents(const std::string& option, const std::string& text) {
  std::vector<int64_t> extents;
  for (const absl::string_view part : absl::StrSplit(text, 'x')) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent) || extent < 1) {
      return UsageError(absl::StrCat(option, ": given '", text, "'; allowed: N, or HEIGHTxWIDTH"));
    }
    extents.push_back(extent);
  }
  if (extents.size() > 2) return UsageError(absl::StrCat(option, ": given '", text, "'; allowed: N, or HEIGHTxWIDTH"));
  return extents;
}

absl::StatusOr<LoadedArray> Load(const ResizeArgs& args) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.table, args.table == "-" ? args.output.format : "");
  if (!format.ok()) return format.status();
  absl::StatusOr<std::vector<LoadedArray>> arrays = ReadArrays(args.table, *format);
  if (!arrays.ok()) return arrays.status();
  std::string names;
  for (LoadedArray& array : *arrays) {
    if (*format == ArrayFormat::kNpy) {
      array.info.name = args.table == "-" ? "table" : std::filesystem::path(args.table).stem().string();
    }
    if (array.info.name == args.array || (args.array.empty() && arrays->size() == 1)) return std::move(array);
    absl::StrAppend(&names, names.empty() ? "" : ", ", array.info.name);
  }
  return UsageError(absl::StrCat("--array: given ", args.array.empty() ? "nothing" : absl::StrCat("'", args.array, "'"),
                                 "; allowed: ", names.empty() ? "nothing: the file holds no arrays" : names));
}

absl::Status Run(Tool& tool, const ResizeArgs& args) {
  absl::StatusOr<ArrayFormat> format = FormatOf(args.output.path, args.output.format);
  if (!format.ok()) return format.status();
  const auto source = Extents("--source", args.source), target = Extents("--target", args.target);
  if (!source.ok()) return source.status();
  if (!target.ok()) return target.status();
  absl::StatusOr<LoadedArray> loaded = Load(args);
  if (!loaded.ok()) return loaded.status();
  const auto table = std::make_shared<const LoadedArray>(*std::move(loaded));
  if (absl::Status status = CheckHolds(*format, {table->info}); !status.ok()) return status;

  v1::ApplyRequest request;
  raw::Payloads payloads;
  v1::ApplyItem* item = request.add_items();
  v1::ResizeOperation* resize = item->mutable_resize();
  resize->mutable_source()->Add(source->begin(), source->end());
  resize->mutable_target()->Add(target->begin(), target->end());
  resize->set_interpolation(args.interpolation);
  resize->set_antialias(args.antialias);
  resize->set_align_corners(args.align_corners);
  resize->set_extra_rows_first(args.extra_first);
  resize->set_extra_rows_last(args.extra_last);
  v1::Tensor* tensor = item->add_tensors();
  tensor->set_dtype(ToWire(table->info.dtype));
  tensor->mutable_shape()->Add(table->info.shape.begin(), table->info.shape.end());
  const raw::Piece piece{table, table->data.data(), table->data.size()};
  tensor->set_data(payloads.Add({&piece, 1}));

  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  const auto start = std::chrono::steady_clock::now();
  auto answer = (*client)->Apply(request, payloads);
  if (!answer.ok()) return answer.status();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (answer->message.results_size() != 1) return absl::InternalError("the server answered with another number of results");
  const v1::ApplyResult& result = answer->message.results(0);
  if (absl::Status status = ItemStatus(result.status()); !status.ok()) return status;
  if (result.tensors_size() != 1) return absl::InternalError("the server answered with another number of tensors");
  auto writer =
      ArrayWriter::Create(args.output.path, *format, {InfoOf(table->info.name, result.tensors(0))}, ArrayWriter::Metadata());
  if (!writer.ok()) return writer.status();
  if (absl::Status status = AppendTensor(**writer, 0, result.tensors(0), answer->payloads); !status.ok()) return status;
  if (absl::Status status = (*writer)->Finish(); !status.ok()) return status;
  CallReport report;
  report.Add(result, answer->message.stages());
  return report.Print(tool, absl::StrFormat("resized %s from %s to %s", table->info.name, args.source, args.target),
                      args.output.path, seconds);
}

}  // namespace

Command AddResize(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<ResizeArgs>();
  CLI::App* command = app.add_subcommand("resize", "Resize a learned table (positions, a grid, a window's biases)");
  command->footer(
      "The table is [rows, columns]: rows of the grid with the last axis fastest, and the rows that are kept. A window's\n"
      "table of biases has (2*H-1)x(2*W-1) rows, one column per head; BEiT's last three rows are kept.\n\n"
      "  phasor resize pos_embed.npy --source 14x14 --target 24x24 --extra-first 1 -o larger.npy\n"
      "  phasor resize bias.npy --source 27x27 --target 39x39 --interpolation linear --extra-last 3 -o larger.npy\n"
      "  phasor resize bart.safetensors --array embed_positions --source 1024 --target 2048 --interpolation linear -o "
      "t.npy");
  command->add_option("TABLE", args->table, ".npy, .npz or .safetensors")->required();
  command->add_option("--array", args->array, "Name of the array, where the file has several");
  command->add_option("--source", args->source, "Points of the table: N, or HEIGHTxWIDTH")->required();
  command->add_option("--target", args->target, "Points that are wanted: as many axes as --source")->required();
  AddChoice(*command, "--interpolation", args->interpolation, kInterpolationNames, "linear, cubic or nearest")
      ->default_str("cubic");
  command->add_flag("--antialias", args->antialias, "Widen the kernel when shrinking");
  command->add_flag("--align-corners", args->align_corners, "Corners stay corners");
  command->add_option("--extra-first", args->extra_first, "Rows before the grid that are kept (class tokens; default 0)");
  command->add_option("--extra-last", args->extra_last, "Rows after the grid that are kept (BEiT: 3; default 0)");
  args->output.AddTo(*command, /*required=*/true);
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
