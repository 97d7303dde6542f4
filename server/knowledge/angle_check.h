// What a spec makes against a table, value by value.
#ifndef PHASOR_SERVER_KNOWLEDGE_ANGLE_CHECK_H_
#define PHASOR_SERVER_KNOWLEDGE_ANGLE_CHECK_H_

#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "server/knowledge/angle_layout.h"
#include "server/knowledge/diagnosis.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {

struct Difference {
  double max_ulps = 0;  // infinite where a value is not finite
  double max_difference = 0;
  int64_t bad_rows = 0;        // rows with a value beyond one ulp
  int64_t first_bad_row = -1;  // −1: none

  bool reproduces() const { return bad_rows == 0; }
};

// Rows [begin, end) of a table.
struct Rows {
  int64_t begin = 0, end = 0;
};

// A few rows from everywhere in `rows`: what is wrong in general shows in them.
std::vector<Rows> SampleOf(Rows rows);

// The plan's values for positions start + row. Work is that of making the rows: a few nanoseconds a value.
absl::StatusOr<Difference> CompareRows(const Backend& backend, const PairTable& table, const AnglePlan& plan, int64_t start,
                                       std::span<const Rows> rows);
// Positions of rows[k] are positions[k], which go up in no order.
absl::StatusOr<Difference> ComparePositions(const Backend& backend, const PairTable& table, const AnglePlan& plan,
                                            std::span<const int64_t> positions, int64_t first_row);

// All columns of an absolute table [rows, columns], those without a pair among them.
absl::StatusOr<Difference> CompareAbsolute(const Backend& backend, const InputTensor& tensor, const EncodingSpec& canonical,
                                           const Plan& plan, int64_t start);

// The plan at explicit positions, in f64, as pairs.
absl::StatusOr<Angles> AnglesAt(const Backend& backend, const AnglePlan& plan, std::span<const int64_t> positions,
                                DType dtype);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_ANGLE_CHECK_H_
