// Frequencies by themselves. Part of DiagnoseAngles.
#ifndef PHASOR_SERVER_KNOWLEDGE_DIAGNOSE_INV_FREQ_H_
#define PHASOR_SERVER_KNOWLEDGE_DIAGNOSE_INV_FREQ_H_

#include "server/knowledge/diagnosis.h"

namespace phasor::server {

// `diagnosis` holds what was seen before.
absl::StatusOr<Diagnosis> DiagnoseInvFreq(const Backend& backend, const DiagnoseInput& input, Diagnosis diagnosis);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DIAGNOSE_INV_FREQ_H_
