// Classes whose code says more about positions than their keys: image towers, matchers, molecules.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/layer_groups.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMostRatios = 1024;  // aspect ratios, and tiles of one

}  // namespace

void ReadLlama4Vision(const Model& model, ModelEncoding& out) {
  ReadVisionRope(model, out);
  for (LayerEncoding& layer : out.layers) {
    if (layer.kind != PositionKind::kRope) continue;
    layer.grid_starts = {1, 1};
    layer.warnings.push_back(
        {model.text.PathOf("patch_size"),
         "columns and rows count from 1; the class token, the last of an image, stands at 0 in both and "
         "is not rotated"});
  }
}

void ReadMllamaVision(const Model& model, ModelEncoding& out) {
  ReadLearned(model, out);
  if (out.layers.empty() || out.layers.front().kind != PositionKind::kLearned) return;
  constexpr std::string_view kRatios = "supported_aspect_ratios", kTiles = "max_num_tiles";
  out.layers.front().layer_type = "embedding";
  out.layers.front().warnings.push_back(
      {model.text.PathOf(kTiles), "the rows count as (1 - tanh(gate)) times those of gated_positional_embedding.embedding"});
  std::vector<Note> defaults;
  const LearnedSpec patches = std::get<LearnedSpec>(out.layers.front().spec->spec);
  const auto listed = model.text.Integer("max_aspect_ratio_id", 1, kMostRatios);
  int64_t ratios = listed.value_or(8);
  if (!listed && model.text.Has(kRatios)) {
    if (!model.text.IsList(kRatios)) model.text.Integers(kRatios, 1, kMostRatios);  // the error of a list
    ratios = model.text.ListSize(kRatios);
  } else if (!listed) {
    defaults.push_back({model.text.PathOf(kRatios), DefaultText(model, "8 of them")});
  }
  const int64_t tiles = model.text.Integer(kTiles, 1, kMostRatios).value_or(4);
  if (!model.text.Has(kTiles)) defaults.push_back({model.text.PathOf(kTiles), DefaultText(model, "4")});
  if (model.problems->ok() && ratios > kMostRatios) {
    model.problems->Fail(model.text.PathOf(kRatios), absl::StrCat(ratios, " entries"), absl::StrCat("up to ", kMostRatios));
  }
  if (!model.problems->ok()) return;
  const auto add = [&](const char* name, const char* parameter, int64_t rows_per_tile, const char* when) {
    const size_t before = out.layers.size();
    LearnedSpec spec;
    spec.num_positions = (ratios + 1) * tiles * rows_per_tile;
    spec.dim = patches.dim;
    AddLearned(model, name, spec, out);
    if (out.layers.size() == before || out.layers.back().kind != PositionKind::kLearned) return;
    LayerEncoding& layer = out.layers.back();
    layer.weights = {{"table",
                      {spec.num_positions, spec.dim},
                      absl::StrCat(parameter, ".weight [", ratios + 1, ", ", tiles * rows_per_tile * spec.dim, "] as ",
                                   spec.num_positions, " rows, times tanh(gate) of its module"),
                      false}};
    layer.warnings.push_back(
        {model.text.PathOf(kTiles), absl::StrCat(when, "; position (aspect_ratio_id*", tiles, " + tile)",
                                                 rows_per_tile > 1 ? absl::StrCat("*", rows_per_tile, " + patch") : "",
                                                 ", aspect_ratio_id from 1 (0: no image)")});
    layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
  };
  add("tile_embedding", "gated_positional_embedding.tile_embedding", patches.num_positions,
      "added with the table of patches");
  add("pre_tile_embedding", "pre_tile_positional_embedding.embedding", 1,
      "added to all patches of a tile, before the others");
  add("post_tile_embedding", "post_tile_positional_embedding.embedding", 1,
      "added to all patches of a tile, between the layers and the global ones");
}

namespace {

// The width of one axis of V-JEPA 2's heads, and frequencies of one of its channels of each pair.
constexpr int64_t kVideoAxes = 3;

void AddUnevenPairs(const Model& model, std::string_view part, std::string_view hidden_key, std::string_view heads_key,
                    int64_t of_hidden, int64_t of_heads, ModelEncoding& out) {
  std::vector<Note> defaults;
  const auto whole = [&](std::string_view key, int64_t of_class) {
    return OrOfClass(model, model.text, key, {1, int64_t{1} << 20}, of_class, defaults);
  };
  const int64_t hidden = whole(hidden_key, of_hidden), heads = whole(heads_key, of_heads);
  if (!model.problems->ok()) return;
  const int64_t head_dim = hidden / heads, width = 2 * (head_dim / kVideoAxes / 2), pairs = width / 2;
  if (pairs == 0 || head_dim > kMaxHeadDim) {
    const NumberSource from = model.From(model.text.Has(hidden_key) ? hidden_key : heads_key);
    return model.problems->Fail(from.path, absl::StrCat(model.text.Has(hidden_key) ? hidden : heads, from.made),
                                absl::StrCat("heads of 6 to ", kMaxHeadDim, " channels"));
  }
  const std::vector<double> table = AxisFrequencies(model, 10000, pairs, model.From("rope_theta"));
  if (!model.problems->ok()) return;
  for (const int64_t channel : {0, 1}) {
    InvFreqSchedule schedule;
    for (int64_t axis = 0; axis < kVideoAxes; ++axis) {
      for (int64_t pair = 0; pair < pairs; ++pair) {
        schedule.inv_freq.push_back(table[static_cast<size_t>((2 * pair + channel) % pairs)]);
      }
    }
    RopeSpec spec;
    spec.head_dim = head_dim;
    spec.rotary_dim = kVideoAxes * width;
    spec.pairing = Pairing::kInterleaved;
    spec.schedule = std::move(schedule);
    spec.axes = RopeAxes{{pairs, pairs, pairs}, AxisLayout::kChunked};
    LayerEncoding layer;
    FillFacts(model, head_dim, layer);
    layer.num_q_heads = layer.num_kv_heads = heads;
    layer.layer_type = absl::StrCat(std::string(part), channel == 0 ? ".even_channels" : ".odd_channels");
    layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
    layer.warnings.push_back(
        {model.text.PathOf("model_type"),
         absl::StrCat(
             "the class turns the two channels of a pair (2i, 2i + 1) by different angles, which is no rotation: apply "
             "even_channels and odd_channels to the same tensor and take channels 0, 2, 4 … below ",
             kVideoAxes * width,
             " of the one and 1, 3, 5 … of the other; channels from there on stay. Nothing undoes "
             "it: inverse and shift of either do not")});
    layer.warnings.push_back(
        {model.text.PathOf("crop_size"),
         "positions are [frame, row, column] of a patch; of the predictor's tokens, those of the patches "
         "that its masks name"});
    AddSpec(model, std::move(layer), spec, {{"head_dim", hidden_key}}, out);
  }
}

}  // namespace

void ReadVjepa2(const Model& model, ModelEncoding& out) {
  AddUnevenPairs(model, "encoder", "hidden_size", "num_attention_heads", 1024, 16, out);
  AddUnevenPairs(model, "predictor", "pred_hidden_size", "pred_num_attention_heads", 384, 12, out);
}

void ReadCohereCompass(const Model& model, ModelEncoding& out) {
  const auto dict = model.text.Object("rope_parameters");
  if ((dict && !dict->IsEmpty()) || model.text.Has("rope_scaling")) return ReadRope(model, out);
  if (!model.text.Has("layer_types") && !model.text.Has("num_hidden_layers")) return;
  model.problems->Warn(model.text.PathOf("rope_parameters"),
                       "has no entry: the class has no default for its layer types and cannot be built without");
  for (const LayerGroup& group : GroupsOr(model, [](int64_t, int64_t) { return std::string("full_attention"); })) {
    if (!HasAttention(TypeOf(group))) {
      out.layers.push_back(NoPositions(model, group));
      continue;
    }
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
  const std::vector<std::string> types = LayerNames(model, model.text.FirstOf({"layers_block_type", "layer_types"}));
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] == "hybrid") group.layers.push_back(static_cast<int64_t>(i));
  }
  if (!types.empty() && group.layers.empty()) return ReadNone(model, out);  // the others have no attention
  // Of the doubled input; kv_channels is not read.
  const int64_t head_dim = 2 * hidden / heads;
  const NumberSource from{model.From("hidden_size").path,
                          absl::StrCat(" (2 * hidden_size ", hidden, " / num_attention_heads ", heads, ")")};
  if (head_dim < 1 || head_dim > kMaxHeadDim) {
    return model.problems->Fail(from.path, absl::StrCat(head_dim, from.made), absl::StrCat("1 … ", kMaxHeadDim));
  }
  ReadGroups(
      model, {group},
      [&](std::string_view) {
        GroupRule rule = DefaultRule(model);
        rule.request.head_dim = head_dim;
        rule.request.from["head_dim"] = from;
        return rule;
      },
      out);
  for (LayerEncoding& layer : out.layers) {
    layer.defaults.insert(layer.defaults.begin(), defaults.begin(), defaults.end());
    layer.softmax_scale = InverseSqrt(static_cast<double>(head_dim) / 2);
  }
}

namespace {

// The features of a pair of tokens: three clipped distances, each a row of one matrix. The rows' numbers alone are answered,
// as Shaw's.
void AddPairFeatures(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kResidues = "num_relative_residx_bins", kChains = "num_relative_chain_bins";
  struct Feature {
    const char* name;
    std::string_view key;
    int64_t of_class;
    const char *ids, *among;
  };
  int64_t column = 0;
  for (const Feature& each : {Feature{"pair_embedding.residue", kResidues, 32, "residue_index", "one chain"},
                              Feature{"pair_embedding.token", kResidues, 32, "token_index", "one residue of one chain"},
                              Feature{"pair_embedding.chain", kChains, 2, "sym_id", "different chains"}}) {
    LayerEncoding layer;
    layer.layer_type = each.name;
    const auto given = model.text.Integer(each.key, 0, int64_t{1} << 20);
    if (!given) layer.defaults.push_back({model.text.PathOf(each.key), DefaultText(model, absl::StrCat(each.of_class))});
    if (!model.problems->ok()) return;
    ShawSpec spec;
    spec.clip = given.value_or(each.of_class);
    if (each.key == kChains) column += 1;  // whether the entity is the same stands before
    layer.warnings.push_back(
        {model.text.PathOf(each.key),
         absl::StrCat("ask for the indices: at positions ", each.ids, " index n of tokens of ", each.among, " adds column ",
                      column, " + n of input_embedder.rel_pos.embed.weight to their pair, any other pair adds column ",
                      column + 2 * spec.clip + 1)});
    column += 2 * spec.clip + 2;
    AddSpec(model, std::move(layer), spec, {{"clip", each.key}}, out);
    if (!model.problems->ok()) return;
  }
  out.layers.back().warnings.push_back(
      {model.text.PathOf(kChains),
       absl::StrCat("a pair of one entity adds column ",
                    column - std::get<ShawSpec>(out.layers.back().spec->spec).clip * 2 - 3, " too")});
}

}  // namespace

void ReadEsmFold2(const Model& model, ModelEncoding& out) {
  AddPairFeatures(model, out);
  const auto atoms = model.text.Object("atom_encoder");
  if (!atoms) return;
  LayerEncoding layer;
  layer.part = layer.layer_type = "atom_encoder";
  constexpr std::string_view kPlaceBase = "spatial_rope_base_frequency", kMoleculeBase = "uid_rope_base_frequency";
  const auto whole = [&](std::string_view key, int64_t least, int64_t most, int64_t of_class) {
    return OrOfClass(model, *atoms, key, {least, most}, of_class, layer.defaults);
  };
  const auto base = [&](std::string_view key, double of_class) {
    if (const auto given = atoms->Number(key)) return *given;
    layer.defaults.push_back({atoms->PathOf(key), DefaultText(model, FormatNumber(of_class))});
    return of_class;
  };
  RopeSpec spec;
  spec.head_dim = whole("head_dim", 2, kMaxHeadDim, 32);
  layer.num_q_heads = layer.num_kv_heads = whole("num_attention_heads", 1, kMaxHeads, 4);
  const int64_t spatial = whole("num_spatial_rope_pairs_per_axis", 1, kMaxHeadDim / 2, 2);
  const int64_t molecule = whole("num_uid_rope_pairs", 1, kMaxHeadDim / 2, 10);
  const std::vector<double> place = AxisFrequencies(model, base(kPlaceBase, 20), spatial, {atoms->PathOf(kPlaceBase)});
  const std::vector<double> uid =
      AxisFrequencies(model, base(kMoleculeBase, 10000), molecule, {atoms->PathOf(kMoleculeBase)});
  if (!model.problems->ok()) return;
  if (spec.head_dim % 2 != 0 || 3 * spatial + molecule > spec.head_dim / 2) {
    const std::string of_class = DefaultText(model, absl::StrCat(spec.head_dim));
    return model.problems->Fail(atoms->PathOf("head_dim"), atoms->Has("head_dim") ? absl::StrCat(spec.head_dim) : of_class,
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
