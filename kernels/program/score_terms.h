// The terms of scores.h: what they need in scratch memory, how that is filled, and the tasks that add them. Private to it.
#ifndef PHASOR_KERNELS_PROGRAM_SCORE_TERMS_H_
#define PHASOR_KERNELS_PROGRAM_SCORE_TERMS_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

#include "kernels/encodings/plan.h"
#include "kernels/program/scores.h"
#include "kernels/program/scratch.h"

namespace phasor {

// What terms are computed from, the same for all of them.
struct TermContext {
  const ScoreSettings* settings = nullptr;
  QueryVectors q;
  KeyVectors k;
  ScorePositions positions;
  double* scores = nullptr;  // row 0
};

// Smallest and largest query − key of any batch row.
struct DistanceRange {
  int64_t smallest = 0, largest = -1;
  bool empty() const { return largest < smallest; }
};
DistanceRange DistancesOf(const ScoreSettings& settings);
inline int64_t CountOf(const DistanceRange& range) { return range.empty() ? 0 : range.largest - range.smallest + 1; }

// OK, or a SpecError below `path`: the term has weights for these heads, channels, queries, keys and distances.
absl::Status CheckTerm(const EncodingSpec& term, const std::string& path, const ScoreSettings& settings);

// Takes the term's memory from `cutter`. Where that has any: appends the steps that fill it to `prepare`, and the tasks that
// add the term to `add`. `plan`: the term's; null when only counting.
void PlaceTerm(const EncodingSpec& term, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
               std::vector<ProgramStep>* prepare, std::vector<Task>* add);

// The same for the term's part of the values, if it has one: `value` is left without scores and output.
bool HasValues(const EncodingSpec& term);
void PlaceValues(const EncodingSpec& term, const TermContext& context, ScratchCutter& cutter,
                 std::vector<ProgramStep>* prepare, RelativeValueTask* value);

// Decomposed positions are added after the scale.
bool IsUnscaled(const EncodingSpec& term);

// The linear resize of a table [from, dim] to [to, dim] (corners not aligned): row i is (1 − w)·a + w·b, a and b rows ⌊s⌋
// and the next, w = s − ⌊s⌋, s = max(0, (i + ½)·from/to − ½).
void ResizeRows(const Weight& table, int64_t to, double* out);
// ViTDet's index of query i and key j on one axis.
int64_t DecomposedRow(int64_t i, int64_t j, int64_t queries, int64_t keys);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_SCORE_TERMS_H_
