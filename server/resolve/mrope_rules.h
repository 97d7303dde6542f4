// How a class makes positions of several axes from images and videos.
#ifndef PHASOR_SERVER_RESOLVE_MROPE_RULES_H_
#define PHASOR_SERVER_RESOLVE_MROPE_RULES_H_

#include "server/resolve/family.h"

namespace phasor::server {

// Sets layer.mrope where the class's rule is known (a warning where it is not), for a language model that rotates by
// `sections` axes. The numbers come from the image tower's configuration.
void SetMropeRule(const Model& model, size_t sections, LayerEncoding& layer);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_MROPE_RULES_H_
