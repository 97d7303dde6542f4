// Adding encodings that are made on the way: block by block, so that they stay in the cache and take no memory of their own.
#ifndef PHASOR_KERNELS_PROGRAM_ADD_H_
#define PHASOR_KERNELS_PROGRAM_ADD_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/backend.h"
#include "kernels/program.h"
#include "kernels/program/row_maker.h"

namespace phasor {

// Where the encodings of an AddTask come from.
struct AddSources {
  std::shared_ptr<const RowMaker> pe;     // null: nothing is added (a gradient)
  std::shared_ptr<const RowMaker> other;  // with a gate: the second one
  // Row b·tokens + t is that of batch row b and token t; else row t is that of token t in every batch row.
  bool per_batch = false;
};

// The step that runs `task` (all but `pe` and `other` filled in; what it points at must live until the step has ended).
ProgramStep AddStep(const AddTask& task, AddSources sources);

// The factor on x of scale_sqrt_dim and of a given scale, as a number of the compute type of `dtype`: `scale`, or √dim
// correctly rounded when it is absent, first rounded to `rounded_to` (float types) where that is given. 1 ≤ dim < 2^24.
double AddScale(std::optional<double> scale, int64_t dim, std::optional<DType> rounded_to, DType dtype);

// 1/(1 − probability), computed in f64, as a number of the compute type of `dtype`.
double DropoutFactor(double probability, DType dtype);

}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_ADD_H_
