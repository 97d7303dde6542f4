// Table windows that no tile of the cache serves.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/program/absolute_rows.h"
#include "kernels/program/angle_rows.h"
#include "server/describe.h"
#include "server/grpc_status.h"
#include "server/positions_parser.h"
#include "server/table_work.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

using MadeWork = absl::StatusOr<std::shared_ptr<TableWork>>;

// Rules that may give fractions or several axes.
bool MayBeSpecial(const v1::Positions& positions) {
  switch (positions.rule_case()) {
    case v1::Positions::kIds:
      return positions.ids().dtype() == v1::DTYPE_F32 || positions.ids().dtype() == v1::DTYPE_F64;
    case v1::Positions::kMultiAxis:
    case v1::Positions::kMrope:
    case v1::Positions::kGrid:
    case v1::Positions::kRemapped:
      return true;
    default:
      return false;
  }
}

// Windows of cached tiles, if their positions are plain.
bool MayBePlain(const v1::TableWindow& window, const EncodingSpec& spec) {
  if (window.indices()) return false;
  if (const auto* rope = std::get_if<RopeSpec>(&spec)) return !rope->axes;
  return std::holds_alternative<SinusoidalSpec>(spec);
}

absl::StatusOr<DType> ParseDType(v1::Dtype dtype, bool indices) {
  const bool integer = dtype == v1::DTYPE_I64 || dtype == v1::DTYPE_I32;
  if (dtype == v1::DTYPE_UNSPECIFIED) return indices ? DType::kI64 : DType::kF32;
  if (indices ? integer : dtype >= v1::DTYPE_F64 && dtype <= v1::DTYPE_BF16) return static_cast<DType>(dtype);
  const std::string given = v1::Dtype_IsValid(dtype) ? v1::Dtype_Name(dtype) : absl::StrCat(static_cast<int>(dtype));
  return InvalidField("dtype", given, indices ? "DTYPE_I64, DTYPE_I32" : "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16");
}

// Coordinates per position that a spec takes.
int64_t AxesOf(const EncodingSpec& spec) {
  const auto* rope = std::get_if<RopeSpec>(&spec);
  if (rope != nullptr) return rope->axes ? static_cast<int64_t>(rope->axes->sections.size()) : 1;
  return AbsoluteAxes(spec);
}

absl::Status AddArray(Slot slot, DType dtype, std::vector<int64_t> shape, const Limits& limits, Work* work) {
  const auto elements = CountElements("table", {shape[0], shape.size() > 1 ? shape[1] : 1}, limits);
  if (!elements.ok()) return elements.status();
  WorkArray array;
  array.slot = slot;
  array.dtype = dtype;
  array.shape = std::move(shape);
  array.bytes = *elements * SizeOf(dtype);
  work->outputs.push_back(std::move(array));
  return absl::OkStatus();
}

// inv_freq, last of the outputs.
absl::Status AddFrequencies(const v1::TableWindow& window, int64_t pairs, const Limits& limits, Work* work) {
  if (!window.include_inv_freq()) return absl::OkStatus();
  return AddArray(Slot::kInvFreq, DType::kF64, {pairs}, limits, work);
}

MadeWork ParseAngles(const v1::TableWindow& window, const RopeSpec& rope, PositionSet positions, DType dtype,
                     const Limits& limits) {
  if (auto status = CheckEnum("table.form", window.form(), v1::TableForm_descriptor()); !status.ok()) return status;
  const auto work = std::make_shared<AngleTableWork>();
  const int64_t pairs = *rope.rotary_dim / 2;
  if (window.form() != v1::TABLE_FORM_UNSPECIFIED) work->form = static_cast<TableForm>(window.form());
  work->columns = work->form == TableForm::kHalf ? pairs : 2 * pairs;
  work->inverse = window.inverse();
  const std::vector<int64_t> shape = {positions.count, work->columns};
  absl::Status status;
  if (work->form == TableForm::kConcatenated) {
    status = AddArray(Slot::kTable, dtype, shape, limits, work.get());
  } else {
    status = AddArray(Slot::kCos, dtype, shape, limits, work.get());
    if (status.ok()) status = AddArray(Slot::kSin, dtype, shape, limits, work.get());
  }
  if (status.ok()) status = AddFrequencies(window, pairs, limits, work.get());
  if (!status.ok()) return status;
  work->scratch_bytes = AngleScratchBytes(pairs, work->form, work->columns, positions.count, dtype);
  work->key = absl::StrCat("angles,", static_cast<int>(work->form), ",", work->inverse, ",", KeyOf(positions));
  work->dtype = dtype;
  work->positions = std::move(positions);
  return work;
}

// Frequencies that a spec's inv_freq lists; −1 where it has none.
int64_t FrequenciesOf(const EncodingSpec& spec) {
  if (const auto* s = std::get_if<SinusoidalSpec>(&spec)) {
    return *s->spacing == SinusoidalSpacing::kEndpointInclusive ? s->dim / 2 : (s->dim + 1) / 2;
  }
  if (const auto* s = std::get_if<TimestepSpec>(&spec)) return s->dim / 2;
  if (const auto* s = std::get_if<GridSinusoidalSpec>(&spec)) return s->dim / 2;
  return -1;
}

// Fields of the window that rows of an absolute encoding have no use for.
absl::Status CheckAbsoluteWindow(const v1::TableWindow& window, const EncodingSpec& spec) {
  if (window.form() != v1::TABLE_FORM_UNSPECIFIED) {
    const std::string given = v1::TableForm_IsValid(window.form()) ? v1::TableForm_Name(window.form())
                                                                   : absl::StrCat(static_cast<int>(window.form()));
    return InvalidField("table.form", given, "unset: the layout of rows is part of their spec");
  }
  if (window.inverse()) return InvalidField("table.inverse", "true", "unset: only rotations have an inverse");
  if (window.include_inv_freq() && FrequenciesOf(spec) < 0) {
    return InvalidField("table.include_inv_freq", "true", "unset: the scheme has no list of frequencies");
  }
  if (window.indices() && !std::holds_alternative<LearnedSpec>(spec)) {
    return InvalidField("table.indices", "true", "unset: only learned tables have numbered rows");
  }
  const auto* learned = std::get_if<LearnedSpec>(&spec);
  if (learned != nullptr && !learned->table && !window.indices()) {
    return InvalidField("spec.weights", "nothing", "\"table\" [rows, dim]; without it only table.indices can be asked for");
  }
  return absl::OkStatus();
}

MadeWork ParseAbsolute(const v1::TableWindow& window, const EncodingSpec& spec, PositionSet positions, DType dtype,
                       const Limits& limits) {
  if (auto status = CheckAbsoluteWindow(window, spec); !status.ok()) return status;
  const AbsolutePositions at = AbsoluteOf(positions);
  if (auto status = CheckAbsolute(spec, at); !status.ok()) {
    const auto error = SpecErrorOf(status);
    return error ? InvalidField("table.positions", error->given, error->allowed) : status;
  }
  std::shared_ptr<TableWork> work;
  absl::Status status;
  if (window.indices()) {
    work = std::make_shared<IndexTableWork>();
    status = AddArray(Slot::kTable, dtype, {positions.count}, limits, work.get());
  } else {
    work = std::make_shared<AbsoluteTableWork>();
    status = AddArray(Slot::kTable, dtype, {positions.count, AbsoluteColumns(spec)}, limits, work.get());
    if (status.ok()) status = AddFrequencies(window, FrequenciesOf(spec), limits, work.get());
    work->scratch_bytes = AbsoluteScratchBytes(spec, at, dtype);
  }
  if (!status.ok()) return status;
  work->key = absl::StrCat(window.indices() ? "indices," : "rows,", LayoutOf(spec), ",", KeyOf(positions));
  work->dtype = dtype;
  work->positions = std::move(positions);
  return work;
}

}  // namespace

std::string LayoutOf(const EncodingSpec& spec) {
  if (const auto* s = std::get_if<SinusoidalSpec>(&spec)) {
    return absl::StrCat("sinusoidal,", static_cast<int>(*s->layout), ",", *s->position_offset, ",",
                        s->padding_row ? absl::StrCat(*s->padding_row) : "none");
  }
  if (const auto* s = std::get_if<TimestepSpec>(&spec)) {
    return absl::StrCat("timestep,", s->flip_sin_to_cos, ",", *s->scale < 0);
  }
  if (const auto* s = std::get_if<GaussianFourierSpec>(&spec)) return absl::StrCat("fourier,", s->flip_sin_to_cos);
  if (const auto* s = std::get_if<LearnedSpec>(&spec)) {
    return absl::StrCat("learned,", *s->position_offset, ",", s->padding_row ? absl::StrCat(*s->padding_row) : "none");
  }
  return "grid";  // its plan says all
}

ParsedWork ParseTableWork(const v1::PrecomputeItem& message, const TableSource& source, ParseContext& context) {
  const v1::TableWindow& window = message.table();
  const EncodingSpec& spec = source.spec.spec;
  if (HasRoles(spec)) return ParseRotationTableWork(message, source, context);
  if (window.role() != v1::TENSOR_ROLE_UNSPECIFIED) {
    return InvalidField("table.role", v1::TensorRole_Name(window.role()), "unset: queries and keys share this table");
  }
  const bool may_be_plain = MayBePlain(window, spec);
  if (may_be_plain && !MayBeSpecial(window.positions())) return nullptr;
  const auto dtype = ParseDType(message.dtype(), window.indices());
  if (!dtype.ok()) return dtype.status();
  const int64_t ids_left = context.ids_left;
  absl::StatusOr<ParsedPositions> parsed = ParsePositions(window.positions(), "table.positions", std::nullopt, context);
  if (!parsed.ok()) return parsed.status();
  if (may_be_plain && parsed->set.is_plain() && parsed->rope_delta.empty()) {
    context.ids_left = ids_left;  // read again where plain windows are
    return nullptr;
  }
  const int64_t axes = AxesOf(spec);
  if (parsed->set.axes() != axes) {
    return InvalidField("table.positions", absl::StrCat(parsed->set.axes(), parsed->set.axes() == 1 ? " axis" : " axes"),
                        absl::StrCat(axes, ", as the spec has"));
  }
  const int64_t position_bytes = parsed->set.bytes();
  const double last = parsed->set.last();
  const auto* rope = std::get_if<RopeSpec>(&spec);
  if (rope != nullptr && window.indices()) {
    return InvalidField("table.indices", "true", "unset: only learned tables have numbered rows");
  }
  MadeWork made = rope != nullptr ? ParseAngles(window, *rope, std::move(parsed->set), *dtype, context.limits)
                                  : ParseAbsolute(window, spec, std::move(parsed->set), *dtype, context.limits);
  if (!made.ok()) return made.status();
  TableWork& work = **made;
  work.sources = {source};
  work.position_bytes = position_bytes;
  work.rope_delta = std::move(parsed->rope_delta);
  work.warnings = WarningsFor(source, last, "table.positions");
  return *std::move(made);
}

}  // namespace phasor::server
