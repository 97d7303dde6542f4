// Biases that depend on the distance only, both ways.
#include "server/spec_arms.h"

namespace phasor::server {

absl::StatusOr<EncodingSpec> SpecFrom(const v1::AlibiSpec& m) {
  AlibiSpec alibi{.num_heads = m.num_heads(),
                  .max_bias = If(m.has_max_bias(), m.max_bias()),
                  .form = std::nullopt,
                  .slopes = {m.slopes().begin(), m.slopes().end()},
                  .biased_heads = If(m.has_biased_heads(), m.biased_heads()),
                  .scale = If(m.has_scale(), m.scale()),
                  .slope_dtype = std::nullopt,
                  .future_factor = If(m.has_future_factor(), m.future_factor()),
                  .batch_slopes = {m.batch_slopes().begin(), m.batch_slopes().end()}};
  auto status = ReadEnum("alibi.form", m.form(), v1::AlibiForm_descriptor(), &alibi.form);
  if (status.ok()) status = ReadEnum("alibi.slope_dtype", m.slope_dtype(), v1::Dtype_descriptor(), &alibi.slope_dtype);
  if (!status.ok()) return status;
  return alibi;
}

void WriteSpec(const AlibiSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_alibi();
  m->set_num_heads(s.num_heads);
  if (s.max_bias) m->set_max_bias(*s.max_bias);
  if (s.form) m->set_form(static_cast<v1::AlibiForm>(*s.form));
  m->mutable_slopes()->Add(s.slopes.begin(), s.slopes.end());
  if (s.biased_heads) m->set_biased_heads(*s.biased_heads);
  if (s.scale) m->set_scale(*s.scale);
  if (s.slope_dtype) m->set_slope_dtype(static_cast<v1::Dtype>(*s.slope_dtype));
  if (s.future_factor) m->set_future_factor(*s.future_factor);
  m->mutable_batch_slopes()->Add(s.batch_slopes.begin(), s.batch_slopes.end());
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::T5BucketSpec& m, SpecWeights& weights) {
  return T5BucketSpec{.num_buckets = If(m.has_num_buckets(), m.num_buckets()),
                      .max_distance = If(m.has_max_distance(), m.max_distance()),
                      .bidirectional = If(m.has_bidirectional(), m.bidirectional()),
                      .num_heads = m.num_heads(),
                      .scale = If(m.has_scale(), m.scale()),
                      .distance_divisor = m.has_distance_divisor() ? m.distance_divisor() : 1,
                      .table = weights.Take("table")};
}

void WriteSpec(const T5BucketSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_t5_bucket();
  if (s.num_buckets) m->set_num_buckets(*s.num_buckets);
  if (s.max_distance) m->set_max_distance(*s.max_distance);
  if (s.bidirectional) m->set_bidirectional(*s.bidirectional);
  m->set_num_heads(s.num_heads);
  if (s.scale) m->set_scale(*s.scale);
  if (s.distance_divisor != 1) m->set_distance_divisor(s.distance_divisor);
  WriteWeight("table", s.table, message);
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::KerpleSpec& m) {
  KerpleSpec kerple{.form = std::nullopt,
                    .num_heads = m.num_heads(),
                    .r1 = {m.r1().begin(), m.r1().end()},
                    .r2 = {m.r2().begin(), m.r2().end()},
                    .p = {m.p().begin(), m.p().end()}};
  if (auto status = ReadEnum("kerple.form", m.form(), v1::KerpleForm_descriptor(), &kerple.form); !status.ok()) {
    return status;
  }
  return kerple;
}

void WriteSpec(const KerpleSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_kerple();
  if (s.form) m->set_form(static_cast<v1::KerpleForm>(*s.form));
  m->set_num_heads(s.num_heads);
  m->mutable_r1()->Add(s.r1.begin(), s.r1.end());
  m->mutable_r2()->Add(s.r2.begin(), s.r2.end());
  m->mutable_p()->Add(s.p.begin(), s.p.end());
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::SandwichSpec& m) {
  return SandwichSpec{.num_heads = m.num_heads(), .dim = If(m.has_dim(), m.dim()), .base = If(m.has_base(), m.base())};
}

void WriteSpec(const SandwichSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_sandwich();
  m->set_num_heads(s.num_heads);
  if (s.dim) m->set_dim(*s.dim);
  if (s.base) m->set_base(*s.base);
}

}  // namespace phasor::server
