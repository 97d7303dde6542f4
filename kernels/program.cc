#include "kernels/program.h"

#include <algorithm>

namespace phasor {

int64_t RowsPerSlice(const Backend& backend, const ProgramStep& step) {
  if (const Task* task = std::get_if<Task>(&step.work)) {
    const int64_t here = backend.RowsPerSlice(*task);
    if (here > RowsPerSlice(*task)) return here;
  }
  return std::max(step.rows_per_slice, int64_t{1});
}

absl::Status RunStep(const Backend& backend, const ProgramStep& step, RowRange rows, const CancelFlag* cancel) {
  if (rows.begin >= rows.end) return absl::OkStatus();
  if (const Task* task = std::get_if<Task>(&step.work)) {
    return backend.Run(*task, {step.first_row + rows.begin, step.first_row + rows.end}, cancel);
  }
  if (const auto* function = std::get_if<ProgramStep::Function>(&step.work)) return (*function)(rows, cancel);
  return std::get<ProgramStep::BackendFunction>(step.work)(backend, rows, cancel);
}

absl::Status RunProgram(const Backend& backend, std::span<const ProgramStep> steps, const CancelFlag* cancel) {
  for (const ProgramStep& step : steps) {
    if (absl::Status status = RunStep(backend, step, {0, step.rows}, cancel); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace phasor
