#include "server/knowledge/angle_variants.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

// Widths that exponents are taken over in place of the right one, as multiples of it.
constexpr std::array kWidths{2.0, 4.0, 0.5, 0.25, 4.0 / 3, 8.0, 1.5, 8.0 / 3, 2.5, 0.75, 16.0, 32.0};

template <typename Schedule>
const Schedule* ScheduleOf(const EncodingSpec& spec) {
  const auto* rope = std::get_if<RopeSpec>(&spec);
  return rope == nullptr ? nullptr : std::get_if<Schedule>(&rope->schedule);
}

void AddWidths(const EncodingSpec& expected, std::optional<int64_t> length, std::vector<Variant>& out) {
  const auto add = [&](double times, EncodingSpec spec) {
    out.push_back({"exponent_over_wrong_width",
                   absl::StrCat("the frequencies fall as with exponents over ", times, " times the width"),
                   {std::move(spec), length, ""}});
  };
  if (const auto* rope = std::get_if<RopeSpec>(&expected); rope != nullptr && rope->base) {
    std::vector<double> widths(kWidths.begin(), kWidths.end());
    const double head = static_cast<double>(rope->head_dim) / static_cast<double>(*rope->rotary_dim);
    if (head != 1) widths.insert(widths.begin(), head);
    for (double times : widths) {
      RopeSpec wrong = *rope;
      wrong.base = std::pow(*rope->base, 1 / times);
      add(times, wrong);
    }
  }
  if (const auto* sinusoidal = std::get_if<SinusoidalSpec>(&expected)) {
    SinusoidalSpec wrong = *sinusoidal;
    const bool endpoint = sinusoidal->spacing == SinusoidalSpacing::kEndpointInclusive;
    const bool can_flip = sinusoidal->dim % 2 == 0 && sinusoidal->dim >= 4;
    wrong.spacing = endpoint ? SinusoidalSpacing::kPaper : SinusoidalSpacing::kEndpointInclusive;
    if (can_flip) add(endpoint ? 1 : 1, wrong);
    for (double times : kWidths) {
      wrong = *sinusoidal;
      wrong.base = std::pow(*sinusoidal->base, 1 / times);
      add(times, wrong);
    }
  }
}

void AddAttention(const EncodingSpec& expected, std::optional<int64_t> length, double factor, std::vector<Variant>& out) {
  const auto* rope = std::get_if<RopeSpec>(&expected);
  if (rope == nullptr || factor == 1) return;
  RopeSpec wrong = *rope;
  wrong.attention_factor = factor * factor;
  out.push_back({"attention_factor_twice",
                 absl::StrCat("cos and sin carry ", factor * factor, ", the square of ", factor),
                 {wrong, length, "", true}});
  wrong.attention_factor = 1;
  out.push_back(
      {"attention_factor_missing", absl::StrCat("cos and sin carry 1 in place of ", factor), {wrong, length, "", true}});
}

void AddLengths(const EncodingSpec& expected, std::optional<int64_t> length, std::optional<double> base,
                std::vector<Variant>& out) {
  const auto add = [&](int64_t other) {
    if (length && other == *length) return;
    out.push_back({"dynamic_base_of_another_length",
                   absl::StrCat("the numbers are those of sequence length ", other,
                                length ? absl::StrCat(", not ", *length) : std::string()),
                   {expected, other, ""}});
  };
  if (const auto* dynamic = ScheduleOf<DynamicNtkSchedule>(expected)) {
    const RopeSpec& rope = std::get<RopeSpec>(expected);
    const auto m = static_cast<double>(dynamic->max_position), d = static_cast<double>(*rope.rotary_dim);
    if (base) {
      const double alpha = std::pow(*base / *rope.base, (d - 2) / d);
      const auto near = static_cast<int64_t>(std::llround((alpha + dynamic->factor - 1) * m / dynamic->factor));
      for (int64_t step : {0, 1, -1}) add(std::max<int64_t>(1, near + step));
    }
    for (double times : {1.0, 2.0, 4.0, 8.0, 1.5, 3.0, 16.0}) add(static_cast<int64_t>(times * m));
  } else if (const auto* qwen = ScheduleOf<Qwen1NtkSchedule>(expected)) {
    for (int64_t times : {1, 2, 4, 8, 16}) add(times * qwen->training_length);
  } else if (const auto* list = ScheduleOf<LongRopeSchedule>(expected)) {
    for (int64_t other : {list->original_max_position, list->original_max_position + 1}) add(other);
  }
}

}  // namespace

std::vector<Variant> RoundedFrequencies(const Candidate& right, const Resolved& resolved) {
  std::vector<Variant> out;
  const AnglePlan& plan = std::get<AnglePlan>(resolved.plan);
  for (const auto& [dtype, name] :
       {std::pair{DType::kBF16, "frequencies_in_bf16"}, std::pair{DType::kF16, "frequencies_in_f16"}}) {
    // Libraries make frequencies in float32 and cast those.
    std::vector<double> rounded;
    bool differs = false;
    for (float f : plan.inv_freq_f32) {
      rounded.push_back(RoundTo(dtype, static_cast<double>(f)));
      differs = differs || rounded.back() != static_cast<double>(f);
    }
    if (!differs) continue;
    RopeSpec rope = GivenFrequencies(rounded);
    if (resolved.attention_factor != 1) rope.attention_factor = resolved.attention_factor;
    out.push_back({name,
                   absl::StrCat("the frequencies are those of ", std::string(SchemeOf(right.spec).name), " rounded to ",
                                std::string(Name(dtype)), ": the second is ", rounded.size() > 1 ? rounded[1] : rounded[0]),
                   {rope, std::nullopt, ""}});
  }
  return out;
}

std::vector<Variant> VariantsOf(const CanonicalSpec& expected, std::optional<int64_t> length, const Resolved& resolved,
                                std::optional<double> base) {
  std::vector<Variant> out;
  if (const auto* yarn = ScheduleOf<YarnSchedule>(expected.spec)) {
    RopeSpec wrong = std::get<RopeSpec>(expected.spec);
    YarnSchedule swapped = *yarn;
    std::swap(swapped.beta_fast, swapped.beta_slow);
    wrong.schedule = swapped;
    out.push_back({"yarn_betas_swapped", "the first frequency is divided and the last one kept", {wrong, length, ""}});
  }
  AddAttention(expected.spec, length, resolved.attention_factor, out);
  for (Variant& variant : RoundedFrequencies({expected.spec, length, ""}, resolved)) out.push_back(std::move(variant));
  AddLengths(expected.spec, length, base, out);
  AddWidths(expected.spec, length, out);
  return out;
}

}  // namespace phasor::server
