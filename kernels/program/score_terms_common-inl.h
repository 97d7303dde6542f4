// What score terms share: weights as doubles, and checks of their shapes. Part of score_terms.cc alone.
#ifndef PHASOR_KERNELS_PROGRAM_SCORE_TERMS_COMMON_INL_H_
#define PHASOR_KERNELS_PROGRAM_SCORE_TERMS_COMMON_INL_H_

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/program/score_terms.h"

namespace phasor {
namespace {

// ---- Weights as doubles.

// out[i] = element first + i, `count` of them.
ProgramStep WidenStep(const WeightRef& weight, int64_t first, int64_t count, double* out) {
  return ProgramStep::Of(
      [weight, first, out](RowRange rows, const CancelFlag*) {
        for (int64_t i = rows.begin; i < rows.end; ++i) out[i] = weight->at(first + i);
        return absl::OkStatus();
      },
      count, 1 << 16);
}

// The heads of the settings of a weight [heads, …] with `size` elements per head; null where there is no weight.
double* WidenHeads(const WeightRef& weight, int64_t size, const TermContext& context, ScratchCutter& cutter,
                   std::vector<ProgramStep>* prepare) {
  if (!weight) return nullptr;
  const ScoreSettings& s = *context.settings;
  double* out = cutter.Doubles(s.shape.heads * size);
  if (out != nullptr) prepare->push_back(WidenStep(weight, s.first_head * size, s.shape.heads * size, out));
  return out;
}

QueryVectors WithBias(QueryVectors q, const double* bias) {
  q.add = bias;
  return q;
}

// ---- Checks.

absl::Status CheckHeads(const char* name, int64_t heads, const std::string& path, const ScoreSettings& s) {
  if (heads >= s.first_head + s.shape.heads) return absl::OkStatus();
  return MakeSpecError(absl::StrCat(path, ".weights.", name, ".tensor.shape"), absl::StrCat(heads, " heads"),
                       absl::StrCat("at least ", s.first_head + s.shape.heads, ": first_head + heads of q"));
}

absl::Status CheckDim(int64_t dim, const char* name, const std::string& path, const ScoreSettings& s) {
  if (dim == s.shape.dim) return absl::OkStatus();
  return MakeSpecError(absl::StrCat(path, ".weights.", name, ".tensor.shape"), absl::StrCat(dim, " channels"),
                       absl::StrCat(s.shape.dim, ", the channels of q"));
}

absl::Status CheckTable(int64_t elements, const std::string& field, const ScoreSettings& s) {
  if (elements <= s.max_elements) return absl::OkStatus();
  return MakeSpecError(field, absl::StrCat("a table of ", elements, " numbers"), absl::StrCat("up to ", s.max_elements));
}

absl::Status Missing(const std::string& path, const char* name) {
  return MakeSpecError(path + ".weights", absl::StrCat("no ", name), absl::StrCat(name, ": scores need the numbers"));
}

}  // namespace
}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_SCORE_TERMS_COMMON_INL_H_
