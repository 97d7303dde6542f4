#include "server/positions.h"

#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include "absl/strings/str_cat.h"

#include "server/fingerprint.h"

namespace phasor::server {
namespace {

PositionSource SourceOf(int64_t start, int64_t stride, std::span<const int64_t> ids, std::span<const double> fractional,
                        int64_t first_row) {
  PositionSource source;
  if (!fractional.empty()) {
    source.fractional_ids = fractional.subspan(static_cast<size_t>(first_row));
  } else if (!ids.empty()) {
    source.ids = ids.subspan(static_cast<size_t>(first_row));
  } else {
    source.start = start + first_row * stride;
    source.stride = stride;
  }
  return source;
}

int64_t BytesOf(const std::vector<int64_t>& ids, const std::vector<double>& fractional) {
  return static_cast<int64_t>(ids.size() * sizeof(int64_t) + fractional.size() * sizeof(double));
}

template <typename T>
std::string DigestOf(const std::vector<T>& list) {
  return Sha256(std::string_view(reinterpret_cast<const char*>(list.data()), list.size() * sizeof(T)));
}

// The step of a list, where there is one.
std::optional<int64_t> StepOf(const std::vector<int64_t>& ids) {
  if (ids.size() < 2) return 1;
  const int64_t step = ids[1] - ids[0];
  for (size_t i = 2; i < ids.size(); ++i) {
    if (ids[i] - ids[i - 1] != step) return std::nullopt;
  }
  return step;
}

std::string KeyOfAxis(int64_t count, int64_t start, int64_t stride, const std::vector<int64_t>& ids,
                      const std::vector<double>& fractional) {
  if (!fractional.empty()) return DigestOf(fractional).append("f");
  if (!ids.empty()) {
    const std::optional<int64_t> step = StepOf(ids);
    if (!step) return DigestOf(ids).append("i");
    start = ids[0];
    stride = *step;
  }
  if (count == 0) start = 0;
  return absl::StrCat(start, ",", count < 2 ? 1 : stride, "r");
}

}  // namespace

PositionSource AxisPositions::Source(int64_t first_row) const { return SourceOf(start, stride, ids, fractional, first_row); }

PositionSource PositionSet::Source(int64_t axis, int64_t first_row) const {
  if (axis == 0) return SourceOf(start, stride, ids, fractional, first_row);
  return more_axes[static_cast<size_t>(axis - 1)].Source(first_row);
}

PositionSet PositionSet::Rows(int64_t first, int64_t n) const {
  const auto cut = [&](const auto& list) {
    return list.empty() ? list : std::decay_t<decltype(list)>(list.begin() + first, list.begin() + first + n);
  };
  PositionSet rows;
  rows.start = start + first * stride;
  rows.stride = stride;
  rows.count = n;
  rows.ids = cut(ids);
  rows.largest = largest;
  rows.largest_fraction = largest_fraction;
  rows.fractional = cut(fractional);
  for (const AxisPositions& axis : more_axes) {
    rows.more_axes.push_back({axis.start + first * axis.stride, axis.stride, cut(axis.ids), cut(axis.fractional)});
  }
  rows.hidden = cut(hidden);
  return rows;
}

AbsolutePositions AbsoluteOf(const PositionSet& positions) {
  AbsolutePositions at;
  at.source = positions.Source(0);
  at.axis_count = positions.axes();
  for (int64_t axis = 1; axis < at.axis_count; ++axis) at.more_axes[static_cast<size_t>(axis - 1)] = positions.Source(axis);
  at.hidden = positions.hidden;
  at.rows = positions.count;
  return at;
}

int64_t PositionSet::bytes() const {
  int64_t total = BytesOf(ids, fractional) + static_cast<int64_t>(hidden.size());
  for (const AxisPositions& axis : more_axes) total += BytesOf(axis.ids, axis.fractional);
  return total;
}

bool EvenlySpaced(const PositionSet& positions, int64_t* stride) {
  const std::optional<int64_t> step = positions.ids.empty() ? positions.stride : StepOf(positions.ids);
  if (!step) return false;
  *stride = positions.count < 2 ? 1 : *step;
  return true;
}

std::string KeyOf(const PositionSet& positions) {
  std::string key = absl::StrCat(positions.count, ",");
  key += KeyOfAxis(positions.count, positions.start, positions.stride, positions.ids, positions.fractional);
  for (const AxisPositions& axis : positions.more_axes) {
    key += KeyOfAxis(positions.count, axis.start, axis.stride, axis.ids, axis.fractional);
  }
  if (!positions.hidden.empty()) key.append(DigestOf(positions.hidden)).append("h");
  return key;
}

}  // namespace phasor::server
