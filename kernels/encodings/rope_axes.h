// Rotation by several coordinates: which pair turns with which, and what that does to the frequencies.
#ifndef PHASOR_KERNELS_ENCODINGS_ROPE_AXES_H_
#define PHASOR_KERNELS_ENCODINGS_ROPE_AXES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {

// Defaults and checks of rope.axes; rotary_dim must have been checked. Nothing to do without axes.
void CheckRopeAxes(RopeSpec& rope, SpecChecker& check);

// Schedules and sections whose frequencies start anew must be sound over the width of every section. To be asked once the
// schedule has been checked.
void CheckRopeSections(const RopeSpec& rope, SpecChecker& check);

// Axis of every pair, of checked axes.
std::vector<uint8_t> AxisOfPair(const RopeAxes& axes, int64_t pairs);

// Resolve of a canonical RopeSpec with axes.
absl::StatusOr<Resolved> ResolveRopeAxes(const RopeSpec& rope, std::optional<int64_t> sequence_length, Precision precision);

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_ROPE_AXES_H_
