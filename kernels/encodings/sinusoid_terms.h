// What Transformer-XL's, XLNet's and Conformer's terms share: a table by distance that is sinusoids times a learned matrix,
// or given. Private to their files.
#ifndef PHASOR_KERNELS_ENCODINGS_SINUSOID_TERMS_H_
#define PHASOR_KERNELS_ENCODINGS_SINUSOID_TERMS_H_

#include <cstdint>
#include <optional>
#include <string_view>

#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {

// Vectors [heads, d] with their name.
struct NamedBias {
  std::string_view name;
  const WeightRef& weight;
};

// The fields that such a term has. `scheme` is the arm's name, for paths.
struct SinusoidTerm {
  std::string_view scheme;
  int64_t& dim;
  std::optional<double>& base;
  const WeightRef& projection;  // "w_r"
  const WeightRef& table;       // "r"
  NamedBias content, position;  // added to the query; they say what heads and d are where only w_r is given
  std::optional<int64_t> clamp = {};
  int64_t* num_heads = nullptr;  // of schemes that may say it without vectors
  bool base_inclusive = false;
};

// Heads and channels that the table is for.
struct TermWidth {
  int64_t heads = 0;
  int64_t dim = 0;
};

// Fills defaults and checks all of it.
TermWidth CheckSinusoidTerm(SpecChecker& check, const SinusoidTerm& term);

// The plan of a canonical term. Errors: a base that leads to frequencies beyond their bounds.
absl::StatusOr<SinusoidTermPlan> PlanOfSinusoidTerm(const SinusoidTerm& term, SinusoidTermPlan::Form form,
                                                    Precision precision);

inline constexpr ParameterCard kSinusoidDimCard{"dim", "width of the sinusoids that w_r projects", "columns of w_r",
                                                "even, 2 … 2^20"};
inline constexpr ParameterCard kSinusoidBaseCard{"base", "base of their frequencies", "10000", "finite, > 0"};
inline constexpr ParameterCard kSinusoidBiasCard{
    "weights: u, v", "[heads, d], added to the query for content and for position", "0", "finite numbers"};
inline constexpr ParameterCard kClampCard{"clamp_length", "distances beyond count as this one (clamp_len)", "absent",
                                          "1 … 2^31"};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SINUSOID_TERMS_H_
