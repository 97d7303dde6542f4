#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/layer_groups.h"
#include "server/resolve/layer_patterns.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

// One schedule (or those of the file's own dicts), with the class's rule for all of them.
void ReadWithRule(const Model& model, const GroupRule& rule, ModelEncoding& out) {
  ReadGroups(
      model, GroupsOfModel(model),
      [&](std::string_view group) {
        GroupRule of_group = rule;
        of_group.rotates = TypeRotates(model, group);
        WidenGlobal(model, group, of_group);
        return of_group;
      },
      out);
}

// The same, where the class says layer by layer which rotate.
void ReadNopeLayers(const Model& model, const GroupRule& rule, ModelEncoding& out) {
  ReadGroups(
      model, RopeAndNope(model),
      [&](std::string_view group) {
        GroupRule of_group = rule;
        of_group.rotates = group != "nope_layers";
        return of_group;
      },
      out);
}

// Molmo 2: the dict's scaling reaches the listed layers only, its base all of them.
void ReadScaledLayers(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kKey = "rope_scaling_layers";
  std::vector<Note> defaults;
  const int64_t count = model.NumLayers(defaults);
  if (!model.problems->ok()) return;
  const std::vector<int64_t> list = LayerIntegers(model, kKey, count - 1);
  const std::set<int64_t> listed(list.begin(), list.end());
  std::vector<std::string> names;
  for (int64_t i = 0; i < count; ++i) {
    names.emplace_back(listed.contains(i) ? "scaled" : "unscaled");
  }
  std::vector<LayerGroup> groups = GroupByName(names);
  const bool scaled = groups.size() > 1 || groups.front().name == "scaled";
  if (groups.size() == 1) groups.front() = {};
  ReadGroups(
      model, std::move(groups),
      [&](std::string_view group) {
        GroupRule rule = DefaultRule(model);
        rule.request.scaled = group.empty() ? scaled : group == "scaled";
        return rule;
      },
      out);
}

}  // namespace

void ReadRope(const Model& model, ModelEncoding& out) {
  if (model.text.IsObject("rotary")) {
    // InternLM's first files: a dict of their own, whose dynamic form is not the common one.
    model.problems->Warn(model.text.PathOf("rotary"), "an old form that is not served");
    out.layers.push_back(Unserved(model, "", "rope_internlm_rotary"));
    return;
  }
  if (model.text.Has("rope_scaling_layers")) return ReadScaledLayers(model, out);
  const std::string_view family = model.family->model_type;
  if (family == "museglimmer" || family == "musespark") return ReadLayerBases(model, false, out);
  if (family.starts_with("granite") && model.text.Has("layer_rope_theta")) return ReadLayerBases(model, true, out);
  ReadWithRule(model, DefaultRule(model), out);
}

void ReadNanoChat(const Model& model, ModelEncoding& out) {
  ReadRope(model, out);
  for (LayerEncoding& layer : out.layers) {
    if (layer.kind != PositionKind::kRope) continue;
    layer.inverse = true;
    layer.warnings.push_back(
        {model.text.PathOf("model_type"),
         "the class turns the other way, by -position: apply the spec with inverse, to queries and keys "
         "alike; scores without it depend on the wrong sign of the distance"});
  }
}

void ReadGptJ(const Model& model, ModelEncoding& out) {
  GroupRule rule = DefaultRule(model);
  constexpr int64_t kClassWidth = 64;
  const bool from_class = !model.text.Has("rotary_dim") && !model.text.IsNull("rotary_dim");
  if (from_class) rule.request.rotary_dim = kClassWidth;
  if (from_class) rule.request.from["rotary_dim"] = model.From("rotary_dim");
  ReadWithRule(model, rule, out);
  for (LayerEncoding& layer : out.layers) {
    if (from_class) layer.defaults.push_back({model.text.PathOf("rotary_dim"), DefaultText(model, "64")});
  }
}

void ReadNeoX(const Model& model, ModelEncoding& out) {
  GroupRule rule = DefaultRule(model);
  rule.request.theta_key = "rotary_emb_base";
  if (model.text.Has("rope_theta")) {
    model.problems->Warn(model.text.PathOf("rope_theta"),
                         absl::StrCat("class ", model.type_name, " reads rotary_emb_base and ignores this key"));
  }
  constexpr std::string_view kShare = "partial_rotary_factor";
  const auto dict = FlatRopeDict(model);
  if (!dict || !dict->Has(kShare)) {
    // rotary_pct alone counts; what the file does not say is the class's.
    const auto share = model.text.Number("rotary_pct");
    if (share) rule.request.partial = FoundNumber{*share, model.text.PathOf("rotary_pct")};
    if (!share && model.text.Has(kShare)) {
      rule.request.partial = FoundNumber{rule.request.default_partial, model.text.PathOf("rotary_pct")};
    }
    if (model.text.Has(kShare)) {
      model.problems->Warn(model.text.PathOf(kShare),
                           absl::StrCat("class ", model.type_name, " reads rotary_pct and ignores this key"));
    }
  }
  ReadWithRule(model, rule, out);
}

void ReadChatGlm(const Model& model, ModelEncoding& out) {
  GroupRule rule = DefaultRule(model);
  constexpr std::string_view kShared = "multi_query_attention", kGroups = "multi_query_group_num";
  if (!model.text.Has(kShared)) rule.defaults.push_back({model.text.PathOf(kShared), DefaultText(model, "false")});
  if (!model.text.IsTrue(kShared) && model.text.Has(kGroups)) {
    model.problems->Warn(model.text.PathOf(kGroups),
                         absl::StrCat(model.text.ValueText(kGroups), " is not read: multi_query_attention is false"));
  }
  if (const auto ratio = model.text.Number("rope_ratio")) {
    if (!(*ratio > 0)) {
      model.problems->Fail(model.text.PathOf("rope_ratio"), FormatNumber(*ratio), "a finite number > 0");
      return;
    }
    rule.request.base_multiplier = *ratio;
    model.problems->Warn(model.text.PathOf("rope_ratio"),
                         absl::StrCat("the base is multiplied by ", FormatNumber(*ratio),
                                      "; ChatGLM2-32k has the same keys and divides the positions by it instead, which "
                                      "the file cannot tell"));
  }
  ReadWithRule(model, rule, out);
}

void ReadQwen1(const Model& model, ModelEncoding& out) {
  GroupRule rule = DefaultRule(model);
  rule.request.theta_key = "rotary_emb_base";
  std::vector<Note> defaults;
  const auto flag = [&](std::string_view key) {
    if (!model.text.Has(key)) defaults.push_back({model.text.PathOf(key), DefaultText(model, "true")});
    return model.text.Bool(key).value_or(true);
  };
  int64_t training = model.text.Integer("seq_length", 1, kMaxLength).value_or(0);
  if (training == 0) {
    training = 8192;
    defaults.push_back({model.text.PathOf("seq_length"), DefaultText(model, "8192")});
  }
  if (flag("use_dynamic_ntk")) rule.request.schedule = Qwen1NtkSchedule{training};
  if (flag("use_logn_attn")) {
    rule.query_scale = absl::StrCat("max(1, ln(position+1)/ln(", training, "))");
    if (training >= 2) rule.query_scale_rule = QueryScaleRule{QueryScaleRule::Kind::kLogN, 0, training, 0};
    model.problems->Warn(model.text.PathOf("use_logn_attn"),
                         absl::StrCat("queries are scaled only while the key length exceeds ", training));
  }
  ReadWithRule(model, rule, out);
  for (LayerEncoding& layer : out.layers) layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
}

void ReadNomic(const Model& model, ModelEncoding& out) {
  GroupRule rule = DefaultRule(model);
  rule.request.theta_key = "rotary_emb_base";
  if (model.text.IsTrue("rotary_emb_interleaved")) rule.request.pairing = Pairing::kInterleaved;
  if (const auto factor = model.text.Number("rotary_scaling_factor")) {
    const int64_t trained = model.text.Integer("max_trained_positions", 1, kMaxLength).value_or(model.MaxPosition());
    rule.request.schedule = DynamicNtkSchedule{.factor = *factor, .max_position = trained};
    const bool own = model.text.Has("max_trained_positions");
    rule.request.from["factor"] = {model.text.PathOf("rotary_scaling_factor")};
    rule.request.from["max_position"] = model.From(own ? "max_trained_positions" : "max_position_embeddings");
  }
  ReadWithRule(model, rule, out);
}

void ReadDbrx(const Model& model, ModelEncoding& out) {
  const auto attention = model.text.Object("attn_config");
  GroupRule rule = DefaultRule(model);
  if (attention && attention->Has("rope_theta")) {
    rule.request.theta = FoundNumber{attention->Number("rope_theta").value_or(1), attention->PathOf("rope_theta")};
  }
  ReadWithRule(model, rule, out);
  if (!attention) return;
  const auto kv_heads = attention->Integer("kv_n_heads", 1, kMaxHeads);
  for (LayerEncoding& layer : out.layers) {
    if (kv_heads) layer.num_kv_heads = *kv_heads;
  }
}

namespace {

// How a class of this kind pairs the channels of its slice, which a flag decides in some.
Pairing MlaPairing(const Model& model, std::vector<Note>& defaults) {
  constexpr std::string_view kKey = "rope_interleave";
  const bool unknown = model.family->model_type.empty();
  const auto flag = model.text.Bool(kKey);
  if (unknown && !flag) return Pairing::kInterleaved;  // as the checkpoints of most classes have it
  const Pairing of_class = unknown ? Pairing::kInterleavedToHalf : model.family->pairing;
  if (!unknown && !model.family->rope_interleave) {
    if (flag && *flag != (of_class != Pairing::kHalfSplit)) {
      model.problems->Warn(model.text.PathOf(kKey), absl::StrCat("class ", model.type_name, " does not read it"));
    }
    return of_class;
  }
  if (!flag) defaults.push_back({model.text.PathOf(kKey), DefaultText(model, "true")});
  return flag.value_or(true) ? of_class : Pairing::kHalfSplit;
}

}  // namespace

void ReadMla(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  const auto width = [&](std::string_view key, int64_t of_class) {
    if (const auto given = model.text.Integer(key, 1, kMaxHeadDim)) return *given;
    if (of_class == 0) {
      model.problems->Fail(model.text.PathOf(key), "nothing", absl::StrCat("a whole number, 1 … ", kMaxHeadDim));
    } else {
      defaults.push_back({model.text.PathOf(key), DefaultText(model, absl::StrCat(of_class))});
    }
    return of_class;
  };
  const int64_t nope = width("qk_nope_head_dim", model.family->qk_nope_head_dim);
  const int64_t rope = width("qk_rope_head_dim", model.family->qk_rope_head_dim);
  GroupRule rule = DefaultRule(model);
  rule.request.head_dim = nope + rope;
  rule.request.from["head_dim"] = model.From("qk_nope_head_dim");
  rule.request.rotary_dim = rope;
  rule.request.first_channel = nope;
  rule.request.deepseek_softmax = true;
  const Pairing pairing = MlaPairing(model, defaults);
  rule.request.pairing = pairing;
  if (model.family->model_type == "mistrallarge4") {
    ReadNopeLayers(model, rule, out);
  } else {
    ReadWithRule(model, rule, out);
  }
  for (LayerEncoding& layer : out.layers) {
    layer.defaults.insert(layer.defaults.begin(), defaults.begin(), defaults.end());
    if (layer.kind != PositionKind::kRope) continue;
    layer.warnings.push_back({model.text.PathOf("qk_rope_head_dim"),
                              absl::StrCat("the slice that rotates is the last ", rope, " of ", nope + rope,
                                           " channels (first_channel); for a slice by itself, such as the key that all "
                                           "heads share, set head_dim ",
                                           rope, " and first_channel 0")});
    if (pairing == Pairing::kInterleavedToHalf) {
      layer.warnings.push_back(
          {model.text.PathOf("rope_interleave"),
           "the class reads pairs (2i, 2i + 1) and writes them as halves; engines that write them where "
           "they were have the same scores and other stored keys"});
    }
  }
}

}  // namespace phasor::server
