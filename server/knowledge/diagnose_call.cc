#include "server/knowledge/calls.h"

namespace phasor::server {

absl::StatusOr<v1::DiagnoseResponse> Diagnose(const KnowledgeContext&, const v1::DiagnoseRequest&) {
  return absl::UnimplementedError("Diagnose: not served yet");
}

}  // namespace phasor::server
