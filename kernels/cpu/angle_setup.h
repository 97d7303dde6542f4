// What the vector code needs of an AnglePlan in exact precision, computed once per plan and kept between calls.
#ifndef PHASOR_KERNELS_CPU_ANGLE_SETUP_H_
#define PHASOR_KERNELS_CPU_ANGLE_SETUP_H_

#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <vector>

#include "hwy/aligned_allocator.h"

#include "kernels/core/double_double.h"
#include "kernels/core/dtype.h"
#include "kernels/core/sincos.h"
#include "kernels/core/turns.h"
#include "kernels/encodings/plan.h"

namespace phasor {

// Pairs are padded to a multiple of this: two of the widest vectors of doubles.
inline constexpr int64_t kAnglePadding = 16;

// u = 2^-53 below; z stands for factor·e^(i·angle), factor for A or 1/A. Padding and pairs whose frequency is a whole number
// of turns ("still" pairs) have cos = factor rounded to the output type, sin = 0, steps of 1 and error bounds of 0, so that
// they pass the rounding test with no special case.
struct AngleSetup {
  // Identity: equal identity, equal setup.
  std::vector<Turns> frequencies;
  DoubleDouble attention_factor;
  DType dtype = DType::kF32;
  bool inverse = false;

  Real128 factor;  // A, or 1/A
  int64_t pairs = 0;
  int64_t padded = 0;

  // [padded] each, 64-byte aligned, slices of `storage`.
  const double* step_cos = nullptr;  // e^(i·inv_freq), each component correctly rounded
  const double* step_sin = nullptr;
  const double* jump_cos = nullptr;  // e^(i·64·inv_freq), likewise
  const double* jump_sin = nullptr;
  const double* pass_cos = nullptr;  // e^(i·16·inv_freq), likewise
  const double* pass_sin = nullptr;
  const double* scale_cos = nullptr;  // factor as a double; sin's is 0 for still pairs
  const double* scale_sin = nullptr;
  const double* range_error = nullptr;  // bound on the error of a value made by recurrence: 2^-44·factor
  // Bound on the error of such a sine per radian of the block's largest |angle|: 2^-43·factor, when that angle is ≤ 1/8.
  const double* small_error = nullptr;
  const double* angle = nullptr;            // radians per position from the fraction of a turn, rounded up
  const double* direct_relative = nullptr;  // bound on the error of a value made by polynomial: relative·|z| + absolute
  const double* direct_absolute = nullptr;
  const uint64_t* turn_high = nullptr;  // the first 64 and the next 64 bits of the fraction of a turn
  const uint64_t* turn_low = nullptr;
  hwy::AlignedFreeUniquePtr<double[]> storage;
};

// About 0.25 µs per pair. dtype: f32, f16 or bf16.
std::shared_ptr<const AngleSetup> MakeAngleSetup(const AnglePlan& plan, DType dtype, bool inverse);

// The setups used last, at most kMaxEntries and kMaxPairs in all (but always the newest one). Keyed by everything that
// decides a setup, compared in full. Thread-safe; the lock is not held while a setup is made, so two threads may make the
// same one at once (equal results, one is kept).
class AngleSetupCache {
 public:
  static constexpr size_t kMaxEntries = 64;
  static constexpr int64_t kMaxPairs = int64_t{1} << 19;  // about 80 MiB

  std::shared_ptr<const AngleSetup> Get(const AnglePlan& plan, DType dtype, bool inverse);

 private:
  std::shared_ptr<const AngleSetup> Find(const AnglePlan& plan, DType dtype, bool inverse);

  std::mutex mutex_;
  std::list<std::shared_ptr<const AngleSetup>> entries_;  // most recently used first
  int64_t pairs_ = 0;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_CPU_ANGLE_SETUP_H_
