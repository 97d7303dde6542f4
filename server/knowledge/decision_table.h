// The decision table: which encoding suits which wishes, and why. Data; recommend.h evaluates it.
#ifndef PHASOR_SERVER_KNOWLEDGE_DECISION_TABLE_H_
#define PHASOR_SERVER_KNOWLEDGE_DECISION_TABLE_H_

#include <array>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"

#include "server/knowledge/wishes.h"

namespace phasor::server {

// Sets of enumerators, one bit each.
using Bits = uint32_t;
template <typename... Enums>
constexpr Bits SetOf(Enums... members) {
  return (Bits{0} | ... | (Bits{1} << static_cast<unsigned>(members)));
}
inline constexpr Bits kAll = ~Bits{0};
template <typename Enum>
constexpr bool Has(Bits set, Enum member) {
  return (set >> static_cast<unsigned>(member) & 1u) != 0;
}

// Whether a model is changed or made.
enum class Start : uint8_t {
  kAny,
  kNew,       // trained from the beginning, or nothing is there
  kExisting,  // there is a model, and it is not trained from the beginning
  kCurrent,   // there is a model
};

// Widths of a head that a row is for.
enum class HeadWidth : uint8_t { kAny, kPairs, kOdd, kTwoAxes };  // any; even, ≥ 4; odd, ≥ 5; a multiple of 4, ≥ 8

// All of it must hold.
struct When {
  Start start = Start::kAny;
  Bits tasks = kAll;
  Bits tunings = kAll;
  Bits targets = kAll;
  Bits currents = kAll;
  double above_ratio = 0;  // above_ratio < wanted / trained ≤ up_to_ratio
  double up_to_ratio = std::numeric_limits<double>::infinity();
  int64_t min_wanted = 1;
  int64_t max_wanted = int64_t{1} << 31;
  HeadWidth head = HeadWidth::kAny;
};
bool Holds(const When& when, const Wishes& wishes);

// Sentences; {name} stands for a figure (figures.h) or a number of the wishes.
template <size_t N>
using Sentences = std::array<std::string_view, N>;  // unused ones are empty

// A choice. Rows stand in order of preference.
struct ChoiceRow {
  std::string_view rule;
  When when;
  absl::StatusOr<EncodingSpec> (*make)(const Wishes& wishes);
  Sentences<4> reasons;
  Sentences<4> checks;
};
std::span<const ChoiceRow> RowsForExistingModels();
std::span<const ChoiceRow> RowsForTablesAndWindows();
std::span<const ChoiceRow> RowsForNewModels();

// What is not proposed, though somebody may expect it.
struct ExclusionRow {
  std::string_view rule;
  std::string_view scheme;
  When when;
  std::string_view reason;
};
std::span<const ExclusionRow> Exclusions();

// What a target cannot run.
struct TargetRow {
  std::string_view rule;
  Bits targets;
  bool (*refuses)(const EncodingSpec& canonical);
  std::string_view reason;
};
std::span<const TargetRow> TargetRules();

// Why nothing is left, and which wish to give up. The first that holds is said.
struct ContradictionRow {
  std::string_view rule;
  When when;
  std::string_view text;
};
std::span<const ContradictionRow> Contradictions();

// What a model of that kind usually has, where nobody says it: canonical. Nothing where its sizes allow none.
std::optional<EncodingSpec> UsualEncoding(const Wishes& wishes);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DECISION_TABLE_H_
