// Sizes of a model that can be none, whether or not the answer needs them.
#ifndef PHASOR_SERVER_RESOLVE_MODEL_SIZES_H_
#define PHASOR_SERVER_RESOLVE_MODEL_SIZES_H_

#include "server/resolve/family.h"

namespace phasor::server {

// Fails where the width, the heads, the layers or the vocabulary of the model is a number below 1, not whole, or above what
// any model has. Other types are left to whoever needs the size: some files have lists, and most answers need only a few.
void CheckSizes(const Model& model);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_MODEL_SIZES_H_
