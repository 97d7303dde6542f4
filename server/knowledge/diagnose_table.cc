#include <algorithm>
#include <cmath>
#include <utility>

#include "server/knowledge/diagnosis.h"
#include "server/text.h"

namespace phasor::server {
namespace {

bool IsBias(InputContent content) {
  return content == InputContent::kBias || content == InputContent::kBiasVector || content == InputContent::kSlopes;
}

// What the numbers of a tensor alone allow.
struct Looks {
  bool bounded = true;   // |value| ≤ 2: cosines and sines, with some attention factor
  bool positive = true;  // all > 0
  bool finite = true;
};
Looks LooksOf(const InputTensor& tensor) {
  Looks looks;
  for (const double value : tensor.values) {
    looks.finite = looks.finite && std::isfinite(value);
    if (std::isnan(value)) continue;
    looks.bounded = looks.bounded && std::fabs(value) <= 2;
    looks.positive = looks.positive && value > 0;
  }
  return looks;
}

// Whether two columns have one sum of squares in every row, as a cosine and a sine of one angle do.
bool ArePairs(const InputTensor& tensor, int64_t first, int64_t second) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  const auto square = [&](int64_t row) {
    const double a = tensor.values[static_cast<size_t>(row * columns + first)];
    const double b = tensor.values[static_cast<size_t>(row * columns + second)];
    return a * a + b * b;
  };
  const double expected = square(0);
  for (int64_t row = 0; row < rows; row += std::max<int64_t>(1, rows / 16)) {
    if (!(std::fabs(square(row) - expected) <= 0.03 * expected)) return false;
  }
  return expected > 0;
}

// Of a matrix within the bounds of cosines and sines. What it looks like is tried first: a search that finds nothing is the
// dear one.
std::vector<InputContent> ContentsOfAngles(const InputTensor& tensor) {
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1], half = columns / 2;
  std::vector<InputContent> contents{InputContent::kCos, InputContent::kSin, InputContent::kCosSin,
                                     InputContent::kSinusoidal};
  const auto first = [&](InputContent content) {
    std::erase(contents, content);
    contents.insert(contents.begin(), content);
  };
  if (columns >= 4 && ArePairs(tensor, 0, 1) && ArePairs(tensor, 2, 3)) {
    first(InputContent::kSinusoidal);
  } else if (columns % 2 == 0 && half >= 1 && ArePairs(tensor, 0, half) && ArePairs(tensor, half - 1, columns - 1)) {
    // The slowest pair has hardly turned: its cosine is the larger one.
    double cosines = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const double* values = &tensor.values[static_cast<size_t>(row * columns)];
      cosines += std::fabs(values[half - 1]) - std::fabs(values[columns - 1]);
    }
    first(cosines >= 0 ? InputContent::kSinusoidal : InputContent::kCosSin);
    first(cosines >= 0 ? InputContent::kCosSin : InputContent::kSinusoidal);
  }
  contents.push_back(InputContent::kBias);
  contents.push_back(InputContent::kBiasVector);
  return contents;
}

// Contents worth trying, the likeliest first.
std::vector<InputContent> ContentsOf(const InputTable& table) {
  if (table.tensors.size() == 2) return {InputContent::kCosAndSin};
  const InputTensor& tensor = table.tensors.front();
  const bool matrix = tensor.shape.size() == 2;
  const Looks looks = LooksOf(tensor);
  if (tensor.shape.size() == 1) {
    if (looks.positive && looks.finite) return {InputContent::kInvFreq, InputContent::kSlopes, InputContent::kBiasVector};
    return {InputContent::kBiasVector, InputContent::kSlopes};
  }
  if (!matrix) return {InputContent::kBias};
  if (!looks.bounded) return {InputContent::kBias, InputContent::kBiasVector};
  return ContentsOfAngles(tensor);
}

// How well a diagnosis explains its table: reproduced by a rule, then a named fault, then what could hold any numbers (a
// learned bias, given frequencies), then the likeliest hypothesis.
double Worth(const Diagnosis& diagnosis) {
  constexpr double kRule = 0.5;  // confidence from which a hypothesis says more than the numbers themselves
  double worth = 0;
  for (const Hypothesis& hypothesis : diagnosis.hypotheses) {
    if (hypothesis.any_numbers) continue;
    const double rank = !hypothesis.reproduces ? 0 : hypothesis.confidence >= kRule ? 3 : 1;
    worth = std::max(worth, rank + hypothesis.confidence);
    if (hypothesis.computed != "exact" && hypothesis.computed != "compat_f32")
      worth = std::max(worth, 2 + hypothesis.confidence);
  }
  for (const Fault& fault : diagnosis.faults) worth = std::max(worth, 2 + fault.confidence);
  return worth;
}

}  // namespace

absl::StatusOr<Diagnosis> DiagnoseTable(const Backend& backend, const DiagnoseInput& input) {
  if (input.table.content != InputContent::kUnknown) {
    return IsBias(input.table.content) ? DiagnoseBias(backend, input) : DiagnoseAngles(backend, input);
  }
  std::optional<Diagnosis> best;
  DiagnoseInput with = input;
  std::vector<InputContent> contents = ContentsOf(input.table);
  if (input.expected) {  // then it can only be of that kind
    const bool bias = SchemeOf(input.expected->spec).family == "bias";
    std::erase_if(contents, [&](InputContent content) { return IsBias(content) != bias; });
    if (contents.empty()) contents.push_back(bias ? InputContent::kBias : InputContent::kSinusoidal);
  }
  for (const InputContent content : contents) {
    with.table.content = content;
    auto diagnosis = IsBias(content) ? DiagnoseBias(backend, with) : DiagnoseAngles(backend, with);
    if (!diagnosis.ok()) return diagnosis;
    // That a matrix of nobody knows what is a learned bias is no explanation of it.
    if (input.table.tensors.front().shape.size() > 1) {
      std::erase_if(diagnosis->hypotheses, [](const Hypothesis& hypothesis) { return hypothesis.any_numbers; });
    }
    const bool sure = Worth(*diagnosis) > 3.5;
    if (!best || Worth(*diagnosis) > Worth(*best)) best = *std::move(diagnosis);
    if (sure) break;
  }
  return *std::move(best);
}

}  // namespace phasor::server
