// The factor on cosines and sines, from measured amplitudes.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_AMPLITUDE_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_AMPLITUDE_H_

#include <cstdint>
#include <vector>

#include "kernels/encodings/spec.h"
#include "server/knowledge/angle_estimate.h"

namespace phasor::server {

// Factors that a table carries which fit its amplitude: 1, 1/√columns, YaRN's and LongRoPE's of usual stretches, the
// roundest number, the measured one; likeliest first.
std::vector<double> AmplitudesOf(const Estimates& estimates, int64_t columns);

// A spec whose own factor is `own` where that fits, else with factors that do. Empty: its scheme has none.
std::vector<EncodingSpec> WithAmplitude(const EncodingSpec& spec, double own, const Estimates& estimates, int64_t columns);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_AMPLITUDE_H_
