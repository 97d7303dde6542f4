// Resizing learned tables.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "kernels/program/resize.h"
#include "server/grpc_status.h"
#include "server/tensor_parser.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

constexpr std::array kTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
// Points of an axis, and rows that are kept.
constexpr int64_t kMaxExtent = int64_t{1} << 20;

class ResizeWork final : public Work {
 public:
  explicit ResizeWork(std::vector<ResizeJob> jobs) : jobs_(std::move(jobs)) {}

  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const>, const WorkMemory& memory) const override {
    std::vector<ProgramStep> steps;
    for (size_t i = 0; i < jobs_.size(); ++i) {
      ResizeJob job = jobs_[i];
      job.in = memory.inputs[i];
      job.out = memory.outputs[i];
      for (ProgramStep& step : ResizeSteps(job, memory.scratch)) steps.push_back(std::move(step));
    }
    return steps;
  }

 private:
  const std::vector<ResizeJob> jobs_;
};

class Parser {
 public:
  Parser(const v1::ApplyItem& item, const ParseContext& context) : item_(item), message_(item.resize()), context_(context) {}

  ParsedWork Parse() {
    absl::Status status = CheckNothingElse();
    if (status.ok()) status = ParseRule();
    if (status.ok()) status = ParseAxes("resize.source", message_.source(), &job_.source);
    if (status.ok()) status = ParseAxes("resize.target", message_.target(), &job_.target);
    if (status.ok() && job_.source.size() != job_.target.size()) {
      status = InvalidField("resize.target", absl::StrCat(job_.target.size(), " extents"),
                            absl::StrCat(job_.source.size(), ", as source has"));
    }
    if (status.ok()) status = ParseExtra("resize.extra_rows_first", message_.extra_rows_first(), &job_.extra_first);
    if (status.ok()) status = ParseExtra("resize.extra_rows_last", message_.extra_rows_last(), &job_.extra_last);
    if (status.ok()) status = ParseTensors();
    if (!status.ok()) return status;
    auto work = std::make_shared<ResizeWork>(std::move(jobs_));
    work->inputs = std::move(inputs_);
    work->outputs = std::move(outputs_);
    work->scratch_bytes = scratch_bytes_;
    return work;
  }

 private:
  absl::Status CheckNothingElse() const {
    if (item_.has_spec()) return InvalidField("spec", "a spec", "none: resizing takes a table as it is");
    if (item_.has_positions()) return InvalidField("positions", "positions", "none: resizing takes a table as it is");
    if (item_.has_table()) return InvalidField("table", "cos and sin", "none: the tables to resize are `tensors`");
    if (item_.roles_size() > 0) return InvalidField("roles", absl::StrCat(item_.roles_size(), " roles"), "none");
    if (item_.layout() != v1::LAYOUT_UNSPECIFIED) {
      return InvalidField("layout", absl::StrCat(static_cast<int>(item_.layout())), "unset: tables are [rows, columns]");
    }
    for (const auto& [field, given, number] :
         {std::tuple("precision", item_.precision() > v1::PRECISION_EXACT, int64_t{item_.precision()}),
          {"sequence_length", item_.has_sequence_length(), item_.sequence_length()},
          {"max_position", item_.has_max_position(), item_.max_position()},
          {"table_pairing", item_.table_pairing() != v1::PAIRING_UNSPECIFIED, int64_t{item_.table_pairing()}}}) {
      if (given) return InvalidField(field, absl::StrCat(number), "unset: resizing takes a table as it is");
    }
    return absl::OkStatus();
  }

  absl::Status ParseRule() {
    const auto* names = v1::Interpolation_descriptor();
    if (auto status = CheckEnum("resize.interpolation", message_.interpolation(), names); !status.ok()) return status;
    ResizeRule& rule = job_.rule;
    switch (message_.interpolation()) {
      case v1::INTERPOLATION_LINEAR:
        rule.interpolation = Interpolation::kLinear;
        break;
      case v1::INTERPOLATION_NEAREST:
        rule.interpolation = Interpolation::kNearest;
        break;
      default:
        rule.interpolation = Interpolation::kCubic;
        break;
    }
    rule.antialias = message_.antialias();
    rule.align_corners = message_.align_corners();
    const bool nearest = rule.interpolation == Interpolation::kNearest;
    if (rule.antialias && nearest) {
      return InvalidField("resize.antialias", "true with INTERPOLATION_NEAREST",
                          "INTERPOLATION_LINEAR, INTERPOLATION_CUBIC");
    }
    if (rule.align_corners && (nearest || rule.antialias)) {
      return InvalidField("resize.align_corners", nearest ? "true with INTERPOLATION_NEAREST" : "true with antialias",
                          "false, or linear or cubic interpolation without antialias");
    }
    return absl::OkStatus();
  }

  absl::Status ParseAxes(const std::string& field, const google::protobuf::RepeatedField<int64_t>& extents,
                         std::vector<int64_t>* out) const {
    if (extents.empty() || extents.size() > 2) {
      return InvalidField(field, extents.empty() ? "nothing" : absl::StrCat(extents.size(), " extents"), "1 or 2 extents");
    }
    for (int i = 0; i < extents.size(); ++i) {
      if (extents[i] < 1 || extents[i] > kMaxExtent) {
        return InvalidField(absl::StrCat(field, "[", i, "]"), absl::StrCat(extents[i]), absl::StrCat("1 … ", kMaxExtent));
      }
      out->push_back(extents[i]);
    }
    return absl::OkStatus();
  }

  static absl::Status ParseExtra(std::string_view field, int64_t rows, int64_t* out) {
    if (rows < 0 || rows > kMaxExtent) return InvalidField(field, absl::StrCat(rows), absl::StrCat("0 … ", kMaxExtent));
    *out = rows;
    return absl::OkStatus();
  }

  absl::Status ParseTensors() {
    const Limits& limits = context_.limits;
    if (item_.tensors().empty()) {
      return InvalidField("tensors", "nothing", absl::StrCat("1 … ", limits.max_tensors_per_item, " tensors"));
    }
    if (auto status =
            CheckLimit("tensors", item_.tensors_size(), "max_tensors_per_item", limits.max_tensors_per_item, "tensors");
        !status.ok()) {
      return status;
    }
    int64_t bytes = 0;
    for (int i = 0; i < item_.tensors_size(); ++i) {
      if (auto status = ParseTensorAt(i); !status.ok()) return status;
      bytes += outputs_.back().bytes;
      if (auto status = CheckLimit("tensors", bytes, "max_item_bytes", limits.max_item_bytes, "bytes of answer");
          !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  absl::Status ParseTensorAt(int i) {
    const std::string path = absl::StrCat("tensors[", i, "]");
    const auto storage = context_.validate_only ? Storage::kOptional : Storage::kRequired;
    absl::StatusOr<ParsedTensor> tensor = ParseTensor(item_.tensors(i), path, kTypes, storage, context_, Sharing::kServed);
    if (!tensor.ok()) return tensor.status();
    const int64_t rows = job_.source_points() + job_.extra_first + job_.extra_last;
    if (tensor->shape.size() != 2 || tensor->shape[0] != rows || tensor->shape[1] < 1) {
      std::string given = "[";
      for (int64_t extent : tensor->shape) absl::StrAppend(&given, given.size() > 1 ? ", " : "", extent);
      return InvalidField(path + ".shape", given + "]",
                          absl::StrCat("[", rows, ", columns], rows of source and extra rows"));
    }
    ResizeJob job = job_;
    job.dtype = tensor->dtype;
    job.columns = tensor->shape[1];
    job.in_row_stride = tensor->strides[0];
    if (job.in_row_stride < job.columns) job.in_row_stride = job.columns;  // of a single row any stride will do
    const int64_t target_rows = job.target_points() + job.extra_first + job.extra_last;
    const auto elements = CountElements("resize.target", {target_rows, job.columns}, context_.limits);
    if (!elements.ok()) return elements.status();
    // What lies between the two axes, in doubles.
    const int64_t height = job.source.size() == 2 ? job.source[0] : 1;
    const auto middle = CountElements("resize.target", {height, job.target.back(), job.columns}, context_.limits);
    if (!middle.ok()) return middle.status();
    scratch_bytes_ = std::max(scratch_bytes_, ResizeScratchBytes(job));
    inputs_.push_back(
        WorkInput{.bytes = tensor->bytes, .payload = context_.validate_only ? Chunks{} : ToChunks(tensor->pieces)});
    outputs_.push_back(WorkArray{.slot = Slot::kTensor,
                                 .dtype = job.dtype,
                                 .shape = {target_rows, job.columns},
                                 .strides = {},
                                 .bytes = *elements * SizeOf(job.dtype)});
    jobs_.push_back(std::move(job));
    return absl::OkStatus();
  }

  static Chunks ToChunks(std::span<const raw::Piece> pieces) {
    Chunks chunks;
    for (const raw::Piece& piece : pieces) {
      chunks.push_back(Bytes{piece.owner, piece.data, static_cast<int64_t>(piece.size)});
    }
    return chunks;
  }

  const v1::ApplyItem& item_;
  const v1::ResizeOperation& message_;
  const ParseContext& context_;
  ResizeJob job_;  // without a tensor
  std::vector<ResizeJob> jobs_;
  std::vector<WorkInput> inputs_;
  std::vector<WorkArray> outputs_;
  int64_t scratch_bytes_ = 0;
};

}  // namespace

ParsedWork ParseResizeWork(const v1::ApplyItem& message, ParseContext& context) { return Parser(message, context).Parse(); }

}  // namespace phasor::server
