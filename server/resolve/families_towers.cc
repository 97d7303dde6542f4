// Image towers and matchers whose code says more about positions than their keys.
#include "absl/strings/str_cat.h"

#include "server/resolve/layer_groups.h"
#include "server/resolve/readers.h"

namespace phasor::server {

void ReadLlama4Vision(const Model& model, ModelEncoding& out) {
  ReadVisionRope(model, out);
  for (LayerEncoding& layer : out.layers) {
    if (layer.kind != PositionKind::kRope) continue;
    layer.warnings.push_back(
        {model.text.PathOf("patch_size"),
         "columns and rows count from 1; the class token, the last of an image, stands at 0 in both and "
         "is not rotated"});
  }
}

void ReadMllamaVision(const Model& model, ModelEncoding& out) {
  ReadLearned(model, out);
  for (LayerEncoding& layer : out.layers) {
    if (layer.kind != PositionKind::kLearned) continue;
    layer.warnings.push_back(
        {model.text.PathOf("max_num_tiles"),
         "the rows count as (1 - tanh(gate)) times those of gated_positional_embedding.embedding; a table "
         "by aspect ratio and tile (tile_embedding, times tanh(gate)) is added too and is not described"});
  }
}

void ReadVjepa2(const Model& model, ModelEncoding& out) {
  out.layers.push_back(Unserved(model, "", "rope_uneven_pairs"));
  out.layers.back().warnings.push_back(
      {model.text.PathOf("model_type"),
       "frames, rows and columns turn a third of the head each, but the two channels of a pair take different frequencies "
       "(channel c of n takes 10000^(-2*(c mod n/2)/n), pairs are (2i, 2i + 1)): that is no rotation, and no scheme has "
       "it"});
}

void ReadLightGlue(const Model& model, ModelEncoding& out) {
  out.layers.push_back(Unserved(model, "", "rope_learned_projection"));
  out.layers.back().warnings.push_back(
      {model.text.PathOf("model_type"),
       "self-attention turns interleaved pairs by angles that a learned matrix makes from both coordinates of a keypoint; a "
       "rotation by given frequencies has one coordinate for each pair"});
}

void ReadCohereCompass(const Model& model, ModelEncoding& out) {
  const auto dict = model.text.Object("rope_parameters");
  if ((dict && !dict->IsEmpty()) || model.text.IsObject("rope_scaling")) return ReadRope(model, out);
  if (!model.text.IsList("layer_types") && !model.text.Has("num_hidden_layers")) return;
  model.problems->Warn(model.text.PathOf("rope_parameters"),
                       "has no entry: the class has no default for its layer types and cannot be built without");
  for (const LayerGroup& group : GroupsOr(model, [](int64_t, int64_t) { return std::string("full_attention"); })) {
    out.layers.push_back(Unserved(model, group.name, "rope"));
    out.layers.back().layers = group.layers;
  }
}

}  // namespace phasor::server
