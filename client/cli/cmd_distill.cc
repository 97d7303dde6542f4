// phasor distill: small functions in place of tables.
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "client/cli/positions_arg.h"
#include "client/cli/progress.h"
#include "client/cli/side_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

const std::map<std::string, v1::DistillForm> kDistillForms = {{"perceptron", v1::DISTILL_FORM_PERCEPTRON},
                                                              {"series", v1::DISTILL_FORM_COSINE_SERIES},
                                                              {"both", v1::DISTILL_FORM_UNSPECIFIED}};

struct DistillArgs {
  std::vector<std::string> tokens;
  SideArg source;
  v1::DistillForm form = v1::DISTILL_FORM_UNSPECIFIED;
  int64_t first = 0, count = 0, hidden = 0, terms = 0, steps = 0;
  std::optional<int64_t> length;
  uint64_t seed = 0;
  double tolerance = 0;
  std::string output;
};

std::string NameOf(v1::DistillForm form) { return form == v1::DISTILL_FORM_PERCEPTRON ? "perceptron" : "series"; }

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  return file ? absl::OkStatus() : absl::PermissionDeniedError(absl::StrCat(path, ": cannot be written"));
}

// Writes what goes into files, and takes it out of the message. Names of what was written.
absl::StatusOr<std::vector<std::string>> WriteFiles(const std::string& prefix, v1::DistilledFunction* result) {
  const auto json = ToJson(result->spec(), /*pretty=*/true);
  if (!json.ok()) return json.status();
  std::vector<std::string> names;
  const auto write = [&](const std::string& name, const std::string& bytes) {
    names.push_back(name);
    return WriteFile(name, bytes);
  };
  absl::Status status = write(absl::StrCat(prefix, ".safetensors"), result->safetensors());
  if (status.ok()) status = write(absl::StrCat(prefix, ".onnx"), result->onnx());
  if (status.ok()) status = write(absl::StrCat(prefix, ".json"), absl::StrCat(*json, "\n"));
  if (status.ok() && result->has_bias_spec()) {
    const auto bias = ToJson(result->bias_spec(), /*pretty=*/true);
    if (!bias.ok()) return bias.status();
    status = write(absl::StrCat(prefix, ".bias.json"), absl::StrCat(*bias, "\n"));
  }
  if (!status.ok()) return status;
  result->clear_safetensors();
  result->clear_onnx();
  result->clear_spec();
  result->clear_bias_spec();
  return names;
}

std::string Describe(const v1::DistilledFunction& result, const std::vector<std::string>& files) {
  const bool net = result.form() == v1::DISTILL_FORM_PERCEPTRON;
  std::string text = absl::StrCat(net ? "Perceptron" : "Cosine series", "\n  ", result.verdict(), "\n");
  absl::StrAppendFormat(&text, "  parameters        %d in place of %d numbers\n", result.parameters(),
                        result.table_numbers());
  absl::StrAppendFormat(&text, "  largest error     %.6g at %d, column %d\n", result.max_error(), result.max_position(),
                        result.max_column());
  absl::StrAppendFormat(&text, "  root mean square  %.6g of %.6g\n", result.rms_error(), result.rms_value());
  if (result.has_max_error_beyond()) absl::StrAppendFormat(&text, "  beyond the range  %.6g\n", result.max_error_beyond());
  if (net) absl::StrAppendFormat(&text, "  steps             %d\n", result.steps());
  if (!files.empty()) absl::StrAppend(&text, "  written           ", absl::StrJoin(files, ", "), "\n");
  return text;
}

absl::StatusOr<v1::DistillRequest> RequestFor(const DistillArgs& args, Tool& tool) {
  auto specs = SplitSpecs(args.tokens, 1);
  if (!specs.ok()) return specs.status();
  SideArg source = args.source;
  source.tokens = std::move(specs->front());
  auto side = LoadSide(source, args.length, tool);
  if (!side.ok()) return side.status();
  v1::DistillRequest request;
  *request.mutable_source() = *std::move(side);
  request.set_form(args.form);
  request.set_first_position(args.first);
  request.set_count(args.count);
  if (args.length) request.set_sequence_length(*args.length);
  request.set_hidden(args.hidden);
  request.set_terms(args.terms);
  request.set_steps(args.steps);
  request.set_seed(args.seed);
  request.set_tolerance(args.tolerance);
  return request;
}

absl::StatusOr<std::vector<v1::DistilledFunction>> Call(Tool& tool, const v1::DistillRequest& request) {
  const absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  std::vector<v1::DistilledFunction> results;
  ProgressLine line(tool.progress, "distill");
  const absl::Status status = (*client)->Distill(request, [&](const v1::DistillResponse& message) {
    if (message.has_result()) {
      results.push_back(message.result());
      line.Show(1, absl::StrFormat("%s: largest error %.3g", NameOf(message.result().form()), message.result().max_error()));
    }
    if (message.has_progress()) {
      const v1::DistillProgress& at = message.progress();
      // The error of a series is known at its end only.
      const bool series = at.form() == v1::DISTILL_FORM_COSINE_SERIES;
      std::string text =
          absl::StrFormat("%s: %s %d of %d", NameOf(at.form()), series ? "position" : "step", at.step(), at.steps());
      if (!series) absl::StrAppendFormat(&text, ", largest error %.3g", at.max_error());
      line.Show(static_cast<double>(at.step()) / static_cast<double>(at.steps()), text);
    }
    return absl::OkStatus();
  });
  if (!status.ok()) return status;
  return results;
}

absl::Status Run(Tool& tool, const DistillArgs& args) {
  const auto request = RequestFor(args, tool);
  if (!request.ok()) return request.status();
  auto results = Call(tool, *request);
  if (!results.ok()) return results.status();
  std::vector<std::string> parts;
  for (v1::DistilledFunction& result : *results) {
    std::vector<std::string> files;
    if (!args.output.empty()) {
      const std::string suffix = results->size() > 1 ? absl::StrCat("-", NameOf(result.form())) : "";
      auto written = WriteFiles(absl::StrCat(args.output, suffix), &result);
      if (!written.ok()) return written.status();
      files = *std::move(written);
    }
    if (tool.json) {
      auto json = ToJson(result, /*pretty=*/true);
      if (!json.ok()) return json.status();
      parts.push_back(*std::move(json));
    } else {
      parts.push_back(Describe(result, files));
    }
  }
  return tool.Print(tool.json ? absl::StrCat("[", absl::StrJoin(parts, ",\n"), "]\n") : absl::StrJoin(parts, "\n"));
}

}  // namespace

Command AddDistill(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<DistillArgs>();
  CLI::App* command =
      app.add_subcommand("distill", "Fit a small function (perceptron, cosine series) to an encoding or a table");
  command->footer(
      "Says how far each is off at every fitted position and beyond, and when the closed form is better. With -o it writes\n"
      "PREFIX.safetensors, PREFIX.onnx and PREFIX.json, a SPEC for other commands (of two forms: PREFIX-perceptron.…,\n"
      "PREFIX-series.…).\n\n"
      "  phasor distill wpe.npy -o wpe\n"
      "  phasor distill learned --weight table=wpe.npy --form series --terms 64\n"
      "  phasor distill config.json --count 2048 --hidden 128\n"
      "  phasor distill bias.npy --content bias_vector --form perceptron --tolerance 1e-3");
  command
      ->add_option("SPEC", args->tokens,
                   "What to fit: a SPEC as elsewhere, or a .npy, .npz or .safetensors file with a table")
      ->required();
  AddChoice(*command, "--form", args->form, kDistillForms, "perceptron, series or both (both)");
  command->add_option("--first", args->first, "First position (0, or the table's)");
  command->add_option("--count", args->count, "Positions (512, or the table's rows)");
  command->add_option("--hidden", args->hidden, "Width of the perceptron's two hidden layers, 1 to 512 (64)");
  command->add_option("--terms", args->terms, "Cosines of the series, 1 to 4096 (32)");
  command->add_option("--steps", args->steps, "Steps of training at most (2000, less for large tables)");
  command->add_option("--seed", args->seed, "Seed of the start: the same one gives the same bits (0)");
  command->add_option("--tolerance", args->tolerance, "Largest error that ends training (none does)");
  command->add_option("-o,--output", args->output, "Files to write, PREFIX.safetensors and so on");
  command->add_option("--length", args->length, "Sequence length, for schemes that depend on it");
  command->add_option("--layer-type", args->source.layer_type,
                      "Which of a model's layer types, as `phasor resolve` names them");
  command->add_option(
      "--content", args->source.content,
      "What a table is: sinusoidal (rows of any absolute table, unless said otherwise), cos, sin, cos_and_sin, "
      "cos_sin, bias, bias_vector, inv_freq, slopes");
  command->add_option("--first-position", args->source.first_position, "Position of the first row of a table (0)");
  command->add_option("--weight", args->source.weights, "Learned numbers, NAME=FILE")->allow_extra_args(false);
  command->add_flag("--compat-f32", args->source.compat_f32, "Fit what float32 libraries compute");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
