// Adding an encoding to tensors.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "kernels/program/absolute_rows.h"
#include "server/add_key.h"
#include "server/add_work.h"
#include "server/describe.h"
#include "server/domain_ends.h"
#include "server/grid_points.h"
#include "server/grpc_status.h"
#include "server/positions_parser.h"
#include "server/tensor_parser.h"
#include "server/weight_parser.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

constexpr std::array kTensorTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

class AddParser {
 public:
  AddParser(const v1::ApplyItem& message, ParseContext& context)
      : message_(message), add_(message.add()), context_(context), work_(std::make_shared<AddWork>()) {}

  absl::StatusOr<std::shared_ptr<const Work>> Parse() {
    for (const auto step : {&AddParser::ParseSpec, &AddParser::ParseTensors, &AddParser::ParsePlaces, &AddParser::ParseScale,
                            &AddParser::ParseDropout, &AddParser::ParseGate, &AddParser::ParseEnds}) {
      if (absl::Status status = (this->*step)(); !status.ok()) return status;
    }
    work_->PlaceNumbers();
    work_->key = KeyOfAdd(add_, *work_);
    return std::shared_ptr<const Work>(std::move(work_));
  }

 private:
  absl::Status ParseSpec() {
    if (message_.roles_size() > 0) return InvalidField("roles", "roles", "none with the operation add");
    if (message_.has_table()) return InvalidField("table", "a table", "none with the operation add");
    if (message_.table_pairing() != v1::PAIRING_UNSPECIFIED) {
      return InvalidField("table_pairing", absl::StrCat(int64_t{message_.table_pairing()}), "unset: rows have no pairs");
    }
    absl::StatusOr<TableSource> source = ParseSourceOf(message_, context_);
    if (!source.ok()) return source.status();
    if (absl::Status status = CheckScheme(*source, "spec"); !status.ok()) return status;
    dim_ = AbsoluteColumns(source->spec.spec);
    main_ = *source;
    if (!add_.backward()) work_->sources.push_back(*std::move(source));
    return absl::OkStatus();
  }

  static absl::Status CheckScheme(const TableSource& source, const std::string& field) {
    const EncodingSpec& spec = source.spec.spec;
    if (!IsAbsolute(spec)) {
      return InvalidField(field, "a scheme whose rows are not added to x",
                          "sinusoidal, timestep, gaussian_fourier, learned, grid_sinusoidal, distilled");
    }
    const auto* learned = std::get_if<LearnedSpec>(&spec);
    if (learned != nullptr && !learned->table) {
      return InvalidField(field + ".weights", "nothing", "\"table\" [rows, dim]: its rows are added");
    }
    return absl::OkStatus();
  }

  absl::Status ParseTensors() {
    if (auto status = CheckEnum("layout", message_.layout(), v1::Layout_descriptor()); !status.ok()) return status;
    layout_ = message_.layout() == v1::LAYOUT_UNSPECIFIED ? v1::LAYOUT_BSD : message_.layout();
    if (layout_ != v1::LAYOUT_BSD && layout_ != v1::LAYOUT_SBD && layout_ != v1::LAYOUT_TD) {
      return InvalidField("layout", v1::Layout_Name(layout_), "LAYOUT_BSD, LAYOUT_SBD, LAYOUT_TD");
    }
    const int64_t most = context_.limits.max_tensors_per_item;
    if (message_.tensors().empty()) return InvalidField("tensors", "nothing", absl::StrCat("1 … ", most, " tensors"));
    if (auto status = CheckLimit("tensors", message_.tensors_size(), "max_tensors_per_item", most, "tensors");
        !status.ok()) {
      return status;
    }
    for (int i = 0; i < message_.tensors_size(); ++i) {
      if (auto status = ParseInput(i); !status.ok()) return status;
    }
    const auto count = CheckedMul(batch_, sequence_);
    return CheckLimit("tensors[0].shape", count.value_or(int64_t{1} << 62), "max_positions", context_.limits.max_positions,
                      "positions (tokens)");
  }

  absl::Status ParseInput(int i) {
    const std::string path = absl::StrCat("tensors[", i, "]");
    absl::StatusOr<ParsedTensor> tensor =
        ParseTensor(message_.tensors(i), path, kTensorTypes,
                    context_.validate_only ? Storage::kOptional : Storage::kRequired, context_, Sharing::kServed);
    if (!tensor.ok()) return tensor.status();
    const bool packed = layout_ == v1::LAYOUT_TD;
    const size_t rank = packed ? 2 : 3;
    if (tensor->shape.size() != rank) {
      const char* letters = packed                      ? " axes [tokens, channels]"
                            : layout_ == v1::LAYOUT_SBD ? " axes [sequence, batch, channels]"
                                                        : " axes [batch, sequence, channels]";
      return InvalidField(absl::StrCat(path, ".shape"), absl::StrCat(tensor->shape.size(), " axes"),
                          absl::StrCat(rank, letters));
    }
    if (tensor->shape.back() != dim_) {
      return InvalidField(absl::StrCat(path, ".shape[", rank - 1, "]"), absl::StrCat(tensor->shape.back()),
                          absl::StrCat(dim_, ", the spec's dim"));
    }
    const size_t sequence_axis = layout_ == v1::LAYOUT_BSD ? 1 : 0;
    const size_t batch_axis = 1 - sequence_axis;
    const int64_t batch = packed ? 1 : tensor->shape[batch_axis];
    if (i == 0) {
      batch_ = batch;
      sequence_ = tensor->shape[sequence_axis];
    } else if (batch != batch_ || tensor->shape[sequence_axis] != sequence_) {
      const size_t axis = batch != batch_ ? batch_axis : sequence_axis;
      return InvalidField(absl::StrCat(path, ".shape[", axis, "]"), absl::StrCat(tensor->shape[axis]),
                          absl::StrCat(batch != batch_ ? batch_ : sequence_, ", as in tensors[0]"));
    }
    AddTask task;
    task.dtype = tensor->dtype;
    task.batch = batch_;
    task.tokens = sequence_;
    task.dim = dim_;
    task.x_token_stride = task.y_token_stride = tensor->strides[sequence_axis];
    if (!packed) task.x_batch_stride = task.y_batch_stride = tensor->strides[batch_axis];
    // Elements are counted in the order of the shape, whatever the strides.
    task.element_token_stride = layout_ == v1::LAYOUT_SBD ? batch_ * dim_ : dim_;
    task.element_batch_stride = layout_ == v1::LAYOUT_SBD ? dim_ : sequence_ * dim_;
    work_->tasks.push_back(task);
    AddArray(*std::move(tensor), i);
    return absl::OkStatus();
  }

  void AddArray(ParsedTensor tensor, int i) {
    WorkInput input;
    input.bytes = tensor.bytes;
    if (!context_.validate_only) {
      for (const raw::Piece& piece : tensor.pieces) {
        input.payload.push_back({piece.owner, piece.data, static_cast<int64_t>(piece.size)});
      }
    }
    work_->inputs.push_back(std::move(input));
    WorkArray array{Slot::kTensor, tensor.dtype, std::move(tensor.shape), {}, tensor.bytes, i};
    if (!tensor.dense) array.strides = std::move(tensor.strides);
    work_->outputs.push_back(std::move(array));
  }

  absl::Status ParsePlaces() {
    const Tokens tokens{.batch = batch_, .sequence = sequence_, .packed_axis = layout_ == v1::LAYOUT_TD};
    absl::StatusOr<ParsedPositions> parsed = ParsePositions(message_.positions(), "positions", tokens, context_);
    if (!parsed.ok()) return parsed.status();
    work_->positions = std::move(parsed->set);
    if (work_->positions.axes() > 1 && AbsoluteAxes(main_.spec.spec) == 1) {
      grid_ = std::get_if<GridSinusoidalSpec>(&main_.spec.spec);
      if (grid_ == nullptr) {
        return InvalidField("positions", absl::StrCat(work_->positions.axes(), " axes"),
                            "one axis: several are for grid_sinusoidal and for matrices of gaussian_fourier");
      }
      absl::StatusOr<PositionSet> rows = RowsOfGrid(*grid_, work_->positions, "positions");
      if (!rows.ok()) return rows.status();
      work_->positions = *std::move(rows);
    }
    work_->per_batch = parsed->per_batch;
    work_->position_bytes = work_->positions.bytes();
    work_->warnings = WarningsFor(main_, work_->positions.last(), "positions");
    if (add_.zero_padding()) {
      if (message_.positions().rule_case() != v1::Positions::kMask) {
        return InvalidField("add.zero_padding", "true", "false, or true with positions.mask");
      }
      for (AddTask& task : work_->tasks) {
        task.hidden = work_->positions.hidden.data();
        task.hidden_batch_stride = work_->per_batch ? sequence_ : 0;
      }
    }
    return CheckRows(main_);  // backward too: what forward refuses has no gradient
  }

  // Whether every position leads to a row.
  absl::Status CheckRows(const TableSource& source) const {
    const PositionSet& set = work_->positions;
    const absl::Status status = CheckAbsolute(source.spec.spec, AbsoluteOf(set));
    const auto error = SpecErrorOf(status);
    return error ? InvalidField("positions", error->given, error->allowed) : status;
  }

  absl::Status ParseScale() {
    std::optional<double> scale;
    if (add_.has_scale()) scale = add_.scale();
    if (scale && add_.scale_sqrt_dim()) {
      return InvalidField("add.scale", absl::StrCat(*scale, " with scale_sqrt_dim"), "one of the two");
    }
    if (scale && !std::isfinite(*scale)) return InvalidField("add.scale", absl::StrCat(*scale), "a finite number");
    std::optional<DType> rounded;
    if (auto status = CheckEnum("add.scale_dtype", add_.scale_dtype(), v1::Dtype_descriptor()); !status.ok()) return status;
    if (add_.scale_dtype() != v1::DTYPE_UNSPECIFIED) {
      rounded = static_cast<DType>(add_.scale_dtype());
      if (!IsFloat(*rounded)) {
        return InvalidField("add.scale_dtype", v1::Dtype_Name(add_.scale_dtype()),
                            "DTYPE_F64, DTYPE_F32, DTYPE_F16, DTYPE_BF16");
      }
      if (!scale && !add_.scale_sqrt_dim()) {
        return InvalidField("add.scale_dtype", v1::Dtype_Name(add_.scale_dtype()), "nothing without a factor to round");
      }
    }
    if (!scale && !add_.scale_sqrt_dim()) scale = 1;
    for (AddTask& task : work_->tasks) {
      task.scale = AddScale(scale, dim_, rounded, task.dtype);
      if (std::isfinite(task.scale)) continue;
      return InvalidField("add.scale", absl::StrCat(*scale), "a number that the type it is rounded to holds");
    }
    return absl::OkStatus();
  }

  absl::Status ParseDropout() {
    if (!add_.has_dropout()) return absl::OkStatus();
    const double probability = add_.dropout().probability();
    if (!(probability >= 0 && probability < 1)) {
      return InvalidField("add.dropout.probability", absl::StrCat(probability), "0 to below 1");
    }
    for (AddTask& task : work_->tasks) {
      task.dropout = {true, add_.dropout().seed(), add_.dropout().offset(), DropoutThreshold(probability),
                      DropoutFactor(probability, task.dtype)};
    }
    return absl::OkStatus();
  }

  absl::Status ParseGate() {
    if (!add_.has_gate()) return absl::OkStatus();
    const v1::Gate& gate = add_.gate();
    if (add_.backward())
      return InvalidField("add.gate", "a gate", "none with backward: the gradient of x has no encoding in it");
    std::optional<int64_t> length;
    if (gate.has_other_sequence_length()) length = gate.other_sequence_length();
    if (!gate.has_other()) return InvalidField("add.gate.other", "nothing", "an encoding of the same width");
    absl::StatusOr<TableSource> other = ParseSource(gate.other(), "add.gate.other", message_.precision(), length,
                                                    std::nullopt, context_, "add.gate.other_sequence_length");
    if (!other.ok()) return other.status();
    if (absl::Status status = CheckScheme(*other, "add.gate.other"); !status.ok()) return status;
    const int64_t width = AbsoluteColumns(other->spec.spec);
    if (width != dim_) {
      return InvalidField("add.gate.other", absl::StrCat("dim ", width), absl::StrCat(dim_, ", the spec's dim"));
    }
    if (absl::Status status = CheckOtherGrid(*other); !status.ok()) return status;
    if (absl::Status status = CheckRows(*other); !status.ok()) return status;
    for (Note note : WarningsFor(*other, -1, "")) {
      note.field = absl::StrCat("add.gate.other", note.field.substr(std::min(note.field.size(), size_t{4})));
      work_->warnings.push_back(std::move(note));
    }
    work_->sources.push_back(*std::move(other));
    return ParseGateTensor(gate.gate());
  }

  // Coordinates were turned into rows of the one grid.
  absl::Status CheckOtherGrid(const TableSource& other) const {
    const auto* grid = std::get_if<GridSinusoidalSpec>(&other.spec.spec);
    const bool same =
        grid != nullptr && grid_ != nullptr && grid->grid == grid_->grid && grid->extra_rows == grid_->extra_rows;
    if (grid_ == nullptr || same) return absl::OkStatus();
    return InvalidField("add.gate.other", "another grid", "grid_sinusoidal with the grid of spec: positions have its axes");
  }

  absl::Status ParseGateTensor(const v1::Tensor& tensor) {
    const std::vector<int64_t> shape(tensor.shape().begin(), tensor.shape().end());
    AddRows strides;
    int64_t channel_stride = 0;
    if (shape == std::vector<int64_t>{dim_}) {
      channel_stride = 1;
    } else if (shape == std::vector<int64_t>{sequence_, 1}) {
      strides.token_stride = 1;
    } else if (shape == std::vector<int64_t>{batch_, sequence_, 1} && layout_ != v1::LAYOUT_TD) {
      strides.token_stride = 1;
      strides.batch_stride = sequence_;
    } else if (!shape.empty()) {
      return InvalidField(
          "add.gate.gate.shape", ShapeText(shape),
          absl::StrCat("[], [", dim_, "], [", sequence_, ", 1]",
                       layout_ == v1::LAYOUT_TD ? "" : absl::StrCat(" or [", batch_, ", ", sequence_, ", 1]")));
    }
    for (AddTask& task : work_->tasks) {
      task.gate = strides;
      task.gate_channel_stride = channel_stride;
    }
    if (batch_ == 0 || sequence_ == 0) return absl::OkStatus();  // nothing to add to, and perhaps no element
    return ParseNumbers(tensor, "add.gate.gate", &work_->gate);
  }

  static std::string ShapeText(const std::vector<int64_t>& shape) {
    std::string text = "[";
    for (size_t i = 0; i < shape.size(); ++i) absl::StrAppend(&text, i == 0 ? "" : ", ", shape[i]);
    return text + "]";
  }

  absl::Status ParseNumbers(const v1::Tensor& tensor, std::string_view path, AddNumbers* numbers) {
    absl::StatusOr<WeightRef> weight = ParseWeight(tensor, path, context_);
    if (!weight.ok()) return weight.status();
    numbers->weight = *std::move(weight);
    return absl::OkStatus();
  }

  absl::Status ParseEnds() {
    if (!add_.has_offsets()) return absl::OkStatus();
    if (add_.backward()) {
      return InvalidField("add.offsets", "offsets", "none with backward: the gradient of x has no encoding in it");
    }
    const v1::DomainOffsets& offsets = add_.offsets();
    if (!offsets.has_first() && !offsets.has_last()) return InvalidField("add.offsets", "nothing", "first, last or both");
    if (!work_->positions.is_plain()) {
      return InvalidField("positions", "fractional positions", "whole positions with add.offsets");
    }
    DomainEnds::Rows rows;
    for (const auto& [given, tensor, path, numbers, count] :
         {std::tuple(offsets.has_first(), &offsets.first(), "add.offsets.first", &work_->first, &rows.first),
          {offsets.has_last(), &offsets.last(), "add.offsets.last", &work_->last, &rows.last}}) {
      if (!given) continue;
      if (tensor->shape_size() != 2 || tensor->shape(1) != dim_ || tensor->shape(0) < 1) {
        return InvalidField(absl::StrCat(path, ".shape"), ShapeText({tensor->shape().begin(), tensor->shape().end()}),
                            absl::StrCat("[k, ", dim_, "], k ≥ 1"));
      }
      if (absl::Status status = ParseNumbers(*tensor, path, numbers); !status.ok()) return status;
      *count = tensor->shape(0);
    }
    if (message_.has_sequence_length()) rows.length = message_.sequence_length();
    auto ends =
        FindDomainEnds(message_.positions(), work_->positions, work_->per_batch ? batch_ : 1, sequence_, rows, context_);
    if (!ends.ok()) return ends.status();
    work_->ends = *std::move(ends);
    work_->position_bytes += work_->ends.bytes();
    for (AddTask& task : work_->tasks) {
      const int64_t stride = work_->per_batch ? sequence_ : 0;
      if (!work_->ends.first.empty()) task.first = {nullptr, work_->ends.first.data(), stride};
      if (!work_->ends.last.empty()) task.last = {nullptr, work_->ends.last.data(), stride};
    }
    return absl::OkStatus();
  }

  const v1::ApplyItem& message_;
  const v1::AddOperation& add_;
  ParseContext& context_;
  std::shared_ptr<AddWork> work_;
  TableSource main_;
  const GridSinusoidalSpec* grid_ = nullptr;  // in main_, where positions have its axes
  v1::Layout layout_ = v1::LAYOUT_BSD;
  int64_t dim_ = 0, batch_ = 0, sequence_ = 0;
};

}  // namespace

ParsedWork ParseAddWork(const v1::ApplyItem& message, ParseContext& context) { return AddParser(message, context).Parse(); }

}  // namespace phasor::server
