// Classes whose relative terms differ from the papers': Funnel's pooled blocks, Conformers of sound without vectors, and
// Inkling's biases, which a projection of the hidden states of its own makes.
#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/layer_groups.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxDistance = int64_t{1} << 20;

// Heads by a key of the class's own.
struct Heads {
  int64_t count = 0, dim = 0;
};

Heads HeadsOf(const Model& model, std::string_view key, int64_t of_class, int64_t hidden, LayerEncoding& layer) {
  const int64_t count = OrOfClass(model, model.text, key, {1, kMaxHeads}, of_class, layer.defaults);
  if (model.problems->ok() && hidden < count) {
    model.problems->Fail(model.text.PathOf(key), absl::StrCat(count, model.From(key).made),
                         absl::StrCat("at most hidden_size, ", hidden));
  }
  layer.num_q_heads = layer.num_kv_heads = count;
  return {count, hidden / count};
}

}  // namespace

void ReadFunnel(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  const int64_t head_dim = NeededHeadDim(model, layer);
  XlnetSpec spec;
  spec.dim = SinusoidDim(model, layer);
  if (!model.problems->ok()) return;
  const std::string type = model.text.String("attention_type").value_or("relative_shift");
  if (type != "relative_shift" && type != "factorized") {
    return FailWord(model, model.text, "attention_type", type, "relative_shift, factorized");
  }
  spec.separate_cls = model.text.Bool("separate_cls").value_or(true);
  if (!model.text.Has("separate_cls")) {
    layer.defaults.push_back({model.text.PathOf("separate_cls"), DefaultText(model, "true")});
  }
  const int64_t heads = layer.num_q_heads;
  layer.weights = {
      {"w_r", {heads * head_dim, spec.dim}, "r_kernel of each layer [dim, heads, d], transposed", true},
      {"r_w_bias", {heads, head_dim}, "r_w_bias of each layer", true},
      {"r_r_bias", {heads, head_dim}, "r_r_bias of each layer", true},
      {"r_s_bias", {heads, head_dim}, "r_s_bias of each layer, where there are token types", false},
      {"seg_embed",
       {2, heads, head_dim},
       "seg_embed of each layer with its two rows exchanged (the class keeps \"another\" first), where there are "
       "token types",
       false},
      {"segments", {0, 0}, "[queries, keys]: 0 same token type, or either is the class token (type 2); 1 another", false}};
  layer.warnings.push_back(
      {model.text.PathOf("block_sizes"),
       spec.separate_cls
           ? "positions are 0, 1, 2 … in the first block; every block after it halves those of the one before: 1 - 2^b for "
             "the "
             "class token, then every second one from the second (without the last where truncate_seq is true). The first "
             "layer of such a block has the halved positions for queries and, with pool_q_only, those before for keys"
           : "positions are 0, 1, 2 … in the first block; every block after it keeps every second one of the block before. "
             "The "
             "first layer of such a block has the halved positions for queries and, with pool_q_only, those before for "
             "keys"});
  layer.warnings.push_back(
      {model.text.PathOf("num_decoder_layers"), "the decoder's layers stand at the positions of the first block"});
  AddSpec(model, std::move(layer), spec, {{"dim", "d_model"}}, out);
}

void ReadFastSpeech2(const Model& model, ModelEncoding& out) {
  for (const bool encoder : {true, false}) {
    LayerEncoding layer;
    layer.layer_type = encoder ? "encoder" : "decoder";
    ConformerSpec spec;
    spec.dim = SinusoidDim(model, layer);
    if (!model.problems->ok()) return;
    const std::string_view key = encoder ? "encoder_num_attention_heads" : "decoder_num_attention_heads";
    const Heads heads = HeadsOf(model, key, 2, spec.dim, layer);
    if (!model.problems->ok()) return;
    layer.weights = {{"w_r", {heads.count * heads.dim, spec.dim}, "self_attn.linear_pos.weight of each layer", true},
                     {"u", {heads.count, heads.dim}, "self_attn.pos_bias_u of each layer", true},
                     {"v", {heads.count, heads.dim}, "self_attn.pos_bias_v of each layer", true}};
    AddSpec(model, std::move(layer), spec, {{"dim", "hidden_size"}}, out);
  }
}

void ReadGemmaSound(const Model& model, ModelEncoding& out) {
  const bool third = model.family->model_type == "gemma3naudio";
  const auto key = [&](std::string_view name) {
    return third ? absl::StrCat("conf_", std::string(name)) : std::string(name);
  };
  LayerEncoding layer;
  ConformerSpec spec;
  spec.dim = SinusoidDim(model, layer);
  spec.concatenated = spec.base_inclusive = true;
  if (!model.problems->ok()) return;
  const Heads heads = HeadsOf(model, key("num_attention_heads"), 8, spec.dim, layer);
  const std::string left_key = key("attention_context_left"), right_key = key("attention_context_right");
  const int64_t past =
      std::max<int64_t>(0, OrOfClass(model, model.text, left_key, {0, kMaxDistance}, 13, layer.defaults) - 1);
  const int64_t future = OrOfClass(model, model.text, right_key, {0, kMaxDistance}, 0, layer.defaults);
  const int64_t chunk = OrOfClass(model, model.text, key("attention_chunk_size"), {1, kMaxDistance}, 12, layer.defaults);
  if (!model.problems->ok()) return;
  spec.num_heads = heads.count;
  layer.softmax_scale = 1;
  if (!third) {
    // The class's rows are those of distances context/2 … 0, and row 0 meets the oldest key.
    const int64_t shift = (chunk + past + future) / 2 - past;
    if (shift < 0 || future > 0) {
      out.layers.push_back(Unserved(model, "", "relative_positions"));
      out.layers.back().warnings.push_back(
          {model.text.PathOf(left_key),
           absl::StrCat("the class has rows for its distances ", (chunk + past + future) / 2,
                        " … 0 alone and counts the oldest "
                        "key's as the first: with these contexts some of the keys that a query sees have no row and a term "
                        "of zero, which no spec says")});
      return;
    }
    if (shift > 0) {
      layer.warnings.push_back({model.text.PathOf(left_key),
                                absl::StrCat("the class counts distances from the oldest key on: give queries positions ",
                                             shift, " further than they stand")});
    }
  }
  layer.weights = {{"w_r",
                    {heads.count * heads.dim, spec.dim},
                    third ? "attn.relative_position_embedding.pos_proj.weight of each layer"
                          : "self_attn.relative_k_proj.weight "
                            "of each layer",
                    true}};
  layer.warnings.push_back(
      {model.text.PathOf(key("num_attention_heads")),
       absl::StrCat("queries come as q·softplus(per_dim_scale)·head_dim^-0.5/ln 2",
                    third ? "" : ", keys as k·ln(1 + e)/ln 2",
                    "; the scale is then 1, and the class holds scores to ±cap by cap·tanh(score/cap) before it masks")});
  layer.warnings.push_back({model.text.PathOf(left_key), absl::StrCat("a query sees the keys of distances ", past, " … ",
                                                                      -future, ", in whatever blocks: mask the others")});
  AddSpec(model, std::move(layer), spec, {{"num_heads", key("num_attention_heads")}, {"dim", "hidden_size"}}, out);
}

namespace {

std::function<std::string(int64_t, int64_t)> InklingPattern(const Model& model) {
  constexpr std::string_view kKey = "local_layer_ids";
  if (model.family->model_type != "inkling" || !model.text.Has(kKey)) {
    return [](int64_t i, int64_t) { return (i + 1) % 6 == 0 ? "hybrid" : "hybrid_sliding"; };
  }
  const std::vector<int64_t> local = LayerIntegers(model, kKey, kMaxLayers);
  return [ids = std::set<int64_t>(local.begin(), local.end())](int64_t i, int64_t) {
    return ids.contains(i) ? "hybrid_sliding" : "hybrid";
  };
}

// The key that counts is the one that the file has; both are the class's.
std::string_view Or(const Model& model, std::string_view key, std::string_view other) {
  return model.text.Has(other) && !model.text.Has(key) ? other : key;
}

std::string LogScaling(const Model& model, bool first, std::vector<Note>& defaults) {
  constexpr std::string_view kFloor = "log_scaling_n_floor";
  const int64_t of_class = first ? 0 : model.family->model_type == "inkling2" ? 128000 : 8192;
  const auto given = model.text.Integer(kFloor, 1, int64_t{1} << 40);
  if (!given && (first || model.text.IsNull(kFloor))) return "";
  if (!given) defaults.push_back({model.text.PathOf(kFloor), DefaultText(model, absl::StrCat(of_class))});
  const auto alpha = model.text.Number("log_scaling_alpha");
  if (!alpha) defaults.push_back({model.text.PathOf("log_scaling_alpha"), DefaultText(model, "0.1")});
  return absl::StrCat("q·(1 + ", FormatNumber(alpha.value_or(0.1)), "·ln(max(1, (position + 1)/", given.value_or(of_class),
                      "))), of this term's queries too");
}

}  // namespace

void ReadInkling(const Model& model, ModelEncoding& out) {
  const bool first = model.family->model_type == "inkling";
  for (const LayerGroup& group : GroupsOr(model, InklingPattern(model))) {
    if (!HasAttention(TypeOf(group))) {
      out.layers.push_back(NoPositions(model, group));
      continue;
    }
    const bool sliding = TypeOf(group) == "hybrid_sliding";
    LayerEncoding layer;
    FillFacts(model, 0, layer);
    layer.layer_type = group.name;
    layer.layers = group.layers;
    layer.defaults.insert(layer.defaults.end(), group.defaults.begin(), group.defaults.end());
    const std::string_view window = Or(model, "sliding_window_size", "sliding_window");
    const std::string_view extent_key = sliding ? window : "rel_extent";
    ShawSpec spec;
    spec.clip = OrOfClass(model, model.text, extent_key, {1, kMaxDistance}, sliding && first ? 512 : 1024, layer.defaults);
    const int64_t width = OrOfClass(model, model.text, "d_rel", {1, kMaxHeadDim}, 16, layer.defaults);
    if (sliding) {
      const Family& own = *model.family;
      const int64_t kv_heads = first ? 16 : own.kv_heads;
      std::erase_if(layer.defaults, [&](const Note& note) {  // they have keys of their own
        return note.field == model.text.PathOf("num_attention_heads") ||
               note.field == model.text.PathOf("num_key_value_heads");
      });
      layer.num_q_heads = OrOfClass(model, model.text, "swa_num_attention_heads", {1, kMaxHeads}, own.heads, layer.defaults);
      layer.num_kv_heads = OrOfClass(model, model.text, "swa_num_key_value_heads", {1, kMaxHeads}, kv_heads, layer.defaults);
    }
    if (!sliding) layer.query_scale = LogScaling(model, first, layer.defaults);
    if (!model.problems->ok()) return;
    const int64_t extent = spec.clip;
    // Of q·k: the first generation norms q and k to length √head_dim.
    const std::string_view head_key = sliding ? "swa_head_dim" : "head_dim";
    const auto head_dim = static_cast<double>(OrOfClass(model, model.text, head_key, {1, kMaxHeadDim}, 128, layer.defaults));
    layer.softmax_scale = first ? 1 / head_dim : InverseSqrt(head_dim);
    if (!model.problems->ok()) return;
    layer.weights = {{"keys",
                      {2 * extent + 1, width},
                      absl::StrCat(first ? "self_attn.rel_logits_proj.proj" : "self_attn.relative_position_bias.proj",
                                   " of each layer [", width, ", ", extent, "]: row ", extent,
                                   " + n is its column n, n = 0 … ", extent - 1, "; all other rows are zeros"),
                      false}};
    layer.warnings.push_back(
        {model.text.PathOf("d_rel"),
         absl::StrCat(
             "a term of its own beside q·k: the class's queries for it are ",
             first ? "self_attn.r_proj(hidden states)"
                   : "self_attn.relative_position_bias.norm(linear(hidden states)), held to rel_l2_clip_threshold",
             " split into heads of ", width,
             " channels. Ask Scores for it with these as q (k of the same width is not read), omit_content and scale 1, "
             "and add it to the scaled q·k")});
    AddSpec(model, std::move(layer), spec, {{"clip", extent_key}}, out);
  }
}

}  // namespace phasor::server
