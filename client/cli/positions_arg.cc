#include "client/cli/positions_arg.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "client/cli/array_file.h"
#include "client/cli/tool.h"
#include "kernels/core/checked_math.h"

namespace phasor::cli {
namespace {

constexpr int64_t kMaxGridPoints = int64_t{1} << 26;

absl::Status Bad(const std::string& given) {
  return UsageError(absl::StrCat(
      "--positions: given '", given,
      "'; allowed: START:STOP, START:STOP:STEP (STOP not included), a list such as 0,5,17 or 0.5,1.25, a grid such as "
      "grid:16x24, or a .npy file of [count] or [axes, count]"));
}

int64_t At(const PositionsArg& positions, int64_t row) {
  return positions.ids.empty() ? positions.start + row * positions.stride : positions.ids[static_cast<size_t>(row)];
}

// As many digits as it takes to tell the number from its neighbours.
std::string Shortest(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof text, value).ptr);
}

template <typename T>
void FillTensor(const std::vector<T>& values, int64_t begin, int64_t end, v1::Dtype dtype, v1::Tensor* tensor) {
  tensor->set_dtype(dtype);
  tensor->add_shape(end - begin);
  tensor->set_data(reinterpret_cast<const char*>(values.data() + begin), static_cast<size_t>(end - begin) * sizeof(T));
}

void FillAxis(const AxisArg& axis, int64_t begin, int64_t end, v1::Tensor* tensor) {
  if (axis.fractional.empty()) {
    FillTensor(axis.ids, begin, end, v1::DTYPE_I64, tensor);
  } else {
    FillTensor(axis.fractional, begin, end, v1::DTYPE_F64, tensor);
  }
}

absl::StatusOr<PositionsArg> FromGrid(const std::string& text) {
  std::vector<int64_t> extents;
  for (const absl::string_view part : absl::StrSplit(text.substr(5), 'x')) {
    int64_t extent = 0;
    if (!absl::SimpleAtoi(part, &extent) || extent < 1) return Bad(text);
    extents.push_back(extent);
  }
  const auto points = CheckedElements(extents);
  if (extents.size() < 2 || extents.size() > 4 || !points || *points > kMaxGridPoints) return Bad(text);
  PositionsArg positions;
  positions.count = *points;
  int64_t inner = *points;
  for (const int64_t extent : extents) {
    inner /= extent;
    AxisArg axis;
    axis.ids.reserve(static_cast<size_t>(*points));
    for (int64_t row = 0; row < *points; ++row) axis.ids.push_back(row / inner % extent);
    positions.axes.push_back(std::move(axis));
  }
  return positions;
}

// `count` numbers of an array from element `first` on.
absl::Status ReadAxis(const LoadedArray& array, int64_t first, int64_t count, const std::string& path, AxisArg* axis) {
  const char* const bytes = reinterpret_cast<const char*>(array.data.data());
  const auto read = [&]<typename From, typename To>(From, std::vector<To>* to) {
    for (int64_t i = first; i < first + count; ++i) {
      From value;
      std::memcpy(&value, bytes + i * static_cast<int64_t>(sizeof(From)), sizeof(From));
      to->push_back(static_cast<To>(value));
    }
  };
  switch (array.info.dtype) {
    case DType::kI32:
      read(int32_t{}, &axis->ids);
      return absl::OkStatus();
    case DType::kI64:
      read(int64_t{}, &axis->ids);
      return absl::OkStatus();
    case DType::kF32:
      read(float{}, &axis->fractional);
      return absl::OkStatus();
    case DType::kF64:
      read(double{}, &axis->fractional);
      return absl::OkStatus();
    default:
      return UsageError(absl::StrCat("--positions: given ", path, " of type ", std::string(Name(array.info.dtype)),
                                     "; allowed: i32, i64, f32, f64"));
  }
}

absl::StatusOr<PositionsArg> FromFile(const std::string& path) {
  const auto arrays = ReadArrays(path, ArrayFormat::kNpy);
  if (!arrays.ok()) return arrays.status();
  const LoadedArray& array = arrays->front();
  const std::vector<int64_t>& shape = array.info.shape;
  const bool one_axis = shape.size() == 1;
  const bool several = shape.size() == 2 && shape[0] >= 2 && shape[0] <= 4;
  if (!one_axis && !several) {
    return UsageError(absl::StrCat("--positions: given ", path, " of shape [", absl::StrJoin(shape, ", "),
                                   "]; allowed: [count], or [axes, count] with 2 to 4 axes"));
  }
  PositionsArg positions;
  positions.count = shape.back();
  for (int64_t a = 0; a < (one_axis ? 1 : shape[0]); ++a) {
    AxisArg axis;
    if (auto status = ReadAxis(array, a * positions.count, positions.count, path, &axis); !status.ok()) return status;
    positions.axes.push_back(std::move(axis));
  }
  if (one_axis && positions.axes[0].fractional.empty()) {
    positions.ids = std::move(positions.axes[0].ids);
    positions.axes.clear();
  }
  return positions;
}

absl::StatusOr<PositionsArg> FromList(const std::string& text) {
  PositionsArg positions;
  AxisArg fractional;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    int64_t id = 0;
    double fraction = 0;
    const bool whole = absl::SimpleAtoi(part, &id);
    if (!whole && !absl::SimpleAtod(part, &fraction)) return Bad(text);
    positions.ids.push_back(id);
    fractional.fractional.push_back(whole ? static_cast<double>(id) : fraction);
    if (!whole && positions.axes.empty()) positions.axes.emplace_back();
  }
  positions.count = static_cast<int64_t>(positions.ids.size());
  if (positions.axes.empty()) return positions;
  positions.ids.clear();
  positions.axes = {std::move(fractional)};
  return positions;
}

}  // namespace

std::string PositionsArg::Text(int64_t row) const {
  if (axes.empty()) return absl::StrCat(At(*this, row));
  const auto index = static_cast<size_t>(row);
  const std::string list = absl::StrJoin(axes, ", ", [index](std::string* out, const AxisArg& axis) {
    absl::StrAppend(out, axis.fractional.empty() ? absl::StrCat(axis.ids[index]) : Shortest(axis.fractional[index]));
  });
  return axes.size() == 1 ? list : absl::StrCat("[", list, "]");
}

v1::Positions PositionsArg::Window(int64_t begin, int64_t end) const {
  v1::Positions positions;
  if (axes.size() == 1) {
    FillAxis(axes[0], begin, end, positions.mutable_ids());
    return positions;
  }
  if (!axes.empty()) {
    for (const AxisArg& axis : axes) FillAxis(axis, begin, end, positions.mutable_multi_axis()->add_axes());
    return positions;
  }
  if (!ids.empty()) {
    for (int64_t i = begin; i < end; ++i) positions.mutable_list()->add_ids(ids[static_cast<size_t>(i)]);
    return positions;
  }
  positions.mutable_range()->set_start(start + begin * stride);
  positions.mutable_range()->set_count(end - begin);
  positions.mutable_range()->set_stride(stride);
  return positions;
}

absl::StatusOr<PositionsArg> ParsePositions(const std::string& text) {
  if (text.starts_with("grid:")) return FromGrid(text);
  if (text.ends_with(".npy")) return FromFile(text);
  if (text.find(':') == std::string::npos) return FromList(text);
  PositionsArg positions;
  const std::vector<std::string> parts = absl::StrSplit(text, ':');
  int64_t stop = 0;
  if (parts.size() > 3 || !absl::SimpleAtoi(parts[0], &positions.start) || !absl::SimpleAtoi(parts[1], &stop))
    return Bad(text);
  if (parts.size() == 3 && (!absl::SimpleAtoi(parts[2], &positions.stride) || positions.stride == 0)) return Bad(text);
  // Far beyond what the server takes, and near enough for differences and quotients.
  constexpr int64_t kFar = int64_t{1} << 61;
  if (std::max(positions.start, stop) > kFar || std::min(positions.start, stop) < -kFar) return Bad(text);
  const int64_t span = stop - positions.start, step = positions.stride;
  if ((step > 0) == (span > 0) && span != 0) positions.count = span / step + (span % step != 0 ? 1 : 0);
  return positions;
}

}  // namespace phasor::cli
