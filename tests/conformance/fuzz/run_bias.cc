// Biases: by distance, over windows, by learned functions of positions; and their masks.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/program/masking.h"
#include "kernels/program/window_bias.h"
#include "tests/conformance/fuzz/random_masking.h"
#include "tests/conformance/fuzz/run.h"

namespace phasor {
namespace {

constexpr int64_t kFar = (int64_t{1} << 32) - 1;

// Sq and Sk: 0 and 1 now and then, equal or not.
struct Sides {
  int64_t queries, keys;
};
Sides RandomSides(Rng& rng, int64_t most) {
  Sides s{rng.Extent(most), rng.Extent(most)};
  if (rng.OneIn(3)) s.keys = s.queries;
  if (rng.OneIn(12)) s.queries = rng.Int(0, 1);
  if (rng.OneIn(12)) s.keys = rng.Int(0, 1);
  if (rng.OneIn(12)) s.queries = std::min<int64_t>(s.queries, 5), s.keys = rng.Int(500, 2200);
  return s;
}

std::vector<int64_t>& Positions(Rng& rng, int64_t count, int64_t rows, FuzzRun& run) {
  std::vector<int64_t>& positions = run.Hold(std::vector<int64_t>());
  const int64_t largest = rows > 0 ? rows - 1 : rng.Pick<int64_t>({40, 5000, (int64_t{1} << 31) - 1});
  const bool consecutive = rng.OneIn(2) && (rows == 0 || count <= rows);
  const int64_t start = consecutive && rows > 0 ? rng.Int(0, rows - count) : rng.Int(-5, 300);
  for (int64_t i = 0; i < count; ++i) {
    positions.push_back(consecutive ? start + i : rng.LogInt(0, largest) * (rows == 0 && rng.OneIn(4) ? -1 : 1));
  }
  return positions;
}

void AddVector(const DistancePlan& plan, Rng& rng, FuzzRun& run) {
  const int64_t all = VectorsOf(plan), heads = rng.Int(1, all);
  const int64_t count = rng.OneIn(8) ? rng.Int(0, 1) : rng.LogInt(1, std::max<int64_t>(2, 600 / heads));
  BiasVectorTask task;
  task.plan = plan;
  task.dtype = rng.FloatType();
  task.first_head = rng.Int(0, all - heads);
  task.heads = heads;
  task.head_stride = count + (rng.OneIn(2) ? 0 : rng.Int(0, 5));
  task.first_distance = rng.OneIn(2) ? -rng.Int(0, count) : (rng.OneIn(2) ? 1 : -1) * rng.LogInt(0, kFar - count);
  if (rng.OneIn(3)) {
    std::vector<int64_t>& distances = run.Hold(std::vector<int64_t>());
    for (int64_t i = 0; i < count; ++i) distances.push_back((rng.OneIn(2) ? 1 : -1) * rng.LogInt(0, kFar));
    task.distances = distances;
  }
  task.out = run.Data(rng, heads * task.head_stride, SizeOf(task.dtype));
  run.steps.push_back(ProgramStep::Of(task, count));
  run.what = absl::StrCat("vector of ", heads, " × ", count, ", ", std::string(Name(task.dtype)));
}

// A vector, then the matrix of it: Toeplitz, or by any positions and masked.
void AddMatrix(const DistancePlan& plan, Rng& rng, FuzzRun& run) {
  const DType dtype = rng.FloatType();
  const Sides sides = RandomSides(rng, 90);
  const int64_t heads = std::min<int64_t>(VectorsOf(plan), rng.Int(1, 3)), size = SizeOf(dtype);
  const int64_t first_distance = -rng.Int(0, 120), count = std::max<int64_t>(1, sides.queries + sides.keys - 1);
  BiasVectorTask vector;
  vector.plan = plan;
  vector.dtype = dtype;
  vector.heads = heads;
  vector.first_distance = first_distance;
  vector.head_stride = count + rng.Int(0, 3);
  vector.out = run.Data(rng, heads * vector.head_stride, size);
  run.steps.push_back(ProgramStep::Of(vector, count));
  run.what = absl::StrCat("matrix of ", heads, " × ", sides.queries, " × ", sides.keys, ", ", std::string(Name(dtype)));
  if (rng.OneIn(2)) {
    ToeplitzTask task{.element_size = size, .heads = heads, .queries = sides.queries, .keys = sides.keys};
    task.vector = vector.out;
    task.vector_stride = vector.head_stride;
    task.out = run.Data(rng, heads * sides.queries * sides.keys, size);
    task.hint = rng.Pick({StoreHint::kAuto, StoreHint::kKeep});
    run.steps.push_back(ProgramStep::Of(task, heads * sides.queries));
    return;
  }
  BiasMatrixTask task;
  task.dtype = dtype;
  task.batch = rng.Int(1, 3);
  task.heads = heads;
  task.queries = sides.queries;
  task.keys = sides.keys;
  task.vector = vector.out;
  task.vector_head_stride = vector.head_stride;
  task.first_distance = first_distance;
  const auto positions = [&](int64_t tokens, int64_t low, int64_t high, int64_t* stride) {
    std::vector<int32_t>& ids = run.Hold(std::vector<int32_t>());
    *stride = rng.OneIn(2) ? 0 : tokens;
    for (int64_t i = 0; i < tokens * task.batch; ++i) ids.push_back(static_cast<int32_t>(rng.Int(low, high)));
    return ids.data();
  };
  // Keys minus queries must stay within the vector.
  const int64_t base = rng.Int(-1000, 1000), width = count / 2;
  task.query_positions = positions(sides.queries, base, base + width, &task.query_batch_stride);
  task.key_positions =
      positions(sides.keys, base + width + first_distance, base + first_distance + count - 1, &task.key_batch_stride);
  if (!rng.OneIn(3)) {
    task.mask = &AddMasking(rng, {task.batch, heads, sides.queries, sides.keys}, run);
  }
  task.out = run.Data(rng, task.batch * heads * sides.queries * sides.keys, size);
  run.steps.push_back(ProgramStep::Of(task, task.batch * heads * sides.queries));
}

void AddIndices(const TokenWindow& window, Rng& rng, FuzzRun& run) {
  const DType dtype = rng.Pick({DType::kI32, DType::kI64});
  void* out = run.Data(rng, window.tokens() * window.tokens(), SizeOf(dtype));
  AppendWindowIndexSteps(window, dtype, {0, window.tokens()}, out, run.Scratch((window.table_rows() + 8) * SizeOf(dtype)),
                         &run.steps);
  run.what = absl::StrCat("indices of ", window.tokens(), " tokens");
}

void AddDistances(const FuzzSubject& subject, int64_t all, Rng& rng, FuzzRun& run) {
  const DType dtype = rng.FloatType();
  const int64_t heads = rng.Int(1, all), count = rng.OneIn(6) ? rng.Int(0, 1) : rng.LogInt(1, 300);
  void* out = run.Data(rng, heads * count, SizeOf(dtype));
  std::byte* scratch = run.Scratch(BiasScratchBytes(subject.spec, dtype, heads, 1, count));
  AppendBiasVectorSteps(subject.plan(), dtype, rng.Int(0, all - heads), heads, rng.Int(-400, 100), count, out, scratch,
                        &run.steps);
  run.what = absl::StrCat("distances of ", heads, " × ", count, ", ", std::string(Name(dtype)));
}

void AddPart(const FuzzSubject& subject, const BiasTraits& traits, Rng& rng, FuzzRun& run) {
  BiasPart part;
  part.dtype = rng.FloatType();
  part.heads = rng.Int(1, traits.heads);
  part.first_head = rng.Int(0, traits.heads - part.heads);
  part.batch_row = traits.batch > 0 ? rng.Int(0, traits.batch - 1) : 0;
  Sides sides = RandomSides(rng, 70);
  if (traits.tokens > 0) {
    sides = {traits.tokens, traits.tokens};
  } else {
    part.query_positions = Positions(rng, sides.queries, traits.query_rows, run);
    part.key_positions = Positions(rng, sides.keys, traits.key_rows, run);
  }
  const int64_t elements = part.heads * sides.queries * sides.keys;
  part.out = run.Data(rng, elements, SizeOf(part.dtype));
  run.what =
      absl::StrCat("bias of ", part.heads, " × ", sides.queries, " × ", sides.keys, ", ", std::string(Name(part.dtype)));
  if (elements == 0) return;  // callers ask for no empty bias
  std::byte* scratch = run.Scratch(BiasScratchBytes(subject.spec, part.dtype, part.heads, sides.queries, sides.keys));
  AppendBiasSteps(subject.plan(), part, scratch, &run.steps);
  if (!rng.OneIn(3)) return;
  const MaskRule& rule = AddMasking(rng, {1, part.heads, sides.queries, sides.keys}, run);
  run.steps.push_back(MaskStep(rule, part.dtype, 1, part.heads, sides.queries, sides.keys, part.out));
}

}  // namespace

bool AddBiasRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run) {
  if (const auto plan = DistancePlanOf(subject.plan())) {
    if (rng.OneIn(2)) {
      AddVector(*plan, rng, run);
    } else {
      AddMatrix(*plan, rng, run);
    }
    return true;
  }
  const auto traits = TraitsOf(subject.spec);
  if (!traits) return false;
  const auto* window = std::get_if<WindowBiasSpec>(&subject.spec);
  if (window != nullptr && rng.OneIn(4)) {
    AddIndices({window->window_height, window->window_width, window->class_token}, rng, run);
  } else if (traits->by_distance && rng.OneIn(3)) {
    AddDistances(subject, traits->heads, rng, run);
  } else {
    AddPart(subject, *traits, rng, run);
  }
  return true;
}

}  // namespace phasor
