#include "server/resolve/layer_groups.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/layer_patterns.h"

namespace phasor::server {
namespace {

// Layer types without attention carry no positions.
constexpr std::string_view kNoAttention[] = {"linear_attention",
                                             "lightning_attention",
                                             "conv",
                                             "mamba",
                                             "mamba2",
                                             "recurrent",
                                             "ssm",
                                             "rwkv",
                                             "gated_deltanet",
                                             "kda",
                                             "moe",
                                             "mlp"};

// Types that transformers 5.24.0 allows, under their present and their older names.
constexpr std::string_view kKnownTypes[] = {"full_attention",
                                            "sliding_attention",
                                            "chunked_attention",
                                            "window_attention",
                                            "indexed_attention",
                                            "compressed_sparse_attention",
                                            "heavily_compressed_attention",
                                            "minimax_m3_sparse",
                                            "hybrid",
                                            "hybrid_sliding",
                                            "reference_sliding_attention",
                                            "attention",
                                            "deepseek_sparse_attention",
                                            "qwen_sparse_attention"};

void WarnUnknownTypes(const Model& model, std::string_view key, const std::vector<LayerGroup>& groups) {
  for (const LayerGroup& group : groups) {
    const auto known = std::find(std::begin(kKnownTypes), std::end(kKnownTypes), group.name);
    if (known != std::end(kKnownTypes) || !HasAttention(group.name)) continue;
    model.problems->Warn(model.text.PathOf(key),
                         absl::StrCat("\"", absl::CHexEscape(group.name), "\" is no known type of layers (transformers 5 ",
                                      "refuses it): the ", group.layers.size(), " layers are read like any others"));
  }
}

// The class's own dict, where the file has none.
RopeDicts DictsOrClassDefault(const Model& model, rapidjson::Document& storage, std::vector<Note>& defaults) {
  RopeDicts dicts = FindRopeDicts(model);
  const std::string_view text = model.family->rope_parameters;
  const bool given =
      model.text.Has("rope_scaling") || model.text.Has("rope_parameters") || model.text.IsNull("rope_scaling");
  if (text.empty() || given || dicts.flat || !dicts.nested.empty()) return dicts;
  if (absl::Status status = ParseConfig(text, storage); !status.ok()) {
    model.problems->Fail(std::move(status));
    return dicts;
  }
  defaults.push_back({model.text.PathOf("rope_parameters"), DefaultText(model, text)});
  const JsonObject dict(storage, model.text.PathOf("rope_parameters"), model.problems);
  for (const std::string& key : dict.Keys()) {
    if (dict.IsObject(key)) dicts.nested.emplace_back(key, dict.Object(key));
    if (dict.IsNull(key)) dicts.nested.emplace_back(key, std::nullopt);
  }
  if (dicts.nested.empty()) dicts.flat = dict;
  return dicts;
}

void WarnNotNested(const Model& model, LayerEncoding& layer) {
  layer.warnings.push_back(
      {model.text.PathOf("rope_parameters"), "has no entry for this layer type: the plain schedule is taken"});
}

}  // namespace

namespace {

constexpr std::string_view kOverrides = "per_layer_config";

// Numbers of a layer's own, as text.
std::map<int64_t, std::string> OverridesOf(const JsonObject& all) {
  Problems quiet;  // they are read again where they count
  std::map<int64_t, std::string> numbers;
  for (const std::string& key : all.Keys()) {
    int64_t layer = -1;
    if (!absl::SimpleAtoi(key, &layer) || layer < 0 || !all.IsObject(key)) continue;
    const JsonObject entry = all.Object(key)->Reporting(&quiet);
    std::string text;
    for (const std::string_view name : {"head_dim", "num_attention_heads", "num_key_value_heads"}) {
      absl::StrAppend(&text, entry.Integer(name, 1, kMaxHeads).value_or(0), " ");
    }
    numbers[layer] = text;
  }
  return numbers;
}

// A group is answered by its first layer: says so where others have numbers of their own, and what no layer has.
void WarnOverrides(const Model& model, const std::vector<LayerGroup>& groups) {
  if (!model.text.IsObject(kOverrides)) return;
  const JsonObject all = *model.text.Object(kOverrides);
  std::map<int64_t, std::string> numbers = OverridesOf(all);
  int64_t read = 0;
  for (const LayerGroup& group : groups) {
    if (group.layers.empty()) continue;
    const auto of_layer = [&](int64_t layer) {
      const auto found = numbers.find(layer);
      return found == numbers.end() ? "0 0 0 " : found->second;
    };
    const std::string first = of_layer(group.layers.front());
    int64_t others = 0;
    for (const int64_t layer : group.layers) {
      others += of_layer(layer) != first ? 1 : 0;
      read += static_cast<int64_t>(numbers.count(layer));
    }
    if (others == 0) continue;
    model.problems->Warn(model.text.PathOf(kOverrides),
                         absl::StrCat("layer ", group.layers.front(), " is answered for ", group.layers.size(),
                                      " layers, of which ", others, " have other numbers"));
  }
  const auto strays = static_cast<int64_t>(all.Keys().size()) - read;
  if (strays > 0) {
    model.problems->Warn(model.text.PathOf(kOverrides), absl::StrCat(strays,
                                                                     " entries are not read: no layer of these answers "
                                                                     "has such a number"));
  }
}

}  // namespace

bool HasAttention(std::string_view type) {
  return std::find(std::begin(kNoAttention), std::end(kNoAttention), type) == std::end(kNoAttention);
}

LayerEncoding NoPositions(const Model& model, const LayerGroup& group) {
  LayerEncoding layer;
  layer.layer_type = group.name;
  layer.layers = group.layers;
  layer.kind = PositionKind::kNone;
  FillFacts(model, 0, layer);
  layer.defaults.insert(layer.defaults.end(), group.defaults.begin(), group.defaults.end());
  return layer;
}

std::string_view TypeOf(const LayerGroup& group) { return group.name.empty() ? group.entry : group.name; }

std::optional<JsonObject> LayerOverrides(const Model& model, const LayerGroup& group) {
  const auto all = model.text.Object("per_layer_config");
  if (!all || group.layers.empty()) return std::nullopt;
  std::string found;  // of several spellings of a number the last one counts, as in transformers
  for (const std::string& key : all->Keys()) {
    int64_t layer = 0;
    if (absl::SimpleAtoi(key, &layer) && layer == group.layers.front()) found = key;
  }
  return found.empty() ? std::nullopt : all->Object(found);
}

std::vector<LayerGroup> GroupByName(const std::vector<std::string>& names) {
  std::vector<LayerGroup> groups;
  std::unordered_map<std::string_view, size_t> place;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto [at, fresh] = place.try_emplace(names[i], groups.size());
    if (fresh) groups.push_back({names[i], {}, {}, {}});
    groups[at->second].layers.push_back(static_cast<int64_t>(i));
  }
  return groups;
}

std::vector<LayerGroup> GroupsFromFile(const Model& model) {
  std::string_view key = model.text.FirstOf({"layer_types", "layers_block_type"});
  if (key.empty()) key = "layer_types";
  const std::vector<std::string> names = LayerNames(model, key);
  if (names.empty()) return {};
  std::vector<Note> ignored;
  const std::string_view count_key = model.text.FirstOf({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  if (!count_key.empty() && model.NumLayers(ignored) != static_cast<int64_t>(names.size())) {
    model.problems->Warn(model.text.PathOf(key),
                         absl::StrCat("has ", names.size(), " entries, not one per layer; they are taken as they stand"));
  }
  std::vector<LayerGroup> groups = GroupByName(names);
  if (!FewTypes(model, key, groups)) return {};
  WarnUnknownTypes(model, key, groups);
  return WithAttention(model, key, std::move(groups));
}

std::vector<LayerGroup> WithAttention(const Model& model, std::string_view key, std::vector<LayerGroup> groups) {
  const auto attends = [](const LayerGroup& group) { return HasAttention(group.name); };
  std::vector<LayerGroup> kept;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(kept), attends);
  if (kept.size() == groups.size()) return groups;
  // models/minimax/modeling_minimax.py of transformers 4.57.6, get_slope_rate and decay_factors.
  const std::string_view fading = HasLightningLayers(model.family->model_type)
                                      ? " of their own (they do not rotate), but weigh a key by e^(-slope*distance): the "
                                        "slope of head h (from 1) of H in "
                                        "layer i of L is 2^(-8h/H)*(1 - i/(L - 1)), which no spec here has"
                                      : "";
  for (const LayerGroup& group : groups) {
    if (attends(group)) continue;
    model.problems->Warn(model.text.PathOf(key),
                         absl::StrCat("the ", group.layers.size(), " layers of type ", group.name, " carry no positions",
                                      absl::string_view(fading.data(), fading.size())));
  }
  if (kept.empty()) return groups;
  if (kept.size() == 1) kept.front().entry = std::exchange(kept.front().name, {});
  return kept;
}

std::vector<LayerGroup> GroupsOr(const Model& model, const std::function<std::string(int64_t, int64_t)>& pattern) {
  std::vector<LayerGroup> groups = GroupsFromFile(model);
  if (!groups.empty() || !model.problems->ok()) return groups;
  std::vector<Note> ignored;
  const int64_t count = model.NumLayers(ignored);
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) names.push_back(pattern(i, count));
  groups = GroupByName(names);
  NotePattern(model, "layer_types", groups);
  return groups;
}

void NotePattern(const Model& model, std::string_view key, std::vector<LayerGroup>& groups) {
  for (LayerGroup& group : groups) {
    group.defaults.push_back({model.text.PathOf(key),
                              absl::StrCat(group.layers.size(), " layers (by the pattern of class ", model.type_name, ")")});
  }
}

std::function<std::string(int64_t, int64_t)> EveryNthFull(int64_t period) {
  return [period](int64_t i, int64_t) -> std::string {
    return period <= 0 || (i + 1) % period == 0 ? "full_attention" : "sliding_attention";
  };
}

GroupRule DefaultRule(const Model& model) {
  GroupRule rule;
  rule.request.default_base = model.family->base;
  rule.request.default_partial = model.family->partial;
  return rule;
}

namespace {

// What per_layer_config and the class's rule say of a group beside its dict.
void AddFacts(const GroupRule& rule, const std::optional<JsonObject>& overrides, LayerEncoding& layer) {
  const auto heads = [&](std::string_view key, int64_t of_rule, int64_t& count) {
    if (of_rule != 0) count = of_rule;
    if (overrides && overrides->Has(key)) count = overrides->Integer(key, 1, kMaxHeads).value_or(0);
  };
  heads("num_attention_heads", rule.num_q_heads, layer.num_q_heads);
  heads("num_key_value_heads", rule.num_kv_heads, layer.num_kv_heads);
  layer.defaults.insert(layer.defaults.end(), rule.defaults.begin(), rule.defaults.end());
  if (layer.kind == PositionKind::kNone || !rule.query_scale.empty()) layer.query_scale = rule.query_scale;
  if (layer.kind == PositionKind::kNone || rule.query_scale_rule) layer.query_scale_rule = rule.query_scale_rule;
}

// The entry of a nested dict that a group reads; null when there is none. A single schedule may still be nested under its
// type's name.
const std::optional<JsonObject>* EntryOf(const RopeDicts& dicts, const LayerGroup& group) {
  if (group.name.empty() && group.entry.empty() && dicts.nested.size() == 1) return &dicts.nested.front().second;
  return dicts.Nested(TypeOf(group));
}

// Entries for types that no layer has: misspelt, or of another model.
void WarnStrayEntries(const Model& model, const RopeDicts& dicts, const std::vector<LayerGroup>& groups) {
  for (const auto& [name, dict] : dicts.nested) {
    const auto* const entry = dicts.Nested(name);
    if (std::any_of(groups.begin(), groups.end(), [&](const LayerGroup& group) { return EntryOf(dicts, group) == entry; })) {
      continue;
    }
    model.problems->Warn(absl::StrCat(dicts.path, ".", absl::CHexEscape(name)), "not read: no layer has this type");
  }
}

// Says of layers that do not rotate that the file decides it (`entry` is null), or that their dict has no use.
void WarnWithoutPositions(const Model& model, const RopeDicts& dicts, const std::optional<JsonObject>* entry, bool rotates,
                          bool of_file, LayerEncoding& layer) {
  if (entry == nullptr || !of_file) return;
  const auto at =
      std::find_if(dicts.nested.begin(), dicts.nested.end(), [&](const auto& each) { return &each.second == entry; });
  const std::string path = absl::StrCat(dicts.path, ".", absl::CHexEscape(at->first));
  if (!*entry) {
    layer.warnings.push_back({path, "null: these layers are answered without positions"});
  } else if (!rotates && !(*entry)->IsEmpty()) {
    layer.warnings.push_back({path, absl::StrCat("not read: these layers do not rotate in class ", model.type_name)});
  }
}

// The width of a group's heads: its first layer's own, the rule's, the model's.
void ReadHeadDim(const Model& model, const GroupRule& rule, const std::optional<JsonObject>& overrides, RopeRequest& request,
                 std::vector<Note>& defaults) {
  constexpr std::string_view kKey = "head_dim";
  if (overrides && overrides->Has(kKey)) {
    request.head_dim = overrides->Integer(kKey, 1, kMaxHeadDim).value_or(0);
    request.from[std::string(kKey)] = {overrides->PathOf(kKey)};
  } else if (request.head_dim != 0) {
    defaults = rule.head_defaults;
  } else {
    request.head_dim = model.HeadDim(defaults);
  }
}

}  // namespace

void ReadGroups(const Model& model, std::vector<LayerGroup> groups, const RuleOf& rule_of, ModelEncoding& out) {
  rapidjson::Document storage;
  std::vector<Note> class_dict;
  const RopeDicts dicts = DictsOrClassDefault(model, storage, class_dict);
  if (groups.empty()) {
    for (const auto& [name, dict] : dicts.nested) groups.push_back({name, {}, {}, {}});
  }
  if (groups.empty()) groups.push_back({});
  WarnOverrides(model, groups);
  if (class_dict.empty()) WarnStrayEntries(model, dicts, groups);
  bool used = false;
  for (const LayerGroup& group : groups) {
    if (!model.problems->ok()) return;
    GroupRule rule = rule_of(TypeOf(group));
    RopeRequest& request = rule.request;
    request.layer_type = group.name;
    request.entry = group.entry;
    request.layers = group.layers;
    // A single schedule may still be nested under its type's name.
    const std::optional<JsonObject>* nested = EntryOf(dicts, group);
    const auto overrides = LayerOverrides(model, group);
    if (!rule.rotates || (nested && !*nested) || !HasAttention(group.name)) {
      out.layers.push_back(NoPositions(model, group));
      AddFacts(rule, overrides, out.layers.back());
      WarnWithoutPositions(model, dicts, nested, rule.rotates, class_dict.empty(), out.layers.back());
      continue;
    }
    std::vector<Note> head_defaults;
    ReadHeadDim(model, rule, overrides, request, head_defaults);
    if (!model.problems->ok()) return;
    request.class_dict = !class_dict.empty() && (nested || dicts.flat);
    if (nested) {
      request.dict = &**nested;
      request.nested = request.scaled = request.dict_theta = true;
    } else if (dicts.flat) {
      request.dict = &*dicts.flat;
    }
    used = used || request.scaled || request.dict_theta;
    LayerEncoding layer = ReadRopeLayer(model, request);
    layer.defaults.insert(layer.defaults.begin(), head_defaults.begin(), head_defaults.end());
    layer.defaults.insert(layer.defaults.end(), class_dict.begin(), class_dict.end());
    layer.defaults.insert(layer.defaults.end(), group.defaults.begin(), group.defaults.end());
    if (!nested && !dicts.nested.empty()) WarnNotNested(model, layer);
    AddFacts(rule, overrides, layer);
    layer.warnings.insert(layer.warnings.end(), rule.warnings.begin(), rule.warnings.end());
    out.layers.push_back(std::move(layer));
  }
  if (dicts.flat && class_dict.empty() && !used && dicts.flat->Has("factor")) {
    model.problems->Warn(
        dicts.flat->path(),
        absl::StrCat("not read: no layer of this model takes its frequencies from it in class ", model.type_name));
  }
}

}  // namespace phasor::server
