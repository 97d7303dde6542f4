// Classes whose code says more about positions than their keys: image towers, matchers, molecules.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
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

void ReadZamba2(const Model& model, ModelEncoding& out) {
  if (!model.text.IsTrue("use_mem_rope")) return ReadNone(model, out);
  std::vector<Note> defaults;
  const int64_t heads = model.Heads(defaults);
  const int64_t hidden = model.Hidden(defaults);
  if (!model.problems->ok() || heads == 0) return;
  LayerGroup group;
  const auto types = model.text.Strings(model.text.FirstOf({"layers_block_type", "layer_types"}));
  for (size_t i = 0; types && i < types->size() && i < static_cast<size_t>(kMaxLayers); ++i) {
    if ((*types)[i] == "hybrid") group.layers.push_back(static_cast<int64_t>(i));
  }
  ReadGroups(
      model, {group},
      [&](std::string_view) {
        GroupRule rule = DefaultRule(model);
        rule.request.head_dim = std::min(2 * hidden / heads, kMaxHeadDim);  // of the doubled input; kv_channels is not read
        return rule;
      },
      out);
  for (LayerEncoding& layer : out.layers) {
    layer.defaults.insert(layer.defaults.begin(), defaults.begin(), defaults.end());
    layer.softmax_scale = InverseSqrt(static_cast<double>(std::min(2 * hidden / heads, kMaxHeadDim)) / 2);
  }
}

void ReadEsmFold2(const Model& model, ModelEncoding& out) {
  const auto atoms = model.text.Object("atom_encoder");
  if (!atoms) return;
  LayerEncoding layer;
  layer.part = layer.layer_type = "atom_encoder";
  const auto whole = [&](std::string_view key, int64_t least, int64_t of_class) {
    if (const auto given = atoms->Integer(key, least, kMaxHeadDim)) return *given;
    layer.defaults.push_back({atoms->PathOf(key), DefaultText(model, absl::StrCat(of_class))});
    return of_class;
  };
  const auto base = [&](std::string_view key, double of_class) {
    if (const auto given = atoms->Number(key)) return *given;
    layer.defaults.push_back({atoms->PathOf(key), DefaultText(model, FormatNumber(of_class))});
    return of_class;
  };
  RopeSpec spec;
  spec.head_dim = whole("head_dim", 2, 32);
  layer.num_q_heads = layer.num_kv_heads = whole("num_attention_heads", 1, 4);
  const int64_t spatial = whole("num_spatial_rope_pairs_per_axis", 1, 2);
  const int64_t molecule = whole("num_uid_rope_pairs", 1, 10);
  const std::vector<double> place = AxisFrequencies(model, base("spatial_rope_base_frequency", 20), spatial);
  const std::vector<double> uid = AxisFrequencies(model, base("uid_rope_base_frequency", 10000), molecule);
  if (!model.problems->ok()) return;
  if (spec.head_dim % 2 != 0 || 3 * spatial + molecule > spec.head_dim / 2) {
    return model.problems->Fail(atoms->PathOf("head_dim"), absl::StrCat(spec.head_dim),
                                absl::StrCat("even, at least ", 2 * (3 * spatial + molecule), " for the pairs of its axes"));
  }
  InvFreqSchedule schedule;
  for (int axis = 0; axis < 3; ++axis) schedule.inv_freq.insert(schedule.inv_freq.end(), place.begin(), place.end());
  schedule.inv_freq.insert(schedule.inv_freq.end(), uid.begin(), uid.end());
  schedule.inv_freq.resize(static_cast<size_t>(spec.head_dim / 2));  // the others stand still
  spec.schedule = std::move(schedule);
  spec.axes = RopeAxes{{spatial, spatial, spatial, spec.head_dim / 2 - 3 * spatial}, AxisLayout::kChunked};
  auto canonical = Canonicalize(spec);
  if (!canonical.ok()) return model.problems->Fail(canonical.status());
  layer.kind = PositionKind::kRope;
  layer.spec = *std::move(canonical);
  layer.warnings.push_back({atoms->PathOf("num_spatial_rope_pairs_per_axis"),
                            "positions are an atom's coordinates x, y, z (ref_pos) and its ref_space_uid"});
  out.layers.push_back(std::move(layer));
}

}  // namespace phasor::server
