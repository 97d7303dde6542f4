// One of two things to compare, or the thing to draw: a spec or somebody's table, as numbers.
#ifndef PHASOR_SERVER_KNOWLEDGE_SIDE_H_
#define PHASOR_SERVER_KNOWLEDGE_SIDE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/encodings/encoding.h"
#include "server/knowledge/input_table.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {

// What two sides must share to be compared.
enum class Family : uint8_t {
  kRotation,  // cos and sin by position and pair
  kTable,     // rows that are added to the input, by position and column
  kBias,      // values by distance and head
};
// "a rotation", "a table of rows", "a bias by distance".
std::string_view Name(Family family);
// What a column of its numbers is: "pair", "column", "head".
std::string_view ColumnName(Family family);

// Entries of a window. Rows are positions; of biases distances 0, −1, −2 … from the window's first on. Columns are pairs,
// columns or heads. Rotations have cos in `first` and sin in `second`; a table that holds one half has no rows in the other.
struct Entries {
  Grid first, second;

  int64_t rows() const { return first.rows > 0 ? first.rows : second.rows; }
  int64_t columns() const { return first.rows > 0 ? first.columns : second.columns; }
};

struct Side {
  Family family = Family::kRotation;
  int64_t columns = 0;                // pairs, columns or heads
  std::optional<CanonicalSpec> spec;  // where the numbers come from, unless they were given
  std::optional<Resolved> resolved;   // with `spec`
  bool from_spec = false;             // else `spec` was made from given frequencies or slopes
  std::optional<DType> table_type;    // of a table whose entries are `given`
  Entries given;                      // rows first_row …
  int64_t first_row = 0;              // position (or −distance) of the first given row
  int64_t rows = int64_t{1} << 31;    // how many there are from first_row on
  std::optional<Pairing> pairing;     // of rotations, where it is known
  std::optional<XposScale> xpos;

  const RopeSpec* rope() const { return spec ? std::get_if<RopeSpec>(&spec->spec) : nullptr; }
  const AnglePlan* angles() const { return resolved ? std::get_if<AnglePlan>(&resolved->plan) : nullptr; }
};

// All errors are INVALID_ARGUMENT with a SpecError whose field is relative to the side: "spec.rope.base", "table.content";
// "sequence_length" is the request's own.

// Errors: schemes without a table, rows or a bias by distance; numbers that are in a checkpoint; positions of several
// coordinates where rows are meant.
absl::StatusOr<Side> SideOfSpec(const CanonicalSpec& spec, std::optional<int64_t> sequence_length, Precision precision);

// A table, read in the light of what it is compared with; `other` may be null. Columns that stand twice count once. Errors:
// shapes that do not fit the content, NaN and infinities, biases that depend on more than the distance.
absl::StatusOr<Side> SideOfTable(const InputTable& table, const Side* other);

// Numbers of rows [first, first + count), as the service makes them in `dtype`; given ones are rounded to it. Errors: rows
// that there are not.
absl::StatusOr<Entries> EntriesOf(const Backend& backend, const Side& side, int64_t first, int64_t count, DType dtype);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SIDE_H_
