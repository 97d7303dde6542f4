// Random specs, one generator per scheme. A new scheme needs its line here: cpu_fuzz_test says so.
#ifndef PHASOR_TESTS_CONFORMANCE_FUZZ_GENERATORS_H_
#define PHASOR_TESTS_CONFORMANCE_FUZZ_GENERATORS_H_

#include <string_view>
#include <vector>

#include "kernels/encodings/spec.h"
#include "tests/conformance/fuzz/random.h"

namespace phasor {

struct SpecGenerator {
  std::string_view scheme;
  // A spec that Canonicalize takes; Resolve may refuse it where its numbers meet a limit.
  EncodingSpec (*make)(Rng& rng);
};

std::vector<SpecGenerator> RopeGenerators();
std::vector<SpecGenerator> TableGenerators();
std::vector<SpecGenerator> BiasGenerators();
std::vector<SpecGenerator> TermGenerators();

// All of them.
std::vector<SpecGenerator> SpecGenerators();

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_FUZZ_GENERATORS_H_
