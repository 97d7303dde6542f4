#include "server/resolve/gguf_schedules.h"

#include <algorithm>

#include "kernels/encodings/spec_check.h"
#include "server/text.h"

namespace phasor::server {
namespace {

// Writers mark pairs that do not turn with this divisor or a larger one (Gemma 4: 1e30).
constexpr double kStill = 1e29;

struct Scaling {
  std::string type;   // none, linear, yarn, longrope
  double factor = 1;  // positions are divided by it
  std::string_view factor_key = "rope.scaling.factor";
  double attention = 1;  // multiplies the schedule's own factor on cos and sin
};

Scaling ReadScaling(GgufDraft& draft) {
  const GgufKeys& keys = draft.keys();
  Scaling scaling;
  scaling.type = keys.String("rope.scaling.type").value_or("linear");
  constexpr std::string_view kTypes[] = {"none", "linear", "yarn", "longrope"};
  if (std::find(std::begin(kTypes), std::end(kTypes), scaling.type) == std::end(kTypes)) {
    keys.problems().Fail(keys.PathOf("rope.scaling.type"), Cat("\"", GgufPrintable(scaling.type), "\""),
                         "none, linear, yarn, longrope");
  }
  const std::string_view key = keys.FirstOf({"rope.scaling.factor", "rope.scale_linear"});
  if (!key.empty()) scaling.factor_key = key;
  scaling.factor = keys.Number(scaling.factor_key).value_or(1);
  constexpr std::string_view kOld = "rope.scale_linear";
  if (key != kOld && keys.Has(kOld)) {
    const double old = keys.Number(kOld).value_or(scaling.factor);
    if (old != scaling.factor) {
      draft.Warn(kOld,
                 Cat(FormatFloat(old), " is not read: ", keys.PathOf(key), " ", FormatFloat(scaling.factor), " counts"));
    }
  }
  if (scaling.factor == 0) scaling.factor = 1;  // readers take 0 for absent
  if (scaling.type == "none" && scaling.factor != 1) {
    draft.Warn(scaling.factor_key, Cat(FormatFloat(scaling.factor), " is not applied: rope.scaling.type is none"));
    scaling.factor = 1;
  }
  draft.key_of["factor"] = keys.PathOf(scaling.factor_key);
  draft.key_of["attention_factor"] = keys.PathOf("rope.scaling.attn_factor");
  scaling.attention = keys.Number("rope.scaling.attn_factor").value_or(1);
  return scaling;
}

int64_t OriginalLength(GgufDraft& draft) {
  constexpr std::string_view kKey = "rope.scaling.original_context_length";
  const GgufKeys& keys = draft.keys();
  draft.key_of["original_max_position"] = keys.PathOf(kKey);
  if (const auto given = keys.Integer(kKey, 0, kMaxLength); given && *given != 0) return *given;
  if (draft.layer.max_position == 0) {
    keys.problems().Fail(keys.PathOf(kKey), "nothing", "a whole number, or context_length");
    return 1;
  }
  draft.Default(kKey, Cat(draft.layer.max_position, " (context_length)"));
  return draft.layer.max_position;
}

// The list that the rotary width takes: readers use the first width / 2 entries.
std::vector<double> Fitted(GgufDraft& draft, std::string_view tensor, std::vector<double> factors) {
  const size_t pairs = static_cast<size_t>(*draft.spec.rotary_dim / 2);
  if (factors.size() < pairs) {
    draft.keys().problems().Fail(tensor, Cat(factors.size(), " values"), Cat(pairs, ": one per pair"));
  } else if (factors.size() > pairs) {
    draft.layer.warnings.push_back(
        {std::string(tensor), Cat("has ", factors.size(), " values, of which the first ", pairs, " are taken")});
  }
  factors.resize(pairs, 1);
  return factors;
}

// Divisors of the frequencies for every length: llama 3's scaling, or Gemma 4's pairs that stand still.
void ReadFreqFactors(GgufDraft& draft, const Scaling& scaling, const std::vector<double>& given) {
  constexpr std::string_view kTensor = "rope_freqs.weight";
  std::vector<double> factors = Fitted(draft, kTensor, given);
  if (!draft.keys().problems().ok()) return;
  const auto live = static_cast<size_t>(
      std::find_if(factors.begin(), factors.end(), [](double factor) { return factor >= kStill; }) - factors.begin());
  const bool plain = std::all_of(factors.begin(), factors.begin() + static_cast<std::ptrdiff_t>(live),
                                 [](double factor) { return factor == 1; });
  const bool still = std::all_of(factors.begin() + static_cast<std::ptrdiff_t>(live), factors.end(),
                                 [](double factor) { return factor >= kStill; });
  if (plain && still && live > 0 && draft.spec.rotary_dim == draft.spec.head_dim) {
    draft.key_of["partial_rotary_factor"] = kTensor;
    const double share = 2 * static_cast<double>(live) / static_cast<double>(draft.spec.head_dim);
    if (live < factors.size()) {
      draft.spec.schedule = ProportionalSchedule{.partial_rotary_factor = share, .factor = scaling.factor};
    } else if (scaling.factor != 1) {
      draft.spec.schedule = LinearSchedule{scaling.factor};
    }
    return;
  }
  draft.key_of["factors"] = kTensor;
  FreqFactorsSchedule schedule;
  schedule.factors = std::move(factors);
  schedule.factor = scaling.factor;
  draft.spec.schedule = std::move(schedule);
}

void ReadLongRope(GgufDraft& draft, const Scaling& scaling, const std::vector<double>& short_factors,
                  const std::vector<double>& long_factors) {
  LongRopeSchedule schedule;
  draft.key_of["short_factor"] = "rope_factors_short.weight";
  draft.key_of["long_factor"] = "rope_factors_long.weight";
  schedule.short_factor = Fitted(draft, "rope_factors_short.weight", short_factors);
  schedule.long_factor = Fitted(draft, "rope_factors_long.weight", long_factors);
  for (std::vector<double>* factors : {&schedule.short_factor, &schedule.long_factor}) {
    for (double& factor : *factors) factor *= scaling.factor;  // exact: both are float32
  }
  schedule.original_max_position = OriginalLength(draft);
  draft.spec.schedule = std::move(schedule);
  draft.spec.attention_factor = scaling.attention;
  constexpr std::string_view kAttention = "rope.scaling.attn_factor";
  if (!draft.keys().Has(kAttention)) {
    draft.own_attention_factor = true;
    draft.Default(kAttention, "1 (readers derive none from the lengths)");
  }
  draft.Warn("rope.scaling.original_context_length",
             "the lists switch by the sequence's length, as published; llama.cpp picks one by the context's capacity");
}

// What YaRN makes of the pair of multipliers that DeepSeek's form has. llama.cpp: src/llama-context.cpp.
void ReadLogMultiplier(GgufDraft& draft, YarnSchedule& yarn) {
  constexpr std::string_view kKey = "rope.scaling.yarn_log_multiplier";
  const GgufArchitecture& architecture = draft.model.architecture;
  const bool mla = architecture.softmax == GgufSoftmax::kMla;
  auto multiplier = draft.keys().Number(kKey);
  if (!multiplier || *multiplier == 0) return;
  // Writers of this kind store a tenth; the division is the reader's, in float32.
  if (mla) multiplier = static_cast<double>(static_cast<float>(*multiplier) / 0.1f);
  draft.key_of["mscale_all_dim"] = draft.keys().PathOf(kKey);
  yarn.mscale_all_dim = *multiplier;
  yarn.mscale = mla && *multiplier != 1 ? *multiplier : 1.0;
}

void ReadYarn(GgufDraft& draft, const Scaling& scaling) {
  const GgufKeys& keys = draft.keys();
  YarnSchedule yarn;
  yarn.factor = scaling.factor;
  yarn.original_max_position = OriginalLength(draft);
  constexpr std::string_view kFast = "rope.scaling.yarn_beta_fast";
  constexpr std::string_view kSlow = "rope.scaling.yarn_beta_slow";
  draft.key_of["beta_fast"] = keys.PathOf(kFast);
  draft.key_of["beta_slow"] = keys.PathOf(kSlow);
  yarn.beta_fast = keys.Number(kFast);
  yarn.beta_slow = keys.Number(kSlow);
  const bool grok = draft.model.architecture.softmax == GgufSoftmax::kGrok;
  if (grok && !yarn.beta_fast) {
    yarn.beta_fast = 8;
    draft.Default(kFast, "8 (default of architecture grok)");
  }
  const bool read = grok || draft.model.architecture.name == "mistral3";
  if (!read && (yarn.beta_fast.value_or(32) != 32 || yarn.beta_slow.value_or(1) != 1)) {
    draft.Warn(kFast, "counts as given; llama.cpp does not read it for this architecture and takes 32 and 1");
  }
  if (!draft.model.architecture.truncate) {
    yarn.truncate = false;
    draft.Default("rope.scaling.type", "truncate false (by the model's own code, which no key says)");
    draft.Warn("rope.scaling.type", "the ends of the ramp are not rounded; llama.cpp rounds them to whole pairs");
  }
  if (const auto attention = keys.Number("rope.scaling.yarn_attn_factor"); attention && *attention != 1) {
    draft.Warn("rope.scaling.yarn_attn_factor",
               Cat(FormatFloat(*attention),
                   " is not applied, as in llama.cpp: writers put here a factor that replaces YaRN's own "
                   "(attention_factor) or one that multiplies it (attn_factor)"));
  }
  if (const auto mix = keys.Number("rope.scaling.yarn_ext_factor"); mix && *mix >= 0 && *mix != 1) {
    draft.key_of["extrapolation_factor"] = keys.PathOf("rope.scaling.yarn_ext_factor");
    yarn.extrapolation_factor = *mix;
  }
  if (yarn.extrapolation_factor == 0.0) {
    draft.Default("rope.scaling.yarn_ext_factor", "0: no YaRN, every frequency is divided by the factor");
    draft.spec.schedule = LinearSchedule{scaling.factor};
    return;
  }
  ReadLogMultiplier(draft, yarn);
  if (scaling.attention != 1) yarn.attention_factor_multiplier = scaling.attention;
  draft.key_of["attention_factor_multiplier"] = keys.PathOf("rope.scaling.attn_factor");
  draft.spec.schedule = yarn;
}

// A of the schedule as it stands, 1 after an error.
double OwnAttentionFactor(const RopeSpec& spec) {
  const auto canonical = Canonicalize(spec);
  if (!canonical.ok()) return 1;
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  return resolved.ok() ? resolved->attention_factor : 1;
}

// attn_factor multiplies; a spec's attention_factor replaces. Outside MLA the pair of multipliers makes this factor only and
// leaves the softmax scale alone, which a plain number says best.
void ReadAttentionFactor(GgufDraft& draft, const Scaling& scaling) {
  if (draft.spec.attention_factor) return;
  auto* yarn = std::get_if<YarnSchedule>(&draft.spec.schedule);
  if (!yarn) {
    if (scaling.attention != 1) draft.spec.attention_factor = scaling.attention;
    return;
  }
  if (!yarn->mscale || draft.model.architecture.softmax == GgufSoftmax::kMla) return;
  draft.spec.attention_factor = OwnAttentionFactor(draft.spec);
  draft.own_attention_factor = true;
  yarn->mscale.reset();
  yarn->mscale_all_dim.reset();
  yarn->attention_factor_multiplier.reset();
  draft.Default("rope.scaling.yarn_log_multiplier",
                Cat("attention_factor ", FormatNumber(*draft.spec.attention_factor), " (ratio of the multipliers)"));
}

// θ_i over the frequency that the draft's schedule gives pair i; empty where the schedule cannot be resolved.
std::vector<double> Divisors(const GgufDraft& draft) {
  const auto frequencies = [](const RopeSpec& spec) {
    const auto canonical = Canonicalize(spec);
    const auto resolved = canonical.ok() ? Resolve(*canonical, std::nullopt, Precision::kExact) : canonical.status();
    return resolved.ok() ? std::get<AnglePlan>(resolved->plan).inv_freq : std::vector<double>();
  };
  RopeSpec plain = draft.spec;
  plain.schedule = DefaultSchedule{};
  std::vector<double> divisors = frequencies(plain);
  const std::vector<double> scaled = frequencies(draft.spec);
  if (scaled.size() != divisors.size()) return {};
  for (size_t i = 0; i < divisors.size(); ++i) divisors[i] /= scaled[i];
  return divisors;
}

// ggml divides a frequency by its factor first and then blends as YaRN does, with a ramp that counts pairs: both are one
// divisor for each pair. ggml/src/ggml-cuda/rope.cu, rope_yarn.
void ReadYarnOverFactors(GgufDraft& draft, const Scaling& scaling) {
  const GgufFactors& factors = draft.model.factors;
  if (draft.model.architecture.softmax == GgufSoftmax::kMla && draft.keys().Number("rope.scaling.yarn_log_multiplier")) {
    draft.Warn("rope.scaling.yarn_log_multiplier",
               "YaRN's multiplier of the softmax scale together with tensors of factors: no spec says both");
    return draft.Unserved("rope_yarn_freq_factors");
  }
  ReadYarn(draft, scaling);
  ReadAttentionFactor(draft, scaling);
  const std::vector<double> divisors = Divisors(draft);
  if (divisors.empty() || !draft.keys().problems().ok()) return;  // Canonicalize says what is wrong with the schedule
  const double attention = OwnAttentionFactor(draft.spec);
  const auto times = [&](std::vector<double> list) {
    for (size_t i = 0; i < std::min(list.size(), divisors.size()); ++i) list[i] *= divisors[i];
    return list;
  };
  Scaling done = scaling;
  done.factor = 1;
  done.attention = attention;
  if (!factors.freqs.empty()) {
    ReadFreqFactors(draft, done, times(factors.freqs));
  } else {
    ReadLongRope(draft, done, times(factors.short_factors), times(factors.long_factors));
  }
  draft.spec.attention_factor = attention;
  draft.own_attention_factor = true;
  draft.Warn("rope.scaling.type",
             "yarn together with tensors of factors: each factor is multiplied by what YaRN divides its pair by, as ggml "
             "computes both; other programs read only one of the two");
}

}  // namespace

void ReadGgufSchedule(GgufDraft& draft) {
  const bool scaled = !draft.group.sliding || draft.model.architecture.local_scaled;
  if (!scaled) return;
  const Scaling scaling = ReadScaling(draft);
  if (const auto alpha = draft.keys().Number("rope.scaling.alpha"); alpha && *alpha > 0) {
    draft.key_of["factor"] = draft.keys().PathOf("rope.scaling.alpha");
    draft.spec.schedule = NtkAwareSchedule{*alpha};
    return;
  }
  const GgufFactors& factors = draft.model.factors;
  const bool listed = !factors.freqs.empty() || !factors.long_factors.empty() || !factors.short_factors.empty();
  if (listed && scaling.type == "yarn" && scaling.factor != 1) {
    ReadYarnOverFactors(draft, scaling);
  } else if (!factors.freqs.empty()) {
    ReadFreqFactors(draft, scaling, factors.freqs);
  } else if (listed) {
    ReadLongRope(draft, scaling, factors.short_factors, factors.long_factors);
  } else if (scaling.type == "longrope") {
    draft.Warn("rope.scaling.type", "longrope without the tensors of its factors: every frequency as it is");
  } else if (scaling.type == "yarn" && scaling.factor != 1) {
    ReadYarn(draft, scaling);
  } else if (scaling.factor != 1) {
    draft.spec.schedule = LinearSchedule{scaling.factor};
  }
  ReadAttentionFactor(draft, scaling);
}

}  // namespace phasor::server
