// Rotations, plain and beyond: what an item asks for, checked.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "server/apply_tensors.h"
#include "server/describe.h"
#include "server/enum_text.h"
#include "server/fingerprint.h"
#include "server/grpc_status.h"
#include "server/positions_parser.h"
#include "server/query_scale_parser.h"
#include "server/rotate_key.h"
#include "server/rotate_work.h"
#include "server/weight_parser.h"
#include "server/work_parsers.h"

namespace phasor::server {
namespace {

// The item on its way.
struct Draft {
  ApplyItem item;
  HeadAxes axes{};
  std::optional<TableSource> target;  // of rerotate
  std::shared_ptr<RotateWork> work;   // filled as far as it is known; dropped where the plain path serves
  bool needs_work = false;
  int64_t smallest = 0;  // position
};

bool MovesKeys(const v1::ApplyItem& message) { return message.has_shift() || message.has_rerotate(); }

// Fields of the operation that do not go together.
absl::Status CheckOperation(const v1::ApplyItem& message) {
  const v1::RotateOperation& rotate = message.rotate();
  if (rotate.inverse() && rotate.backward()) return InvalidField("rotate.backward", "true", "false together with inverse");
  if (auto status = CheckEnum("layout", message.layout(), v1::Layout_descriptor()); !status.ok()) return status;
  if (message.layout() > v1::LAYOUT_THD && message.layout() != v1::LAYOUT_T_HD) {
    return InvalidField("layout", v1::Layout_Name(message.layout()),
                        "LAYOUT_BSHD, LAYOUT_BHSD, LAYOUT_SBHD, LAYOUT_THD, LAYOUT_T_HD");
  }
  if (auto status = CheckEnum("table_pairing", message.table_pairing(), v1::Pairing_descriptor()); !status.ok()) {
    return status;
  }
  if (!message.has_table()) {
    if (message.table_pairing() != v1::PAIRING_UNSPECIFIED) {
      return InvalidField("table_pairing", v1::Pairing_Name(message.table_pairing()), "nothing without a table");
    }
    return absl::OkStatus();
  }
  if (message.has_spec()) return InvalidField("spec", "a scheme together with a table", "one of them");
  if (message.has_rerotate()) return InvalidField("rerotate", "together with a table", "two specs");
  if (message.layout() == v1::LAYOUT_T_HD) {
    return InvalidField("layout", "LAYOUT_T_HD together with a table", "a layout whose last axis is the width of a head");
  }
  if (rotate.inverse()) {
    return InvalidField("rotate.inverse", "true together with a table",
                        "false: the factor in a table is not known. backward turns back by the table as it is");
  }
  return absl::OkStatus();
}

absl::StatusOr<WeightRef> ParseTable(const v1::Tensor& tensor, std::string_view path, int64_t head_dim,
                                     const ParseContext& context) {
  absl::StatusOr<WeightRef> weight = ParseWeight(tensor, path, context);
  if (!weight.ok()) return weight;
  const std::vector<int64_t>& shape = (*weight)->shape;
  if (shape.size() != 2 || shape[1] > head_dim / 2) {
    return InvalidField(absl::StrCat(std::string(path), ".shape"),
                        absl::StrCat(shape.size(), " axes, the last of ", shape.back()),
                        absl::StrCat("[rows, n], n up to ", head_dim / 2, " (half of the last axis of tensors[0])"));
  }
  return weight;
}

absl::Status UseTable(const v1::ApplyItem& message, const ParseContext& context, Draft& draft, int64_t* head_dim) {
  const auto& shape = message.tensors_size() > 0 ? message.tensors(0).shape() : v1::Tensor::default_instance().shape();
  *head_dim = shape.empty() ? 0 : shape.Get(shape.size() - 1);
  if (*head_dim < 2) return InvalidField("tensors[0].shape", absl::StrCat("heads of ", *head_dim), "heads of 2 or more");
  RotateWork& work = *draft.work;
  work.kind = RotateWork::Kind::kUploaded;
  absl::StatusOr<WeightRef> cos = ParseTable(message.table().cos(), "table.cos", *head_dim, context);
  if (!cos.ok()) return cos.status();
  absl::StatusOr<WeightRef> sin = ParseTable(message.table().sin(), "table.sin", *head_dim, context);
  if (!sin.ok()) return sin.status();
  if ((*sin)->shape != (*cos)->shape) return InvalidField("table.sin.shape", "another shape", "the shape of table.cos");
  work.cos = *std::move(cos);
  work.sin = *std::move(sin);
  work.pairs = work.cos->shape[1];
  if (message.table_pairing() != v1::PAIRING_UNSPECIFIED) work.pairing = static_cast<Pairing>(message.table_pairing());
  draft.needs_work = true;
  return absl::OkStatus();
}

// The schedule that keys are turned to: as the source in all that a rotation cannot change.
absl::Status UseTarget(const v1::ApplyItem& message, const RopeSpec& from, const ParseContext& context, Draft& draft) {
  const v1::RerotateOperation& op = message.rerotate();
  if (!op.has_target()) return InvalidField("rerotate.target", "nothing", "a RoPE spec");
  if (message.precision() == v1::PRECISION_COMPAT_F32) {
    return InvalidField("precision", "PRECISION_COMPAT_F32", "PRECISION_EXACT with rerotate");
  }
  std::optional<int64_t> length, max_position;
  if (op.has_target_sequence_length()) {
    length = op.target_sequence_length();
  } else if (message.has_sequence_length()) {
    length = message.sequence_length();
  }
  if (message.has_max_position()) max_position = message.max_position();
  absl::StatusOr<TableSource> target =
      ParseSource(op.target(), "rerotate.target", message.precision(), length, max_position, context);
  if (!target.ok()) return target.status();
  const auto* to = std::get_if<RopeSpec>(&target->spec.spec);
  if (to == nullptr) return InvalidField("rerotate.target", "another scheme", "rope");
  const auto same = [](std::string_view field, int64_t given, int64_t wanted) -> absl::Status {
    if (given == wanted) return absl::OkStatus();
    return InvalidField(absl::StrCat("rerotate.target.rope.", std::string(field)), absl::StrCat(given),
                        absl::StrCat(wanted, ", as in spec"));
  };
  if (auto s = same("head_dim", to->head_dim, from.head_dim); !s.ok()) return s;
  if (auto s = same("rotary_dim", *to->rotary_dim, *from.rotary_dim); !s.ok()) return s;
  if (auto s = same("pairing", static_cast<int>(*to->pairing), static_cast<int>(*from.pairing)); !s.ok()) return s;
  if (auto s = same("first_channel", to->first_channel, from.first_channel); !s.ok()) return s;
  if (!(to->xpos == from.xpos)) return InvalidField("rerotate.target.rope.xpos", "another decay", "that of spec");
  if (!(to->axes == from.axes)) return InvalidField("rerotate.target.rope.axes", "other axes", "those of spec");
  draft.target = *std::move(target);
  draft.work->kind = RotateWork::Kind::kBetween;
  draft.needs_work = true;
  return absl::OkStatus();
}

absl::Status UseRope(const v1::ApplyItem& message, const ParseContext& context, Draft& draft, int64_t* head_dim) {
  auto& rope = std::get<RopeSpec>(draft.item.source.spec.spec);
  *head_dim = rope.head_dim;
  RotateWork& work = *draft.work;
  work.pairs = *rope.rotary_dim / 2;
  work.first_channel = rope.first_channel;
  if (message.has_rerotate()) {
    if (auto status = UseTarget(message, rope, context, draft); !status.ok()) return status;
  }
  if (MovesKeys(message)) {
    // Stored keys lie in halves already; and their factor is in them.
    if (*rope.pairing == Pairing::kInterleavedToHalf) rope.pairing = Pairing::kHalfSplit;
    if (message.has_shift()) rope.attention_factor = 1;
  }
  work.pairing = *rope.pairing;
  if (rope.axes) draft.needs_work = true;
  if (!rope.xpos || message.has_rerotate()) return absl::OkStatus();
  draft.needs_work = true;
  if (message.has_shift()) {  // what a key moves by decays from 0
    work.xpos = XposFactors{*rope.xpos->scale_base, 0};
    return absl::OkStatus();
  }
  std::optional<int64_t> length;
  if (message.has_sequence_length()) length = message.sequence_length();
  absl::StatusOr<XposFactors> xpos = XposOf(*rope.xpos, length);
  if (!xpos.ok()) return xpos.status();
  work.xpos = *xpos;
  return absl::OkStatus();
}

absl::Status UsePope(const v1::ApplyItem& message, Draft& draft, int64_t* head_dim) {
  if (MovesKeys(message) || message.rotate().inverse() || message.rotate().backward()) {
    return InvalidField(message.has_shift()      ? "shift"
                        : message.has_rerotate() ? "rerotate"
                                                 : "rotate",
                        "with pope", "a forward rotation: softplus is not undone");
  }
  const auto& pope = std::get<PopeSpec>(draft.item.source.spec.spec);
  *head_dim = draft.work->pairs = pope.head_dim;
  draft.work->kind = RotateWork::Kind::kPolar;
  draft.work->delta = pope.delta;
  if (pope.delta && pope.delta->shape.size() == 2) draft.work->table_heads = pope.delta->shape[0];
  draft.needs_work = true;
  return absl::OkStatus();
}

absl::Status UseFope(const v1::ApplyItem& message, Draft& draft, int64_t* head_dim) {
  if (MovesKeys(message) || message.rotate().inverse()) {
    return InvalidField(message.has_shift()      ? "shift"
                        : message.has_rerotate() ? "rerotate"
                                                 : "rotate.inverse",
                        "with fope", "a rotation or its backward: FoPE's tables are no rotations to undo");
  }
  const auto& fope = std::get<FopeSpec>(draft.item.source.spec.spec);
  *head_dim = fope.head_dim;
  draft.work->pairs = fope.head_dim / 2;
  draft.work->kind = RotateWork::Kind::kFrequency;
  draft.work->table_heads = fope.cos_coef->shape[0];
  draft.needs_work = true;
  return absl::OkStatus();
}

// What the item rotates by; sets the width of a head.
absl::Status UseSource(const v1::ApplyItem& message, ParseContext& context, Draft& draft, int64_t* head_dim) {
  if (message.has_table()) return UseTable(message, context, draft, head_dim);
  absl::StatusOr<TableSource> source = ParseSourceOf(message, context);
  if (!source.ok()) return source.status();
  draft.item.source = *std::move(source);
  const EncodingSpec& spec = draft.item.source.spec.spec;
  if (std::holds_alternative<RopeSpec>(spec)) return UseRope(message, context, draft, head_dim);
  if (std::holds_alternative<PopeSpec>(spec)) return UsePope(message, draft, head_dim);
  if (std::holds_alternative<FopeSpec>(spec)) return UseFope(message, draft, head_dim);
  return InvalidField("spec", "a scheme that does not rotate", "rope, pope or fope; or the operation add");
}

absl::Status UseRoles(const v1::ApplyItem& message, Draft& draft) {
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
    RotateWork::Rotated rotated;
    rotated.is_query = role == v1::TENSOR_ROLE_UNSPECIFIED ? i == 0 && !MovesKeys(message) : role == v1::TENSOR_ROLE_QUERY;
    draft.work->tensors.push_back(std::move(rotated));
  }
  return absl::OkStatus();
}

absl::Status UsePositions(const v1::ApplyItem& message, ParseContext& context, Draft& draft) {
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

// Several axes belong to RoPE with axes; decays, phases and mixtures take whole positions of one axis.
absl::Status CheckPositions(const Draft& draft) {
  const RotateWork& work = *draft.work;
  const PositionSet& positions = draft.item.positions;
  int64_t axes = 1;
  if (const auto* rope = std::get_if<RopeSpec>(&draft.item.source.spec.spec); rope != nullptr && rope->axes) {
    axes = static_cast<int64_t>(rope->axes->sections.size());
  }
  if (work.kind != RotateWork::Kind::kUploaded && positions.axes() != axes) {
    return InvalidField("positions", absl::StrCat(positions.axes(), " axes"), absl::StrCat(axes, ", as the spec has"));
  }
  const bool needs_whole = work.xpos || (work.kind != RotateWork::Kind::kRope && work.kind != RotateWork::Kind::kBetween);
  if (needs_whole && !positions.is_plain()) {
    return InvalidField("positions", "fractional positions or several axes", "whole positions of one axis here");
  }
  if (work.kind == RotateWork::Kind::kUploaded && positions.count > 0) {
    const int64_t rows = work.cos->shape[0];
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
absl::Status CheckDecay(const Draft& draft) {
  const RotateWork& work = *draft.work;
  const PositionSet& positions = draft.item.positions;
  if (!work.xpos || positions.count == 0) return absl::OkStatus();
  for (size_t i = 0; i < work.tensors.size(); ++i) {
    const absl::Status status =
        CheckXposReach(*work.xpos, positions, draft.item.tensors[i].dtype, "positions", absl::StrCat("tensors[", i, "]"));
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckHeads(const Draft& draft) {
  const RotateWork& work = *draft.work;
  if (work.table_heads == 1) return absl::OkStatus();
  for (size_t i = 0; i < work.tensors.size(); ++i) {
    const int64_t heads = draft.item.tensors[i].heads;
    const std::string field = absl::StrCat("tensors[", i, "].shape");
    if (work.kind == RotateWork::Kind::kFrequency && heads % work.table_heads != 0) {
      return InvalidField(field, absl::StrCat(heads, " heads"), absl::StrCat("a multiple of ", work.table_heads));
    }
    if (work.kind == RotateWork::Kind::kPolar && !work.tensors[i].is_query && heads != work.table_heads) {
      return InvalidField(field, absl::StrCat(heads, " heads"), absl::StrCat(work.table_heads, ", as weights.delta"));
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
  RotateWork::Rotated& rotated = work.tensors[index];
  WorkArray array{.slot = Slot::kTensor,
                  .dtype = input.dtype,
                  .shape = input.shape,
                  .strides = input.strides,
                  .bytes = input.bytes,
                  .input = static_cast<int>(index)};
  rotated.y_batch_stride = input.batch_stride;
  rotated.y_sequence_stride = input.sequence_stride;
  rotated.y_head_stride = input.head_stride;
  if (work.kind == RotateWork::Kind::kPolar) {
    array.shape.back() *= 2;
    array.strides.clear();
    array.input = -1;
    array.bytes = SizeOf(input.dtype);
    for (const int64_t extent : array.shape) array.bytes *= extent;
    const std::vector<int64_t> strides = DenseStridesOf(array.shape);
    rotated.y_batch_stride = axes.batch >= 0 ? strides[static_cast<size_t>(axes.batch)] : 0;
    rotated.y_sequence_stride = strides[axes.sequence];
    rotated.y_head_stride = axes.heads >= 0 ? strides[static_cast<size_t>(axes.heads)] : 2 * input.head_dim;
  }
  work.outputs.push_back(std::move(array));
  work.inputs.push_back({input.bytes, std::move(input.payload)});
  input.payload.clear();
  rotated.geometry = std::move(input);
}

// Everything of the draft into the work, which the item then consists of.
absl::Status FinishWork(Draft& draft, const ParseContext& context) {
  ApplyItem& item = draft.item;
  RotateWork& work = *draft.work;
  if (draft.target) work.sources.push_back(*std::move(draft.target));
  if (work.kind != RotateWork::Kind::kUploaded) {
    work.warnings = WarningsFor(item.source, item.positions.largest, "positions");
    work.sources.push_back(std::move(item.source));
  }
  work.positions = std::move(item.positions);
  work.per_batch = item.per_batch;
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
  Draft draft;
  draft.work = std::make_shared<RotateWork>();
  RotateWork& work = *draft.work;
  if (auto status = CheckOperation(message); !status.ok()) return status;
  draft.axes = HeadAxesOf(message.layout());
  int64_t head_dim = 0;
  if (auto status = UseSource(message, context, draft, &head_dim); !status.ok()) return status;
  draft.item.inverse = work.divide = message.rotate().inverse();
  draft.item.backward = message.rotate().backward();
  work.negate = message.rotate().inverse() || message.rotate().backward();
  if (message.rotate().has_query_scale()) {
    absl::StatusOr<PositionScale> scale = ParseQueryScale(message.rotate().query_scale(), "rotate.query_scale");
    if (!scale.ok()) return scale.status();
    if (work.kind == RotateWork::Kind::kPolar) return InvalidField("rotate.query_scale", "with pope", "none");
    if (work.divide && scale->rule == PositionScale::Rule::kConstant && scale->constant == 0) {
      return InvalidField("rotate.query_scale.constant", "0", "not 0 with inverse");
    }
    work.scale = *scale;
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
