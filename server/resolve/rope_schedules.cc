#include "server/resolve/rope_schedules.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/library_readings.h"
#include "server/resolve/library_versions.h"
#include "server/resolve/rope_keys.h"

namespace phasor::server {
namespace {

// What a schedule's reader sees. `dict` is not null.
struct Source {
  const Model& model;
  const RopeRequest& request;
  const JsonObject& dict;
  RopeDraft& draft;

  void Warn(std::string_view key, std::string message) const {
    draft.layer.warnings.push_back({dict.PathOf(key), std::move(message)});
  }
  void Default(std::string_view key, std::string message) const {
    draft.layer.defaults.push_back({dict.PathOf(key), std::move(message)});
  }
  // A number that the schedule cannot do without.
  double Needed(std::string_view key) const {
    if (!dict.Has(key)) {
      model.problems->Fail(dict.PathOf(key), dict.IsNull(key) ? "null" : "nothing", "a finite number > 0");
      return 1;
    }
    return dict.Number(key).value_or(1);
  }
};

// Fails for want of the model's maximum, by the key that the file has it under: −1, which is no length, may stand there.
void FailLength(const Source& source, std::string_view allowed) {
  const JsonObject& text = source.model.text;
  const std::string_view key = source.model.MaxPositionKey();
  source.model.problems->Fail(text.PathOf(key.empty() ? "max_position_embeddings" : key),
                              key.empty() ? "nothing" : FormatNumber(text.Number(key).value_or(0)), allowed);
}

// The trained length: in the dict, at the top level (Phi-3), by gpt-oss's own name, or the model's maximum. A top-level one
// goes first, as in the libraries.
int64_t OriginalLength(const Source& source, int64_t class_default = 0) {
  constexpr std::string_view kKey = "original_max_position_embeddings";
  const auto read = [&](const JsonObject& object, std::string_view key) {
    source.draft.key_of["original_max_position"] = object.PathOf(key);
    return object.Integer(key, 1, kMaxLength).value_or(1);
  };
  const JsonObject& text = source.model.text;
  if (text.Has(kKey)) {
    const int64_t top = read(text, kKey);
    if (source.dict.Has(kKey) && source.dict.Integer(kKey, 1, kMaxLength).value_or(top) != top) {
      source.Warn(kKey, absl::StrCat("differs from the top-level value ", top, ", which counts"));
    }
    return top;
  }
  constexpr std::string_view kInitial = "initial_context_length";
  if (source.dict.Has(kKey)) {
    const int64_t given = read(source.dict, kKey);
    if (text.Has(kInitial) && text.Integer(kInitial, 1, kMaxLength).value_or(given) != given) {
      source.draft.layer.warnings.push_back(
          {text.PathOf(kInitial),
           absl::StrCat(text.ValueText(kInitial), " is not read: ", source.dict.PathOf(kKey), " ", given, " counts")});
    }
    return given;
  }
  if (text.Has(kInitial)) return read(text, kInitial);
  if (class_default != 0) {
    source.draft.Take("original_max_position",
                      {source.dict.PathOf(kKey), absl::StrCat(" (default of class ", source.model.type_name, ")")});
    source.Default(kKey, DefaultText(source.model, absl::StrCat(class_default)));
    return class_default;
  }
  const int64_t longest = source.model.MaxPosition();
  if (longest == 0 && !source.model.MaxPositionKey().empty()) {
    FailLength(source, "a whole number, at least 1, as there is no original_max_position_embeddings");
    return 1;
  }
  if (longest == 0) {
    source.model.problems->Fail(source.dict.PathOf(kKey), "nothing", "a whole number, or max_position_embeddings");
    return 1;
  }
  source.draft.Take("original_max_position", source.model.From("max_position_embeddings"));
  source.Default(kKey, absl::StrCat(longest, " (max_position_embeddings)"));
  return longest;
}

void WarnRatio(const Source& source, double factor, int64_t original) {
  const int64_t longest = source.model.MaxPosition();
  if (longest == 0) return;
  const double ratio = static_cast<double>(longest) / static_cast<double>(original);
  if (std::fabs(ratio - factor) <= 1e-9 * factor) return;
  source.Warn("factor", absl::StrCat("the given factor ", FormatNumber(factor),
                                     " counts; some readers take max_position_embeddings / "
                                     "original_max_position_embeddings = ",
                                     FormatNumber(ratio)));
}

void ReadAttentionFactor(const Source& source) {
  RopeSpec& spec = source.draft.spec;
  source.draft.key_of["attention_factor"] = source.dict.PathOf("attention_factor");
  if (const auto given = source.dict.Number("attention_factor")) spec.attention_factor = given;
}

// A factor that no key of the file gives.
void SetAttentionFactor(const Source& source, double factor, std::string note) {
  source.draft.spec.attention_factor = factor;
  source.draft.own_attention_factor = true;
  source.Default("attention_factor", std::move(note));
}

// Whether the dict is the one of transformers 4.
bool OldDict(const Source& source) {
  return !source.request.class_dict && source.dict.path() == source.model.text.PathOf("rope_scaling");
}

void ReadLinear(const Source& source) { source.draft.spec.schedule = LinearSchedule{source.Needed("factor")}; }

void ReadDynamic(const Source& source) {
  if (source.dict.Number("alpha").value_or(0) != 0) {
    // Hunyuan's files say dynamic and mean a fixed change of the base.
    source.Warn("alpha", "type dynamic with alpha: a fixed base·alpha^(d/(d−2)) that does not depend on the length");
    source.draft.key_of["factor"] = source.dict.PathOf("alpha");
    source.draft.spec.schedule = NtkAwareSchedule{*source.dict.Number("alpha")};
    return;
  }
  DynamicNtkSchedule schedule{.factor = source.Needed("factor"), .max_position = source.model.MaxPosition()};
  source.draft.Take("max_position", source.model.From("max_position_embeddings"));
  if (schedule.max_position == 0) FailLength(source, "a whole number, at least 1: dynamic scaling starts there");
  if (source.dict.Has("original_max_position_embeddings")) {
    source.Warn("original_max_position_embeddings", "not read: dynamic scaling starts at max_position_embeddings");
  }
  source.draft.spec.schedule = schedule;
}

// The DeepSeek pair. Classes outside that family put its ratio on cos and sin and leave the softmax scale alone, which a
// pair of equal values says best as attention_factor 1.
void ReadMscales(const Source& source, YarnSchedule& yarn) {
  yarn.mscale = source.dict.Number("mscale");
  yarn.mscale_all_dim = source.dict.Number("mscale_all_dim");
  const bool both = yarn.mscale.value_or(0) != 0 && yarn.mscale_all_dim.value_or(0) != 0;
  if (source.request.deepseek_softmax) {
    if (!both && yarn.mscale_all_dim.value_or(0) != 0) {
      source.Warn("mscale", "not given: A is YaRN's own; vLLM takes mscale 1, and A becomes a ratio");
    }
    return;
  }
  if (!both) {
    yarn.mscale.reset();
    yarn.mscale_all_dim.reset();
    return;
  }
  if (*yarn.mscale == *yarn.mscale_all_dim) {
    if (source.draft.spec.attention_factor) {
      source.Warn("mscale", "not read, nor mscale_all_dim: attention_factor counts");
    } else {
      SetAttentionFactor(source, 1, "1 (mscale and mscale_all_dim are equal)");
    }
    yarn.mscale.reset();
    yarn.mscale_all_dim.reset();
    return;
  }
  source.Warn("mscale_all_dim", absl::StrCat("class ", source.model.type_name,
                                             " takes the ratio on cos and sin only: leave the softmax multiplier out"));
}

void ReadYarn(const Source& source) {
  YarnSchedule yarn;
  yarn.original_max_position = OriginalLength(source);
  if (source.dict.IsNull("factor") || !source.dict.Has("factor")) {
    const int64_t longest = source.model.MaxPosition();
    if (longest == 0 && !source.model.MaxPositionKey().empty()) {
      FailLength(source, "a whole number, at least 1, as there is no factor");
    } else if (longest == 0) {
      source.Needed("factor");
    }
    yarn.factor = static_cast<double>(longest) / static_cast<double>(yarn.original_max_position);
    source.draft.Take("factor", {source.model.From("max_position_embeddings").path,
                                 " (max_position_embeddings / original_max_position_embeddings)"});
    source.Default("factor",
                   absl::StrCat(FormatNumber(yarn.factor), " (max_position_embeddings / original_max_position_embeddings)"));
    source.Warn("factor", absl::StrCat("not given: the ratio of the lengths is taken",
                                       OldDict(source) && RotatesInTransformers4(source.model.family->model_type)
                                           ? "; transformers before 5 fails here"
                                           : ""));
  } else {
    yarn.factor = source.Needed("factor");
    WarnRatio(source, yarn.factor, yarn.original_max_position);
  }
  const int64_t longest = source.model.MaxPosition();
  if (longest != 0 && longest != yarn.original_max_position && OldDict(source) &&
      HasYarnBeforeTransformers451(source.model.family->model_type)) {
    source.Warn("original_max_position_embeddings",
                absl::StrCat(yarn.original_max_position, " places the ramp; transformers before 4.51 takes ", longest,
                             " (max_position_embeddings) in its place"));
  }
  yarn.beta_fast = source.dict.Number("beta_fast");
  yarn.beta_slow = source.dict.Number("beta_slow");
  yarn.truncate = source.dict.Bool("truncate");
  if (source.request.nested && yarn.truncate.has_value() && !*yarn.truncate) {
    source.Warn("truncate", "read where it stands; transformers 5.24 loses it in a nested dict and rounds the ramp");
  }
  ReadAttentionFactor(source);
  if (const auto& of_class = source.request.attention_factor; of_class && !source.draft.spec.attention_factor) {
    SetAttentionFactor(source, *of_class, DefaultText(source.model, FormatNumber(*of_class)));
  }
  if (source.dict.Has("attn_factor")) {
    source.Warn("attn_factor", "not read: transformers ignores it, vLLM multiplies YaRN's own factor by it");
  }
  ReadMscales(source, yarn);
  source.draft.spec.schedule = yarn;
}

// TeleChat3's code, and vLLM's TeleChat3RoPEScaledRotaryEmbedding: 0.07 in place of YaRN's 0.1.
constexpr double kTelechat3Coefficient = 0.07;

bool IsTelechat3(const Source& source) { return source.model.family->model_type == "telechat3"; }

// Grok's name for how the two frequencies are blended, which its code alone reads; there cos and sin are left alone.
void ReadExtraMethod(const Source& source) {
  constexpr std::string_view kKey = "extra_method";
  if (!source.dict.Has(kKey)) return;
  const std::string method = source.dict.String(kKey).value_or("");
  YarnSchedule yarn = std::get<YarnSchedule>(source.draft.spec.schedule);
  const bool own = yarn.attention_coefficient.has_value();  // TeleChat3's
  if (!own) yarn.attention_coefficient = 0;
  if (method == "yarn_log") yarn.log_blend = true;
  if (method == "original") {
    source.draft.spec.schedule = RopeSchedule();
  } else if (method == "yarn" || method == "yarn_linear" || method == "yarn_log") {
    source.draft.spec.schedule = yarn;
  } else if (method == "theta_scale") {
    source.draft.layer.unserved = "rope_grok_theta_scale";
  } else {
    return FailWord(source.model, source.dict, kKey, method, "original, yarn, yarn_linear, yarn_log, theta_scale");
  }
  source.Warn(kKey, absl::StrCat("read as Grok's code reads it, ", method, own ? "" : ", with cos and sin as they are",
                                 "; other readers of YaRN do not look at this key"));
}

void ReadPlainYarn(const Source& source) {
  ReadYarn(source);
  if (IsTelechat3(source)) {
    std::get<YarnSchedule>(source.draft.spec.schedule).attention_coefficient = kTelechat3Coefficient;
    source.Warn(source.dict.FirstOf({"rope_type", "type"}),
                "class telechat3 makes the factor on cos and sin 0.07·ln factor + 1; readers that know YaRN only take 0.1");
  }
  ReadExtraMethod(source);
}

void ReadDeepseekYarn(const Source& source) {
  ReadYarn(source);
  ReadExtraMethod(source);
}

void ReadTelechat3Yarn(const Source& source) {
  ReadYarn(source);
  std::get<YarnSchedule>(source.draft.spec.schedule).attention_coefficient = kTelechat3Coefficient;
  ReadExtraMethod(source);
}

void ReadLlama3(const Source& source) {
  source.draft.spec.schedule = Llama3Schedule{.factor = source.Needed("factor"),
                                              .low_freq_factor = source.Needed("low_freq_factor"),
                                              .high_freq_factor = source.Needed("high_freq_factor"),
                                              .original_max_position = OriginalLength(source)};
}

void ReadLongRope(const Source& source) {
  LongRopeSchedule schedule;
  for (const std::string_view key : {"short_factor", "long_factor"}) {
    if (!source.dict.Has(key)) source.model.problems->Fail(source.dict.PathOf(key), "nothing", "a list of finite numbers");
  }
  schedule.short_factor = source.dict.Numbers("short_factor").value_or(std::vector<double>());
  schedule.long_factor = source.dict.Numbers("long_factor").value_or(std::vector<double>());
  const bool phi3 =
      source.model.family->model_type.starts_with("phi3") || source.model.family->model_type == "phi4multimodal";
  schedule.original_max_position = OriginalLength(source, phi3 ? 4096 : 0);
  schedule.factor = source.dict.Number("factor");
  if (const int64_t longest = source.model.MaxPosition(); longest != 0) schedule.max_position = longest;
  source.draft.Take("max_position", source.model.From("max_position_embeddings"));
  if (schedule.factor) WarnRatio(source, *schedule.factor, schedule.original_max_position);
  schedule.short_mscale = source.dict.Number("short_mscale");
  schedule.long_mscale = source.dict.Number("long_mscale");
  if (schedule.short_mscale || schedule.long_mscale) {
    source.Warn("short_mscale", "the lists switch by length; transformers 5.24 keeps the short list at every length");
  }
  ReadAttentionFactor(source);
  const bool has_factor =
      schedule.factor || source.draft.spec.attention_factor || (schedule.short_mscale && schedule.long_mscale);
  if (!has_factor && !schedule.max_position && !source.model.MaxPositionKey().empty()) {
    FailLength(source, "a whole number, at least 1, as there is neither factor nor attention_factor");
  }
  source.draft.spec.schedule = std::move(schedule);
}

void ReadProportional(const Source& source) {
  ProportionalSchedule schedule{.partial_rotary_factor = source.request.default_partial,
                                .factor = source.dict.Number("factor")};
  const JsonObject& from = source.dict.Has("partial_rotary_factor") ? source.dict : source.model.text;
  source.draft.key_of["partial_rotary_factor"] = from.PathOf("partial_rotary_factor");
  if (const auto given = from.Number("partial_rotary_factor")) {
    schedule.partial_rotary_factor = *given;
  } else {
    source.draft.Take("partial_rotary_factor", source.model.From("partial_rotary_factor"));
    source.Default("partial_rotary_factor", DefaultText(source.model, FormatNumber(schedule.partial_rotary_factor)));
  }
  source.draft.spec.schedule = schedule;
}

// Su's forms: fixed, or mixed where mixed_b is given.
void ReadNtk(const Source& source) {
  source.draft.key_of["mixed_b"] = source.dict.PathOf("mixed_b");
  source.draft.spec.schedule = NtkMixedSchedule{.factor = source.Needed("factor"), .mixed_b = source.dict.Number("mixed_b")};
}

void ReadDefault(const Source&) {}

// Four axes; alpha changes the base as in type dynamic.
void ReadXd(const Source& source) {
  if (source.dict.Number("alpha").value_or(0) != 0) ReadDynamic(source);
}

struct RopeType {
  std::string_view name;
  void (*read)(const Source& source);  // null: known, not served
  std::string_view unserved;
  std::string_view warning;  // for aliases
};

constexpr std::string_view kSuWarning = "an old name of longrope, which transformers 5.24 refuses";

constexpr RopeType kRopeTypes[] = {
    {"default", &ReadDefault, "", ""},
    {"linear", &ReadLinear, "", ""},
    {"dynamic", &ReadDynamic, "", ""},
    {"yarn", &ReadPlainYarn, "", ""},
    {"deepseek_yarn", &ReadDeepseekYarn, "", ""},
    {"telechat3-yarn", &ReadTelechat3Yarn, "",
     "YaRN whose factor on cos and sin is 0.07·ln factor + 1, as vLLM has it; mlx-lm takes 0.1"},
    {"llama3", &ReadLlama3, "", ""},
    {"longrope", &ReadLongRope, "", ""},
    {"su", &ReadLongRope, "", kSuWarning},
    {"proportional", &ReadProportional, "", ""},
    {"mrope", &ReadDefault, "", ""},
    {"xdrope", &ReadXd, "", ""},
    {"axial", nullptr, "vision_rope_2d", "two axes"},
    {"mllama4", nullptr, "vision_rope_2d", "two axes"},
    {"ntk", &ReadNtk, "", "vLLM's type, which transformers refuses: it scales pair 0 too and is not NTK-aware scaling"},
};

std::string AllowedTypes() {
  std::string names;
  for (const RopeType& type : kRopeTypes) {
    if (type.read) absl::StrAppend(&names, names.empty() ? "" : ", ", absl::string_view(type.name.data(), type.name.size()));
  }
  return names;
}

}  // namespace

std::string RopeTypeOf(const Model& model, const RopeRequest& request, RopeDraft& draft) {
  const JsonObject* dict = request.dict;
  if (!dict) return "default";
  const auto modern = dict->String("rope_type");
  const auto old = dict->String("type");
  if (modern && old && *modern != *old && *old != "mrope") {
    draft.layer.warnings.push_back({dict->PathOf("rope_type"), "rope_type counts, not type, which differs"});
  }
  if (!modern && !old) {
    const std::string path = dict->PathOf("rope_type");
    const std::string of_class = ClassRopeType(model, request.entry.empty() ? request.layer_type : request.entry);
    draft.layer.defaults.push_back({path, "default (the dict has no type)"});
    if (!of_class.empty()) {
      draft.layer.warnings.push_back(
          {path, absl::StrCat("not given: read as default; the own dict of class ", model.type_name, " has ", of_class)});
    } else if (dict->Has("factor") || dict->Has("short_factor")) {
      draft.layer.warnings.push_back({path, "not given: read as default"});
    }
  }
  return modern ? *modern : old.value_or("default");
}

void ReadSchedule(const Model& model, const RopeRequest& request, std::string_view rope_type, RopeDraft& draft) {
  if (!request.dict) return;
  const Source source{model, request, *request.dict, draft};
  for (const RopeType& type : kRopeTypes) {
    if (type.name != rope_type) continue;
    const std::string_view key = request.dict->FirstOf({"rope_type", "type"});
    if (!type.warning.empty()) source.Warn(key, std::string(type.warning));
    if (type.read) {
      for (const std::string_view leaf :
           {"factor", "beta_fast", "beta_slow", "truncate", "mscale", "mscale_all_dim", "low_freq_factor",
            "high_freq_factor", "short_factor", "long_factor", "short_mscale", "long_mscale"}) {
        draft.key_of.emplace(leaf, request.dict->PathOf(leaf));
      }
      type.read(source);
      for (Note& note : UnreadRopeKeys(*request.dict, rope_type)) draft.layer.warnings.push_back(std::move(note));
    } else {
      draft.layer.unserved = type.unserved;
    }
    return;
  }
  model.problems->Fail(
      request.dict->PathOf(request.dict->FirstOf({"rope_type", "type"})),
      absl::StrCat("\"", absl::CHexEscape({rope_type.data(), std::min<size_t>(rope_type.size(), 48)}), "\""),
      AllowedTypes());
}

}  // namespace phasor::server
