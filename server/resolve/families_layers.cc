#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/layer_groups.h"
#include "server/resolve/layer_patterns.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr std::string_view kSliding = "sliding_attention";

// The local layers have a base of their own that no scaling reaches.
GroupRule LocalRule(const Model& model, std::string_view theta_key, double base) {
  GroupRule rule = DefaultRule(model);
  rule.request.theta_key = theta_key;
  rule.request.default_base = base;
  rule.request.scaled = false;
  rule.request.dict_theta = false;
  return rule;
}

int64_t Period(const Model& model, int64_t of_class) {
  const std::string_view key = model.text.FirstOf({"sliding_window_pattern", "_sliding_window_pattern"});
  return key.empty() ? of_class : model.text.Integer(key, 1, kMaxLayers).value_or(of_class);
}

void ReadDualBase(const Model& model, int64_t period, ModelEncoding& out) {
  ReadGroups(
      model, GroupsOr(model, EveryNthFull(Period(model, period))),
      [&](std::string_view group) {
        return group == kSliding ? LocalRule(model, "rope_local_base_freq", 10000) : DefaultRule(model);
      },
      out);
}

}  // namespace

void ReadGemma3(const Model& model, ModelEncoding& out) { ReadDualBase(model, 6, out); }
void ReadGemma3n(const Model& model, ModelEncoding& out) { ReadDualBase(model, 5, out); }

void ReadGemma4(const Model& model, ModelEncoding& out) {
  ReadGroups(
      model, GroupsOfModel(model),
      [&](std::string_view type) {
        GroupRule rule = DefaultRule(model);
        if (type == kSliding) return rule;
        rule.request.default_base = 1e6;
        rule.request.default_partial = 0.25;
        WidenGlobal(model, type, rule);
        return rule;
      },
      out);
}

void ReadModernBert(const Model& model, ModelEncoding& out) {
  const int64_t every = model.text.Integer("global_attn_every_n_layers", 1, kMaxLayers).value_or(3);
  const auto pattern = [every](int64_t i, int64_t) -> std::string {
    return i % every == 0 ? "full_attention" : std::string(kSliding);
  };
  if (model.text.Has("rope_scaling")) {
    model.problems->Warn(model.text.PathOf("rope_scaling"),
                         "applied to both layer types; before transformers 5 the class did not read it");
  }
  ReadGroups(
      model, GroupsOr(model, pattern),
      [&](std::string_view group) {
        GroupRule rule = DefaultRule(model);
        rule.request.theta_key = "global_rope_theta";
        // A local base of null means that all layers share the global one.
        if (group == kSliding && !model.text.IsNull("local_rope_theta")) {
          rule.request.theta_key = "local_rope_theta";
          rule.request.default_base = 10000;
        }
        return rule;
      },
      out);
}

void ReadOlmo3(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kBase = "rope_theta";
  const auto dict = model.text.Object("rope_parameters");
  ReadGroups(
      model, GroupsOr(model, EveryNthFull(4)),
      [&](std::string_view type) {
        GroupRule rule = DefaultRule(model);
        rule.request.scaled = type != kSliding;  // the base in the dict is meant for both
        if (type == kSliding && dict && dict->Has(kBase)) {
          rule.warnings.push_back({dict->PathOf(kBase),
                                   "transformers 5.24 takes it out of the dict before these layers read it: there they get "
                                   "the class's base"});
        }
        return rule;
      },
      out);
}

void ReadCohere2(const Model& model, ModelEncoding& out) {
  // Without a window no layer slides, whatever its type.
  const bool windowed = !model.text.IsNull("sliding_window");
  ReadGroups(
      model, GroupsOr(model, EveryNthFull(Period(model, 4))),
      [&](std::string_view type) {
        GroupRule rule = DefaultRule(model);
        rule.rotates = windowed && type == kSliding;
        return rule;
      },
      out);
}

void ReadExaone4(const Model& model, ModelEncoding& out) {
  const bool from_class = !model.text.Has("sliding_window") && !model.text.IsNull("sliding_window");
  const bool windowed = from_class || model.text.Has("sliding_window");
  constexpr std::string_view kPatternKey = "sliding_window_pattern";
  std::string letters;  // "LLLG": local and global
  int64_t period = windowed ? 4 : 0;
  if (windowed && model.text.Has(kPatternKey)) {
    if (model.text.IsNumber(kPatternKey)) {
      period = model.text.Integer(kPatternKey, 1, kMaxLayers).value_or(4);
    } else {
      letters = model.text.String(kPatternKey).value_or("");
    }
  }
  const auto pattern = [&](int64_t i, int64_t n) -> std::string {
    if (letters.empty()) return EveryNthFull(period)(i, n);
    return letters[static_cast<size_t>(i) % letters.size()] == 'L' && i + 1 != n ? std::string(kSliding) : "full_attention";
  };
  ReadGroups(
      model, GroupsOr(model, pattern),
      [&](std::string_view group) {
        GroupRule rule = DefaultRule(model);
        rule.rotates = !windowed || group == kSliding;
        return rule;
      },
      out);
  for (LayerEncoding& layer : out.layers) {
    if (from_class) layer.defaults.push_back({model.text.PathOf("sliding_window"), DefaultText(model, "4096")});
  }
}

void ReadNopeList(const Model& model, ModelEncoding& out) {
  ReadGroups(
      model, RopeAndNope(model),
      [&](std::string_view group) {
        GroupRule rule = DefaultRule(model);
        rule.rotates = group != "nope_layers";
        return rule;
      },
      out);
}

void ReadLlama4(const Model& model, ModelEncoding& out) {
  // Published files write a number here; any but 0 and false switches it on.
  constexpr std::string_view kKey = "attn_temperature_tuning";
  const bool tuned = model.text.IsNumber(kKey) ? model.text.Number(kKey) != 0.0 : model.text.Bool(kKey).value_or(true);
  const double scale = model.text.Number("attn_scale").value_or(0.1);
  const int64_t floor = model.text.Integer("floor_scale", 1, kMaxLength).value_or(8192);
  std::vector<Note> defaults;
  using Default = std::pair<std::string_view, std::string_view>;
  for (const auto& [key, value] : {Default(kKey, "true"), Default("attn_scale", "0.1"), Default("floor_scale", "8192")}) {
    if (!model.text.Has(key)) defaults.push_back({model.text.PathOf(key), DefaultText(model, value)});
  }
  if (scale < 0) {
    return model.problems->Fail(model.text.PathOf("attn_scale"), FormatNumber(scale), "a finite number, at least 0");
  }
  ReadGroups(
      model, RopeAndNope(model),
      [&](std::string_view group) {
        GroupRule rule = DefaultRule(model);
        rule.rotates = group != "nope_layers";
        if (!rule.rotates && tuned) {
          rule.defaults = defaults;
          rule.query_scale = absl::StrCat("1 + ", FormatNumber(scale), "*ln(1 + floor((position+1)/", floor, "))");
          rule.query_scale_rule = QueryScaleRule{QueryScaleRule::Kind::kFloor, scale, floor, 1};
        }
        return rule;
      },
      out);
}

void ReadDeepseekV4(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  std::vector<std::string> names;
  if (model.text.Has("layer_types")) {
    for (const std::string& type : LayerNames(model, "layer_types")) names.push_back(type == kSliding ? "main" : "compress");
  } else {
    const std::vector<int64_t> ratios = LayerIntegers(model, "compress_ratios", int64_t{1} << 20);
    for (const int64_t ratio : ratios) names.push_back(ratio == 0 ? "main" : "compress");
  }
  const bool from_class = names.empty();
  // By default every layer compresses its keys, in one of two ways.
  if (from_class) names.assign(static_cast<size_t>(model.NumLayers(defaults)), "compress");
  std::vector<LayerGroup> groups = GroupByName(names);
  if (from_class) NotePattern(model, "layer_types", groups);
  const int64_t head_dim = model.HeadDim(defaults);
  const int64_t rotary = model.text.Integer("qk_rope_head_dim", 1, kMaxHeadDim).value_or(0);
  ReadGroups(
      model, std::move(groups),
      [&](std::string_view group) {
        GroupRule rule = group == "main" ? LocalRule(model, "rope_theta", 10000) : DefaultRule(model);
        if (group != "main") {
          rule.request.theta_key = "compress_rope_theta";
          rule.request.default_base = 160000;
          rule.request.dict_theta = false;
          rule.request.attention_factor = 1;  // the class leaves YaRN's own factor out
        }
        rule.request.head_dim = head_dim;
        rule.request.rotary_dim = rotary;
        rule.request.first_channel = std::max<int64_t>(head_dim - rotary, 0);
        return rule;
      },
      out);
  for (LayerEncoding& layer : out.layers) {
    layer.defaults.insert(layer.defaults.begin(), defaults.begin(), defaults.end());
    layer.warnings.push_back(
        {model.text.PathOf("qk_rope_head_dim"), "the slice that rotates comes last in the head (first_channel)"});
  }
}

void ReadSecondBase(const Model& model, ModelEncoding& out) {
  const std::string_view key = model.text.FirstOf({"rope_local_base_freq", "swa_rope_theta", "local_rope_theta"});
  std::vector<LayerGroup> groups = GroupsFromFile(model);
  if (groups.empty()) {
    std::vector<std::string> names;
    for (const int64_t local : LayerIntegers(model, "hybrid_layer_pattern", 1)) {
      names.push_back(local != 0 ? std::string(kSliding) : "full_attention");
    }
    groups = GroupByName(names);
  }
  if (groups.empty()) groups = {{"full_attention", {}, {}, {}}, {std::string(kSliding), {}, {}, {}}};
  ReadGroups(
      model, std::move(groups),
      [&](std::string_view group) { return group == kSliding ? LocalRule(model, key, 10000) : DefaultRule(model); }, out);
}

}  // namespace phasor::server
