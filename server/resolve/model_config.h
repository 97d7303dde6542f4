// From a model's published config.json to specs. Knows configurations, not the wire.
#ifndef PHASOR_SERVER_RESOLVE_MODEL_CONFIG_H_
#define PHASOR_SERVER_RESOLVE_MODEL_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"
#include "kernels/encodings/spec.h"

namespace phasor::server {

// What a group of layers has.
enum class PositionKind { kRope, kSinusoidal, kAlibi, kNone, kUnserved, kLearned, kBias };

// One layer type of a model.
struct LayerEncoding {
  std::string layer_type;  // the configuration's own name, or rope_layers, nope_layers, encoder, decoder, …; empty: a single
                           // schedule
  // Which part of the model: empty for the language model, "vision", "audio", "encoder" … for a sub-configuration beside it.
  // layer_type begins with it: "vision", or "audio.full_attention" where the part has layer types of its own.
  std::string part;
  std::vector<int64_t> layers;  // 0-based; empty: all, or the configuration does not say
  PositionKind kind = PositionKind::kUnserved;
  std::string unserved;               // what kUnserved stands for: "mrope", "learned", "t5_bucket" …
  std::optional<CanonicalSpec> spec;  // of the served kinds; its notes' fields are paths in the spec
  std::vector<Note> defaults;         // defaults that the configuration left out: field = configuration key, as "rope_theta"
  std::vector<Note> warnings;         // field = configuration key
  int64_t num_q_heads = 0, num_kv_heads = 0;  // 0: not said
  int64_t max_position = 0;                   // 0: not said
  std::optional<double>
      softmax_scale;  // the whole factor on q·k where the configuration decides it (query_pre_attn_scalar, MLA …)
  bool positions_from_mask = false;            // the class counts unpadded tokens
  std::optional<double> scale_after;           // Falcon ALiBi: factor on scores + bias
  std::string query_scale;                     // rule that scales q by position, in words and numbers; empty: none
  std::optional<double> embedding_multiplier;  // √dim where scale_embedding says so
};

struct ModelEncoding {
  std::string model_type;  // as given or as implied by architectures and keys
  std::vector<LayerEncoding> layers;
  std::vector<Note> warnings;
};

// Reads the text of a config.json (bare NaN and Infinity tolerated). No allocation beyond a small multiple of the text's
// size. Errors: INVALID_ARGUMENT with a SpecError payload (field = key path such as "rope_scaling.factor"): not JSON, a key
// of the wrong type, a needed key missing, nesting deeper than 64. Thread-safe.
absl::StatusOr<ModelEncoding> ReadModelConfig(std::string_view json);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_MODEL_CONFIG_H_
