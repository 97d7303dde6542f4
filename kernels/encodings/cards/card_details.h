// The long part of a scheme's card: its LaTeX, how far it carries, how it fails, and a small example that three programs
// make the same numbers of. Data, one file for a few schemes.
#ifndef PHASOR_KERNELS_ENCODINGS_CARDS_CARD_DETAILS_H_
#define PHASOR_KERNELS_ENCODINGS_CARDS_CARD_DETAILS_H_

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

namespace phasor {

// A way in which a scheme fails.
struct FailureDetail {
  std::string_view symptom;  // what is seen
  std::string_view cause;
  std::string_view check;  // how to make sure
  std::string_view fix;
};

// An array of the example: a weight by its name in the contract, or "q" and "k" [1, tokens, heads, channels]. Element i of
// the row-major order is ((i·step) mod 17 − 8)/8, which every format holds exactly.
struct ExampleInput {
  std::string_view name;
  std::array<int64_t, 4> shape{};  // the first `axes` of it
  int axes = 0;
  int64_t step = 1;

  std::span<const int64_t> extents() const { return std::span(shape).first(static_cast<size_t>(axes)); }
  int64_t elements() const {
    int64_t count = 1;
    for (const int64_t extent : extents()) count *= extent;
    return count;
  }
};

enum class ExampleKind : uint8_t {
  kAngles = 1,   // tables cos and sin
  kMixedAngles,  // the same with a table for each head
  kRows,         // rows of an absolute encoding
  kBiasVector,   // [heads, queries + keys − 1] by key − query
  kBiasMatrix,   // [heads, queries, keys]
  kScores,       // (q·k + terms)·scale [1, heads, queries, keys]
};

struct CardExample {
  ExampleKind kind = ExampleKind::kAngles;
  std::string_view spec;      // EncodingSpec as proto3 JSON, without its weights
  std::string_view cpp_spec;  // the same as an expression of C++
  int64_t positions = 0;      // 0 … positions − 1; biases and scores: so many queries, and as many keys
  std::span<const double> fractional_positions = {};  // in place of those
  int64_t sequence_length = 0;                        // where the scheme needs one
  std::span<const ExampleInput> inputs = {};
};

struct CardDetails {
  std::string_view scheme;         // its name
  std::string_view latex;          // of the formula, without delimiters
  std::string_view extrapolation;  // how far beyond the trained length it holds, and why
  std::span<const FailureDetail> failures;
  std::span<const std::string_view> related;  // names of schemes
  CardExample example;
  std::string_view pytorch;  // makes `result`, a dict of tensors, from the inputs, which are variables by their names
};

// In the order of Schemes().
std::span<const CardDetails* const> AllCardDetails();

// By the scheme's name; null for a name that is none.
const CardDetails* FindCardDetails(std::string_view scheme);

}  // namespace phasor

#endif  // PHASOR_KERNELS_ENCODINGS_CARDS_CARD_DETAILS_H_
