#include "server/resolve/parts.h"

#include <algorithm>
#include <iterator>

#include "server/resolve/family.h"

namespace phasor::server {
namespace {

constexpr std::string_view kTextKeys[] = {"thinker_config", "text_config", "language_config", "llm_config", "vlm_config"};
constexpr std::string_view kConfig = "_config";
// Objects whose keys end in _config and that describe no network, or describe a layer of the same one.
constexpr std::string_view kNoParts[] = {"quantization_config", "generation_config",           "attn_config",
                                         "ffn_config",          "dual_chunk_attention_config", "pretrained_config",
                                         "peft_config",         "task_specific_params"};
// Parts whose key has no such ending.
constexpr std::string_view kPlainKeys[] = {"encoder", "decoder", "generator", "question_encoder"};

bool IsOneOf(std::string_view key, const std::string_view* begin, const std::string_view* end) {
  return std::find(begin, end, key) != end;
}

// Dicts of settings have such names too. A network names its class, is known by the class around it, or has a size.
bool DescribesNetwork(const JsonObject& object, const std::string& key) {
  const JsonObject inner = *object.Object(key);
  if (inner.Has("model_type") || inner.Has("architectures")) return true;
  constexpr std::string_view kSizes[] = {
      "hidden_size",     "d_model",    "n_embd",         "embed_dim",         "width",
      "hidden_dim",      "dim",        "model_dim",      "num_hidden_layers", "num_layers",
      "n_layer",         "n_layers",   "encoder_layers", "decoder_layers",    "depth",
      "depths",          "rope_theta", "rope_scaling",   "image_size",        "max_position_embeddings",
      "rope_parameters", "text_config"};
  Problems quiet;
  const std::string parent = object.Reporting(&quiet).String("model_type").value_or("");
  return std::any_of(std::begin(kSizes), std::end(kSizes), [&](std::string_view size) { return inner.Has(size); }) ||
         !ClassOfPart(parent, key).empty();
}

bool IsPart(const JsonObject& object, const std::string& key) {
  if (!object.IsObject(key) || IsOneOf(key, std::begin(kNoParts), std::end(kNoParts))) return false;
  if (std::string_view(key).ends_with(kConfig)) return DescribesNetwork(object, key);
  return IsOneOf(key, std::begin(kPlainKeys), std::end(kPlainKeys));
}

std::string NameOf(std::string_view key) {
  if (key.ends_with(kConfig)) key.remove_suffix(kConfig.size());
  return std::string(key);
}

}  // namespace

TextPath FindText(const JsonObject& object) {
  TextPath path{{object}, {}};
  // A thinker holds a text_config in its turn.
  for (int depth = 0; depth < kMaxPartDepth; ++depth) {
    const JsonObject at = path.objects.back();
    const auto* key = std::find_if(std::begin(kTextKeys), std::end(kTextKeys),
                                   [&](std::string_view wrapper) { return at.IsObject(wrapper); });
    if (key == std::end(kTextKeys)) break;
    path.keys.emplace_back(*key);
    path.objects.push_back(*at.Object(*key));
  }
  return path;
}

std::vector<Part> PartsBeside(const TextPath& path) {
  std::vector<Part> parts;
  for (size_t i = 0; i < path.objects.size(); ++i) {
    const JsonObject& object = path.objects[i];
    for (const std::string& key : object.Keys()) {
      if (i < path.keys.size() && key == path.keys[i]) continue;
      if (static_cast<int>(parts.size()) == kMaxParts) return parts;
      const bool seen = std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return part.name == NameOf(key); });
      if (!seen && IsPart(object, key)) parts.push_back({NameOf(key), key, *object.Object(key), object});
    }
  }
  return parts;
}

std::string_view ClassOfPart(std::string_view parent_type, std::string_view key) {
  const std::string parent = NormalisedFamilyName(parent_type);
  for (const PartClass& part : PartClasses()) {
    if (part.parent == parent && part.key == key) return part.model_type;
  }
  return {};
}

std::string JoinPart(std::string_view outer, std::string_view inner) {
  if (outer.empty() || inner.empty()) return std::string(outer.empty() ? inner : outer);
  std::string joined(outer);
  joined.append(".").append(inner);
  return joined;
}

}  // namespace phasor::server
