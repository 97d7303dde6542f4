#include "kernels/program.h"

namespace phasor {

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
