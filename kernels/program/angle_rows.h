// Tables of cos and sin in any form at any positions, as steps.
#ifndef PHASOR_KERNELS_PROGRAM_ANGLE_ROWS_H_
#define PHASOR_KERNELS_PROGRAM_ANGLE_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "kernels/program.h"

namespace phasor {

// Positions of `rows` rows: one source per axis. What their spans point at must live until the steps have run.
struct RowPositions {
  std::array<PositionSource, kMaxAxes> axes{};
  int64_t axis_count = 1;
  int64_t rows = 0;
};

// Whether rows of the plan can stand there: a plan of several axes takes positions of as many, or of one, which is then the
// coordinate along every axis (a token of text). A plan of one axis takes one.
bool PositionsFit(const AnglePlan& plan, const RowPositions& positions);

// The task that fills rows of cos and sin, each [rows, pairs] of `dtype` with row_stride elements between rows: the halves
// that rotations take. Positions fit.
AngleTask AnglesAt(const AnglePlan& plan, const RowPositions& positions, DType dtype, void* cos, void* sin,
                   int64_t row_stride);

// A table in a form. Arrays are dense, 64-byte aligned for speed.
struct AngleRows {
  const AnglePlan* plan = nullptr;
  RowPositions positions;  // fit
  TableForm form = TableForm::kHalf;
  int64_t columns = 0;  // of the output array or arrays; see AssembleTask
  DType dtype = DType::kF32;
  bool inverse = false;
  void* out = nullptr;           // [rows, columns]
  void* out_sin = nullptr;       // of the forms with two arrays
  std::byte* scratch = nullptr;  // AngleScratchBytes, 64-byte aligned
};

// 0 for forms that are written in place.
int64_t AngleScratchBytes(int64_t pairs, TableForm form, int64_t columns, int64_t rows, DType dtype);

// Empty where there is nothing to do.
std::vector<ProgramStep> AngleSteps(const AngleRows& table);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_ANGLE_ROWS_H_
