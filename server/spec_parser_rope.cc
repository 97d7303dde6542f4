// RoPE and its schedules, both ways.
#include <utility>
#include <variant>

#include "server/spec_arms.h"

namespace phasor::server {
namespace {

// Message → schedule.

RopeSchedule ScheduleFrom(const v1::LinearSchedule& m) { return LinearSchedule{.factor = m.factor()}; }
RopeSchedule ScheduleFrom(const v1::NtkAwareSchedule& m) { return NtkAwareSchedule{.factor = m.factor()}; }
RopeSchedule ScheduleFrom(const v1::DynamicNtkSchedule& m) {
  return DynamicNtkSchedule{.factor = m.factor(), .max_position = m.max_position()};
}
RopeSchedule ScheduleFrom(const v1::YarnSchedule& m) {
  return YarnSchedule{
      .factor = m.factor(),
      .original_max_position = m.original_max_position(),
      .beta_fast = If(m.has_beta_fast(), m.beta_fast()),
      .beta_slow = If(m.has_beta_slow(), m.beta_slow()),
      .truncate = If(m.has_truncate(), m.truncate()),
      .mscale = If(m.has_mscale(), m.mscale()),
      .mscale_all_dim = If(m.has_mscale_all_dim(), m.mscale_all_dim()),
      .attention_coefficient = If(m.has_attention_coefficient(), m.attention_coefficient()),
      .log_blend = If(m.has_log_blend(), m.log_blend()),
      .attention_factor_multiplier = If(m.has_attention_factor_multiplier(), m.attention_factor_multiplier()),
      .extrapolation_factor = If(m.has_extrapolation_factor(), m.extrapolation_factor())};
}
RopeSchedule ScheduleFrom(const v1::Llama3Schedule& m) {
  return Llama3Schedule{.factor = m.factor(),
                        .low_freq_factor = m.low_freq_factor(),
                        .high_freq_factor = m.high_freq_factor(),
                        .original_max_position = m.original_max_position()};
}
RopeSchedule ScheduleFrom(const v1::LongRopeSchedule& m) {
  return LongRopeSchedule{.short_factor = {m.short_factor().begin(), m.short_factor().end()},
                          .long_factor = {m.long_factor().begin(), m.long_factor().end()},
                          .original_max_position = m.original_max_position(),
                          .factor = If(m.has_factor(), m.factor()),
                          .max_position = If(m.has_max_position(), m.max_position()),
                          .short_mscale = If(m.has_short_mscale(), m.short_mscale()),
                          .long_mscale = If(m.has_long_mscale(), m.long_mscale())};
}
RopeSchedule ScheduleFrom(const v1::ProportionalSchedule& m) {
  return ProportionalSchedule{.partial_rotary_factor = m.partial_rotary_factor(), .factor = If(m.has_factor(), m.factor())};
}
RopeSchedule ScheduleFrom(const v1::Qwen1NtkSchedule& m) { return Qwen1NtkSchedule{.training_length = m.training_length()}; }

RopeSchedule ScheduleFrom(const v1::NtkMixedSchedule& m) {
  return NtkMixedSchedule{.factor = m.factor(), .mixed_b = If(m.has_mixed_b(), m.mixed_b())};
}
RopeSchedule ScheduleFrom(const v1::FreqFactorsSchedule& m) {
  return FreqFactorsSchedule{.factors = {m.factors().begin(), m.factors().end()}, .factor = If(m.has_factor(), m.factor())};
}
RopeSchedule ScheduleFrom(const v1::InvFreqSchedule& m) {
  return InvFreqSchedule{.inv_freq = {m.inv_freq().begin(), m.inv_freq().end()}};
}
RopeSchedule ScheduleFrom(const v1::PixelSchedule& m) {
  return PixelSchedule{.max_freq = If(m.has_max_freq(), m.max_freq())};
}

RopeSchedule ScheduleOf(const v1::RopeSpec& rope) {
  switch (rope.schedule_case()) {
    case v1::RopeSpec::kLinear:
      return ScheduleFrom(rope.linear());
    case v1::RopeSpec::kNtkAware:
      return ScheduleFrom(rope.ntk_aware());
    case v1::RopeSpec::kDynamicNtk:
      return ScheduleFrom(rope.dynamic_ntk());
    case v1::RopeSpec::kYarn:
      return ScheduleFrom(rope.yarn());
    case v1::RopeSpec::kLlama3:
      return ScheduleFrom(rope.llama3());
    case v1::RopeSpec::kLongrope:
      return ScheduleFrom(rope.longrope());
    case v1::RopeSpec::kProportional:
      return ScheduleFrom(rope.proportional());
    case v1::RopeSpec::kQwen1Ntk:
      return ScheduleFrom(rope.qwen1_ntk());
    case v1::RopeSpec::kNtkMixed:
      return ScheduleFrom(rope.ntk_mixed());
    case v1::RopeSpec::kFreqFactors:
      return ScheduleFrom(rope.freq_factors());
    case v1::RopeSpec::kInvFreq:
      return ScheduleFrom(rope.inv_freq());
    case v1::RopeSpec::kPixel:
      return ScheduleFrom(rope.pixel());
    default:
      return DefaultSchedule{};
  }
}

// Schedule → message: each sets its own arm of the oneof.
struct ScheduleWriter {
  v1::RopeSpec* rope;

  void operator()(const DefaultSchedule&) const { rope->mutable_default_schedule(); }
  void operator()(const LinearSchedule& s) const { rope->mutable_linear()->set_factor(s.factor); }
  void operator()(const NtkAwareSchedule& s) const { rope->mutable_ntk_aware()->set_factor(s.factor); }
  void operator()(const DynamicNtkSchedule& s) const {
    auto* m = rope->mutable_dynamic_ntk();
    m->set_factor(s.factor);
    m->set_max_position(s.max_position);
  }
  void operator()(const YarnSchedule& s) const {
    auto* m = rope->mutable_yarn();
    m->set_factor(s.factor);
    m->set_original_max_position(s.original_max_position);
    if (s.beta_fast) m->set_beta_fast(*s.beta_fast);
    if (s.beta_slow) m->set_beta_slow(*s.beta_slow);
    if (s.truncate) m->set_truncate(*s.truncate);
    if (s.mscale) m->set_mscale(*s.mscale);
    if (s.mscale_all_dim) m->set_mscale_all_dim(*s.mscale_all_dim);
    if (s.attention_coefficient) m->set_attention_coefficient(*s.attention_coefficient);
    if (s.log_blend) m->set_log_blend(*s.log_blend);
    if (s.attention_factor_multiplier) m->set_attention_factor_multiplier(*s.attention_factor_multiplier);
    if (s.extrapolation_factor) m->set_extrapolation_factor(*s.extrapolation_factor);
  }
  void operator()(const Llama3Schedule& s) const {
    auto* m = rope->mutable_llama3();
    m->set_factor(s.factor);
    m->set_low_freq_factor(s.low_freq_factor);
    m->set_high_freq_factor(s.high_freq_factor);
    m->set_original_max_position(s.original_max_position);
  }
  void operator()(const LongRopeSchedule& s) const {
    auto* m = rope->mutable_longrope();
    m->mutable_short_factor()->Add(s.short_factor.begin(), s.short_factor.end());
    m->mutable_long_factor()->Add(s.long_factor.begin(), s.long_factor.end());
    m->set_original_max_position(s.original_max_position);
    if (s.factor) m->set_factor(*s.factor);
    if (s.max_position) m->set_max_position(*s.max_position);
    if (s.short_mscale) m->set_short_mscale(*s.short_mscale);
    if (s.long_mscale) m->set_long_mscale(*s.long_mscale);
  }
  void operator()(const ProportionalSchedule& s) const {
    auto* m = rope->mutable_proportional();
    m->set_partial_rotary_factor(s.partial_rotary_factor);
    if (s.factor) m->set_factor(*s.factor);
  }
  void operator()(const Qwen1NtkSchedule& s) const { rope->mutable_qwen1_ntk()->set_training_length(s.training_length); }
  void operator()(const NtkMixedSchedule& s) const {
    auto* m = rope->mutable_ntk_mixed();
    m->set_factor(s.factor);
    if (s.mixed_b) m->set_mixed_b(*s.mixed_b);
  }
  void operator()(const FreqFactorsSchedule& s) const {
    auto* m = rope->mutable_freq_factors();
    m->mutable_factors()->Add(s.factors.begin(), s.factors.end());
    if (s.factor) m->set_factor(*s.factor);
  }
  void operator()(const InvFreqSchedule& s) const {
    rope->mutable_inv_freq()->mutable_inv_freq()->Add(s.inv_freq.begin(), s.inv_freq.end());
  }
  void operator()(const PixelSchedule& s) const {
    auto* m = rope->mutable_pixel();
    if (s.max_freq) m->set_max_freq(*s.max_freq);
  }
};

}  // namespace

absl::StatusOr<EncodingSpec> SpecFrom(const v1::RopeSpec& m) {
  RopeSpec rope{.head_dim = m.head_dim(),
                .rotary_dim = If(m.has_rotary_dim(), m.rotary_dim()),
                .base = If(m.has_base(), m.base()),
                .pairing = std::nullopt,
                .attention_factor = If(m.has_attention_factor(), m.attention_factor()),
                .schedule = ScheduleOf(m),
                .xpos = std::nullopt,
                .axes = std::nullopt,
                .first_channel = m.first_channel()};
  if (m.has_xpos()) {
    rope.xpos = XposScale{.scale_base = If(m.xpos().has_scale_base(), m.xpos().scale_base()),
                          .center = If(m.xpos().has_center(), m.xpos().center())};
  }
  if (m.has_axes()) {
    rope.axes = RopeAxes{.sections = {m.axes().sections().begin(), m.axes().sections().end()}, .layout = std::nullopt};
    auto status = ReadEnum("rope.axes.layout", m.axes().layout(), v1::AxisLayout_descriptor(), &rope.axes->layout);
    if (!status.ok()) return status;
  }
  if (auto status = ReadEnum("rope.pairing", m.pairing(), v1::Pairing_descriptor(), &rope.pairing); !status.ok()) {
    return status;
  }
  return rope;
}

void WriteSpec(const RopeSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_rope();
  m->set_head_dim(s.head_dim);
  if (s.rotary_dim) m->set_rotary_dim(*s.rotary_dim);
  if (s.base) m->set_base(*s.base);
  if (s.pairing) m->set_pairing(static_cast<v1::Pairing>(*s.pairing));
  if (s.attention_factor) m->set_attention_factor(*s.attention_factor);
  std::visit(ScheduleWriter{m}, s.schedule);
  if (s.xpos) {
    auto* xpos = m->mutable_xpos();
    if (s.xpos->scale_base) xpos->set_scale_base(*s.xpos->scale_base);
    if (s.xpos->center) xpos->set_center(*s.xpos->center);
  }
  if (s.axes) {
    auto* axes = m->mutable_axes();
    axes->mutable_sections()->Add(s.axes->sections.begin(), s.axes->sections.end());
    if (s.axes->layout) axes->set_layout(static_cast<v1::AxisLayout>(*s.axes->layout));
  }
  m->set_first_channel(s.first_channel);
}

}  // namespace phasor::server
