#include "server/spec_parser.h"

#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "server/enum_text.h"
#include "server/grpc_status.h"

namespace phasor::server {
namespace {

template <typename T>
std::optional<T> If(bool is_set, T value) {
  return is_set ? std::optional<T>(value) : std::nullopt;
}

// Message → schedule. Numbers are judged by Canonicalize.

RopeSchedule ScheduleFrom(const v1::LinearSchedule& m) { return LinearSchedule{.factor = m.factor()}; }
RopeSchedule ScheduleFrom(const v1::NtkAwareSchedule& m) { return NtkAwareSchedule{.factor = m.factor()}; }
RopeSchedule ScheduleFrom(const v1::DynamicNtkSchedule& m) {
  return DynamicNtkSchedule{.factor = m.factor(), .max_position = m.max_position()};
}
RopeSchedule ScheduleFrom(const v1::YarnSchedule& m) {
  return YarnSchedule{.factor = m.factor(),
                      .original_max_position = m.original_max_position(),
                      .beta_fast = If(m.has_beta_fast(), m.beta_fast()),
                      .beta_slow = If(m.has_beta_slow(), m.beta_slow()),
                      .truncate = If(m.has_truncate(), m.truncate()),
                      .mscale = If(m.has_mscale(), m.mscale()),
                      .mscale_all_dim = If(m.has_mscale_all_dim(), m.mscale_all_dim())};
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
    default:
      return DefaultSchedule{};
  }
}

// An enum whose numbers are those of the kernels library; unset leaves the default to Canonicalize.
template <typename To>
absl::Status ReadEnum(std::string_view field, int number, const google::protobuf::EnumDescriptor* type,
                      std::optional<To>* out) {
  if (number == 0) return absl::OkStatus();
  if (type->FindValueByNumber(number) == nullptr) {
    return MakeSpecError(field, absl::StrCat(number), std::string_view(AllowedValues(type)));
  }
  *out = static_cast<To>(number);
  return absl::OkStatus();
}

absl::StatusOr<EncodingSpec> RopeFrom(const v1::RopeSpec& m) {
  if (m.schedule_case() > v1::RopeSpec::kQwen1Ntk) return NotServed("rope", "this schedule");
  RopeSpec rope{.head_dim = m.head_dim(),
                .rotary_dim = If(m.has_rotary_dim(), m.rotary_dim()),
                .base = If(m.has_base(), m.base()),
                .pairing = std::nullopt,
                .attention_factor = If(m.has_attention_factor(), m.attention_factor()),
                .schedule = ScheduleOf(m)};
  if (auto status = ReadEnum("rope.pairing", m.pairing(), v1::Pairing_descriptor(), &rope.pairing); !status.ok()) {
    return status;
  }
  return rope;
}

absl::StatusOr<EncodingSpec> SinusoidalFrom(const v1::SinusoidalSpec& m) {
  SinusoidalSpec s{.dim = m.dim(),
                   .base = If(m.has_base(), m.base()),
                   .layout = std::nullopt,
                   .spacing = std::nullopt,
                   .position_offset = If(m.has_position_offset(), m.position_offset()),
                   .padding_row = If(m.has_padding_row(), m.padding_row())};
  auto status = ReadEnum("sinusoidal.layout", m.layout(), v1::SinusoidalLayout_descriptor(), &s.layout);
  if (status.ok()) status = ReadEnum("sinusoidal.spacing", m.spacing(), v1::SinusoidalSpacing_descriptor(), &s.spacing);
  if (!status.ok()) return status;
  return s;
}

absl::StatusOr<EncodingSpec> AlibiFrom(const v1::AlibiSpec& m) {
  AlibiSpec alibi{.num_heads = m.num_heads(),
                  .max_bias = If(m.has_max_bias(), m.max_bias()),
                  .form = std::nullopt,
                  .slopes = {m.slopes().begin(), m.slopes().end()}};
  if (auto status = ReadEnum("alibi.form", m.form(), v1::AlibiForm_descriptor(), &alibi.form); !status.ok()) {
    return status;
  }
  return alibi;
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
};

struct SpecWriter {
  v1::EncodingSpec* message;

  void operator()(const RopeSpec& s) const {
    auto* m = message->mutable_rope();
    m->set_head_dim(s.head_dim);
    if (s.rotary_dim) m->set_rotary_dim(*s.rotary_dim);
    if (s.base) m->set_base(*s.base);
    if (s.pairing) m->set_pairing(static_cast<v1::Pairing>(*s.pairing));
    if (s.attention_factor) m->set_attention_factor(*s.attention_factor);
    std::visit(ScheduleWriter{m}, s.schedule);
  }
  void operator()(const SinusoidalSpec& s) const {
    auto* m = message->mutable_sinusoidal();
    m->set_dim(s.dim);
    if (s.base) m->set_base(*s.base);
    if (s.layout) m->set_layout(static_cast<v1::SinusoidalLayout>(*s.layout));
    if (s.spacing) m->set_spacing(static_cast<v1::SinusoidalSpacing>(*s.spacing));
    if (s.position_offset) m->set_position_offset(*s.position_offset);
    if (s.padding_row) m->set_padding_row(*s.padding_row);
  }
  void operator()(const AlibiSpec& s) const {
    auto* m = message->mutable_alibi();
    m->set_num_heads(s.num_heads);
    if (s.max_bias) m->set_max_bias(*s.max_bias);
    if (s.form) m->set_form(static_cast<v1::AlibiForm>(*s.form));
    m->mutable_slopes()->Add(s.slopes.begin(), s.slopes.end());
  }
};

// Whether the field at `path` ("rope.linear.factor") is a single one without presence that has its default value.
bool IsUnset(const google::protobuf::Message& message, std::string_view path) {
  const size_t dot = path.find('.');
  const auto* field = message.GetDescriptor()->FindFieldByName(std::string(path.substr(0, dot)));
  if (field == nullptr || field->is_repeated()) return false;
  const bool is_message = field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE;
  if (dot == std::string_view::npos) {
    return !is_message && !field->has_presence() && !message.GetReflection()->HasField(message, field);
  }
  return is_message && IsUnset(message.GetReflection()->GetMessage(message, field), path.substr(dot + 1));
}

// The members of the scheme oneof.
std::string SchemeFields() {
  const auto* scheme = v1::EncodingSpec::descriptor()->FindOneofByName("scheme");
  std::string names;
  for (int i = 0; i < scheme->field_count(); ++i) absl::StrAppend(&names, i == 0 ? "" : ", ", scheme->field(i)->name());
  return names;
}

// The one place that knows every scheme of the wire. A scheme that takes weights takes them by name from `weights`.
absl::StatusOr<EncodingSpec> FromArm(const v1::EncodingSpec& message, [[maybe_unused]] SpecWeights& weights) {
  switch (message.scheme_case()) {
    case v1::EncodingSpec::kRope:
      return RopeFrom(message.rope());
    case v1::EncodingSpec::kSinusoidal:
      return SinusoidalFrom(message.sinusoidal());
    case v1::EncodingSpec::kAlibi:
      return AlibiFrom(message.alibi());
    case v1::EncodingSpec::SCHEME_NOT_SET:
      return MakeSpecError("", "nothing", absl::StrCat("one of ", SchemeFields()));
    default:
      break;
  }
  const auto* field = v1::EncodingSpec::descriptor()->FindFieldByNumber(message.scheme_case());
  return NotServed(field->name(), "this scheme");
}

}  // namespace

absl::StatusOr<EncodingSpec> SpecFromProto(const v1::EncodingSpec& message, const WeightReader* reader) {
  SpecWeights weights(message, reader);
  absl::StatusOr<EncodingSpec> spec = FromArm(message, weights);
  if (!spec.ok()) return spec;
  if (absl::Status status = weights.Finish(); !status.ok()) return status;
  return spec;
}

absl::StatusOr<CanonicalSpec> CanonicalFromProto(const v1::EncodingSpec& message, const WeightReader* weights) {
  const absl::StatusOr<EncodingSpec> spec = SpecFromProto(message, weights);
  if (!spec.ok()) return spec.status();
  absl::StatusOr<CanonicalSpec> canonical = Canonicalize(*spec);
  if (canonical.ok()) return canonical;
  // A number without presence that was left out reads as 0, and was not given.
  const auto error = SpecErrorOf(canonical.status());
  if (!error || error->given != "0" || !IsUnset(message, error->field)) return canonical.status();
  return MakeSpecError(error->field, "nothing", error->allowed);
}

void SpecToProto(const EncodingSpec& spec, v1::EncodingSpec* message) {
  message->Clear();
  std::visit(SpecWriter{message}, spec);
}

}  // namespace phasor::server
