// Rows of sinusoids over a grid, as steps: a table per axis, then each row put together from its coordinates' rows.
#ifndef PHASOR_KERNELS_PROGRAM_GRID_ROWS_H_
#define PHASOR_KERNELS_PROGRAM_GRID_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/program.h"
#include "kernels/program/angle_rows.h"

namespace phasor {

// Of a canonical spec.
int64_t GridScratchBytes(const GridSinusoidalSpec& spec, int64_t rows, DType dtype);

// Fills out, [rows, plan.columns], with the table's rows at `positions`: of one axis, whole, within the table; of a plan
// without a grid the coordinates of as many axes as it has. `scratch`: GridScratchBytes, 64-byte aligned. The plan, what the
// positions point at and the memory must live until the steps have run.
std::vector<ProgramStep> GridSteps(const GridPlan& plan, const RowPositions& positions, DType dtype, void* out,
                                   std::byte* scratch);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_GRID_ROWS_H_
