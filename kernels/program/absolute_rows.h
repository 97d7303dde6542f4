// Rows of absolute encodings, of any scheme that has them, as steps.
#ifndef PHASOR_KERNELS_PROGRAM_ABSOLUTE_ROWS_H_
#define PHASOR_KERNELS_PROGRAM_ABSOLUTE_ROWS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "kernels/program.h"

namespace phasor {

// Whether the spec's rows are added to the input: sinusoidal, timestep, gaussian_fourier, learned, grid_sinusoidal,
// distilled.
bool IsAbsolute(const EncodingSpec& spec);

// Width of a row of a canonical absolute spec.
int64_t AbsoluteColumns(const EncodingSpec& canonical);

// Coordinates of a canonical absolute spec's positions: 1, but of matrices of gaussian_fourier and of grid_sinusoidal
// without a grid.
int64_t AbsoluteAxes(const EncodingSpec& canonical);

// Positions of `rows` rows along one axis, or along as many as the spec has.
struct AbsolutePositions {
  PositionSource source;                                 // axis 0
  std::array<PositionSource, kMaxAxes - 1> more_axes{};  // axes 1, 2 …
  int64_t axis_count = 1;
  std::span<const uint8_t> hidden = {};  // of a mask: 1 where a token is hidden; empty: none is
  int64_t rows = 0;
};

// OK when there are as many axes as the spec has, and every row exists: whole positions where rows of a table or of a grid
// are meant, within it; > 0 where a logarithm is taken; within ±(2^31 − 1) after the spec's offset. Costs a look at every id
// at most. Errors: INVALID_ARGUMENT with a SpecError without field that names the position.
absl::Status CheckAbsolute(const EncodingSpec& canonical, const AbsolutePositions& positions);

// The number of the table's row that a learned spec reads for row `row`. Checked positions.
int64_t LearnedRow(const LearnedSpec& canonical, const AbsolutePositions& positions, int64_t row);

// A table of an absolute encoding.
struct AbsoluteRows {
  const EncodingSpec* spec = nullptr;  // canonical
  const Plan* plan = nullptr;          // of the spec
  AbsolutePositions positions;         // checked; what their spans point at must live until the steps have run
  DType dtype = DType::kF32;
  void* out = nullptr;           // [rows, AbsoluteColumns], dense
  std::byte* scratch = nullptr;  // AbsoluteScratchBytes, 64-byte aligned
};

int64_t AbsoluteScratchBytes(const EncodingSpec& canonical, const AbsolutePositions& positions, DType dtype);

// Errors: INVALID_ARGUMENT for a learned spec without its table.
absl::StatusOr<std::vector<ProgramStep>> AbsoluteSteps(const AbsoluteRows& table);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_ABSOLUTE_ROWS_H_
