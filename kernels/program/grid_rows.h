// Rows of sinusoids over a grid, as steps: a table per axis, then each row put together from its coordinates' rows.
#ifndef PHASOR_KERNELS_PROGRAM_GRID_ROWS_H_
#define PHASOR_KERNELS_PROGRAM_GRID_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/program.h"

namespace phasor {

// Of a canonical spec.
int64_t GridScratchBytes(const GridSinusoidalSpec& spec, int64_t rows, DType dtype);

// Fills out, [rows, plan.columns], with the table's rows at `positions`: whole, within the table. `scratch`:
// GridScratchBytes, 64-byte aligned. The plan, the positions and the memory must live until the steps have run.
std::vector<ProgramStep> GridSteps(const GridPlan& plan, const PositionSource& positions, int64_t rows, DType dtype,
                                   void* out, std::byte* scratch);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_GRID_ROWS_H_
