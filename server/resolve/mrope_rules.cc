#include "server/resolve/mrope_rules.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"

namespace phasor::server {
namespace {

using Layout = MropeRule::Layout;

struct ClassRule {
  std::string_view family;  // of the language model
  Layout layout;
};

// By transformers 5.24.0, get_rope_index of each class.
constexpr ClassRule kRules[] = {
    {"qwen2vl", Layout::kQwen2Vl},      {"qwen25vl", Layout::kQwen25Vl},   {"qwen25omni", Layout::kQwen25Vl},
    {"qwen3vl", Layout::kQwen3Vl},      {"qwen3vlmoe", Layout::kQwen3Vl},  {"qwen35", Layout::kQwen3Vl},
    {"qwen35moe", Layout::kQwen3Vl},    {"qwen4exp", Layout::kQwen3Vl},    {"glm4v", Layout::kQwen3Vl},
    {"glm4vmoe", Layout::kQwen3Vl},     {"glmocr", Layout::kQwen3Vl},      {"cosmos3edge", Layout::kQwen3Vl},
    {"ernie45vlmoe", Layout::kQwen2Vl}, {"paddleocrvl", Layout::kQwen2Vl}, {"hunyuanvl", Layout::kHunyuanVl},
    {"hyv4vl", Layout::kQwen3Vl},       {"glmimage", Layout::kQwen2Vl},
};

// MiniCPM-V 4.7 has Qwen's language model and a way of its own to make ids.
constexpr std::string_view kCanvas = "minicpmv47";

// The configuration of the image tower, and the one that holds it.
struct Tower {
  std::optional<JsonObject> holder, vision;
};

Tower FindTower(const Model& model) {
  for (const std::string_view key : {"", "thinker_config"}) {
    const auto holder = key.empty() ? std::optional(model.file) : model.file.Object(key);
    if (holder && holder->Has("vision_config")) return {holder, holder->Object("vision_config")};
  }
  return {model.file, std::nullopt};
}

// A number of the object, or the class's, with a note.
double Take(const Model& model, const std::optional<JsonObject>& object, std::string_view key, double of_class,
            LayerEncoding& layer) {
  if (object && object->Has(key)) return object->Number(key).value_or(of_class);
  const std::string path = object ? object->PathOf(key) : absl::StrCat("vision_config.", std::string(key));
  layer.defaults.push_back({path, DefaultText(model, FormatNumber(of_class))});
  return of_class;
}

int64_t TakeWhole(const Model& model, const std::optional<JsonObject>& object, std::string_view key, int64_t of_class,
                  LayerEncoding& layer) {
  constexpr int64_t kMost = 64;
  const double value = Take(model, object, key, static_cast<double>(of_class), layer);
  if (value >= 1 && value <= kMost && value == static_cast<double>(static_cast<int64_t>(value))) {
    return static_cast<int64_t>(value);
  }
  model.problems->Fail(object->PathOf(key), FormatNumber(value), absl::StrCat("a whole number, 1 … ", kMost));
  return of_class;
}

// Published files and classes write the rate of time in two places.
void TakeRate(const Model& model, const Tower& tower, MropeRule& rule, LayerEncoding& layer) {
  const bool omni = model.family->model_type == "qwen25omni";
  const double rate = omni ? Take(model, tower.holder, "position_id_per_seconds", 25, layer)
                           : Take(model, tower.vision, "tokens_per_second", 4, layer);
  if (!(rate >= 0)) {
    const auto& object = omni ? tower.holder : tower.vision;
    model.problems->Fail(object->PathOf(omni ? "position_id_per_seconds" : "tokens_per_second"), FormatNumber(rate),
                         "a finite number, at least 0");
  }
  rule.tokens_per_second = rate;
  if (!omni) return;
  layer.warnings.push_back({tower.holder->PathOf("position_id_per_seconds"),
                            "sound counts like text; with use_audio_in_video its tokens come between the frames, in chunks "
                            "of seconds_per_chunk: give them as text segments in that order"});
}

}  // namespace

void SetMropeRule(const Model& model, size_t sections, LayerEncoding& layer) {
  const std::string_view family = model.family->model_type;
  const auto* known =
      std::find_if(std::begin(kRules), std::end(kRules), [&](const ClassRule& rule) { return rule.family == family; });
  if (NormalisedFamilyName(model.file.String("model_type").value_or("")) == kCanvas) {
    layer.warnings.push_back(
        {model.text.PathOf("model_type"),
         "the class lays an image and its slices on one canvas: time stands still at the canvas's start, a slice's tokens "
         "have "
         "their rows and columns on it, the overview's are spread evenly over it and rounded, the tags around both stand at "
         "its corners, and text goes on max(height, width) + 1 after its start. No layout says that: give the ids "
         "themselves"});
    return;
  }
  // Hunyuan's files name the language model alone.
  const bool hunyuan = sections == 4 || family.starts_with("hunyuanvl");
  if (known == std::end(kRules) && !hunyuan) {
    layer.warnings.push_back(
        {model.text.PathOf("model_type"),
         absl::StrCat("how class ", model.type_name, " makes positions from images is not known: give the ids themselves")});
    return;
  }
  const Tower tower = FindTower(model);
  MropeRule rule;
  rule.layout = known == std::end(kRules) ? Layout::kHunyuanVl : known->layout;
  rule.spatial_merge = family == "glmimage" ? 1 : TakeWhole(model, tower.vision, "spatial_merge_size", 2, layer);
  if (rule.layout == Layout::kHunyuanVl) rule.axes = static_cast<int64_t>(sections);
  if (family == "ernie45vlmoe") rule.temporal_merge = TakeWhole(model, tower.vision, "temporal_merge_size", 2, layer);
  if (rule.layout == Layout::kQwen25Vl) TakeRate(model, tower, rule, layer);
  if (family == "hyv4vl") {
    layer.warnings.push_back(
        {model.text.PathOf("model_type"),
         absl::StrCat("every row of a frame ends in one more token: give each frame, of videos too, as an "
                      "image that is ",
                      rule.spatial_merge, " patches wider than it is")});
  } else if (family == "glmimage") {
    layer.warnings.push_back(
        {model.text.PathOf("model_type"),
         "grids of images that are to be made follow the prompt, the last first, as images; then the end "
         "marker as text"});
  } else if (rule.layout == Layout::kQwen2Vl || rule.layout == Layout::kQwen25Vl) {
    layer.warnings.push_back({model.text.PathOf("model_type"),
                              "text after a video goes on at its largest position + 1; transformers 5 goes on "
                              "max(height, width)/spatial_merge_size after its start, also where the frames reach further"});
  }
  if (model.problems->ok()) layer.mrope = rule;
}

}  // namespace phasor::server
