// Biases over windows and learned functions of positions, between the wire and the kernels library.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/spec_arms.h"

namespace phasor::server {
namespace {

std::string Numbered(const char* name, size_t index) { return absl::StrCat(name, index + 1); }

}  // namespace

EncodingSpec SpecFrom(const v1::WindowBiasSpec& m, SpecWeights& weights) {
  return WindowBiasSpec{.window_height = m.window_height(),
                        .window_width = m.window_width(),
                        .num_heads = m.num_heads(),
                        .class_token = m.class_token(),
                        .table = weights.Take("table")};
}

void WriteSpec(const WindowBiasSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_window_bias();
  m->set_window_height(s.window_height);
  m->set_window_width(s.window_width);
  m->set_num_heads(s.num_heads);
  m->set_class_token(s.class_token);
  WriteWeight("table", s.table, message);
}

EncodingSpec SpecFrom(const v1::ContinuousWindowBiasSpec& m, SpecWeights& weights) {
  return ContinuousWindowBiasSpec{.window_height = m.window_height(),
                                  .window_width = m.window_width(),
                                  .pretrained_height = m.pretrained_height(),
                                  .pretrained_width = m.pretrained_width(),
                                  .w1 = weights.Take("w1"),
                                  .b1 = weights.Take("b1"),
                                  .w2 = weights.Take("w2")};
}

void WriteSpec(const ContinuousWindowBiasSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_continuous_window_bias();
  m->set_window_height(s.window_height);
  m->set_window_width(s.window_width);
  m->set_pretrained_height(s.pretrained_height);
  m->set_pretrained_width(s.pretrained_width);
  WriteWeight("w1", s.w1, message);
  WriteWeight("b1", s.b1, message);
  WriteWeight("w2", s.w2, message);
}

EncodingSpec SpecFrom(const v1::FireSpec& m, SpecWeights& weights) {
  return FireSpec{.c = If(m.has_c(), m.c()),
                  .threshold = If(m.has_threshold(), m.threshold()),
                  .epsilon = If(m.has_epsilon(), m.epsilon()),
                  .w1 = weights.Take("w1"),
                  .b1 = weights.Take("b1"),
                  .w2 = weights.Take("w2"),
                  .b2 = weights.Take("b2")};
}

void WriteSpec(const FireSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_fire();
  if (s.c) m->set_c(*s.c);
  if (s.threshold) m->set_threshold(*s.threshold);
  if (s.epsilon) m->set_epsilon(*s.epsilon);
  WriteWeight("w1", s.w1, message);
  WriteWeight("b1", s.b1, message);
  WriteWeight("w2", s.w2, message);
  WriteWeight("b2", s.b2, message);
}

EncodingSpec SpecFrom(const v1::DynamicPositionBiasSpec& m, SpecWeights& weights) {
  DynamicPositionBiasSpec s{
      .log_distance = m.log_distance(), .layer_norm = m.layer_norm(), .w = {}, .b = {}, .g = {}, .h = {}};
  for (size_t i = 0; i < s.w.size(); ++i) {
    s.w[i] = weights.Take(Numbered("w", i));
    s.b[i] = weights.Take(Numbered("b", i));
  }
  for (size_t i = 0; i < s.g.size(); ++i) {
    s.g[i] = weights.Take(Numbered("g", i));
    s.h[i] = weights.Take(Numbered("h", i));
  }
  return s;
}

void WriteSpec(const DynamicPositionBiasSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_dynamic_position_bias();
  m->set_log_distance(s.log_distance);
  m->set_layer_norm(s.layer_norm);
  for (size_t i = 0; i < s.w.size(); ++i) {
    WriteWeight(Numbered("w", i), s.w[i], message);
    WriteWeight(Numbered("b", i), s.b[i], message);
  }
  for (size_t i = 0; i < s.g.size(); ++i) {
    WriteWeight(Numbered("g", i), s.g[i], message);
    WriteWeight(Numbered("h", i), s.h[i], message);
  }
}

EncodingSpec SpecFrom(const v1::ForgettingBiasSpec& m, SpecWeights& weights) {
  return ForgettingBiasSpec{.logits = m.logits(), .gates = weights.Take("gates")};
}

void WriteSpec(const ForgettingBiasSpec& s, v1::EncodingSpec* message) {
  message->mutable_forgetting_bias()->set_logits(s.logits);
  WriteWeight("gates", s.gates, message);
}

EncodingSpec SpecFrom(const v1::DistilledSpec& m, SpecWeights& weights) {
  DistilledSpec s{.num_positions = m.num_positions(),
                  .first_position = If(m.has_first_position(), m.first_position()),
                  .cosine_terms = m.cosine_terms(),
                  .w = {},
                  .b = {}};
  for (size_t i = 0; i < s.w.size(); ++i) {
    s.w[i] = weights.Take(Numbered("w", i));
    s.b[i] = weights.Take(Numbered("b", i));
  }
  return s;
}

void WriteSpec(const DistilledSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_distilled();
  m->set_num_positions(s.num_positions);
  if (s.first_position) m->set_first_position(*s.first_position);
  m->set_cosine_terms(s.cosine_terms);
  for (size_t i = 0; i < s.w.size(); ++i) {
    WriteWeight(Numbered("w", i), s.w[i], message);
    WriteWeight(Numbered("b", i), s.b[i], message);
  }
}

EncodingSpec SpecFrom(const v1::TupeSpec& m, SpecWeights& weights) {
  return TupeSpec{.num_buckets = If(m.has_num_buckets(), m.num_buckets()),
                  .max_distance = If(m.has_max_distance(), m.max_distance()),
                  .q = weights.Take("q"),
                  .k = weights.Take("k"),
                  .bias = weights.Take("bias"),
                  .untied = weights.Take("untied")};
}

void WriteSpec(const TupeSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_tupe();
  if (s.num_buckets) m->set_num_buckets(*s.num_buckets);
  if (s.max_distance) m->set_max_distance(*s.max_distance);
  WriteWeight("q", s.q, message);
  WriteWeight("k", s.k, message);
  WriteWeight("bias", s.bias, message);
  WriteWeight("untied", s.untied, message);
}

}  // namespace phasor::server
