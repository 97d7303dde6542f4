#include "server/table_work.h"

#include <cstring>
#include <utility>

#include "kernels/program/absolute_rows.h"
#include "kernels/program/angle_rows.h"

namespace phasor::server {
namespace {

constexpr int64_t kRowsPerIndexSlice = 65536;

RowPositions RowsOf(const PositionSet& positions) {
  RowPositions rows;
  rows.axis_count = positions.axes();
  rows.rows = positions.count;
  for (int64_t axis = 0; axis < rows.axis_count; ++axis) rows.axes[static_cast<size_t>(axis)] = positions.Source(axis);
  return rows;
}

void AddFrequencies(const AnglePlan& plan, std::vector<double>& all) {
  all.insert(all.end(), plan.inv_freq.begin(), plan.inv_freq.end());
}

// Copies the frequencies of a plan into the array for them, when there is one.
void AddFrequencyStep(const Work& work, const Plan& plan, const WorkMemory& memory, std::vector<ProgramStep>& steps) {
  if (work.outputs.back().slot != Slot::kInvFreq || work.outputs.back().bytes == 0) return;
  std::vector<double> frequencies;
  if (const auto* angles = std::get_if<AnglePlan>(&plan)) AddFrequencies(*angles, frequencies);
  if (const auto* grid = std::get_if<GridPlan>(&plan)) {
    for (const GridPart& part : grid->parts) AddFrequencies(part.angles, frequencies);
  }
  const auto copy = [frequencies = std::move(frequencies), to = memory.outputs.back()](RowRange, const CancelFlag*) {
    std::memcpy(to, frequencies.data(), frequencies.size() * sizeof(double));
    return absl::OkStatus();
  };
  steps.push_back(ProgramStep::Of(copy, 1, 1));
}

// Some rows of `whole`, but for their scratch and what its class adds. Its lists of positions, which may be long, are not
// copied.
template <typename W>
std::shared_ptr<W> RowsOf(const W& whole, int64_t first, int64_t count) {
  auto work = std::make_shared<W>();
  work->sources = whole.sources;
  work->outputs = whole.outputs;
  work->dtype = whole.dtype;
  work->positions = whole.positions.Rows(first, count);
  work->CutOutputs(whole.positions.count, count);
  return work;
}

}  // namespace

std::shared_ptr<const Work> AngleTableWork::Rows(int64_t first, int64_t count) const {
  auto work = RowsOf(*this, first, count);
  work->form = form;
  work->columns = columns;
  work->inverse = inverse;
  const int64_t pairs = form == TableForm::kHalf ? columns : columns / 2;
  work->scratch_bytes = AngleScratchBytes(pairs, form, columns, count, dtype);
  return work;
}

std::shared_ptr<const Work> AbsoluteTableWork::Rows(int64_t first, int64_t count) const {
  auto work = RowsOf(*this, first, count);
  work->scratch_bytes = AbsoluteScratchBytes(spec(), AbsoluteOf(work->positions), dtype);
  return work;
}

std::shared_ptr<const Work> IndexTableWork::Rows(int64_t first, int64_t count) const { return RowsOf(*this, first, count); }

absl::StatusOr<std::vector<ProgramStep>> AngleTableWork::Steps(std::span<const Resolved* const> plans,
                                                               const WorkMemory& memory) const {
  AngleRows table;
  table.plan = &std::get<AnglePlan>(plans[0]->plan);
  table.positions = RowsOf(positions);
  table.form = form;
  table.columns = columns;
  table.dtype = dtype;
  table.inverse = inverse;
  table.out = memory.outputs[0];
  if (outputs[0].slot == Slot::kCos) table.out_sin = memory.outputs[1];
  table.scratch = memory.scratch;
  std::vector<ProgramStep> steps = AngleSteps(table);
  AddFrequencyStep(*this, plans[0]->plan, memory, steps);
  return steps;
}

absl::StatusOr<std::vector<ProgramStep>> AbsoluteTableWork::Steps(std::span<const Resolved* const> plans,
                                                                  const WorkMemory& memory) const {
  AbsoluteRows table;
  table.spec = &spec();
  table.plan = &plans[0]->plan;
  table.positions = AbsoluteOf(positions);
  table.dtype = dtype;
  table.out = memory.outputs[0];
  table.scratch = memory.scratch;
  auto steps = AbsoluteSteps(table);
  if (steps.ok()) AddFrequencyStep(*this, plans[0]->plan, memory, *steps);
  return steps;
}

absl::StatusOr<std::vector<ProgramStep>> IndexTableWork::Steps(std::span<const Resolved* const>,
                                                               const WorkMemory& memory) const {
  const auto number = [this, to = memory.outputs[0]](RowRange rows, const CancelFlag*) {
    const AbsolutePositions at = AbsoluteOf(positions);
    for (int64_t r = rows.begin; r < rows.end; ++r) {
      const int64_t row = LearnedRow(std::get<LearnedSpec>(spec()), at, r);
      if (dtype == DType::kI64) {
        std::memcpy(to + r * 8, &row, 8);
      } else {
        const auto narrow = static_cast<int32_t>(row);
        std::memcpy(to + r * 4, &narrow, 4);
      }
    }
    return absl::OkStatus();
  };
  return std::vector<ProgramStep>{ProgramStep::Of(number, positions.count, kRowsPerIndexSlice)};
}

}  // namespace phasor::server
