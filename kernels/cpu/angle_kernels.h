// The vector kernels behind angle tables, by plain signatures: kernels/cpu/angle_table.cc prepares jobs and calls these.
#ifndef PHASOR_KERNELS_CPU_ANGLE_KERNELS_H_
#define PHASOR_KERNELS_CPU_ANGLE_KERNELS_H_

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cpu/angle_setup.h"

namespace phasor {

// Rows of an angle table, checked. Row r is position first + r·stride, or ids[r].
struct AngleJob {
  const AngleSetup* setup = nullptr;  // exact
  const AnglePlan* plan = nullptr;    // compat
  Real128 factor;                     // exact: A or 1/A
  bool inverse = false;               // compat
  DType dtype = DType::kF32;
  int64_t first = 0;
  int64_t stride = 1;
  std::span<const int64_t> ids;
  int64_t rows = 0;
  void* cos = nullptr;  // of row 0; null: not wanted
  void* sin = nullptr;
  int64_t pairs = 0;
  int64_t row_stride = 0;  // elements
  bool stream = false;     // streaming stores wanted
  const CancelFlag* cancel = nullptr;

  int64_t Position(int64_t row) const { return ids.empty() ? first + row * stride : ids[static_cast<size_t>(row)]; }
  bool Cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
};

// Each writes the job's rows and returns true, or returns false when it saw the cancel flag. Exact ones give the correctly
// rounded entry, whichever is called. Thread-safe; stack ≤ 32 KiB, no allocation.

// Consecutive positions (stride 1, no ids), f32, f16 or bf16: recurrence from anchors at absolute multiples of 64.
bool AngleRange(const AngleJob& job);
// Any positions, f32, f16 or bf16: polynomial of the integer phase.
bool AngleDirect(const AngleJob& job);
// Precision kCompatF32, any positions, any dtype.
bool AngleCompat(const AngleJob& job);
// Exact, any positions, f64 (scalar, integers only).
bool AngleF64(const AngleJob& job);

// The target that these run on: "AVX3".
const char* AngleTargetName();

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ANGLE_KERNELS_H_
