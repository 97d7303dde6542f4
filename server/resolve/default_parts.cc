#include <algorithm>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/family.h"
#include "server/resolve/parts.h"

namespace phasor::server {
namespace {

using rapidjson::Value;

std::string TypeOf(const Value& object) {
  const auto found = object.FindMember("model_type");
  return found != object.MemberEnd() && found->value.IsString() ? std::string(found->value.GetString()) : std::string();
}

bool NamesGrok(const Value& object) {
  const auto found = object.FindMember("architectures");
  if (found == object.MemberEnd() || !found->value.IsArray()) return false;
  return std::any_of(found->value.Begin(), found->value.End(), [](const Value& name) {
    return name.IsString() && std::string_view(name.GetString(), name.GetStringLength()).starts_with("Grok");
  });
}

// Whether keys of a language model stand in the object itself, as in files older than the class's parts.
bool HoldsText(const Value& object) {
  constexpr const char* kKeys[] = {"hidden_size",  "num_hidden_layers", "num_attention_heads", "d_model",       "n_embd",
                                   "rope_theta",   "rope_scaling",      "rope_parameters",     "layer_types",   "head_dim",
                                   "hidden_sizes", "text_config",       "language_config",     "llm_config",    "vlm_config",
                                   "vocab_size",   "decoder_layers",    "encoder_layers",      "thinker_config"};
  return std::any_of(std::begin(kKeys), std::end(kKeys), [&](const char* key) { return object.HasMember(key); });
}

bool IsText(std::string_view key) {
  return key == "text_config" || key == "language_config" || key == "llm_config" || key == "thinker_config" ||
         key == "decoder" || key == "encoder";
}

// Parts whose own keys are read together with these: what a class gives its part also where the file has that part in
// pieces (transformers 5.24.0, __post_init__ of their configurations).
constexpr PartClass kMerged[] = {
    {"voxtral", "text_config", "llama",
     R"({"hidden_size":3072,"num_hidden_layers":30,"num_key_value_heads":8,"max_position_embeddings":131072,)"
     R"("rope_theta":1e8,"head_dim":128})"},
    {"voxtralrealtime", "text_config", "voxtral_realtime_text",
     R"({"hidden_size":3072,"num_hidden_layers":26,"num_attention_heads":32,"num_key_value_heads":8,)"
     R"("max_position_embeddings":131072,"rope_theta":1e6,"head_dim":128})"},
    {"glmasr", "text_config", "llama",
     R"({"hidden_size":2048,"num_hidden_layers":28,"num_attention_heads":16,"num_key_value_heads":4,)"
     R"("max_position_embeddings":8192})"},
    {"cohereasr", "encoder_config", "parakeet_encoder",
     R"({"hidden_size":1280,"num_hidden_layers":48,"num_attention_heads":8,"max_position_embeddings":5000})"},
    {"peaudio", "text_config", "modernbert", R"({"hidden_size":1024,"num_hidden_layers":22,"num_attention_heads":16})"},
    {"peaudiovideo", "text_config", "modernbert", R"({"hidden_size":1024,"num_hidden_layers":22,"num_attention_heads":16})"},
    {"pevideo", "text_config", "modernbert", R"({"hidden_size":1024,"num_hidden_layers":22,"num_attention_heads":16})"},
};

bool HasBase(const Value& object) {
  const auto dict = object.FindMember("rope_parameters");
  return object.HasMember("rope_theta") ||
         (dict != object.MemberEnd() && dict->value.IsObject() && dict->value.HasMember("rope_theta"));
}

class Adder {
 public:
  Adder(rapidjson::Document& document, Problems& problems) : document_(document), problems_(problems) {}

  // `type`: the class of `object`.
  void Visit(Value& object, std::string_view type, const std::string& path, int depth) {
    if (depth > kMaxPartDepth || type.empty()) return;
    const std::string name = NormalisedFamilyName(type);
    const auto parts = PartClasses();
    // A part whose name is that of the whole but for "text" has none of the whole's parts.
    if (type.ends_with("text") &&
        std::any_of(parts.begin(), parts.end(), [&](const PartClass& row) { return row.model_type == type; })) {
      return;
    }
    const bool holds_text = HoldsText(object);
    for (const PartClass& row : parts) {
      if (row.parent != name) continue;
      const Value key(row.key.data(), static_cast<rapidjson::SizeType>(row.key.size()));
      const std::string at = path.empty() ? std::string(row.key) : absl::StrCat(path, ".", std::string(row.key));
      if (!object.HasMember(key)) {
        if ((holds_text && IsText(row.key)) || !FindFamily(row.model_type) || added_ == kMaxParts) continue;
        Add(object, row, at);
      } else if (object[key].IsObject()) {
        Merge(object[key], name, row.key, at);
      }
      Value& member = object[key];
      if (!member.IsObject()) continue;
      const std::string own = TypeOf(member);
      // Older files name the whole where they should name the part.
      Visit(member, own.empty() || own == type ? row.model_type : own, at, depth + 1);
    }
  }

 private:
  void Merge(Value& part, std::string_view parent, std::string_view key, const std::string& at) {
    const auto* row = std::find_if(std::begin(kMerged), std::end(kMerged),
                                   [&](const PartClass& each) { return each.parent == parent && each.key == key; });
    if (row == std::end(kMerged)) return;
    auto& allocator = document_.GetAllocator();
    rapidjson::Document defaults(&allocator);
    if (!ParseConfig(row->defaults, defaults).ok()) return;
    std::string added;
    for (auto& member : defaults.GetObject()) {
      const bool base = std::string_view(member.name.GetString()) == "rope_theta" && HasBase(part);
      if (base || part.HasMember(member.name)) continue;
      absl::StrAppend(&added, added.empty() ? "" : ", ", member.name.GetString(), " ",
                      FormatNumber(member.value.GetDouble()));
      part.AddMember(member.name, member.value, allocator);
    }
    if (!added.empty())
      problems_.Warn(at, absl::StrCat("not given: ", added, " (defaults of class ", std::string(parent), ")"));
  }

  void Add(Value& object, const PartClass& row, const std::string& at) {
    auto& allocator = document_.GetAllocator();
    Value part(rapidjson::kObjectType);
    if (!row.defaults.empty()) {
      rapidjson::Document defaults(&allocator);
      if (!ParseConfig(row.defaults, defaults).ok()) return;
      part = static_cast<Value&>(defaults);
    }
    const std::string_view type = row.model_type;
    part.AddMember("model_type", Value(type.data(), static_cast<rapidjson::SizeType>(type.size()), allocator), allocator);
    object.AddMember(Value(row.key.data(), static_cast<rapidjson::SizeType>(row.key.size()), allocator), part, allocator);
    problems_.Warn(at, absl::StrCat("not given: read as the default of the class, ", std::string(type)));
    ++added_;
  }

  rapidjson::Document& document_;
  Problems& problems_;
  int added_ = 0;
};

}  // namespace

void AddDefaultParts(rapidjson::Document& document, Problems& problems) {
  // Grok 2 was published as "git", whose tower it does not have.
  if (TypeOf(document) == "git" && NamesGrok(document)) return;
  Adder(document, problems).Visit(document, TypeOf(document), "", 0);
}

}  // namespace phasor::server
