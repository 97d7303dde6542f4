// Classes that encode the places of an image or a recording by coordinates: DETR and its kin, SAM, matchers, boxes of a
// page.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr double kExtentEpsilon = 1e-6;

double NumberOf(const Model& model, std::string_view key, double of_class, std::vector<Note>& defaults) {
  const auto given = model.file.Number(key);
  if (!given) defaults.push_back({model.file.PathOf(key), DefaultText(model, FormatNumber(of_class))});
  return given.value_or(of_class);
}

// DETR's sinusoids: rows of the map, then columns, sine and cosine in turn, from `start` to 2π.
GridSinusoidalSpec DetrSines(double start) {
  GridSinusoidalSpec spec;
  spec.order = GridOrder::kAsListed;
  spec.layout = GridLayout::kInterleaved;
  spec.start = start;
  spec.extent_epsilon = kExtentEpsilon;
  spec.scale = kTwoPi;
  return spec;
}

// The same at coordinates that the class computes itself.
GridSinusoidalSpec SinesOfPoints(int64_t dim, int64_t axes) {
  GridSinusoidalSpec spec;
  spec.order = GridOrder::kAsListed;
  spec.layout = GridLayout::kInterleaved;
  spec.dim = dim;
  spec.columns.assign(static_cast<size_t>(axes), dim / axes);
  return spec;
}

// Adds sinusoids over a map whose size only the image decides. `key` is where their width comes from.
void AddMap(const Model& model, LayerEncoding layer, const GridSinusoidalSpec& spec, std::string_view key,
            ModelEncoding& out) {
  const std::string path = model.file.PathOf(key);
  layer.warnings.push_back({path,
                            "the image decides the size of the feature map: add grid [height, width] to the spec, and take "
                            "rows 0 … height*width - 1"});
  if (spec.extent_epsilon) {
    layer.warnings.push_back(
        {path,
         absl::StrCat("with a padding mask leave out the grid, and give for a point the coordinates [y, x]: y = (ones of "
                      "the mask in its column, down to it",
                      *spec.start == 1 ? "" : ", less 0.5",
                      ") / (all ones of its column + 1e-6) * scale, and x likewise along its row")});
  }
  AddSpec(model, std::move(layer), spec,
          {{"dim", key},
           {"base", "positional_embedding_temperature"},
           {"axis_bases[0]", "temperature_height"},
           {"axis_bases[1]", "temperature_width"},
           {"scale", "sine_position_embedding_scale"}},
          out);
}

// A width's map by the rule of DETR. `field`: the key's path from the file, where that is not the key.
void AddDetrMap(const Model& model, std::string layer_type, const JsonObject& object, std::string_view key, int64_t of_class,
                ModelEncoding& out, const std::string& field = {}) {
  LayerEncoding layer;
  layer.layer_type = std::move(layer_type);
  GridSinusoidalSpec spec = DetrSines(1);
  spec.dim = OrOfClass(model, object, key, {1, kMaxDim}, of_class, layer.defaults);
  if (model.problems->ok()) AddMap(model, std::move(layer), spec, field.empty() ? key : field, out);
}

// Whether position_embedding_type says sines; otherwise its tables are added.
bool SaysSines(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kKey = "position_embedding_type";
  const std::string type = model.file.String(kKey).value_or("sine");
  if (type == "sine") return true;
  if (type != "learned") {
    model.problems->Fail(model.file.PathOf(kKey), type, "sine, learned");
    return false;
  }
  std::vector<Note> defaults;
  const int64_t width = OrOfClass(model, model.file, "d_model", {1, kMaxDim}, model.family->hidden, defaults);
  for (const char* name : {"column", "row"}) {
    LearnedSpec spec;
    spec.num_positions = 50;
    spec.dim = width / 2;
    AddLearned(model, name, spec, out);
    if (!model.problems->ok()) return false;
    out.layers.back().defaults.insert(out.layers.back().defaults.end(), defaults.begin(), defaults.end());
    out.layers.back().warnings.push_back(
        {model.file.PathOf(kKey), "of a point the row of its column's table comes first, then that of its row's"});
  }
  return false;
}

void ReadDetrFrom(const Model& model, double start, std::optional<double> base, ModelEncoding& out) {
  if (!SaysSines(model, out)) return;
  LayerEncoding layer;
  if (base) layer.layer_type = "feature_map";  // beside a language model
  GridSinusoidalSpec spec = DetrSines(start);
  spec.base = base;
  if (base) spec.base = NumberOf(model, "positional_embedding_temperature", *base, layer.defaults);
  const std::string_view given = model.file.FirstOf({"d_model", "hidden_size"});
  const std::string_view key = given.empty() ? "d_model" : given;
  spec.dim = OrOfClass(model, model.file, key, {1, kMaxDim}, model.family->hidden, layer.defaults);
  if (model.problems->ok()) AddMap(model, std::move(layer), spec, key, out);
}

// Random features of points: [sin, cos] of a matrix of the checkpoint.
void AddPoints(const Model& model, std::string layer_type, int64_t pairs, bool radians, std::string source,
               std::string_view key, std::string places, std::vector<Note> defaults, ModelEncoding& out) {
  if (!model.problems->ok()) return;
  if (pairs < 1) return model.problems->Fail(model.file.PathOf(key), "less than 2", "an even width of features");
  LayerEncoding layer;
  layer.layer_type = std::move(layer_type);
  layer.defaults = std::move(defaults);
  GaussianFourierSpec spec;
  spec.log = false;
  spec.radians = radians;
  layer.weights = {{"weight", {2, pairs}, std::move(source), true}};
  layer.warnings.push_back({model.file.PathOf(key), std::move(places)});
  AddSpec(model, std::move(layer), spec, {{"weight", key}}, out);
}

constexpr std::string_view kSamPlaces =
    "positions are [2x - 1, 2y - 1] of a pixel's middle, x and y divided by the image's width and height; those of the "
    "image are the middles of its grid's cells";

// The points of a class of SAM: `pairs_per` columns of the key's width make a pair.
void AddSamPoints(const Model& model, const JsonObject& object, std::string_view outer, std::string_view key,
                  int64_t of_class, int64_t pairs_per, std::string layer_type, ModelEncoding& out) {
  std::vector<Note> defaults;
  const int64_t width = OrOfClass(model, object, key, {1, kMaxDim}, of_class, defaults);
  const std::string field = absl::StrCat(absl::string_view(outer.data(), outer.size()), outer.empty() ? "" : ".",
                                         absl::string_view(key.data(), key.size()));
  AddPoints(model, std::move(layer_type), width / pairs_per, false,
            "shared_image_embedding.positional_embedding (prompt_encoder.shared_embedding is the same)", field,
            std::string(kSamPlaces), std::move(defaults), out);
}

}  // namespace

void ReadDetr(const Model& model, ModelEncoding& out) { ReadDetrFrom(model, 1, std::nullopt, out); }
void ReadDeformableDetr(const Model& model, ModelEncoding& out) { ReadDetrFrom(model, 0.5, std::nullopt, out); }
void ReadGroundingDino(const Model& model, ModelEncoding& out) { ReadDetrFrom(model, 1, 20.0, out); }

void ReadDabDetr(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  GridSinusoidalSpec spec = DetrSines(1);
  const double height = NumberOf(model, "temperature_height", 20, layer.defaults);
  const double width = NumberOf(model, "temperature_width", 20, layer.defaults);
  if (height == width) {
    spec.base = height;
  } else {
    spec.axis_bases = {height, width};
  }
  spec.scale = model.file.Number("sine_position_embedding_scale").value_or(kTwoPi);
  spec.dim = OrOfClass(model, model.file, "hidden_size", {1, kMaxDim}, model.family->hidden, layer.defaults);
  if (model.problems->ok()) AddMap(model, std::move(layer), spec, "hidden_size", out);
}

void ReadRtDetr(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  GridSinusoidalSpec spec;
  spec.order = GridOrder::kAsListed;
  spec.base = NumberOf(model, "positional_encoding_temperature", 10000, layer.defaults);
  spec.dim = OrOfClass(model, model.file, "encoder_hidden_dim", {1, kMaxDim}, 256, layer.defaults);
  if (!(*spec.base > 0)) {
    return model.problems->Fail(model.file.PathOf("positional_encoding_temperature"), FormatNumber(*spec.base), "> 0");
  }
  AddMap(model, std::move(layer), spec, "encoder_hidden_dim", out);
}

void ReadMaskFormer(const Model& model, ModelEncoding& out) {
  const auto decoder = model.file.Object("decoder_config");
  if (!decoder) return AddDetrMap(model, "transformer", model.file, "d_model", 256, out);
  const std::string_view given = decoder->FirstOf({"d_model", "hidden_size"});
  const std::string key(given.empty() ? "d_model" : given);
  AddDetrMap(model, "transformer", *decoder, key, 256, out, absl::StrCat("decoder_config.", key));
}

void ReadMask2Former(const Model& model, ModelEncoding& out) {
  AddDetrMap(model, "pixel_decoder", model.file, "feature_size", 256, out);
  AddDetrMap(model, "transformer", model.file, "hidden_dim", 256, out);
}

void ReadOneFormer(const Model& model, ModelEncoding& out) {
  AddDetrMap(model, "pixel_decoder", model.file, "conv_dim", 256, out);
  AddDetrMap(model, "transformer", model.file, "hidden_dim", 256, out);
}

void ReadSamNeck(const Model& model, ModelEncoding& out) {
  AddDetrMap(model, "neck", model.file, "fpn_hidden_size", 256, out);
}

void ReadSamModel(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kName = "shared_image_embedding", kVision = "vision_config", kPrompts = "prompt_encoder_config";
  if (const auto vision = model.file.Object(kVision); vision && vision->Has("num_pos_feats")) {  // SAM, SAM HQ
    return AddSamPoints(model, *vision, kVision, "num_pos_feats", 128, 1, std::string(kName), out);
  }
  const auto prompts = model.file.Object(kPrompts);
  if (!prompts) return AddSamPoints(model, model.file, "", "hidden_size", 256, 2, std::string(kName), out);
  AddSamPoints(model, *prompts, kPrompts, "hidden_size", 256, 2, std::string(kName), out);
}

void ReadSamVideo(const Model& model, ModelEncoding& out) {
  ReadVisionRope(model, out);
  AddDetrMap(model, "memory", model.file, "memory_encoder_output_channels", 64, out);
  if (model.file.Has("perceiver_resampler_hidden_size")) {
    AddDetrMap(model, "perceiver", model.file, "perceiver_resampler_hidden_size", 64, out);
  }
  if (model.problems->ok()) ReadSamModel(model, out);
}

void ReadSamPrompts(const Model& model, ModelEncoding& out) {
  AddSamPoints(model, model.file, "", "hidden_size", 256, 2, "", out);
}

void ReadSam3Geometry(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  const int64_t width = OrOfClass(model, model.file, "hidden_size", {1, kMaxDim}, model.family->hidden, layer.defaults);
  if (!model.problems->ok()) return;
  layer.warnings.push_back({model.file.PathOf("hidden_size"),
                            "positions are [2*pi*y, 2*pi*x] of a point, or of a box's middle, in [0, 1]; a box's height and "
                            "width follow as they are"});
  AddSpec(model, std::move(layer), SinesOfPoints(width, 2), {{"dim", "hidden_size"}}, out);
}

void ReadSam3Decoder(const Model& model, ModelEncoding& out) {
  LayerEncoding layer;
  const int64_t width = OrOfClass(model, model.file, "hidden_size", {1, kMaxDim}, model.family->hidden, layer.defaults);
  if (!model.problems->ok()) return;
  layer.warnings.push_back({model.file.PathOf("hidden_size"),
                            "of the queries' boxes: positions are 2*pi times [y, x, width, height] of a box in [0, 1]; rows "
                            "are twice as wide as the model, for a perceptron"});
  AddSpec(model, std::move(layer), SinesOfPoints(2 * width, 4), {{"dim", "hidden_size"}}, out);
}

void ReadLightGlue(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  const int64_t heads = model.Heads(defaults);
  const std::string_view given = model.file.FirstOf({"hidden_size", "descriptor_dim"});
  const std::string_view key = given.empty() ? "descriptor_dim" : given;
  const int64_t width = OrOfClass(model, model.file, key, {1, kMaxDim}, model.family->hidden, defaults);
  if (!model.problems->ok()) return;
  AddPoints(model, "", width / std::max<int64_t>(heads, 1) / 2, true, "positional_encoder.projector.weight, transposed", key,
            "rows are the sines, then the cosines of angles for each pair, at positions [x, y] of normalised keypoints: "
            "self-attention turns interleaved pairs by them; hand them to the rotation as the request's own table of cos "
            "and sin",
            std::move(defaults), out);
}

}  // namespace phasor::server
