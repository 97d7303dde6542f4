// Image towers whose stages have tables of their own, and the step of a diffusion head.
#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "server/resolve/class_tables.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxWindow = 4096;
constexpr int64_t kMostStages = 9;  // that a formula can name
constexpr size_t kMostBlocks = 16;  // entries of Dinat's depths

// How many stages a model has, and the key that says so.
struct Stages {
  std::string_view key;
  size_t count;
};

// A list with a number for each stage of the model; of a longer one transformers takes the first entries.
std::vector<int64_t> OfStages(const Model& model, std::string_view key, const Stages& stages, int64_t most,
                              const std::vector<int64_t>& of_class, std::vector<Note>& defaults) {
  const bool given = model.text.Has(key);
  std::vector<int64_t> list = of_class;
  if (given) {
    list = model.text.Integers(key, 1, most).value_or(std::vector<int64_t>());
  } else {
    defaults.push_back({model.text.PathOf(key), DefaultText(model, absl::StrCat("[", absl::StrJoin(list, ", "), "]"))});
  }
  if (!model.problems->ok()) return {};
  if (list.size() < stages.count) {
    given ? model.problems->Fail(model.text.PathOf(key), absl::StrCat(list.size(), " entries"),
                                 absl::StrCat("one for each of the ", stages.count, " stages of ", std::string(stages.key)))
          : model.problems->Fail(model.text.PathOf(stages.key), absl::StrCat(stages.count, " stages"),
                                 absl::StrCat("at most ", list.size(), " without ", std::string(key)));
    return {};
  }
  if (given && list.size() > stages.count) {
    model.problems->Warn(model.text.PathOf(key), absl::StrCat("has ", list.size(), " entries for ", stages.count,
                                                              " stages: the others are not read"));
  }
  list.resize(stages.count);
  return list;
}

}  // namespace

void ReadPvt(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kStages = "num_encoder_blocks";
  std::vector<Note> of_all;
  const int64_t stages = model.text.Integer(kStages, 1, kMostStages).value_or(4);
  if (!model.text.Has(kStages)) of_all.push_back({model.text.PathOf(kStages), DefaultText(model, "4")});
  if (!model.problems->ok()) return;
  const Stages count{kStages, static_cast<size_t>(stages)};
  const auto patches = OfStages(model, "patch_sizes", count, kMaxWindow, {4, 2, 2, 2}, of_all);
  const auto widths = OfStages(model, "hidden_sizes", count, kMaxDim, {64, 128, 320, 512}, of_all);
  for (int64_t i = 0; i < stages && model.problems->ok(); ++i) {
    std::vector<Note> defaults = of_all;
    // The first stage sees the image, each later one half of what the one before it saw, of a quarter at first.
    const std::string side =
        absl::StrCat("(image_size=224 / ", i == 0 ? 1 : int64_t{1} << (i + 1), " / ", patches[static_cast<size_t>(i)], ")");
    const bool last = i == stages - 1;
    LearnedSpec spec;
    spec.num_positions = Evaluate(model, absl::StrCat(side, " * ", side, last ? " + 1" : ""), defaults);
    spec.dim = widths[static_cast<size_t>(i)];
    spec.position_offset = last ? 1 : 0;
    if (model.problems->ok() && spec.num_positions < (last ? 2 : 1)) {
      model.problems->Fail(model.text.PathOf("patch_sizes"),
                           absl::StrCat(patches[static_cast<size_t>(i)], " in stage ", i + 1),
                           "at most what the stage sees of image_size");
    }
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
  constexpr std::string_view kRelative = "use_relative_position_embeddings";
  if (!model.text.Bool(kRelative).value_or(true)) return;  // only the table at the input
  LayerEncoding layer;
  if (!model.text.Has(kRelative)) layer.defaults.push_back({model.text.PathOf(kRelative), DefaultText(model, "true")});
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
  constexpr std::string_view kDepths = "depths", kKernel = "kernel_size";
  std::vector<Note> defaults;
  const int64_t listed = model.text.ListSize(kDepths);
  if (model.text.IsList(kDepths) && (listed == 0 || listed > static_cast<int64_t>(kMostBlocks))) {
    return model.problems->Fail(model.text.PathOf(kDepths), absl::StrCat(listed, " entries"),
                                absl::StrCat("1 … ", kMostBlocks));
  }
  const size_t stages = model.text.IsList(kDepths) ? static_cast<size_t>(listed) : 4;
  const Stages count{kDepths, stages};
  const auto depths = OfStages(model, kDepths, count, kMaxLayers, {3, 4, 6, 5}, defaults);
  const auto heads = OfStages(model, "num_heads", count, kMaxHeads, {2, 4, 8, 16}, defaults);
  const auto given = model.text.Integer(kKernel, 1, kMaxWindow);
  if (!given) defaults.push_back({model.text.PathOf(kKernel), DefaultText(model, "7")});
  if (!model.problems->ok()) return;
  const int64_t kernel = given.value_or(7);
  int64_t first = 0;
  for (size_t stage = 0; stage < stages && model.problems->ok(); ++stage) {
    LayerEncoding layer;
    layer.layer_type = absl::StrCat("stage", stage + 1);
    layer.layers.resize(static_cast<size_t>(depths[stage]));
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
