#include "server/resolve/family.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <set>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/size_names.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxPositions = int64_t{1} << 31;

// DefaultText without the number.
std::string OfClass(const Model& model) { return absl::StrCat(" (default of class ", model.type_name, ")"); }

}  // namespace

std::string NormalisedFamilyName(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c != '_' && c != '-' && c != '.') out.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
  }
  constexpr std::string_view kText = "text";
  if (out.size() > kText.size() && out.ends_with(kText)) out.resize(out.size() - kText.size());
  return out;
}

namespace {

// "GPTNeoXForCausalLM" → "GPTNeoX", "MarianMTModel" → "Marian".
std::string_view ClassStem(std::string_view architecture) {
  for (size_t at = architecture.size(); at-- > 1;) {
    // "For" inside a word, as in "RoFormer", is followed by a small letter.
    if (architecture.substr(at, 3) == "For" && at + 3 < architecture.size() &&
        std::isupper(static_cast<unsigned char>(architecture[at + 3]))) {
      return architecture.substr(0, at);
    }
  }
  for (const std::string_view suffix : {"WithLMHeadModel", "LMHeadModel", "MTModel", "Model"}) {
    if (architecture.ends_with(suffix)) return architecture.substr(0, architecture.size() - suffix.size());
  }
  return architecture;
}

int64_t FromClass(const Model& model, std::string_view key, int64_t value, std::vector<Note>& defaults) {
  if (value != 0) defaults.push_back({model.text.PathOf(key), DefaultText(model, absl::StrCat(value))});
  return value;
}

}  // namespace

const Family* FindFamily(std::string_view name) {
  static const auto* const families = [] {
    auto* all = new std::unordered_map<std::string_view, const Family*>;
    for (const std::span<const Family> table : {RopeFamilies(), OtherFamilies(), LearnedFamilies(), TransformersFamilies1(),
                                                TransformersFamilies2(), TransformersFamilies3()}) {
      for (const Family& family : table) all->emplace(family.model_type, &family);
    }
    return all;
  }();
  const auto found = families->find(NormalisedFamilyName(name));
  return found == families->end() ? nullptr : found->second;
}

const Family* FindFamilyOfArchitecture(std::string_view architecture) { return FindFamily(ClassStem(architecture)); }

int64_t Model::Hidden(std::vector<Note>& defaults) const {
  const std::string_view own = family->width_key;
  if (!own.empty() && text.Has(own)) return text.Integer(own, 1, kMaxModelWidth).value_or(0);
  if (!own.empty() && family->width != 0) return FromClass(*this, own, family->width, defaults);
  const auto key = FirstOf(text, kHiddenKeys);
  if (!key.empty()) return text.Integer(key, 1, kMaxModelWidth).value_or(0);
  return FromClass(*this, "hidden_size", family->hidden, defaults);
}

int64_t Model::Heads(std::vector<Note>& defaults) const {
  const auto key = FirstOf(text, kHeadKeys);
  // A list of heads per stage belongs to kinds that this reader does not serve.
  if (!key.empty() && text.IsList(key)) return 0;
  if (!key.empty()) return text.Integer(key, 1, kMaxHeads).value_or(0);
  return FromClass(*this, "num_attention_heads", family->heads, defaults);
}

int64_t Model::KvHeads(std::vector<Note>& defaults) const {
  constexpr std::string_view kShared = "multi_query_attention", kGroups = "multi_query_group_num";  // ChatGLM's
  if (text.IsTrue(kShared)) {
    if (text.Has(kGroups)) return text.Integer(kGroups, 1, kMaxHeads).value_or(0);
    return FromClass(*this, kGroups, 1, defaults);
  }
  if (constexpr std::string_view kOne = "multi_query"; family->model_type == "gptbigcode") {
    if (!text.Has(kOne)) defaults.push_back({text.PathOf(kOne), DefaultText(*this, "true")});
    std::vector<Note> noted_before;
    return text.Bool(kOne).value_or(true) ? 1 : Heads(noted_before);
  }
  const auto key = FirstOf(text, kKvHeadKeys);
  if (!key.empty() && text.IsList(key)) return 0;
  if (!key.empty()) return text.Integer(key, 1, kMaxHeads).value_or(0);
  if (family->kv_heads != 0) return FromClass(*this, "num_key_value_heads", family->kv_heads, defaults);
  std::vector<Note> noted_before;
  return Heads(noted_before);
}

int64_t Model::NumLayers(std::vector<Note>& defaults) const {
  const auto key = FirstOf(text, kLayerKeys);
  if (!key.empty()) return text.Integer(key, 1, kMaxLayers).value_or(0);
  if (family->layers == 0) {
    problems->Fail(text.PathOf("num_hidden_layers"), "nothing", absl::StrCat("a whole number, 1 … ", kMaxLayers));
  }
  return FromClass(*this, "num_hidden_layers", family->layers, defaults);
}

std::string_view Model::MaxPositionKey() const { return FirstOf(text, kLengthKeys); }

int64_t Model::MaxPosition() const {
  const std::string_view key = MaxPositionKey();
  if (key.empty()) return family->max_position;
  // T5 and its like write −1 for "no limit".
  if (text.IsNumber(key) && text.Number(key).value_or(0) < 0) return 0;
  return text.Integer(key, 1, kMaxPositions).value_or(0);
}

int64_t Model::HeadDim(std::vector<Note>& defaults, std::string_view override_key) const {
  std::string_view key = !override_key.empty() && text.Has(override_key) ? override_key : std::string_view();
  if (key.empty()) key = FirstOf(text, kHeadDimKeys);
  if (!key.empty()) return text.Integer(key, 1, kMaxHeadDim).value_or(0);
  const std::string path = text.PathOf("head_dim");
  if (family->head_dim != 0) return FromClass(*this, "head_dim", family->head_dim, defaults);
  const int64_t hidden = Hidden(defaults);
  const int64_t heads = Heads(defaults);
  if (!problems->ok()) return 0;
  if (hidden != 0 && heads == 0 && text.IsList("num_attention_heads")) {
    text.Integer("num_attention_heads", 1, kMaxHeads);  // a list serves only classes with stages
    return 0;
  }
  if (hidden == 0 || heads == 0) {
    problems->Fail(path, "nothing", "head_dim, or both hidden_size and num_attention_heads");
    return 0;
  }
  if (hidden < heads) {
    const bool of_heads = !FirstOf(text, kHeadKeys).empty();
    const NumberSource from = From(of_heads ? "num_attention_heads" : "hidden_size");
    problems->Fail(from.path, absl::StrCat(of_heads ? heads : hidden, from.made),
                   of_heads ? absl::StrCat("at most hidden_size, ", hidden, ": a head has at least one channel")
                            : absl::StrCat("at least num_attention_heads, ", heads, ": a head has at least one channel"));
    return 0;
  }
  if (hidden % heads != 0) {
    problems->Warn(path, absl::StrCat("hidden_size ", hidden, " is not a multiple of num_attention_heads ", heads,
                                      ": the quotient is rounded down"));
  }
  const int64_t head_dim = hidden / heads;
  defaults.push_back({path, absl::StrCat(head_dim, " (hidden_size ", hidden, " / num_attention_heads ", heads, ")")});
  return head_dim;
}

NumberSource Model::HeadDimFrom(std::string_view override_key) const {
  if (!override_key.empty() && text.Has(override_key)) return {text.PathOf(override_key)};
  if (const auto key = FirstOf(text, kHeadDimKeys); !key.empty()) return {text.PathOf(key)};
  if (family->head_dim != 0) return {text.PathOf("head_dim"), OfClass(*this)};
  std::vector<Note> ignored;
  return {From("hidden_size").path,
          absl::StrCat(" (hidden_size ", Hidden(ignored), " / num_attention_heads ", Heads(ignored), ")")};
}

NumberSource Model::From(std::string_view key) const {
  if (const size_t dot = key.find('.'); dot != std::string_view::npos) {  // of a dict
    const auto dict = text.IsObject(key.substr(0, dot)) ? text.Object(key.substr(0, dot)) : std::nullopt;
    return {text.PathOf(key), dict && dict->Has(key.substr(dot + 1)) ? "" : OfClass(*this)};
  }
  std::string_view given = text.Has(key) ? key : std::string_view();
  if (key == "hidden_size" && !family->width_key.empty()) {
    if (text.Has(family->width_key)) return {text.PathOf(family->width_key)};
    if (family->width != 0) return {text.PathOf(family->width_key), OfClass(*this)};
  }
  for (const Names& names : {Names(kHiddenKeys), Names(kHeadKeys), Names(kKvHeadKeys), Names(kHeadDimKeys),
                             Names(kLayerKeys), Names(kLengthKeys), Names(kPaddingKeys)}) {
    if (given.empty() && IsOneOf(names, key)) given = FirstOf(text, names);
  }
  return given.empty() ? NumberSource{text.PathOf(key), OfClass(*this)} : NumberSource{text.PathOf(given)};
}

void Model::Blame(const NumberSource& from, const SpecError& error) const {
  problems->Fail(from.path, absl::StrCat(error.given, from.made), error.allowed);
}

bool Model::HasRopeKeys() const {
  return !text.FirstOf({"rope_theta", "rope_scaling", "rope_parameters", "rotary_dim", "rotary_pct", "rotary_emb_base",
                        "partial_rotary_factor", "rotary_emb_fraction", "rope_local_base_freq", "rope_ratio",
                        "global_rope_theta", "qk_rope_head_dim", "rotary", "rope_pct", "rotary_base", "no_rope_layers"})
              .empty();
}

void FillFacts(const Model& model, int64_t head_dim, LayerEncoding& layer) {
  layer.num_q_heads = model.Heads(layer.defaults);
  layer.num_kv_heads = model.KvHeads(layer.defaults);
  layer.max_position = model.MaxPosition();
  if (layer.max_position != 0 && model.MaxPositionKey().empty()) {
    layer.defaults.push_back(
        {model.text.PathOf("max_position_embeddings"), DefaultText(model, absl::StrCat(layer.max_position))});
  }
  switch (model.family->softmax) {
    case SoftmaxRule::kOne:
      layer.softmax_scale = 1;
      break;
    case SoftmaxRule::kQueryPreAttention:
    case SoftmaxRule::kQueryPreAttentionOrHead: {
      const auto scalar = model.text.Number("query_pre_attn_scalar");
      if (scalar && !(*scalar > 0)) {
        model.problems->Fail(model.text.PathOf("query_pre_attn_scalar"), FormatNumber(*scalar), "a finite number > 0");
        return;
      }
      const bool of_head = model.family->softmax == SoftmaxRule::kQueryPreAttentionOrHead;
      if (of_head && !scalar) break;  // as if there were no such key
      if (!scalar) layer.defaults.push_back({model.text.PathOf("query_pre_attn_scalar"), DefaultText(model, "256")});
      layer.softmax_scale = InverseSqrt(scalar.value_or(256));
      break;
    }
    case SoftmaxRule::kAttentionMultiplier:
      layer.softmax_scale = model.text.Number("attention_multiplier");
      if (layer.softmax_scale) break;
      layer.softmax_scale = model.family->multiplier;
      layer.defaults.push_back(
          {model.text.PathOf("attention_multiplier"), DefaultText(model, FormatNumber(model.family->multiplier))});
      break;
    case SoftmaxRule::kHeadDim:
      layer.softmax_scale = model.text.Number("attention_multiplier");
      break;
  }
}

void ListHeads(const Model& model, std::vector<LayerEncoding>& layers) {
  const std::string path = model.text.PathOf("num_key_value_heads");
  const bool said = !FirstOf(model.text, kKvHeadKeys).empty() || model.text.Has("per_layer_config") ||
                    model.text.IsTrue("multi_query_attention") || model.text.IsObject("attn_config");
  for (LayerEncoding& layer : layers) {
    std::set<std::pair<std::string, std::string>> seen;
    const std::string count = absl::StrCat(layer.num_kv_heads, " ");
    std::erase_if(layer.defaults, [&](const Note& note) {
      const bool overruled = note.field == path && !note.message.starts_with(count);
      return overruled || !seen.emplace(note.field, note.message).second;
    });
    const bool noted = std::any_of(layer.defaults.begin(), layer.defaults.end(), [](const Note& note) {
      return note.field.ends_with("key_value_heads") || note.field.ends_with("multi_query");
    });
    if (said || noted || layer.num_kv_heads == 0 || layer.num_kv_heads != layer.num_q_heads) continue;
    layer.defaults.push_back({path, absl::StrCat(layer.num_kv_heads, " (as many as num_attention_heads)")});
  }
}

LayerEncoding Unserved(const Model& model, std::string layer_type, std::string_view what) {
  LayerEncoding layer;
  layer.layer_type = std::move(layer_type);
  layer.kind = PositionKind::kUnserved;
  layer.unserved = what;
  layer.num_q_heads = model.Heads(layer.defaults);
  layer.num_kv_heads = model.KvHeads(layer.defaults);
  layer.max_position = model.MaxPosition();
  return layer;
}

std::string DefaultText(const Model& model, std::string_view value) {
  return absl::StrCat(absl::string_view(value.data(), value.size()), " (default of class ", model.type_name, ")");
}

double InverseSqrt(double value) { return 1 / std::sqrt(value); }

}  // namespace phasor::server
