#include "server/knowledge/calls.h"

namespace phasor::server {

absl::StatusOr<v1::RecommendResponse> Recommend(const KnowledgeContext&, const v1::RecommendRequest&) {
  return absl::UnimplementedError("Recommend: not served yet");
}

}  // namespace phasor::server
