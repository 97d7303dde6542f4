// Specs between the wire and the kernels library: names only, no numbers are judged here but enum numbers.
#ifndef PHASOR_SERVER_SPEC_PARSER_H_
#define PHASOR_SERVER_SPEC_PARSER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "phasor/v1/encoding.pb.h"

#include "kernels/encodings/encoding.h"
#include "server/spec_weights.h"

namespace phasor::server {

// Sequence lengths, which decide schedules, are bounded as positions are: 2^31 of them.
inline constexpr int64_t kMaxSequenceLength = int64_t{1} << 31;

// Unset enums are left to Canonicalize's defaults. Errors: INVALID_ARGUMENT with a SpecError whose path is relative to the
// spec: no scheme set ("", given nothing), an enum number that the contract does not have, or a weight that does not fit;
// UNIMPLEMENTED for a scheme that the contract has and this version does not serve. `weights` may be null where there are
// none.
absl::StatusOr<EncodingSpec> SpecFromProto(const v1::EncodingSpec& message, const WeightReader* weights = nullptr);

// SpecFromProto, then Canonicalize. Of a required number that is not set, which reads as 0, the error says that nothing was
// given.
absl::StatusOr<CanonicalSpec> CanonicalFromProto(const v1::EncodingSpec& message, const WeightReader* weights = nullptr);

// Replaces `message`. Every field that is set in `spec` is written, so that a canonical spec shows all its defaults.
// SpecFromProto of the result gives `spec` again.
void SpecToProto(const EncodingSpec& spec, v1::EncodingSpec* message);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_SPEC_PARSER_H_
