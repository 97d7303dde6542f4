// What tables, biases and ids of a model take in memory, and which form to hold.
#ifndef PHASOR_SERVER_KNOWLEDGE_MEMORY_PLAN_H_
#define PHASOR_SERVER_KNOWLEDGE_MEMORY_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"
#include "server/knowledge/held_forms.h"

namespace phasor::server {

// One layer type of a model.
struct PlannedLayer {
  std::string layer_type;
  CanonicalSpec spec;
  int64_t layers = 0;          // how many; 0: not said
  bool lacks_weights = false;  // some that it has no plan without
  double weight_elements = 0;  // numbers that a checkpoint holds and the spec does not; 0: none, or of unknown shape
};

struct MemoryUse {
  std::string layer_type;
  std::string what;
  std::string form;
  double bytes = 0;         // one result
  double cached_bytes = 0;  // in the server's cache
  double device_bytes = 0;  // on a device
  double operations = 0;
  bool advised = false;
  std::string note;
};

struct MemoryPlan {
  std::vector<MemoryUse> uses;
  std::string advice;
};

// Lengths 1 … 2^31, batch 1 … 2^20, queries ≤ keys or not. A schedule that depends on the length has that of the keys. A
// layer whose numbers only a checkpoint knows has its weights alone.
MemoryPlan PlanMemoryUse(const std::vector<PlannedLayer>& layers, const Load& load);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_MEMORY_PLAN_H_
