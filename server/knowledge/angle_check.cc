#include "server/knowledge/angle_check.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace phasor::server {
namespace {

constexpr int64_t kBlock = 1024;  // rows made at a time

void Count(DType dtype, double have, double made, double& row_ulps, Difference& difference) {
  if (have == made) return;
  const double ulps = UlpsApart(dtype, have, made);
  row_ulps = std::max(row_ulps, ulps);
  difference.max_difference = std::isfinite(ulps) ? std::max(difference.max_difference, std::fabs(have - made)) : HUGE_VAL;
}

void CountRow(const PairTable& table, const Angles& made, int64_t row, int64_t made_row, Difference& difference) {
  double ulps = 0;
  for (int64_t i = 0; i < table.pairs; ++i) {
    if (!table.cos.empty()) Count(table.dtype, table.cos_at(row, i), made.cos.at(made_row, i), ulps, difference);
    if (!table.sin.empty()) Count(table.dtype, table.sin_at(row, i), made.sin.at(made_row, i), ulps, difference);
  }
  difference.max_ulps = std::max(difference.max_ulps, ulps);
  if (ulps <= 1) return;
  if (difference.bad_rows++ == 0) difference.first_bad_row = row;
}

}  // namespace

std::vector<Rows> SampleOf(Rows rows) {
  constexpr int64_t kEach = 4, kPlaces = 5;
  const int64_t count = rows.end - rows.begin;
  if (count <= kEach * kPlaces) return {rows};
  std::vector<Rows> sample;
  for (int64_t k = 0; k < kPlaces; ++k) {
    const int64_t begin = rows.begin + k * (count - kEach) / (kPlaces - 1);
    sample.push_back({begin, begin + kEach});
  }
  return sample;
}

absl::StatusOr<Difference> CompareRows(const Backend& backend, const PairTable& table, const AnglePlan& plan, int64_t start,
                                       std::span<const Rows> rows) {
  Difference difference;
  for (const Rows& range : rows) {
    for (int64_t begin = range.begin; begin < range.end; begin += kBlock) {
      const int64_t count = std::min(kBlock, range.end - begin);
      const auto made = MakeAngles(backend, plan, start + begin, count, table.dtype);
      if (!made.ok()) return made.status();
      for (int64_t k = 0; k < count; ++k) CountRow(table, *made, begin + k, k, difference);
    }
  }
  return difference;
}

absl::StatusOr<Angles> AnglesAt(const Backend& backend, const AnglePlan& plan, std::span<const int64_t> positions,
                                DType dtype) {
  const auto count = static_cast<int64_t>(positions.size());
  Angles all{{count, plan.pairs(), {}}, {count, plan.pairs(), {}}};
  for (size_t k = 0; k < positions.size();) {
    size_t end = k + 1;
    while (end < positions.size() && positions[end] == positions[end - 1] + 1) ++end;
    const auto made = MakeAngles(backend, plan, positions[k], static_cast<int64_t>(end - k), dtype);
    if (!made.ok()) return made.status();
    all.cos.values.insert(all.cos.values.end(), made->cos.values.begin(), made->cos.values.end());
    all.sin.values.insert(all.sin.values.end(), made->sin.values.begin(), made->sin.values.end());
    k = end;
  }
  return all;
}

absl::StatusOr<Difference> ComparePositions(const Backend& backend, const PairTable& table, const AnglePlan& plan,
                                            std::span<const int64_t> positions, int64_t first_row) {
  const auto made = AnglesAt(backend, plan, positions, table.dtype);
  if (!made.ok()) return made.status();
  Difference difference;
  for (int64_t k = 0; k < static_cast<int64_t>(positions.size()); ++k) {
    CountRow(table, *made, first_row + k, k, difference);
  }
  return difference;
}

absl::StatusOr<Difference> CompareAbsolute(const Backend& backend, const InputTensor& tensor, const EncodingSpec& canonical,
                                           const Plan& plan, int64_t start) {
  const int64_t columns = tensor.shape.back(), rows = static_cast<int64_t>(tensor.values.size()) / columns;
  Difference difference;
  for (int64_t begin = 0; begin < rows; begin += kBlock) {
    const int64_t count = std::min(kBlock, rows - begin);
    const auto made = MakeRows(backend, canonical, plan, start + begin, count, tensor.dtype);
    if (!made.ok()) return made.status();
    if (made->columns != columns) return absl::InternalError("an absolute table of another width");
    for (int64_t k = 0; k < count; ++k) {
      double ulps = 0;
      for (int64_t i = 0; i < columns; ++i) {
        Count(tensor.dtype, tensor.values[static_cast<size_t>((begin + k) * columns + i)], made->at(k, i), ulps, difference);
      }
      difference.max_ulps = std::max(difference.max_ulps, ulps);
      if (ulps > 1 && difference.bad_rows++ == 0) difference.first_bad_row = begin + k;
    }
  }
  return difference;
}

}  // namespace phasor::server
