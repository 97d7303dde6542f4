#include "server/resolve/layer_patterns.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"

namespace phasor::server {
namespace {

constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";
constexpr std::string_view kLinear = "linear_attention";
constexpr std::string_view kConv = "conv";
// Layers of Cohere 2 MoE that see everything and rotate all the same.
constexpr std::string_view kDenseFull = "dense_full_attention";

enum class Rotating : uint8_t {
  kAll,
  kSlidingOnly,        // those that see everything do not
  kSlidingIfWindowed,  // the same, where the file has a window at all
};

// Layer i of n; `period` is the value of the pattern's key.
using TypeOf = std::string_view (*)(int64_t i, int64_t n, int64_t period);

std::string_view Every(int64_t i, int64_t, int64_t period) { return (i + 1) % period == 0 ? kFull : kSliding; }
std::string_view EveryAndLast(int64_t i, int64_t n, int64_t period) { return i + 1 == n ? kFull : Every(i, n, period); }
std::string_view EveryIsFullElseLinear(int64_t i, int64_t, int64_t period) {
  return (i + 1) % period == 0 ? kFull : kLinear;
}
std::string_view AllFull(int64_t, int64_t, int64_t) { return kFull; }

struct ClassLayers {
  std::string_view family;
  TypeOf type_of = nullptr;   // null: no pattern
  int64_t period = 0;         // the class's
  std::string_view key = {};  // of the period
  Rotating rotating = Rotating::kAll;
  int64_t global_head_dim = 0;
  int64_t global_kv_heads = 0;  // 0: the others'
};

constexpr std::string_view kInterval = "full_attention_interval";
// transformers 5.24.0, __post_init__ of each class's configuration and forward of its attention.
const ClassLayers kClasses[] = {
    {"afmoe", &Every, 4, "global_attn_every_n_layers", Rotating::kSlidingOnly},
    {"bailinghybrid", &EveryIsFullElseLinear, 6, "layer_group_size"},
    {"beam", &EveryAndLast, 6},
    {"cohere2moe", nullptr, 0, {}, Rotating::kSlidingOnly},
    {"diffusiongemma", &EveryAndLast, 6, {}, Rotating::kAll, 512},
    {"embeddinggemma2", &EveryAndLast, 6, "sliding_window_pattern", Rotating::kAll, 512, 1},
    {"flint",
     [](int64_t i, int64_t n, int64_t) { return i < 2 || i % 4 == 1 || i + 1 == n ? kFull : kSliding; },
     0,
     {},
     Rotating::kSlidingOnly},
    {"gemma4", &EveryAndLast, 6, {}, Rotating::kAll, 512},
    {"gemma4unified", &EveryAndLast, 6, {}, Rotating::kAll, 512},
    {"kolibri1", &Every, 5, {}, Rotating::kSlidingIfWindowed},
    {"laguna", &AllFull},
    {"laramini",
     [](int64_t i, int64_t, int64_t) {
       constexpr std::string_view kCycle[] = {kLinear, kSliding, kLinear, kFull, kSliding};
       return kCycle[i % 5];
     },
     0,
     {},
     Rotating::kSlidingOnly},
    {"lfm3", [](int64_t i, int64_t, int64_t) { return i % 4 == 2            ? kFull
                                                      : i % 4 == 0 && i > 0 ? kSliding
                                                                            : kConv; }},
    {"mellum", &AllFull},
    {"mimov2flash", [](int64_t i, int64_t n, int64_t period) { return i == 0 ? kFull : Every(i, n, period); }, 6},
    {"minimax", [](int64_t i, int64_t, int64_t) { return i % 2 == 0 ? kFull : kLinear; }},
    {"neomme", &EveryAndLast, 6},
    {"olmohybrid", [](int64_t i, int64_t n, int64_t) { return i % 4 == 3 || (n < 4 && i + 1 == n) ? kFull : kLinear; }},
    {"qwen35", &EveryIsFullElseLinear, 4, kInterval},
    {"qwen35moe", &EveryIsFullElseLinear, 4, kInterval},
    {"qwen3next", &EveryIsFullElseLinear, 4, kInterval},
    {"qwen4exp", &EveryIsFullElseLinear, 4, kInterval},
    {"zaya", [](int64_t, int64_t, int64_t) -> std::string_view { return "hybrid"; }},
};

// transformers 5 reads the older name as the present one.
bool SeesAll(std::string_view type) { return type == kFull || type == "attention"; }

const ClassLayers* Find(const Model& model) {
  const auto* found = std::find_if(std::begin(kClasses), std::end(kClasses),
                                   [&](const ClassLayers& each) { return each.family == model.family->model_type; });
  return found == std::end(kClasses) ? nullptr : found;
}

// Names for the layers of a list: 1 (or a layer's index in it) is attention.
std::vector<std::string> NamesByList(const Model& model, std::string_view key, bool indices, std::string_view other) {
  std::vector<Note> ignored;
  const int64_t count = indices ? model.NumLayers(ignored) : 0;
  if (!model.problems->ok()) return {};
  const std::vector<int64_t> list = LayerIntegers(model, key, indices ? count - 1 : 1);
  std::vector<std::string> names(indices ? static_cast<size_t>(count) : list.size(), std::string(other));
  for (size_t i = 0; i < list.size(); ++i) {
    if (indices) names[static_cast<size_t>(list[i])] = kFull;
    if (!indices && list[i] == 1) names[i] = kFull;
  }
  return names;
}

// Recurrent Gemma repeats a short list over all layers.
std::vector<std::string> NamesByCycle(const Model& model) {
  std::vector<Note> ignored;
  std::vector<std::string> cycle = LayerNames(model, model.text.FirstOf({"block_types", "_block_types"}));
  if (cycle.empty()) cycle = {"recurrent", "recurrent", "attention"};
  std::vector<std::string> names;
  const int64_t count = model.NumLayers(ignored);
  for (int64_t i = 0; i < count; ++i) {
    const std::string& type = cycle[static_cast<size_t>(i) % cycle.size()];
    names.emplace_back(type == "recurrent" ? kLinear : kSliding);
  }
  return names;
}

// Cohere 2 MoE: the dense layers in front have a pattern of their own; where it is 1, they all see everything and rotate.
std::vector<std::string> NamesOfCohere2Moe(const Model& model) {
  std::vector<Note> ignored;
  const int64_t count = model.NumLayers(ignored);
  const int64_t dense = model.text.Integer("first_k_dense_replace", 0, kMaxLayers).value_or(0);
  const int64_t in_front = model.text.Integer("prefix_dense_sliding_window_pattern", 1, kMaxLayers).value_or(1);
  const int64_t period = model.text.Integer("sliding_window_pattern", 1, kMaxLayers).value_or(4);
  const std::vector<std::string> types = LayerNames(model, "layer_types");
  const std::vector<std::string> kinds = LayerNames(model, "mlp_layer_types");
  if (!model.problems->ok()) return {};
  std::vector<std::string> names;
  for (int64_t i = 0; i < (types.empty() ? count : static_cast<int64_t>(types.size())); ++i) {
    const size_t at = static_cast<size_t>(i);
    const bool full = types.empty() ? (i < dense ? (i + 1) % in_front : (i - dense + 1) % period) == 0 : types[at] == kFull;
    const bool is_dense = kinds.empty() ? i < dense : at < kinds.size() && kinds[at] == "dense";
    names.emplace_back(!full && !types.empty() ? types[at]
                       : !full                 ? std::string(kSliding)
                                               : std::string(is_dense && in_front == 1 ? kDenseFull : kFull));
  }
  return names;
}

std::vector<LayerGroup> GroupsOfCohere2Moe(const Model& model) {
  constexpr std::string_view kKey = "layer_types";
  std::vector<LayerGroup> groups = GroupByName(NamesOfCohere2Moe(model));
  if (!FewTypes(model, kKey, groups)) return {};
  if (!model.text.IsList(kKey)) NotePattern(model, kKey, groups);
  return WithAttention(model, kKey, std::move(groups));
}

// Keys that list the layers in place of layer_types, by class.
std::vector<std::string> NamesByOtherKeys(const Model& model, std::string_view& key) {
  const std::string_view family = model.family->model_type;
  const auto has = [&](std::string_view name) {
    key = name;
    return model.text.Has(name);
  };
  if (family == "bamba" && has("attn_layer_indices")) return NamesByList(model, key, true, kLinear);
  if (family == "bamba") {
    model.problems->Warn(model.text.PathOf(key),
                         "not given: the class makes no attention layer by itself; which of the file's "
                         "layers attend is not said");
    key = "layer_types";
    return {};
  }
  if (HasLightningLayers(family) && has("attn_type_list")) return NamesByList(model, key, false, kLinear);
  if (family == "minimaxtext01") {
    model.problems->Warn(model.text.PathOf(key),
                         "not given: the class has no pattern of its own; which of the file's layers have lightning "
                         "attention, and do not rotate, is not said");
    key = "layer_types";
    return {};
  }
  if (family.starts_with("lfm2") && has("full_attn_idxs")) return NamesByList(model, key, true, kConv);
  if (family == "mimov2flash" && has("hybrid_layer_pattern")) {
    std::vector<std::string> names;
    for (const int64_t flag : LayerIntegers(model, key, 1)) names.emplace_back(flag == 1 ? kSliding : kFull);
    return names;
  }
  key = "block_types";
  if (family == "recurrentgemma") return NamesByCycle(model);
  key = "layer_types";
  return {};
}

std::vector<std::string> NamesByPattern(const Model& model, const ClassLayers& own) {
  std::vector<Note> ignored;
  const int64_t period = own.key.empty() ? own.period : model.text.Integer(own.key, 1, kMaxLayers).value_or(own.period);
  const int64_t count = model.NumLayers(ignored);
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.emplace_back(own.type_of(i, count, period));
  return names;
}

}  // namespace

std::vector<LayerGroup> GroupsOfModel(const Model& model) {
  if (model.family->model_type == "cohere2moe") return GroupsOfCohere2Moe(model);
  std::vector<LayerGroup> groups = GroupsFromFile(model);
  if (!groups.empty() || !model.problems->ok()) return groups;
  std::string_view key = "layer_types";
  std::vector<std::string> names = NamesByOtherKeys(model, key);
  const ClassLayers* own = Find(model);
  if (names.empty() && own && own->type_of) names = NamesByPattern(model, *own);
  if (names.empty() || !model.problems->ok()) return {};
  groups = GroupByName(names);
  if (!model.text.IsList(key)) NotePattern(model, own && model.text.Has(own->key) ? own->key : key, groups);
  return WithAttention(model, key, std::move(groups));
}

bool HasLightningLayers(std::string_view family) { return family == "minimax" || family == "minimaxtext01"; }

bool TypeRotates(const Model& model, std::string_view layer_type) {
  const ClassLayers* own = Find(model);
  if (!own || own->rotating == Rotating::kAll || !SeesAll(layer_type)) return true;
  return own->rotating == Rotating::kSlidingIfWindowed && model.text.IsNull("sliding_window");
}

void WidenGlobal(const Model& model, std::string_view layer_type, GroupRule& rule) {
  constexpr std::string_view kWidth = "global_head_dim", kHeads = "num_global_key_value_heads", kShared = "attention_k_eq_v";
  const ClassLayers* own = Find(model);
  if (!own || own->global_head_dim == 0 || !SeesAll(layer_type) || model.text.Has("per_layer_config")) return;
  const auto width = model.text.Integer(kWidth, 1, kMaxHeadDim);
  rule.request.head_dim = width.value_or(own->global_head_dim);
  rule.request.from["head_dim"] = model.From(kWidth);
  if (!width) {
    rule.head_defaults.push_back({model.text.PathOf(kWidth), DefaultText(model, absl::StrCat(own->global_head_dim))});
  }
  // Gemma 4 has key heads of their own only where keys are values too.
  const bool gated = own->family.starts_with("gemma4") && !model.text.IsTrue(kShared);
  const auto heads = model.text.Integer(kHeads, 1, kMaxHeads);
  if (!gated) rule.num_kv_heads = heads.value_or(own->global_kv_heads);
  if (!heads && own->global_kv_heads != 0) {
    rule.defaults.push_back({model.text.PathOf(kHeads), DefaultText(model, absl::StrCat(own->global_kv_heads))});
  }
}

}  // namespace phasor::server
