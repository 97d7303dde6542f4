// Rows of absolute encodings, and their additions to tensors.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/program/absolute_rows.h"
#include "kernels/program/add.h"
#include "tests/conformance/fuzz/run.h"

namespace phasor {
namespace {

constexpr int64_t kEntries = 700;

// Whole rows of a table with so many of them.
PositionSource RowsOfTable(Rng& rng, int64_t first, int64_t table_rows, int64_t rows, FuzzRun& run) {
  PositionSource source;
  if (rows <= table_rows && rng.OneIn(2)) {
    source.start = first + rng.Int(0, table_rows - rows);
    return source;
  }
  std::vector<int64_t>& ids = run.Hold(std::vector<int64_t>());
  for (int64_t r = 0; r < rows; ++r) ids.push_back(first + rng.Int(0, table_rows - 1));
  source.ids = ids;
  return source;
}

// Positions of rows that the spec has, checked; false where the seed gave others.
bool Positions(const EncodingSpec& spec, int64_t rows, Rng& rng, FuzzRun& run, AbsolutePositions* positions) {
  positions->rows = rows;
  if (const auto* learned = std::get_if<LearnedSpec>(&spec)) {
    positions->source = RowsOfTable(rng, -*learned->position_offset, learned->num_positions, rows, run);
    if (rng.OneIn(2)) {
      std::vector<uint8_t>& hidden = run.Hold(std::vector<uint8_t>());
      for (int64_t r = 0; r < rows; ++r) hidden.push_back(rng.OneIn(4) ? 1 : 0);
      positions->hidden = hidden;
    }
  } else if (const int64_t axes = AbsoluteAxes(spec); axes > 1) {
    positions->axis_count = axes;
    positions->source = RandomPositions(rng, rows, true, run);
    for (PositionSource& source : positions->more_axes) source = RandomPositions(rng, rows, true, run);
  } else if (const auto* grid = std::get_if<GridSinusoidalSpec>(&spec)) {
    int64_t points = grid->extra_rows;
    int64_t product = 1;
    for (const int64_t extent : grid->grid) product *= extent;
    positions->source = RowsOfTable(rng, 0, points + product, rows, run);
  } else {
    positions->source = RandomPositions(rng, rows, true, run);
    if (std::holds_alternative<GaussianFourierSpec>(spec) && rng.OneIn(2)) {
      std::vector<double>& ids = run.Hold(std::vector<double>());
      for (int64_t r = 0; r < rows; ++r) ids.push_back(rng.OneIn(3) ? 1.0 : rng.LogReal(1e-9, 1e9));
      positions->source = {};
      positions->source.fractional_ids = ids;
    }
  }
  return CheckAbsolute(spec, *positions).ok();
}

int64_t RowCount(Rng& rng, int64_t columns) {
  return rng.OneIn(10) ? rng.Int(0, 1) : rng.LogInt(1, std::max<int64_t>(1, 2 * kEntries / columns));
}

bool AddPlainRows(const FuzzSubject& subject, Rng& rng, FuzzRun& run) {
  AbsoluteRows table;
  table.spec = &subject.spec;
  table.plan = &subject.plan();
  const int64_t columns = AbsoluteColumns(subject.spec), rows = RowCount(rng, columns);
  if (!Positions(subject.spec, rows, rng, run, &table.positions)) return false;
  table.dtype = rng.FloatType();
  table.out = run.Data(rng, rows * columns, SizeOf(table.dtype));
  table.scratch = run.Scratch(AbsoluteScratchBytes(subject.spec, table.positions, table.dtype));
  auto steps = AbsoluteSteps(table);
  if (!steps.ok()) return false;
  run.steps = *std::move(steps);
  run.what = absl::StrCat("rows, ", rows, ", ", std::string(Name(table.dtype)));
  return true;
}

// Rows of numbers for some tokens.
AddEnds Ends(Rng& rng, const AddTask& task, FuzzRun& run) {
  const int64_t rows = rng.Int(1, 4);
  AddEnds ends;
  ends.data = run.Floats(rng, rows * task.dim, task.dtype == DType::kF64 ? DType::kF64 : DType::kF32, 2, false);
  ends.index_batch_stride = rng.OneIn(2) ? 0 : task.tokens;
  std::vector<int32_t>& index = run.Hold(std::vector<int32_t>());
  for (int64_t i = 0; i < task.tokens * task.batch; ++i) index.push_back(static_cast<int32_t>(rng.Int(-2, rows - 1)));
  ends.index = index.data();
  return ends;
}

void SetOptions(Rng& rng, AddTask& task, FuzzRun& run) {
  if (rng.OneIn(3)) task.first = Ends(rng, task, run);
  if (rng.OneIn(3)) task.last = Ends(rng, task, run);
  if (rng.OneIn(3)) {
    std::vector<uint8_t>& hidden = run.Hold(std::vector<uint8_t>());
    for (int64_t i = 0; i < task.tokens * task.batch; ++i) hidden.push_back(rng.OneIn(4) ? 1 : 0);
    task.hidden = hidden.data();
    task.hidden_batch_stride = rng.OneIn(2) ? 0 : task.tokens;
  }
  if (rng.OneIn(3)) {
    const double p = rng.Real(0, 0.99);
    task.dropout = {true, rng.Word(), rng.Word(), DropoutThreshold(p), DropoutFactor(p, task.dtype)};
  }
  task.first_element = rng.LogInt(0, int64_t{1} << 40);
  task.element_token_stride = task.dim;
  task.element_batch_stride = task.dim * task.tokens;
}

bool AddAddition(const FuzzSubject& subject, Rng& rng, FuzzRun& run) {
  AddTask task;
  task.dim = AbsoluteColumns(subject.spec);
  task.tokens = RowCount(rng, task.dim);
  task.batch = rng.Int(1, 3);
  task.dtype = rng.FloatType();
  AddSources sources;
  sources.per_batch = rng.OneIn(2);
  const int64_t rows = task.tokens * (sources.per_batch ? task.batch : 1);
  AbsolutePositions positions;
  if (!Positions(subject.spec, rows, rng, run, &positions)) return false;
  sources.pe = std::make_shared<const RowMaker>(subject.spec, subject.plan(), positions);
  if (rng.OneIn(3)) {
    sources.other = sources.pe;
    task.gate_channel_stride = rng.Int(0, 1);
    task.gate.token_stride = rng.OneIn(2) ? 0 : task.dim;
    task.gate.batch_stride = rng.OneIn(2) ? 0 : task.dim * task.tokens;
    const DType compute = task.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
    task.gate.data = run.Floats(rng, task.dim * task.tokens * task.batch, compute, 1, false);
  }
  const int64_t vector = task.dim + (rng.OneIn(2) ? 0 : rng.Int(0, 7));
  task.x_token_stride = rng.OneIn(2) ? vector : vector * task.batch;
  task.x_batch_stride = task.x_token_stride == vector ? vector * task.tokens : vector;
  const int64_t elements = vector * task.tokens * task.batch;
  void* x = run.Floats(rng, elements, task.dtype, 4, rng.OneIn(2));
  task.x = task.y = x;
  task.y_token_stride = task.x_token_stride, task.y_batch_stride = task.x_batch_stride;
  if (rng.OneIn(2)) task.y = run.Data(rng, elements, SizeOf(task.dtype));
  const std::optional<double> scale = rng.OneIn(2) ? std::optional<double>(rng.Real(-4, 40)) : std::nullopt;
  const std::optional<DType> rounded = rng.OneIn(3) ? std::optional<DType>(rng.FloatType()) : std::nullopt;
  task.scale = AddScale(scale, task.dim, rounded, task.dtype);
  SetOptions(rng, task, run);
  run.steps.push_back(AddStep(task, sources));
  run.what =
      absl::StrCat("addition to ", task.batch, " × ", task.tokens, " × ", task.dim, ", ", std::string(Name(task.dtype)));
  return true;
}

}  // namespace

bool AddAbsoluteRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run) {
  if (!IsAbsolute(subject.spec)) return false;
  return rng.OneIn(2) ? AddPlainRows(subject, rng, run) : AddAddition(subject, rng, run);
}

}  // namespace phasor
