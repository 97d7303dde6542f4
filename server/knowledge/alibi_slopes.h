// Which rule slopes follow.
#ifndef PHASOR_SERVER_KNOWLEDGE_ALIBI_SLOPES_H_
#define PHASOR_SERVER_KNOWLEDGE_ALIBI_SLOPES_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/encodings/spec.h"
#include "server/knowledge/interval.h"

namespace phasor::server {

// One rule that gives the slopes, or the rule that was meant where `fault` is set.
struct SlopeRule {
  AlibiSpec spec = {};
  int64_t first_head = 0;       // the slopes are those of heads first_head … of the spec
  std::string_view fault = {};  // a FaultCard's name; the slopes are then not the spec's
  std::string seen = {};        // of a fault: what was seen
  std::string note = {};
  double confidence = 0;
};

// Slopes of ALiBi's rule as doubles, within an ulp. For comparing, not for tables.
std::vector<double> RuleSlopes(int64_t heads, double max_bias);

// Surest first; the last one takes the slopes as given. `slopes`: one interval a head, at least one of them not 0.
std::vector<SlopeRule> ExplainSlopes(std::span<const Interval> slopes);

// "1/√64", "√64" or the number.
std::string NameOfScale(double scale);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ALIBI_SLOPES_H_
