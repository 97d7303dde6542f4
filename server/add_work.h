// The work of adding an encoding to tensors: what the parser of server/work_add.cc found, and the steps that it takes.
#ifndef PHASOR_SERVER_ADD_WORK_H_
#define PHASOR_SERVER_ADD_WORK_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/core/dtype.h"
#include "kernels/encodings/weight.h"
#include "kernels/program.h"
#include "kernels/program/add.h"
#include "server/domain_ends.h"
#include "server/positions.h"
#include "server/work.h"

namespace phasor::server {

// A gate or ends: numbers of the caller's, in a compute type.
struct AddNumbers {
  WeightRef weight;
  std::map<DType, int64_t> scratch;  // where they are converted to; absent: the weight is of that type
};

class AddWork final : public Work {
 public:
  absl::StatusOr<std::vector<ProgramStep>> Steps(std::span<const Resolved* const> plans,
                                                 const WorkMemory& memory) const override;

  bool WorksOnDevice(size_t input) const override;

  // Finds room for numbers whose type is not the one that is computed in. After everything else is filled in.
  void PlaceNumbers();

  // Filled in by the parser.
  PositionSet positions;
  bool per_batch = false;
  AddNumbers gate, first, last;
  DomainEnds ends;
  std::vector<AddTask> tasks;  // one per tensor, without addresses but those of `positions` and `ends`

 private:
  std::shared_ptr<const RowMaker> Rows(size_t source, const Resolved& resolved) const;
};

}  // namespace phasor::server

#endif  // PHASOR_SERVER_ADD_WORK_H_
