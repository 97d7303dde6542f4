// Models that a file names by their name in timm (1.0.31): what those of a name have, from their constructors there.
#include <algorithm>
#include <array>
#include <iterator>
#include <numeric>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

// Perception Encoders: a table, and a rotation by column and row.
struct PerceptionEncoder {
  std::string_view name;
  int64_t patch, image, hidden, heads;
  bool class_token;  // without one, columns and rows count from 0
};
constexpr PerceptionEncoder kPerceptionEncoders[] = {
    {"vit_pe_core_tiny_patch16_384", 16, 384, 192, 3, true},
    {"vit_pe_core_small_patch16_384", 16, 384, 384, 6, true},
    {"vit_pe_core_base_patch16_224", 16, 224, 768, 12, true},
    {"vit_pe_core_large_patch14_336", 14, 336, 1024, 16, true},
    {"vit_pe_core_gigantic_patch14_448", 14, 448, 1536, 16, false},
    {"vit_pe_lang_large_patch14_448", 14, 448, 1024, 16, true},
    {"vit_pe_lang_gigantic_patch14_448", 14, 448, 1536, 16, false},
    {"vit_pe_spatial_tiny_patch16_512", 16, 512, 192, 3, true},
    {"vit_pe_spatial_small_patch16_512", 16, 512, 384, 6, true},
    {"vit_pe_spatial_base_patch16_512", 16, 512, 768, 12, true},
    {"vit_pe_spatial_large_patch14_448", 14, 448, 1024, 16, true},
    {"vit_pe_spatial_gigantic_patch14_448", 14, 448, 1536, 16, false},
};

// Swin's by the beginnings of their names.
struct TimmSwin {
  std::string_view name;
  int64_t window;
  std::array<int64_t, 4> depths, heads;
};
constexpr TimmSwin kSwins[] = {
    {"swin_tiny_patch4_window7_", 7, {2, 2, 6, 2}, {3, 6, 12, 24}},
    {"swin_small_patch4_window7_", 7, {2, 2, 18, 2}, {3, 6, 12, 24}},
    {"swin_base_patch4_window7_", 7, {2, 2, 18, 2}, {4, 8, 16, 32}},
    {"swin_base_patch4_window12_", 12, {2, 2, 18, 2}, {4, 8, 16, 32}},
    {"swin_large_patch4_window7_", 7, {2, 2, 18, 2}, {6, 12, 24, 48}},
    {"swin_large_patch4_window12_", 12, {2, 2, 18, 2}, {6, 12, 24, 48}},
};

// Beginnings of the names of convolutional networks: none of their modules holds positions but the pool of CLIP's ResNets.
constexpr std::string_view kConvolutional[] = {
    "resnet", "resnext",    "wide_resnet", "seresnet",   "efficientnet", "tf_efficientnet",
    "regnet", "mobilenetv", "convnext",    "densenet",   "vgg",          "hgnet",
    "repvit", "darknet",    "repvgg",      "fastvit_t8", "fastvit_t12",  "fastvit_s12"};

// The side of the image in pixels: the name's, or model_args.img_size.
int64_t ImageSide(const Model& model, int64_t of_name) {
  const auto arguments = model.text.Object("model_args");
  return arguments ? arguments->Integer("img_size", 1, int64_t{1} << 15).value_or(of_name) : of_name;
}

void ReadPerceptionEncoder(const Model& model, std::string_view key, const PerceptionEncoder& kind, ModelEncoding& out) {
  const int64_t side = ImageSide(model, kind.image) / kind.patch;
  if (!model.problems->ok()) return;
  if (side == 0)
    return model.problems->Fail("model_args.img_size", "less than a patch", absl::StrCat("at least ", kind.patch));
  const int64_t pairs = kind.hidden / kind.heads / 4;  // of one axis
  LayerEncoding layer;
  layer.num_q_heads = layer.num_kv_heads = kind.heads;
  layer.warnings.push_back(
      {model.text.PathOf(key),
       absl::StrCat("positions are [width, height]: the column goes first; both count from ", kind.class_token ? 1 : 0,
                    " and, in a grid of n patches a side, are multiplied by ", kind.image / kind.patch, "/n",
                    kind.class_token ? "; the class token is not rotated" : "")});
  RopeSpec spec;
  spec.head_dim = 4 * pairs;
  spec.pairing = Pairing::kInterleaved;
  spec.axes = RopeAxes{{pairs, pairs}, AxisLayout::kReset};
  AddSpec(model, layer, spec, {{"head_dim", key}}, out);
  LearnedSpec table;
  table.position_offset = kind.class_token ? 1 : 0;
  table.num_positions = side * side + *table.position_offset;
  table.dim = kind.hidden;
  const size_t before = out.layers.size();
  AddLearned(model, "embedding", table, out);
  if (out.layers.size() == before) return;
  LayerEncoding& rows = out.layers.back();
  rows.num_q_heads = rows.num_kv_heads = kind.heads;
  rows.weights = {{"table", {table.num_positions, table.dim}, "timm_model.pos_embed", false}};
}

void ReadTimmSwin(const Model& model, std::string_view key, const TimmSwin& kind, ModelEncoding& out) {
  int64_t first = 0;
  for (size_t stage = 0; stage < kind.depths.size(); ++stage) {
    LayerEncoding layer;
    layer.layer_type = absl::StrCat("stage", stage + 1);
    layer.layers.resize(static_cast<size_t>(kind.depths[stage]));
    std::iota(layer.layers.begin(), layer.layers.end(), first);
    first += kind.depths[stage];
    layer.num_q_heads = layer.num_kv_heads = kind.heads[stage];
    WindowBiasSpec spec;
    spec.window_height = spec.window_width = kind.window;
    spec.num_heads = kind.heads[stage];
    const int64_t offsets = 2 * kind.window - 1;
    layer.weights = {{"table", {offsets * offsets, spec.num_heads}, "relative_position_bias_table of each layer", false}};
    AddSpec(model, std::move(layer), spec, {{"window_height", key}}, out);
  }
}

// FastViT: a depthwise convolution before the stages that attend.
void AddFastVit(const Model& model, std::string_view key, std::string_view name, ModelEncoding& out) {
  const bool five_stages = name == "fastvit_mci3" || name == "fastvit_mci4";
  LayerEncoding layer = Unserved(model, "", "positional_convolution");
  layer.warnings.push_back(
      {model.text.PathOf(key),
       absl::StrCat(
           "a positional convolution: no position encoding that a table could hold, but a layer over the feature map, "
           "which is added to what it makes of it; kernel 7, groups as many as channels (depthwise), before stage ",
           five_stages ? "4 and before stage 5" : "4")});
  out.layers.push_back(std::move(layer));
}

}  // namespace

void ReadTimm(const Model& model, ModelEncoding& out) {
  const std::string_view key = model.family->model_type == "timmbackbone" ? "backbone" : "architecture";
  const std::string given = model.text.String(key).value_or("");
  if (!model.problems->ok()) return;
  const std::string_view name = std::string_view(given).substr(0, given.find('.'));  // without the tag of its weights
  if (name.empty()) {
    out.layers.push_back(Unserved(model, "", "unknown"));
    out.layers.back().warnings.push_back({model.text.PathOf(key), "not given: the library cannot build the class without"});
    return;
  }
  const auto starts = [&](std::string_view beginning) { return name.starts_with(beginning); };
  const auto* encoder = std::find_if(std::begin(kPerceptionEncoders), std::end(kPerceptionEncoders),
                                     [&](const PerceptionEncoder& each) { return each.name == name; });
  if (encoder != std::end(kPerceptionEncoders)) return ReadPerceptionEncoder(model, key, *encoder, out);
  const auto* swin =
      std::find_if(std::begin(kSwins), std::end(kSwins), [&](const TimmSwin& each) { return starts(each.name); });
  if (swin != std::end(kSwins)) return ReadTimmSwin(model, key, *swin, out);
  const bool pools = name.find("_clip") != std::string_view::npos;
  if (!pools && std::any_of(std::begin(kConvolutional), std::end(kConvolutional), starts)) return ReadNone(model, out);
  if (starts("fastvit_")) return AddFastVit(model, key, name, out);
  out.layers.push_back(Unserved(model, "", "timm"));
  out.layers.back().warnings.push_back(
      {model.text.PathOf(key),
       absl::StrCat("no file says what timm's ", View(name.substr(0, 64)), " has: only its code does")});
}

}  // namespace phasor::server
