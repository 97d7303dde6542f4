#include "server/knowledge/bias_curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace phasor::server {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// −inf, the lowest number of the type, −1e9 and the like. f16's lowest is −65504, which a bias may come near to.
bool IsMask(DType dtype, double value) { return value <= (dtype == DType::kF16 ? -65000.0 : -1e8); }

void Widen(BiasCurve& curve, int64_t head, int64_t column, double value) {
  double& low = curve.low[curve.index(head, column)];
  double& high = curve.high[curve.index(head, column)];
  low = std::isnan(low) ? value : std::min(low, value);
  high = std::isnan(high) ? value : std::max(high, value);
}

BiasCurve EmptyCurve(DType dtype, int64_t heads, int64_t first, int64_t count) {
  const auto size = static_cast<size_t>(heads * count);
  return {dtype, heads, count, first, std::vector<double>(size, kNaN), std::vector<double>(size, kNaN)};
}

// Whether a finite constant (−10000, −100 …) stands at every key after its query, and nothing of the past is as low.
std::optional<double> ConstantMask(const InputTensor& tensor, int64_t queries, int64_t keys) {
  std::optional<double> mask;
  double least_past = kInfinity;
  const int64_t rows = static_cast<int64_t>(tensor.values.size()) / keys;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t last = row % queries + keys - queries;
    for (int64_t key = 0; key < keys; ++key) {
      const double value = tensor.values[static_cast<size_t>(row * keys + key)];
      if (key <= last) {
        if (value == value) least_past = std::min(least_past, value);
      } else if (mask && *mask != value) {
        return std::nullopt;
      } else {
        mask = value;
      }
    }
  }
  return mask && *mask <= -50 && *mask < least_past ? mask : std::nullopt;
}

struct Rows {
  const InputTensor& tensor;
  int64_t queries, keys;
  const double* at(int64_t head, int64_t query) const {
    return tensor.values.data() + static_cast<size_t>((head * queries + query) * keys);
  }
};

// Rows that are copies of the row before.
void FindRepeats(const Rows& rows, int64_t heads, BiasView& view) {
  for (int64_t query = 1; query < rows.queries; ++query) {
    bool same = true;
    for (int64_t head = 0; head < heads && same; ++head) {
      const double* row = rows.at(head, query);
      same =
          std::equal(row, row + rows.keys, row - rows.keys, [](double a, double b) { return a == b || (a != a && b != b); });
    }
    if (!same) continue;
    ++view.repeated_rows;
    if (!view.first_repeated_row) view.first_repeated_row = query;
  }
}

void AddRow(const Rows& rows, int64_t head, int64_t query, std::optional<double> constant, BiasView& view) {
  const double* row = rows.at(head, query);
  bool any = false, nan = false;
  for (int64_t key = 0; key < rows.keys; ++key) {
    const double value = row[key];
    const int64_t distance = key - query - (rows.keys - rows.queries);
    if (std::isnan(value) || value == kInfinity) {
      ++view.nans;
      nan = true;
      continue;
    }
    if (IsMask(view.by_distance.dtype, value) || (constant && distance > 0)) {
      ++(distance > 0 ? view.masked_future : view.masked_past);
      view.least_masked = std::min(view.least_masked, value);
      continue;
    }
    any = true;
    Widen(view.by_distance, head, distance - view.by_distance.first, value);
    if (view.by_key) Widen(*view.by_key, head, key, value);
  }
  if (!any && !nan) ++view.empty_rows;
  if ((nan || !any) && (!view.first_bad_row || query < *view.first_bad_row)) view.first_bad_row = query;
}

// Whether the spread at equal distances is rounding only.
bool IsNarrow(const BiasCurve& curve) {
  for (int64_t head = 0; head < curve.heads; ++head) {
    double largest = 0;
    for (int64_t i = 0; i < curve.count; ++i) {
      if (!curve.has(head, i)) continue;
      largest = std::max({largest, std::fabs(curve.low[curve.index(head, i)]), std::fabs(curve.high[curve.index(head, i)])});
    }
    const double allowed = 2 * UlpOf(curve.dtype, largest);
    for (int64_t i = 0; i < curve.count; ++i) {
      if (curve.has(head, i) && curve.high[curve.index(head, i)] - curve.low[curve.index(head, i)] > allowed) return false;
    }
  }
  return true;
}

}  // namespace

double BiasCurve::middle(int64_t head, int64_t column) const {
  const size_t at = index(head, column);
  return low[at] + (high[at] - low[at]) / 2;
}

double BiasCurve::ulp(int64_t head, int64_t column) const {
  const size_t at = index(head, column);
  return UlpOf(dtype, std::max(std::fabs(low[at]), std::fabs(high[at])));
}

BiasCurve BiasCurve::Without(int64_t begin, int64_t end) const {
  BiasCurve left = *this;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < count; ++i) {
      if (i >= begin && i < end) continue;
      left.low[index(head, i)] = left.high[index(head, i)] = kNaN;
    }
  }
  return left;
}

BiasView ViewMatrix(const InputTensor& tensor) {
  BiasView view;
  const size_t axes = tensor.shape.size();
  view.keys = tensor.shape[axes - 1];
  view.queries = axes > 1 ? tensor.shape[axes - 2] : 1;
  const int64_t heads = axes > 2 ? tensor.shape[0] : 1;
  view.first_known = true;
  view.by_distance = EmptyCurve(tensor.dtype, heads, 1 - view.keys, view.keys + view.queries - 1);
  if (view.queries > 1) view.by_key = EmptyCurve(tensor.dtype, heads, 1 - view.keys, view.keys);
  const Rows rows{tensor, view.queries, view.keys};
  const std::optional<double> constant = ConstantMask(tensor, view.queries, view.keys);
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t query = 0; query < view.queries; ++query) AddRow(rows, head, query, constant, view);
  }
  FindRepeats(rows, heads, view);
  view.toeplitz = IsNarrow(view.by_distance);
  if (view.by_key && !IsNarrow(*view.by_key)) view.by_key.reset();
  return view;
}

BiasView ViewVector(const InputTensor& tensor) {
  BiasView view;
  const int64_t count = tensor.shape.back();
  const int64_t heads = static_cast<int64_t>(tensor.values.size()) / count;
  // Of n queries and n keys the vector has 2n − 1 distances, 0 in the middle.
  view.by_distance = EmptyCurve(tensor.dtype, heads, count % 2 == 1 ? -(count / 2) : 1 - count, count);
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t i = 0; i < count; ++i) {
      const double value = tensor.values[static_cast<size_t>(head * count + i)];
      if (std::isnan(value) || value == kInfinity) {
        ++view.nans;
        if (!view.first_bad_row) view.first_bad_row = head;
      } else if (IsMask(tensor.dtype, value)) {
        ++view.masked_past;
        view.least_masked = std::min(view.least_masked, value);
      } else {
        Widen(view.by_distance, head, i, value);
      }
    }
  }
  return view;
}

Match CompareCurve(const BiasCurve& curve, const Grid& made, int64_t first_head) {
  Match match;
  bool any = false;
  if (made.columns != curve.count || first_head + curve.heads > made.rows) return {kInfinity, kInfinity, 0, 0};
  for (int64_t head = 0; head < curve.heads; ++head) {
    for (int64_t i = 0; i < curve.count; ++i) {
      if (!curve.has(head, i)) continue;
      any = true;
      const double value = made.at(first_head + head, i);
      const double low = curve.low[curve.index(head, i)], high = curve.high[curve.index(head, i)];
      if (low == value && high == value) continue;
      const double difference = std::max(std::fabs(low - value), std::fabs(high - value));
      double ulps = difference / std::max(UlpOf(curve.dtype, value), UlpOf(curve.dtype, high));
      if (std::isnan(ulps)) ulps = kInfinity;  // of an overflow
      match.max_difference = std::max(match.max_difference, difference);
      if (ulps > match.max_ulps) match = {ulps, match.max_difference, head, i};
    }
  }
  if (!any) match.max_ulps = kInfinity;
  return match;
}

}  // namespace phasor::server
