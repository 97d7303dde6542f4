#include "server/resolve/model_config.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr size_t kMaxNameLength = 64;  // characters of model_type that are kept

constexpr Family kUnknownFamily{.model_type = "", .read = &ReadUnknown};

std::string Shortened(const std::string& name) {
  return absl::CHexEscape(absl::string_view(name).substr(0, kMaxNameLength));
}

// The part that describes the language model.
JsonObject TextPart(const JsonObject& file) {
  for (const std::string_view wrapper : {"thinker_config", "text_config", "language_config", "llm_config"}) {
    if (!file.IsObject(wrapper)) continue;
    JsonObject inner = *file.Object(wrapper);
    return wrapper == "thinker_config" && inner.IsObject("text_config") ? *inner.Object("text_config") : inner;
  }
  return file;
}

// Which class the file means: the language model's own model_type, the file's, or an architecture's name.
const Family* Choose(const JsonObject& file, const JsonObject& text, std::string& type_name, Problems& problems) {
  std::vector<std::string> names;
  for (const JsonObject* object : {&text, &file}) {
    if (auto name = object->String("model_type"); name && !name->empty()) names.push_back(*name);
  }
  for (const std::string& name : names) {
    type_name = Shortened(name);
    if (const Family* family = FindFamily(name)) return family;
  }
  for (const JsonObject* object : {&text, &file}) {
    for (const std::string& name : object->Strings("architectures").value_or(std::vector<std::string>())) {
      const Family* family = FindFamilyOfArchitecture(name);
      if (names.empty()) type_name = Shortened(name);
      if (!family) continue;
      type_name = std::string(family->model_type);
      problems.Warn(file.PathOf("model_type"), absl::StrCat(names.empty() ? "not given" : "unknown",
                                                            ": taken from "
                                                            "architectures, ",
                                                            Shortened(name)));
      return family;
    }
  }
  if (!names.empty()) type_name = Shortened(names.front());
  if (type_name.empty()) type_name = "unnamed";
  return &kUnknownFamily;
}

void ReadVisionPart(const Model& model, ModelEncoding& out) {
  if (!model.file.IsObject("vision_config")) return;
  if (!model.family->vision_rope) {
    model.problems->Warn("vision_config", "the image tower's positions are not read");
    return;
  }
  LayerEncoding layer;
  layer.layer_type = "vision";
  layer.kind = PositionKind::kUnserved;
  layer.unserved = "vision_rope_2d";
  out.layers.push_back(std::move(layer));
}

}  // namespace

absl::StatusOr<ModelEncoding> ReadModelConfig(std::string_view json) {
  rapidjson::Document document;
  if (absl::Status status = ParseConfig(json, document); !status.ok()) return status;
  Problems problems;
  const JsonObject file(document, "", &problems);
  const JsonObject text = TextPart(file);
  std::string type_name;
  const Family* family = Choose(file, text, type_name, problems);
  const Model model{file, text, family, type_name, &problems};
  ModelEncoding out;
  out.model_type = Shortened(file.String("model_type").value_or(type_name));
  if (problems.ok()) family->read(model, out);
  ReadVisionPart(model, out);
  if (text.Has("dual_chunk_attention_config")) {
    problems.Warn(text.PathOf("dual_chunk_attention_config"),
                  "dual chunk attention pairs other position ids beyond chunk_size; the frequencies are as given");
  }
  if (!problems.ok()) return problems.status();
  out.warnings = problems.TakeWarnings();
  return out;
}

}  // namespace phasor::server
