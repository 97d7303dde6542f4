#include <algorithm>

#include "server/resolve/layer_groups.h"
#include "server/resolve/readers.h"

namespace phasor::server {

void ReadParts(const Model&, ModelEncoding&) {}

void ReadVisionRope(const Model& model, ModelEncoding& out) { out.layers.push_back(Unserved(model, "", "vision_rope_2d")); }

void ReadOther(const Model& model, ModelEncoding& out) { out.layers.push_back(Unserved(model, "", "other")); }

void ReadClvp(const Model& model, ModelEncoding& out) {
  std::vector<Note> defaults;
  const int64_t heads = std::max<int64_t>(model.Heads(defaults), 1);
  const int64_t projection = model.text.Integer("projection_dim", 1, kMaxHeadDim).value_or(768);
  GroupRule rule = DefaultRule(model);
  rule.request.rotary_dim = std::max<int64_t>(projection / (heads * 2), 32);
  ReadGroups(model, {}, [&](std::string_view) { return rule; }, out);
}

}  // namespace phasor::server
