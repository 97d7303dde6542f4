#include "server/knowledge/calls.h"

namespace phasor::server {

absl::StatusOr<v1::PlotResponse> Plot(const KnowledgeContext&, const v1::PlotRequest&) {
  return absl::UnimplementedError("Plot: not served yet");
}

}  // namespace phasor::server
