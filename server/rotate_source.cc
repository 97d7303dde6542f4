// What a rotation rotates by: a spec, two of them, or the caller's tables.
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/program/absolute_rows.h"
#include "server/enum_text.h"
#include "server/grpc_status.h"
#include "server/rotate_draft.h"
#include "server/weight_parser.h"

namespace phasor::server {
namespace {

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

absl::Status UseTable(const v1::ApplyItem& message, const ParseContext& context, RotateDraft& draft, int64_t* head_dim) {
  const auto& shape = message.tensors_size() > 0 ? message.tensors(0).shape() : v1::Tensor::default_instance().shape();
  *head_dim = shape.empty() ? 0 : shape.Get(shape.size() - 1);
  if (*head_dim < 2) return InvalidField("tensors[0].shape", absl::StrCat("heads of ", *head_dim), "heads of 2 or more");
  RotationRule& rule = draft.rule();
  rule.kind = RotationKind::kUploaded;
  absl::StatusOr<WeightRef> cos = ParseTable(message.table().cos(), "table.cos", *head_dim, context);
  if (!cos.ok()) return cos.status();
  absl::StatusOr<WeightRef> sin = ParseTable(message.table().sin(), "table.sin", *head_dim, context);
  if (!sin.ok()) return sin.status();
  if ((*sin)->shape != (*cos)->shape) return InvalidField("table.sin.shape", "another shape", "the shape of table.cos");
  rule.cos = *std::move(cos);
  rule.sin = *std::move(sin);
  rule.pairs = rule.cos->shape[1];
  if (message.table_pairing() != v1::PAIRING_UNSPECIFIED) rule.pairing = static_cast<Pairing>(message.table_pairing());
  draft.needs_work = true;
  return absl::OkStatus();
}

// The schedule that keys are turned to: as the source in all that a rotation cannot change.
absl::Status UseTarget(const v1::ApplyItem& message, const RopeSpec& from, const ParseContext& context, RotateDraft& draft) {
  const v1::RerotateOperation& op = message.rerotate();
  if (!op.has_target()) return InvalidField("rerotate.target", "nothing", "a RoPE spec");
  if (message.precision() == v1::PRECISION_COMPAT_F32) {
    return InvalidField("precision", "PRECISION_COMPAT_F32", "PRECISION_EXACT with rerotate");
  }
  std::optional<int64_t> length, max_position;
  std::string_view length_field = "sequence_length";
  if (op.has_target_sequence_length()) {
    length = op.target_sequence_length();
    length_field = "rerotate.target_sequence_length";
  } else if (message.has_sequence_length()) {
    length = message.sequence_length();
  }
  if (message.has_max_position()) max_position = message.max_position();
  absl::StatusOr<TableSource> target =
      ParseSource(op.target(), "rerotate.target", message.precision(), length, max_position, context, length_field);
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
  draft.rule().kind = RotationKind::kBetween;
  draft.needs_work = true;
  return absl::OkStatus();
}

absl::Status UseRope(const v1::ApplyItem& message, const ParseContext& context, RotateDraft& draft, int64_t* head_dim) {
  auto& rope = std::get<RopeSpec>(draft.item.source.spec.spec);
  *head_dim = rope.head_dim;
  RotationRule& rule = draft.rule();
  if (message.has_rerotate()) {
    if (auto status = UseTarget(message, rope, context, draft); !status.ok()) return status;
  }
  if (MovesKeys(message)) {
    // Stored keys lie in halves already; and their factor is in them.
    if (*rope.pairing == Pairing::kInterleavedToHalf) rope.pairing = Pairing::kHalfSplit;
    if (message.has_shift()) rope.attention_factor = 1;
  }
  rule.pairing = *rope.pairing;
  if (rope.axes) draft.needs_work = true;
  if (!rope.xpos || message.has_rerotate()) return absl::OkStatus();
  draft.needs_work = true;
  if (message.has_shift()) {  // what a key moves by decays from 0
    rule.xpos = XposFactors{*rope.xpos->scale_base, 0};
    return absl::OkStatus();
  }
  std::optional<int64_t> length;
  if (message.has_sequence_length()) length = message.sequence_length();
  absl::StatusOr<XposFactors> xpos = XposOf(*rope.xpos, length);
  if (!xpos.ok()) return xpos.status();
  rule.xpos = *xpos;
  return absl::OkStatus();
}

absl::Status UsePope(const v1::ApplyItem& message, RotateDraft& draft, int64_t* head_dim) {
  if (MovesKeys(message) || message.rotate().inverse() || message.rotate().backward()) {
    return InvalidField(message.has_shift()      ? "shift"
                        : message.has_rerotate() ? "rerotate"
                                                 : "rotate",
                        "with pope", "a forward rotation: softplus is not undone");
  }
  *head_dim = std::get<PopeSpec>(draft.item.source.spec.spec).head_dim;
  draft.needs_work = true;
  return absl::OkStatus();
}

absl::Status UseFope(const v1::ApplyItem& message, RotateDraft& draft, int64_t* head_dim) {
  if (MovesKeys(message) || message.rotate().inverse()) {
    return InvalidField(message.has_shift()      ? "shift"
                        : message.has_rerotate() ? "rerotate"
                                                 : "rotate.inverse",
                        "with fope", "a rotation or its backward: FoPE's tables are no rotations to undo");
  }
  *head_dim = std::get<FopeSpec>(draft.item.source.spec.spec).head_dim;
  draft.needs_work = true;
  return absl::OkStatus();
}

// Columns of a distilled function: cosines, then sines.
absl::Status UseDistilled(const v1::ApplyItem& message, RotateDraft& draft, int64_t* head_dim) {
  if (MovesKeys(message) || message.rotate().inverse()) {
    return InvalidField(message.has_shift()      ? "shift"
                        : message.has_rerotate() ? "rerotate"
                                                 : "rotate.inverse",
                        "with distilled", "a rotation or its backward: fitted cosines and sines are no rotation to undo");
  }
  if (message.rotate().has_query_scale()) return InvalidField("rotate.query_scale", "with distilled", "none");
  const int64_t columns = AbsoluteColumns(draft.item.source.spec.spec);
  const auto& shape = message.tensors_size() > 0 ? message.tensors(0).shape() : v1::Tensor::default_instance().shape();
  *head_dim = shape.empty() ? 0 : shape.Get(shape.size() - 1);
  if (columns % 2 != 0) {
    return InvalidField("spec.distilled", absl::StrCat(columns, " columns"), "an even number: cosines, then sines");
  }
  if (message.layout() == v1::LAYOUT_T_HD) {
    return InvalidField("layout", "LAYOUT_T_HD with distilled", "a layout whose last axis is the width of a head");
  }
  if (*head_dim < columns) {
    return InvalidField("tensors[0].shape", absl::StrCat("heads of ", *head_dim),
                        absl::StrCat("heads of ", columns, " or more: the function has so many columns"));
  }
  RotationRule& rule = draft.rule();
  rule.kind = RotationKind::kDistilled;
  rule.pairs = columns / 2;
  if (message.table_pairing() != v1::PAIRING_UNSPECIFIED) rule.pairing = static_cast<Pairing>(message.table_pairing());
  draft.needs_work = true;
  return absl::OkStatus();
}

}  // namespace

bool MovesKeys(const v1::ApplyItem& message) { return message.has_shift() || message.has_rerotate(); }

absl::Status CheckRotateOperation(const v1::ApplyItem& message) {
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
    if (message.table_pairing() != v1::PAIRING_UNSPECIFIED && !message.spec().has_distilled()) {
      return InvalidField("table_pairing", v1::Pairing_Name(message.table_pairing()),
                          "nothing without a table or a distilled function");
    }
    return absl::OkStatus();
  }
  if (message.has_spec()) return InvalidField("spec", "a scheme together with a table", "one of them");
  if (message.has_rerotate()) return InvalidField("rerotate", "together with a table", "two specs");
  if (message.has_shift()) {
    return InvalidField("shift", "together with a table",
                        "a spec: the factor in a table is not known, and a shift has none");
  }
  for (const auto& [field, given, number] :
       {std::tuple("precision", message.precision() > v1::PRECISION_EXACT, int64_t{message.precision()}),
        {"sequence_length", message.has_sequence_length(), message.sequence_length()},
        {"max_position", message.has_max_position(), message.max_position()}}) {
    if (given) return InvalidField(field, absl::StrCat(number), "unset with a table, which holds its numbers already");
  }
  if (message.layout() == v1::LAYOUT_T_HD) {
    return InvalidField("layout", "LAYOUT_T_HD together with a table", "a layout whose last axis is the width of a head");
  }
  if (rotate.inverse()) {
    return InvalidField("rotate.inverse", "true together with a table",
                        "false: the factor in a table is not known. backward turns back by the table as it is");
  }
  return absl::OkStatus();
}

absl::Status ParseRotationSource(const v1::ApplyItem& message, ParseContext& context, RotateDraft& draft,
                                 int64_t* head_dim) {
  if (message.has_table()) return UseTable(message, context, draft, head_dim);
  absl::StatusOr<TableSource> source = ParseSourceOf(message, context);
  if (!source.ok()) return source.status();
  draft.item.source = *std::move(source);
  const EncodingSpec& spec = draft.item.source.spec.spec;
  if (IsRotation(spec)) draft.rule() = RotationRuleOf(spec);
  if (std::holds_alternative<RopeSpec>(spec)) return UseRope(message, context, draft, head_dim);
  if (std::holds_alternative<PopeSpec>(spec)) return UsePope(message, draft, head_dim);
  if (std::holds_alternative<FopeSpec>(spec)) return UseFope(message, draft, head_dim);
  if (std::holds_alternative<DistilledSpec>(spec)) return UseDistilled(message, draft, head_dim);
  return InvalidField("spec", "a scheme that does not rotate", "rope, pope, fope or distilled; or the operation add");
}

}  // namespace phasor::server
