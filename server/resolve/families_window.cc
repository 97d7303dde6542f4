// Classes with a bias for every offset inside a window or a whole image.
#include <algorithm>
#include <numeric>
#include <set>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxWindow = 4096;
constexpr int64_t kMaxPixels = int64_t{1} << 20;
constexpr size_t kMaxStages = 16;

struct Extent {
  int64_t height = 0, width = 0;
};

// A number, or [height, width]; 0 where the file does not say.
Extent Sides(const Model& model, std::string_view key, int64_t limit) {
  if (!model.text.IsList(key)) {
    const int64_t side = model.text.Integer(key, 1, limit).value_or(0);
    return {side, side};
  }
  const auto sides = model.text.Integers(key, 1, limit).value_or(std::vector<int64_t>());
  if (sides.size() == 2) return {sides[0], sides[1]};
  model.problems->Fail(model.text.PathOf(key), absl::StrCat(sides.size(), " entries"), "a whole number, or [height, width]");
  return {};
}

// Patches of the image that the class was made for; notes what the class takes where the file does not say.
Extent PatchGrid(const Model& model, int64_t image_of_class, int64_t patch_of_class, std::vector<Note>& defaults) {
  const auto read = [&](std::string_view key, int64_t of_class) {
    Extent sides = Sides(model, key, kMaxPixels);
    if (sides.height != 0 || !model.problems->ok()) return sides;
    defaults.push_back({model.text.PathOf(key), DefaultText(model, absl::StrCat(of_class))});
    return Extent{of_class, of_class};
  };
  // Spectrograms are images whose side has a name of its own.
  const Extent image = read(model.text.Has("spec_size") ? "spec_size" : "image_size", image_of_class);
  const Extent patch = read("patch_size", patch_of_class);
  if (!model.problems->ok()) return {};
  const Extent grid{image.height / patch.height, image.width / patch.width};
  if (std::min(grid.height, grid.width) > 0) return grid;
  const NumberSource from = model.From("patch_size");
  model.problems->Fail(from.path, absl::StrCat(patch.height, from.made),
                       absl::StrCat("at most image_size, ", std::min(image.height, image.width)));
  return {};
}

// ---- Swin

// Blocks, heads and pre-training windows of every stage.
struct Stages {
  std::vector<int64_t> depths, heads, pretrained;
  std::vector<Note> defaults;
};

std::vector<int64_t> StageList(const Model& model, std::string_view key, int64_t high, std::vector<int64_t> of_class,
                               Stages& stages) {
  if (model.text.Has(key)) return model.text.Integers(key, 1, high).value_or(std::vector<int64_t>());
  stages.defaults.push_back(
      {model.text.PathOf(key), DefaultText(model, absl::StrCat("the list that starts with ", of_class[0]))});
  return of_class;
}

// The lists must have an entry for every stage. transformers takes the first entries of a longer one.
void CheckLength(const Model& model, std::string_view key, size_t given, size_t stages) {
  if (given < stages) {
    model.problems->Fail(model.text.PathOf(key), absl::StrCat(given, " entries"),
                         absl::StrCat("one for each of the ", stages, " stages of depths"));
  } else if (given > stages) {
    model.problems->Warn(model.text.PathOf(key), absl::StrCat("has ", given, " entries for ", stages, " stages: the last ",
                                                              given - stages, " are not read"));
  }
}

Stages ReadStages(const Model& model, bool continuous) {
  Stages stages;
  const std::string_view given = model.text.FirstOf({"num_heads", "num_attention_heads"});
  const std::string_view heads = given.empty() ? "num_heads" : given;
  const bool restoration = model.family->model_type == "swin2sr";
  stages.depths = StageList(model, "depths", kMaxLayers,
                            restoration ? std::vector<int64_t>(6, 6) : std::vector<int64_t>{2, 2, 6, 2}, stages);
  stages.heads = StageList(model, heads, kMaxHeads,
                           restoration ? std::vector<int64_t>(6, 6) : std::vector<int64_t>{3, 6, 12, 24}, stages);
  stages.pretrained.assign(stages.depths.size(), 0);
  if (!model.problems->ok()) return stages;
  if (stages.depths.empty() || stages.depths.size() > kMaxStages) {
    model.problems->Fail(model.text.PathOf("depths"), absl::StrCat(stages.depths.size(), " entries"),
                         absl::StrCat("1 … ", kMaxStages));
    return stages;
  }
  CheckLength(model, heads, stages.heads.size(), stages.depths.size());
  constexpr std::string_view kPretrained = "pretrained_window_sizes";
  if (continuous && model.text.Has(kPretrained)) {
    stages.pretrained = model.text.Integers(kPretrained, 0, kMaxWindow).value_or(std::vector<int64_t>());
    CheckLength(model, kPretrained, stages.pretrained.size(), stages.depths.size());
  }
  return stages;
}

std::vector<int64_t> Blocks(const Stages& stages, size_t stage) {
  const int64_t first =
      std::accumulate(stages.depths.begin(), stages.depths.begin() + static_cast<int64_t>(stage), int64_t{0});
  std::vector<int64_t> blocks(static_cast<size_t>(stages.depths[stage]));
  std::iota(blocks.begin(), blocks.end(), first);
  return blocks;
}

// Version 2: the function's window is never larger than what is left of the image in its stage.
ContinuousWindowBiasSpec ContinuousSpec(const Model& model, Extent window, Extent left, int64_t pretrained,
                                        LayerEncoding& layer) {
  ContinuousWindowBiasSpec spec;
  spec.window_height = std::min(window.height, left.height);
  spec.window_width = std::min(window.width, left.width);
  if (spec.window_height != window.height || spec.window_width != window.width) {
    layer.warnings.push_back(
        {model.text.PathOf("window_size"), absl::StrCat("the stage has ", left.height, "x", left.width,
                                                        " tokens of an image of image_size: its window is no larger")});
  }
  spec.pretrained_height = spec.pretrained_width = pretrained;
  constexpr int64_t kHidden = 512;
  const int64_t heads = layer.num_q_heads;
  layer.weights = {{"w1", {kHidden, 2}, "continuous_position_bias_mlp.0.weight of each layer", true},
                   {"b1", {kHidden}, "continuous_position_bias_mlp.0.bias of each layer", true},
                   {"w2", {heads, kHidden}, "continuous_position_bias_mlp.2.weight of each layer", true}};
  layer.warnings.push_back({model.text.PathOf("model_type"),
                            "scores are cosines of q and k times exp(min(logit_scale, ln 100)), a factor per head of the "
                            "checkpoint, not q·k times head_dim^-0.5"});
  return spec;
}

WindowBiasSpec WindowSpec(const Model& model, Extent window, Extent left, LayerEncoding& layer) {
  WindowBiasSpec spec;
  spec.window_height = window.height;
  spec.window_width = window.width;
  spec.num_heads = layer.num_q_heads;
  const int64_t rows = (2 * window.height - 1) * (2 * window.width - 1);
  layer.weights = {{"table", {rows, spec.num_heads}, "relative_position_bias_table of each layer", false}};
  if (std::min(left.height, left.width) < std::max(window.height, window.width)) {
    layer.warnings.push_back({model.text.PathOf("window_size"),
                              absl::StrCat("the stage has ", left.height, "x", left.width,
                                           " tokens of an image of image_size: transformers shrinks the window, not the "
                                           "table, and fails")});
  }
  return spec;
}

// ---- BEiT

void AddImageTable(const Model& model, Extent grid, int64_t class_tokens, ModelEncoding& out) {
  LearnedSpec table;
  table.num_positions = grid.height * grid.width + class_tokens;
  table.position_offset = class_tokens;
  AddLearned(model, "embedding", table, out);
}

}  // namespace

void ReadSwin(const Model& model, ModelEncoding& out) {
  const bool continuous = model.text.Has("pretrained_window_sizes") || model.family->model_type == "swinv2" ||
                          model.family->model_type == "swin2sr";
  Stages stages = ReadStages(model, continuous);
  Extent window = model.problems->ok() ? Sides(model, "window_size", kMaxWindow) : Extent();
  if (!model.problems->ok()) return;
  if (window.height == 0) {
    const int64_t side = model.family->model_type == "swin2sr" || model.family->model_type == "clapaudiomodel" ? 8 : 7;
    window = {side, side};
    stages.defaults.push_back({model.text.PathOf("window_size"), DefaultText(model, absl::StrCat(side))});
  }
  const bool restoration = model.family->model_type == "swin2sr";  // no stage merges patches
  const Extent grid = PatchGrid(model, restoration ? 64 : 224, restoration ? 1 : 4, stages.defaults);
  for (size_t i = 0; i < stages.depths.size() && model.problems->ok(); ++i) {
    LayerEncoding layer;
    FillFacts(model, 0, layer);
    layer.layer_type = absl::StrCat("stage", i + 1);
    layer.layers = Blocks(stages, i);
    layer.defaults.insert(layer.defaults.end(), stages.defaults.begin(), stages.defaults.end());
    layer.num_q_heads = layer.num_kv_heads = stages.heads[i];
    const int shift = restoration ? 0 : static_cast<int>(i);
    const Extent left{std::max<int64_t>(grid.height >> shift, 1), std::max<int64_t>(grid.width >> shift, 1)};
    if (continuous) {
      const auto spec = ContinuousSpec(model, window, left, stages.pretrained[i], layer);
      AddSpec(model, std::move(layer), spec,
              {{"window_height", "window_size"},
               {"pretrained_height", "pretrained_window_sizes"},
               {"pretrained_width", "pretrained_window_sizes"}},
              out);
    } else {
      const auto spec = WindowSpec(model, window, left, layer);
      AddSpec(model, std::move(layer), spec, {{"window_height", "window_size"}, {"num_heads", "num_heads"}}, out);
    }
  }
}

void ReadBeit(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  const auto flag = [&](std::string_view key) {
    if (!model.text.Has(key)) defaults.push_back({model.text.PathOf(key), DefaultText(model, "false")});
    return model.text.IsTrue(key);
  };
  const bool each = flag("use_relative_position_bias");
  const bool shared = flag("use_shared_relative_position_bias");
  const bool absolute = flag("use_absolute_position_embeddings");
  if (!each && !shared && !absolute) {
    ReadNone(model, out);
    for (LayerEncoding& layer : out.layers) layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
    return;
  }
  const Extent grid = PatchGrid(model, 224, 16, defaults);
  const auto add = [&](std::string layer_type, std::string_view source) {
    LayerEncoding layer;
    FillFacts(model, 0, layer);
    layer.layer_type = std::move(layer_type);
    layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
    WindowBiasSpec spec;
    spec.window_height = grid.height;
    spec.window_width = grid.width;
    spec.num_heads = layer.num_q_heads;
    spec.class_token = true;
    const int64_t rows = (2 * grid.height - 1) * (2 * grid.width - 1) + 3;
    layer.weights = {{"table", {rows, spec.num_heads}, std::string(source), false}};
    AddSpec(model, std::move(layer), spec,
            {{"window_height", "image_size"}, {"window_width", "image_size"}, {"num_heads", "num_attention_heads"}}, out);
  };
  if (!model.problems->ok()) return;
  if (each) add("", "relative_position_bias_table of each layer");
  if (shared) {
    add(each ? "shared" : "", "encoder.relative_position_bias.relative_position_bias_table, which all layers share");
  }
  if (each && shared) {
    model.problems->Warn(model.text.PathOf("use_shared_relative_position_bias"),
                         "both are true: every layer adds its own bias and the shared one");
  }
  if (absolute && model.problems->ok()) {
    AddImageTable(model, grid, 1, out);
    if (!out.layers.empty()) {
      auto& notes = out.layers.back().defaults;
      notes.insert(notes.end(), defaults.begin(), defaults.end());
    }
    if (!each && !shared && !out.layers.empty()) out.layers.back().layer_type.clear();
  }
}

void ReadSam(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  const Extent grid = PatchGrid(model, 1024, 16, defaults);
  const int64_t head_dim = model.HeadDim(defaults);
  const int64_t window = model.text.Integer("window_size", 0, kMaxWindow).value_or(14);
  const auto listed = model.text.Integers("global_attn_indexes", 0, kMaxLayers).value_or(std::vector<int64_t>{2, 5, 8, 11});
  const std::set<int64_t> global(listed.begin(), listed.end());
  if (!model.text.Has("window_size")) defaults.push_back({model.text.PathOf("window_size"), DefaultText(model, "14")});
  const int64_t count = model.problems->ok() ? model.NumLayers(defaults) : 0;
  if (!model.problems->ok()) return;
  const auto add = [&](std::string_view name, bool of_windows) {
    LayerEncoding layer;
    FillFacts(model, head_dim, layer);
    layer.layer_type = name;
    for (int64_t i = 0; i < count; ++i) {
      const bool whole = window == 0 || global.contains(i);
      if (whole != of_windows) layer.layers.push_back(i);
    }
    if (layer.layers.empty()) return;
    layer.defaults.insert(layer.defaults.end(), defaults.begin(), defaults.end());
    DecomposedSpec spec;
    spec.query_height = of_windows ? window : grid.height;
    spec.query_width = of_windows ? window : grid.width;
    layer.weights = {{"rel_pos_h", {2 * spec.query_height - 1, head_dim}, "rel_pos_h of each layer", true},
                     {"rel_pos_w", {2 * spec.query_width - 1, head_dim}, "rel_pos_w of each layer", true}};
    AddSpec(model, std::move(layer), spec, {{"query_height", of_windows ? "window_size" : "image_size"}}, out);
  };
  const auto flag = [&](std::string_view key) {
    if (!model.text.Has(key)) defaults.push_back({model.text.PathOf(key), DefaultText(model, "true")});
    return model.text.Bool(key).value_or(true);
  };
  const bool relative = flag("use_rel_pos"), absolute = flag("use_abs_pos");
  if (relative) {
    add("global_attention", false);
    if (model.problems->ok()) add("window_attention", true);
  }
  if (!model.problems->ok() || !absolute) return;
  AddImageTable(model, grid, 0, out);
  if (out.layers.empty()) return;
  auto& notes = out.layers.back().defaults;
  notes.insert(notes.end(), defaults.begin(), defaults.end());
}

}  // namespace phasor::server
