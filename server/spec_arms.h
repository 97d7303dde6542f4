// The arms of the spec parser: one function each way per message, in spec_parser_*.cc. Private to them and spec_parser.cc.
#ifndef PHASOR_SERVER_SPEC_ARMS_H_
#define PHASOR_SERVER_SPEC_ARMS_H_

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "phasor/v1/encoding.pb.h"

#include "kernels/encodings/encoding.h"
#include "server/enum_text.h"
#include "server/spec_weights.h"

namespace phasor::server {

// Message → spec. Numbers are judged by Canonicalize.
absl::StatusOr<EncodingSpec> SpecFrom(const v1::RopeSpec& message);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::SinusoidalSpec& message);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::TimestepSpec& message);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::GaussianFourierSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::LearnedSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::GridSinusoidalSpec& message);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::PopeSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::FopeSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::AlibiSpec& message);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::T5BucketSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::KerpleSpec& message);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::SandwichSpec& message);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::ShawSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::DebertaSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::TransformerXlSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::XlnetSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::ConformerSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::CopeSpec& message, SpecWeights& weights);
absl::StatusOr<EncodingSpec> SpecFrom(const v1::DecomposedSpec& message, SpecWeights& weights);

// Spec → message: sets its arm.
void WriteSpec(const RopeSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const SinusoidalSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const TimestepSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const GaussianFourierSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const LearnedSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const GridSinusoidalSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const PopeSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const FopeSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const AlibiSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const T5BucketSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const KerpleSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const SandwichSpec& spec, v1::EncodingSpec* message);

// Biases over windows and learned functions of positions (spec_parser_window.cc).
EncodingSpec SpecFrom(const v1::WindowBiasSpec& m, SpecWeights& weights);
EncodingSpec SpecFrom(const v1::ContinuousWindowBiasSpec& m, SpecWeights& weights);
EncodingSpec SpecFrom(const v1::FireSpec& m, SpecWeights& weights);
EncodingSpec SpecFrom(const v1::DynamicPositionBiasSpec& m, SpecWeights& weights);
EncodingSpec SpecFrom(const v1::ForgettingBiasSpec& m, SpecWeights& weights);
EncodingSpec SpecFrom(const v1::DistilledSpec& m, SpecWeights& weights);
EncodingSpec SpecFrom(const v1::TupeSpec& m, SpecWeights& weights);
void WriteSpec(const WindowBiasSpec& s, v1::EncodingSpec* message);
void WriteSpec(const ContinuousWindowBiasSpec& s, v1::EncodingSpec* message);
void WriteSpec(const FireSpec& s, v1::EncodingSpec* message);
void WriteSpec(const DynamicPositionBiasSpec& s, v1::EncodingSpec* message);
void WriteSpec(const ForgettingBiasSpec& s, v1::EncodingSpec* message);
void WriteSpec(const DistilledSpec& s, v1::EncodingSpec* message);
void WriteSpec(const TupeSpec& s, v1::EncodingSpec* message);
void WriteSpec(const ShawSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const DebertaSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const TransformerXlSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const XlnetSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const ConformerSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const CopeSpec& spec, v1::EncodingSpec* message);
void WriteSpec(const DecomposedSpec& spec, v1::EncodingSpec* message);

// A field with presence.
template <typename T>
std::optional<T> If(bool is_set, T value) {
  return is_set ? std::optional<T>(value) : std::nullopt;
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

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SPEC_ARMS_H_
