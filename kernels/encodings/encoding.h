// The catalogue of schemes and the way from a spec to a plan.
#ifndef PHASOR_KERNELS_ENCODINGS_ENCODING_H_
#define PHASOR_KERNELS_ENCODINGS_ENCODING_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/encodings/plan.h"
#include "kernels/encodings/spec.h"

namespace phasor {

// One parameter of a scheme, for people.
struct ParameterCard {
  std::string_view name;           // the field's name in the proto message
  std::string_view meaning;        // with unit
  std::string_view default_value;  // "required" where there is none
  std::string_view range;
};

// What a person should know before using a scheme; data beside the scheme, shown by `phasor card` and GetScheme.
struct Card {
  std::string_view title;
  std::string_view summary;  // up to three sentences
  std::string_view formula;  // Unicode
  std::span<const ParameterCard> parameters;
  std::string_view used_by;   // models, and the configuration keys that select it
  std::string_view pitfalls;  // how it fails, in a sentence or two
  std::string_view source;    // paper, equation or library
};

// A default that Canonicalize filled in, or something about a spec that the caller should know.
struct Note {
  std::string field;    // path inside the spec, such as "rope.yarn.beta_fast"
  std::string message;  // "32 (default)", or the warning's sentence
};

// A spec whose every default is written out and whose every field was checked.
struct CanonicalSpec {
  EncodingSpec spec;
  std::vector<Note> defaults;  // in the order of the fields
  std::vector<Note> warnings;
};

// Why a spec was refused. `field` is the path inside the spec ("rope.rotary_dim"), empty when no field is to blame.
// Carried in the returned Status as a payload (see SpecErrorOf), so that callers can name the full path.
struct SpecError {
  std::string field;
  std::string given;
  std::string allowed;
};

// What a resolved spec says beside its plan.
struct Resolved {
  Plan plan;
  double attention_factor = 1;  // A, correctly rounded; 1 where the family has none
  std::optional<double>
      softmax_scale_multiplier;  // the factor that the scheme puts on the softmax scale (YaRN, DeepSeek form)
  std::vector<Note> derived;     // intermediate values worth telling: lo, hi, alpha, effective base, list used
};

// One scheme. Instances are constants, listed in schemes.cc in the order shown to people.
struct Scheme {
  std::string_view name;    // "rope_yarn"
  std::string_view family;  // "angle" or "bias"
  bool needs_sequence_length;
  const Card* card;
  // Fills defaults and checks every field of a spec that `Matches`. Errors: INVALID_ARGUMENT with a SpecError payload.
  absl::StatusOr<CanonicalSpec> (*canonicalize)(const EncodingSpec& spec);
  // From a canonical spec to its plan. `sequence_length` must be set (≥ 1) when needs_sequence_length.
  absl::StatusOr<Resolved> (*resolve)(const EncodingSpec& canonical, std::optional<int64_t> sequence_length,
                                      Precision precision);
};

// Every scheme, in display order.
std::span<const Scheme* const> Schemes();

// The scheme that a spec selects (by its variant and schedule). Never null.
const Scheme& SchemeOf(const EncodingSpec& spec);

// The scheme with that name, or null.
const Scheme* FindScheme(std::string_view name);

// Defaults filled, −0 → 0, NaN and infinities refused, ranges checked. Canonicalize(Canonicalize(x).spec).spec == the same
// value. Errors: INVALID_ARGUMENT with a SpecError payload. No allocation is sized by an unchecked number in the spec.
// Thread-safe.
absl::StatusOr<CanonicalSpec> Canonicalize(const EncodingSpec& spec);

// The plan of a canonical spec, computed with 256-bit arithmetic (about 0.1–2 ms: cache it).
// `sequence_length` is ignored where the scheme does not depend on it; missing where it does: INVALID_ARGUMENT with
// SpecError.field "sequence_length". Thread-safe.
absl::StatusOr<Resolved> Resolve(const CanonicalSpec& canonical, std::optional<int64_t> sequence_length,
                                 Precision precision);

// The SpecError that a status of Canonicalize or Resolve carries.
std::optional<SpecError> SpecErrorOf(const absl::Status& status);

// INVALID_ARGUMENT "field: given X; allowed: Y" with the payload. For schemes and for parsers of specs.
absl::Status MakeSpecError(std::string_view field, std::string_view given, std::string_view allowed);

// Limits that hold for every spec, whoever calls.
inline constexpr int64_t kMaxHeadDim = 65536;
inline constexpr int64_t kMaxDim = 1 << 20;
inline constexpr int64_t kMaxHeads = 65536;

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_ENCODING_H_
