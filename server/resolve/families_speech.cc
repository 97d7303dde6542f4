// Classes of sound whose positions are terms of the scores: Conformers, relative keys with two ends.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "server/resolve/class_values.h"
#include "server/resolve/layer_groups.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxDistance = int64_t{1} << 20;

// A table whose ends lie at different distances: both sides are clipped at the farther one, and its last row repeated.
void AddLopsidedShaw(const Model& model, LayerEncoding layer, int64_t left, int64_t right, std::string_view heads_key,
                     ModelEncoding& out) {
  const int64_t head_dim = NeededHeadDim(model, layer, heads_key);
  if (!model.problems->ok()) return;
  ShawSpec spec;
  spec.clip = std::max(left, right);
  spec.key_minus_query = true;
  std::string source = "distance_embedding.weight of each layer";
  if (left != right) {
    const int64_t missing = spec.clip - std::min(left, right);
    absl::StrAppend(&source, " (", left + right + 1, " rows), with its ", left < right ? "first" : "last", " row repeated ",
                    missing, " times more: distances end at ", left, " to the left and ", right, " to the right");
  }
  layer.weights = {{"keys", {2 * spec.clip + 1, head_dim}, std::move(source), false}};
  AddSpec(model, std::move(layer), spec, {{"clip", "left_max_position_embeddings"}}, out);
}

void AddShawOfSides(const Model& model, LayerEncoding layer, std::string_view heads_key, ModelEncoding& out) {
  const auto side = [&](std::string_view key, int64_t of_class) {
    const auto given = model.text.Integer(key, 0, kMaxDistance);
    if (!given) layer.defaults.push_back({model.text.PathOf(key), DefaultText(model, absl::StrCat(of_class))});
    return given.value_or(of_class);
  };
  const int64_t left = side("left_max_position_embeddings", 64);
  const int64_t right = side("right_max_position_embeddings", 8);
  AddLopsidedShaw(model, std::move(layer), left, right, heads_key, out);
}

struct SinusoidNames {
  std::string_view projection, content_bias, position_bias;
};

void AddConformer(const Model& model, LayerEncoding layer, const SinusoidNames& names, std::string_view heads_key,
                  ModelEncoding& out) {
  const int64_t head_dim = NeededHeadDim(model, layer, heads_key);
  ConformerSpec spec;
  spec.dim = SinusoidDim(model, layer);
  if (!model.problems->ok()) return;
  const int64_t heads = layer.num_q_heads;
  const auto of_layers = [](std::string_view name) { return absl::StrCat(std::string(name), " of each layer"); };
  layer.weights = {{"w_r", {heads * head_dim, spec.dim}, of_layers(names.projection), true},
                   {"u", {heads, head_dim}, of_layers(names.content_bias), true},
                   {"v", {heads, head_dim}, of_layers(names.position_bias), true}};
  AddSpec(model, std::move(layer), spec, {{"dim", "hidden_size"}}, out);
}

}  // namespace

void ReadConformer(const Model& model, ModelEncoding& out) {
  AddConformer(model, {}, {"relative_k_proj.weight", "bias_u", "bias_v"}, {}, out);
}

namespace {

// wav2vec2's Conformer forms, of a whole model or of one of its parts.
void AddSpeech(const Model& model, LayerEncoding layer, std::string_view of_class, std::string_view heads_key,
               ModelEncoding& out) {
  constexpr std::string_view kKey = "position_embeddings_type";
  const bool given = model.text.Has(kKey);
  const std::string type = model.text.IsNull(kKey) ? "none" : model.text.String(kKey).value_or(std::string(of_class));
  if (!given && !model.text.IsNull(kKey)) layer.defaults.push_back({model.text.PathOf(kKey), DefaultText(model, of_class)});
  if (type == "relative") {
    return AddConformer(model, std::move(layer), {"linear_pos.weight", "pos_bias_u", "pos_bias_v"}, heads_key, out);
  }
  if (type == "relative_key") return AddShawOfSides(model, std::move(layer), heads_key, out);
  if (type == "rotary") {
    GroupRule rule = DefaultRule(model);
    rule.request.theta_key = "rotary_embedding_base";
    const size_t before = out.layers.size();
    ReadGroups(model, {}, [&](std::string_view) { return rule; }, out);
    if (out.layers.size() == before) return;
    LayerEncoding& rotation = out.layers.back();
    rotation.layer_type = layer.layer_type;
    rotation.part = layer.part;
    rotation.warnings.push_back(
        {model.text.PathOf(kKey), "the class turns the hidden states, split into heads, before it projects q and k"});
    return;
  }
  if (type != "none") {
    return FailWord(model, model.text, kKey, type, "relative, relative_key, rotary, null");
  }
  layer.kind = PositionKind::kNone;
  FillFacts(model, 0, layer);
  out.layers.push_back(std::move(layer));
}

}  // namespace

void ReadWav2Vec2(const Model& model, ModelEncoding& out) {
  AddSpeech(model, {}, model.family->model_type == "wav2vec2bert" ? "relative_key" : "relative", {}, out);
  if (model.family->model_type != "wav2vec2conformer" || out.layers.empty()) return;
  out.layers.front().warnings.push_back(
      {model.text.PathOf("num_conv_pos_embeddings"),
       absl::StrCat("a checkpoint holds a positional convolution that the class never calls: ", ConvolutionText(model))});
}

void AddSeamlessSpeech(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  layer.layer_type = layer.part = "speech";
  // The heads of the sound encoder have a key of their own; the width is the model's.
  const size_t before = out.layers.size();
  AddSpeech(model, std::move(layer), model.family->model_type == "seamlessm4t" ? "relative" : "relative_key",
            "speech_encoder_attention_heads", out);
  if (out.layers.size() == before) return;
  out.layers.back().max_position = model.text.Integer("max_source_positions", 1, int64_t{1} << 31).value_or(4096);
}

void ReadSpeechT5(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kKey = "encoder_max_relative_position";
  LayerEncoding layer;
  layer.layer_type = "encoder";
  const int64_t head_dim = NeededHeadDim(model, layer);
  const auto given = model.text.Integer(kKey, 1, kMaxDistance);
  if (!given) layer.defaults.push_back({model.text.PathOf(kKey), DefaultText(model, "160")});
  if (!model.problems->ok()) return;
  ShawSpec spec;
  spec.clip = given.value_or(160);
  layer.weights = {{"keys",
                    {2 * spec.clip + 1, head_dim},
                    absl::StrCat("encoder.wrapped_encoder.embed_positions.pe_k.weight (", 2 * spec.clip,
                                 " rows, which all layers share), with its last row repeated once: distances end at ",
                                 spec.clip - 1, " to the left and ", spec.clip, " to the right"),
                    false}};
  AddSpec(model, std::move(layer), spec, {{"clip", kKey}}, out);
}

}  // namespace phasor::server
