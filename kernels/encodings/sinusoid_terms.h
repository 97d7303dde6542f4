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

// The fields that decide the table. `scheme` is the arm's name, for paths.
struct SinusoidTable {
  std::string_view scheme;
  int64_t& dim;
  std::optional<double>& base;
  const WeightRef& projection;  // "w_r"
  const WeightRef& table;       // "r"
};

// Heads and channels that the table is for.
struct TermWidth {
  int64_t heads = 0;
  int64_t dim = 0;
};

// Fills defaults and checks all of it; `biases`: vectors [heads, d] with their names, which say what heads and d are where
// only w_r is given, so one of them is needed then.
struct NamedBias {
  std::string_view name;
  const WeightRef& weight;
};
TermWidth CheckSinusoidTable(SpecChecker& check, const SinusoidTable& table, std::initializer_list<NamedBias> biases);

// The part of the plan that the table is. Errors: a base that leads to frequencies beyond their bounds.
absl::Status FillSinusoidTable(const SinusoidTable& table, Precision precision, SinusoidTermPlan* plan);

inline constexpr ParameterCard kSinusoidDimCard{"dim", "width of the sinusoids that w_r projects", "columns of w_r",
                                                "even, 2 … 2^20"};
inline constexpr ParameterCard kSinusoidBaseCard{"base", "base of their frequencies", "10000", "finite, > 0"};
inline constexpr ParameterCard kClampCard{"clamp_length", "distances beyond count as this one (clamp_len)", "absent",
                                          "1 … 2^31"};

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_SINUSOID_TERMS_H_
