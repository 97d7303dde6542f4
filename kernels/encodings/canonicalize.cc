#include "absl/strings/str_cat.h"

#include "kernels/encodings/encoding.h"
#include "kernels/encodings/rope_axes.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {

absl::StatusOr<CanonicalSpec> Canonicalize(const EncodingSpec& spec) { return SchemeOf(spec).canonicalize(spec); }

absl::StatusOr<Resolved> Resolve(const CanonicalSpec& canonical, std::optional<int64_t> sequence_length,
                                 Precision precision) {
  const Scheme& scheme = SchemeOf(canonical.spec);
  if (!scheme.needs_sequence_length) {
    sequence_length.reset();
  } else if (!sequence_length) {
    return MakeSpecError("sequence_length", "nothing",
                         absl::StrCat("1 … ", kMaxLength, ": this scheme's frequencies depend on the sequence length"));
  } else if (*sequence_length < 1 || *sequence_length > kMaxLength) {
    return MakeSpecError("sequence_length", absl::StrCat(*sequence_length), absl::StrCat("1 … ", kMaxLength));
  }
  if (const auto* rope = std::get_if<RopeSpec>(&canonical.spec); rope != nullptr && rope->axes) {
    return ResolveRopeAxes(*rope, sequence_length, precision);
  }
  return scheme.resolve(canonical.spec, sequence_length, precision);
}

}  // namespace phasor
