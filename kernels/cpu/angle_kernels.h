// The vector kernels behind angle tables, by plain signatures: kernels/cpu/angle_table.cc prepares jobs and calls these.
#ifndef PHASOR_KERNELS_CPU_ANGLE_KERNELS_H_
#define PHASOR_KERNELS_CPU_ANGLE_KERNELS_H_

#include <cstdint>
#include <span>

#include "kernels/backend.h"
#include "kernels/cpu/angle_setup.h"

namespace phasor {

// Rows of an angle table, checked. Row r is position first + r·stride, ids[r] or fractional_ids[r]; one axis.
struct AngleJob {
  const AngleSetup* setup = nullptr;  // exact
  const AnglePlan* plan = nullptr;    // compat
  Real128 factor;                     // exact: A or 1/A
  bool inverse = false;               // compat
  DType dtype = DType::kF32;
  int64_t first = 0;
  int64_t stride = 1;
  std::span<const int64_t> ids;
  std::span<const double> fractional_ids;
  int64_t rows = 0;
  void* cos = nullptr;  // of row 0; null: not wanted
  void* sin = nullptr;
  int64_t pairs = 0;
  int64_t row_stride = 0;  // elements
  bool stream = false;     // streaming stores wanted
  const CancelFlag* cancel = nullptr;

  // Of whole positions.
  int64_t Position(int64_t row) const { return ids.empty() ? first + row * stride : ids[static_cast<size_t>(row)]; }
  float PositionF32(int64_t row) const {
    // Adding zero makes a −0 positive.
    if (!fractional_ids.empty()) return static_cast<float>(fractional_ids[static_cast<size_t>(row)]) + 0.0f;
    return static_cast<float>(Position(row));
  }
  bool Cancelled() const { return cancel != nullptr && cancel->load(std::memory_order_relaxed); }
};

// Each writes the job's rows and returns true, or returns false when it saw the cancel flag. Exact ones give the correctly
// rounded entry, whichever is called. Thread-safe; stack ≤ 32 KiB, no allocation.

// Consecutive whole positions (stride 1, no ids), f32, f16 or bf16: recurrence from anchors at absolute multiples of 64.
bool AngleRange(const AngleJob& job);
// Any whole positions, f32, f16 or bf16: polynomial of the integer phase.
bool AngleDirect(const AngleJob& job);
// Precision kCompatF32, any positions, any dtype.
bool AngleCompat(const AngleJob& job);
// Exact, any whole positions, f64 (scalar, integers only).
bool AngleF64(const AngleJob& job);
// Exact, fractional positions, f32, f16 or bf16: polynomial of the product in three doubles.
bool AngleFractional(const AngleJob& job);
// Exact, fractional positions, f64 (scalar, integers only).
bool AngleFractionalF64(const AngleJob& job);

// The target that these run on: "AVX3".
const char* AngleTargetName();

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ANGLE_KERNELS_H_
