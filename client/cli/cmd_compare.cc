// phasor compare: in what two encodings differ.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "client/cli/positions_arg.h"
#include "client/cli/side_arg.h"
#include "client/cli/tool.h"
#include "client/cli/wire_names.h"

namespace phasor::cli {
namespace {

struct CompareArgs {
  std::vector<std::string> tokens;
  SideArg a, b;
  std::string positions;
  std::optional<int64_t> length;
  uint64_t seed = 0;
};

std::string NameOf(v1::Dtype dtype) {
  for (const auto& [name, value] : kDTypeNames) {
    if (value == dtype) return name;
  }
  return "?";
}

// Of a long list a few, with the first and the last.
template <typename List>
std::vector<v1::DifferenceAt> Some(const List& list, int most) {
  std::vector<v1::DifferenceAt> shown;
  for (int i = 0; i < most && i < list.size(); ++i) {
    const int n = std::min<int>(most, list.size());
    shown.push_back(list[n > 1 ? static_cast<int>(static_cast<int64_t>(i) * (list.size() - 1) / (n - 1)) : 0]);
  }
  return shown;
}

template <typename List>
void AppendRows(std::string& text, const std::string& title, const List& list) {
  if (list.empty()) return;
  absl::StrAppendFormat(&text, "\n  %-12s%-14srms\n", title, "largest");
  for (const v1::DifferenceAt& at : Some(list, 9))
    absl::StrAppendFormat(&text, "  %-12d%-14.6g%.6g\n", at.index(), at.max(), at.rms());
}

void AppendTransformation(std::string& text, const v1::Transformation& t) {
  absl::StrAppend(&text, "\nFrom A to B: ", t.kind(), "\n  ", t.how(), "\n");
  if (t.permutation().empty()) return;
  constexpr int kShown = 32;
  absl::StrAppend(&text, "  permutation [", t.permutation_size(), "]  ");
  for (int i = 0; i < std::min(t.permutation_size(), kShown); ++i)
    absl::StrAppend(&text, i > 0 ? ", " : "", t.permutation(i));
  absl::StrAppend(&text, t.permutation_size() > kShown ? ", … (--json has all)\n" : "\n");
}

std::string Describe(const v1::CompareSpecsResponse& answer) {
  std::string text = absl::StrCat(answer.verdict(), "\n");
  if (!answer.fields().empty()) text += "\nFields that differ\n";
  for (const v1::FieldDifference& field : answer.fields()) {
    const auto value = [](const std::string& json) { return json.empty() ? std::string("(not there)") : json; };
    absl::StrAppend(&text, "  ", field.field(), ": ", value(field.a()), " → ", value(field.b()), "\n");
  }
  absl::StrAppendFormat(&text, "\nLargest difference  %.6g at %d, column %d\nRoot mean square    %.6g\n",
                        answer.max_difference(), answer.max_position(), answer.max_column(), answer.rms_difference());
  if (answer.has_max_ulps())
    absl::StrAppendFormat(&text, "In units in the last place of the table's type  %.6g\n", answer.max_ulps());
  for (const v1::FirstDifference& first : answer.first_differences()) {
    absl::StrAppendFormat(&text, "%-5s", NameOf(first.dtype()));
    if (first.has_position()) {
      absl::StrAppendFormat(&text, " first differs at %d, %.3g %% of all entries\n", first.position(), 100 * first.share());
    } else {
      text += " equal\n";
    }
  }
  if (answer.max_difference() > 0) {
    AppendRows(text, "position", answer.by_position());
    AppendRows(text, "column", answer.by_column());
  }
  if (answer.has_scores()) {
    const v1::ScoreEffect& scores = answer.scores();
    absl::StrAppendFormat(
        &text, "\nScores of %d pairs of random unit vectors: rms %.4g under A; they change by %.4g (rms), %.4g at most\n",
        scores.samples(), scores.rms_score(), scores.rms_change(), scores.max_change());
    if (scores.max_change() > 0) AppendRows(text, "distance", scores.by_distance());
  }
  AppendTransformation(text, answer.transformation());
  return text;
}

absl::Status Run(Tool& tool, const CompareArgs& args) {
  auto specs = SplitSpecs(args.tokens, 2);
  if (!specs.ok()) return specs.status();
  if (specs->size() != 2)
    return UsageError("A B: given one of them; allowed: two, the second beginning with a word that is no key=value");
  v1::CompareSpecsRequest request;
  if (!args.positions.empty()) {
    const auto positions = ParsePositions(args.positions);
    if (!positions.ok()) return positions.status();
    if (positions->stride != 1 || !positions->ids.empty() || !positions->axes.empty()) {
      return UsageError(absl::StrCat("--positions: given '", args.positions, "'; allowed: START:STOP"));
    }
    request.set_first_position(positions->start);
    request.set_count(positions->count);
  }
  SideArg a = args.a, b = args.b;
  a.tokens = std::move(specs->at(0));
  b.tokens = std::move(specs->at(1));
  auto side_a = LoadSide(a, args.length, tool);
  if (!side_a.ok()) return side_a.status();
  auto side_b = LoadSide(b, args.length, tool);
  if (!side_b.ok()) return side_b.status();
  *request.mutable_a() = *std::move(side_a);
  *request.mutable_b() = *std::move(side_b);
  if (args.length) request.set_sequence_length(*args.length);
  request.set_seed(args.seed);
  const absl::StatusOr<client::Client*> client = tool.Connect();
  if (!client.ok()) return client.status();
  const auto answer = (*client)->CompareSpecs(request);
  if (!answer.ok()) return answer.status();
  return tool.json ? tool.PrintJson(*answer) : tool.Print(Describe(*answer));
}

}  // namespace

Command AddCompare(CLI::App& app, Tool& tool) {
  auto args = std::make_shared<CompareArgs>();
  CLI::App* command = app.add_subcommand(
      "compare", "Tell in what two encodings or tables differ, and whether one can be made from the other");
  command->footer(
      "A and B: SPECs as elsewhere, or .npy, .npz and .safetensors files with a table. A scheme's key=value pairs follow "
      "its\n"
      "name, and the next name begins B.\n\n"
      "  phasor compare rope_default head_dim=128 rope_linear head_dim=128 factor=4\n"
      "  phasor compare llama-2.json llama-3.json\n"
      "  phasor compare --content cos_sin cache.npy config.json");
  command->add_option("A B", args->tokens, "The two, one after the other")->required();
  command->add_option(
      "--positions", args->positions,
      "START:STOP, as in Python (of biases: distances back from the query, or rows of a window's table); 4096 of them "
      "otherwise");
  command->add_option("--length", args->length, "Sequence length, for schemes that depend on it");
  command->add_option("--layer-type", args->a.layer_type, "A's layer type, as `phasor resolve` names them");
  command->add_option("--layer-type-b", args->b.layer_type, "B's");
  command->add_option("--content", args->a.content,
                      "What A's table is: cos, sin, cos_and_sin, cos_sin, sinusoidal, bias, bias_vector, inv_freq, slopes");
  command->add_option("--content-b", args->b.content, "What B's table is");
  command->add_option("--first-position", args->a.first_position, "Position of the first row of A's table (0)");
  command->add_option("--first-position-b", args->b.first_position, "Position of the first row of B's table (0)");
  command->add_option("--weight", args->a.weights, "Learned numbers of A, NAME=FILE")->allow_extra_args(false);
  command->add_option("--weight-b", args->b.weights, "Learned numbers of B, NAME=FILE")->allow_extra_args(false);
  command->add_flag("--compat-f32", args->a.compat_f32, "Compute A as float32 libraries do");
  command->add_flag("--compat-f32-b", args->b.compat_f32, "Compute B as float32 libraries do");
  command->add_option("--seed", args->seed, "Seed of the random vectors (0)");
  return {command, [args, &tool] { return Run(tool, *args); }};
}

}  // namespace phasor::cli
