// From a model's published config.json to specs. Knows configurations, not the wire.
#ifndef PHASOR_SERVER_RESOLVE_MODEL_CONFIG_H_
#define PHASOR_SERVER_RESOLVE_MODEL_CONFIG_H_

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "kernels/encodings/encoding.h"
#include "kernels/encodings/spec.h"

namespace phasor::server {

// What a group of layers has.
enum class PositionKind { kRope, kSinusoidal, kAlibi, kNone, kUnserved, kLearned, kBias, kTerm };

// Numbers that only a checkpoint holds: the caller uploads them with the spec, under this name.
struct NeededWeight {
  std::string name;            // as the scheme's message lists it
  std::vector<int64_t> shape;  // 0: an extent that the configuration does not say
  std::string source;          // which of the checkpoint's tensors it is, or what to make it from
  bool required = false;       // false: without it the spec still gives indices (or the weight counts as 0)
};

// A factor on queries that depends on the position m.
struct QueryScaleRule {
  enum class Kind : uint8_t {
    kLogN,   // max(1, ln(m + 1)/ln(period))
    kFloor,  // 1 + coefficient·ln(1 + floor((m + shift)/period))
  };
  Kind kind = Kind::kFloor;
  double coefficient = 0;
  int64_t period = 1;
  int64_t shift = 0;
};

// How ids of several axes are made from images and videos: MropePositions of the wire, without segments.
struct MropeRule {
  enum class Layout : uint8_t { kQwen2Vl, kQwen25Vl, kQwen3Vl, kHunyuanVl };
  Layout layout = Layout::kQwen2Vl;
  int64_t spatial_merge = 2;
  std::optional<double> tokens_per_second;  // kQwen25Vl only
  int64_t temporal_merge = 1;
  int64_t axes = 0;  // kHunyuanVl only; else 0
};

// One layer type of a model.
struct LayerEncoding {
  std::string layer_type;  // the configuration's own name, or rope_layers, nope_layers, encoder, decoder, …; empty: a single
                           // schedule
  // Which part of the model: empty for the language model, "vision", "audio", "encoder" … for a sub-configuration beside it.
  // layer_type begins with it: "vision", or "audio.full_attention" where the part has layer types of its own.
  std::string part;
  std::vector<int64_t> layers;  // 0-based; empty: all, or the configuration does not say
  PositionKind kind = PositionKind::kUnserved;
  std::string unserved;  // what kUnserved stands for: "mrope", "learned", "t5_bucket" …
  // Of the served kinds; its notes' fields are paths in the spec. Without the weights of `weights`: where one of them is
  // required there is no plan before the caller has added it.
  std::optional<CanonicalSpec> spec;
  std::vector<NeededWeight> weights;
  // Last component of a field of the spec → the key of the file that it came from, for errors that show when the spec is
  // resolved.
  std::map<std::string, std::string, std::less<>> key_of;
  std::vector<Note> defaults;  // defaults that the configuration left out: field = configuration key, as "rope_theta"
  std::vector<Note> warnings;  // field = configuration key
  int64_t num_q_heads = 0, num_kv_heads = 0;  // 0: not said
  int64_t max_position = 0;                   // 0: not said
  std::optional<double>
      softmax_scale;  // the whole factor on q·k where the configuration decides it (query_pre_attn_scalar, MLA …)
  bool positions_from_mask = false;                // the class counts unpadded tokens
  std::optional<double> scale_after;               // Falcon ALiBi: factor on scores + bias
  std::string query_scale;                         // rule that scales q by position, in words and numbers; empty: none
  std::optional<QueryScaleRule> query_scale_rule;  // the same, for programs
  std::optional<MropeRule> mrope;                  // of rotations by several axes in a language model
  bool inverse = false;                            // the class turns the other way
  std::vector<int64_t> grid_starts;                // where rows and columns of an image begin; empty: at 0
  std::optional<double> embedding_multiplier;      // √dim where scale_embedding says so
};

// The key behind a field such as "rope.longrope.short_factor[3]"; empty where none is known.
std::string KeyOfField(const std::map<std::string, std::string, std::less<>>& key_of, std::string_view field);

// Whether the spec lacks a weight without which it has no plan.
bool LacksWeights(const LayerEncoding& layer);

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
