// M-RoPE of Qwen2.5-Omni and Qwen3-Omni: videos by the second, with or without their audio.
#ifndef PHASOR_SERVER_POSITION_RULES_OMNI_H_
#define PHASOR_SERVER_POSITION_RULES_OMNI_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "phasor/v1/positions.pb.h"

#include "server/position_rules.h"

namespace phasor::server {

bool IsOmni(const v1::MropePositions& rule);

// Tokens of a video with its audio beside those of the two: what starts and ends them.
inline constexpr int64_t kAudioInVideoMarks = 4;

// The fields of a rule with an Omni layout that other layouts do not have, or have otherwise.
absl::Status CheckOmni(const v1::MropePositions& rule, const std::string& path);
// Those of a segment but for its video's.
absl::Status CheckAudioInVideo(const v1::MropePositions& rule, const v1::MropeAudioInVideo& segment,
                               const std::string& path);

// Positions from frame to frame, before truncation.
double OmniInterval(const v1::MropePositions& rule, const v1::MropeGrid& video);

// Checked, with an Omni layout.
RuleIds IdsOfOmni(const v1::MropePositions& rule, const RuleSize& size);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_POSITION_RULES_OMNI_H_
