// phasor recommend: which encoding to take.
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/spec_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

const std::map<std::string, v1::ModelTask> kTasks = {{"language_model", v1::MODEL_TASK_LANGUAGE_MODEL},
                                                     {"encoder", v1::MODEL_TASK_ENCODER},
                                                     {"vision", v1::MODEL_TASK_VISION},
                                                     {"speech", v1::MODEL_TASK_SPEECH},
                                                     {"time_series", v1::MODEL_TASK_TIME_SERIES},
                                                     {"retrieval", v1::MODEL_TASK_RETRIEVAL}};
const std::map<std::string, v1::DeployTarget> kTargets = {{"any", v1::DEPLOY_TARGET_ANY},
                                                          {"onnx", v1::DEPLOY_TARGET_ONNX},
                                                          {"tensorrt", v1::DEPLOY_TARGET_TENSORRT},
                                                          {"npu", v1::DEPLOY_TARGET_NPU}};
const std::map<std::string, v1::Tuning> kTunings = {
    {"none", v1::TUNING_NONE}, {"short", v1::TUNING_SHORT}, {"full", v1::TUNING_FULL}};

struct RecommendArgs {
  v1::ModelTask task = v1::MODEL_TASK_UNSPECIFIED;
  int64_t trained = 0, wanted = 0, head_dim = 0, heads = 0;
  uint64_t memory = 0;
  v1::DeployTarget target = v1::DEPLOY_TARGET_UNSPECIFIED;
  v1::Tuning tuning = v1::TUNING_UNSPECIFIED;
  SpecArg current;
};

std::string FigureText(const v1::Figure& figure) {
  const std::string value =
      figure.unit() == "bytes" ? FormatBytes(figure.value()) : absl::StrFormat("%.10g", figure.value());
  return absl::StrCat(value, figure.unit().empty() || figure.unit() == "bytes" ? "" : " ",
                      figure.unit() == "bytes" ? "" : figure.unit());
}

absl::Status AppendChoice(std::string& text, int place, const v1::Choice& choice) {
  const auto spec = ToJson(choice.spec(), /*pretty=*/false);
  if (!spec.ok()) return spec.status();
  absl::StrAppend(&text, place, ". ", choice.scheme(), "  (", choice.rule(), ")\n");
  if (!choice.form().empty()) absl::StrAppend(&text, "   hold    ", choice.form(), "\n");
  for (const std::string& reason : choice.reasons()) absl::StrAppend(&text, "   why     ", reason, "\n");
  for (const v1::Figure& figure : choice.figures()) {
    absl::StrAppendFormat(&text, "   number  %-34s %-22s %s\n", figure.name(), FigureText(figure), figure.meaning());
  }
  for (const std::string& check : choice.checks()) absl::StrAppend(&text, "   check   ", check, "\n");
  absl::StrAppend(&text, "   spec    ", *spec, "\n\n");
  return absl::OkStatus();
}

absl::Status Run(Tool& tool, const RecommendArgs& args) {
  v1::RecommendRequest request;
  request.set_task(args.task);
  request.set_trained_length(args.trained);
  request.set_wanted_length(args.wanted);
  request.set_head_dim(args.head_dim);
  request.set_num_heads(args.heads);
  request.set_memory_limit_bytes(static_cast<int64_t>(args.memory));
  request.set_target(args.target);
  request.set_tuning(args.tuning);
  if (!args.current.tokens.empty()) {
    absl::StatusOr<LoadedSpec> current = LoadSpec(args.current, tool);
    if (!current.ok()) return current.status();
    *request.mutable_current() = std::move(current->spec);
  }
  absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  const auto answer = (*client)->Recommend(request);
  if (!answer.ok()) return answer.status();
  if (tool.json) return tool.PrintJson(*answer);
  std::string text;
  for (int i = 0; i < answer->choices_size(); ++i) {
    if (absl::Status status = AppendChoice(text, i + 1, answer->choices(i)); !status.ok()) return status;
  }
  if (!answer->contradiction().empty())
    absl::StrAppend(&text, "These wishes exclude one another. ", answer->contradiction(), "\n\n");
  if (!answer->rejected().empty()) absl::StrAppend(&text, "Left out\n");
  for (const v1::Rejected& rejected : answer->rejected()) {
    absl::StrAppendFormat(&text, "  %-22s %s  (%s)\n", rejected.scheme(), rejected.reason(), rejected.rule());
  }
  return tool.Print(text);
}

}  // namespace

Command AddRecommend(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<RecommendArgs>();
  CLI::App* command = app.add_subcommand("recommend", "Choose an encoding, with reasons and numbers");
  command->footer(
      "  phasor recommend --task language_model --trained 8192 --wanted 131072 --tuning short --current model/config.json\n"
      "  phasor recommend --task language_model --trained 4096 --wanted 16384 --current rope_default head_dim=128 base=1e4\n"
      "  phasor recommend --task retrieval --trained 512 --wanted 8192 --tuning full --target onnx --memory 2GiB --json");
  AddChoice(*command, "--task", args->task, kTasks, "What the model is for")->required();
  command->add_option("--trained", args->trained, "Tokens (patches, frames, steps) of training")->required();
  command->add_option("--wanted", args->wanted, "Tokens that it shall handle (default those of training)");
  command->add_option("--head-dim", args->head_dim, "Width of a head (default current's, else 128)");
  command->add_option("--heads", args->heads, "Heads (default 32)");
  command->add_option("--memory", args->memory, "Limit for tables and biases, such as 512MiB (default none)")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/false));
  AddChoice(*command, "--target", args->target, kTargets, "Where it will run")->default_str("any");
  AddChoice(*command, "--tuning", args->tuning, kTunings, "How much of it can be trained: not, shortly, from the beginning")
      ->default_str("none");
  command->add_option("--current", args->current.tokens, "What the model has now: SPEC as `phasor table` takes it");
  command->add_option("--layer-type", args->current.layer_type, "Of --current: which of a model's layer types");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
