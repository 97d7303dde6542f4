// The layer types of a GGUF model: which layers attend, which of them slide, which rotate.
#ifndef PHASOR_SERVER_RESOLVE_GGUF_LAYERS_H_
#define PHASOR_SERVER_RESOLVE_GGUF_LAYERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/encodings/encoding.h"
#include "server/resolve/gguf_architectures.h"
#include "server/resolve/gguf_keys.h"

namespace phasor::server {

// Layers that share everything.
struct GgufGroup {
  std::string name;             // empty: the model has a single schedule
  std::vector<int64_t> layers;  // empty: all
  bool rotates = true;
  bool sliding = false;
  std::vector<Note> defaults;  // what decided, where no key did
};

// Groups in order of first appearance; never empty unless the keys are at fault. Layers for the prediction of further tokens
// (nextn_predict_layers, the last ones) are left out.
std::vector<GgufGroup> GgufGroups(const GgufKeys& keys, const GgufArchitecture& architecture);

// Query and key/value heads of a group's layers. 0: not said, or they differ, with a note.
struct GgufHeads {
  int64_t query = 0;
  int64_t key_value = 0;
};
GgufHeads GgufHeadsOf(const GgufKeys& keys, const GgufGroup& group, std::vector<Note>& notes);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_GGUF_LAYERS_H_
