#include "server/knowledge/held_forms.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace phasor::server {
namespace {

double Number(int64_t value) { return static_cast<double>(value); }

double TilesBetween(int64_t first, int64_t last) {
  const auto tile = [](int64_t row) { return (row - (row < 0 ? kTileRowsHeld - 1 : 0)) / kTileRowsHeld; };  // floor
  return Number(tile(last) - tile(first) + 1);
}

// ---- tables of cos and sin

// Whether the server keeps tiles of the rotation: whole positions of one axis, the same for queries and keys.
bool IsTiled(const EncodingSpec& spec, const AnglePlan& plan) {
  const RopeSpec* rope = std::get_if<RopeSpec>(&spec);
  if (rope != nullptr) return plan.axes == 1 && !rope->xpos;
  return std::holds_alternative<SinusoidalSpec>(spec);
}

std::vector<HeldForm> AngleForms(const EncodingSpec& spec, const AnglePlan& plan, const Load& load) {
  const double pairs = Number(plan.pairs()), keys = Number(load.keys), element = Number(load.element_bytes);
  const bool scaled = plan.attention_factor.hi != 1 || plan.attention_factor.lo != 0;
  const double angle_operations = keys * pairs * (scaled ? 5 : 3);  // a product, a cosine, a sine; the factor on both
  const double tiles =
      IsTiled(spec, plan) ? TilesBetween(0, load.keys - 1) * 2 * Number(kTileRowsHeld) * pairs * element : 0;
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&spec)) {
    return {{HeldWhat::kTable, "rows", keys * Number(sinusoidal->dim) * element, tiles, angle_operations,
             "Added once to the input."},
            {HeldWhat::kInvFreq, "one value per pair", 8 * pairs, 0, pairs, "Rows are made where they are added."}};
  }
  const double half = 2 * keys * pairs * element;
  const std::string axes = plan.axes == 1 ? "" : absl::StrCat(" One row per token: each has ", plan.axes, " coordinates.");
  return {{HeldWhat::kTable, "half width", half, tiles, angle_operations,
           "cos and sin [positions, pairs], for all heads." + axes},
          {HeldWhat::kInvFreq, "one value per pair", 8 * pairs, 0, pairs, "float64. Kernels make the angles themselves."},
          {HeldWhat::kTable, "cos‖sin", half, tiles, angle_operations, "One array [positions, 2·pairs]: vLLM, FlashInfer."},
          {HeldWhat::kTable, "duplicated", 2 * half, tiles, angle_operations,
           "Every column twice: transformers' own layout, nothing else needs it."}};
}

// ---- biases by distance

struct DistanceCost {
  double operations = 0;  // of a value
  double once = 0;        // of a distance, for all heads

  double operator()(const BiasPlan&) { return 1; }
  double operator()(const BucketPlan&) {
    once = 4;  // a logarithm, a product, a sum, a quotient
    return 1;
  }
  double operator()(const KerplePlan& plan) { return plan.power ? 2 : 4; }
  double operator()(const SandwichPlan& plan) {
    once = 3 * Number(static_cast<int64_t>(plan.half_frequencies.size()));
    return 1;
  }
};

std::vector<HeldForm> DistanceForms(const Load& load, double vectors, double per_value, double per_distance, bool tiled,
                                    std::string note) {
  const double queries = Number(load.queries), keys = Number(load.keys), element = Number(load.element_bytes);
  const double distances = queries + keys - 1;
  const double tiles = tiled ? TilesBetween(1 - load.keys, load.queries - 1) * Number(kTileRowsHeld) * vectors * element : 0;
  const double full = vectors * queries * keys;
  std::vector<HeldForm> forms = {
      {HeldWhat::kBias, "vector", vectors * distances * element, tiles, distances * (vectors * per_value + per_distance),
       "[heads, queries + keys − 1]: row q of the full form is a piece of it. " + note},
      {HeldWhat::kBias, "full", full * element, tiles, full + distances * (vectors * per_value + per_distance),
       "[heads, queries, keys], for kernels that take an additive mask only."},
      {HeldWhat::kBias, "last query", vectors * keys * element, tiles, keys * (vectors * per_value + per_distance),
       "[heads, keys], when one token is made at a time."}};
  if (load.queries == 1) std::rotate(forms.begin(), forms.begin() + 2, forms.end());
  return forms;
}

std::vector<HeldForm> BiasForms(const EncodingSpec& spec, const DistancePlan& plan, const Load& load) {
  DistanceCost cost;
  const double per_value = std::visit([&](const auto* p) { return cost(*p); }, plan);
  const double vectors = Number(VectorsOf(plan));
  auto forms = DistanceForms(load, vectors, per_value, cost.once, true, "");
  if (std::holds_alternative<AlibiSpec>(spec)) {
    forms.push_back({HeldWhat::kSlopes, "one value per head", 4 * vectors, 0, vectors,
                     "float32. Kernels that know ALiBi need nothing else."});
  }
  return forms;
}

double TableElements(const WeightRef& table, double rows, double columns) {
  return table ? Number(table->elements()) : rows * columns;
}

// ---- the others

struct OtherForms {
  const EncodingSpec& spec;
  const Load& load;

  double element() const { return Number(load.element_bytes); }
  // [heads, queries, keys] of tokens that the plan counts itself.
  HeldForm Full(double heads, double queries, double keys, double per_entry, std::string note) const {
    return {HeldWhat::kBias, "full", heads * queries * keys * element(), 0, heads * queries * keys * per_entry,
            std::move(note)};
  }
  HeldForm Weights(double elements, std::string note) const {
    return {HeldWhat::kWeights, "as uploaded", elements * element(), 0, 0, std::move(note)};
  }
  template <typename... Refs>
  static double ElementsOf(const Refs&... refs) {
    return (0.0 + ... + (refs ? Number(refs->elements()) : 0.0));
  }

  std::vector<HeldForm> operator()(const BucketPlan& plan) const {  // without a table: indices
    const double heads = Number(plan.num_heads);
    auto forms = DistanceForms(load, heads, 1, 4, false, "Values need the checkpoint's table.");
    forms.push_back(Weights(TableElements(plan.table, Number(plan.num_buckets), heads), "[buckets, heads]"));
    return forms;
  }
  std::vector<HeldForm> operator()(const GatherPlan& plan) const {
    const double rows = Number(plan.rows), dim = Number(plan.dim);
    return {
        Weights(TableElements(plan.table, rows, dim), "[positions, dim], added once to the input."),
        {HeldWhat::kTable, "rows", Number(load.keys) * dim * element(), 0, 0, "Rows of the positions that are asked for."}};
  }
  std::vector<HeldForm> operator()(const GridPlan& plan) const {
    const double rows = plan.grid.empty() ? Number(load.keys) : Number(plan.rows()), columns = Number(plan.columns);
    return {{HeldWhat::kTable, "rows", rows * columns * element(), 0, rows * columns * 1.5,
             plan.grid.empty() ? "One row per token, added once to the input."
                               : "One row per point of the grid, added once to the input."}};
  }
  std::vector<HeldForm> operator()(const FourierPlan& plan) const {
    const double pairs = Number(plan.pairs()), keys = Number(load.keys);
    return {{HeldWhat::kTable, "rows", keys * 2 * pairs * element(), 0, keys * pairs * 3, "One row per position."}};
  }
  std::vector<HeldForm> operator()(const DistilledPlan& plan) const {
    const double keys = Number(load.keys), columns = Number(plan.columns());
    double learned = 0;
    for (const WeightRef& weight : plan.weights) learned += ElementsOf(weight);
    const double products = Number(plan.perceptron.products()), cosines = Number(plan.angles.pairs());
    return {Weights(learned, "The function's layers."),
            {HeldWhat::kTable, "rows", keys * columns * element(), 0, keys * (2 * products + cosines),
             "One row per position, made by the function."}};
  }
  std::vector<HeldForm> operator()(const MixedAnglePlan& plan) const {
    const double heads = Number(plan.heads), keys = Number(load.keys), outputs = Number(plan.outputs);
    const double kept = Number(static_cast<int64_t>(plan.frequencies.size()));
    return {{HeldWhat::kTable, "half width", 2 * keys * heads * Number(plan.pairs) * element(), 0,
             keys * (kept * 3 + 4 * heads * kept * outputs),
             "cos and sin [positions, key heads, pairs]: every key head mixes anew."}};
  }
  std::vector<HeldForm> operator()(const WindowBiasPlan& plan) const {
    const double heads = Number(plan.num_heads), tokens = Number(plan.window.tokens());
    return {Full(heads, tokens, tokens, 0, "One window's, the same for every window and image."),
            Weights(Number(plan.window.table_rows()) * heads, "[offsets, heads]")};
  }
  std::vector<HeldForm> operator()(const ContinuousWindowBiasPlan& plan) const {
    const double heads = Number(plan.heads()), tokens = Number(plan.window.tokens());
    return {Full(heads, tokens, tokens, 0, "One window's, the same for every window and image.")};
  }
  std::vector<HeldForm> operator()(const FirePlan& plan) const {
    return {Full(Number(plan.heads()), Number(load.queries), Number(load.keys), 2,
                 "No vector form: it divides by the query's position, so rows differ.")};
  }
  std::vector<HeldForm> operator()(const DynamicPositionBiasPlan& plan) const {
    return DistanceForms(load, Number(plan.heads()), 2, 0, false, "Made by a small network at every distance.");
  }
  std::vector<HeldForm> operator()(const ForgettingBiasPlan& plan) const {
    return {Full(Number(plan.batch()) * Number(plan.heads()), Number(load.queries), Number(load.keys), 1,
                 "No vector form: it comes from the activations, for every batch row anew.")};
  }
  std::vector<HeldForm> operator()(const TupePlan& plan) const {
    return {Full(Number(plan.heads()), Number(load.queries), Number(load.keys), 2 * Number(plan.dim()),
                 "No vector form: it is a product of two positions' vectors.")};
  }
  std::vector<HeldForm> operator()(const ShawPlan& plan) const { return Term(ElementsOf(plan.keys, plan.values)); }
  std::vector<HeldForm> operator()(const DebertaPlan& plan) const {
    return Term(ElementsOf(plan.key_positions, plan.query_positions));
  }
  std::vector<HeldForm> operator()(const SinusoidTermPlan& plan) const {
    return Term(ElementsOf(plan.projection, plan.table, plan.content_bias, plan.position_bias));
  }
  std::vector<HeldForm> operator()(const CopePlan& plan) const { return Term(ElementsOf(plan.e)); }
  std::vector<HeldForm> operator()(const DecomposedPlan& plan) const {
    return Term(ElementsOf(plan.rel_pos_h, plan.rel_pos_w));
  }
  template <typename Other>
  std::vector<HeldForm> operator()(const Other&) const {
    return {};
  }

 private:
  std::vector<HeldForm> Term(double elements) const {
    if (elements == 0) return {};
    return {Weights(elements, "A term of the scores: there is no bias to hold, each call needs queries and keys.")};
  }
};

}  // namespace

std::string_view NameOf(HeldWhat what) {
  constexpr std::array<std::string_view, 5> kNames = {"inv_freq", "table", "bias", "slopes", "weights"};
  return kNames[static_cast<size_t>(what)];
}

std::vector<HeldForm> FormsOf(const EncodingSpec& canonical, const Plan& plan, const Load& load) {
  if (const auto* angles = std::get_if<AnglePlan>(&plan)) return AngleForms(canonical, *angles, load);
  if (const auto* bucket = std::get_if<BucketPlan>(&plan)) {
    auto forms = OtherForms{canonical, load}(*bucket);
    if (const auto tiled = DistancePlanOf(plan)) {
      auto all = BiasForms(canonical, *tiled, load);
      all.push_back(std::move(forms.back()));  // the table
      return all;
    }
    return forms;
  }
  if (const auto distance = DistancePlanOf(plan)) return BiasForms(canonical, *distance, load);
  return std::visit(OtherForms{canonical, load}, plan);
}

std::string BytesText(double bytes) {
  constexpr std::array<const char*, 7> kUnits = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return unit == 0 ? absl::StrFormat("%.0f B", bytes) : absl::StrFormat("%.4g %s", bytes, kUnits[unit]);
}

}  // namespace phasor::server
