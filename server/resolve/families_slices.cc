// Layer types with widths and heads of their own, and keys that list a value for every layer.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/layer_groups.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr std::string_view kFull = "full_attention";
constexpr std::string_view kSliding = "sliding_attention";
constexpr std::string_view kIndexed = "indexed_attention";

// The value of a group's first layer in a list with one for every layer; the others of the group should agree.
std::optional<FoundNumber> OfGroup(const Model& model, std::string_view key, const LayerGroup& group) {
  if (!model.text.IsList(key)) return std::nullopt;
  const auto list = model.text.Numbers(key);
  if (!list || group.layers.empty()) return std::nullopt;
  const auto first = static_cast<size_t>(group.layers.front());
  const std::string path = absl::StrCat(model.text.PathOf(key), "[", first, "]");
  if (first >= list->size()) {
    model.problems->Fail(path, "nothing", absl::StrCat("a number for every layer; the list has ", list->size()));
    return std::nullopt;
  }
  const double value = (*list)[first];
  for (const int64_t layer : group.layers) {
    const auto at = static_cast<size_t>(layer);
    if (at >= list->size() || (*list)[at] == value) continue;
    model.problems->Warn(absl::StrCat(model.text.PathOf(key), "[", at, "]"),
                         absl::StrCat(FormatNumber((*list)[at]), " is not read: layers of one type share the first one's ",
                                      FormatNumber(value)));
    break;
  }
  return FoundNumber{value, path};
}

const LayerGroup* Find(const std::vector<LayerGroup>& groups, std::string_view type) {
  const auto found =
      std::find_if(groups.begin(), groups.end(), [&](const LayerGroup& each) { return TypeOf(each) == type; });
  return found == groups.end() ? nullptr : &*found;
}

// Step's files list the layers of multi-token prediction after the model's own.
void DropPrediction(const Model& model, std::vector<LayerGroup>& groups) {
  const int64_t more = model.text.Integer("num_nextn_predict_layers", 0, kMaxLayers).value_or(0);
  if (more == 0 || !model.text.IsList("layer_types") || !model.text.Has("num_hidden_layers")) return;
  std::vector<Note> ignored;
  const int64_t count = model.NumLayers(ignored);
  size_t listed = 0;
  for (const LayerGroup& group : groups) listed += group.layers.size();
  if (static_cast<int64_t>(listed) != count + more) return;
  for (LayerGroup& group : groups) std::erase_if(group.layers, [&](int64_t layer) { return layer >= count; });
  std::erase_if(groups, [](const LayerGroup& group) { return group.layers.empty(); });
  model.problems->Warn(model.text.PathOf("layer_types"),
                       absl::StrCat("the last ", more, " of ", listed, " layers predict further tokens and are left out"));
}

}  // namespace

void ReadStep3p5(const Model& model, ModelEncoding& out) {
  std::vector<LayerGroup> groups = GroupsOr(model, [](int64_t, int64_t) { return std::string(kFull); });
  if (!model.problems->ok()) return;
  DropPrediction(model, groups);
  constexpr std::string_view kOnly = "yarn_only_types", kShares = "partial_rotary_factors";
  if (model.text.Has(kOnly)) {
    const auto only = model.text.Strings(kOnly).value_or(std::vector<std::string>());
    if (only.size() != 1 || only.front() != kFull) {
      model.problems->Warn(model.text.PathOf(kOnly), "not read: rope_scaling reaches full_attention only");
    }
  }
  if (model.text.Has(kShares) && !model.text.IsList(kShares)) model.text.Numbers(kShares);  // the error of a list
  std::optional<int64_t> sliding = model.text.Integer("num_sliding_attention_heads", 1, kMaxHeads);
  const auto other = model.text.Object("attention_other_setting");
  if (!sliding && other) sliding = other->Integer("num_attention_heads", 1, kMaxHeads);
  // per_layer_config says it alone where there is one.
  if (model.text.Has("per_layer_config")) sliding.reset();
  const int64_t kv_heads = model.text.Integer("num_attention_groups", 1, kMaxHeads).value_or(0);
  const std::vector<LayerGroup> by_type = groups;
  ReadGroups(
      model, std::move(groups),
      [&](std::string_view type) {
        GroupRule rule = DefaultRule(model);
        rule.request.scaled = rule.request.dict_theta = type == kFull;
        rule.num_kv_heads = kv_heads;
        if (type == kSliding) rule.num_q_heads = sliding.value_or(0);
        if (const LayerGroup* group = Find(by_type, type)) {
          rule.request.theta = OfGroup(model, "rope_theta", *group);
          rule.request.partial = OfGroup(model, kShares, *group);
        }
        return rule;
      },
      out);
}

void ReadUltraBert(const Model& model, ModelEncoding& out) {
  const std::vector<int64_t> windows = LayerIntegers(model, "attention_windows", int64_t{1} << 31);
  std::vector<LayerGroup> groups = GroupsOr(model, [&](int64_t i, int64_t) -> std::string {
    if (!windows.empty())
      return i < static_cast<int64_t>(windows.size()) && windows[i] == 0 ? std::string(kFull) : std::string(kSliding);
    return (i + 1) % 3 == 0 ? std::string(kFull) : std::string(kSliding);
  });
  if (!model.problems->ok()) return;
  if (model.text.IsNumber("rope_theta")) {
    model.problems->Warn(model.text.PathOf("rope_theta"),
                         "one base for all layers; transformers 5 refuses a number here: the class reads a list");
  }
  const std::vector<LayerGroup> by_type = groups;
  ReadGroups(
      model, std::move(groups),
      [&](std::string_view type) {
        GroupRule rule = DefaultRule(model);
        if (const LayerGroup* group = Find(by_type, type)) rule.request.theta = OfGroup(model, "rope_theta", *group);
        return rule;
      },
      out);
}

namespace {

// Which layers look at all keys through an index: older files call them full_attention.
std::vector<LayerGroup> Dots3Groups(const Model& model) {
  const bool indexed = model.text.Has("use_dsa") ? model.text.IsTrue("use_dsa") : true;
  const bool renames = model.text.Has("use_dsa") || !model.text.IsObject("per_layer_config");
  const bool windowed = model.text.Bool("use_sliding_window").value_or(true);
  const std::string wide(indexed ? kIndexed : kFull);
  std::vector<LayerGroup> groups =
      GroupsOr(model, [&](int64_t i, int64_t) { return !windowed || i < 2 || i % 4 == 1 ? wide : std::string(kSliding); });
  for (LayerGroup& group : groups) {
    std::string& name = group.name.empty() && !group.entry.empty() ? group.entry : group.name;
    if (renames && (name == kFull || name == kIndexed)) name = wide;
  }
  return groups;
}

// Widths and heads of one layer type: per_layer_config of its first layer, the swa_* keys, the model's own.
struct Dots3Slice {
  int64_t nope = 0, rope = 0, heads = 0, kv_heads = 0;
  NumberSource nope_from = {}, rope_from = {};
};

Dots3Slice SliceOf(const Model& model, const LayerGroup* group, bool sliding, std::vector<Note>& defaults) {
  const auto given = group ? LayerOverrides(model, *group) : std::nullopt;
  const bool own = model.text.IsObject("per_layer_config");
  NumberSource from;  // of the number that was read last
  const auto read = [&](std::string_view key, int64_t most, int64_t of_class, int64_t of_sliding) {
    if (given && given->Has(key)) {
      from = {given->PathOf(key)};
      return given->Integer(key, 1, most).value_or(0);
    }
    const std::string alias = absl::StrCat("swa_", absl::string_view(key.data(), key.size()));
    const std::string name = sliding && !own ? alias : std::string(key);
    from = model.From(name);
    if (model.text.Has(name)) return model.text.Integer(name, 1, most).value_or(0);
    const int64_t value = sliding && !own ? of_sliding : of_class;
    if (value != 0) defaults.push_back({model.text.PathOf(name), DefaultText(model, absl::StrCat(value))});
    return value;
  };
  Dots3Slice slice;
  slice.nope = read("qk_nope_head_dim", kMaxHeadDim, 128, 192);
  slice.nope_from = from;
  slice.rope = read("qk_rope_head_dim", kMaxHeadDim, 64, 0);
  slice.rope_from = from;
  if (slice.rope == 0 && model.problems->ok()) {  // the sliding layers' rest of the head
    const int64_t head_dim = read("head_dim", kMaxHeadDim, 256, 256);
    slice.rope = head_dim - slice.nope;
    slice.rope_from = {from.path, absl::StrCat(" (swa_head_dim ", head_dim, " - swa_qk_nope_head_dim ", slice.nope, ")")};
    if (slice.rope < 1 && slice.nope_from.made.empty()) {
      model.problems->Fail(slice.nope_from.path, absl::StrCat(slice.nope), absl::StrCat("less than head_dim, ", head_dim));
    } else if (slice.rope < 1) {
      model.problems->Fail(from.path, absl::StrCat(head_dim, from.made),
                           absl::StrCat("more than qk_nope_head_dim, ", slice.nope, slice.nope_from.made));
    }
  }
  slice.heads = read("num_attention_heads", kMaxHeads, model.family->heads, 64);
  slice.kv_heads = read("num_key_value_heads", kMaxHeads, model.family->kv_heads, 64);
  return slice;
}

}  // namespace

void ReadDots3Note(const Model& model, ModelEncoding& out) {
  std::vector<LayerGroup> groups = Dots3Groups(model);
  if (!model.problems->ok()) return;
  const std::vector<LayerGroup> by_name = groups;
  const bool flat = FlatRopeDict(model).has_value();
  for (const LayerGroup& group : by_name) {
    const bool sliding = TypeOf(group) == kSliding;
    std::vector<Note> defaults;
    const Dots3Slice slice = SliceOf(model, &group, sliding, defaults);
    if (!model.problems->ok()) return;
    const size_t before = out.layers.size();
    ReadGroups(
        model, {group},
        [&](std::string_view) {
          GroupRule rule = DefaultRule(model);
          rule.request.head_dim = slice.nope + slice.rope;
          rule.request.from["head_dim"] = slice.nope_from;
          rule.request.rotary_dim = slice.rope;
          rule.request.from["rotary_dim"] = slice.rope_from;
          rule.request.first_channel = slice.nope;
          // A dict for all layer types gives them one base.
          if (sliding && !flat) rule.request.theta_key = "swa_rope_theta";
          return rule;
        },
        out);
    if (out.layers.size() == before) return;
    LayerEncoding& layer = out.layers.back();
    layer.num_q_heads = slice.heads;
    layer.num_kv_heads = slice.kv_heads;
    layer.defaults.insert(layer.defaults.begin(), defaults.begin(), defaults.end());
    layer.warnings.push_back(
        {model.text.PathOf("qk_rope_head_dim"), absl::StrCat("the slice that rotates is the last ", slice.rope, " of ",
                                                             slice.nope + slice.rope, " channels (first_channel)")});
  }
}

}  // namespace phasor::server
