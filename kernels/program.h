// Work of several tasks: what a spec and a window come to when one task is not enough (a bias that is laid out, masked and
// scaled, say). A program is a list of steps over memory that somebody else owns.
#ifndef PHASOR_KERNELS_PROGRAM_H_
#define PHASOR_KERNELS_PROGRAM_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <variant>

#include "absl/status/status.h"

#include "kernels/backend.h"

namespace phasor {

// Rows [0, rows) of a task, or of a plain function where there is nothing for a backend to do (copies, small host maths). A
// step begins when the one before has ended; its rows may run in any cut, on several threads at once, and the bits do not
// depend on it.
struct ProgramStep {
  using Function = std::function<absl::Status(RowRange rows, const CancelFlag* cancel)>;

  // The same, for work that runs tasks of its own on pieces that fit in a cache.
  using BackendFunction = std::function<absl::Status(const Backend& backend, RowRange rows, const CancelFlag* cancel)>;

  std::variant<Task, Function, BackendFunction> work;
  int64_t rows = 0;                  // 0: nothing to do
  int64_t rows_per_slice = 1;        // about a millisecond or less
  int64_t first_row = 0;             // of the task: its rows first_row … first_row + rows − 1 are run
  std::shared_ptr<const void> held;  // what the work points at, where nobody else keeps it

  static ProgramStep Of(Task task, int64_t rows) {
    const int64_t per_slice = RowsPerSlice(task);
    return {std::move(task), rows, per_slice, 0, nullptr};
  }
  static ProgramStep Of(Task task, RowRange rows) {
    const int64_t per_slice = RowsPerSlice(task);
    return {std::move(task), rows.end - rows.begin, per_slice, rows.begin, nullptr};
  }
  static ProgramStep Of(Function function, int64_t rows, int64_t rows_per_slice) {
    return {std::move(function), rows, rows_per_slice, 0, nullptr};
  }
  static ProgramStep Of(BackendFunction function, int64_t rows, int64_t rows_per_slice) {
    return {std::move(function), rows, rows_per_slice, 0, nullptr};
  }
};

// Rows to give RunStep at once: the step's own number, or what fills a device's pipeline.
int64_t RowsPerSlice(const Backend& backend, const ProgramStep& step);

// Runs the rows of one step. Errors: the task's.
absl::Status RunStep(const Backend& backend, const ProgramStep& step, RowRange rows, const CancelFlag* cancel);

// Runs every step whole on the calling thread: for programs without a scheduler, and for tests.
absl::Status RunProgram(const Backend& backend, std::span<const ProgramStep> steps, const CancelFlag* cancel = nullptr);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_H_
