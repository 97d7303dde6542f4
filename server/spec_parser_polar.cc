// PoPE and FoPE, both ways.
#include "server/spec_arms.h"
#include "server/spec_weights.h"

namespace phasor::server {

absl::StatusOr<EncodingSpec> SpecFrom(const v1::PopeSpec& m, SpecWeights& weights) {
  return PopeSpec{.head_dim = m.head_dim(), .base = If(m.has_base(), m.base()), .delta = weights.Take("delta")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::FopeSpec& m, SpecWeights& weights) {
  return FopeSpec{.head_dim = m.head_dim(),
                  .training_length = m.training_length(),
                  .base = If(m.has_base(), m.base()),
                  .cos_coef = weights.Take("cos_coef"),
                  .sin_coef = weights.Take("sin_coef")};
}

void WriteSpec(const PopeSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_pope();
  m->set_head_dim(s.head_dim);
  if (s.base) m->set_base(*s.base);
  WriteWeight("delta", s.delta, message);
}

void WriteSpec(const FopeSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_fope();
  m->set_head_dim(s.head_dim);
  m->set_training_length(s.training_length);
  if (s.base) m->set_base(*s.base);
  WriteWeight("cos_coef", s.cos_coef, message);
  WriteWeight("sin_coef", s.sin_coef, message);
}

}  // namespace phasor::server
