// The biases of scores.h. Private to it.
#ifndef PHASOR_KERNELS_PROGRAM_SCORE_BIASES_H_
#define PHASOR_KERNELS_PROGRAM_SCORE_BIASES_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "kernels/encodings/plan.h"
#include "kernels/program/score_terms.h"
#include "kernels/program/scores.h"
#include "kernels/program/scratch.h"

namespace phasor {

// OK, or a SpecError at or below `path`: a bias with numbers for these heads, batch rows, positions and tokens.
absl::Status CheckBias(const EncodingSpec& bias, const std::string& path, const ScoreSettings& settings);

// How a bias is added: `sum` (without scores) reads a vector by distance, or a whole matrix that was made before. Where
// positions are not consecutive, `matrix` first fills the rows that are worked on from the vector; its `out`, and the
// addend, are missing then.
struct PlacedBias {
  ScoreSumTask sum;
  std::optional<BiasMatrixTask> matrix;
};

// Takes the memory of a bias and appends the steps that fill it to `prepare`. `plan` is null when only counting. The scores
// are not empty.
PlacedBias PlaceBias(const EncodingSpec& bias, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
                     std::vector<ProgramStep>* prepare);

// Whether any bias needs rows filled from its vector.
bool NeedsMatrixRows(const ScoreSettings& settings);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_SCORE_BIASES_H_
