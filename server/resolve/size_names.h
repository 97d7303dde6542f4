// The names that sizes go by in published files.
#ifndef PHASOR_SERVER_RESOLVE_SIZE_NAMES_H_
#define PHASOR_SERVER_RESOLVE_SIZE_NAMES_H_

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "server/resolve/json_reader.h"

namespace phasor::server {

inline constexpr int64_t kMaxModelWidth = int64_t{1} << 20;

// Names in use for one thing; of those that a file has, the first counts.
using Names = std::span<const std::string_view>;
inline constexpr std::string_view kHiddenKeys[] = {"hidden_size", "d_model", "n_embd", "emb_dim", "dim", "model_dim"};
inline constexpr std::string_view kHeadKeys[] = {"num_attention_heads",
                                                 "n_head",
                                                 "n_heads",
                                                 "num_heads",
                                                 "decoder_attention_heads",
                                                 "encoder_attention_heads",
                                                 "decoder_num_attention_heads",
                                                 "encoder_num_attention_heads"};
inline constexpr std::string_view kKvHeadKeys[] = {"num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads"};
inline constexpr std::string_view kHeadDimKeys[] = {"head_dim", "kv_channels", "attention_head_dim", "attention_head_size"};
inline constexpr std::string_view kLayerKeys[] = {"num_hidden_layers", "n_layer", "n_layers", "num_layers"};
inline constexpr std::string_view kLengthKeys[] = {
    "max_position_embeddings", "n_positions", "max_seq_len",     "max_sequence_length", "seq_length",
    "max_target_positions",    "n_ctx",       "model_max_length"};
inline constexpr std::string_view kPaddingKeys[] = {"pad_token_id", "padding_idx", "pad_index"};

inline bool IsOneOf(Names names, std::string_view key) { return std::find(names.begin(), names.end(), key) != names.end(); }

inline std::string_view FirstOf(const JsonObject& object, Names names) {
  const auto found = std::find_if(names.begin(), names.end(), [&](std::string_view name) { return object.Has(name); });
  return found == names.end() ? std::string_view() : *found;
}

}  // namespace phasor::server

#endif  // PHASOR_SERVER_RESOLVE_SIZE_NAMES_H_
