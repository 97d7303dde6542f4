// Rows of absolute encodings, made where they are needed instead of as a table.
#ifndef PHASOR_KERNELS_PROGRAM_ROW_MAKER_H_
#define PHASOR_KERNELS_PROGRAM_ROW_MAKER_H_

#include <cstdint>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "kernels/program/absolute_rows.h"

namespace phasor {

// Immutable; any rows may be made on any thread, and the bits do not depend on which are made together.
class RowMaker {
 public:
  // `spec` is canonical and absolute (IsAbsolute), `plan` its plan, `positions` are checked (CheckAbsolute): all three, and
  // what the positions point at, must outlive this.
  RowMaker(const EncodingSpec& spec, const Plan& plan, const AbsolutePositions& positions)
      : spec_(spec), plan_(plan), positions_(positions) {}

  int64_t dim() const { return AbsoluteColumns(spec_); }

  // out[(r − rows.begin)·dim + channel] for rows [rows.begin, rows.end) in `dtype` (kF32, kF64). Errors: the backend's,
  // RESOURCE_EXHAUSTED.
  absl::Status Make(const Backend& backend, RowRange rows, DType dtype, void* out, const CancelFlag* cancel) const;

 private:
  const EncodingSpec& spec_;
  const Plan& plan_;
  const AbsolutePositions positions_;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_ROW_MAKER_H_
