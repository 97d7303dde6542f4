#include "server/resolve/needed_weights.h"

#include <algorithm>
#include <string>
#include <utility>

namespace phasor::server {
namespace {

WeightRef Zeros(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  return MakeWeight(std::move(shape), std::vector<double>(static_cast<size_t>(count)));
}

// The smallest weights that the scheme takes, put in and taken out again. Every other scheme has none that it requires.
struct Placeholders {
  bool add;

  void Table(WeightRef& table) const { table = add ? Zeros({1, 1, 1}) : WeightRef(); }

  void operator()(GaussianFourierSpec& spec) const { spec.weight = add ? Zeros({1, 1}) : WeightRef(); }
  void operator()(TransformerXlSpec& spec) const { Table(spec.r); }
  void operator()(XlnetSpec& spec) const { Table(spec.r); }
  void operator()(ConformerSpec& spec) const {
    spec.r = add ? Zeros({std::clamp<int64_t>(spec.num_heads, 1, kMaxHeads), 1, 1}) : WeightRef();
  }
  void operator()(ContinuousWindowBiasSpec& spec) const {
    spec.w1 = add ? Zeros({1, 2}) : WeightRef();
    spec.b1 = add ? Zeros({1}) : WeightRef();
    spec.w2 = add ? Zeros({1, 1}) : WeightRef();
  }
  void operator()(DecomposedSpec& spec) const {
    spec.rel_pos_h = add ? Zeros({1, 1}) : WeightRef();
    spec.rel_pos_w = add ? Zeros({1, 1}) : WeightRef();
  }
  template <typename Spec>
  void operator()(Spec&) const {}
};

// Width of the sinusoids that a given table would make meaningless.
int64_t* SinusoidWidth(EncodingSpec& spec) {
  if (auto* s = std::get_if<TransformerXlSpec>(&spec)) return &s->dim;
  if (auto* s = std::get_if<XlnetSpec>(&spec)) return &s->dim;
  if (auto* s = std::get_if<ConformerSpec>(&spec)) return &s->dim;
  return nullptr;
}

// Conformer's fields that a given table would say, or make meaningless.
void SetOpen(ConformerSpec& spec, bool concatenated, bool base_inclusive, int64_t num_heads) {
  spec.concatenated = concatenated;
  spec.base_inclusive = base_inclusive;
  spec.num_heads = num_heads;
}

PositionKind KindOfFamily(const EncodingSpec& spec) {
  if (std::holds_alternative<AlibiSpec>(spec)) return PositionKind::kAlibi;
  if (std::holds_alternative<RopeSpec>(spec)) return PositionKind::kRope;
  if (std::holds_alternative<LearnedSpec>(spec)) return PositionKind::kLearned;
  const std::string_view family = SchemeOf(spec).family;
  if (family == "bias") return PositionKind::kBias;
  return family == "term" ? PositionKind::kTerm : PositionKind::kSinusoidal;
}

void ListTable(LayerEncoding& layer) {
  if (!layer.spec || !layer.weights.empty()) return;
  const auto list = [&](std::vector<int64_t> shape, std::string source) {
    layer.weights = {{"table", std::move(shape), std::move(source), false}};
  };
  const EncodingSpec& spec = layer.spec->spec;
  if (const auto* learned = std::get_if<LearnedSpec>(&spec)) {
    list({learned->num_positions, learned->dim}, "the checkpoint's table of positions");
  } else if (const auto* buckets = std::get_if<T5BucketSpec>(&spec)) {
    list({*buckets->num_buckets, buckets->num_heads}, "relative_attention_bias.weight");
  } else if (const auto* window = std::get_if<WindowBiasSpec>(&spec)) {
    const int64_t rows = (2 * window->window_height - 1) * (2 * window->window_width - 1) + (window->class_token ? 3 : 0);
    list({rows, window->num_heads}, "relative_position_bias_table");
  }
}

}  // namespace

absl::StatusOr<CanonicalSpec> CanonicalizeWithoutWeights(const EncodingSpec& spec) {
  EncodingSpec with_weights = spec;
  int64_t* width = SinusoidWidth(with_weights);
  const int64_t dim = width ? std::exchange(*width, 0) : 0;
  const auto* given = std::get_if<ConformerSpec>(&spec);
  if (given != nullptr) SetOpen(std::get<ConformerSpec>(with_weights), false, false, given->num_heads);
  std::visit(Placeholders{.add = true}, with_weights);
  auto canonical = Canonicalize(with_weights);
  if (!canonical.ok()) return canonical;
  std::visit(Placeholders{.add = false}, canonical->spec);
  if (given != nullptr) {
    SetOpen(std::get<ConformerSpec>(canonical->spec), given->concatenated, given->base_inclusive, given->num_heads);
  }
  if (int64_t* restored = SinusoidWidth(canonical->spec)) *restored = dim;
  return canonical;
}

void AddSpec(const Model& model, LayerEncoding layer, const EncodingSpec& spec, FieldKeys fields, ModelEncoding& out) {
  if (!model.problems->ok()) return;
  auto canonical = CanonicalizeWithoutWeights(spec);
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    if (!error) return model.problems->Fail(canonical.status());
    const std::string leaf = error->field.substr(error->field.rfind('.') + 1);
    const auto* known = std::find_if(fields.begin(), fields.end(), [&](const auto& field) { return field.first == leaf; });
    const std::string_view key = known == fields.end() ? fields.begin()->second : known->second;
    return model.Blame(model.From(key), *error);
  }
  layer.kind = KindOfFamily(spec);
  layer.spec = *std::move(canonical);
  out.layers.push_back(std::move(layer));
}

void ListTables(ModelEncoding& out) {
  for (LayerEncoding& layer : out.layers) ListTable(layer);
}

bool LacksWeights(const LayerEncoding& layer) {
  return std::any_of(layer.weights.begin(), layer.weights.end(), [](const NeededWeight& weight) { return weight.required; });
}

}  // namespace phasor::server
