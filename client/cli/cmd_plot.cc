// phasor plot: pictures.
#include <cstdio>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "client/cli/positions_arg.h"
#include "client/cli/side_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

const std::map<std::string, v1::PlotKind> kPlotKinds = {
    {"table", v1::PLOT_KIND_TABLE}, {"wavelengths", v1::PLOT_KIND_WAVELENGTHS}, {"decay", v1::PLOT_KIND_SCORE_DECAY},
    {"bias", v1::PLOT_KIND_BIAS},   {"difference", v1::PLOT_KIND_DIFFERENCE},   {"similarity", v1::PLOT_KIND_SIMILARITY}};

struct PlotArgs {
  v1::PlotKind kind = v1::PLOT_KIND_UNSPECIFIED;
  std::vector<std::string> tokens, other_tokens;
  SideArg subject, other;
  std::string output, positions, title;
  std::optional<int64_t> length;
  int64_t trained = 0, wanted = 0, width = 0;
};

absl::Status WriteFile(Tool& tool, const std::string& path, const std::string& bytes) {
  if (path == "-") return tool.Print(bytes);
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? absl::OkStatus() : absl::PermissionDeniedError(absl::StrCat(path, ": cannot be written"));
}

absl::StatusOr<v1::PlotRequest> RequestFor(const PlotArgs& args, Tool& tool) {
  v1::PlotRequest request;
  request.set_kind(args.kind);
  if (!args.positions.empty()) {
    const auto positions = ParsePositions(args.positions);
    if (!positions.ok()) return positions.status();
    if (positions->stride != 1 || !positions->ids.empty() || !positions->axes.empty()) {
      return UsageError(absl::StrCat("--positions: given '", args.positions, "'; allowed: START:STOP"));
    }
    request.set_first_position(positions->start);
    request.set_count(positions->count);
  }
  // The second encoding follows the first, or --other names it.
  auto specs = SplitSpecs(args.tokens, args.kind == v1::PLOT_KIND_DIFFERENCE && args.other_tokens.empty() ? 2 : 1);
  if (!specs.ok()) return specs.status();
  auto others = SplitSpecs(args.other_tokens, 1);
  if (!others.ok()) return others.status();
  specs->insert(specs->end(), others->begin(), others->end());
  SideArg subject = args.subject, other = args.other;
  subject.tokens = std::move(specs->front());
  auto side = LoadSide(subject, args.length, tool);
  if (!side.ok()) return side.status();
  *request.mutable_subject() = *std::move(side);
  if (specs->size() > 1) {
    other.tokens = std::move(specs->back());
    auto second = LoadSide(other, args.length, tool);
    if (!second.ok()) return second.status();
    *request.mutable_other() = *std::move(second);
  } else if (args.kind == v1::PLOT_KIND_DIFFERENCE) {
    return UsageError("difference: given one SPEC; allowed: two, or --other");
  }
  if (args.length) request.set_sequence_length(*args.length);
  request.set_trained_length(args.trained);
  request.set_wanted_length(args.wanted);
  request.set_width(args.width);
  request.set_title(args.title);
  return request;
}

absl::Status Run(Tool& tool, const PlotArgs& args) {
  if (args.output != "-" && !absl::EndsWith(args.output, ".svg")) {
    return UsageError(absl::StrCat("-o: given '", args.output, "'; allowed: a name that ends in .svg, or -"));
  }
  const auto request = RequestFor(args, tool);
  if (!request.ok()) return request.status();
  const absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  const auto answer = (*client)->Plot(*request);
  if (!answer.ok()) return answer.status();
  if (absl::Status status = WriteFile(tool, args.output, answer->image()); !status.ok()) return status;
  tool.Say(answer->description());
  return absl::OkStatus();
}

}  // namespace

Command AddPlot(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<PlotArgs>();
  CLI::App* command = app.add_subcommand("plot", "Draw an encoding or a table as a picture (SVG)");
  command->footer(
      "Says on standard error what the picture shows. It can be read on light and dark backgrounds.\n\n"
      "  phasor plot table rope_default head_dim=128 -o table.svg\n"
      "  phasor plot wavelengths config.json --trained 8192 --wanted 131072 -o wavelengths.svg\n"
      "  phasor plot bias alibi num_heads=12 -o bias.svg\n"
      "  phasor plot difference rope_default head_dim=128 rope_linear head_dim=128 factor=4 -o difference.svg");
  AddChoice(*command, "KIND", args->kind, kPlotKinds, "table, wavelengths, decay, bias, difference or similarity")
      ->required();
  command
      ->add_option("SPEC", args->tokens,
                   "What to draw: a SPEC as elsewhere, or a .npy, .npz or .safetensors file with a table; of difference two")
      ->required();
  command->add_option("-o,--output", args->output, "File to write, NAME.svg; - is standard output")->required();
  command
      ->add_option("--other", args->other_tokens,
                   "difference: the second one, as one argument (\"rope_linear head_dim=128 factor=4\")")
      ->expected(1);
  command->add_option("--positions", args->positions, "START:STOP, as in Python (of biases: distances back from the query)");
  command->add_option("--trained", args->trained, "Length that the model was trained with, marked");
  command->add_option("--wanted", args->wanted, "Length that is wanted, marked");
  command->add_option("--width", args->width, "Width in pixels, 320 to 4096 (800)");
  command->add_option("--title", args->title, "Title in place of one made from SPEC");
  command->add_option("--length", args->length, "Sequence length, for schemes that depend on it");
  command->add_option("--layer-type", args->subject.layer_type,
                      "Which of a model's layer types, as `phasor resolve` names them");
  command->add_option("--layer-type-b", args->other.layer_type, "The second one's");
  command->add_option("--content", args->subject.content,
                      "What a table is: cos, sin, cos_and_sin, cos_sin, sinusoidal, bias, bias_vector, inv_freq, slopes");
  command->add_option("--content-b", args->other.content, "What the second one's table is");
  command->add_option("--weight", args->subject.weights, "Learned numbers, NAME=FILE")->allow_extra_args(false);
  command->add_option("--weight-b", args->other.weights, "Learned numbers of the second one, NAME=FILE")
      ->allow_extra_args(false);
  command->add_flag("--compat-f32", args->subject.compat_f32, "Compute it as float32 libraries do");
  command->add_flag("--compat-f32-b", args->other.compat_f32, "Compute the second one so");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
