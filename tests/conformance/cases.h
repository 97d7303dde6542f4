// The one list of cases that every backend is tested and measured on. Adding a scheme means adding a case here; a test says
// so when it is forgotten.
#ifndef PHASOR_TESTS_CONFORMANCE_CASES_H_
#define PHASOR_TESTS_CONFORMANCE_CASES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/encodings/spec.h"

namespace phasor {

struct Case {
  std::string name;  // "rope_llama3/llama-3.1-8b": letters, digits and "-./_" only
  EncodingSpec spec;
  std::optional<int64_t> sequence_length;
};

// Parameters of published models where there is one, and the awkward widths beside them.
std::vector<Case> ConformanceCases();

// Those of biases over windows and of learned functions of positions (cases_window.cc).
void AppendWindowCases(std::vector<Case>& cases);
// Those of terms of attention scores (cases_terms.cc).
void AppendTermCases(std::vector<Case>& cases);

}  // namespace phasor

#endif  // PHASOR_TESTS_CONFORMANCE_CASES_H_
