#include "server/resolve/position_keys.h"

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <set>

#include "absl/strings/str_cat.h"

#include "server/resolve/rope_keys.h"

namespace phasor::server {
namespace {

// Which values of a key say nothing, beside null, false, 0, "" and what is empty.
enum class Nothing : uint8_t {
  kFalse,     // none
  kOne,       // 1: a factor that changes nothing
  kMinusOne,  // below 0: not limited
  kPlain,     // "default"
};

struct PositionKey {
  std::string_view name;
  Nothing nothing = Nothing::kFalse;
};

// clang-format off
constexpr PositionKey kKeys[] = {
// Rotation: bases, widths, pairing.
{"rope_theta"}, {"rope_base"}, {"rotary_base"}, {"rotary_emb_base"}, {"rotary_embedding_base"}, {"rope_local_base_freq"},
{"global_rope_theta"}, {"local_rope_theta"}, {"swa_rope_theta"}, {"layer_rope_theta"}, {"compress_rope_theta"},
{"memory_attention_rope_theta"}, {"rope_ratio", Nothing::kOne},
{"partial_rotary_factor", Nothing::kOne}, {"partial_rotary_factors"}, {"rotary_pct", Nothing::kOne},
{"rope_pct", Nothing::kOne}, {"rotary_percent", Nothing::kOne}, {"rotary_emb_fraction", Nothing::kOne}, {"rotary_dim"},
{"rotary_ndims"}, {"rope_dim"}, {"rope_head_dim"}, {"qk_rope_head_dim"}, {"rope_interleave"},
{"rope_interleaved"}, {"rotary_emb_interleaved"}, {"rotary_emb_scale_base"}, {"rope"}, {"rotary"}, {"rotary_emb"}, {"rotary_value"},
{"use_rotary_embedding"}, {"rope_rotate_half_dims"}, {"mrope_section"}, {"mrope_interleaved"}, {"xdrope_section"},
{"position_id_per_seconds"}, {"attn_type_list"}, {"use_mem_rope"}, {"no_rope_layers"}, {"no_rope_layer_interval"}, {"nope_layers"},
// Rotation: scaling, in a dict or beside it.
{"rope_scaling"}, {"rope_parameters"}, {"rope_type", Nothing::kPlain}, {"rope_scaling_type", Nothing::kPlain},
{"rope_scaling_factor", Nothing::kOne}, {"rotary_scaling_factor", Nothing::kOne}, {"rope_scaling_layers"},
{"yarn_only_types"}, {"factor", Nothing::kOne}, {"scaling_factor", Nothing::kOne}, {"original_max_position_embeddings"},
{"initial_context_length"}, {"max_trained_positions"}, {"short_factor"}, {"long_factor"}, {"short_mscale"},
{"long_mscale"}, {"low_freq_factor"}, {"high_freq_factor"}, {"beta_fast"}, {"beta_slow"}, {"mscale", Nothing::kOne},
{"mscale_all_dim"}, {"mixed_b"}, {"attention_factor", Nothing::kOne}, {"attn_factor", Nothing::kOne},
{"extrapolation_factor", Nothing::kOne}, {"extra_method"}, {"use_dynamic_ntk"}, {"rope_impl"}, {"rope_dail_config"},
{"rope_hf_config"},
// Queries scaled by their position.
{"use_logn_attn"}, {"llama_4_scaling_beta"}, {"attn_temperature_tuning"}, {"attn_temperature_len", Nothing::kMinusOne},
{"floor_scale"}, {"log_scaling_alpha"}, {"log_scaling_n_floor"},
// Which scheme, and tables.
{"position_embedding_type"}, {"position_embeddings_type"}, {"positional_encoding_type"}, {"learned_pos_emb"},
{"sinusoidal_pos_embds"}, {"sinusoidal_embeddings"}, {"static_position_embeddings"}, {"position_biased_input"},
{"use_abs_pos"}, {"use_absolute_position_embeddings"}, {"use_learned_position_embeddings"}, {"use_positional_embedding"},
{"use_mid_position_embeddings"}, {"max_2d_position_embeddings"}, {"positional_encoding_temperature"},
{"positional_embedding_temperature"}, {"temperature_height"}, {"temperature_width"}, {"axial_pos_embds"},
// Biases and terms of the scores.
{"alibi"}, {"use_alibi"}, {"alibi_bias_max"}, {"relative_attention"}, {"relative_attention_num_buckets"},
{"relative_attention_max_distance"}, {"relative_max_distance"}, {"max_bucket_distance"}, {"position_bias_num_buckets"},
{"position_bias_max_distance"}, {"has_relative_attention_bias"}, {"has_spatial_attention_bias"}, {"rel_pos_bins"},
{"rel_2d_pos_bins"}, {"max_rel_pos"}, {"max_rel_2d_pos"}, {"relative_bias_args"}, {"use_relative_position_bias"},
{"use_shared_relative_position_bias"}, {"use_relative_position_embeddings"}, {"use_rel_pos"}, {"rel_extent"},
{"pos_att_type"}, {"position_buckets", Nothing::kMinusOne}, {"max_relative_positions", Nothing::kMinusOne},
{"norm_rel_ebd"}, {"clamp_len", Nothing::kMinusOne}, {"encoder_max_relative_position"}, {"left_max_position_embeddings"},
{"right_max_position_embeddings"}, {"num_relative_chain_bins"}, {"num_relative_residx_bins"},
};
// clang-format on

// What classes of transformers 5.24 write into every file although nothing of theirs reads it, or nothing unless another key
// says so. Any other value is worth a word.
struct OwnDefault {
  std::string_view family, key, text;
};
constexpr OwnDefault kOwnDefaults[] = {
    {"inkling", "log_scaling_alpha", "0.1"},
    {"patchtsmixer", "positional_encoding_type", "\"sincos\""},
    {"phi3", "original_max_position_embeddings", "4096"},
    {"phi4multimodal", "original_max_position_embeddings", "4096"},
    {"pix2structvisionmodel", "relative_attention_max_distance", "128"},
    {"pix2structvisionmodel", "relative_attention_num_buckets", "32"},
    {"qwen25omnitalker", "position_id_per_seconds", "25"},
    {"seamlessm4t", "rotary_embedding_base", "10000"},
    {"wav2vec2bert", "rotary_embedding_base", "10000"},
    {"wav2vec2conformer", "rotary_embedding_base", "10000"},
};

bool IsOwnDefault(const Model& model, std::string_view key) {
  return std::any_of(std::begin(kOwnDefaults), std::end(kOwnDefaults), [&](const OwnDefault& each) {
    return each.key == key && each.family == model.family->model_type && each.text == model.text.ValueText(key);
  });
}

// Whether the value says nothing. Reads it, quietly.
bool IsNothing(const JsonObject& object, const PositionKey& key) {
  Problems quiet;  // any type may stand there
  const JsonObject at = object.Reporting(&quiet);
  if (at.IsNumber(key.name)) {
    const double value = at.Number(key.name).value_or(1);
    return value == 0 || (key.nothing == Nothing::kOne && value == 1) || (key.nothing == Nothing::kMinusOne && value < 0);
  }
  if (at.IsList(key.name)) return at.ListSize(key.name) == 0;
  if (at.IsObject(key.name)) {
    const JsonObject dict = *at.Object(key.name);
    const auto keys = dict.Keys();
    return std::all_of(keys.begin(), keys.end(), [&](const std::string& each) {
      return dict.IsNull(each) ||
             ((each == "rope_type" || each == "type") && dict.Reporting(&quiet).String(each) == "default");
    });
  }
  if (const auto text = at.String(key.name)) return text->empty() || (key.nothing == Nothing::kPlain && *text == "default");
  return !at.Bool(key.name).value_or(true);
}

// Whether the answer has what the key asks for all the same, as the only form of its class.
bool Agrees(const JsonObject& object, std::string_view key, const std::vector<LayerEncoding>& layers) {
  const auto any = [&](std::initializer_list<PositionKind> kinds) {
    return std::any_of(layers.begin(), layers.end(), [&](const LayerEncoding& layer) {
      return std::find(kinds.begin(), kinds.end(), layer.kind) != kinds.end();
    });
  };
  using enum PositionKind;
  const bool yes = object.ValueText(key) == "true";
  if (key == "alibi" || key == "use_alibi") return yes && any({kAlibi});
  if (key == "use_rotary_embedding" || key == "rotary_emb" || key == "rotary" || key == "rope") {
    return yes && any({kRope});
  }
  if (key.starts_with("use_abs") || key == "use_learned_position_embeddings") return yes && any({kLearned});
  if (key == "relative_attention") return yes && any({kTerm, kBias});
  if (key != "position_embedding_type" && key != "position_embeddings_type" && key != "positional_encoding_type") {
    return false;
  }
  Problems quiet;
  const std::string word = object.Reporting(&quiet).String(key).value_or("");
  if (word.starts_with("rope") || word.starts_with("rotary")) return any({kRope});
  if (word == "alibi") return any({kAlibi});
  if (word.starts_with("sin")) return any({kSinusoidal, kLearned});  // some classes keep theirs as a parameter
  if (word == "relative" || word == "relative_bias") return any({kTerm, kBias});
  // What most files say without meaning anything by it, unless the class has something else altogether.
  if (word.starts_with("absolute") || word.starts_with("learn")) return !any({kRope, kAlibi});
  return false;
}

// The lengths that a schedule starts from say nothing where they are the model's own.
bool IsOwnLength(const Model& model, std::string_view key) {
  if (key != "original_max_position_embeddings" && key != "initial_context_length" && key != "max_trained_positions") {
    return false;
  }
  const std::string_view own = model.MaxPositionKey();
  Problems quiet;
  const JsonObject text = model.text.Reporting(&quiet);
  return !own.empty() && text.IsNumber(own) && text.IsNumber(key) && text.Number(own) == text.Number(key);
}

constexpr std::string_view kUses[] = {" read", "ignores", "counts", "means nothing", "not served", "old form"};

using Fields = std::set<std::string, std::less<>>;

// Whether a warning already says what becomes of the value.
bool SaysUse(const Note& note) {
  return std::any_of(std::begin(kUses), std::end(kUses),
                     [&](std::string_view word) { return note.message.find(word) != std::string::npos; });
}

// Fields that such a warning is about.
Fields Warned(const Model& model, const ModelEncoding& out) {
  Fields fields;
  for (const Note& note : model.problems->warnings()) {
    if (SaysUse(note)) fields.insert(note.field);
  }
  for (const LayerEncoding& layer : out.layers) {
    for (const Note& note : layer.warnings) {
      if (SaysUse(note)) fields.insert(note.field);
    }
  }
  return fields;
}

// Around the language model contradictions.cc has a word about these.
bool IsCompared(const JsonObject& inner, std::string_view key) {
  return key == "rope_theta" || key == "rope_scaling" || key == "rope_parameters" ||
         (key == "partial_rotary_factor" && inner.IsNumber(key));
}

bool IsUnread(const JsonObject& object, const PositionKey& key, const Fields& warned, const ModelEncoding& out) {
  return object.Has(key.name) && !object.WasRead(key.name) && !warned.contains(object.PathOf(key.name)) &&
         !IsNothing(object, key) && !Agrees(object, key.name, out.layers);
}

// Objects of a model with keys of positions in them (MPT, DBRX).
constexpr std::string_view kNestedDicts[] = {"attn_config"};

// What MPT's code writes beside "rope": false or "alibi": false.
bool IsUnusedDefault(const Model& model, const JsonObject& dict, std::string_view key) {
  if (model.family->model_type != "mpt") return false;
  Problems quiet;
  const JsonObject at = dict.Reporting(&quiet);
  const auto type_of = [&](std::string_view plain) {
    return at.IsObject(key) && at.Object(key)->Reporting(&quiet).String("type").value_or(std::string(plain)) == plain;
  };
  return key == "rope_impl" || (key == "rope_theta" && dict.ValueText(key) == "10000") ||
         (key == "alibi_bias_max" && dict.ValueText(key) == "8") || (key == "rope_dail_config" && type_of("original")) ||
         (key == "rope_hf_config" && type_of("no_scaling"));
}

void AddNestedKeys(const Model& model, const Fields& warned, const ModelEncoding& out, std::vector<Note>& notes) {
  const bool open = std::any_of(out.layers.begin(), out.layers.end(),
                                [](const LayerEncoding& layer) { return layer.kind == PositionKind::kUnserved; });
  if (open) return;  // what has no answer says why
  for (const std::string_view name : kNestedDicts) {
    if (!model.text.IsObject(name)) continue;
    const JsonObject dict = *model.text.Object(name);
    for (const PositionKey& key : kKeys) {
      if (!IsUnread(dict, key, warned, out) || IsUnusedDefault(model, dict, key.name)) continue;
      notes.push_back({dict.PathOf(key.name), absl::StrCat(dict.ValueText(key.name), " is not read: class ", model.type_name,
                                                           " has no use for it there")});
    }
    for (Note& note : UnknownRopeKeys(dict)) notes.push_back(std::move(note));
  }
}

}  // namespace

bool IsPositionKey(std::string_view key) {
  return std::any_of(std::begin(kKeys), std::end(kKeys), [&](const PositionKey& each) { return each.name == key; });
}

std::vector<std::string_view> PositionKeys() {
  std::vector<std::string_view> names;
  for (const PositionKey& key : kKeys) names.push_back(key.name);
  return names;
}

std::vector<Note> UnreadPositionKeys(const Model& model, const ModelEncoding& out) {
  const auto warned = Warned(model, out);
  std::vector<Note> notes;
  for (const PositionKey& key : kKeys) {
    if (!IsUnread(model.text, key, warned, out) || IsOwnLength(model, key.name) || IsOwnDefault(model, key.name)) continue;
    // The list counts where there is one, and contradictions.cc compares the two.
    if (key.name == "no_rope_layer_interval" && model.text.WasRead("no_rope_layers")) continue;
    notes.push_back(
        {model.text.PathOf(key.name),
         absl::StrCat(model.text.ValueText(key.name), " is not read: class ", model.type_name,
                      model.family->model_type.empty() ? " is unknown, and what its other keys say has no use for it"
                                                       : " has no use for it here")});
  }
  AddNestedKeys(model, warned, out, notes);
  return notes;
}

std::vector<Note> UnreadKeysAround(const Model& model, const TextPath& path, const ModelEncoding& out) {
  const auto warned = Warned(model, out);
  std::vector<Note> notes;
  for (size_t i = 0; i + 1 < path.objects.size(); ++i) {
    const JsonObject& outer = path.objects[i];
    for (const PositionKey& key : kKeys) {
      if (IsCompared(model.text, key.name) || !IsUnread(outer, key, warned, out) || outer.SameValue(key.name, model.text))
        continue;
      notes.push_back({outer.PathOf(key.name), absl::StrCat(outer.ValueText(key.name), " is not read: ", path.keys.back(),
                                                            " describes the language model")});
    }
  }
  return notes;
}

}  // namespace phasor::server
