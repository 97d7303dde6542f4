#include "server/resolve/model_sizes.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/size_names.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxVocabulary = int64_t{1} << 31;
constexpr std::string_view kVocabularyKeys[] = {"vocab_size", "n_vocab"};

struct Size {
  Names names;
  int64_t least, most;
};
// Stacks of layers, each with a key of its own. One that is not there has none: half of an encoder-decoder by itself.
constexpr std::string_view kStackKeys[] = {"encoder_layers", "decoder_layers", "num_encoder_layers", "num_decoder_layers"};
constexpr Size kSizes[] = {
    {kHiddenKeys, 1, kMaxModelWidth},
    {kHeadKeys, 1, kMaxHeads},
    {kKvHeadKeys, 1, kMaxHeads},
    // GLM-5's class writes 0, and has two widths of other names.
    {kHeadDimKeys, 0, kMaxHeadDim},
    {kLayerKeys, 1, kMaxLayers},
    {kVocabularyKeys, 1, kMaxVocabulary},
};

}  // namespace

void CheckSizes(const Model& model) {
  for (const Size& size : kSizes) {
    const std::string_view key = FirstOf(model.text, size.names);
    if (!key.empty() && model.text.IsNumber(key)) model.text.Integer(key, size.least, size.most);
  }
  for (const std::string_view key : kStackKeys) {
    if (model.text.IsNumber(key)) model.text.Integer(key, 0, kMaxLayers);
  }
}

}  // namespace phasor::server
