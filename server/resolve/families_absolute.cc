#include <cmath>

#include "absl/strings/str_cat.h"

#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

// The width that the family's key gives, or the product of its two keys.
int64_t Width(const Model& model, std::vector<Note>& defaults) {
  const std::string_view keys = model.family->width_key;
  if (keys.empty()) return model.Hidden(defaults);
  const size_t times = keys.find('*');
  const auto read = [&](std::string_view key) { return model.text.Integer(key, 1, kMaxDim).value_or(0); };
  const int64_t width =
      times == std::string_view::npos ? read(keys) : read(keys.substr(0, times)) * read(keys.substr(times + 1));
  if (width != 0 || model.family->width == 0) return width;
  defaults.push_back({model.text.PathOf(keys), DefaultText(model, absl::StrCat(model.family->width))});
  return model.family->width;
}

std::string_view WidthKey(const Model& model) {
  const std::string_view keys = model.family->width_key;
  return keys.empty() ? "hidden_size" : keys.substr(0, keys.find('*'));
}

// A sinusoidal layer type of the model's own width.
void AddSinusoid(const Model& model, std::string layer_type, SinusoidalSpec spec, ModelEncoding& out) {
  LayerEncoding layer;
  layer.layer_type = std::move(layer_type);
  spec.dim = Width(model, layer.defaults);
  FillFacts(model, 0, layer);
  if (!model.problems->ok()) return;
  if (spec.dim == 0) {
    model.problems->Fail(model.text.PathOf("d_model"), "nothing", absl::StrCat("a whole number, 1 … ", kMaxDim));
    return;
  }
  AddSpec(model, std::move(layer), spec, {{"dim", WidthKey(model)}}, out);
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
  const int64_t rows = model.text.Integer("max_target_positions", 1, int64_t{1} << 31).value_or(448);
  LearnedSpec table;
  table.num_positions = rows;
  AddLearned(model, "decoder", table, out);
  if (!out.layers.empty()) out.layers.back().max_position = rows;
}

namespace {

// MusicGen's order: cosines, then sines.
void AddTimestep(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  TimestepSpec spec;
  spec.dim = Width(model, layer.defaults);
  spec.flip_sin_to_cos = true;
  FillFacts(model, 0, layer);
  if (!model.problems->ok()) return;
  AddSpec(model, std::move(layer), spec, {{"dim", WidthKey(model)}}, out);
}

}  // namespace

void ReadSinusoid(const Model& model, ModelEncoding& out) {
  constexpr auto kConcatenated = SinusoidalLayout::kConcatenated;
  switch (model.family->sinusoid) {
    case SinusoidRule::kNone:
    case SinusoidRule::kPaper:
      AddSinusoid(model, "", Table(kConcatenated, SinusoidalSpacing::kPaper), out);
      break;
    case SinusoidRule::kInterleaved:
      AddSinusoid(model, "", Table(SinusoidalLayout::kInterleaved, SinusoidalSpacing::kPaper), out);
      break;
    case SinusoidRule::kEndpoint:
      AddSinusoid(model, "", Table(kConcatenated, SinusoidalSpacing::kEndpointInclusive), out);
      break;
    case SinusoidRule::kFairseq:
      return ReadFairseqSinusoid(model, out);
    case SinusoidRule::kCosinesFirst:
      return AddTimestep(model, out);
  }
  AddEmbeddingMultiplier(model, false, out);
}

void ReadFlorenceVision(const Model& model, ModelEncoding& out) {
  // Frames of a video get sinusoids of the last stage's width, beside the table over each frame.
  const auto widths = model.text.Integers("embed_dim", 1, kMaxDim).value_or(std::vector<int64_t>());
  SinusoidalSpec spec = Table(SinusoidalLayout::kInterleaved, SinusoidalSpacing::kPaper);
  spec.dim = widths.empty() ? 1024 : widths.back();
  LayerEncoding layer;
  layer.layer_type = layer.part = "temporal";
  AddSpec(model, std::move(layer), spec, {{"dim", "embed_dim"}}, out);
}

namespace {

// The second version's decoder of units multiplies its sinusoids by a learned number, those of characters by another.
void AddUnitFactors(const Model& model, ModelEncoding& out) {
  for (const bool characters : {false, true}) {
    LearnedSpec number;
    number.num_positions = number.dim = 1;
    const size_t before = out.layers.size();
    AddLearned(model, characters ? "t2u.char_factor_embedding" : "t2u.factor_embedding", number, out);
    if (out.layers.size() == before) return;
    LayerEncoding& layer = out.layers.back();
    layer.part = "t2u";
    layer.weights = {{"table",
                      {1, 1},
                      absl::StrCat("t2u_model.model.decoder.", characters ? "pos_emb_alpha_char" : "pos_emb_alpha"),
                      false}};
    layer.warnings.push_back(
        {model.text.PathOf("model_type"),
         absl::StrCat("one number, the factor on the sinusoids of the decoder's ", characters ? "characters" : "units")});
  }
}

}  // namespace

void ReadSeamless(const Model& model, ModelEncoding& out) {
  // Two models with a padding index of their own each; the sound encoder has relative positions.
  const auto padding = [&](std::string_view key, int64_t of_class) {
    return model.text.Integer(key, 0, int64_t{1} << 30).value_or(of_class);
  };
  for (const bool to_units : {false, true}) {
    const int64_t row = to_units ? padding("t2u_pad_token_id", 1) : padding("pad_token_id", 0);
    SinusoidalSpec spec = Table(SinusoidalLayout::kConcatenated, SinusoidalSpacing::kEndpointInclusive);
    spec.position_offset = row + 1;
    spec.padding_row = row;
    const size_t before = out.layers.size();
    AddSinusoid(model, to_units ? "t2u" : "", spec, out);
    if (to_units && out.layers.size() > before) out.layers.back().part = "t2u";
  }
  AddEmbeddingMultiplier(model, true, out);
  if (model.problems->ok() && model.family->model_type == "seamlessm4tv2") AddUnitFactors(model, out);
  if (model.problems->ok()) AddSeamlessSpeech(model, out);
}

void ReadXlm(const Model& model, ModelEncoding& out) {
  if (!model.text.IsTrue("sinusoidal_embeddings")) return ReadLearned(model, out);
  AddSinusoid(model, "", Table(SinusoidalLayout::kInterleaved, SinusoidalSpacing::kPaper), out);
}

void ReadDistilBert(const Model& model, ModelEncoding& out) {
  if (!model.text.IsTrue("sinusoidal_pos_embds")) return ReadLearned(model, out);
  AddSinusoid(model, "", Table(SinusoidalLayout::kInterleaved, SinusoidalSpacing::kPaper), out);
}

void ReadNone(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  layer.kind = PositionKind::kNone;
  FillFacts(model, 0, layer);
  out.layers.push_back(std::move(layer));
}

void ReadGraniteHybrid(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kKey = "position_embedding_type";
  const std::string type = model.text.String(kKey).value_or("");
  if (type == "rope") return ReadRope(model, out);
  ReadNone(model, out);
  if (type.empty() || type == "nope" || type == "none") return;
  model.problems->Warn(model.text.PathOf(kKey),
                       absl::StrCat(model.text.ValueText(kKey), " is not read: class ", model.type_name,
                                    " rotates for \"rope\", else it does nothing"));
}

}  // namespace phasor::server
