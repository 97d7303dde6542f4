// Grok: the keys of its schedule stand at the top level, by names of their own (SGLang's grok.py, vLLM's
// grok1_scaling_rope.py). No schedule touches cos and sin.
#include <cmath>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/layer_groups.h"
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr std::string_view kType = "rope_type", kFactor = "scaling_factor", kOriginal = "original_max_position_embeddings",
                           kExtrapolation = "extrapolation_factor", kAttention = "attn_factor", kFast = "beta_fast",
                           kSlow = "beta_slow";

// YaRN, by a blend of the frequencies or of their logarithms.
YarnSchedule ReadYarnKeys(const Model& model, bool logarithms, GroupRule& rule) {
  const JsonObject& text = model.text;
  const auto needed = [&](std::string_view key) {
    if (!text.Has(key)) model.problems->Fail(text.PathOf(key), text.IsNull(key) ? "null" : "nothing", "a number > 0");
    return text.Number(key).value_or(1);
  };
  const auto or_of_class = [&](std::string_view key, double of_class) {
    if (!text.Has(key)) rule.defaults.push_back({text.PathOf(key), DefaultText(model, FormatNumber(of_class))});
    return text.Number(key).value_or(of_class);
  };
  YarnSchedule yarn;
  yarn.factor = needed(kFactor);
  needed(kOriginal);
  yarn.original_max_position = text.Integer(kOriginal, 1, kMaxLength).value_or(1);
  yarn.beta_fast = or_of_class(kFast, 32);
  yarn.beta_slow = or_of_class(kSlow, 1);
  yarn.extrapolation_factor = or_of_class(kExtrapolation, 1);
  yarn.attention_coefficient = 0;
  if (logarithms) yarn.log_blend = true;
  rule.request.from["factor"] = {text.PathOf(kFactor)};
  rule.request.from["original_max_position"] = {text.PathOf(kOriginal)};
  return yarn;
}

// What the other keys beside rope_type say is then of no use.
void WarnUnused(const Model& model, const std::string& type, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    const bool one = model.text.IsNumber(key) && model.text.Number(key) == 1.0;
    if (!model.text.Has(key) || one) continue;
    model.problems->Warn(model.text.PathOf(key),
                         absl::StrCat(model.text.ValueText(key), " is not read: rope_type is ", type));
  }
}

void ReadQueryTemperature(const Model& model, GroupRule& rule) {
  constexpr std::string_view kKey = "attn_temperature_len";
  const auto length = model.text.Integer(kKey, -kMaxLength, kMaxLength);
  if (!length || *length < 2) return;
  rule.query_scale = absl::StrCat("max(1, ln(position)/ln(", *length, "))");
  rule.warnings.push_back({model.text.PathOf(kKey), absl::StrCat("scores of queries beyond ", *length,
                                                                 " are multiplied by it before the softmax, by SGLang; "
                                                                 "vLLM leaves it out")});
}

}  // namespace

void ReadGrok(const Model& model, ModelEncoding& out) {
  GroupRule rule = DefaultRule(model);
  const JsonObject& text = model.text;
  const std::string type = text.String(kType).value_or("");
  if (type == "yarn" || type == "yarn_linear" || type == "yarn_log") {
    rule.request.schedule = ReadYarnKeys(model, type == "yarn_log", rule);
    WarnUnused(model, absl::StrCat(type, ", which leaves cos and sin as they are in class ", model.type_name), {kAttention});
  } else if (type == "theta_scale") {
    out.layers.push_back(Unserved(model, "", "rope_grok_theta_scale"));
    return;
  } else if (type == "original") {
    WarnUnused(model, "original: the frequencies stay as they are",
               {kFactor, kOriginal, kExtrapolation, kAttention, kFast, kSlow});
  } else if (!type.empty()) {
    return FailWord(model, text, kType, type, "original, yarn, yarn_linear, yarn_log, theta_scale");
  }
  if (!type.empty()) {
    rule.request.scaled = rule.request.dict_theta = false;
    for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
      if (text.IsObject(key)) model.problems->Warn(text.PathOf(key), "not read: rope_type beside it counts");
    }
  }
  constexpr std::string_view kHalf = "rope_rotate_half_dims";
  if (text.IsTrue(kHalf)) rule.request.partial = FoundNumber{0.5, text.PathOf(kHalf)};
  ReadQueryTemperature(model, rule);
  ReadGroups(model, {{}}, [&](std::string_view) { return rule; }, out);
}

}  // namespace phasor::server
