#include "server/spec_parser.h"

#include <optional>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "server/enum_text.h"
#include "server/grpc_status.h"
#include "server/spec_arms.h"

namespace phasor::server {
namespace {

struct SpecWriter {
  v1::EncodingSpec* message;

  template <typename Spec>
  void operator()(const Spec& s) const {
    WriteSpec(s, message);
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
absl::StatusOr<EncodingSpec> FromArm(const v1::EncodingSpec& message, SpecWeights& weights) {
  switch (message.scheme_case()) {
    case v1::EncodingSpec::kRope:
      return SpecFrom(message.rope());
    case v1::EncodingSpec::kPope:
      return SpecFrom(message.pope(), weights);
    case v1::EncodingSpec::kFope:
      return SpecFrom(message.fope(), weights);
    case v1::EncodingSpec::kSinusoidal:
      return SpecFrom(message.sinusoidal());
    case v1::EncodingSpec::kAlibi:
      return SpecFrom(message.alibi());
    case v1::EncodingSpec::kTimestep:
      return SpecFrom(message.timestep());
    case v1::EncodingSpec::kGaussianFourier:
      return SpecFrom(message.gaussian_fourier(), weights);
    case v1::EncodingSpec::kLearned:
      return SpecFrom(message.learned(), weights);
    case v1::EncodingSpec::kGridSinusoidal:
      return SpecFrom(message.grid_sinusoidal());
    case v1::EncodingSpec::kDistilled:
      return SpecFrom(message.distilled(), weights);
    case v1::EncodingSpec::kWindowBias:
      return SpecFrom(message.window_bias(), weights);
    case v1::EncodingSpec::kContinuousWindowBias:
      return SpecFrom(message.continuous_window_bias(), weights);
    case v1::EncodingSpec::kFire:
      return SpecFrom(message.fire(), weights);
    case v1::EncodingSpec::kDynamicPositionBias:
      return SpecFrom(message.dynamic_position_bias(), weights);
    case v1::EncodingSpec::kForgettingBias:
      return SpecFrom(message.forgetting_bias(), weights);
    case v1::EncodingSpec::kTupe:
      return SpecFrom(message.tupe(), weights);
    case v1::EncodingSpec::kT5Bucket:
      return SpecFrom(message.t5_bucket(), weights);
    case v1::EncodingSpec::kKerple:
      return SpecFrom(message.kerple());
    case v1::EncodingSpec::kSandwich:
      return SpecFrom(message.sandwich());
    case v1::EncodingSpec::kShaw:
      return SpecFrom(message.shaw(), weights);
    case v1::EncodingSpec::kDeberta:
      return SpecFrom(message.deberta(), weights);
    case v1::EncodingSpec::kTransformerXl:
      return SpecFrom(message.transformer_xl(), weights);
    case v1::EncodingSpec::kXlnet:
      return SpecFrom(message.xlnet(), weights);
    case v1::EncodingSpec::kConformer:
      return SpecFrom(message.conformer(), weights);
    case v1::EncodingSpec::kCope:
      return SpecFrom(message.cope(), weights);
    case v1::EncodingSpec::kDecomposed:
      return SpecFrom(message.decomposed(), weights);
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
  const auto error = SpecErrorOf(canonical.status());
  if (!error) return canonical.status();
  // A number without presence that was left out reads as 0, and was not given.
  const bool nothing = error->given == "0" && IsUnset(message, error->field);
  return MakeSpecError(WeightPath(message, error->field), nothing ? "nothing" : error->given, error->allowed);
}

void SpecToProto(const EncodingSpec& spec, v1::EncodingSpec* message) {
  message->Clear();
  std::visit(SpecWriter{message}, spec);
}

}  // namespace phasor::server
