// The faults that each half of the diagnosis can name.
#ifndef PHASOR_SERVER_KNOWLEDGE_FAULT_CARDS_H_
#define PHASOR_SERVER_KNOWLEDGE_FAULT_CARDS_H_

#include <span>

#include "server/knowledge/diagnosis.h"

namespace phasor::server {

// Of tables of angles and frequencies.
std::span<const FaultCard> AngleFaultCards();
// Of attention biases and slopes.
std::span<const FaultCard> BiasFaultCards();

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_FAULT_CARDS_H_
