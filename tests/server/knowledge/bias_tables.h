// Bias tensors for tests of the diagnosis: made by the kernels, or wrong in a known way.
#ifndef PHASOR_TESTS_SERVER_KNOWLEDGE_BIAS_TABLES_H_
#define PHASOR_TESTS_SERVER_KNOWLEDGE_BIAS_TABLES_H_

#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/bias_candidate.h"
#include "server/knowledge/diagnosis.h"

namespace phasor::server {

inline const Backend& TestBackend() {
  static const auto* const backend = MakeCpuBackend().release();
  return *backend;
}

// Values [heads, count] of a spec's heads, distances from `first`.
inline Grid ValuesOf(const EncodingSpec& spec, int64_t first, int64_t count, DType dtype) {
  return *BiasMaker::Of(TestBackend(), *Canonicalize(spec))->Make(first, count, dtype);
}

// Value of a head at a distance, in double.
using BiasFunction = std::function<double(int64_t head, int64_t distance)>;

inline InputTable VectorTable(DType dtype, int64_t heads, int64_t first, int64_t count, const BiasFunction& value) {
  InputTensor tensor{dtype, {heads, count}, {}};
  if (heads == 1) tensor.shape = {count};
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < count; ++i) tensor.values.push_back(RoundTo(dtype, value(head, first + i)));
  }
  return {InputContent::kBiasVector, {std::move(tensor)}, std::nullopt};
}

// [heads, queries, keys], aligned at the bottom right; keys after the query hold `mask` where that is given.
inline InputTable MatrixTable(DType dtype, int64_t heads, int64_t queries, int64_t keys, const BiasFunction& value,
                              std::optional<double> mask = std::nullopt) {
  InputTensor tensor{dtype, {heads, queries, keys}, {}};
  if (heads == 1) tensor.shape = {queries, keys};
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t query = 0; query < queries; ++query) {
      for (int64_t key = 0; key < keys; ++key) {
        const int64_t distance = key - query - (keys - queries);
        tensor.values.push_back(distance > 0 && mask ? *mask : RoundTo(dtype, value(head, distance)));
      }
    }
  }
  return {InputContent::kBias, {std::move(tensor)}, std::nullopt};
}

// A function of a spec's values on [−reach, reach], of the type itself.
inline BiasFunction FunctionOf(const EncodingSpec& spec, int64_t reach, DType dtype, int64_t first_head = 0) {
  return [grid = ValuesOf(spec, -reach, 2 * reach + 1, dtype), reach, first_head](int64_t head, int64_t distance) {
    return grid.at(first_head + head, distance + reach);
  };
}

inline DiagnoseInput InputOf(InputTable table) {
  DiagnoseInput input;
  input.table = std::move(table);
  return input;
}

inline bool Names(const Diagnosis& diagnosis, std::string_view fault) {
  for (const Fault& found : diagnosis.faults) {
    if (found.card->name == fault) return true;
  }
  return false;
}

// The first hypothesis that reproduces the table, or null.
inline const Hypothesis* Reproduced(const Diagnosis& diagnosis) {
  for (const Hypothesis& hypothesis : diagnosis.hypotheses) {
    if (hypothesis.reproduces) return &hypothesis;
  }
  return nullptr;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_KNOWLEDGE_BIAS_TABLES_H_
