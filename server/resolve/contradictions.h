// What a configuration says twice, and differently.
#ifndef PHASOR_SERVER_RESOLVE_CONTRADICTIONS_H_
#define PHASOR_SERVER_RESOLVE_CONTRADICTIONS_H_

#include "server/resolve/family.h"
#include "server/resolve/model_config.h"
#include "server/resolve/parts.h"

namespace phasor::server {

// Warns, by the path of the key that does not count, of keys that contradict what was read: heads that share no keys, a
// length below 0, lists against their interval, scaling of a model without rotations, keys around the object of the language
// model. `out` has the layers of this network alone. Fails never, not on keys of a wrong type either.
void WarnContradictions(const Model& model, const TextPath& path, const ModelEncoding& out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_CONTRADICTIONS_H_
