// Classes of texts whose positions are terms of the scores: DeBERTa, BERT's relative keys, XLNet, Transformer-XL.
#include <algorithm>
#include <cctype>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

// An integer of which every value below 1 means "none".
std::optional<int64_t> PositiveInteger(const Model& model, std::string_view key) {
  const auto given = model.text.Integer(key, -(int64_t{1} << 31), int64_t{1} << 31);
  return given && *given > 0 ? given : std::nullopt;
}

// ---- DeBERTa

// A list of names, or the same in one string: "p2c|c2p".
std::vector<std::string> TermNames(const Model& model) {
  constexpr std::string_view kKey = "pos_att_type";
  if (model.family->model_type == "sewd" && !model.text.Has(kKey)) return {"p2c", "c2p"};  // the class's default
  if (model.text.IsList(kKey)) return model.text.Strings(kKey).value_or(std::vector<std::string>());
  std::vector<std::string> names;
  std::string name;
  for (const char c : model.text.String(kKey).value_or("") + "|") {
    if (c != '|') {
      if (c != ' ') name.push_back(static_cast<char>(std::tolower(static_cast<unsigned char>(c))));
      continue;
    }
    if (!name.empty()) names.push_back(std::exchange(name, {}));
  }
  return names;
}

struct DebertaKeys {
  bool first_version = false;  // no buckets, no sharing, no norm; its scale counts every name of pos_att_type
  bool c2p = false, p2c = false;
  int64_t counted_terms = 0;
  bool shared = false, normed = false;
};

DebertaKeys ReadDebertaKeys(const Model& model) {
  DebertaKeys keys;
  keys.first_version = model.family->model_type == "deberta";
  const std::vector<std::string> names = TermNames(model);
  bool others = false;
  for (const std::string& name : names) {
    keys.c2p = keys.c2p || name == "c2p";
    keys.p2c = keys.p2c || name == "p2c";
    others = others || (name != "c2p" && name != "p2c");
  }
  if (others) {
    model.problems->Warn(model.text.PathOf("pos_att_type"),
                         keys.first_version ? "a name other than c2p and p2c makes no term, though it counts in the scale"
                                            : "names other than c2p and p2c are not read");
  }
  keys.counted_terms = keys.first_version ? static_cast<int64_t>(names.size()) : int64_t{keys.c2p} + int64_t{keys.p2c};
  const bool speech = model.family->model_type == "sewd";  // the class's defaults differ
  const std::string norm = model.text.String("norm_rel_ebd").value_or(speech ? "layer_norm" : "none");
  if (keys.first_version) {
    for (const std::string_view key : {"position_buckets", "share_att_key", "norm_rel_ebd"}) {
      if (model.text.Has(key))
        model.problems->Warn(model.text.PathOf(key), "class deberta does not read it: version 2 does");
    }
    return keys;
  }
  keys.shared = model.text.Bool("share_att_key").value_or(speech);
  keys.normed = norm.find("layer_norm") != std::string::npos;
  return keys;
}

std::string DebertaSource(const DebertaKeys& keys, bool of_keys) {
  std::string rows =
      keys.normed ? "LayerNorm(encoder.rel_embeddings.weight) with encoder.LayerNorm" : "encoder.rel_embeddings.weight";
  const char* projection = keys.shared          ? (of_keys ? "key_proj" : "query_proj")
                           : keys.first_version ? (of_keys ? "pos_proj" : "pos_q_proj")
                                                : (of_keys ? "pos_key_proj" : "pos_query_proj");
  return absl::StrCat(projection, "(", rows, ") of each layer, split into heads",
                      keys.shared ? " (share_att_key: the layer's own projection)" : "");
}

void AddEmbedding(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kKey = "position_biased_input";
  const bool speech = model.family->model_type == "sewd";  // its input is a convolution's
  if (speech || !model.text.Bool(kKey).value_or(true)) return;
  const size_t before = out.layers.size();
  LearnedSpec table;
  table.num_positions = model.MaxPosition();
  AddLearned(model, "embedding", table, out);
  if (out.layers.size() > before && !model.text.Has(kKey)) {
    out.layers.back().defaults.push_back({model.text.PathOf(kKey), DefaultText(model, "true")});
  }
}

// ---- Shaw

// The table of BERT and its like has a row for each distance that the model can have.
void AddBertShaw(const Model& model, bool key_term, ModelEncoding& out) {
  LayerEncoding layer;
  const int64_t head_dim = NeededHeadDim(model, layer);
  const std::string path = model.text.PathOf("position_embedding_type");
  if (model.problems->ok() && layer.max_position == 0) {
    model.problems->Fail(model.text.PathOf("max_position_embeddings"), "nothing", "a whole number: it clips the distances");
  }
  if (!model.problems->ok()) return;
  ShawSpec spec;
  spec.clip = layer.max_position - 1;
  spec.query_term_too = key_term;
  layer.weights = {{"keys", {2 * spec.clip + 1, head_dim}, "distance_embedding.weight of each layer", false}};
  const bool esm = model.family->model_type == "esm";
  layer.warnings.push_back(
      {path, absl::StrCat("transformers 4 reads it so, without a table of positions at the input; transformers 5 has no "
                          "such form: ",
                          esm ? "class esm then has no positions at all"
                              : "it adds the learned table to the input whatever this says")});
  AddSpec(model, std::move(layer), spec, {{"clip", "max_position_embeddings"}}, out);
}

// ---- Relative sinusoids

// Keys of the memory lengthen the keys; masks are the caller's.
void WarnMemory(const Model& model, LayerEncoding& layer) {
  if (const auto memory = PositiveInteger(model, "mem_len")) {
    layer.warnings.push_back({model.text.PathOf("mem_len"),
                              absl::StrCat("keys may begin with up to ", *memory,
                                           " of memory: give them as keys before the queries, distances count on")});
  }
  if (model.text.IsTrue("same_length")) {
    layer.warnings.push_back({model.text.PathOf("same_length"),
                              "every query attends to equally many keys: a mask of the caller's, not part of the spec"});
  }
}

}  // namespace

int64_t NeededHeadDim(const Model& model, LayerEncoding& layer, std::string_view heads_key) {
  if (!heads_key.empty() && model.text.Has(heads_key)) {
    const int64_t heads = model.text.Integer(heads_key, 1, kMaxHeads).value_or(1);
    const int64_t hidden = model.Hidden(layer.defaults);
    if (model.problems->ok() && hidden < heads) {
      model.problems->Fail(model.text.PathOf(heads_key), absl::StrCat(heads), absl::StrCat("at most hidden_size, ", hidden));
    }
    FillFacts(model, hidden / heads, layer);
    layer.num_q_heads = layer.num_kv_heads = heads;
    return hidden / heads;
  }
  const int64_t head_dim = model.HeadDim(layer.defaults, "d_head");
  FillFacts(model, head_dim, layer);
  if (model.problems->ok() && layer.num_q_heads == 0) {
    model.problems->Fail(model.text.PathOf("num_attention_heads"), "nothing",
                         absl::StrCat("a whole number, 1 … ", kMaxHeads));
  }
  return head_dim;
}

// The width of the sinusoids is the model's; heads and their width are those of the layer.
int64_t SinusoidDim(const Model& model, LayerEncoding& layer) {
  const int64_t dim = model.Hidden(layer.defaults);
  if (model.problems->ok() && (dim < 2 || dim % 2 != 0)) {
    const NumberSource from = model.From("hidden_size");
    model.problems->Fail(from.path, absl::StrCat(dim, from.made),
                         "an even number, at least 2: half of the columns are sines");
  }
  return dim;
}

void ReadDeberta(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kRelative = "relative_attention", kInput = "position_biased_input";
  const bool speech = model.family->model_type == "sewd";
  std::vector<Note> defaults;
  const auto note = [&](std::string_view key, std::string_view value) {
    if (!model.text.Has(key)) defaults.push_back({model.text.PathOf(key), DefaultText(model, value)});
  };
  note(kRelative, speech ? "true" : "false");
  if (!model.text.Bool(kRelative).value_or(speech)) {
    note(kInput, "true");
    if (model.text.Bool(kInput).value_or(true)) {
      ReadLearned(model, out);
    } else {
      ReadNone(model, out);
    }
    for (LayerEncoding& layer : out.layers) layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
    return;
  }
  const DebertaKeys keys = ReadDebertaKeys(model);
  LayerEncoding layer;
  const int64_t head_dim = NeededHeadDim(model, layer);
  if (!model.problems->ok()) return;
  layer.softmax_scale = InverseSqrt(static_cast<double>(head_dim * (1 + keys.counted_terms)));
  if (!keys.c2p && !keys.p2c) {
    layer.kind = PositionKind::kNone;
    layer.warnings.push_back({model.text.PathOf("pos_att_type"), "names neither c2p nor p2c: no term depends on positions"});
    out.layers.push_back(std::move(layer));
    return AddEmbedding(model, out);
  }
  DebertaSpec spec;
  spec.c2p = keys.c2p;
  spec.p2c = keys.p2c;
  const int64_t buckets = speech && !model.text.Has("position_buckets") ? 256 : 0;
  if (!keys.first_version) note("position_buckets", speech ? "256" : "-1");
  layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
  spec.position_buckets = keys.first_version ? 0 : PositiveInteger(model, "position_buckets").value_or(buckets);
  spec.max_relative_positions = PositiveInteger(model, "max_relative_positions");
  if (!spec.max_relative_positions) {
    spec.max_relative_positions = model.MaxPosition();
    layer.defaults.push_back(
        {model.text.PathOf("max_relative_positions"),
         absl::StrCat(*spec.max_relative_positions, " (max_position_embeddings: the value is below 1)")});
  }
  const int64_t rows = 2 * (*spec.position_buckets > 0 ? *spec.position_buckets : *spec.max_relative_positions);
  const std::vector<int64_t> shape = {layer.num_q_heads, rows, head_dim};
  if (keys.c2p) layer.weights.push_back({"key_positions", shape, DebertaSource(keys, true), false});
  if (keys.p2c) layer.weights.push_back({"query_positions", shape, DebertaSource(keys, false), false});
  AddSpec(model, std::move(layer), spec,
          {{"max_relative_positions", "max_relative_positions"}, {"position_buckets", "position_buckets"}}, out);
  if (model.problems->ok()) AddEmbedding(model, out);
  if (speech) NoteConvolution(model, out);
}

bool ReadShawType(const Model& model, std::string_view type, ModelEncoding& out) {
  if (type != "relative_key" && type != "relative_key_query") return false;
  AddBertShaw(model, type == "relative_key_query", out);
  return true;
}

void ReadXlnet(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  const int64_t head_dim = NeededHeadDim(model, layer);
  XlnetSpec spec;
  spec.dim = SinusoidDim(model, layer);
  if (!model.problems->ok()) return;
  const std::string type = model.text.String("attn_type").value_or("bi");
  if (type != "bi" && type != "uni") {
    return FailWord(model, model.text, "attn_type", type, "bi, uni");
  }
  spec.unidirectional = type == "uni";
  spec.clamp_length = PositiveInteger(model, "clamp_len");
  const int64_t heads = layer.num_q_heads;
  layer.weights = {{"w_r", {heads * head_dim, spec.dim}, "rel_attn.r of each layer [dim, heads, d], transposed", true},
                   {"r_w_bias", {heads, head_dim}, "rel_attn.r_w_bias of each layer", true},
                   {"r_r_bias", {heads, head_dim}, "rel_attn.r_r_bias of each layer", true},
                   {"r_s_bias", {heads, head_dim}, "rel_attn.r_s_bias of each layer, where there are segments", false},
                   {"seg_embed", {2, heads, head_dim}, "rel_attn.seg_embed of each layer, where there are segments", false},
                   {"segments", {0, 0}, "[queries, keys]: 0 same segment, 1 another, of the input's token types", false}};
  if (model.text.IsTrue("bi_data")) {
    layer.warnings.push_back(
        {model.text.PathOf("bi_data"), "the second half of the batch runs backwards: give its tokens negated positions"});
  }
  WarnMemory(model, layer);
  AddSpec(model, std::move(layer), spec, {{"clamp_length", "clamp_len"}}, out);
}

void ReadTransformerXl(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  const int64_t head_dim = NeededHeadDim(model, layer);
  TransformerXlSpec spec;
  spec.dim = SinusoidDim(model, layer);
  if (!model.problems->ok()) return;
  spec.clamp_length = PositiveInteger(model, "clamp_len");
  if (!model.text.Has("clamp_len")) {
    spec.clamp_length = 1000;
    layer.defaults.push_back({model.text.PathOf("clamp_len"), DefaultText(model, "1000")});
  }
  const int64_t heads = layer.num_q_heads;
  const char* owner = model.text.Bool("untie_r").value_or(true) ? " of each layer" : ", which all layers share";
  layer.weights = {{"w_r", {heads * head_dim, spec.dim}, "dec_attn.r_net.weight of each layer", true},
                   {"u", {heads, head_dim}, absl::StrCat("r_w_bias", owner), true},
                   {"v", {heads, head_dim}, absl::StrCat("r_r_bias", owner), true}};
  if (const auto form = model.text.Integer("attn_type", 0, 3); form.value_or(0) != 0) {
    layer.warnings.push_back({model.text.PathOf("attn_type"),
                              "the spec is form 0, the only one that transformers had; others are other score terms"});
  }
  WarnMemory(model, layer);
  AddSpec(model, std::move(layer), spec, {{"clamp_length", "clamp_len"}}, out);
}

}  // namespace phasor::server
