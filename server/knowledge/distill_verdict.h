// What is to be said of a fitted function. Part of distill.h.
#ifndef PHASOR_SERVER_KNOWLEDGE_DISTILL_VERDICT_H_
#define PHASOR_SERVER_KNOWLEDGE_DISTILL_VERDICT_H_

#include <string>

#include "server/knowledge/distill.h"
#include "server/knowledge/side.h"

namespace phasor::server {

// Whether the numbers follow from a formula: nothing was learned for each position, distance or bucket.
bool HasClosedForm(const Side& side);

// Sentences from the figures of `distilled`, whose verdict does not count.
std::string VerdictOf(const Side& side, const DistillSamples& samples, const Distilled& distilled);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DISTILL_VERDICT_H_
