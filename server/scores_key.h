// What decides the bits of scores beside q and k.
#ifndef PHASOR_SERVER_SCORES_KEY_H_
#define PHASOR_SERVER_SCORES_KEY_H_

#include <string>
#include <string_view>

#include "kernels/program/scores.h"

namespace phasor::server {

// Canonical bytes of all of it but the plans: specs with what plans do not hold, positions, scale, masks (`masking`, the key
// of the masking with its tensor), and how the answer is made.
std::string KeyOfScores(const ScoreSettings& settings, double scale, std::string_view masking);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SCORES_KEY_H_
