// Classes of images and sound with forms of their own: tables over grids, a rotation of the whole width, a bias by distance.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/library_readings.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxSide = int64_t{1} << 15;

// The learned layer type that was added last, or null after an error.
LayerEncoding* Table(const Model& model, std::string name, int64_t rows, int64_t offset, ModelEncoding& out) {
  const size_t before = out.layers.size();
  LearnedSpec spec;
  spec.num_positions = rows;
  spec.position_offset = offset;
  AddLearned(model, std::move(name), spec, out);
  const bool added = out.layers.size() > before && out.layers.back().kind == PositionKind::kLearned;
  return added ? &out.layers.back() : nullptr;
}

void ListTable(LayerEncoding& layer, std::string source) {
  const LearnedSpec& spec = std::get<LearnedSpec>(layer.spec->spec);
  layer.weights = {{"table", {spec.num_positions, spec.dim}, std::move(source), false}};
}

}  // namespace

void ReadHiera(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kWhole = "window_positional_embedding_background_size";
  constexpr std::string_view kWindows = "window_size_per_stage";
  std::vector<Note> defaults;
  auto sides = model.text.Integers(kWhole, 1, kMaxSide).value_or(std::vector<int64_t>());
  if (sides.empty()) {
    sides = {7, 7};
    defaults.push_back({model.text.PathOf(kWhole), DefaultText(model, "[7, 7]")});
  }
  if (model.problems->ok() && sides.size() != 2) {
    model.problems->Fail(model.text.PathOf(kWhole), absl::StrCat(sides.size(), " entries"), "[height, width]");
  }
  const auto windows = model.text.Integers(kWindows, 1, kMaxSide).value_or(std::vector<int64_t>());
  const int64_t window = windows.empty() ? 8 : windows.front();
  if (windows.empty()) defaults.push_back({model.text.PathOf(kWindows), DefaultText(model, "[8, …]")});
  if (!model.problems->ok()) return;
  if (LayerEncoding* whole = Table(model, "embedding", sides[0] * sides[1], 0, out)) {
    ListTable(*whole, "pos_embed [1, dim, height, width] with its channels last");
    whole->warnings.push_back(
        {model.text.PathOf(kWhole), absl::StrCat("a grid of ", sides[0], "x", sides[1],
                                                 ": the class resizes it to the grid of the patches, bicubic (align_corners "
                                                 "false), before it adds rows")});
    whole->defaults.insert(whole->defaults.end(), defaults.begin(), defaults.end());
  }
  if (LayerEncoding* part = Table(model, "window_embedding", window * window, 0, out)) {
    ListTable(*part, "pos_embed_window [1, dim, side, side] with its channels last");
    part->warnings.push_back(
        {model.text.PathOf(kWindows),
         absl::StrCat("added too, repeated over the grid: the patch in row y, column x reads row (y mod ", window, ")*",
                      window, " + x mod ", window)});
    part->defaults.insert(part->defaults.end(), defaults.begin(), defaults.end());
  }
}

void ReadHunyuanVision(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  const int64_t image = OrOfClass(model, model.text, "max_image_size", {1, kMaxSide}, 2048, defaults);
  const int64_t patch = OrOfClass(model, model.text, "patch_size", {1, kMaxSide}, 16, defaults);
  if (!model.problems->ok()) return;
  const int64_t side = image / patch;
  if (side == 0) {
    const NumberSource from = model.From("patch_size");
    return model.problems->Fail(from.path, absl::StrCat(patch, from.made), absl::StrCat("at most max_image_size, ", image));
  }
  LayerEncoding* layer = Table(model, "", side * side + 1, 1, out);
  if (!layer) return;
  ListTable(*layer, "embeddings.position_embedding.weight, whose first row is a class token's that no patch reads");
  const std::string mode = model.text.String("interpolate_mode").value_or("bilinear").substr(0, 16);
  layer->warnings.push_back(
      {model.text.PathOf("max_image_size"),
       absl::StrCat("a grid of ", side, "x", side, ": the class resizes it to the grid of each image, ", mode,
                    " (align_corners false)")});
  layer->defaults.insert(layer->defaults.end(), defaults.begin(), defaults.end());
}

void ReadLoftr(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  const int64_t width = model.Hidden(layer.defaults);
  FillFacts(model, 0, layer);
  const auto dict = model.text.Object("rope_parameters");
  const double base = dict ? dict->Number("rope_theta").value_or(model.family->base) : model.family->base;
  if (!model.problems->ok()) return;
  if (!dict || !dict->Has("rope_theta")) {
    layer.defaults.push_back(
        {model.text.PathOf("rope_parameters.rope_theta"), DefaultText(model, FormatNumber(model.family->base))});
  }
  // Half of the width for rows, half for columns, pair by pair: rows take pair 2k, columns pair 2k + 1, both by θ_k.
  const int64_t pairs = width / 4;
  std::vector<double> twins;
  for (const double frequency : AxisFrequencies(model, base, pairs, model.From("rope_parameters.rope_theta"))) {
    twins.insert(twins.end(), 2, frequency);
  }
  if (!model.problems->ok()) return;
  RopeSpec spec;
  spec.head_dim = spec.rotary_dim.emplace(4 * pairs);
  spec.pairing = Pairing::kInterleaved;
  spec.schedule = InvFreqSchedule{std::move(twins)};
  spec.axes = RopeAxes{{pairs, pairs}, AxisLayout::kInterleaved};
  if (const int64_t heads = model.Heads(layer.defaults); heads != 0) {
    layer.softmax_scale = InverseSqrt(static_cast<double>(std::max<int64_t>(width / heads, 1)));
  }
  layer.warnings.push_back({model.text.PathOf("hidden_size"),
                            absl::StrCat("q and k are turned before they are split into heads: head_dim is the whole width ",
                                         width, ", with one head")});
  layer.warnings.push_back(
      {model.text.PathOf("rope_parameters"), "positions are [row + 1, column + 1] of the aggregated grid"});
  WarnAxialScaling(model, layer);
  AddSpec(model, std::move(layer), spec, {{"head_dim", "hidden_size"}}, out);
}

void ReadGraniteSpeech(const Model& model, ModelEncoding& out) {
  const std::string_view given = model.text.FirstOf({"max_pos_emb", "max_position_embeddings"});
  const std::string_view key = given.empty() ? "max_pos_emb" : given;
  LayerEncoding layer;
  FillFacts(model, 0, layer);
  ShawSpec spec;
  spec.clip = OrOfClass(model, model.text, key, {1, kMaxSide}, 512, layer.defaults);
  const std::string_view width = model.text.Has("dim_head") ? "dim_head" : "head_dim";
  const int64_t head_dim = OrOfClass(model, model.text, width, {1, kMaxHeadDim}, 128, layer.defaults);
  if (!model.problems->ok()) return;
  layer.weights = {{"keys", {2 * spec.clip + 1, head_dim}, "rel_pos_emb.weight of each layer", false}};
  layer.warnings.push_back({model.text.PathOf("context_size"),
                            "attention stays inside blocks of context_size frames: ask for the term of one block"});
  AddSpec(model, std::move(layer), spec, {{"clip", key}}, out);
}

void ReadLed(const Model& model, ModelEncoding& out) {
  for (const bool encoder : {true, false}) {
    std::vector<Note> defaults;
    const std::string_view key = encoder ? "max_encoder_position_embeddings" : "max_decoder_position_embeddings";
    const int64_t rows = OrOfClass(model, model.text, key, {1, int64_t{1} << 30}, encoder ? 16384 : 1024, defaults);
    if (!model.problems->ok()) return;
    LayerEncoding* layer = Table(model, encoder ? "encoder" : "decoder", rows, 0, out);
    if (!layer) return;
    layer->max_position = rows;
    layer->defaults.insert(layer->defaults.end(), defaults.begin(), defaults.end());
  }
}

void ReadPhi4Audio(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  FillFacts(model, 0, layer);
  constexpr std::string_view kKey = "bias_max_distance";
  // Four rows for each distance of a side.
  constexpr int64_t kLongest = (int64_t{1} << 14) - 2;
  const int64_t longest = OrOfClass(model, model.text, kKey, {1, kLongest}, 1000, layer.defaults);
  if (!model.problems->ok()) return;
  const bool symmetric = model.text.IsTrue("bias_symmetric");
  // T5's buckets hold a distance each up to a quarter of the rows; all that lie beyond repeat the last.
  T5BucketSpec spec;
  const int64_t side = 2 * (longest + 1);
  spec.num_buckets = 2 * side;
  spec.max_distance = side;
  spec.bidirectional = true;
  spec.num_heads = layer.num_q_heads;
  constexpr std::string_view kTable = "relative_attention_bias_layer.bias_values.weight";
  layer.weights = {
      {"table",
       {2 * side, spec.num_heads},
       symmetric ? absl::StrCat("row r and row ", side, " + r, r = 0 … ", side - 1, ", are row min(r, ", longest - 1,
                                ") of ", std::string(kTable))
                 : absl::StrCat("row r, r = 0 … ", side - 1, ", is row max(0, ", longest, " - r) of ", std::string(kTable),
                                "; row ", side, " + r is its row min(", longest, " + r, ", 2 * longest - 1, ")"),
       false}};
  if (symmetric) {
    layer.warnings.push_back(
        {model.text.PathOf("bias_symmetric"), absl::StrCat("of fewer than ", longest,
                                                           " frames before the query: the class has no row for more, "
                                                           "and fails; here they have the last")});
  }
  AddSpec(model, std::move(layer), spec, {{"num_buckets", kKey}, {"num_heads", "num_attention_heads"}}, out);
}

void ReadBros(const Model& model, ModelEncoding& out) {
  ReadLearned(model, out);
  LayerEncoding layer;
  layer.layer_type = "boxes";
  const int64_t coordinates = OrOfClass(model, model.text, "dim_bbox", {1, kMaxSide}, 8, layer.defaults);
  SinusoidalSpec spec;
  spec.layout = SinusoidalLayout::kConcatenated;
  constexpr std::string_view kKey = "dim_bbox_sinusoid_emb_1d";
  const int64_t hidden = OrOfClass(model, model.text, "hidden_size", {1, kMaxDim}, model.family->hidden, layer.defaults);
  if (!model.problems->ok()) return;
  const auto given = model.text.Integer(kKey, 2, kMaxDim);
  spec.dim = given.value_or(hidden / 4 / coordinates);
  if (!given) layer.defaults.push_back({model.text.PathOf(kKey), DefaultText(model, absl::StrCat(spec.dim))});
  layer.warnings.push_back(
      {model.text.PathOf(kKey),
       absl::StrCat("the bias of a pair of tokens: positions are the ", coordinates,
                    " differences of their boxes' "
                    "coordinates, times bbox_scale, one row each; rows of one pair side by side go through a projection")});
  AddSpec(model, std::move(layer), spec, {{"dim", kKey}}, out);
}

void ReadMusicFlamingo(const Model& model, ModelEncoding& out) {
  const auto dict = model.text.Object("rope_parameters");
  LayerEncoding layer;
  layer.layer_type = "audio_times";
  const std::string type = dict ? dict->String("rope_type").value_or("default") : "default";
  const double base = dict ? dict->Number("rope_theta").value_or(1200) : 1200;
  const double share = dict ? dict->Number("partial_rotary_factor").value_or(0.2) : 0.2;
  const int64_t longest = OrOfClass(model, model.text, "max_position_embeddings", {1, kMaxSide}, 1200, layer.defaults);
  const int64_t head_dim = OrOfClass(model, model.text, "head_dim", {1, kMaxHeadDim}, 1280, layer.defaults);
  if (!dict)
    layer.defaults.push_back({model.text.PathOf("rope_parameters"), DefaultText(model, "base 1200, a share of 0.2")});
  if (!model.problems->ok()) return;
  if (type != "default") {
    out.layers.push_back(Unserved(model, layer.layer_type, "rope"));
    return;
  }
  if (!(share > 0 && share <= 0.5)) {
    return model.problems->Fail(model.text.PathOf("rope_parameters.partial_rotary_factor"), FormatNumber(share), "0 … 0.5");
  }
  const int64_t pairs = static_cast<int64_t>(static_cast<double>(head_dim) * share) / 2;
  RopeSpec spec;
  spec.head_dim = head_dim;
  spec.rotary_dim = 4 * pairs;
  spec.base = base;
  spec.pairing = Pairing::kInterleaved;
  spec.axes = RopeAxes{{pairs, pairs}, AxisLayout::kReset};
  layer.warnings.push_back(
      {model.text.PathOf("audio_frame_step"),
       absl::StrCat(
           "of the sound's features, at time t in seconds: positions are [-2*pi*t*w, -4*pi^2*t*f], w = the window's "
           "number/",
           longest, ", f = the frame's number in it/", longest)});
  AddSpec(model, std::move(layer), spec, {{"head_dim", "head_dim"}, {"base", "rope_parameters.rope_theta"}}, out);
}

}  // namespace phasor::server
