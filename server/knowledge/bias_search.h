// The searches that a diagnosis of a bias is made of. Each adds hypotheses, faults and observations. Errors: CANCELLED.
#ifndef PHASOR_SERVER_KNOWLEDGE_BIAS_SEARCH_H_
#define PHASOR_SERVER_KNOWLEDGE_BIAS_SEARCH_H_

#include <cstdint>

#include "absl/status/status.h"

#include "server/knowledge/bias_candidate.h"
#include "server/knowledge/bias_curve.h"
#include "server/knowledge/diagnosis.h"

namespace phasor::server {

// ALiBi. `slopes`: the curve is one column of slopes.
absl::Status SearchLines(const Backend& backend, const DiagnoseInput& input, const BiasCurve& curve, bool slopes,
                         Diagnosis& diagnosis);

// All schemes of biases by distance, best first. `by_key`: the curve is that of rows that are all the same.
absl::Status SearchBias(const Backend& backend, const DiagnoseInput& input, const BiasView& view, const BiasCurve& curve,
                        bool by_key, Diagnosis& diagnosis);

// What a bias may be that is none by distance.
void SearchOther(const BiasView& view, const InputTensor& tensor, Diagnosis& diagnosis);

// Faults against the spec that the table is meant to be. `queries` and `keys`: 0 of vectors and slopes.
absl::Status CompareExpected(const Backend& backend, const DiagnoseInput& input, const BiasCurve& curve, int64_t queries,
                             int64_t keys, Diagnosis& diagnosis);

// Whether a hypothesis reproduces the table.
bool IsExplained(const Diagnosis& diagnosis);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_BIAS_SEARCH_H_
