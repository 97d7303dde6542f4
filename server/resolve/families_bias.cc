#include <algorithm>

#include "absl/strings/str_cat.h"

#include "server/resolve/layer_groups.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

// One ALiBi layer type over the model's heads. Adds nothing when the heads are not said, which is an error.
void AddAlibi(const Model& model, std::optional<double> max_bias, std::string_view max_bias_path, AlibiForm form,
              ModelEncoding& out) {
  LayerEncoding layer;
  FillFacts(model, 0, layer);
  if (!model.problems->ok()) return;
  if (layer.num_q_heads == 0) {
    model.problems->Fail(model.text.PathOf("num_attention_heads"), "nothing",
                         absl::StrCat("a whole number, 1 … ", kMaxHeads));
    return;
  }
  auto canonical = Canonicalize(AlibiSpec{.num_heads = layer.num_q_heads, .max_bias = max_bias, .form = form, .slopes = {}});
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    model.problems->Fail(error ? MakeSpecError(max_bias_path, error->given, error->allowed) : canonical.status());
    return;
  }
  layer.kind = PositionKind::kAlibi;
  layer.spec = *std::move(canonical);
  out.layers.push_back(std::move(layer));
}

}  // namespace

void AddBuckets(const Model& model, std::string layer_type, const BucketKeys& keys, ModelEncoding& out) {
  LayerEncoding layer;
  FillFacts(model, 0, layer);
  T5BucketSpec spec;
  spec.bidirectional = layer_type != "decoder";
  layer.layer_type = std::move(layer_type);
  spec.num_heads = layer.num_q_heads;
  if (keys.scale != 1) spec.scale = keys.scale;
  const auto take = [&](std::string_view key, int64_t of_class, std::optional<int64_t>& field) {
    field = model.text.Integer(key, 1, int64_t{1} << 31);
    if (field) return;
    field = of_class;
    layer.defaults.push_back({model.text.PathOf(key), DefaultText(model, absl::StrCat(of_class))});
  };
  take(keys.num_buckets, keys.default_buckets, spec.num_buckets);
  take(keys.max_distance, keys.default_distance, spec.max_distance);
  if (!model.problems->ok()) return;
  if (spec.num_heads == 0) {
    out.layers.push_back(Unserved(model, layer.layer_type, "t5_bucket"));
    return;
  }
  if (!keys.table.empty()) {
    layer.weights = {{"table", {*spec.num_buckets, spec.num_heads}, std::string(keys.table), false}};
  }
  AddSpec(model, std::move(layer), spec, {{"num_buckets", keys.num_buckets}, {"max_distance", keys.max_distance}}, out);
}

void ReadAlibi(const Model& model, ModelEncoding& out) { AddAlibi(model, std::nullopt, "", AlibiForm::kCausal, out); }

namespace {

// How many key heads Falcon's classes have: all of new_decoder_architecture by a key of their number, the others one
// (multi_query) or as many as heads. The code published with Falcon-40B (RefinedWeb) knows no flag, that with Falcon-7B
// (RefinedWebModel) has multi_query false by default.
void FillFalconKeyHeads(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kShared = "multi_query", kNew = "new_decoder_architecture";
  const std::string_view family = model.family->model_type;
  const std::string_view key = model.text.FirstOf({"num_key_value_heads", "num_kv_heads", "n_head_kv"});
  const bool of_40b = family == "refinedweb" && !key.empty();
  const bool counted = of_40b || model.text.Bool(kNew).value_or(false);
  const bool of_class = family != "refinedweb" && family != "refinedwebmodel";
  const bool shared = !counted && model.text.Bool(kShared).value_or(of_class);
  for (LayerEncoding& layer : out.layers) {
    if (counted) {
      if (of_40b && model.text.IsTrue(kShared) && layer.num_kv_heads != 1) {
        layer.warnings.push_back(
            {model.text.PathOf(kShared), absl::StrCat("not read: ", absl::string_view(key.data(), key.size()), " counts")});
      }
      continue;
    }
    if (!model.text.Has(kShared)) {
      layer.defaults.push_back({model.text.PathOf(kShared), DefaultText(model, of_class ? "true" : "false")});
    }
    if (shared && !key.empty() && layer.num_kv_heads != 1) {
      layer.warnings.push_back(
          {model.text.PathOf(key), absl::StrCat(layer.num_kv_heads, " is not read: multi_query counts")});
    }
    if (!shared && !key.empty() && layer.num_kv_heads != layer.num_q_heads) {
      layer.warnings.push_back(
          {model.text.PathOf(key),
           absl::StrCat(layer.num_kv_heads, " counts; the class's code makes as many key heads as heads (",
                        layer.num_q_heads, ") where neither multi_query nor new_decoder_architecture is true, and fails")});
    }
    if (shared) layer.num_kv_heads = 1;
  }
}

}  // namespace

void ReadFalcon(const Model& model, ModelEncoding& out) {
  if (model.text.IsTrue("alibi")) {
    ReadAlibi(model, out);
    std::vector<Note> defaults;
    const int64_t head_dim = model.HeadDim(defaults);
    if (!model.problems->ok()) return;
    LayerEncoding& layer = out.layers.front();
    layer.scale_after = InverseSqrt(static_cast<double>(head_dim));
    layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
    layer.warnings.push_back({model.text.PathOf("alibi"),
                              "the class adds the bias before it scales by head_dim^-0.5 (see scale_after), and rounds "
                              "slopes to bfloat16"});
  } else {
    ReadRope(model, out);
  }
  FillFalconKeyHeads(model, out);
}

void ReadBaichuan(const Model& model, ModelEncoding& out) {
  const std::string path = model.text.PathOf("hidden_size");
  const int64_t hidden = model.text.Integer("hidden_size", 1, int64_t{1} << 20).value_or(0);
  if (!model.problems->ok()) return;
  if (hidden == 0) {
    model.problems->Fail(path, "nothing", "a whole number: it alone tells the rotating 7B model from the ALiBi 13B model");
    return;
  }
  constexpr int64_t kRotating = 4096;
  constexpr int64_t kAlibi = 5120;
  if (hidden == kAlibi) return ReadAlibi(model, out);
  if (hidden != kRotating) {
    model.problems->Warn(path, "4096 rotates and 5120 has ALiBi in the published models; read as rotating");
  }
  ReadRope(model, out);
}

namespace {

void ReadMptPositions(const Model& model, const std::optional<JsonObject>& attention, ModelEncoding& out) {
  const bool alibi = attention ? attention->Bool("alibi").value_or(true) : true;
  if (attention && attention->IsTrue("rope")) {
    out.layers.push_back(Unserved(model, "", "mpt_rope"));
    return;
  }
  if (!alibi) {
    const bool learned = model.text.Bool("learned_pos_emb").value_or(true);
    if (learned) return ReadLearned(model, out);
    return ReadNone(model, out);
  }
  if (model.text.IsTrue("learned_pos_emb")) {
    model.problems->Warn(model.text.PathOf("learned_pos_emb"), "means nothing while attn_config.alibi is true");
  }
  AddAlibi(model, attention ? attention->Number("alibi_bias_max") : std::nullopt,
           attention ? attention->PathOf("alibi_bias_max") : "attn_config.alibi_bias_max", AlibiForm::kCausal, out);
  if (attention && !out.layers.empty()) out.layers.front().softmax_scale = attention->Number("softmax_scale");
}

}  // namespace

void ReadMpt(const Model& model, ModelEncoding& out) {
  const auto attention = model.text.Object("attn_config");
  ReadMptPositions(model, attention, out);
  if (!attention) return;
  // The code that MPT's files name has grouped keys, which transformers' class of the name refuses.
  constexpr std::string_view kHeads = "kv_n_heads";
  const bool one = attention->String("attn_type").value_or("") == "multiquery_attention";
  const auto given = attention->Integer(kHeads, 1, kMaxHeads);
  for (LayerEncoding& layer : out.layers) {
    if (one && given.value_or(1) != 1) {
      layer.warnings.push_back(
          {attention->PathOf(kHeads), absl::StrCat(*given, " is not read: attn_type is multiquery_attention")});
    }
    if (one || given) layer.num_kv_heads = one ? 1 : *given;
  }
}

void ReadBert(const Model& model, ModelEncoding& out) {
  const std::string type = model.text.String("position_embedding_type").value_or("absolute");
  if (type == "alibi") return AddAlibi(model, std::nullopt, "", AlibiForm::kSymmetric, out);
  if (type == "rotary" || type == "rope") return ReadRope(model, out);
  if (type == "nope" || type == "none") return ReadNone(model, out);
  if (ReadShawType(model, type, out)) return;
  ReadLearned(model, out);
}

void ReadT5(const Model& model, ModelEncoding& out) {
  bool encoder_only = false;
  for (const std::string& name : model.file.Strings("architectures").value_or(std::vector<std::string>())) {
    encoder_only = encoder_only || name.ends_with("EncoderModel");
  }
  AddBuckets(model, "encoder", {}, out);
  if (!encoder_only && model.problems->ok()) AddBuckets(model, "decoder", {}, out);
  for (LayerEncoding& layer : out.layers) layer.softmax_scale = 1;  // the class does not scale q·k
}

void ReadMpnet(const Model& model, ModelEncoding& out) {
  AddBuckets(model, "", {.max_distance = "max_distance", .table = "encoder.relative_attention_bias.weight"}, out);
  constexpr std::string_view kBuckets = "relative_attention_num_buckets";
  if (model.problems->ok() && model.text.Integer(kBuckets, 1, int64_t{1} << 31).value_or(32) != 32) {
    model.problems->Warn(model.text.PathOf(kBuckets),
                         "the table has so many rows; transformers counts 32 buckets in any case");
  }
  // Beside the bias, RoBERTa's table at the input.
  const size_t before = out.layers.size();
  ReadLearned(model, out);
  for (size_t i = before; i < out.layers.size(); ++i) out.layers[i].layer_type = "embedding";
}

void ReadWavLm(const Model& model, ModelEncoding& out) {
  AddBuckets(model, "",
             {.num_buckets = "num_buckets",
              .max_distance = "max_bucket_distance",
              .default_buckets = 320,
              .default_distance = 800,
              .table = "encoder.layers.0.attention.rel_attn_embed.weight, which all layers share"},
             out);
  for (LayerEncoding& layer : out.layers) {
    layer.warnings.push_back(
        {model.text.PathOf("num_buckets"), "every layer multiplies the bias by a gate that it computes from its queries"});
  }
  NoteConvolution(model, out);
}

void ReadLayoutLm(const Model& model, ModelEncoding& out) {
  const bool third = model.family->model_type == "layoutlmv3";
  ReadLearned(model, out);
  if (!model.problems->ok()) return;
  for (LayerEncoding& layer : out.layers) layer.layer_type = "embedding";
  // Version 3 divides the sum of the three by √head_dim too.
  std::vector<Note> defaults;
  const double scale = third ? InverseSqrt(static_cast<double>(std::max<int64_t>(model.HeadDim(defaults), 1))) : 1;
  const auto add = [&](std::string_view name, std::string_view buckets, std::string_view distance, int64_t of_class,
                       std::string_view table, std::string_view positions) {
    const size_t before = out.layers.size();
    AddBuckets(model, std::string(name),
               {.num_buckets = buckets,
                .max_distance = distance,
                .default_buckets = of_class,
                .default_distance = 4 * of_class,
                .table = table,
                .scale = scale},
               out);
    if (out.layers.size() > before && !positions.empty()) {
      out.layers.back().warnings.push_back({model.text.PathOf(distance), std::string(positions)});
    }
  };
  const auto has = [&](std::string_view key) {
    if (!model.text.Has(key)) out.layers.front().defaults.push_back({model.text.PathOf(key), DefaultText(model, "true")});
    return model.text.Bool(key).value_or(true);
  };
  if (has("has_relative_attention_bias") && model.problems->ok()) {
    add("relative", "rel_pos_bins", "max_rel_pos", 32, "encoder.rel_pos_bias.weight, transposed", "");
  }
  // Version 3 adds nothing between boxes alone.
  if (third && !has("has_relative_attention_bias")) return;
  if (!has("has_spatial_attention_bias") || !model.problems->ok()) return;
  add("relative_x", "rel_2d_pos_bins", "max_rel_2d_pos", 64, "encoder.rel_pos_x_bias.weight, transposed",
      "positions are the left coordinates (x0) of the tokens' boxes; relative_y is added");
  if (!model.problems->ok()) return;
  add("relative_y", "rel_2d_pos_bins", "max_rel_2d_pos", 64, "encoder.rel_pos_y_bias.weight, transposed",
      "positions are the lower coordinates (y1) of the tokens' boxes; relative_x is added");
}

void ReadCpmAnt(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kSegments = "segment_types";
  constexpr std::string_view kBuckets = "position_bias_num_buckets";
  const int64_t segments = model.text.Integer(kSegments, 1, int64_t{1} << 15).value_or(32);
  const int64_t buckets = model.text.Integer(kBuckets, 1, int64_t{1} << 31).value_or(512);
  if (!model.problems->ok()) return;
  const std::string table = absl::StrCat("the first ", buckets, " of the ", buckets + segments * segments,
                                         " rows of position_bias.relative_attention_bias");
  AddBuckets(model, "",
             {.num_buckets = kBuckets,
              .max_distance = "position_bias_max_distance",
              .default_buckets = 512,
              .default_distance = 2048,
              .table = table},
             out);
  for (LayerEncoding& layer : out.layers) {
    layer.warnings.push_back(
        {model.text.PathOf(kSegments),
         absl::StrCat(
             "between tokens of one segment; a query of segment a reads row ", buckets, " + ", segments,
             "*a + b of the whole table for keys of segment b, whatever their distance. The class puts its prompt of "
             "prompt_length tokens, segment 0, before the tokens of segment 2")});
  }
}

}  // namespace phasor::server
