#include "server/resolve/gguf_rope.h"

#include <algorithm>

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/family.h"
#include "server/resolve/gguf_schedules.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr int64_t kMaxWidth = int64_t{1} << 20;
void ReadBase(GgufDraft& draft) {
  constexpr std::string_view kBase = "rope.freq_base";
  constexpr std::string_view kLocal = "rope.freq_base_swa";
  const GgufKeys& keys = draft.keys();
  std::string_view key = kBase;
  if (draft.group.sliding && (keys.Has(kLocal) || draft.model.architecture.local_base)) key = kLocal;
  draft.key_of["base"] = keys.PathOf(key);
  draft.spec.base = keys.Number(key);
  if (draft.spec.base) return;
  draft.spec.base = 10000;
  draft.Default(key, "10000 (default of every reader)");
  if (key == kBase) draft.Warn(key, "not given: base 10000");
}

void ReadWidth(GgufDraft& draft) {
  const GgufKeys& keys = draft.keys();
  constexpr std::string_view kWidth = "rope.dimension_count";
  constexpr std::string_view kLocal = "rope.dimension_count_swa";
  const std::string_view key = draft.group.sliding && keys.Has(kLocal) ? kLocal : kWidth;
  draft.key_of["rotary_dim"] = keys.PathOf(key);
  auto width = keys.Integer(key, 1, kMaxHeadDim);
  if (!width) {
    width = draft.spec.head_dim;
    draft.Default(key, Cat(*width, " (the whole head)"));
  }
  if (draft.model.architecture.half_full && !draft.group.sliding) {
    width = *width / 2;
    draft.Default(key, Cat(*width, " (layers with full attention rotate half of it, which no key says)"));
  }
  draft.spec.rotary_dim = *width;
  if (draft.model.architecture.slice_last && *width < draft.spec.head_dim) {
    draft.spec.first_channel = draft.spec.head_dim - *width;
    draft.Warn(key, Cat("the slice that rotates is the last ", *width, " of ", draft.spec.head_dim,
                        " channels (first_channel); for a slice by itself, such as the key that all heads share, set "
                        "head_dim ",
                        *width, " and first_channel 0"));
  }
}

void NotePairing(GgufDraft& draft) {
  const GgufArchitecture& architecture = draft.model.architecture;
  draft.spec.pairing = architecture.pairing;
  constexpr std::string_view kKey = "rope.dimension_count";
  if (!draft.model.known) {
    draft.Warn(kKey, "no key says which channels form a pair, and the architecture is unknown: half-split is assumed");
  } else if (architecture.reordered) {
    draft.Warn(kKey,
               "pairing interleaved is that of this file's weights: writing it turned the rows of q and k; the model's "
               "config.json and weights elsewhere are half-split. Angles are the same");
  }
}

// Time, height, width and one more; ggml's files have four entries, and 0 for an axis that turns nothing.
void ReadAxes(GgufDraft& draft) {
  constexpr std::string_view kKey = "rope.dimension_sections";
  const GgufAxes axes = draft.model.architecture.axes;
  if (axes == GgufAxes::kOne) return;
  auto sections = draft.keys().Integers(kKey, kMaxAxes, 0, kMaxHeadDim);
  if (!sections && axes != GgufAxes::kBySections && axes != GgufAxes::kXd) {
    draft.keys().problems().Fail(draft.keys().PathOf(kKey), "nothing", "pairs per axis: time, height, width, extra");
  }
  if (!sections) return;
  while (!sections->empty() && sections->back() == 0) sections->pop_back();
  if (sections->size() < 2) return;  // one axis turns all
  const bool interleaved = axes == GgufAxes::kInterleaved;
  if (interleaved) {
    draft.Warn(kKey,
               "pairs beyond the sections of height and width take time, as published; llama.cpp turns them by the "
               "fourth coordinate");
  }
  draft.spec.axes = RopeAxes{*std::move(sections), interleaved ? AxisLayout::kInterleaved : AxisLayout::kChunked};
  draft.key_of["sections"] = draft.keys().PathOf(kKey);
  // Programs that read these files have one pairing for several axes, and writing them turns the rows to it.
  draft.spec.pairing = Pairing::kHalfSplit;
}

// What the architecture says about ids; the image tower is a file of its own.
void NoteMrope(GgufDraft& draft) {
  if (!draft.spec.axes) return;
  constexpr std::string_view kKey = "rope.dimension_sections";
  const GgufArchitecture& architecture = draft.model.architecture;
  const auto set = [&](MropeRule::Layout layout, int64_t axes) {
    MropeRule rule;
    rule.layout = layout;
    rule.axes = axes;
    draft.layer.mrope = rule;
    draft.layer.defaults.push_back(
        {draft.keys().PathOf(kKey), "spatial_merge 2 (of every published model; the image tower's file says it)"});
  };
  if (architecture.axes == GgufAxes::kInterleaved) return set(MropeRule::Layout::kQwen3Vl, 0);
  if (architecture.axes == GgufAxes::kXd) {
    return set(MropeRule::Layout::kHunyuanVl, static_cast<int64_t>(draft.spec.axes->sections.size()));
  }
  if (architecture.name == "paddleocr") return set(MropeRule::Layout::kQwen2Vl, 0);
  if (architecture.name == "qwen2vl") {
    set(MropeRule::Layout::kQwen2Vl, 0);
    return draft.Warn(
        kKey,
        "Qwen2-VL and Qwen2.5-VL are one architecture here: images have the same ids in both, frames of videos do "
        "not. For a video of Qwen2.5-VL send MROPE_LAYOUT_QWEN2_5_VL with tokens_per_second 2");
  }
  draft.Warn(kKey, "how this architecture makes positions from images is not known: give the ids themselves");
}

// "rope.yarn.factor" → the key that it came from.
absl::Status InKeys(const GgufDraft& draft, const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  if (!error) return status;
  std::string path = KeyOfField(draft.key_of, error->field);
  if (path.empty()) path = draft.keys().PathOf(Cat("rope.", error->field.substr(error->field.rfind('.') + 1)));
  return MakeSpecError(path, error->given, error->allowed);
}

void ReadSoftmax(GgufDraft& draft) {
  if (draft.model.architecture.softmax != GgufSoftmax::kMla) return;
  LayerEncoding& layer = draft.layer;
  layer.softmax_scale = InverseSqrt(static_cast<double>(draft.spec.head_dim));
  const auto* yarn = std::get_if<YarnSchedule>(&std::get<RopeSpec>(layer.spec->spec).schedule);
  if (!yarn || !yarn->mscale_all_dim) return;
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  if (!resolved.ok()) return draft.keys().problems().Fail(InKeys(draft, resolved.status()));
  layer.softmax_scale = *layer.softmax_scale * resolved->softmax_scale_multiplier.value_or(1);
}

}  // namespace

int64_t GgufHeadDim(const GgufContext& model, const GgufGroup& group, std::vector<Note>& defaults) {
  const GgufKeys& keys = model.keys;
  std::string_view key = keys.FirstOf({"attention.key_length_mla", "attention.key_length"});
  if (group.sliding && keys.Has("attention.key_length_swa")) key = "attention.key_length_swa";
  if (!key.empty()) return keys.Integer(key, 1, kMaxHeadDim).value_or(0);
  const int64_t width = keys.Integer("embedding_length", 1, kMaxWidth).value_or(0);
  std::vector<Note> ignored;
  const int64_t heads = GgufHeadsOf(keys, group, ignored).query;
  if (!keys.problems().ok()) return 0;
  const std::string path = keys.PathOf("attention.key_length");
  constexpr std::string_view kHeads = "attention.head_count";
  if (heads == 0 && keys.Has(kHeads)) {
    keys.problems().Fail(keys.PathOf(kHeads), keys.IsList(kHeads) ? "numbers that differ, or 0, in these layers" : "0",
                         Cat("1 … ", kMaxHeads, ", the same in all of these layers, or attention.key_length"));
    return 0;
  }
  if (width == 0 || heads == 0) {
    keys.problems().Fail(path, "nothing", "attention.key_length, or both embedding_length and attention.head_count");
    return 0;
  }
  defaults.push_back({path, Cat(width / heads, " (embedding_length ", width, " / attention.head_count ", heads, ")")});
  return width / heads;
}

void ReadGgufRope(const GgufContext& model, const GgufGroup& group, LayerEncoding& layer) {
  GgufDraft draft{model, group, layer, {}, {}, false};
  const GgufKeys& keys = model.keys;
  layer.kind = PositionKind::kRope;
  draft.spec.head_dim = GgufHeadDim(model, group, layer.defaults);
  draft.key_of["head_dim"] = keys.PathOf("attention.key_length");
  if (!keys.problems().ok()) return;
  NotePairing(draft);
  ReadAxes(draft);
  ReadBase(draft);
  ReadWidth(draft);
  NoteMrope(draft);
  if (keys.problems().ok()) ReadGgufSchedule(draft);
  if (!keys.problems().ok() || layer.kind == PositionKind::kUnserved) return;
  auto canonical = Canonicalize(draft.spec);
  if (!canonical.ok()) return keys.problems().Fail(InKeys(draft, canonical.status()));
  layer.spec = *std::move(canonical);
  if (draft.own_attention_factor) ForgetAttentionFactor(*layer.spec);
  layer.key_of = draft.key_of;
  ReadSoftmax(draft);
}

}  // namespace phasor::server
