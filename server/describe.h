// What can be said of a result before it is made: width, shapes, fingerprint, warnings.
#ifndef PHASOR_SERVER_DESCRIBE_H_
#define PHASOR_SERVER_DESCRIBE_H_

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

#include "server/call_context.h"
#include "server/engine.h"
#include "server/plan_cache.h"
#include "server/request.h"

namespace phasor::server {

// How the rows of a window relate to those of the plan's table.
struct TableShape {
  int64_t offset = 0;               // position p reads row p + offset
  std::optional<int64_t> zero_row;  // that row is all zeros; set when the window has it
  int64_t columns = 0;              // of one output array
  bool two_arrays = false;          // cos and sin; else one table
};

// INVALID_ARGUMENT (with SpecError) when the offset moves a position out of ±(2^31 − 1).
absl::StatusOr<TableShape> ShapeOfTable(const CanonicalSpec& spec, const AnglePlan& plan, const TableRequest& request);

// Distances (key − query) of a bias window: entry e of a vector or row is distance first + e.
struct BiasShape {
  int64_t first = 0;
  int64_t count = 0;
  int64_t last() const { return first + count - 1; }
};
BiasShape ShapeOfBias(const BiasRequest& request);

// The largest position of the queries and keys of a bias, and the field that it comes from. Where both have it, the keys'.
struct LastPosition {
  int64_t position = -1;
  std::string_view field;
};
// Of a window without positions of its own.
LastPosition LastOf(const BiasRequest& request);

// Whether `count` positions starting at `row` are consecutive numbers.
inline bool Consecutive(const PositionSet& positions) {
  return positions.ids.empty() && (positions.stride == 1 || positions.count <= 1);
}

// The spec's warnings with "spec." before their fields, and one when `largest`, the largest position, is beyond the maximum
// that the schedule knows of (`field` then names the positions). Nothing is beyond it where `largest` is −1.
std::vector<Note> WarningsFor(const TableSource& source, double largest, std::string_view field);

// Everything but data, cache outcome and times: arrays have their shapes. Millions of ids take a while, in which the status
// of `call` is looked at.
absl::Status DescribePrecompute(const PrecomputeItem& item, const PlanEntry& plan, const CallContext& call,
                                PrecomputeResult* result);
absl::Status DescribeApply(const ApplyItem& item, const PlanEntry& plan, const CallContext& call, ApplyResult* result);

// The type of the table that rotates a tensor of `dtype`.
constexpr DType TableTypeFor(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

}  // namespace phasor::server

#endif  // PHASOR_SERVER_DESCRIBE_H_
