// Terms of attention scores, both ways.
#include "server/spec_arms.h"
#include "server/spec_weights.h"

namespace phasor::server {

absl::StatusOr<EncodingSpec> SpecFrom(const v1::ShawSpec& m, SpecWeights& weights) {
  return ShawSpec{.clip = m.clip(),
                  .query_term_too = m.query_term_too(),
                  .key_minus_query = m.key_minus_query(),
                  .keys = weights.Take("keys"),
                  .values = weights.Take("values")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::DebertaSpec& m, SpecWeights& weights) {
  return DebertaSpec{.position_buckets = If(m.has_position_buckets(), m.position_buckets()),
                     .max_relative_positions = If(m.has_max_relative_positions(), m.max_relative_positions()),
                     .c2p = If(m.has_c2p(), m.c2p()),
                     .p2c = If(m.has_p2c(), m.p2c()),
                     .key_positions = weights.Take("key_positions"),
                     .query_positions = weights.Take("query_positions")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::TransformerXlSpec& m, SpecWeights& weights) {
  return TransformerXlSpec{.dim = m.dim(),
                           .clamp_length = If(m.has_clamp_length(), m.clamp_length()),
                           .base = If(m.has_base(), m.base()),
                           .r = weights.Take("r"),
                           .w_r = weights.Take("w_r"),
                           .u = weights.Take("u"),
                           .v = weights.Take("v")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::XlnetSpec& m, SpecWeights& weights) {
  return XlnetSpec{.dim = m.dim(),
                   .clamp_length = If(m.has_clamp_length(), m.clamp_length()),
                   .base = If(m.has_base(), m.base()),
                   .unidirectional = m.unidirectional(),
                   .separate_cls = m.separate_cls(),
                   .r = weights.Take("r"),
                   .w_r = weights.Take("w_r"),
                   .r_w_bias = weights.Take("r_w_bias"),
                   .r_r_bias = weights.Take("r_r_bias"),
                   .r_s_bias = weights.Take("r_s_bias"),
                   .seg_embed = weights.Take("seg_embed"),
                   .segments = weights.Take("segments")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::ConformerSpec& m, SpecWeights& weights) {
  return ConformerSpec{.dim = m.dim(),
                       .base = If(m.has_base(), m.base()),
                       .num_heads = m.num_heads(),
                       .concatenated = m.concatenated(),
                       .base_inclusive = m.base_inclusive(),
                       .r = weights.Take("r"),
                       .w_r = weights.Take("w_r"),
                       .u = weights.Take("u"),
                       .v = weights.Take("v")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::CopeSpec& m, SpecWeights& weights) {
  return CopeSpec{.max_positions = m.max_positions(), .e = weights.Take("e")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::DecomposedSpec& m, SpecWeights& weights) {
  return DecomposedSpec{.query_height = m.query_height(),
                        .query_width = m.query_width(),
                        .key_height = m.key_height(),
                        .key_width = m.key_width(),
                        .rel_pos_h = weights.Take("rel_pos_h"),
                        .rel_pos_w = weights.Take("rel_pos_w")};
}

void WriteSpec(const ShawSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_shaw();
  m->set_clip(s.clip);
  m->set_query_term_too(s.query_term_too);
  m->set_key_minus_query(s.key_minus_query);
  WriteWeight("keys", s.keys, message);
  WriteWeight("values", s.values, message);
}

void WriteSpec(const DebertaSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_deberta();
  if (s.position_buckets) m->set_position_buckets(*s.position_buckets);
  if (s.max_relative_positions) m->set_max_relative_positions(*s.max_relative_positions);
  if (s.c2p) m->set_c2p(*s.c2p);
  if (s.p2c) m->set_p2c(*s.p2c);
  WriteWeight("key_positions", s.key_positions, message);
  WriteWeight("query_positions", s.query_positions, message);
}

void WriteSpec(const TransformerXlSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_transformer_xl();
  m->set_dim(s.dim);
  if (s.clamp_length) m->set_clamp_length(*s.clamp_length);
  if (s.base) m->set_base(*s.base);
  WriteWeight("r", s.r, message);
  WriteWeight("w_r", s.w_r, message);
  WriteWeight("u", s.u, message);
  WriteWeight("v", s.v, message);
}

void WriteSpec(const XlnetSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_xlnet();
  m->set_dim(s.dim);
  if (s.clamp_length) m->set_clamp_length(*s.clamp_length);
  if (s.base) m->set_base(*s.base);
  m->set_unidirectional(s.unidirectional);
  m->set_separate_cls(s.separate_cls);
  WriteWeight("r", s.r, message);
  WriteWeight("w_r", s.w_r, message);
  WriteWeight("r_w_bias", s.r_w_bias, message);
  WriteWeight("r_r_bias", s.r_r_bias, message);
  WriteWeight("r_s_bias", s.r_s_bias, message);
  WriteWeight("seg_embed", s.seg_embed, message);
  WriteWeight("segments", s.segments, message);
}

void WriteSpec(const ConformerSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_conformer();
  m->set_dim(s.dim);
  if (s.base) m->set_base(*s.base);
  m->set_num_heads(s.num_heads);
  m->set_concatenated(s.concatenated);
  m->set_base_inclusive(s.base_inclusive);
  WriteWeight("r", s.r, message);
  WriteWeight("w_r", s.w_r, message);
  WriteWeight("u", s.u, message);
  WriteWeight("v", s.v, message);
}

void WriteSpec(const CopeSpec& s, v1::EncodingSpec* message) {
  message->mutable_cope()->set_max_positions(s.max_positions);
  WriteWeight("e", s.e, message);
}

void WriteSpec(const DecomposedSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_decomposed();
  m->set_query_height(s.query_height);
  m->set_query_width(s.query_width);
  m->set_key_height(s.key_height);
  m->set_key_width(s.key_width);
  WriteWeight("rel_pos_h", s.rel_pos_h, message);
  WriteWeight("rel_pos_w", s.rel_pos_w, message);
}

}  // namespace phasor::server
