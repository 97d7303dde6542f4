// What a class's code says about its layers where the file has no list of them: which type each is, and which types rotate.
#ifndef PHASOR_SERVER_RESOLVE_LAYER_PATTERNS_H_
#define PHASOR_SERVER_RESOLVE_LAYER_PATTERNS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "server/resolve/layer_groups.h"

namespace phasor::server {

// Groups from the file's layer_types, else from the keys that the class reads in their place, else from its pattern. Empty:
// all layers are alike. As with GroupsFromFile, layers without attention are left out with a warning.
std::vector<LayerGroup> GroupsOfModel(const Model& model);

// Whether the linear attention of the class is lightning attention.
bool HasLightningLayers(std::string_view family);

// Whether layers of a type rotate in the model's class; of most classes all do.
bool TypeRotates(const Model& model, std::string_view layer_type);

// Gives layers that see everything the wider heads and the key heads that such layers have in the model's class. Nothing
// where the class has none, and nothing where the file has per_layer_config, which then says it alone.
void WidenGlobal(const Model& model, std::string_view layer_type, GroupRule& rule);

// Groups by no_rope_layers (1 rotates, 0 does not), or by the class's interval: rope_layers and nope_layers. One group
// without a name when all rotate.
std::vector<LayerGroup> RopeAndNope(const Model& model);

// Reads groups by layer_rope_theta, the base of every layer, 0 where it does not rotate. `own_bases`: each base is taken as
// it stands; else all layers that rotate have the model's base. Groups are the file's layer types where each has one base.
void ReadLayerBases(const Model& model, bool own_bases, ModelEncoding& out);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_LAYER_PATTERNS_H_
