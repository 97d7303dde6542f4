// Tables of cos and sin, and rotations by them.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/program/angle_rows.h"
#include "kernels/program/polar.h"
#include "kernels/program/rotation.h"
#include "tests/conformance/fuzz/run.h"

namespace phasor {
namespace {

// Entries that the reference is asked for at about 20 µs each.
constexpr int64_t kEntries = 700;

int64_t Rows(Rng& rng, int64_t pairs) {
  return rng.OneIn(10) ? rng.Int(0, 1) : rng.LogInt(1, std::max<int64_t>(1, kEntries / std::max<int64_t>(1, pairs)));
}

RowPositions Positions(const AnglePlan& plan, int64_t rows, Rng& rng, FuzzRun& run, bool fractions = true) {
  RowPositions positions;
  positions.axis_count = plan.axes;
  positions.rows = rows;
  for (int64_t a = 0; a < plan.axes; ++a) {
    positions.axes[static_cast<size_t>(a)] = RandomPositions(rng, rows, fractions, run);
  }
  return positions;
}

// A table of rows, all of it on the backend and some rows of it on the reference.
void AddTable(const AnglePlan& plan, Rng& rng, FuzzRun& run) {
  const int64_t pairs = plan.pairs(), rows = rng.OneIn(8) ? rng.Int(0, 1) : rng.LogInt(1, 60000 / pairs + 2);
  const DType dtype = rng.FloatType();
  const int64_t stride = pairs + (rng.OneIn(2) ? 0 : rng.Int(0, 9));
  void* cos = run.Data(rng, rows * stride, SizeOf(dtype));
  void* sin = run.Data(rng, rows * stride, SizeOf(dtype));
  AngleTask task = AnglesAt(plan, Positions(plan, rows, rng, run), dtype, cos, sin, stride);
  task.inverse = rng.OneIn(3);
  task.hint = rng.Pick({StoreHint::kAuto, StoreHint::kReadNext, StoreHint::kKeep});
  const int64_t without = rng.Int(0, 9);
  if (without == 0) task.cos = nullptr;
  if (without == 1) task.sin = nullptr;
  run.steps.push_back(ProgramStep::Of(task, rows));
  for (int64_t left = Rows(rng, pairs); left > 0 && rows > 0;) {
    const int64_t begin = rng.Int(0, rows - 1), end = std::min(rows, begin + std::min<int64_t>(left, rng.Int(1, 4)));
    run.sampled.push_back({begin, end});
    left -= end - begin;
  }
  run.what = absl::StrCat("table of ", rows, " rows, ", std::string(Name(dtype)));
}

void AddForm(const AnglePlan& plan, Rng& rng, FuzzRun& run) {
  AngleRows table;
  table.plan = &plan;
  table.positions = Positions(plan, Rows(rng, plan.pairs()), rng, run);
  table.form = static_cast<TableForm>(rng.Int(1, 6));
  const int64_t natural = table.form == TableForm::kHalf ? plan.pairs() : 2 * plan.pairs();
  table.columns = std::max<int64_t>(1, natural + (table.form == TableForm::kHalf ? 0 : rng.Int(-1, 1)));
  table.dtype = rng.FloatType();
  table.inverse = rng.OneIn(3);
  const int64_t rows = table.positions.rows, size = SizeOf(table.dtype);
  table.out = run.Data(rng, rows * table.columns, size);
  table.out_sin = run.Data(rng, rows * table.columns, size);
  table.scratch = run.Scratch(AngleScratchBytes(plan.pairs(), table.form, table.columns, rows, table.dtype));
  run.steps = AngleSteps(table);
  run.what = absl::StrCat("form ", static_cast<int>(table.form), " of ", rows, " rows, ", std::string(Name(table.dtype)));
}

// A tensor [tokens, heads, head_dim] in a random layout, with room between the vectors.
struct Tensor {
  int64_t tokens, heads, head_dim, token_stride, head_stride, elements;
};
Tensor RandomTensor(Rng& rng, int64_t tokens, int64_t heads, int64_t head_dim) {
  const int64_t vector = head_dim + (rng.OneIn(2) ? 0 : rng.Int(0, 5));
  if (rng.OneIn(2)) return {tokens, heads, head_dim, heads * vector, vector, tokens * heads * vector};
  return {tokens, heads, head_dim, vector, tokens * vector, tokens * heads * vector};
}

// Rotates a tensor by tables [rows, pairs] of its compute type.
void AddRotation(Rng& rng, FuzzRun& run, int64_t rows, int64_t pairs, int64_t head_dim, int64_t first_channel,
                 Pairing pairing, DType dtype, const void* cos, const void* sin) {
  RotateTask task;
  task.dtype = dtype;
  task.pairing = pairing;
  task.inverse = rng.OneIn(3);
  task.tokens = rows;
  task.heads = rng.Pick<int64_t>({1, 1, 2, 3, 5, 8, 12, 33});
  task.pairs = pairs;
  if (rng.OneIn(3) && rows > 0) {
    std::vector<int32_t>& from = run.Hold(std::vector<int32_t>());
    task.tokens = rng.LogInt(1, rng.OneIn(6) ? 300 : 40);
    for (int64_t t = 0; t < task.tokens; ++t) from.push_back(static_cast<int32_t>(rng.Int(0, rows - 1)));
    task.table_rows = from;
  }
  const Tensor x = RandomTensor(rng, task.tokens, task.heads, head_dim);
  const int64_t size = SizeOf(dtype);
  auto* data = static_cast<std::byte*>(run.Floats(rng, x.elements, dtype, rng.OneIn(4) ? 1e4 : 4, rng.OneIn(2)));
  task.head_dim = head_dim - first_channel;
  task.x = task.y = data + first_channel * size;
  task.x_token_stride = task.y_token_stride = x.token_stride;
  task.x_head_stride = task.y_head_stride = x.head_stride;
  if (rng.OneIn(2)) {
    const Tensor y = RandomTensor(rng, task.tokens, task.heads, head_dim);
    task.y = static_cast<std::byte*>(run.Data(rng, y.elements, size)) + first_channel * size;
    task.y_token_stride = y.token_stride;
    task.y_head_stride = y.head_stride;
  }
  task.cos = cos;
  task.sin = sin;
  task.table_stride = pairs;
  task.hint = rng.Pick({StoreHint::kAuto, StoreHint::kReadNext, StoreHint::kKeep});
  run.steps.push_back(ProgramStep::Of(task, task.tokens));
  absl::StrAppend(&run.what, "rotation of ", task.tokens, " × ", task.heads, " × ", head_dim, ", ",
                  std::string(Name(dtype)));
}

PositionScale RandomScale(Rng& rng) {
  PositionScale scale;
  scale.rule = static_cast<PositionScale::Rule>(rng.Int(1, 3));
  scale.constant = rng.Real(-3, 3);
  scale.training_length = rng.LogInt(2, 100000);
  scale.coefficient = rng.Real(0, 1);
  scale.period = rng.LogInt(1, 20000);
  scale.shift = rng.Int(0, 1);
  return scale;
}

// The rotation that a request for a spec makes: a table with everything that goes with the spec, and the tensor.
void AddRope(const FuzzSubject& subject, const RopeSpec& rope, Rng& rng, FuzzRun& run) {
  const AnglePlan& plan = std::get<AnglePlan>(subject.plan());
  const DType dtype = rng.FloatType(), entries = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t pairs = plan.pairs(), rows = Rows(rng, pairs), size = SizeOf(entries);
  RotationPositions positions;
  const bool fractions = !rope.xpos && plan.precision == Precision::kExact;
  const RowPositions at = Positions(plan, rows, rng, run, fractions);
  positions.axes = at.axes;
  auto table = std::make_shared<RotationTable>();
  table->plan = plan;
  table->inverse = rng.OneIn(3);
  if (rng.OneIn(2)) table->scale = RandomScale(rng);
  if (rng.OneIn(4)) {
    for (int64_t i = 0; i < pairs; ++i) table->backwards.push_back(rng.OneIn(2) ? 1 : 0);
  }
  if (rope.xpos && plan.axes == 1 && plan.precision == Precision::kExact) {
    auto decay = std::make_shared<Decay>(pairs, *rope.xpos->scale_base, *rope.xpos->center);
    const double reach = 50 / Decay::BitsPerPosition(*rope.xpos->scale_base);
    std::vector<int64_t>& ids = run.Hold(std::vector<int64_t>());
    for (int64_t r = 0; r < rows; ++r) ids.push_back(decay->center() + static_cast<int64_t>(rng.Real(-reach, reach)));
    positions.axes[0] = {};
    positions.axes[0].ids = ids;
    run.steps.push_back(ProgramStep::Of(
        [decay](RowRange some, const CancelFlag*) {
          decay->Prepare(some);
          return absl::OkStatus();
        },
        pairs, 8));
    table->decay = decay;
    table->decay_sign = rng.OneIn(2) ? 1 : -1;
  }
  void* cos = run.Data(rng, rows * pairs, size);
  void* sin = run.Data(rng, rows * pairs, size);
  for (ProgramStep& step : TableSteps(table, positions, rows, entries, cos, sin)) run.steps.push_back(std::move(step));
  AddRotation(rng, run, rows, pairs, rope.head_dim, rope.first_channel, *rope.pairing, dtype, cos, sin);
}

// From the spec's schedule to one of another base, or back.
void AddBetween(const RopeSpec& rope, const AnglePlan& plan, Rng& rng, FuzzRun& run) {
  RopeSpec other = rope;
  other.schedule = DefaultSchedule{};
  other.base = rng.LogReal(1.5, 1e7);
  if (other.axes && *other.axes->layout == AxisLayout::kReset) other.axes->layout = AxisLayout::kChunked;
  const auto canonical = Canonicalize(other);
  const auto resolved = canonical.ok() ? Resolve(*canonical, {}, Precision::kExact) : canonical.status();
  if (!resolved.ok()) return AddTable(plan, rng, run);
  AnglePlan more = std::get<AnglePlan>(resolved->plan);
  more.axis_of_pair = plan.axis_of_pair;
  auto table =
      std::make_shared<const RotationTable>(rng.OneIn(2) ? BetweenSchedules(plan, more) : BetweenSchedules(more, plan));
  const DType dtype = rng.FloatType(), entries = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t pairs = plan.pairs(), rows = Rows(rng, pairs);
  RotationPositions positions;
  positions.axes = Positions(plan, rows, rng, run).axes;
  void* cos = run.Data(rng, rows * pairs, SizeOf(entries));
  void* sin = run.Data(rng, rows * pairs, SizeOf(entries));
  run.what = "between two schedules: ";
  run.steps = TableSteps(table, positions, rows, entries, cos, sin);
  AddRotation(rng, run, rows, pairs, rope.head_dim, rope.first_channel, *rope.pairing, dtype, cos, sin);
}

void AddPope(const FuzzSubject& subject, const PopeSpec& pope, Rng& rng, FuzzRun& run) {
  const AnglePlan& plan = std::get<AnglePlan>(subject.plan());
  const DType dtype = rng.FloatType(), entries = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t heads = pope.delta && pope.delta->shape.size() == 2 ? pope.delta->shape[0] : 1;
  const int64_t rows = Rows(rng, plan.pairs() * heads), row = heads * plan.pairs();
  const PositionSource positions = RandomPositions(rng, rows, rng.OneIn(3), run);
  void* cos = run.Data(rng, rows * row, SizeOf(entries));
  void* sin = run.Data(rng, rows * row, SizeOf(entries));
  if (pope.delta) {
    const PreparedPhases& prepared = run.Hold(PreparePhases(pope.delta));
    PolarAngleTask table;
    table.plan = &plan;
    table.phases = prepared.phases.get();
    table.heads = heads;
    table.positions = positions;
    table.dtype = entries;
    table.cos = cos, table.sin = sin;
    run.steps.push_back(prepared.step);
    run.steps.push_back(ProgramStep::Of(table, rows));
  } else {
    AngleTask table;
    table.plan = &plan;
    table.positions = positions;
    table.dtype = entries;
    table.cos = cos, table.sin = sin;
    table.row_stride = row;
    run.steps.push_back(ProgramStep::Of(table, rows));
  }
  PolarTask apply;
  apply.dtype = dtype;
  apply.tokens = rows;
  apply.heads = heads > 1 ? heads : rng.Int(1, 5);
  apply.head_dim = pope.head_dim;
  const Tensor x = RandomTensor(rng, rows, apply.heads, pope.head_dim);
  const Tensor y = RandomTensor(rng, rows, apply.heads, 2 * pope.head_dim);
  apply.x = run.Floats(rng, x.elements, dtype, 30, rng.OneIn(2));
  apply.y = run.Data(rng, y.elements, SizeOf(dtype));
  apply.x_token_stride = x.token_stride, apply.x_head_stride = x.head_stride;
  apply.y_token_stride = y.token_stride, apply.y_head_stride = y.head_stride;
  apply.cos = cos, apply.sin = sin;
  apply.table_stride = row;
  apply.table_head_stride = heads > 1 ? plan.pairs() : 0;
  run.steps.push_back(ProgramStep::Of(apply, rows));
  run.what = absl::StrCat("polar, ", rows, " × ", apply.heads, ", ", std::string(Name(dtype)));
}

void AddFope(const FopeSpec& fope, const MixedAnglePlan& plan, Rng& rng, FuzzRun& run) {
  const DType dtype = rng.FloatType(), entries = dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  const int64_t rows = Rows(rng, static_cast<int64_t>(plan.frequencies.size()) + plan.heads * plan.pairs / 8);
  MixedAngleTask table;
  table.plan = &plan;
  table.positions = RandomPositions(rng, rows, rng.OneIn(3), run);
  table.dtype = entries;
  if (rng.OneIn(2)) {
    auto& factors = run.Hold(std::vector<double>(static_cast<size_t>(rows)));
    table.factors = factors.data();
    run.steps.push_back(FactorStep(RandomScale(rng), table.positions, rows, factors.data()));
  }
  const int64_t row = plan.heads * plan.pairs;
  auto* cos = static_cast<std::byte*>(run.Data(rng, rows * row, SizeOf(entries)));
  auto* sin = static_cast<std::byte*>(run.Data(rng, rows * row, SizeOf(entries)));
  table.cos = cos, table.sin = sin;
  run.steps.push_back(ProgramStep::Of(table, rows));
  RotateTask task;
  task.dtype = dtype;
  task.tokens = rows;
  task.heads = rng.Int(1, 3);
  task.head_dim = fope.head_dim;
  task.pairs = plan.pairs;
  const int64_t head = rng.Int(0, plan.heads - 1) * plan.pairs * SizeOf(entries);
  task.cos = cos + head, task.sin = sin + head;
  task.table_stride = row;
  const Tensor x = RandomTensor(rng, rows, task.heads, fope.head_dim);
  task.x = task.y = run.Floats(rng, x.elements, dtype, 4, rng.OneIn(2));
  task.x_token_stride = task.y_token_stride = x.token_stride;
  task.x_head_stride = task.y_head_stride = x.head_stride;
  run.steps.push_back(ProgramStep::Of(task, rows));
  run.what = absl::StrCat("mixtures, ", rows, " × ", task.heads, ", ", std::string(Name(dtype)));
}

}  // namespace

bool AddAngleRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run) {
  if (const auto* fope = std::get_if<FopeSpec>(&subject.spec)) {
    AddFope(*fope, std::get<MixedAnglePlan>(subject.plan()), rng, run);
    return true;
  }
  const auto* plan = std::get_if<AnglePlan>(&subject.plan());
  if (plan == nullptr) return false;
  const auto* pope = std::get_if<PopeSpec>(&subject.spec);
  const auto* rope = std::get_if<RopeSpec>(&subject.spec);
  const int64_t kind = rng.Int(0, 4);
  if (pope != nullptr && kind > 1) {
    AddPope(subject, *pope, rng, run);
  } else if (rope != nullptr && kind > 2) {
    AddRope(subject, *rope, rng, run);
  } else if (rope != nullptr && kind == 2 && plan->precision == Precision::kExact) {
    AddBetween(*rope, *plan, rng, run);
  } else if (kind == 1) {
    AddForm(*plan, rng, run);
  } else {
    AddTable(*plan, rng, run);
  }
  return true;
}

}  // namespace phasor
