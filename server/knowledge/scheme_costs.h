// What a scheme costs at a size, counted from its formula.
#ifndef PHASOR_SERVER_KNOWLEDGE_SCHEME_COSTS_H_
#define PHASOR_SERVER_KNOWLEDGE_SCHEME_COSTS_H_

#include <cstdint>
#include <string_view>
#include <vector>

namespace phasor::server {

struct CardSize {
  int64_t positions = 4096;  // biases and scores: queries, and as many keys
  int64_t width = 128;       // of a head, or of a row of an absolute table
  int64_t heads = 32;
};

struct SchemeCost {
  std::string_view what;
  double bytes = 0;
  double operations = 0;  // a sine, a logarithm or an exponential counts as one
  std::string_view note;
};

// Empty for a name that is no scheme's.
std::vector<SchemeCost> CostsOf(std::string_view scheme, const CardSize& size);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SCHEME_COSTS_H_
