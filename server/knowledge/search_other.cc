#include <algorithm>
#include <cmath>

#include "server/knowledge/bias_search.h"
#include "server/text.h"

namespace phasor::server {
namespace {

double At(const InputTensor& tensor, int64_t row, int64_t keys, int64_t key) {
  return tensor.values[static_cast<size_t>(row * keys + key)];
}

// b = C_query − C_key: rows differ by a constant each, as sums of gates do.
bool IsAdditive(const InputTensor& tensor, int64_t queries, int64_t keys) {
  const int64_t rows = static_cast<int64_t>(tensor.values.size()) / keys;
  double largest = 0;
  for (const double value : tensor.values)
    largest = std::max(largest, std::isfinite(value) && value > -1e8 ? std::fabs(value) : 0);
  const double allowed = 4 * UlpOf(tensor.dtype, largest);
  int64_t compared = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (row % queries == 0) continue;
    double step = NAN;
    for (int64_t key = 0; key < keys; ++key) {
      const double value = At(tensor, row, keys, key), above = At(tensor, row - 1, keys, key);
      if (!(value > -1e8) || !(above > -1e8) || !std::isfinite(value - above)) continue;
      if (std::isnan(step)) step = value - above;
      if (std::fabs(value - above - step) > allowed) return false;
      ++compared;
    }
  }
  return compared > 2 * rows;
}

// Tokens of a grid `width` wide: equal differences of both coordinates have equal values.
bool IsWindow(const InputTensor& tensor, int64_t tokens, int64_t width) {
  const int64_t heads = static_cast<int64_t>(tensor.values.size()) / (tokens * tokens);
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t query = 0; query + width + 1 < tokens; ++query) {
      for (int64_t key = 0; key + width + 1 < tokens; ++key) {
        const double value = At(tensor, head * tokens + query, tokens, key);
        if (value != At(tensor, head * tokens + query + width, tokens, key + width)) return false;
        if (query % width == width - 1 || key % width == width - 1) continue;
        if (value != At(tensor, head * tokens + query + 1, tokens, key + 1)) return false;
      }
    }
  }
  return true;
}

}  // namespace

void SearchOther(const BiasView& view, const InputTensor& tensor, Diagnosis& diagnosis) {
  constexpr int64_t kMostTokens = 1024;
  if (view.queries == view.keys && view.keys <= kMostTokens) {
    for (int64_t width = 2; width * 2 <= view.keys; ++width) {
      if (view.keys % width != 0 || !IsWindow(tensor, view.keys, width)) continue;
      diagnosis.observations.push_back(
          Cat("a window of ", view.keys / width, "×", width,
              " tokens: one value for each difference of rows and columns (Swin's window_bias, or "
              "SwinV2's continuous_window_bias)"));
      return;
    }
  }
  if (IsAdditive(tensor, view.queries, view.keys)) {
    diagnosis.observations.push_back(
        "rows differ by one constant each: sums of gates along the keys (forgetting_bias, data-dependent ALiBi), or "
        "slope·key "
        "with a constant per row. The softmax removes the constants; the gates come from activations");
    return;
  }
  diagnosis.observations.push_back(
      "what is left: FIRE (normalised by the query's position), TUPE and other projected positions, CoPE and gates (they "
      "need "
      "activations), a two-dimensional window, or rows whose positions are not consecutive");
}

}  // namespace phasor::server
