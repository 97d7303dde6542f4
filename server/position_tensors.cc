// Positions that travel as tensors: ids, masks, several axes.
#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "server/grpc_status.h"
#include "server/position_draft.h"
#include "server/tensor_parser.h"

namespace phasor::server {
namespace {

constexpr std::array kIdTypes = {DType::kI32, DType::kI64, DType::kF32, DType::kF64};
constexpr std::array kMaskTypes = {DType::kBool, DType::kI32, DType::kI64};

// Rows move together; strides are at least the rows' length, so no element is overwritten before it is read.
template <typename T>
void Compact(const ParsedTensor& tensor, int64_t rows, int64_t columns, std::vector<T>& values) {
  if (!tensor.dense && tensor.shape.size() == 2 && tensor.elements > 0) {
    const auto at = values.begin();
    for (int64_t row = 0; row < rows; ++row) std::copy_n(at + row * tensor.strides[0], columns, at + row * columns);
  }
  values.resize(static_cast<size_t>(tensor.elements));
}

// [columns] or [rows, columns], into an axis of `draft`.
absl::Status ReadAxis(const v1::Tensor& message, std::string field, std::span<const DType> types, bool may_be_matrix,
                      const PositionScope& scope, PositionDraft* draft) {
  const absl::StatusOr<ParsedTensor> tensor = ParseTensor(message, field, types, Storage::kRequired, scope.context);
  if (!tensor.ok()) return tensor.status();
  const size_t axes = tensor->shape.size();
  if (axes != 1 && !(axes == 2 && may_be_matrix)) {
    return InvalidField(absl::StrCat(field, ".shape"), absl::StrCat(axes, " axes"),
                        may_be_matrix ? "[count] or [batch, count]" : "[count]");
  }
  const int64_t stored = tensor->bytes / SizeOf(tensor->dtype);
  if (auto status = scope.Expand(field, std::max(stored, tensor->elements)); !status.ok()) return status;
  draft->rows = axes == 2 ? tensor->shape[0] : 1;
  draft->columns = tensor->shape[axes - 1];
  draft->field = field;
  DraftAxis axis;
  axis.field = std::move(field);
  if (IsFloat(tensor->dtype)) {
    axis.fractional = DecodeFloats(*tensor);
    Compact(*tensor, draft->rows, draft->columns, axis.fractional);
  } else {
    axis.ids = DecodeIntegers(*tensor);
    Compact(*tensor, draft->rows, draft->columns, axis.ids);
  }
  draft->axes.push_back(std::move(axis));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PositionDraft> DraftIds(const v1::Tensor& ids, const PositionScope& scope) {
  PositionDraft draft;
  const bool may_be_matrix = scope.tokens.has_value();
  if (auto status = ReadAxis(ids, scope.At("ids"), kIdTypes, may_be_matrix, scope, &draft); !status.ok()) return status;
  return draft;
}

absl::StatusOr<PositionDraft> DraftMultiAxis(const v1::MultiAxisPositions& positions, const PositionScope& scope) {
  const std::string field = scope.At("multi_axis.axes");
  if (positions.axes_size() < 2 || positions.axes_size() > kMaxAxes) {
    return InvalidField(field, positions.axes().empty() ? "nothing" : absl::StrCat(positions.axes_size(), " axes"),
                        absl::StrCat("2 … ", kMaxAxes, " axes"));
  }
  PositionDraft draft;
  for (int a = 0; a < positions.axes_size(); ++a) {
    const int64_t rows = draft.rows, columns = draft.columns;
    const std::string path = absl::StrCat(field, "[", a, "]");
    if (auto status = ReadAxis(positions.axes(a), path, kIdTypes, scope.tokens.has_value(), scope, &draft); !status.ok()) {
      return status;
    }
    if (a > 0 && (draft.rows != rows || draft.columns != columns)) {
      return InvalidField(absl::StrCat(path, ".shape"),
                          absl::StrCat("[", absl::StrJoin(positions.axes(a).shape(), ", "), "]"),
                          absl::StrCat("[", absl::StrJoin(positions.axes(0).shape(), ", "), "], as axes[0]"));
    }
  }
  draft.field = field;
  return draft;
}

absl::StatusOr<PositionDraft> DraftMask(const v1::MaskPositions& mask, const PositionScope& scope) {
  if (scope.tokens && scope.tokens->packed_axis) {
    return InvalidField(scope.At("mask"), "a mask for LAYOUT_THD", "range, list, ids or packed");
  }
  const int64_t pad = mask.has_pad_position() ? mask.pad_position() : 0;
  if (pad != 0 && pad != 1) return InvalidField(scope.At("mask.pad_position"), absl::StrCat(pad), "0 or 1");
  if (scope.tokens && mask.mask().shape_size() != 2) {
    return InvalidField(scope.At("mask.mask.shape"), absl::StrCat(mask.mask().shape_size(), " axes"), "[batch, sequence]");
  }
  if (!mask.has_mask()) return InvalidField(scope.At("mask.mask"), "nothing", "a tensor of 0 and 1");
  PositionDraft draft;
  if (auto status = ReadAxis(mask.mask(), scope.At("mask.mask"), kMaskTypes, true, scope, &draft); !status.ok()) {
    return status;
  }
  std::vector<int64_t>& ids = draft.axes[0].ids;
  draft.hidden.resize(ids.size());
  for (int64_t row = 0; row < draft.rows; ++row) {
    int64_t ones = 0;
    for (int64_t column = 0; column < draft.columns; ++column) {
      const auto index = static_cast<size_t>(row * draft.columns + column);
      const int64_t bit = ids[index];
      if (bit != 0 && bit != 1) {
        return InvalidField(absl::StrCat(draft.field, "[", row, ", ", column, "]"), absl::StrCat(bit), "0 or 1");
      }
      ones += bit;
      ids[index] = bit == 1 ? ones - 1 : pad;
      draft.hidden[index] = bit == 0;
    }
  }
  return draft;
}

}  // namespace phasor::server
