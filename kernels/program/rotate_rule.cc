// What a spec rotates by.
#include <algorithm>

#include "kernels/program/rotate.h"

namespace phasor {

bool IsRotation(const EncodingSpec& spec) {
  return std::holds_alternative<RopeSpec>(spec) || std::holds_alternative<PopeSpec>(spec) ||
         std::holds_alternative<FopeSpec>(spec);
}

RotationRule RotationRuleOf(const EncodingSpec& spec) {
  RotationRule rule;
  if (const auto* pope = std::get_if<PopeSpec>(&spec)) {
    rule.kind = RotationKind::kPolar;
    rule.pairs = pope->head_dim;
    rule.delta = pope->delta;
    if (pope->delta && pope->delta->shape.size() == 2) rule.table_heads = pope->delta->shape[0];
  } else if (const auto* fope = std::get_if<FopeSpec>(&spec)) {
    rule.kind = RotationKind::kFrequency;
    rule.pairs = fope->head_dim / 2;
    rule.table_heads = fope->cos_coef->shape[0];
  } else if (const auto* rope = std::get_if<RopeSpec>(&spec)) {
    rule.pairing = *rope->pairing;
    rule.first_channel = rope->first_channel;
    rule.pairs = *rope->rotary_dim / 2;
  }
  return rule;
}

std::optional<XposFactors> XposFactorsOf(const XposScale& xpos, std::optional<int64_t> sequence_length) {
  if (xpos.center) return XposFactors{*xpos.scale_base, *xpos.center};
  if (sequence_length) return XposFactors{*xpos.scale_base, *sequence_length / 2};
  return std::nullopt;
}

int64_t XposReach(const XposFactors& xpos, DType dtype) {
  const double bits = dtype == DType::kF64 ? 1022 : dtype == DType::kF16 ? 15 : 126;
  return static_cast<int64_t>(std::min(bits / Decay::BitsPerPosition(xpos.scale_base), 0x1p40));
}

}  // namespace phasor
