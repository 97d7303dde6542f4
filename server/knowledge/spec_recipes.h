// How the decision table makes specs from wishes. Specs are not canonical yet; errors say why there is none.
#ifndef PHASOR_SERVER_KNOWLEDGE_SPEC_RECIPES_H_
#define PHASOR_SERVER_KNOWLEDGE_SPEC_RECIPES_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"

#include "server/knowledge/wishes.h"

namespace phasor::server {

// Of a rotation of `rotary_dim` channels (≥ 4): the smallest base of which the longest wavelength, 2π·base^((d−2)/d),
// reaches `length`.
double SmallestBase(double length, int64_t rotary_dim);
// The next of 1, 2, 5, 10, 20 … that is not below `value` (> 0).
double RoundUp(double value);
// The first pair whose wavelength is above `length`; none where all come round within it. base > 1.
std::optional<int64_t> FirstSlowPair(double base, int64_t rotary_dim, double length);
// Sides of the smallest grid, as square as can be, that has `tokens` points.
struct Sides {
  int64_t height = 0, width = 0;
};
Sides SidesOf(int64_t tokens);

namespace recipes {

using MadeSpec = absl::StatusOr<EncodingSpec>;

// What there is.
MadeSpec Keep(const Wishes& wishes);

// New: the base from the wanted length (an odd head leaves its last channel alone).
MadeSpec RopeForLength(const Wishes& wishes);
MadeSpec GridRope(const Wishes& wishes);
MadeSpec Alibi(const Wishes& wishes);
MadeSpec SymmetricAlibi(const Wishes& wishes);
MadeSpec TwoSidedBuckets(const Wishes& wishes);
MadeSpec LearnedRows(const Wishes& wishes);
MadeSpec Sinusoids(const Wishes& wishes);
MadeSpec SpeechSinusoids(const Wishes& wishes);
MadeSpec GridSinusoids(const Wishes& wishes);
MadeSpec Window(const Wishes& wishes);

// From a plain rotation.
MadeSpec Yarn(const Wishes& wishes);
MadeSpec DynamicNtk(const Wishes& wishes);
MadeSpec LargerBase(const Wishes& wishes);
MadeSpec Llama3(const Wishes& wishes);
MadeSpec Linear(const Wishes& wishes);

// From what is scaled already: the factor times wanted / trained.
MadeSpec MoreYarn(const Wishes& wishes);
MadeSpec MoreLlama3(const Wishes& wishes);
MadeSpec MoreLinear(const Wishes& wishes);

// From tables and windows: other sizes.
MadeSpec MoreRows(const Wishes& wishes);
MadeSpec LargerGrid(const Wishes& wishes);
MadeSpec LargerWindow(const Wishes& wishes);
MadeSpec SlowerGridRope(const Wishes& wishes);

}  // namespace recipes
}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SPEC_RECIPES_H_
