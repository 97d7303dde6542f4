// One layer type of a rotating GGUF model: widths, base, schedule, attention factor.
#ifndef PHASOR_SERVER_RESOLVE_GGUF_ROPE_H_
#define PHASOR_SERVER_RESOLVE_GGUF_ROPE_H_

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "server/resolve/gguf_architectures.h"
#include "server/resolve/gguf_keys.h"
#include "server/resolve/gguf_layers.h"
#include "server/resolve/model_config.h"

namespace phasor::server {

// Data of the tensors that decide positions, by kind. Empty: the file has none.
struct GgufFactors {
  std::vector<double> freqs;  // rope_freqs: divisors of the frequencies, whatever the length
  std::vector<double> long_factors;
  std::vector<double> short_factors;
};

// What the readers of one model share.
struct GgufContext {
  const GgufKeys& keys;
  const GgufArchitecture& architecture;
  bool known;  // whether the architecture is in the table
  GgufFactors factors;
};

// Width of a head's keys, by key_length_mla, key_length or embedding_length / head_count; 0 after an error.
int64_t GgufHeadDim(const GgufContext& model, const GgufGroup& group, std::vector<Note>& defaults);

// Completes `layer`, whose facts about heads and lengths are there. On an error the layer is unspecified.
void ReadGgufRope(const GgufContext& model, const GgufGroup& group, LayerEncoding& layer);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_GGUF_ROPE_H_
