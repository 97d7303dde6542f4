#include "server/knowledge/learned_numbers.h"

#include <numeric>
#include <utility>
#include <vector>

#include "kernels/program.h"
#include "kernels/program/polar.h"
#include "kernels/program/window_bias.h"
#include "server/knowledge/aligned.h"

namespace phasor::server {
namespace {

// Columns [0, width) of `from` into columns `at` … of `to`, which has as many rows.
void Place(const Grid& from, int64_t source, int64_t width, int64_t at, Grid* to) {
  for (int64_t row = 0; row < from.rows; ++row) {
    for (int64_t i = 0; i < width; ++i) to->at(row, at + i) = from.at(row, source + i);
  }
}

Grid Empty(int64_t rows, int64_t columns) {
  return {rows, columns, std::vector<double>(static_cast<size_t>(rows * columns))};
}

// [count, heads·head_dim], with δ.
absl::StatusOr<Angles> MakeKeyAngles(const Backend& backend, const PopeSpec& spec, const AnglePlan& plan, int64_t first,
                                     int64_t count, DType dtype) {
  const int64_t columns = spec.delta->elements();
  const AlignedMemory cos = AllocateAligned(count * columns * SizeOf(dtype));
  const AlignedMemory sin = AllocateAligned(count * columns * SizeOf(dtype));
  PreparedPhases prepared = PreparePhases(spec.delta);
  PolarAngleTask task;
  task.plan = &plan;
  task.phases = prepared.phases.get();
  task.heads = columns / spec.head_dim;
  task.positions.start = first;
  task.dtype = dtype;
  task.cos = cos.get();
  task.sin = sin.get();
  const std::vector<ProgramStep> steps{std::move(prepared.step), ProgramStep::Of(task, count)};
  if (absl::Status status = RunProgram(backend, steps); !status.ok()) return status;
  return Angles{{count, columns, Widen(dtype, cos.get(), count * columns)},
                {count, columns, Widen(dtype, sin.get(), count * columns)}};
}

}  // namespace

absl::StatusOr<Angles> MakePolarAngles(const Backend& backend, const PopeSpec& canonical, const AnglePlan& plan,
                                       int64_t first, int64_t count, DType dtype) {
  const int64_t d = canonical.head_dim, heads = canonical.delta ? canonical.delta->elements() / d : 1;
  const auto queries = MakeAngles(backend, plan, first, count, dtype);
  if (!queries.ok()) return queries.status();
  auto keys = canonical.delta ? MakeKeyAngles(backend, canonical, plan, first, count, dtype) : queries;
  if (!keys.ok()) return keys.status();
  Angles all{Empty(count, 2 * heads * d), Empty(count, 2 * heads * d)};
  for (int64_t head = 0; head < heads; ++head) {
    Place(queries->cos, 0, d, 2 * head * d, &all.cos);
    Place(queries->sin, 0, d, 2 * head * d, &all.sin);
    Place(keys->cos, head * d, d, (2 * head + 1) * d, &all.cos);
    Place(keys->sin, head * d, d, (2 * head + 1) * d, &all.sin);
  }
  return all;
}

absl::StatusOr<Angles> MakeMixedAngles(const Backend& backend, const MixedAnglePlan& plan, int64_t first, int64_t count,
                                       DType dtype) {
  const int64_t columns = plan.heads * plan.pairs;
  const AlignedMemory cos = AllocateAligned(count * columns * SizeOf(dtype));
  const AlignedMemory sin = AllocateAligned(count * columns * SizeOf(dtype));
  MixedAngleTask task;
  task.plan = &plan;
  task.positions.start = first;
  task.dtype = dtype;
  task.cos = cos.get();
  task.sin = sin.get();
  if (absl::Status status = backend.Run(task, {0, count}, nullptr); !status.ok()) return status;
  return Angles{{count, columns, Widen(dtype, cos.get(), count * columns)},
                {count, columns, Widen(dtype, sin.get(), count * columns)}};
}

absl::StatusOr<Grid> MakeQueryRow(const Backend& backend, const EncodingSpec& canonical, const Plan& plan, int64_t query,
                                  int64_t first, int64_t count, DType dtype) {
  std::vector<int64_t> keys(static_cast<size_t>(count));
  std::iota(keys.begin(), keys.end(), query - first - count + 1);
  const std::vector<int64_t> queries{query};
  BiasPart part;
  part.dtype = dtype;
  part.heads = TraitsOf(canonical)->heads;
  part.query_positions = queries;
  part.key_positions = keys;
  const AlignedMemory out = AllocateAligned(part.heads * count * SizeOf(dtype));
  const AlignedMemory scratch = AllocateAligned(BiasScratchBytes(canonical, dtype, part.heads, 1, count));
  part.out = out.get();
  std::vector<ProgramStep> steps;
  AppendBiasSteps(plan, part, scratch.get(), &steps);
  if (absl::Status status = RunProgram(backend, steps); !status.ok()) return status;
  return Grid{part.heads, count, Widen(dtype, out.get(), part.heads * count)};
}

absl::StatusOr<Grid> MakeLearnedDistances(const Backend& backend, const EncodingSpec& canonical, const Plan& plan,
                                          int64_t first, int64_t count, DType dtype) {
  const int64_t heads = TraitsOf(canonical)->heads;
  const AlignedMemory out = AllocateAligned(heads * count * SizeOf(dtype));
  const AlignedMemory scratch = AllocateAligned(BiasScratchBytes(canonical, dtype, heads, 1, count));
  std::vector<ProgramStep> steps;
  AppendBiasVectorSteps(plan, dtype, 0, heads, first, count, out.get(), scratch.get(), &steps);
  if (absl::Status status = RunProgram(backend, steps); !status.ok()) return status;
  return Grid{heads, count, Widen(dtype, out.get(), heads * count)};
}

TokenPair PairOfRow(const TokenWindow& window, int64_t row) {
  const int64_t first = window.class_token ? 1 : 0;  // the first token of the image
  if (row >= window.offsets()) {
    const int64_t kind = row - window.offsets();  // class → token, token → class, class → class
    return {kind == 1 ? first : 0, kind == 0 ? first : 0};
  }
  const int64_t columns = 2 * window.width - 1;
  const int64_t dy = row / columns - (window.height - 1), dx = row % columns - (window.width - 1);
  // The query stands at the upper (left) end where the offset is negative.
  const int64_t query_y = dy > 0 ? dy : 0, query_x = dx > 0 ? dx : 0;
  return {first + query_y * window.width + query_x, first + (query_y - dy) * window.width + query_x - dx};
}

absl::StatusOr<Grid> MakeWindowRows(const Backend& backend, const EncodingSpec& canonical, const Plan& plan, int64_t first,
                                    int64_t count, DType dtype) {
  const int64_t heads = TraitsOf(canonical)->heads;
  const AlignedMemory out = AllocateAligned(heads * count * SizeOf(dtype));
  std::vector<double> features(static_cast<size_t>(2 * count));
  std::vector<ProgramStep> steps;
  AppendWindowTableSteps(plan, dtype, 0, heads, {first, first + count}, out.get(), features.data(), &steps);
  if (absl::Status status = RunProgram(backend, steps); !status.ok()) return status;
  const std::vector<double> by_head = Widen(dtype, out.get(), heads * count);
  Grid rows = Empty(count, heads);
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t row = 0; row < count; ++row) rows.at(row, head) = by_head[static_cast<size_t>(head * count + row)];
  }
  return rows;
}

}  // namespace phasor::server
