// The dict that says how RoPE's frequencies are scaled, in every form it was ever published: `rope_scaling` (with `type` or
// `rope_type`), `rope_parameters` flat or nested per layer type, or none; and the spec that it makes of one layer type.
#ifndef PHASOR_SERVER_RESOLVE_ROPE_PARAMETERS_H_
#define PHASOR_SERVER_RESOLVE_ROPE_PARAMETERS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/resolve/family.h"

namespace phasor::server {

// The dicts of one configuration. `flat` and `nested` exclude each other; both empty: the file has none.
struct RopeDicts {
  std::optional<JsonObject> flat;
  std::vector<std::pair<std::string, std::optional<JsonObject>>> nested;  // null: that layer type does not rotate
  std::string path;                                                       // of the dict

  // The nested entry of a layer type, or null when there is no such entry.
  const std::optional<JsonObject>* Nested(std::string_view layer_type) const;
};

// Names that the file makes up end in answers, so they are bounded.
inline constexpr size_t kMaxLayerTypes = 16;
inline constexpr size_t kMaxLayerTypeLength = 64;

RopeDicts FindRopeDicts(const Model& model);
// The file's one dict for all layer types, without a word about it.
std::optional<JsonObject> FlatRopeDict(const Model& model);

// A value and the key that it came from.
struct FoundNumber {
  double value = 0;
  std::string path;
  std::string made = {};  // as NumberSource has it
};

// What a family's reader decided about one layer type before its dict is read.
struct RopeRequest {
  std::string layer_type;
  std::string entry;  // its name in nested dicts, where that is another
  std::vector<int64_t> layers;
  const JsonObject* dict = nullptr;    // may be null
  bool nested = false;                 // dict is an entry of a nested form
  bool scaled = true;                  // false: the dict's scaling does not reach these layers (its rope_theta may)
  bool dict_theta = true;              // whether the dict's rope_theta is meant for these layers
  bool class_dict = false;             // dict is the class's own: the file has none
  std::string_view theta_key = {};     // top-level key; empty: rope_theta and its aliases
  std::optional<FoundNumber> theta;    // in place of theta_key, where the base is not a number by itself (a list by layer)
  std::optional<FoundNumber> partial;  // the same of the partial factor
  double default_base = 10000;
  double default_partial = 1;
  double base_multiplier = 1;  // ChatGLM's rope_ratio
  int64_t head_dim = 0;
  int64_t rotary_dim = 0;                  // 0: from the partial factor. MLA: given, and no factor applies
  int64_t first_channel = 0;               // of a slice with rotary_dim channels (MLA)
  std::optional<Pairing> pairing;          // absent: the family's
  std::optional<double> attention_factor;  // where the class sets it for a YaRN dict that does not
  std::optional<RopeSchedule> schedule;    // what class code does without a dict (Qwen-1)
  // Where numbers above come from, by the last component of the spec's field, where that is not the usual key.
  std::map<std::string, NumberSource, std::less<>> from = {};
  bool deepseek_softmax = false;  // the class multiplies the softmax scale by g(mscale_all_dim)²
};

// Reads, canonicalises and completes one layer type. Of a rope type that is known but not served the result is kUnserved;
// a rope type that nobody knows is an error. On an error the layer is unspecified and model.problems has the status.
LayerEncoding ReadRopeLayer(const Model& model, const RopeRequest& request);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_ROPE_PARAMETERS_H_
