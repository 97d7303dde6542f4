#include "server/resolve/layer_groups.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"

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

bool HasAttention(std::string_view type) {
  return std::find(std::begin(kNoAttention), std::end(kNoAttention), type) == std::end(kNoAttention);
}

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

LayerEncoding NoPositions(const Model& model, const LayerGroup& group) {
  LayerEncoding layer;
  layer.layer_type = group.name;
  layer.layers = group.layers;
  layer.kind = PositionKind::kNone;
  FillFacts(model, 0, layer);
  layer.defaults.insert(layer.defaults.end(), group.defaults.begin(), group.defaults.end());
  return layer;
}

void WarnNotNested(const Model& model, LayerEncoding& layer) {
  layer.warnings.push_back(
      {model.text.PathOf("rope_parameters"), "has no entry for this layer type: the plain schedule is taken"});
}

}  // namespace

std::optional<JsonObject> LayerOverrides(const Model& model, const LayerGroup& group) {
  if (group.layers.empty() || !model.text.IsObject("per_layer_config")) return std::nullopt;
  const JsonObject all = *model.text.Object("per_layer_config");
  const std::string number = absl::StrCat(group.layers.front());
  for (const std::string& key : all.Keys()) {
    const size_t zeros = std::min(key.find_first_not_of('0'), key.size() - 1);
    if (key.substr(zeros) == number && all.IsObject(key)) return all.Object(key);
  }
  return std::nullopt;
}

std::vector<LayerGroup> GroupByName(const std::vector<std::string>& names) {
  std::vector<LayerGroup> groups;
  for (size_t i = 0; i < names.size(); ++i) {
    auto group = std::find_if(groups.begin(), groups.end(), [&](const LayerGroup& g) { return g.name == names[i]; });
    if (group == groups.end()) group = groups.insert(groups.end(), LayerGroup{names[i], {}, {}, {}});
    group->layers.push_back(static_cast<int64_t>(i));
  }
  return groups;
}

std::vector<LayerGroup> GroupsFromFile(const Model& model) {
  std::string_view key = model.text.FirstOf({"layer_types", "layers_block_type"});
  if (key.empty()) key = "layer_types";
  auto names = model.text.Strings(key);
  if (!names || names->empty()) return {};
  if (static_cast<int64_t>(names->size()) > kMaxLayers) {
    model.problems->Fail(model.text.PathOf(key), absl::StrCat(names->size(), " entries"),
                         absl::StrCat("at most ", kMaxLayers));
    return {};
  }
  for (size_t i = 0; i < names->size(); ++i) {
    if ((*names)[i].size() <= kMaxLayerTypeLength) continue;
    model.problems->Fail(absl::StrCat(model.text.PathOf(key), "[", i, "]"),
                         absl::StrCat("a name of ", (*names)[i].size(), " bytes"),
                         absl::StrCat("at most ", kMaxLayerTypeLength));
    return {};
  }
  std::vector<Note> ignored;
  const std::string_view count_key = model.text.FirstOf({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  if (!count_key.empty() && model.NumLayers(ignored) != static_cast<int64_t>(names->size())) {
    model.problems->Warn(model.text.PathOf(key),
                         absl::StrCat("has ", names->size(), " entries, not one per layer; they are taken as they stand"));
  }
  std::vector<LayerGroup> groups = GroupByName(*names);
  if (groups.size() > kMaxLayerTypes) {
    model.problems->Fail(model.text.PathOf(key), absl::StrCat(groups.size(), " different types"),
                         absl::StrCat("at most ", kMaxLayerTypes));
    return {};
  }
  WarnUnknownTypes(model, key, groups);
  return WithAttention(model, key, std::move(groups));
}

std::vector<LayerGroup> WithAttention(const Model& model, std::string_view key, std::vector<LayerGroup> groups) {
  const auto attends = [](const LayerGroup& group) { return HasAttention(group.name); };
  std::vector<LayerGroup> kept;
  std::copy_if(groups.begin(), groups.end(), std::back_inserter(kept), attends);
  if (kept.size() == groups.size() || kept.empty()) return groups;
  for (const LayerGroup& group : groups) {
    if (attends(group)) continue;
    model.problems->Warn(model.text.PathOf(key),
                         absl::StrCat("the ", group.layers.size(), " layers of type ", group.name, " carry no positions"));
  }
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

void ReadGroups(const Model& model, std::vector<LayerGroup> groups, const RuleOf& rule_of, ModelEncoding& out) {
  rapidjson::Document storage;
  std::vector<Note> class_dict;
  const RopeDicts dicts = DictsOrClassDefault(model, storage, class_dict);
  if (groups.empty()) {
    for (const auto& [name, dict] : dicts.nested) groups.push_back({name, {}, {}, {}});
  }
  if (groups.empty()) groups.push_back({});
  for (const LayerGroup& group : groups) {
    if (!model.problems->ok()) return;
    GroupRule rule = rule_of(group.name);
    RopeRequest& request = rule.request;
    request.layer_type = group.name;
    request.entry = group.entry;
    request.layers = group.layers;
    // A single schedule may still be nested under its type's name.
    const std::optional<JsonObject>* nested = group.name.empty() && group.entry.empty() && dicts.nested.size() == 1
                                                  ? &dicts.nested.front().second
                                                  : dicts.Nested(group.entry.empty() ? group.name : group.entry);
    if (!rule.rotates || (nested && !*nested) || !HasAttention(group.name)) {
      out.layers.push_back(NoPositions(model, group));
      out.layers.back().query_scale = rule.query_scale;
      out.layers.back().query_scale_rule = rule.query_scale_rule;
      continue;
    }
    std::vector<Note> head_defaults;
    const auto overrides = LayerOverrides(model, group);
    if (overrides && overrides->Has("head_dim")) {
      request.head_dim = overrides->Integer("head_dim", 1, kMaxHeadDim).value_or(0);
    }
    if (request.head_dim == 0) request.head_dim = model.HeadDim(head_defaults);
    if (!model.problems->ok()) return;
    request.class_dict = !class_dict.empty() && (nested || dicts.flat);
    if (nested) {
      request.dict = &**nested;
      request.nested = request.scaled = request.dict_theta = true;
    } else if (dicts.flat) {
      request.dict = &*dicts.flat;
    }
    LayerEncoding layer = ReadRopeLayer(model, request);
    layer.defaults.insert(layer.defaults.begin(), head_defaults.begin(), head_defaults.end());
    layer.defaults.insert(layer.defaults.end(), class_dict.begin(), class_dict.end());
    layer.defaults.insert(layer.defaults.end(), group.defaults.begin(), group.defaults.end());
    if (overrides && overrides->Has("num_attention_heads")) {
      layer.num_q_heads = overrides->Integer("num_attention_heads", 1, kMaxHeads).value_or(0);
    }
    if (overrides && overrides->Has("num_key_value_heads")) {
      layer.num_kv_heads = overrides->Integer("num_key_value_heads", 1, kMaxHeads).value_or(0);
    }
    if (!nested && !dicts.nested.empty()) WarnNotNested(model, layer);
    if (!rule.query_scale.empty()) layer.query_scale = rule.query_scale;
    if (rule.query_scale_rule) layer.query_scale_rule = rule.query_scale_rule;
    out.layers.push_back(std::move(layer));
  }
}

}  // namespace phasor::server
