// What specs make, as plain numbers for comparing and drawing: a few megabytes at most, on the calling thread.
#ifndef PHASOR_SERVER_KNOWLEDGE_NUMBERS_H_
#define PHASOR_SERVER_KNOWLEDGE_NUMBERS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/core/dtype.h"
#include "kernels/encodings/encoding.h"

namespace phasor::server {

// Numbers in rows, row after row.
struct Grid {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<double> values;

  double& at(int64_t row, int64_t column) { return values[static_cast<size_t>(row * columns + column)]; }
  double at(int64_t row, int64_t column) const { return values[static_cast<size_t>(row * columns + column)]; }
};

struct Angles {
  Grid cos, sin;  // [positions, pairs]
};

// Every value is what the service answers in `dtype` (IsFloat), widened. Sizes are the caller's duty.

// Positions first, first + 1 … of every axis. Errors: INVALID_ARGUMENT for positions out of range.
absl::StatusOr<Angles> MakeAngles(const Backend& backend, const AnglePlan& plan, int64_t first, int64_t count, DType dtype);

// Rows of an absolute encoding (IsAbsolute) [count, dim]. Errors: also for rows that a table or grid does not have, and for
// specs of several coordinates.
absl::StatusOr<Grid> MakeRows(const Backend& backend, const EncodingSpec& canonical, const Plan& plan, int64_t first,
                              int64_t count, DType dtype);

// A bias by distance [vectors, count]: key − query = first, first + 1 …
absl::StatusOr<Grid> MakeDistances(const Backend& backend, const DistancePlan& plan, int64_t first, int64_t count,
                                   DType dtype);

// The nearest value of `dtype` (ties to even), widened.
double RoundTo(DType dtype, double value);

// The distance to the next larger magnitude of `dtype` at |value|; of 0 the smallest subnormal.
double UlpOf(DType dtype, double value);

// How far apart two values are, in units in the last place of the larger one; infinite where one of them is not finite and
// they differ.
double UlpsApart(DType dtype, double a, double b);

// Elements of `dtype`, little-endian, widened. `bytes` holds count of them, aligned or not.
std::vector<double> Widen(DType dtype, const void* bytes, int64_t count);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_NUMBERS_H_
