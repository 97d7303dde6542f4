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
  kBias,      // values by distance and head, of one query where they depend on it
  kPolar,     // PoPE: cos and sin by position and channel, of queries and of keys
  kWindow,    // values by offset in a window of an image (row of its table) and head
};
// "a rotation", "a table of rows", "a bias by distance", "a polar rotation", "a bias over a window".
std::string_view Name(Family family);
// What a column of its numbers is: "pair", "column", "head", "channel".
std::string_view ColumnName(Family family);
// What a row is: "position", "distance", "offset".
std::string_view RowName(Family family);

// Entries of a window of rows. Rows are positions; of biases distances 0, −1, −2 … from the first on; of biases over a
// window of an image rows of its table. Columns are pairs, columns or heads; FoPE has the pairs of its first head, of its
// second …, PoPE the channels of queries and then those of keys, head by head of δ. Rotations have cos in `first` and sin in
// `second`; a table that holds one half has no rows in the other.
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
  int64_t heads = 1;                  // of rotations: tables side by side, columns = heads × those of one
  int64_t copies = 1;                 // of one table that is held against so many: its columns are repeated
  bool by_query = false;              // a bias whose rows are those of one query
  std::optional<int64_t> query;       // the position of that query; absent: the last one of the window
  std::optional<InputTensor> matrix;  // by_query: [queries, keys] or [heads, queries, keys] that was given
  std::optional<TokenWindow> window;  // of kWindow
  double products_per_row = 0;        // of a learned function or mixture

  const RopeSpec* rope() const { return spec ? std::get_if<RopeSpec>(&spec->spec) : nullptr; }
  const AnglePlan* angles() const { return resolved ? std::get_if<AnglePlan>(&resolved->plan) : nullptr; }
};

// All errors are INVALID_ARGUMENT with a SpecError whose field is relative to the side: "spec.rope.base", "table.content";
// "sequence_length" is the request's own.

// Errors: terms of queries and keys, which have no numbers of their own; numbers that are in a checkpoint; positions of
// several coordinates where rows are meant; gates of a batch; more than kMaxPhases phases of PoPE (2 µs
// each) or kMaxHeadPairs pairs of FoPE.
inline constexpr int64_t kMaxPhases = 65536;
inline constexpr int64_t kMaxHeadPairs = int64_t{1} << 20;  // of FoPE: entries a position
absl::StatusOr<Side> SideOfSpec(const CanonicalSpec& spec, std::optional<int64_t> sequence_length, Precision precision);

// A table, read in the light of what it is compared with; `other` may be null. Columns that stand twice count once. Errors:
// shapes that do not fit the content, NaN and infinities, biases that depend on more than the distance, or on more than the
// offset in the other's window; where the other depends on the query, so may the table.
absl::StatusOr<Side> SideOfTable(const InputTable& table, const Side* other);

// A bias over a window, from [rows of its table, heads] or [heads, tokens, tokens]; the window is the other side's. Part of
// SideOfTable.
absl::StatusOr<Side> SideOfWindowTensor(const InputTensor& tensor, const TokenWindow& window);

// Makes two sides fit: a table for all heads is repeated where the other has several, and both biases are those of one
// query.
void MatchSides(Side* a, Side* b);

// Numbers of rows [first, first + count), as the service makes them in `dtype`; given ones are rounded to it. Errors: rows
// that there are not.
absl::StatusOr<Entries> EntriesOf(const Backend& backend, const Side& side, int64_t first, int64_t count, DType dtype);

// Of a spec's bias by distance: key − query = first, first + 1 …, as [heads, count].
absl::StatusOr<Grid> DistancesOf(const Backend& backend, const Side& side, int64_t first, int64_t count, DType dtype);
// Of a bias, spec or table: rows 0 … count − 1 for the query at `query` ≥ count − 1, f64. No rows where it does not have
// them.
absl::StatusOr<Grid> RowsOfQuery(const Backend& backend, const Side& side, int64_t query, int64_t count);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_SIDE_H_
