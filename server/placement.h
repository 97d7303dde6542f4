// Where the arrays of a result lie in shared memory.
#ifndef PHASOR_SERVER_PLACEMENT_H_
#define PHASOR_SERVER_PLACEMENT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "server/engine.h"
#include "server/request.h"

namespace phasor::server {

// Every array but inv_freq, in the order of the result's fields, each at the next multiple of 64 bytes.
struct Placement {
  std::vector<int64_t> offsets;  // of each array, from the first
  std::vector<int64_t> sizes;
  int64_t bytes = 0;  // from the first byte of the first to the last of the last
};
Placement PlacementOf(const PrecomputeItem& item);

// The result's arrays are in `region` from `begin` on.
void SetPlaced(const Placement& placement, const std::shared_ptr<const Region>& region, int64_t begin,
               PrecomputeResult* result);

// Bytes of the answer that lie in shared memory, or on a device.
int64_t SharedBytes(const PrecomputeResult& result);
int64_t SharedBytes(const ApplyResult& result);
int64_t SharedBytes(const ScoresResult& result);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_PLACEMENT_H_
