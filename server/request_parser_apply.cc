// Items of Apply: tensors that share positions.
#include <array>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "server/grpc_status.h"
#include "server/item_parser.h"
#include "server/positions_parser.h"
#include "server/tensor_parser.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

constexpr std::array kTensorTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

// Where each axis of a layout stands in the shape. THD has no batch axis.
struct Axes {
  std::string_view letters;
  size_t rank;
  int batch;
  size_t sequence;
  size_t heads;
};

Axes AxesOf(v1::Layout layout) {
  switch (layout) {
    case v1::LAYOUT_BHSD:
      return {"[batch, heads, sequence, channels]", 4, 0, 2, 1};
    case v1::LAYOUT_SBHD:
      return {"[sequence, batch, heads, channels]", 4, 1, 0, 2};
    case v1::LAYOUT_THD:
      return {"[tokens, heads, channels]", 3, -1, 0, 1};
    default:
      return {"[batch, sequence, heads, channels]", 4, 0, 1, 2};
  }
}

Chunks ToChunks(std::span<const raw::Piece> pieces) {
  Chunks chunks;
  chunks.reserve(pieces.size());
  for (const raw::Piece& piece : pieces) chunks.push_back({piece.owner, piece.data, static_cast<int64_t>(piece.size)});
  return chunks;
}

absl::StatusOr<TensorInput> ParseInput(const v1::Tensor& message, const std::string& path, const Axes& axes,
                                       int64_t head_dim, const ParseContext& context) {
  absl::StatusOr<ParsedTensor> parsed =
      ParseTensor(message, path, kTensorTypes, context.validate_only ? Storage::kOptional : Storage::kRequired, context);
  if (!parsed.ok()) return parsed.status();
  const std::string field = absl::StrCat(path, ".shape");
  if (parsed->shape.size() != axes.rank) {
    return InvalidField(field, absl::StrCat(parsed->shape.size(), " axes"),
                        absl::StrCat(axes.rank, " axes ", absl::string_view(axes.letters.data(), axes.letters.size())));
  }
  TensorInput input;
  input.dtype = parsed->dtype;
  input.batch = 1;
  if (axes.batch >= 0) {
    input.batch = parsed->shape[static_cast<size_t>(axes.batch)];
    input.batch_stride = parsed->strides[static_cast<size_t>(axes.batch)];
  }
  input.sequence = parsed->shape[axes.sequence];
  input.sequence_stride = parsed->strides[axes.sequence];
  input.heads = parsed->shape[axes.heads];
  input.head_stride = parsed->strides[axes.heads];
  input.head_dim = parsed->shape.back();
  if (input.head_dim != head_dim) {
    return InvalidField(absl::StrCat(field, "[", axes.rank - 1, "]"), absl::StrCat(input.head_dim),
                        absl::StrCat(head_dim, ", the spec's head_dim"));
  }
  if (auto status =
          CheckLimit(absl::StrCat(field, "[", axes.heads, "]"), input.heads, "max_heads", context.limits.max_heads, "heads");
      !status.ok()) {
    return status;
  }
  input.shape = std::move(parsed->shape);
  if (!parsed->dense) input.strides = std::move(parsed->strides);
  input.bytes = parsed->bytes;
  if (!context.validate_only) input.payload = ToChunks(parsed->pieces);
  return input;
}

// The tensors, which must agree on batch and sequence.
absl::Status ParseTensors(const v1::ApplyItem& message, const Axes& axes, int64_t head_dim, const ParseContext& context,
                          ApplyItem* item) {
  const Limits& limits = context.limits;
  if (message.tensors().empty()) {
    return InvalidField("tensors", "nothing", absl::StrCat("1 … ", limits.max_tensors_per_item, " tensors"));
  }
  if (auto status =
          CheckLimit("tensors", message.tensors_size(), "max_tensors_per_item", limits.max_tensors_per_item, "tensors");
      !status.ok()) {
    return status;
  }
  item->tensors.reserve(static_cast<size_t>(message.tensors_size()));
  for (int i = 0; i < message.tensors_size(); ++i) {
    const std::string path = absl::StrCat("tensors[", i, "]");
    absl::StatusOr<TensorInput> input = ParseInput(message.tensors(i), path, axes, head_dim, context);
    if (!input.ok()) return input.status();
    const TensorInput& first = item->tensors.empty() ? *input : item->tensors.front();
    if (input->batch != first.batch || input->sequence != first.sequence) {
      const bool batch = input->batch != first.batch;
      const size_t axis = batch ? static_cast<size_t>(axes.batch) : axes.sequence;
      return InvalidField(absl::StrCat(path, ".shape[", axis, "]"), absl::StrCat(input->shape[axis]),
                          absl::StrCat(first.shape[axis], ", as in tensors[0]"));
    }
    item->payload_bytes += input->bytes;  // up to 256 tensors of up to 2 GiB
    item->tensors.push_back(*std::move(input));
  }
  return CheckLimit("tensors", item->payload_bytes, "max_item_bytes", limits.max_item_bytes, "bytes of payload");
}

}  // namespace

absl::StatusOr<ScoresItem> ParseItem(const v1::ScoresItem& message, ParseContext& context) {
  ScoresItem item;
  ParsedWork work = ParseScoresWork(message, context, &item.scale);
  if (!work.ok()) return work.status();
  item.work = *std::move(work);
  item.payload_bytes = item.work->output_bytes();
  if (auto status = CheckLimit("q", item.payload_bytes, "max_item_bytes", context.limits.max_item_bytes, "bytes of answer");
      !status.ok()) {
    return status;
  }
  return item;
}

absl::StatusOr<ApplyItem> ParseItem(const v1::ApplyItem& message, ParseContext& context) {
  ApplyItem item;
  ParsedWork work = message.has_add()      ? ParseAddWork(message, context)
                    : message.has_resize() ? ParseResizeWork(message, context)
                                           : ParseRotateWork(message, context);
  if (!work.ok()) return work.status();
  if (*work != nullptr) {
    item.work = *std::move(work);
    item.payload_bytes = item.work->output_bytes();
    if (auto status =
            CheckLimit("tensors", item.payload_bytes, "max_item_bytes", context.limits.max_item_bytes, "bytes of payload");
        !status.ok()) {
      return status;
    }
    return item;
  }
  absl::StatusOr<TableSource> source = ParseSourceOf(message, context);
  if (!source.ok()) return source.status();
  if (!std::holds_alternative<RopeSpec>(source->spec.spec)) {
    return InvalidField("spec", "a scheme that does not rotate", "rope, pope or fope; or the operation add");
  }
  item.source = *std::move(source);
  item.inverse = message.rotate().inverse();
  if (auto status = CheckEnum("layout", message.layout(), v1::Layout_descriptor()); !status.ok()) return status;
  if (message.layout() > v1::LAYOUT_THD) {
    return InvalidField("layout", v1::Layout_Name(message.layout()), "LAYOUT_BSHD, LAYOUT_BHSD, LAYOUT_SBHD, LAYOUT_THD");
  }
  const Axes axes = AxesOf(message.layout());
  const int64_t head_dim = std::get<RopeSpec>(item.source.spec.spec).head_dim;
  if (auto status = ParseTensors(message, axes, head_dim, context, &item); !status.ok()) return status;

  const TensorInput& first = item.tensors.front();
  const auto count = CheckedMul(first.batch, first.sequence);
  if (auto status = CheckLimit("tensors[0].shape", count.value_or(int64_t{1} << 62), "max_positions",
                               context.limits.max_positions, "positions (tokens)");
      !status.ok()) {
    return status;
  }
  const Tokens tokens{.batch = first.batch, .sequence = first.sequence, .packed_axis = axes.batch < 0};
  absl::StatusOr<ParsedPositions> positions = ParsePositions(message.positions(), "positions", tokens, context);
  if (!positions.ok()) return positions.status();
  if (!positions->set.is_plain()) {
    return InvalidField("positions", "fractional positions or several axes", "whole numbers on one axis for this spec");
  }
  item.positions = std::move(positions->set);
  item.per_batch = positions->per_batch;
  return item;
}

}  // namespace phasor::server
