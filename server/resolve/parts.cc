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

// The rows of the table for a class's own parts.
std::vector<const PartClass*> RowsOf(std::string_view parent_type) {
  const std::string parent = NormalisedFamilyName(parent_type);
  std::vector<const PartClass*> rows;
  for (const PartClass& row : PartClasses()) {
    if (row.parent == parent) rows.push_back(&row);
  }
  return rows;
}

bool IsOfClass(const std::vector<const PartClass*>& rows, std::string_view key) {
  return std::any_of(rows.begin(), rows.end(), [&](const PartClass* row) { return row->key == key; });
}

// Dicts of settings have such names too. A network names its class, is known by the class around it, or has a size.
bool DescribesNetwork(const JsonObject& inner) {
  constexpr std::string_view kSigns[] = {"model_type",     "architectures", "hidden_size",
                                         "d_model",        "n_embd",        "embed_dim",
                                         "width",          "hidden_dim",    "dim",
                                         "model_dim",      "num_layers",    "num_hidden_layers",
                                         "n_layer",        "n_layers",      "encoder_layers",
                                         "decoder_layers", "depth",         "depths",
                                         "rope_theta",     "rope_scaling",  "rope_parameters",
                                         "image_size",     "text_config",   "max_position_embeddings"};
  return std::any_of(std::begin(kSigns), std::end(kSigns), [&](std::string_view sign) { return inner.Has(sign); });
}

// `rows`: those of the class of `object`.
bool IsPart(const JsonObject& object, const std::string& key, const std::vector<const PartClass*>& rows) {
  if (!object.IsObject(key) || IsOneOf(key, std::begin(kNoParts), std::end(kNoParts))) return false;
  if (!std::string_view(key).ends_with(kConfig)) return IsOneOf(key, std::begin(kPlainKeys), std::end(kPlainKeys));
  return IsOfClass(rows, key) || DescribesNetwork(*object.Object(key));
}

std::string NameOf(std::string_view key) {
  if (key.ends_with(kConfig)) key.remove_suffix(kConfig.size());
  return std::string(key);
}

// Whether a language model's configuration says nothing of a network, while the object that it stands in is one: then it is
// not read.
bool SaysNothing(const JsonObject& outer, const JsonObject& inner) {
  return !outer.FirstOf({"hidden_size", "d_model", "n_embd"}).empty() &&
         inner.FirstOf({"model_type", "hidden_size", "d_model", "n_embd", "num_hidden_layers", "num_attention_heads"})
             .empty();
}

}  // namespace

TextPath FindText(const JsonObject& object) {
  TextPath path{{object}, {}};
  // A thinker holds a text_config in its turn.
  for (int depth = 0; depth < kMaxPartDepth; ++depth) {
    const JsonObject at = path.objects.back();
    const auto* key =
        std::find_if(std::begin(kTextKeys), std::end(kTextKeys), [&](std::string_view wrapper) { return at.Has(wrapper); });
    const auto inner = key == std::end(kTextKeys) ? std::nullopt : at.Object(*key);
    if (!inner || SaysNothing(at, *inner)) break;
    path.keys.emplace_back(*key);
    path.objects.push_back(*inner);
  }
  return path;
}

std::vector<Part> PartsBeside(const TextPath& path, Problems* problems) {
  std::vector<Part> parts;
  for (size_t i = 0; i < path.objects.size(); ++i) {
    const JsonObject& object = path.objects[i];
    Problems quiet;
    const auto rows = RowsOf(object.Reporting(&quiet).String("model_type").value_or(""));
    for (const std::string& key : object.Keys()) {
      if (i < path.keys.size() && key == path.keys[i]) continue;
      const bool of_text = std::find(std::begin(kTextKeys), std::end(kTextKeys), key) != std::end(kTextKeys);
      if (of_text && object.IsObject(key) && SaysNothing(object, *object.Object(key))) {
        if (problems)
          problems->Warn(object.PathOf(key), "not read: it says nothing of a network, and the keys beside it do");
        continue;
      }
      if (static_cast<int>(parts.size()) == kMaxParts) return parts;
      if (problems && object.Has(key) && !object.IsObject(key) && IsOfClass(rows, key)) {
        problems->Warn(object.PathOf(key), "not read: no object, so that it describes no network");
      }
      const bool seen = std::any_of(parts.begin(), parts.end(), [&](const Part& part) { return part.name == NameOf(key); });
      if (!seen && IsPart(object, key, rows)) parts.push_back({NameOf(key), key, *object.Object(key), object});
    }
  }
  return parts;
}

std::string_view ClassOfPart(std::string_view parent_type, std::string_view key) {
  for (const PartClass* row : RowsOf(parent_type)) {
    if (row->key == key) return row->model_type;
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
