#include "server/knowledge/calls.h"

namespace phasor::server {

absl::StatusOr<v1::CompareSpecsResponse> CompareSpecs(const KnowledgeContext&, const v1::CompareSpecsRequest&) {
  return absl::UnimplementedError("CompareSpecs: not served yet");
}

}  // namespace phasor::server
