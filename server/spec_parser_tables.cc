// Absolute encodings, both ways.
#include "server/spec_arms.h"

namespace phasor::server {

absl::StatusOr<EncodingSpec> SpecFrom(const v1::SinusoidalSpec& m) {
  SinusoidalSpec s{.dim = m.dim(),
                   .base = If(m.has_base(), m.base()),
                   .layout = std::nullopt,
                   .spacing = std::nullopt,
                   .position_offset = If(m.has_position_offset(), m.position_offset()),
                   .padding_row = If(m.has_padding_row(), m.padding_row()),
                   .scale = If(m.has_scale(), m.scale())};
  auto status = ReadEnum("sinusoidal.layout", m.layout(), v1::SinusoidalLayout_descriptor(), &s.layout);
  if (status.ok()) status = ReadEnum("sinusoidal.spacing", m.spacing(), v1::SinusoidalSpacing_descriptor(), &s.spacing);
  if (!status.ok()) return status;
  return s;
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::TimestepSpec& m) {
  return TimestepSpec{.dim = m.dim(),
                      .max_period = If(m.has_max_period(), m.max_period()),
                      .downscale_freq_shift = If(m.has_downscale_freq_shift(), m.downscale_freq_shift()),
                      .flip_sin_to_cos = m.flip_sin_to_cos(),
                      .scale = If(m.has_scale(), m.scale())};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::GaussianFourierSpec& m, SpecWeights& weights) {
  return GaussianFourierSpec{.log = If(m.has_log(), m.log()),
                             .flip_sin_to_cos = m.flip_sin_to_cos(),
                             .radians = m.radians(),
                             .weight = weights.Take("weight")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::LearnedSpec& m, SpecWeights& weights) {
  return LearnedSpec{.num_positions = m.num_positions(),
                     .dim = m.dim(),
                     .position_offset = If(m.has_position_offset(), m.position_offset()),
                     .padding_row = If(m.has_padding_row(), m.padding_row()),
                     .scale = If(m.has_scale(), m.scale()),
                     .l2_normalize = m.l2_normalize(),
                     .table = weights.Take("table")};
}

absl::StatusOr<EncodingSpec> SpecFrom(const v1::GridSinusoidalSpec& m) {
  GridSinusoidalSpec s{.dim = m.dim(),
                       .grid = {m.grid().begin(), m.grid().end()},
                       .base = If(m.has_base(), m.base()),
                       .order = std::nullopt,
                       .base_size = {m.base_size().begin(), m.base_size().end()},
                       .interpolation_scale = {m.interpolation_scale().begin(), m.interpolation_scale().end()},
                       .extra_rows = m.extra_rows(),
                       .columns = {m.columns().begin(), m.columns().end()},
                       .layout = std::nullopt,
                       .start = If(m.has_start(), m.start()),
                       .extent_epsilon = If(m.has_extent_epsilon(), m.extent_epsilon()),
                       .scale = If(m.has_scale(), m.scale()),
                       .axis_bases = {m.axis_bases().begin(), m.axis_bases().end()}};
  auto status = ReadEnum("grid_sinusoidal.order", m.order(), v1::GridOrder_descriptor(), &s.order);
  if (status.ok()) status = ReadEnum("grid_sinusoidal.layout", m.layout(), v1::GridLayout_descriptor(), &s.layout);
  if (!status.ok()) return status;
  return s;
}

void WriteSpec(const SinusoidalSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_sinusoidal();
  m->set_dim(s.dim);
  if (s.base) m->set_base(*s.base);
  if (s.layout) m->set_layout(static_cast<v1::SinusoidalLayout>(*s.layout));
  if (s.spacing) m->set_spacing(static_cast<v1::SinusoidalSpacing>(*s.spacing));
  if (s.position_offset) m->set_position_offset(*s.position_offset);
  if (s.padding_row) m->set_padding_row(*s.padding_row);
  if (s.scale) m->set_scale(*s.scale);
}

void WriteSpec(const TimestepSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_timestep();
  m->set_dim(s.dim);
  if (s.max_period) m->set_max_period(*s.max_period);
  if (s.downscale_freq_shift) m->set_downscale_freq_shift(*s.downscale_freq_shift);
  m->set_flip_sin_to_cos(s.flip_sin_to_cos);
  if (s.scale) m->set_scale(*s.scale);
}

void WriteSpec(const GaussianFourierSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_gaussian_fourier();
  if (s.log) m->set_log(*s.log);
  m->set_flip_sin_to_cos(s.flip_sin_to_cos);
  m->set_radians(s.radians);
  WriteWeight("weight", s.weight, message);
}

void WriteSpec(const LearnedSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_learned();
  m->set_num_positions(s.num_positions);
  m->set_dim(s.dim);
  if (s.position_offset) m->set_position_offset(*s.position_offset);
  if (s.padding_row) m->set_padding_row(*s.padding_row);
  if (s.scale) m->set_scale(*s.scale);
  m->set_l2_normalize(s.l2_normalize);
  WriteWeight("table", s.table, message);
}

void WriteSpec(const GridSinusoidalSpec& s, v1::EncodingSpec* message) {
  auto* m = message->mutable_grid_sinusoidal();
  m->set_dim(s.dim);
  m->mutable_grid()->Add(s.grid.begin(), s.grid.end());
  if (s.base) m->set_base(*s.base);
  if (s.order) m->set_order(static_cast<v1::GridOrder>(*s.order));
  m->mutable_base_size()->Add(s.base_size.begin(), s.base_size.end());
  m->mutable_interpolation_scale()->Add(s.interpolation_scale.begin(), s.interpolation_scale.end());
  m->set_extra_rows(s.extra_rows);
  m->mutable_columns()->Add(s.columns.begin(), s.columns.end());
  if (s.layout) m->set_layout(static_cast<v1::GridLayout>(*s.layout));
  if (s.start) m->set_start(*s.start);
  if (s.extent_epsilon) m->set_extent_epsilon(*s.extent_epsilon);
  if (s.scale) m->set_scale(*s.scale);
  m->mutable_axis_bases()->Add(s.axis_bases.begin(), s.axis_bases.end());
}

}  // namespace phasor::server
