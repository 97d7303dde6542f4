// Image towers whose stages have tables of their own, and the step of a diffusion head.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"

#include "server/resolve/class_tables.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxWindow = 4096;
constexpr int64_t kMostStages = 9;  // that a formula can name

}  // namespace

void ReadPvt(const Model& model, ModelEncoding& out) {
  constexpr int64_t kPatches[] = {4, 2, 2, 2};
  constexpr int64_t kWidths[] = {64, 128, 320, 512};
  constexpr int64_t kOfClass = 4;
  const int64_t stages = model.text.Integer("num_encoder_blocks", 1, kMostStages).value_or(kOfClass);
  for (int64_t i = 0; i < stages && model.problems->ok(); ++i) {
    const auto of_class = [&](const int64_t* list) { return i < kOfClass ? list[i] : 0; };
    std::vector<Note> defaults;
    // The first stage sees the image, each later one half of what the one before it saw, of a quarter at first.
    const std::string side = absl::StrCat("(image_size=224 / ", i == 0 ? 1 : int64_t{1} << (i + 1), " / patch_sizes.", i,
                                          "=", of_class(kPatches), ")");
    const bool last = i == stages - 1;
    LearnedSpec spec;
    spec.num_positions = Evaluate(model, absl::StrCat(side, " * ", side, last ? " + 1" : ""), defaults);
    spec.dim = Evaluate(model, absl::StrCat("hidden_sizes.", i, "=", of_class(kWidths)), defaults);
    spec.position_offset = last ? 1 : 0;
    if (!model.problems->ok()) return;
    const size_t before = out.layers.size();
    AddLearned(model, absl::StrCat("stage", i + 1, ".embedding"), spec, out);
    if (out.layers.size() == before || out.layers.back().kind != PositionKind::kLearned) continue;
    LayerEncoding& layer = out.layers.back();
    layer.weights = {{"table",
                      {spec.num_positions, spec.dim},
                      absl::StrCat("encoder.patch_embeddings.", i, ".position_embeddings"),
                      false}};
    layer.warnings.push_back({model.text.PathOf("patch_sizes"),
                              absl::StrCat(last ? "row 0 is the class token's, the others run " : "",
                                           "row by row over the stage's patches; the class has no resize that works for "
                                           "images of another size")});
    layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
  }
}

void ReadSegGpt(const Model& model, ModelEncoding& out) {
  if (!model.text.Bool("use_relative_position_embeddings").value_or(true)) return;  // only the table at the input
  LayerEncoding layer;
  std::vector<Note> defaults;
  const int64_t head_dim = model.HeadDim(defaults);
  FillFacts(model, head_dim, layer);
  DecomposedSpec spec;
  spec.query_height = Evaluate(model, "image_size.h=896 / patch_size.h=16", defaults);
  spec.query_width = Evaluate(model, "image_size.w=448 / patch_size.w=16", defaults);
  if (!model.problems->ok()) return;
  layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
  layer.weights = {{"rel_pos_h", {2 * spec.query_height - 1, head_dim}, "rel_pos_h of each layer", true},
                   {"rel_pos_w", {2 * spec.query_width - 1, head_dim}, "rel_pos_w of each layer", true}};
  AddSpec(model, std::move(layer), spec, {{"query_height", "image_size"}}, out);
}

void ReadDinat(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  const auto list = [&](std::string_view key, std::vector<int64_t> of_class) {
    if (const auto given = model.text.Integers(key, 1, kMaxHeads)) return *given;
    defaults.push_back(
        {model.text.PathOf(key), DefaultText(model, absl::StrCat("the list that starts with ", of_class[0]))});
    return of_class;
  };
  const auto depths = list("depths", {3, 4, 6, 5});
  const auto heads = list("num_heads", {2, 4, 8, 16});
  const int64_t kernel = model.text.Integer("kernel_size", 1, kMaxWindow).value_or(7);
  if (!model.problems->ok()) return;
  if (heads.size() < depths.size()) {
    return model.problems->Fail(model.text.PathOf("num_heads"), absl::StrCat(heads.size(), " entries"),
                                absl::StrCat("one for each of the ", depths.size(), " stages of depths"));
  }
  int64_t first = 0;
  for (size_t stage = 0; stage < std::min<size_t>(depths.size(), 32) && model.problems->ok(); ++stage) {
    LayerEncoding layer;
    layer.layer_type = absl::StrCat("stage", stage + 1);
    layer.layers.resize(static_cast<size_t>(std::min(depths[stage], kMaxLayers)));
    std::iota(layer.layers.begin(), layer.layers.end(), first);
    first += depths[stage];
    layer.num_q_heads = layer.num_kv_heads = heads[stage];
    layer.defaults = defaults;
    WindowBiasSpec spec;
    spec.window_height = spec.window_width = kernel;
    spec.num_heads = heads[stage];
    const int64_t offsets = 2 * kernel - 1;
    layer.weights = {{"table",
                      {offsets * offsets, spec.num_heads},
                      absl::StrCat("attention.self.rpb of each layer, [", spec.num_heads, ", ", offsets, ", ", offsets,
                                   "]: both offsets from their ends (key - query there, query - key here), heads last"),
                      false}};
    layer.warnings.push_back(
        {model.text.PathOf("kernel_size"),
         absl::StrCat("a query's window is its neighbourhood of ", kernel, "x", kernel,
                      " patches, as many apart as dilations says and moved inside the image at its edges: of the window's "
                      "matrix, the row of the query's place in it counts")});
    AddSpec(model, std::move(layer), spec, {{"window_height", "kernel_size"}, {"num_heads", "num_heads"}}, out);
  }
}

void ReadDiffusionStep(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kWidth = "frequency_embedding_size";
  constexpr std::string_view kPeriod = "diffusion_max_period";
  LayerEncoding layer;
  FillFacts(model, 0, layer);
  TimestepSpec spec;
  spec.dim = Evaluate(model, "frequency_embedding_size=256", layer.defaults);
  spec.max_period = model.text.Number(kPeriod).value_or(10000);
  if (!model.text.Has(kPeriod)) layer.defaults.push_back({model.text.PathOf(kPeriod), DefaultText(model, "10000")});
  spec.downscale_freq_shift = 0;
  spec.flip_sin_to_cos = true;
  layer.warnings.push_back({model.text.PathOf(kWidth),
                            "of the step of the diffusion, which a perceptron of the head takes; no "
                            "position of a token"});
  AddSpec(model, std::move(layer), spec, {{"dim", kWidth}, {"max_period", kPeriod}}, out);
}

}  // namespace phasor::server
