// A spec with one thing wrong. Part of angle_faults.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_VARIANTS_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_VARIANTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "server/knowledge/angle_schedules.h"
#include "server/knowledge/diagnosis.h"

namespace phasor::server {

struct Variant {
  std::string_view fault;  // name of its card
  std::string symptom;
  Candidate candidate;
  double confidence = 0.95;
};

// Frequencies of a resolved spec rounded to bf16 and to f16.
std::vector<Variant> RoundedFrequencies(const Candidate& right, const Resolved& resolved);

// What can be wrong where a spec is expected, likeliest first. `base`: of plain RoPE that makes the table, where there is
// one.
std::vector<Variant> VariantsOf(const CanonicalSpec& expected, std::optional<int64_t> length, const Resolved& resolved,
                                std::optional<double> base);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_VARIANTS_H_
