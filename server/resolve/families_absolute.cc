#include <cmath>

#include "absl/strings/str_cat.h"

#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

// A sinusoidal layer type of the model's own width.
void AddSinusoid(const Model& model, std::string layer_type, SinusoidalSpec spec, ModelEncoding& out) {
  LayerEncoding layer;
  layer.layer_type = std::move(layer_type);
  spec.dim = model.Hidden(layer.defaults);
  FillFacts(model, 0, layer);
  if (!model.problems->ok()) return;
  if (spec.dim == 0) {
    model.problems->Fail(model.text.PathOf("d_model"), "nothing", absl::StrCat("a whole number, 1 … ", kMaxDim));
    return;
  }
  auto canonical = Canonicalize(spec);
  if (!canonical.ok()) {
    const auto error = SpecErrorOf(canonical.status());
    const std::string_view key = model.text.FirstOf({"hidden_size", "d_model", "n_embd", "emb_dim", "dim"});
    model.problems->Fail(error ? MakeSpecError(model.text.PathOf(key), error->given, error->allowed) : canonical.status());
    return;
  }
  layer.kind = PositionKind::kSinusoidal;
  layer.spec = *std::move(canonical);
  out.layers.push_back(std::move(layer));
}

// √dim on the token embeddings, by flag.
void AddEmbeddingMultiplier(const Model& model, bool of_class, ModelEncoding& out) {
  for (LayerEncoding& layer : out.layers) {
    if (layer.kind != PositionKind::kSinusoidal) continue;
    if (!model.text.Has("scale_embedding")) {
      layer.defaults.push_back({model.text.PathOf("scale_embedding"), DefaultText(model, of_class ? "true" : "false")});
    }
    if (!model.text.Bool("scale_embedding").value_or(of_class)) continue;
    const auto& spec = std::get<SinusoidalSpec>(layer.spec->spec);
    layer.embedding_multiplier = std::sqrt(static_cast<double>(spec.dim));
  }
}

SinusoidalSpec Table(SinusoidalLayout layout, SinusoidalSpacing spacing) {
  SinusoidalSpec spec;
  spec.layout = layout;
  spec.spacing = spacing;
  spec.position_offset = 0;
  return spec;
}

}  // namespace

void ReadFairseqSinusoid(const Model& model, ModelEncoding& out) {
  const std::string_view key = model.text.FirstOf({"pad_token_id", "padding_idx", "pad_index"});
  const int64_t padding = key.empty() ? 1 : model.text.Integer(key, 0, int64_t{1} << 30).value_or(1);
  SinusoidalSpec spec = Table(SinusoidalLayout::kConcatenated, SinusoidalSpacing::kEndpointInclusive);
  spec.position_offset = padding + 1;
  spec.padding_row = padding;
  AddSinusoid(model, "", spec, out);
  AddEmbeddingMultiplier(model, true, out);
  for (LayerEncoding& layer : out.layers) {
    if (key.empty()) layer.defaults.push_back({model.text.PathOf("pad_token_id"), DefaultText(model, "1")});
    layer.warnings.push_back({model.text.PathOf(key.empty() ? "pad_token_id" : key),
                              absl::StrCat("position m reads row m + ", padding + 1, ", and row ", padding,
                                           ", for padding, is zero; positions count unpadded tokens")});
  }
}

void ReadMarian(const Model& model, ModelEncoding& out) {
  if (model.text.Has("static_position_embeddings") && !model.text.IsTrue("static_position_embeddings")) {
    model.problems->Warn(model.text.PathOf("static_position_embeddings"), "the class builds sinusoids whatever this says");
  }
  AddSinusoid(model, "", Table(SinusoidalLayout::kConcatenated, SinusoidalSpacing::kPaper), out);
  AddEmbeddingMultiplier(model, false, out);
}

void ReadWhisper(const Model& model, ModelEncoding& out) {
  AddSinusoid(model, "encoder", Table(SinusoidalLayout::kConcatenated, SinusoidalSpacing::kEndpointInclusive), out);
  for (LayerEncoding& layer : out.layers) {
    layer.max_position = model.text.Integer("max_source_positions", 1, int64_t{1} << 31).value_or(1500);
    layer.warnings.push_back(
        {model.text.PathOf("model_type"), "the checkpoint stores the encoder's table as a weight, made in float32"});
  }
  LayerEncoding decoder = Unserved(model, "decoder", "learned");
  decoder.max_position = model.text.Integer("max_target_positions", 1, int64_t{1} << 31).value_or(448);
  out.layers.push_back(std::move(decoder));
}

void ReadXlm(const Model& model, ModelEncoding& out) {
  if (!model.text.IsTrue("sinusoidal_embeddings")) return ReadLearned(model, out);
  AddSinusoid(model, "", Table(SinusoidalLayout::kInterleaved, SinusoidalSpacing::kPaper), out);
}

void ReadDistilBert(const Model& model, ModelEncoding& out) {
  if (!model.text.IsTrue("sinusoidal_pos_embds")) return ReadLearned(model, out);
  AddSinusoid(model, "", Table(SinusoidalLayout::kInterleaved, SinusoidalSpacing::kPaper), out);
}

void ReadLearned(const Model& model, ModelEncoding& out) { out.layers.push_back(Unserved(model, "", "learned")); }

void ReadRelativeSinusoid(const Model& model, ModelEncoding& out) {
  out.layers.push_back(Unserved(model, "", "relative_sinusoidal"));
}

void ReadDinoV3(const Model& model, ModelEncoding& out) { out.layers.push_back(Unserved(model, "", "rope_2d_dinov3")); }

void ReadNone(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  layer.kind = PositionKind::kNone;
  FillFacts(model, 0, layer);
  out.layers.push_back(std::move(layer));
}

void ReadGraniteHybrid(const Model& model, ModelEncoding& out) {
  if (model.text.String("position_embedding_type").value_or("") == "rope") return ReadRope(model, out);
  ReadNone(model, out);
}

}  // namespace phasor::server
