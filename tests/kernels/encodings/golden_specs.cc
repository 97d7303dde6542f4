#include "tests/kernels/encodings/golden_specs.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace phasor {
namespace {

using rapidjson::Value;

// The scaling dictionary and the lengths of the language model, wherever the configuration keeps them.
struct Scaling {
  const Value* text;  // config, or config.text_config
  const Value* dict;  // rope_scaling, rope_parameters, or rope_parameters[layer_type]

  const Value* Find(const char* key) const {
    for (const Value* object : {dict, text}) {
      if (object == nullptr) continue;
      const auto member = object->FindMember(key);
      if (member != object->MemberEnd() && !member->value.IsNull()) return &member->value;
    }
    return nullptr;
  }
  double Number(const char* key) const {
    const Value* value = Find(key);
    if (value == nullptr) throw std::runtime_error(std::string("no ") + key);
    return value->GetDouble();
  }
  std::optional<double> MaybeNumber(const char* key) const {
    const Value* value = Find(key);
    return value == nullptr ? std::nullopt : std::optional<double>(value->GetDouble());
  }
  std::vector<double> List(const char* key) const {
    std::vector<double> list;
    for (const Value& v : Find(key)->GetArray()) list.push_back(v.GetDouble());
    return list;
  }
};

Scaling ScalingOf(const Value& config, const Value& expect) {
  Scaling scaling{&config, nullptr};
  if (config.HasMember("text_config")) scaling.text = &config["text_config"];
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    const auto member = scaling.text->FindMember(key);
    if (member == scaling.text->MemberEnd() || !member->value.IsObject()) continue;
    scaling.dict = &member->value;
    if (!expect["layer_type"].IsString()) continue;
    const auto nested = scaling.dict->FindMember(expect["layer_type"].GetString());
    if (nested != scaling.dict->MemberEnd()) scaling.dict = &nested->value;
  }
  return scaling;
}

RopeSchedule ScheduleOf(const std::string& name, const Scaling& s) {
  const char* const kOriginal = "original_max_position_embeddings";
  if (name == "default") return DefaultSchedule{};
  if (name == "linear") return LinearSchedule{s.Number("factor")};
  if (name == "dynamic") {
    return DynamicNtkSchedule{s.Number("factor"), static_cast<int64_t>(s.Number("max_position_embeddings"))};
  }
  if (name == "yarn") {
    const Value* truncate = s.Find("truncate");
    return YarnSchedule{.factor = s.Number("factor"),
                        .original_max_position = static_cast<int64_t>(s.Number(kOriginal)),
                        .beta_fast = s.MaybeNumber("beta_fast"),
                        .beta_slow = s.MaybeNumber("beta_slow"),
                        .truncate = truncate == nullptr ? std::nullopt : std::optional<bool>(truncate->GetBool()),
                        .mscale = s.MaybeNumber("mscale"),
                        .mscale_all_dim = s.MaybeNumber("mscale_all_dim"),
                        .attention_coefficient = {},
                        .log_blend = {},
                        .attention_factor_multiplier = {},
                        .extrapolation_factor = {}};
  }
  if (name == "llama3") {
    return Llama3Schedule{s.Number("factor"), s.Number("low_freq_factor"), s.Number("high_freq_factor"),
                          static_cast<int64_t>(s.Number(kOriginal))};
  }
  if (name == "longrope") {
    return LongRopeSchedule{.short_factor = s.List("short_factor"),
                            .long_factor = s.List("long_factor"),
                            .original_max_position = static_cast<int64_t>(s.Number(kOriginal)),
                            .factor = {},
                            .max_position = static_cast<int64_t>(s.Number("max_position_embeddings")),
                            .short_mscale = s.MaybeNumber("short_mscale"),
                            .long_mscale = s.MaybeNumber("long_mscale")};
  }
  if (name == "proportional") return ProportionalSchedule{s.Number("partial_rotary_factor"), s.MaybeNumber("factor")};
  if (name == "qwen1_ntk") return Qwen1NtkSchedule{static_cast<int64_t>(s.Number("seq_length"))};
  throw std::runtime_error("unknown schedule " + name);
}

EncodingSpec SpecOf(const Value& config, const Value& expect) {
  const std::string kind = expect["kind"].GetString();
  if (kind == "alibi") {
    return AlibiSpec{
        .num_heads = expect["num_heads"].GetInt64(), .max_bias = expect["max_bias"].GetDouble(), .form = {}, .slopes = {}};
  }
  if (kind == "sinusoidal") {
    const bool endpoint = std::string(expect["spacing"].GetString()) == "endpoint_inclusive";
    const bool concat = std::string(expect["layout"].GetString()) == "concat";
    return SinusoidalSpec{.dim = expect["dim"].GetInt64(),
                          .base = expect["base"].GetDouble(),
                          .layout = concat ? SinusoidalLayout::kConcatenated : SinusoidalLayout::kInterleaved,
                          .spacing = endpoint ? SinusoidalSpacing::kEndpointInclusive : SinusoidalSpacing::kPaper,
                          .position_offset = expect["offset"].GetInt64(),
                          .padding_row = expect["padding_row"].IsNull()
                                             ? std::nullopt
                                             : std::optional<int64_t>(expect["padding_row"].GetInt64())};
  }
  const bool interleaved = std::string(expect["pairing"].GetString()) == "interleaved";
  return RopeSpec{.head_dim = expect["head_dim"].GetInt64(),
                  .rotary_dim = expect["rotary_dim"].GetInt64(),
                  .base = expect["base"].GetDouble(),
                  .pairing = interleaved ? Pairing::kInterleaved : Pairing::kHalfSplit,
                  .attention_factor = {},
                  .schedule = ScheduleOf(expect["schedule"].GetString(), ScalingOf(config, expect)),
                  .xpos = {}};
}

}  // namespace

GoldenModels::GoldenModels(const std::string& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".json") files.push_back(file.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& path : files) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    auto document = std::make_unique<rapidjson::Document>();
    // Round-trip exact numbers: the configuration's doubles are the inputs.
    document->Parse<rapidjson::kParseFullPrecisionFlag | rapidjson::kParseNanAndInfFlag>(text.str().c_str());
    if (document->HasParseError()) throw std::runtime_error("cannot parse " + path.string());
    const Value& config = (*document)["config"];
    int index = 0;
    for (const Value& expect : (*document)["expect"].GetArray()) {
      const std::string kind = expect["kind"].GetString();
      const std::string name = path.stem().string() + "/" + std::to_string(index++);
      if (kind != "rope" && kind != "mrope" && kind != "alibi" && kind != "sinusoidal") continue;
      std::optional<int64_t> length;
      if (expect.HasMember("at_length") && !expect["at_length"].IsNull()) length = expect["at_length"].GetInt64();
      entries_.push_back({name, kind, SpecOf(config, expect), length, &expect});
    }
    documents_.push_back(std::move(document));
  }
}

}  // namespace phasor
