// Classes of sound that convolve their features before the layers. The convolution has no position ids and no table: what it
// adds at a frame depends on the features around it, so that no encoding of positions can stand for it. It is named with its
// numbers, and the answer stays without a spec.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 20;
constexpr std::string_view kGroups = "num_conv_pos_embedding_groups";

// Data2Vec has several layers with a kernel of their own; elsewhere the kernel is the number of embeddings.
bool HasLayers(const Model& model) { return model.family->model_type == "data2vecaudio"; }
std::string_view KernelKey(const Model& model) {
  return HasLayers(model) ? "conv_pos_kernel_size" : "num_conv_pos_embeddings";
}

}  // namespace

std::string ConvolutionText(const Model& model) {
  const auto read = [&](std::string_view key, int64_t of_class) {
    return model.text.Integer(key, 1, kMostExtent).value_or(of_class);
  };
  const int64_t kernel = read(KernelKey(model), HasLayers(model) ? 19 : 128);
  const int64_t layers = HasLayers(model) ? read("num_conv_pos_embeddings", 5) : 1;
  std::string text = absl::StrCat("kernel ", kernel, ", groups ", read(kGroups, 16), ", layers ", layers);
  const bool squeezes = model.family->model_type.starts_with("sew");  // SEW and SEW-D, whose default is 2
  const int64_t stride = squeezes || model.text.Has("squeeze_factor") ? read("squeeze_factor", squeezes ? 2 : 1) : 1;
  if (stride != 1) absl::StrAppend(&text, ", stride ", stride);
  return text;
}

void ReadConvolution(const Model& model, ModelEncoding& out) {
  LayerEncoding layer = Unserved(model, "", "positional_convolution");
  layer.warnings.push_back(
      {model.text.PathOf(KernelKey(model)),
       absl::StrCat("a positional convolution: no position encoding that a table could hold, but a layer "
                    "over the features, which are added to what it makes of them; ",
                    ConvolutionText(model))});
  out.layers.push_back(std::move(layer));
}

void NoteConvolution(const Model& model, ModelEncoding& out) {
  if (out.layers.empty()) return;
  out.layers.front().warnings.push_back(
      {model.text.PathOf(KernelKey(model)),
       absl::StrCat("a positional convolution over the features comes before the layers; it is no position encoding and not "
                    "part of this answer: ",
                    ConvolutionText(model))});
}

}  // namespace phasor::server
