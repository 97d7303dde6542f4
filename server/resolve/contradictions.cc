#include "server/resolve/contradictions.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/size_names.h"

namespace phasor::server {
namespace {

// Query heads share key heads in groups of one size.
void CheckHeads(const Model& model, const ModelEncoding& out) {
  const std::string_view key = FirstOf(model.text, kKvHeadKeys);
  for (const LayerEncoding& layer : out.layers) {
    if (layer.num_q_heads == 0 || layer.num_kv_heads == 0 || layer.num_q_heads % layer.num_kv_heads == 0) continue;
    model.problems->Warn(model.text.PathOf(key.empty() ? "num_key_value_heads" : key),
                         absl::StrCat(layer.num_kv_heads, " does not divide the ", layer.num_q_heads,
                                      " query heads: no model has groups of that size"));
    return;
  }
}

// Of several names for the key heads the first counts.
void CheckKeyHeadNames(const Model& model, const JsonObject& text) {
  const std::string_view first = FirstOf(text, kKvHeadKeys);
  if (first.empty() || !text.IsNumber(first)) return;
  for (const std::string_view other : kKvHeadKeys) {
    if (other == first || !text.IsNumber(other) || text.Number(other) == text.Number(first)) continue;
    model.problems->Warn(model.text.PathOf(other),
                         absl::StrCat(text.ValueText(other), " is not read: ", model.text.PathOf(first), " ",
                                      text.ValueText(first), " goes first"));
  }
}

void CheckLength(const Model& model, const JsonObject& text) {
  const std::string_view key = model.MaxPositionKey();
  if (key.empty() || !text.IsNumber(key)) return;
  const double length = text.Number(key).value_or(0);
  if (length < 0) {
    model.problems->Warn(model.text.PathOf(key), absl::StrCat(FormatNumber(length), " is no length: read as not said"));
  }
}

// The list counts; the first layer in which `expected` names another type is said.
template <typename Expected>
void CheckPattern(const Model& model, std::string_view key, std::string_view list, size_t layers, Expected agrees) {
  for (size_t i = 0; i < layers; ++i) {
    if (agrees(i)) continue;
    model.problems->Warn(model.text.PathOf(key),
                         absl::StrCat("not read: ", model.text.PathOf(list), " counts, and says otherwise from layer ", i));
    return;
  }
}

void CheckWindows(const Model& model, const JsonObject& text) {
  const auto types = text.Strings("layer_types");
  const std::string_view key =
      text.FirstOf({"sliding_window_pattern", "_sliding_window_pattern", "global_attn_every_n_layers"});
  if (!types || types->empty() || key.empty()) return;
  // ModernBERT counts from its first layer, others to the last of a period.
  const bool first = key == "global_attn_every_n_layers" && model.family->model_type != "afmoe";
  const int64_t period = text.IsNumber(key) ? text.Integer(key, 1, kMaxLayers).value_or(0) : 0;
  const std::string letters = text.IsNumber(key) || text.IsList(key) ? "" : text.String(key).value_or("");
  if (period == 0 && letters.empty()) return;
  CheckPattern(model, key, "layer_types", types->size(), [&](size_t i) {
    const std::string& type = (*types)[i];
    if (type != "sliding_attention" && type != "full_attention") return true;
    // Several classes let the last layer see all, whatever the pattern.
    if (i + 1 == types->size() && type == "full_attention") return true;
    const bool full =
        period == 0 ? letters[i % letters.size()] != 'L' : static_cast<int64_t>(first ? i : i + 1) % period == 0;
    return full == (type == "full_attention");
  });
}

void CheckInterval(const Model& model, const JsonObject& text) {
  constexpr std::string_view kKey = "no_rope_layer_interval";
  if (!text.IsList("no_rope_layers") || !text.IsNumber(kKey)) return;
  const auto flags = text.Integers("no_rope_layers", 0, 1);
  const auto interval = text.Integer(kKey, 1, kMaxLayers);
  if (!flags || !interval) return;
  CheckPattern(model, kKey, "no_rope_layers", flags->size(),
               [&](size_t i) { return ((*flags)[i] != 0) == (static_cast<int64_t>(i + 1) % *interval != 0); });
}

// Slopes and scaled rotations exclude each other.
void CheckScaling(const Model& model, const JsonObject& text, const ModelEncoding& out) {
  const bool alibi = !out.layers.empty() && std::all_of(out.layers.begin(), out.layers.end(), [](const LayerEncoding& l) {
    return l.kind == PositionKind::kAlibi;
  });
  if (!alibi) return;
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!text.IsObject(key) || !text.Object(key)->Has("factor")) continue;
    model.problems->Warn(model.text.PathOf(key), "not read: the model has ALiBi and does not rotate");
  }
}

// Keys around the object that describes the language model. `quiet` objects report nothing.
void CheckAround(const Model& model, const TextPath& path, Problems& quiet) {
  const JsonObject inner = path.text().Reporting(&quiet);
  for (size_t i = 0; i + 1 < path.objects.size(); ++i) {
    const JsonObject outer = path.objects[i].Reporting(&quiet);
    for (const std::string_view key : {"rope_theta", "partial_rotary_factor", "head_dim", "num_attention_heads",
                                       "num_key_value_heads", "max_position_embeddings"}) {
      if (!outer.IsNumber(key) || !inner.IsNumber(key)) continue;
      const auto given = outer.Number(key);
      const auto counts = inner.Number(key);
      if (!given || !counts || *given == *counts) continue;
      model.problems->Warn(outer.PathOf(key),
                           absl::StrCat(FormatNumber(*given), " is not read: ", inner.PathOf(key), " ",
                                        FormatNumber(*counts), " counts (a class without such a part takes the former)"));
    }
    for (const std::string_view key : {"rope_theta", "rope_scaling", "rope_parameters"}) {
      if (!outer.Has(key) || inner.Has(key) || (outer.IsObject(key) && outer.Object(key)->IsEmpty())) continue;
      model.problems->Warn(outer.PathOf(key),
                           absl::StrCat("not read: ", path.keys.back(), " describes the language model and has none"));
    }
  }
}

}  // namespace

void WarnContradictions(const Model& model, const TextPath& path, const ModelEncoding& out) {
  Problems quiet;  // a wrong type in a key that nobody needed is no error
  const JsonObject text = model.text.Reporting(&quiet);
  CheckHeads(model, out);
  CheckKeyHeadNames(model, text);
  CheckLength(model, text);
  CheckWindows(model, text);
  CheckInterval(model, text);
  CheckScaling(model, text, out);
  CheckAround(model, path, quiet);
}

}  // namespace phasor::server
