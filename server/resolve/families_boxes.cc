// UDOP, a reader of pages: biases by distance along the text, beside biases by distance between the boxes of words.
#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/needed_weights.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMostBuckets = 65536;
constexpr size_t kMostBiases = 16;
constexpr int64_t kMostDistance = (int64_t{1} << 31) - 1;

// Boxes lie at thousandths of the page, those of patches at i/patches; means of two edges lie at halves of both. Positions
// are whole on a grid of all of them, on which the class's factor is whole too.
int64_t PageGrid(const Model& model, int64_t factor, std::vector<Note>& defaults) {
  constexpr int64_t kSide = int64_t{1} << 15;
  const int64_t image = OrOfClass(model, model.text, "image_size", {1, kSide}, 224, defaults);
  const int64_t patch = OrOfClass(model, model.text, "patch_size", {1, kSide}, 16, defaults);
  const int64_t patches = std::max<int64_t>(1, image / patch);
  return std::lcm(std::lcm<int64_t, int64_t>(2000, 2 * patches), factor);
}

void AddUdopBias(const Model& model, const JsonObject& bias, size_t index, ModelEncoding& out) {
  const std::string type = bias.String("type").value_or("");
  if (type != "1d" && type != "horizontal" && type != "vertical") {
    return model.problems->Fail(bias.PathOf("type"), type.empty() ? "nothing" : absl::StrCat("\"", type.substr(0, 48), "\""),
                                "1d, horizontal, vertical");
  }
  const bool text = type == "1d";
  LayerEncoding layer;
  FillFacts(model, 0, layer);
  layer.layer_type = absl::StrCat("encoder.", type);
  layer.softmax_scale = 1;  // the class does not scale q·k
  T5BucketSpec spec;
  spec.num_buckets = OrOfClass(model, bias, "relative_attention_num_buckets", {1, kMostBuckets}, 32, layer.defaults);
  spec.max_distance = OrOfClass(model, bias, "max_distance", {1, kMostDistance}, text ? 128 : 100, layer.defaults);
  spec.bidirectional = bias.Bool("bidirectional").value_or(true);
  spec.num_heads = layer.num_q_heads;
  if (!text) {
    constexpr int64_t kLargestFactor = 10000;
    const int64_t factor = OrOfClass(model, bias, "scaling_factor", {1, kLargestFactor}, 100, layer.defaults);
    const int64_t grid = PageGrid(model, factor, layer.defaults);
    spec.distance_divisor = grid / factor;
    layer.warnings.push_back(
        {bias.PathOf("type"),
         absl::StrCat("positions are ", type == "horizontal" ? "(x0 + x1)/2" : "(y0 + y1)/2",
                      " of the tokens' boxes, which lie in 0 … 1, times ", grid,
                      ": whole numbers for boxes in thousandths and for patches. The class cuts distances times ", factor,
                      " to whole ones, in float32, where a product that is whole may come out one below")});
  }
  layer.weights = {
      {"table",
       {*spec.num_buckets, spec.num_heads},
       absl::StrCat("encoder.relative_bias.biases.", index, ".relative_attention_bias.weight, which all layers share"),
       false}};
  layer.warnings.push_back({bias.PathOf("type"), "one of several: the encoder adds them up"});
  if (bias.IsTrue("prefix_bucket")) {
    layer.warnings.push_back(
        {bias.PathOf("prefix_bucket"),
         "between a prefix (tokens with negative boxes) and the rest the class reads two more rows: add them "
         "there instead"});
  }
  if (bias.IsTrue("augmentation")) {
    layer.warnings.push_back(
        {bias.PathOf("augmentation"), "while training the class multiplies distances by a random number"});
  }
  AddSpec(model, std::move(layer), spec,
          {{"num_buckets", "relative_bias_args"}, {"max_distance", "relative_bias_args"}, {"num_heads", "num_heads"}}, out);
}

}  // namespace

void ReadUdop(const Model& model, ModelEncoding& out) {
  constexpr std::string_view kBiases = "relative_bias_args";
  ModelEncoding as_t5;
  ReadT5(model, as_t5);
  if (!model.text.Has(kBiases)) {
    // The class's own list has all three.
    model.problems->Warn(model.text.PathOf(kBiases),
                         "is missing: read as 1d, horizontal and vertical, the default of the class");
    for (size_t i = 0; i < 3; ++i) {
      rapidjson::Document entry(rapidjson::kObjectType);
      constexpr const char* kTypes[] = {"1d", "horizontal", "vertical"};
      entry.AddMember("type", rapidjson::StringRef(kTypes[i]), entry.GetAllocator());
      AddUdopBias(model, JsonObject(entry, model.text.PathOf(kBiases), model.problems), i, out);
    }
  } else if (const auto biases = model.text.Objects(kBiases, kMostBiases)) {
    for (size_t i = 0; i < biases->size() && model.problems->ok(); ++i) AddUdopBias(model, (*biases)[i], i, out);
  }
  // The decoder has no boxes: T5's buckets.
  for (LayerEncoding& layer : as_t5.layers) {
    if (layer.layer_type == "decoder") out.layers.push_back(std::move(layer));
  }
}

}  // namespace phasor::server
