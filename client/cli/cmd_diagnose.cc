// phasor diagnose: what a table is, what went wrong in it; what to check for a symptom.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

#include "client/cli/array_file.h"
#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_data.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

const std::map<std::string, v1::TableContent> kContentNames = {{"cos", v1::TABLE_CONTENT_COS},
                                                               {"sin", v1::TABLE_CONTENT_SIN},
                                                               {"cos_and_sin", v1::TABLE_CONTENT_COS_AND_SIN},
                                                               {"cos_sin", v1::TABLE_CONTENT_COS_SIN},
                                                               {"sinusoidal", v1::TABLE_CONTENT_SINUSOIDAL},
                                                               {"bias", v1::TABLE_CONTENT_BIAS},
                                                               {"bias_vector", v1::TABLE_CONTENT_BIAS_VECTOR},
                                                               {"inv_freq", v1::TABLE_CONTENT_INV_FREQ},
                                                               {"slopes", v1::TABLE_CONTENT_SLOPES}};

struct DiagnoseArgs {
  std::string file;
  std::string format;
  std::string name;
  std::string symptom;
  v1::TableContent content = v1::TABLE_CONTENT_UNSPECIFIED;
  std::optional<int64_t> first_position;
  std::optional<int64_t> length;
  SpecArg expected;
  int64_t hypotheses = 5;
};

void AddTensor(const LoadedArray& array, v1::TableInput* table) {
  v1::Tensor* tensor = table->add_tensors();
  tensor->set_dtype(ToWire(array.info.dtype));
  tensor->mutable_shape()->Add(array.info.shape.begin(), array.info.shape.end());
  tensor->set_data(reinterpret_cast<const char*>(array.data.data()), array.data.size());
}

const LoadedArray* Named(const std::vector<LoadedArray>& arrays, const std::string& name) {
  const auto found =
      std::find_if(arrays.begin(), arrays.end(), [&](const LoadedArray& array) { return array.info.name == name; });
  return found == arrays.end() ? nullptr : &*found;
}

// The array that is meant: by name, the only one, or cos and sin together.
absl::Status AddArrays(const DiagnoseArgs& args, const std::vector<LoadedArray>& arrays, v1::TableInput* table) {
  std::vector<std::string> names;
  for (const LoadedArray& array : arrays) names.push_back(array.info.name);
  const std::string known = names.empty() ? "nothing: the file holds no arrays" : absl::StrJoin(names, ", ");
  if (!args.name.empty()) {
    const LoadedArray* array = Named(arrays, args.name);
    if (array == nullptr) return UsageError(absl::StrCat("--name: given '", args.name, "'; allowed: ", known));
    AddTensor(*array, table);
    return absl::OkStatus();
  }
  if (arrays.size() == 1) {
    AddTensor(arrays.front(), table);
    return absl::OkStatus();
  }
  const LoadedArray* cos = Named(arrays, "cos");
  const LoadedArray* sin = Named(arrays, "sin");
  const bool both = args.content == v1::TABLE_CONTENT_UNSPECIFIED || args.content == v1::TABLE_CONTENT_COS_AND_SIN;
  if (both && cos != nullptr && sin != nullptr) {
    AddTensor(*cos, table);
    AddTensor(*sin, table);
    return absl::OkStatus();
  }
  if (args.content == v1::TABLE_CONTENT_COS && cos != nullptr) {
    AddTensor(*cos, table);
  } else if (args.content == v1::TABLE_CONTENT_SIN && sin != nullptr) {
    AddTensor(*sin, table);
  } else {
    return UsageError(absl::StrCat("--name: given nothing; allowed: ", known));
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::DiagnoseRequest> MakeRequest(Tool& tool, const DiagnoseArgs& args) {
  v1::DiagnoseRequest request;
  if (!args.symptom.empty()) {
    if (!args.file.empty()) return UsageError("FILE: given along with --symptom; allowed: one of the two");
    request.set_symptom(args.symptom);
    return request;
  }
  if (args.file.empty()) return UsageError("FILE: given nothing; allowed: a file, or --symptom");
  const absl::StatusOr<ArrayFormat> format = FormatOf(args.file, args.format);
  if (!format.ok()) return format.status();
  const absl::StatusOr<std::vector<LoadedArray>> arrays = ReadArrays(args.file, *format);
  if (!arrays.ok()) return arrays.status();
  v1::TableInput* table = request.mutable_table();
  if (absl::Status status = AddArrays(args, *arrays, table); !status.ok()) return status;
  table->set_content(args.content);
  if (args.first_position) table->set_first_position(*args.first_position);
  if (args.length) request.set_sequence_length(*args.length);
  request.set_max_hypotheses(args.hypotheses);
  if (!args.expected.tokens.empty()) {
    SpecArg expected = args.expected;
    expected.length = args.length;
    absl::StatusOr<LoadedSpec> loaded = LoadSpec(expected, tool);
    if (!loaded.ok()) return loaded.status();
    *request.mutable_expected() = loaded->spec;
  }
  return request;
}

// Text under a heading, with the same indent on every line.
void AppendLine(std::string& text, absl::string_view heading, const std::string& words) {
  if (!words.empty()) absl::StrAppendFormat(&text, "    %-8s %s\n", heading, words);
}

absl::Status AppendHypothesis(std::string& text, const v1::Hypothesis& hypothesis) {
  const absl::StatusOr<std::string> spec = ToJson(WithoutData(hypothesis.spec()), /*pretty=*/false);
  if (!spec.ok()) return spec.status();
  absl::StrAppendFormat(&text, "  %s  (confidence %.2f)\n", hypothesis.scheme(), hypothesis.confidence());
  AppendLine(text, "spec", *spec);
  AppendLine(text, "layout", hypothesis.layout());
  AppendLine(text, "start", absl::StrCat(hypothesis.first_position()));
  if (hypothesis.sequence_length() > 0) AppendLine(text, "length", absl::StrCat(hypothesis.sequence_length()));
  if (hypothesis.computed() != "exact") AppendLine(text, "computed", hypothesis.computed());
  AppendLine(text, "off by",
             hypothesis.max_ulps() == 0
                 ? std::string("nothing")
                 : absl::StrFormat("%.3g ulp, %.3g%s", hypothesis.max_ulps(), hypothesis.max_difference(),
                                   hypothesis.reproduces() ? " (rounding)" : ""));
  AppendLine(text, "note", hypothesis.note());
  return absl::OkStatus();
}

void AppendFault(std::string& text, const v1::Fault& fault) {
  absl::StrAppendFormat(&text, "  %s  (confidence %.2f)\n", fault.name(), fault.confidence());
  AppendLine(text, "symptom",
             absl::StrCat(fault.symptom(), fault.has_first_row() ? absl::StrCat(", from row ", fault.first_row()) : ""));
  AppendLine(text, "cause", fault.cause());
  AppendLine(text, "check", fault.check());
  AppendLine(text, "fix", fault.fix());
}

absl::StatusOr<std::string> TextOf(const v1::DiagnoseResponse& answer) {
  std::string text = absl::StrCat(answer.verdict(), "\n");
  for (const std::string& seen : answer.observations()) absl::StrAppend(&text, "  ", seen, "\n");
  if (!answer.hypotheses().empty()) absl::StrAppend(&text, "\nWhat it may be\n");
  for (const v1::Hypothesis& hypothesis : answer.hypotheses()) {
    if (absl::Status status = AppendHypothesis(text, hypothesis); !status.ok()) return status;
  }
  if (!answer.faults().empty()) absl::StrAppend(&text, "\nWhat went wrong\n");
  for (const v1::Fault& fault : answer.faults()) AppendFault(text, fault);
  int number = 0;
  for (const v1::SymptomCheck& check : answer.checks()) {
    absl::StrAppend(&text, "\n", ++number, ". ", check.cause(), "\n");
    AppendLine(text, "check", check.check());
    AppendLine(text, "call", check.call());
    AppendLine(text, "fix", check.fix());
  }
  return text;
}

absl::Status Run(Tool& tool, const DiagnoseArgs& args) {
  const absl::StatusOr<v1::DiagnoseRequest> request = MakeRequest(tool, args);
  if (!request.ok()) return request.status();
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  const auto answer = (*client)->Diagnose(*request);
  if (!answer.ok()) return answer.status();
  if (tool.json) return tool.PrintJson(*answer);
  const absl::StatusOr<std::string> text = TextOf(*answer);
  return text.ok() ? tool.Print(*text) : text.status();
}

}  // namespace

Command AddDiagnose(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<DiagnoseArgs>();
  CLI::App* command =
      app.add_subcommand("diagnose", "Tell what a table is and what went wrong in it, or what to check for a symptom");
  command->footer(
      "  phasor diagnose cos.npy\n"
      "  phasor diagnose tables.npz --first-position 100 --expected config.json\n"
      "  phasor diagnose bias.npy --content bias --expected alibi num_heads=12\n"
      "  phasor diagnose --symptom list\n"
      "  phasor diagnose --symptom \"worse beyond N tokens\"");
  command->add_option("FILE", args->file,
                      ".npy, .npz or .safetensors; of several arrays --name chooses, or cos and sin are taken together");
  command->add_option("--format", args->format, "npy, npz or safetensors, where the name does not say it");
  AddChoice(*command, "--content", args->content, kContentNames, "What the numbers are (default: found out)");
  command->add_option("--name", args->name, "Name of the array, where the file has several");
  command->add_option("--first-position", args->first_position, "Position of the first row (default: found out)");
  command->add_option("--expected", args->expected.tokens,
                      "SPEC that the table is meant to be: a file, JSON, or a scheme's name with key=value pairs");
  command->add_option("--layer-type", args->expected.layer_type, "Which of the expected model's layer types");
  command->add_option("--length", args->length,
                      "Sequence length that the table was made for, where its schedule depends on it");
  command->add_option("--hypotheses", args->hypotheses, "How many to tell at most (1 to 20, default 5)");
  command->add_option("--symptom", args->symptom, "A symptom by name or words; list shows all");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
