// Not there yet: says nothing.
#include "server/knowledge/diagnosis.h"
#include "server/knowledge/fault_cards.h"

namespace phasor::server {

absl::StatusOr<Diagnosis> DiagnoseAngles(const Backend&, const DiagnoseInput&) { return Diagnosis{}; }

std::span<const FaultCard> AngleFaultCards() { return {}; }

}  // namespace phasor::server
