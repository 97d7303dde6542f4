// The rotation of scores.h. Private to it.
#ifndef PHASOR_KERNELS_PROGRAM_SCORE_ROTATION_H_
#define PHASOR_KERNELS_PROGRAM_SCORE_ROTATION_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "kernels/program/scores.h"
#include "kernels/program/scratch.h"

namespace phasor {

// OK, or a SpecError: the rotation fits q, k and their positions; positions that only a rotation can take stand beside
// nothing else.
absl::Status CheckRotation(const ScoreSettings& settings);

// Channels of a head after the rotation.
int64_t RotatedDim(const ScoreSettings& settings);

// Takes memory from `cutter`. Where that has any, appends the steps to `steps`. q and k are where the tensors lie, and
// become where they lie afterwards. `plan`: the rotation's; null when only counting. Only with a rotation.
void PlaceRotation(const ScoreSettings& settings, const Resolved* plan, HeadVectors* q, HeadVectors* k,
                   ScratchCutter& cutter, std::vector<ProgramStep>* steps);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_SCORE_ROTATION_H_
