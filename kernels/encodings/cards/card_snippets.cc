#include "kernels/encodings/cards/card_snippets.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/string_view.h"

namespace phasor {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

std::string Extents(const ExampleInput& input) { return absl::StrJoin(input.extents(), ", "); }

std::string FractionalPositions(const CardExample& example) { return absl::StrJoin(example.fractional_positions, ", "); }

// Queries and keys are arguments of their own; the rest are weights.
bool IsWeight(const CardExample& example, const ExampleInput& input) {
  return example.kind != ExampleKind::kScores || (input.name != "q" && input.name != "k");
}

// ---- C++

constexpr char kCppNumbers[] = R"(
// Element i is ((i * step) mod 17 - 8) / 8, as in the other snippets.
std::vector<double> Numbers(const std::vector<int64_t>& shape, int64_t step) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<double> values(count);
  for (int64_t i = 0; i < count; ++i) values[i] = static_cast<double>((i * step) % 17 - 8) / 8;
  return values;
}
)";

// Two schemes keep their layers in arrays: "w1" is w[0].
std::string MemberOf(const CardDetails& card, const ExampleInput& input) {
  if (card.scheme != "dynamic_position_bias" && card.scheme != "distilled") return std::string(input.name);
  return absl::StrCat(View(input.name.substr(0, 1)), "[", input.name[1] - '1', "]");
}

std::string CppSpec(const CardDetails& card) {
  const CardExample& example = card.example;
  std::string code = absl::StrCat("  auto wanted = ", View(example.cpp_spec), ";\n");
  for (const ExampleInput& input : example.inputs) {
    if (!IsWeight(example, input)) continue;
    absl::StrAppend(&code, "  wanted.", MemberOf(card, input), " = phasor::MakeWeight({", Extents(input), "}, Numbers({",
                    Extents(input), "}, ", input.step, "));\n");
  }
  const std::string length = example.sequence_length > 0 ? absl::StrCat(example.sequence_length) : "std::nullopt";
  absl::StrAppend(&code,
                  "  const auto spec = phasor::Canonicalize(wanted);\n"
                  "  if (!spec.ok()) return 1;\n"
                  "  const auto resolved = phasor::Resolve(*spec, ",
                  length,
                  ", phasor::Precision::kExact);\n"
                  "  const auto backend = phasor::CreateBackend(\"auto\");\n"
                  "  if (!resolved.ok() || !backend.ok()) return 1;\n\n");
  return code;
}

// A source of positions and how many they are.
std::string CppPositions(const CardExample& example) {
  if (example.fractional_positions.empty()) return absl::StrCat("  const int64_t rows = ", example.positions, ";\n");
  return absl::StrCat("  const std::vector<double> positions{", FractionalPositions(example),
                      "};\n  const int64_t rows = positions.size();\n");
}

constexpr char kCppAngles[] = R"(  const auto& plan = std::get<phasor::AnglePlan>(resolved->plan);
  std::vector<double> cos(rows * plan.pairs()), sin(rows * plan.pairs());
  phasor::AngleTask task{.plan = &plan, .dtype = phasor::DType::kF64, .row_stride = plan.pairs()};
$SOURCE  task.cos = cos.data();
  task.sin = sin.data();
  if (!(*backend)->Run(task, {0, rows}, nullptr).ok()) return 1;
  for (const double value : cos) std::printf("%.17g\n", value);
  for (const double value : sin) std::printf("%.17g\n", value);
)";

constexpr char kCppMixedAngles[] = R"(  const auto& plan = std::get<phasor::MixedAnglePlan>(resolved->plan);
  std::vector<double> cos(rows * plan.heads * plan.pairs), sin(rows * plan.heads * plan.pairs);
  phasor::MixedAngleTask task{.plan = &plan, .dtype = phasor::DType::kF64};
$SOURCE  task.cos = cos.data();
  task.sin = sin.data();
  if (!(*backend)->Run(task, {0, rows}, nullptr).ok()) return 1;
  for (const double value : cos) std::printf("%.17g\n", value);
  for (const double value : sin) std::printf("%.17g\n", value);
)";

constexpr char kCppRows[] = R"(  phasor::AbsolutePositions where{.rows = rows};
$SOURCE  std::vector<double> table(rows * phasor::AbsoluteColumns(spec->spec));
  const int64_t bytes = phasor::AbsoluteScratchBytes(spec->spec, where, phasor::DType::kF64);
  std::vector<double> memory(bytes / 8 + 16);
  auto* const scratch = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  const auto steps =
      phasor::AbsoluteSteps({&spec->spec, &resolved->plan, where, phasor::DType::kF64, table.data(), scratch});
  if (!steps.ok() || !phasor::RunProgram(**backend, *steps).ok()) return 1;
  for (const double value : table) std::printf("%.17g\n", value);
)";

constexpr char kCppBiasVector[] = R"(  const int64_t queries = rows, keys = rows, distances = queries + keys - 1;
  const auto plan = phasor::DistancePlanOf(resolved->plan);
  std::vector<double> bias(phasor::HeadsOf(*plan) * distances);
  phasor::BiasVectorTask task{.plan = *plan, .dtype = phasor::DType::kF64};
  task.first_distance = -(queries - 1);  // key - query
  task.heads = phasor::HeadsOf(*plan);
  task.out = bias.data();
  task.head_stride = distances;
  if (!(*backend)->Run(task, {0, distances}, nullptr).ok()) return 1;
  for (const double value : bias) std::printf("%.17g\n", value);
)";

constexpr char kCppLearnedVector[] = R"(  const int64_t queries = rows, keys = rows, distances = queries + keys - 1;
  const int64_t heads = phasor::TraitsOf(spec->spec)->heads;
  std::vector<double> bias(heads * distances);
  const int64_t bytes = phasor::BiasScratchBytes(spec->spec, phasor::DType::kF64, heads, 1, distances);
  std::vector<double> memory(bytes / 8 + 16);
  auto* const scratch = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  std::vector<phasor::ProgramStep> steps;
  phasor::AppendBiasVectorSteps(resolved->plan, phasor::DType::kF64, 0, heads, -(queries - 1), distances, bias.data(),
                                scratch, &steps);
  if (!phasor::RunProgram(**backend, steps).ok()) return 1;
  for (const double value : bias) std::printf("%.17g\n", value);
)";

constexpr char kCppBiasMatrix[] = R"(  std::vector<int64_t> places(rows);
  for (int64_t i = 0; i < rows; ++i) places[i] = i;
  phasor::BiasPart part{.dtype = phasor::DType::kF64, .query_positions = places, .key_positions = places};
  part.heads = phasor::TraitsOf(spec->spec)->heads;
  std::vector<double> bias(part.heads * rows * rows);
  part.out = bias.data();
  const int64_t bytes = phasor::BiasScratchBytes(spec->spec, part.dtype, part.heads, rows, rows);
  std::vector<double> memory(bytes / 8 + 16);
  auto* const scratch = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  std::vector<phasor::ProgramStep> steps;
  phasor::AppendBiasSteps(resolved->plan, part, scratch, &steps);
  if (!phasor::RunProgram(**backend, steps).ok()) return 1;
  for (const double value : bias) std::printf("%.17g\n", value);
)";

// $Q, $K: the shapes [1, tokens, heads, channels]; $HEADS and $DIM: of them.
constexpr char kCppScores[] = R"(  std::vector<double> q = Numbers({$Q}, $QSTEP), k = Numbers({$K}, $KSTEP);
  phasor::ScoreSettings settings{.key_heads = $HEADS, .tensor_dtype = phasor::DType::kF64, .dtype = phasor::DType::kF64};
  settings.shape = {.batch = 1, .heads = $HEADS, .queries = rows, .keys = rows, .dim = $DIM};
  for (int64_t i = 0; i < rows; ++i) settings.query_positions.ids.push_back(i);
  settings.key_positions = settings.query_positions;
  settings.terms = {spec->spec};
  const auto program = phasor::ScoreProgram::Make(settings);
  if (!program.ok()) return 1;
  std::vector<double> scores(settings.shape.rows() * rows), memory(program->scratch_bytes() / 8 + 16);
  const phasor::HeadVectors layout{phasor::DType::kF64, nullptr, rows * $HEADS * $DIM, $HEADS * $DIM, $DIM};
  phasor::ScoreMemory where{.q = q.data(), .k = k.data(), .q_layout = layout, .k_layout = layout};
  where.scratch = reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(memory.data()) + 63) / 64 * 64);
  where.scores = scores.data();
  const phasor::Resolved* const plans[] = {&*resolved};
  if (!phasor::RunProgram(**backend, program->Steps(plans, where)).ok()) return 1;
  for (const double value : scores) std::printf("%.17g\n", value);
)";

struct CppKind {
  std::string_view include;  // beside backend.h and encoding.h
  std::string_view body;
  std::string_view source;  // how fractional positions get in
};

CppKind KindOf(const CardDetails& card) {
  switch (card.example.kind) {
    case ExampleKind::kAngles:
      return {"", kCppAngles, "  task.positions.fractional_ids = positions;\n"};
    case ExampleKind::kMixedAngles:
      return {"", kCppMixedAngles, "  task.positions.fractional_ids = positions;\n"};
    case ExampleKind::kRows:
      return {"#include <kernels/program/absolute_rows.h>\n", kCppRows, "  where.source.fractional_ids = positions;\n"};
    case ExampleKind::kBiasVector:
      if (card.scheme == "dynamic_position_bias")
        return {"#include <kernels/program/window_bias.h>\n", kCppLearnedVector, ""};
      return {"", kCppBiasVector, ""};
    case ExampleKind::kBiasMatrix:
      return {"#include <kernels/program/window_bias.h>\n", kCppBiasMatrix, ""};
    case ExampleKind::kScores:
      break;
  }
  return {"#include <kernels/program/scores.h>\n", kCppScores, ""};
}

std::string CppBody(const CardDetails& card) {
  const CardExample& example = card.example;
  const CppKind kind = KindOf(card);
  std::string body(kind.body);
  absl::StrReplaceAll({{"$SOURCE", example.fractional_positions.empty() ? "" : View(kind.source)}}, &body);
  if (example.kind != ExampleKind::kScores) return body;
  const ExampleInput &q = example.inputs[0], &k = example.inputs[1];
  absl::StrReplaceAll({{"$QSTEP", absl::StrCat(q.step)},
                       {"$KSTEP", absl::StrCat(k.step)},
                       {"$Q", Extents(q)},
                       {"$K", Extents(k)},
                       {"$HEADS", absl::StrCat(q.shape[2])},
                       {"$DIM", absl::StrCat(q.shape[3])}},
                      &body);
  return body;
}

// ---- the tool

constexpr char kShellNumbers[] = R"(python3 - <<'END'  # files with the numbers of the other snippets
import math
import struct


def save(name, step, *shape):
    numbers = [((i * step) % 17 - 8) / 8 for i in range(math.prod(shape))]
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    with open(name + ".npy", "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(struct.pack(f"<{len(numbers)}d", *numbers))


)";

// Options that give the example's weights: "--weight w1=w1.npy".
std::string WeightOptions(const CardExample& example) {
  const absl::string_view term = example.kind == ExampleKind::kScores ? "0:" : "";
  std::string options;
  for (const ExampleInput& input : example.inputs) {
    if (!IsWeight(example, input)) continue;
    absl::StrAppend(&options, " --weight ", term, View(input.name), "=", View(input.name), ".npy");
  }
  return options;
}

std::string Command(const CardDetails& card) {
  const CardExample& example = card.example;
  const std::string spec = absl::StrCat("'", View(example.spec), "'"), weights = WeightOptions(example);
  switch (example.kind) {
    case ExampleKind::kBiasVector:
    case ExampleKind::kBiasMatrix:
      return absl::StrCat("phasor bias ", spec, weights, " --queries ", example.positions, " --keys ", example.positions,
                          example.kind == ExampleKind::kBiasMatrix ? " --form full" : "", " --dtype f64 -o out.npz\n");
    case ExampleKind::kScores:
      return absl::StrCat("phasor scores --q q.npy --k k.npy --term ", spec, weights, " -o out.npz\n");
    default:
      break;
  }
  const std::string positions = example.fractional_positions.empty() ? absl::StrCat("0:", example.positions)
                                                                     : absl::StrJoin(example.fractional_positions, ",");
  const std::string length = example.sequence_length > 0 ? absl::StrCat(" --length ", example.sequence_length) : "";
  const absl::string_view role = card.scheme == "pope" ? " --role query" : "";
  return absl::StrCat("phasor table ", spec, weights, " --positions=", positions, length, role, " --dtype f64 -o out.npz\n");
}

}  // namespace

double ExampleValue(const ExampleInput& input, int64_t index) {
  return static_cast<double>(index * input.step % 17 - 8) / 8;
}

std::string PytorchSnippet(const CardDetails& card) {
  std::string code;
  if (!card.example.inputs.empty()) {
    code =
        "\n\ndef numbers(step, *shape):  # exact in every format\n"
        "    count = torch.arange(math.prod(shape), dtype=torch.float64)\n"
        "    return ((count * step) % 17 - 8).reshape(shape) / 8\n\n";
    for (const ExampleInput& input : card.example.inputs) {
      absl::StrAppend(&code, "\n", View(input.name), " = numbers(", input.step, ", ", Extents(input), ")");
    }
    code += "\n\n";
  }
  absl::StrAppend(&code, code.empty() ? "\n" : "", View(card.pytorch));
  const bool needs_math = code.find("math.") != std::string::npos;
  return absl::StrCat(needs_math ? "import math\n\n" : "", "import torch\n", code);
}

std::string CppSnippet(const CardDetails& card) {
  return absl::StrCat("#include <kernels/backend.h>\n#include <kernels/encodings/encoding.h>\n", View(KindOf(card).include),
                      "\n#include <cstdint>\n#include <cstdio>\n#include <vector>\n",
                      card.example.inputs.empty() ? "" : kCppNumbers, "\nint main() {\n", CppSpec(card),
                      CppPositions(card.example), CppBody(card), "}\n");
}

std::string PhasorSnippet(const CardDetails& card) {
  if (card.example.inputs.empty()) return Command(card);
  std::string code = kShellNumbers;
  for (const ExampleInput& input : card.example.inputs) {
    absl::StrAppend(&code, "save(\"", View(input.name), "\", ", input.step, ", ", Extents(input), ")\n");
  }
  return absl::StrCat(code, "END\n", Command(card));
}

}  // namespace phasor
