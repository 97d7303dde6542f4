// Learned tables resized along one or two axes.
#ifndef PHASOR_KERNELS_PROGRAM_RESIZE_H_
#define PHASOR_KERNELS_PROGRAM_RESIZE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/program.h"

namespace phasor {

// Torch's rules, by the sizes and nothing else (a scale factor that was rounded makes some targets come out one short).
// With r = source/target: point i of the target reads the source at (i + ½)·r − ½, or at i·(source − 1)/(target − 1) where
// corners are aligned; all of these are quotients of whole numbers and are used as such.
enum class Interpolation : uint8_t {
  kLinear = 1,   // positions before the first point read the first one
  kCubic = 2,    // cubic convolution, a = −0.75 (antialias: −0.5); points outside are the nearest one inside
  kNearest = 3,  // floor(i·r)
};

struct ResizeRule {
  Interpolation interpolation = Interpolation::kCubic;
  // Shrinking widens the kernel by r (kLinear and kCubic): every source point counts. Weights are divided by their sum, and
  // points outside do not count.
  bool antialias = false;
  bool align_corners = false;  // not with antialias
};

// One point of the target: Σ weights[j]·x[first + j], in this order.
struct ResizeTaps {
  int64_t first = 0;
  std::vector<double> weights;  // at least one; those that are 0 are left out at the ends
};
// Of every point. Fractions are rounded once; the polynomials of the kernels are evaluated in double. source, target ≥ 1, up
// to 2^20.
std::vector<ResizeTaps> TapsOf(const ResizeRule& rule, int64_t source, int64_t target);

// A table [rows, columns]: extra rows, a grid of 1 or 2 axes with the last one fastest, extra rows. Widened to f64, resized
// along the last axis, then along the first, each sum in the order of its taps, product and sum rounded apart; one rounding
// to the type at the end. Extra rows are copied, NaN made canonical. An axis that keeps its size keeps its numbers.
struct ResizeJob {
  ResizeRule rule;
  std::vector<int64_t> source;  // 1 or 2 extents, each ≥ 1
  std::vector<int64_t> target;  // as many
  int64_t extra_first = 0;
  int64_t extra_last = 0;
  DType dtype = DType::kF32;  // IsFloat
  int64_t columns = 0;        // ≥ 1
  const void* in = nullptr;   // [source rows, columns]
  int64_t in_row_stride = 0;  // elements, ≥ columns
  void* out = nullptr;        // [target rows, columns], dense

  int64_t source_points() const;
  int64_t target_points() const;
};

// [points of the source's first axis, points of the target's last axis, columns] doubles.
int64_t ResizeScratchBytes(const ResizeJob& job);

// The steps; `in`, `out` and `scratch` (aligned to 64 bytes) must live until they have ended.
std::vector<ProgramStep> ResizeSteps(const ResizeJob& job, std::byte* scratch);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_RESIZE_H_
