// Rotations, plain and beyond: what an item asks for, checked.
#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "kernels/program/absolute_rows.h"
#include "server/apply_tensors.h"
#include "server/describe.h"
#include "server/enum_text.h"
#include "server/grpc_status.h"
#include "server/positions_parser.h"
#include "server/query_scale_parser.h"
#include "server/rotate_draft.h"
#include "server/rotate_key.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

absl::Status UseRoles(const v1::ApplyItem& message, RotateDraft& draft) {
  const int tensors = message.tensors_size();
  if (!message.roles().empty() && message.roles_size() != tensors) {
    return InvalidField("roles", absl::StrCat(message.roles_size(), " entries"),
                        absl::StrCat("none, or ", tensors, ", one per tensor"));
  }
  for (int i = 0; i < tensors; ++i) {
    const int role = message.roles().empty() ? 0 : message.roles(i);
    if (auto status = CheckEnum(absl::StrCat("roles[", i, "]"), role, v1::TensorRole_descriptor()); !status.ok()) {
      return status;
    }
    RotatedTensor rotated;
    rotated.is_query = role == v1::TENSOR_ROLE_UNSPECIFIED ? i == 0 && !MovesKeys(message) : role == v1::TENSOR_ROLE_QUERY;
    draft.work->rotation.tensors.push_back(std::move(rotated));
  }
  return absl::OkStatus();
}

absl::Status UsePositions(const v1::ApplyItem& message, ParseContext& context, RotateDraft& draft) {
  const TensorInput& first = draft.item.tensors.front();
  const auto count = CheckedMul(first.batch, first.sequence);
  if (auto status = CheckLimit("tensors[0].shape", count.value_or(int64_t{1} << 62), "max_positions",
                               context.limits.max_positions, "positions (tokens)");
      !status.ok()) {
    return status;
  }
  const Tokens tokens{.batch = first.batch, .sequence = first.sequence, .packed_axis = draft.axes.batch < 0};
  const v1::Positions* rule = &message.positions();
  v1::Positions unmoved;
  if (message.has_shift() && rule->rule_case() == v1::Positions::RULE_NOT_SET) {
    if (rule->sequence_offsets().empty()) {
      return InvalidField("positions", "nothing", "what each token moves by, or sequence_offsets: what each batch row does");
    }
    unmoved = *rule;
    unmoved.mutable_list()->mutable_ids()->Resize(static_cast<int>(first.sequence), 0);
    rule = &unmoved;
  }
  absl::StatusOr<ParsedPositions> positions = ParsePositions(*rule, "positions", tokens, context);
  if (!positions.ok()) return positions.status();
  draft.item.positions = std::move(positions->set);
  draft.item.per_batch = positions->per_batch;
  draft.work->rope_delta = std::move(positions->rope_delta);
  draft.smallest = positions->smallest;
  if (message.has_shift()) draft.item.positions.largest = -1;  // distances, not places
  if (!draft.item.positions.is_plain()) draft.needs_work = true;
  return absl::OkStatus();
}

absl::Status CheckDistilledPositions(const RotateDraft& draft) {
  AbsolutePositions positions;
  positions.source = draft.item.positions.Source(0);
  positions.axis_count = draft.item.positions.axes();
  positions.rows = draft.item.positions.count;
  const absl::Status status = CheckAbsolute(draft.item.source.spec.spec, positions);
  const auto error = SpecErrorOf(status);
  return error ? InvalidField("positions", error->given, error->allowed) : status;
}

// Several axes belong to RoPE with axes; decays and tables take whole positions of one axis.
absl::Status CheckPositions(const RotateDraft& draft) {
  const RotationRule& rule = draft.rule();
  const PositionSet& positions = draft.item.positions;
  int64_t axes = 1;
  if (const auto* rope = std::get_if<RopeSpec>(&draft.item.source.spec.spec); rope != nullptr && rope->axes) {
    axes = static_cast<int64_t>(rope->axes->sections.size());
  }
  if (rule.kind != RotationKind::kUploaded && positions.axes() != axes) {
    return InvalidField("positions", absl::StrCat(positions.axes(), " axes"), absl::StrCat(axes, ", as the spec has"));
  }
  if (rule.kind == RotationKind::kDistilled) return CheckDistilledPositions(draft);
  const bool needs_whole = rule.xpos || rule.kind == RotationKind::kUploaded;
  if (needs_whole && !positions.is_plain()) {
    return InvalidField("positions", "fractional positions or several axes", "whole positions of one axis here");
  }
  if (rule.kind == RotationKind::kUploaded && positions.count > 0) {
    const int64_t rows = rule.cos->shape[0];
    const int64_t largest = draft.item.positions.ids.empty() ? std::max(positions.at(0), positions.at(positions.count - 1))
                                                             : *std::max_element(positions.ids.begin(), positions.ids.end());
    if (draft.smallest < 0 || largest >= rows) {
      return InvalidField("positions", absl::StrCat(draft.smallest < 0 ? draft.smallest : largest),
                          absl::StrCat("0 … ", rows - 1, ", rows of table"));
    }
  }
  return absl::OkStatus();
}

// A factor that a tensor's type cannot hold would answer with infinities.
absl::Status CheckDecay(const RotateDraft& draft) {
  const RotationRule& rule = draft.rule();
  const PositionSet& positions = draft.item.positions;
  if (!rule.xpos || positions.count == 0) return absl::OkStatus();
  for (size_t i = 0; i < draft.work->rotation.tensors.size(); ++i) {
    const absl::Status status =
        CheckXposReach(*rule.xpos, positions, draft.item.tensors[i].dtype, "positions", absl::StrCat("tensors[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckHeads(const RotateDraft& draft) {
  const RotationRule& rule = draft.rule();
  if (rule.table_heads == 1) return absl::OkStatus();
  for (size_t i = 0; i < draft.work->rotation.tensors.size(); ++i) {
    const int64_t heads = draft.item.tensors[i].heads;
    const std::string field = absl::StrCat("tensors[", i, "].shape");
    if (rule.kind == RotationKind::kFrequency && heads % rule.table_heads != 0) {
      return InvalidField(field, absl::StrCat(heads, " heads"), absl::StrCat("a multiple of ", rule.table_heads));
    }
    if (rule.kind == RotationKind::kPolar && !draft.work->rotation.tensors[i].is_query && heads != rule.table_heads) {
      return InvalidField(field, absl::StrCat(heads, " heads"), absl::StrCat(rule.table_heads, ", as weights.delta"));
    }
  }
  return absl::OkStatus();
}

std::vector<int64_t> DenseStridesOf(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * std::max<int64_t>(shape[axis], 1);
  return strides;
}

// The answer of one tensor: in place, or (PoPE) a dense one of twice the width.
void AddAnswer(size_t index, const HeadAxes& axes, TensorInput input, RotateWork& work) {
  RotatedTensor& rotated = work.rotation.tensors[index];
  WorkArray array{.slot = Slot::kTensor,
                  .dtype = input.dtype,
                  .shape = input.shape,
                  .strides = input.strides,
                  .bytes = input.bytes,
                  .input = static_cast<int>(index)};
  rotated.dtype = input.dtype;
  rotated.heads = input.heads;
  rotated.head_dim = input.head_dim;
  rotated.x_batch_stride = rotated.y_batch_stride = input.batch_stride;
  rotated.x_token_stride = rotated.y_token_stride = input.sequence_stride;
  rotated.x_head_stride = rotated.y_head_stride = input.head_stride;
  if (work.rotation.rule.kind == RotationKind::kPolar) {
    array.shape.back() *= 2;
    array.strides.clear();
    array.input = -1;
    array.bytes = SizeOf(input.dtype);
    for (const int64_t extent : array.shape) array.bytes *= extent;
    const std::vector<int64_t> strides = DenseStridesOf(array.shape);
    rotated.y_batch_stride = axes.batch >= 0 ? strides[static_cast<size_t>(axes.batch)] : 0;
    rotated.y_token_stride = strides[axes.sequence];
    rotated.y_head_stride = axes.heads >= 0 ? strides[static_cast<size_t>(axes.heads)] : 2 * input.head_dim;
  }
  work.outputs.push_back(std::move(array));
  work.inputs.push_back({input.bytes, std::move(input.payload)});
}

// Everything of the draft into the work, which the item then consists of.
absl::Status FinishWork(RotateDraft& draft, const ParseContext& context) {
  ApplyItem& item = draft.item;
  RotateWork& work = *draft.work;
  if (draft.target) work.sources.push_back(*std::move(draft.target));
  if (draft.rule().kind != RotationKind::kUploaded) {
    work.warnings = WarningsFor(item.source, item.positions.last(), "positions");
    work.sources.push_back(std::move(item.source));
  }
  work.positions = std::move(item.positions);
  work.rotation.batch = item.tensors.front().batch;
  work.rotation.tokens = item.tensors.front().sequence;
  work.rotation.per_batch = item.per_batch;
  work.key = KeyOf(work);
  for (size_t i = 0; i < item.tensors.size(); ++i) AddAnswer(i, draft.axes, std::move(item.tensors[i]), work);
  work.Seal();
  item = ApplyItem();
  item.payload_bytes = work.output_bytes();
  item.work = std::move(draft.work);
  return CheckLimit("tensors", item.payload_bytes, "max_item_bytes", context.limits.max_item_bytes, "bytes of payload");
}

}  // namespace

absl::StatusOr<ApplyItem> ParseRotation(const v1::ApplyItem& message, ParseContext& context) {
  RotateDraft draft;
  draft.work = std::make_shared<RotateWork>();
  RotationRule& rule = draft.rule();
  if (auto status = CheckRotateOperation(message); !status.ok()) return status;
  draft.axes = HeadAxesOf(message.layout());
  int64_t head_dim = 0;
  if (auto status = ParseRotationSource(message, context, draft, &head_dim); !status.ok()) return status;
  draft.item.inverse = rule.divide = message.rotate().inverse();
  draft.item.backward = message.rotate().backward();
  rule.negate = message.rotate().inverse() || message.rotate().backward();
  if (message.rotate().has_query_scale()) {
    absl::StatusOr<PositionScale> scale = ParseQueryScale(message.rotate().query_scale(), "rotate.query_scale");
    if (!scale.ok()) return scale.status();
    if (rule.kind == RotationKind::kPolar) return InvalidField("rotate.query_scale", "with pope", "none");
    if (rule.divide && scale->rule == PositionScale::Rule::kConstant && scale->constant == 0) {
      return InvalidField("rotate.query_scale.constant", "0", "not 0 with inverse");
    }
    rule.scale = *scale;
    draft.needs_work = true;
  }
  if (auto status = ParseRotatedTensors(message, draft.axes, head_dim, context, &draft.item); !status.ok()) return status;
  if (auto status = UseRoles(message, draft); !status.ok()) return status;
  if (auto status = UsePositions(message, context, draft); !status.ok()) return status;
  if (auto status = CheckPositions(draft); !status.ok()) return status;
  if (!draft.needs_work) return std::move(draft.item);
  if (auto status = CheckDecay(draft); !status.ok()) return status;
  if (auto status = CheckHeads(draft); !status.ok()) return status;
  if (auto status = FinishWork(draft, context); !status.ok()) return status;
  return std::move(draft.item);
}

}  // namespace phasor::server
