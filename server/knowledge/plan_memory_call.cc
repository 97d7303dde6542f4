#include "server/knowledge/calls.h"

namespace phasor::server {

absl::StatusOr<v1::PlanMemoryResponse> PlanMemory(const KnowledgeContext&, const v1::PlanMemoryRequest&) {
  return absl::UnimplementedError("PlanMemory: not served yet");
}

}  // namespace phasor::server
