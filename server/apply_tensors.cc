// The tensors of an Apply item.
#include "server/apply_tensors.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/grpc_status.h"
#include "server/tensor_parser.h"

namespace phasor::server {
namespace {

constexpr std::array kTensorTypes = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

Chunks ToChunks(std::span<const raw::Piece> pieces) {
  Chunks chunks;
  chunks.reserve(pieces.size());
  for (const raw::Piece& piece : pieces) chunks.push_back({piece.owner, piece.data, static_cast<int64_t>(piece.size)});
  return chunks;
}

absl::StatusOr<TensorInput> ParseInput(const v1::Tensor& message, const std::string& path, const HeadAxes& axes,
                                       int64_t head_dim, const ParseContext& context) {
  absl::StatusOr<ParsedTensor> parsed =
      ParseTensor(message, path, kTensorTypes, context.validate_only ? Storage::kOptional : Storage::kRequired, context,
                  Sharing::kServed);
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
  const size_t heads_axis = axes.heads >= 0 ? static_cast<size_t>(axes.heads) : axes.rank - 1;
  const int64_t last = parsed->shape.back();
  if (axes.heads >= 0 ? last != head_dim : last % head_dim != 0) {
    return InvalidField(absl::StrCat(field, "[", axes.rank - 1, "]"), absl::StrCat(last),
                        absl::StrCat(axes.heads >= 0 ? "" : "a multiple of ", head_dim, ", the spec's head_dim"));
  }
  input.heads = axes.heads >= 0 ? parsed->shape[heads_axis] : last / head_dim;
  input.head_stride = axes.heads >= 0 ? parsed->strides[heads_axis] : head_dim;
  input.head_dim = head_dim;
  if (auto status =
          CheckLimit(absl::StrCat(field, "[", heads_axis, "]"), input.heads, "max_heads", context.limits.max_heads, "heads");
      !status.ok()) {
    return status;
  }
  input.shape = std::move(parsed->shape);
  if (!parsed->dense) input.strides = std::move(parsed->strides);
  input.bytes = parsed->bytes;
  if (!context.validate_only) input.payload = ToChunks(parsed->pieces);
  return input;
}

}  // namespace

HeadAxes HeadAxesOf(v1::Layout layout) {
  switch (layout) {
    case v1::LAYOUT_BHSD:
      return {"[batch, heads, sequence, channels]", 4, 0, 2, 1};
    case v1::LAYOUT_SBHD:
      return {"[sequence, batch, heads, channels]", 4, 1, 0, 2};
    case v1::LAYOUT_THD:
      return {"[tokens, heads, channels]", 3, -1, 0, 1};
    case v1::LAYOUT_T_HD:
      return {"[tokens, heads·channels]", 2, -1, 0, -1};
    default:
      return {"[batch, sequence, heads, channels]", 4, 0, 1, 2};
  }
}

absl::Status ParseRotatedTensors(const v1::ApplyItem& message, const HeadAxes& axes, int64_t head_dim,
                                 const ParseContext& context, ApplyItem* item) {
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

}  // namespace phasor::server
