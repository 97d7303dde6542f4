// The parts of window_bias.h that are functions of positions. Private to it.
#ifndef PHASOR_KERNELS_PROGRAM_POSITION_BIAS_H_
#define PHASOR_KERNELS_PROGRAM_POSITION_BIAS_H_

#include <cstdint>
#include <vector>

#include "kernels/encodings/plan.h"
#include "kernels/program.h"
#include "kernels/program/scratch.h"
#include "kernels/program/window_bias.h"

namespace phasor {

void AppendFire(const FirePlan& plan, const BiasPart& part, std::vector<ProgramStep>* steps);
// Toeplitz where both sides' positions are consecutive, else pair by pair.
void AppendDynamicPositionBias(const DynamicPositionBiasPlan& plan, const BiasPart& part, std::byte* scratch,
                               std::vector<ProgramStep>* steps);
// features: [count].
void AppendDistanceVector(const DynamicPositionBiasPlan& plan, DType dtype, int64_t first_head, int64_t heads,
                          int64_t first_distance, int64_t count, void* out, double* features,
                          std::vector<ProgramStep>* steps);
void AppendForgettingBias(const ForgettingBiasPlan& plan, const BiasPart& part, std::byte* scratch,
                          std::vector<ProgramStep>* steps);
void AppendTupe(const TupePlan& plan, const BiasPart& part, std::byte* scratch, std::vector<ProgramStep>* steps);

// Where the arrays of the schemes above lie.
struct DistanceScratch {
  double* features;   // [distances]
  std::byte* vector;  // [heads, distances]
};
DistanceScratch DynamicPositionBiasScratch(ScratchCutter& cutter, DType dtype, int64_t heads, int64_t distances);

// Running sums in two parts: those within a block of 64 gates, and those of the blocks before it.
struct GateScratch {
  double *within_hi, *within_lo;  // [heads, gates]
  double *before_hi, *before_lo;  // [heads, blocks]
  double *query_hi, *query_lo;    // [heads, queries]
  double *key_hi, *key_lo;        // [heads, keys]
  double *query_positions, *key_positions;
  uint8_t* counts;  // [gates], 0: those of padding
};
GateScratch ForgettingBiasScratch(ScratchCutter& cutter, int64_t heads, int64_t gates, int64_t queries, int64_t keys);

struct ProductScratch {
  double* q;  // [heads, queries, dim]
  double* k;  // [heads, dim, key_stride]
  int64_t key_stride;
};
ProductScratch TupeScratch(ScratchCutter& cutter, int64_t heads, int64_t dim, int64_t queries, int64_t keys);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_POSITION_BIAS_H_
