// Comparisons of learned tables, buckets and convolutions with the library's modules. Each answers the
// empty string when the answer is as the library has it, else what differs.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_TABLE_COMPARE_H_
#define PHASOR_TESTS_SERVER_RESOLVE_TABLE_COMPARE_H_

#include <algorithm>
#include <string>
#include <vector>

#include "kernels/encodings/buckets.h"
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {

using Layers = std::vector<const LayerEncoding*>;

// Whether the answer says that its first weight is made from the tensor of this name; no name: any.
inline bool IsMadeFrom(const LayerEncoding& layer, const std::string& name) {
  return name.empty() || (!layer.weights.empty() && layer.weights[0].source.find(name) != std::string::npos);
}

// A parameter's extents without those of 1, down to two: a table, or a stack or grid of tables.
inline std::vector<int64_t> ExtentsOf(const Value& want) {
  if (!want.HasMember("shape")) return {want["rows"].GetInt64(), want["dim"].GetInt64()};
  std::vector<int64_t> extents;
  for (const Value& extent : want["shape"].GetArray()) extents.push_back(extent.GetInt64());
  if (extents.size() == 1) extents.insert(extents.begin(), 1);
  while (extents.size() > 2) {
    const auto one = std::find(extents.begin(), extents.end(), 1);
    if (one == extents.end()) break;
    extents.erase(one);
  }
  return extents;
}

// Tables of so many rows and columns that the answer takes from the entry's tensor, with weights of that shape. A table of
// its own for each of several layers counts so often.
inline int64_t CountTables(const Layers& layers, const Value& want, int64_t rows, int64_t columns) {
  int64_t count = 0;
  for (const LayerEncoding* layer : layers) {
    const LearnedSpec* spec = layer->spec ? std::get_if<LearnedSpec>(&layer->spec->spec) : nullptr;
    if (spec == nullptr || spec->num_positions != rows || spec->dim != columns) continue;
    if (!IsMadeFrom(*layer, Text(want, "name"))) continue;
    if (layer->weights.size() != 1 || layer->weights[0].shape != std::vector<int64_t>{rows, columns}) continue;
    if (want.HasMember("offset") && *spec->position_offset != want["offset"].GetInt64()) continue;
    count += std::max<int64_t>(1, static_cast<int64_t>(layer->layers.size()));
  }
  return count;
}

// Whether one of the layers has the table: [rows, dim], a grid with its channels first or last, or a stack of tables that
// are all there, along its first or second extent.
inline bool HasTable(const Layers& layers, const Value& want) {
  const std::vector<int64_t> e = ExtentsOf(want);
  if (e.size() == 2) return CountTables(layers, want, e[0], e[1]) > 0;
  if (e.size() != 3) return false;
  return CountTables(layers, want, e[1] * e[2], e[0]) > 0 || CountTables(layers, want, e[0] * e[1], e[2]) > 0 ||
         CountTables(layers, want, e[1], e[2]) == e[0] || CountTables(layers, want, e[0], e[2]) == e[1];
}

inline std::string CompareBuckets(const LayerEncoding& layer, const Value& want) {
  std::string problem;
  const auto resolved = ResolvedAs(PositionKind::kBias, layer, "t5_bucket", problem);
  if (!resolved) return problem;
  const BucketPlan& plan = std::get<BucketPlan>(resolved->plan);
  const DistanceBuckets buckets(plan.num_buckets, plan.max_distance, plan.bidirectional);
  for (const Value& sample : want["samples"].GetArray()) {
    const int64_t got = buckets.at(sample[0].GetInt64());
    if (got != sample[1].GetInt64()) return "bucket of " + std::to_string(sample[0].GetInt64()) + ": " + std::to_string(got);
  }
  return "";
}

inline std::string CompareLogBuckets(const LayerEncoding& layer, const Value& want) {
  std::string problem;
  const auto resolved = ResolvedAs(PositionKind::kTerm, layer, "deberta", problem);
  if (!resolved) return problem;
  const DebertaPlan& plan = std::get<DebertaPlan>(resolved->plan);
  const int64_t span = plan.buckets.rows() / 2;
  for (const Value& sample : want["samples"].GetArray()) {
    const int64_t row = std::clamp<int64_t>(sample[1].GetInt64() + span, 0, 2 * span - 1);
    const int64_t got = plan.buckets.at(-sample[0].GetInt64());
    if (got != row) return "row of " + std::to_string(sample[0].GetInt64()) + ": " + std::to_string(got);
  }
  return "";
}

// Of a bias whose table the golden names: the shape of the weight that it is made from.
inline std::string CompareBiasTable(const LayerEncoding& layer, const Value& want) {
  if (!want.HasMember("table")) return "";
  if (layer.weights.empty() || !IsMadeFrom(layer, Text(want, "name"))) return "no table of " + Text(want, "name");
  const auto& shape = layer.weights[0].shape;
  const Value& table = want["table"];
  return shape == std::vector<int64_t>{table[0].GetInt64(), table[1].GetInt64()} ? "" : "table: " + std::to_string(shape[0]);
}

// Dinat: a window as wide as the kernel, with one row for each offset.
inline std::string CompareNeighborhood(const Layers& layers, const Value& want) {
  const int64_t kernel = want["kernel"].GetInt64();
  const Value& table = want["table"];  // [heads, offsets, offsets]
  for (const LayerEncoding* layer : layers) {
    const auto* spec = layer->spec ? std::get_if<WindowBiasSpec>(&layer->spec->spec) : nullptr;
    if (spec == nullptr || spec->window_height != kernel || spec->window_width != kernel) continue;
    if (spec->num_heads != table[0].GetInt64()) continue;
    const std::vector<int64_t> shape{table[1].GetInt64() * table[2].GetInt64(), table[0].GetInt64()};
    if (layer->weights.size() == 1 && layer->weights[0].shape == shape) return "";
  }
  return "no window of " + std::to_string(kernel) + " with " + std::to_string(table[0].GetInt64()) + " heads";
}

// A convolution has no spec; the answer ends in its numbers, which are compared whole. A depthwise one has as many groups as
// its stage has channels, and the answer names the stages: `depthwise` of them in the library.
inline std::string CompareConvolution(const Layers& layers, const Value& want, size_t depthwise) {
  const auto number = [&](const char* key) { return std::to_string(want[key].GetInt64()); };
  std::string numbers = "kernel " + number("kernel");
  numbers += depthwise > 0 ? ", groups as many as channels (depthwise), before stage "
                           : ", groups " + number("groups") + ", layers " + number("layers");
  if (want.HasMember("stride")) numbers += ", stride " + number("stride");
  std::string found;
  for (const LayerEncoding* layer : layers) {
    for (const Note& note : layer->warnings) {
      if (note.message.find("positional convolution") == std::string::npos) continue;
      const size_t at = note.message.rfind("kernel ");
      const std::string said = at == std::string::npos ? "nothing" : note.message.substr(at);
      if (depthwise == 0 && said == numbers) return "";
      size_t stages = 0;
      for (size_t i = said.find("before stage "); i != std::string::npos; i = said.find("before stage ", i + 1)) ++stages;
      if (depthwise > 0 && said.starts_with(numbers) && stages == depthwise) return "";
      found += " | " + said;
    }
  }
  return "convolution:" + found + " instead of " + numbers;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_TABLE_COMPARE_H_
