#include <algorithm>

#include "absl/strings/str_cat.h"

#include "server/resolve/layer_groups.h"
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

// T5's buckets: encoders look both ways.
void AddBuckets(const Model& model, std::string layer_type, ModelEncoding& out) {
  LayerEncoding layer;
  FillFacts(model, 0, layer);
  T5BucketSpec spec;
  spec.bidirectional = layer_type != "decoder";
  layer.layer_type = std::move(layer_type);
  spec.num_heads = layer.num_q_heads;
  const auto take = [&](std::string_view key, std::string_view of_class, std::optional<int64_t>& field) {
    field = model.text.Integer(key, 1, int64_t{1} << 31);
    if (!field) layer.defaults.push_back({model.text.PathOf(key), DefaultText(model, of_class)});
  };
  take("relative_attention_num_buckets", "32", spec.num_buckets);
  take("relative_attention_max_distance", "128", spec.max_distance);
  if (!model.problems->ok()) return;
  if (spec.num_heads == 0) {
    out.layers.push_back(Unserved(model, layer.layer_type, "t5_bucket"));
    return;
  }
  auto canonical = Canonicalize(spec);
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    const std::string_view key = error && error->field.ends_with("max_distance") ? "relative_attention_max_distance"
                                                                                 : "relative_attention_num_buckets";
    return model.problems->Fail(error ? MakeSpecError(model.text.PathOf(key), error->given, error->allowed)
                                      : canonical.status());
  }
  layer.kind = PositionKind::kBias;
  layer.spec = *std::move(canonical);
  out.layers.push_back(std::move(layer));
}

constexpr int64_t kMaxWindow = 4096;

// A table over the offsets inside a window.
void AddWindow(const Model& model, int64_t height, int64_t width, bool class_token, ModelEncoding& out) {
  LayerEncoding layer;
  FillFacts(model, 0, layer);
  if (!model.problems->ok()) return;
  WindowBiasSpec spec;
  spec.window_height = height;
  spec.window_width = width;
  spec.class_token = class_token;
  spec.num_heads = layer.num_q_heads;
  const std::string_view heads = model.text.FirstOf({"num_heads", "num_attention_heads"});
  if (spec.num_heads == 0 && !heads.empty() && model.text.IsList(heads)) {
    const auto stages = model.text.Integers(heads, 1, kMaxHeads).value_or(std::vector<int64_t>());
    if (!stages.empty()) {
      spec.num_heads = stages.front();
      layer.warnings.push_back(
          {model.text.PathOf(heads), absl::StrCat("the spec has the heads of the first stage, ", stages.front(),
                                                  "; every stage has a table of its own")});
    }
  }
  if (spec.num_heads == 0) {
    out.layers.push_back(Unserved(model, "", "swin_bias"));
    return;
  }
  auto canonical = Canonicalize(spec);
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    return model.problems->Fail(error ? MakeSpecError(model.text.PathOf("window_size"), error->given, error->allowed)
                                      : canonical.status());
  }
  layer.kind = PositionKind::kBias;
  layer.spec = *std::move(canonical);
  out.layers.push_back(std::move(layer));
}

}  // namespace

void ReadAlibi(const Model& model, ModelEncoding& out) { AddAlibi(model, std::nullopt, "", AlibiForm::kCausal, out); }

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
  const bool grouped = model.text.IsTrue("new_decoder_architecture");
  const bool multi_query = model.text.Bool("multi_query").value_or(true);
  for (LayerEncoding& layer : out.layers) {
    if (!grouped) layer.num_kv_heads = multi_query ? 1 : layer.num_q_heads;
  }
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

void ReadMpt(const Model& model, ModelEncoding& out) {
  const auto attention = model.text.Object("attn_config");
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

void ReadBert(const Model& model, ModelEncoding& out) {
  const std::string type = model.text.String("position_embedding_type").value_or("absolute");
  if (type == "alibi") return AddAlibi(model, std::nullopt, "", AlibiForm::kSymmetric, out);
  if (type == "rotary" || type == "rope") return ReadRope(model, out);
  if (type == "nope" || type == "none") return ReadNone(model, out);
  if (type == "relative_key" || type == "relative_key_query") {
    out.layers.push_back(Unserved(model, "", "shaw_relative"));
    return;
  }
  ReadLearned(model, out);
}

void ReadT5(const Model& model, ModelEncoding& out) {
  bool encoder_only = false;
  for (const std::string& name : model.file.Strings("architectures").value_or(std::vector<std::string>())) {
    encoder_only = encoder_only || name.ends_with("EncoderModel");
  }
  AddBuckets(model, "encoder", out);
  if (!encoder_only && model.problems->ok()) AddBuckets(model, "decoder", out);
  for (LayerEncoding& layer : out.layers) layer.softmax_scale = 1;  // the class does not scale q·k
}

void ReadDeberta(const Model& model, ModelEncoding& out) {
  if (!model.text.IsTrue("relative_attention")) return ReadLearned(model, out);
  LayerEncoding layer = Unserved(model, "", "deberta_bucket");
  std::vector<Note> defaults;
  const int64_t head_dim = model.HeadDim(defaults);
  // A list, or the same names in one string: "p2c|c2p".
  int64_t terms = 0;
  if (model.text.IsList("pos_att_type")) {
    terms = static_cast<int64_t>(model.text.Strings("pos_att_type").value_or(std::vector<std::string>()).size());
  } else if (const auto names = model.text.String("pos_att_type"); names && !names->empty()) {
    terms = 1 + std::count(names->begin(), names->end(), '|');
  }
  if (!model.problems->ok()) return;
  layer.softmax_scale = InverseSqrt(static_cast<double>(head_dim * (1 + terms)));
  out.layers.push_back(std::move(layer));
}

void ReadSwin(const Model& model, ModelEncoding& out) {
  const bool continuous = model.text.Has("pretrained_window_sizes") || model.family->model_type == "swinv2";
  const std::string_view key = "window_size";
  if (continuous || !model.text.Has(key)) {
    // The function of version 2 is made of weights: without them there is no spec.
    out.layers.push_back(Unserved(model, "", "swin_bias"));
    return;
  }
  std::vector<int64_t> window;
  if (model.text.IsList(key)) {
    window = model.text.Integers(key, 1, kMaxWindow).value_or(std::vector<int64_t>());
  } else {
    window.assign(2, model.text.Integer(key, 1, kMaxWindow).value_or(1));
  }
  if (window.size() == 2) return AddWindow(model, window[0], window[1], false, out);
  model.problems->Fail(model.text.PathOf(key), absl::StrCat(window.size(), " entries"),
                       "a whole number, or [height, width]");
}

void ReadBeit(const Model& model, ModelEncoding& out) {
  const bool relative =
      model.text.IsTrue("use_relative_position_bias") || model.text.IsTrue("use_shared_relative_position_bias");
  if (relative) {
    const auto side = [&](std::string_view name, int64_t of_class) {
      return model.text.IsNumber(name) ? model.text.Integer(name, 1, int64_t{1} << 20).value_or(of_class) : of_class;
    };
    const int64_t patches = side("image_size", 224) / std::max<int64_t>(side("patch_size", 16), 1);
    return AddWindow(model, patches, patches, true, out);
  }
  if (model.text.IsTrue("use_absolute_position_embeddings")) return ReadLearned(model, out);
  ReadNone(model, out);
}

}  // namespace phasor::server
