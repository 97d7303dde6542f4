// The schedule of one layer type of a GGUF model: rope.scaling.*, the tensors of factors, and the attention factor.
#ifndef PHASOR_SERVER_RESOLVE_GGUF_SCHEDULES_H_
#define PHASOR_SERVER_RESOLVE_GGUF_SCHEDULES_H_

#include <map>
#include <string>
#include <string_view>

#include "server/resolve/gguf_rope.h"

namespace phasor::server {

// A spec on its way, and which key each of its fields came from.
struct GgufDraft {
  const GgufContext& model;
  const GgufGroup& group;
  LayerEncoding& layer;
  RopeSpec spec;
  std::map<std::string, std::string, std::less<>> key_of;  // last component of the spec's field → the file's key
  bool own_attention_factor = false;                       // spec.attention_factor is not the file's

  const GgufKeys& keys() const { return model.keys; }
  void Warn(std::string_view key, std::string message) const {
    layer.warnings.push_back({keys().PathOf(key), std::move(message)});
  }
  void Default(std::string_view key, std::string message) const {
    layer.defaults.push_back({keys().PathOf(key), std::move(message)});
  }
  void Unserved(std::string_view what) const {
    layer.kind = PositionKind::kUnserved;
    layer.unserved = what;
  }
};

// Sets draft.spec.schedule and attention_factor; head_dim, rotary_dim and base are there. What is not served makes the layer
// kUnserved.
void ReadGgufSchedule(GgufDraft& draft);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_GGUF_SCHEDULES_H_
