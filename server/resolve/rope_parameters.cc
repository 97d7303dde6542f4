#include "server/resolve/rope_parameters.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/class_values.h"
#include "server/resolve/library_readings.h"
#include "server/resolve/library_versions.h"
#include "server/resolve/mrope_rules.h"
#include "server/resolve/rope_keys.h"
#include "server/resolve/rope_schedules.h"

namespace phasor::server {
namespace {

using Found = FoundNumber;

std::optional<Found> TopLevelTheta(const Model& model, const RopeRequest& request) {
  const JsonObject& text = model.text;
  if (request.theta) return request.theta;
  std::string_view key = request.theta_key;
  if (key.empty()) key = text.FirstOf({"rope_theta", "rotary_emb_base", "rotary_base", "rope_base"});
  if (key.empty() || !text.Has(key)) return std::nullopt;
  return Found{text.Number(key).value_or(1), text.PathOf(key)};
}

// The base: the dict's, the top level's, the class's; a dict wins over the top level, as in transformers 5.
void ReadBase(const Model& model, const RopeRequest& request, RopeDraft& draft) {
  LayerEncoding& layer = draft.layer;
  const LibraryReading* library = FindLibraryReading(model.family->model_type);
  auto top = TopLevelTheta(model, request);
  std::optional<Found> found = top;
  if (request.class_dict && request.theta) {
    found = request.theta;
  } else if (request.class_dict && library) {
    const std::string& type = request.entry.empty() ? request.layer_type : request.entry;
    // The class's own dict gives way to the key that its code reads.
    const std::string_view key = LibraryBaseOf(*library, type).key;
    found.reset();
    if (!key.empty() && model.text.Has(key)) found = Found{model.text.Number(key).value_or(1), model.text.PathOf(key)};
    if (!found && request.dict->Has("rope_theta")) {
      found = Found{request.dict->Number("rope_theta").value_or(1), request.dict->PathOf("rope_theta")};
    }
    const double base = found ? found->value : request.default_base;
    if (top && top->value != base) {
      layer.warnings.push_back({top->path, absl::StrCat("not read: class ", model.type_name, " has base ",
                                                        FormatNumber(base), " of its own for these layers")});
    }
  } else if (request.dict && request.dict_theta && request.dict->Has("rope_theta")) {
    found = Found{request.dict->Number("rope_theta").value_or(1), request.dict->PathOf("rope_theta")};
    if (top && top->value != found->value) {
      layer.warnings.push_back(
          {found->path,
           absl::StrCat(
               "base ", FormatNumber(found->value), " counts, not ", FormatNumber(top->value), " of ", top->path,
               RotatesInTransformers4(model.family->model_type) ? " (transformers before 5 takes the latter)" : "")});
    } else if (!top && request.theta_key.empty() && found->value != request.default_base) {
      layer.warnings.push_back({found->path, absl::StrCat("readers that look for a top-level rope_theta only take base ",
                                                          FormatNumber(request.default_base))});
    }
  }
  if (!found) {
    const std::string_view key = request.theta_key.empty() ? "rope_theta" : request.theta_key;
    double base = request.default_base;
    if (!request.dict && library && !model.family->rope_parameters.empty()) {  // a base for each layer type
      const double of_type = LibraryBaseOf(*library, request.entry.empty() ? request.layer_type : request.entry).without;
      if (of_type != 0) base = of_type;
    }
    const std::string text = DefaultText(model, FormatNumber(base));
    layer.defaults.push_back({model.text.PathOf(key), text});
    const double newer = library ? 0 : model.family->base_since_5;  // else WarnLibraryReading says it
    layer.warnings.push_back({model.text.PathOf(key),
                              absl::StrCat("not given: base ", text,
                                           newer == 0 ? "" : absl::StrCat("; transformers 5 takes ", FormatNumber(newer)))});
    found = Found{base, model.text.PathOf(key), model.From(key).made};
  }
  draft.Take("base", {found->path, found->made});
  draft.spec.base = found->value * request.base_multiplier;
}

// The share of the head that rotates: the dict's, else the top level's.
std::optional<Found> PartialFactor(const Model& model, const RopeRequest& request, LayerEncoding& layer) {
  constexpr std::string_view kKey = "partial_rotary_factor";
  if (request.partial) return request.partial;
  const std::string_view key = model.text.FirstOf({kKey, "rotary_pct", "rope_pct", "rotary_emb_fraction"});
  std::optional<Found> found;
  if (!key.empty()) found = Found{model.text.Number(key).value_or(1), model.text.PathOf(key)};
  if (!request.dict || !request.dict->Has(kKey)) return found;
  const Found in_dict{request.dict->Number(kKey).value_or(1), request.dict->PathOf(kKey)};
  if (found && found->value != in_dict.value) {
    layer.warnings.push_back({found->path, absl::StrCat(FormatNumber(found->value), " is not read: ", in_dict.path, " ",
                                                        FormatNumber(in_dict.value), " counts")});
  }
  return in_dict;
}

// A slice of its own width (MLA) rotates as a whole. A factor beside it may say the same: of the head or of the slice.
void WarnSliceFactor(const Model& model, const RopeRequest& request, const Found& factor, LayerEncoding& layer) {
  const auto is_slice = [&](int64_t of) {
    return std::floor(static_cast<double>(of) * factor.value) == static_cast<double>(request.rotary_dim);
  };
  if (is_slice(request.head_dim) || is_slice(request.rotary_dim)) return;
  layer.warnings.push_back({factor.path, absl::StrCat(FormatNumber(factor.value), factor.made, " is not read: ",
                                                      request.rotary_dim, " channels rotate in class ", model.type_name)});
}

// int(head_dim · factor) in IEEE double, as the libraries take it.
int64_t RotaryWidth(const Model& model, const Found& factor, int64_t head_dim) {
  if (!(factor.value > 0 && factor.value <= 1)) {
    model.problems->Fail(factor.path, absl::StrCat(FormatNumber(factor.value), factor.made),
                         "a finite number, more than 0, at most 1");
    return head_dim;
  }
  return static_cast<int64_t>(static_cast<double>(head_dim) * factor.value);
}

// The width that `factor` gives, or an error that blames it.
int64_t CheckedRotaryWidth(const Model& model, const Found& factor, int64_t head_dim) {
  const int64_t width = RotaryWidth(model, factor, head_dim);
  if (model.problems->ok() && (width < 2 || width % 2 != 0)) {
    model.problems->Fail(
        factor.path, absl::StrCat(FormatNumber(factor.value), factor.made),
        absl::StrCat("a share of head_dim ", head_dim, " that is an even number of channels, at least 2; this is ", width));
  }
  return width;
}

void ReadRotaryDim(const Model& model, const RopeRequest& request, RopeDraft& draft) {
  LayerEncoding& layer = draft.layer;
  RopeSpec& spec = draft.spec;
  const auto factor = PartialFactor(model, request, layer);
  if (request.rotary_dim != 0) {
    // The slice that rotates is named by its own key.
    if (factor) WarnSliceFactor(model, request, *factor, layer);
    spec.rotary_dim = request.rotary_dim;
    spec.first_channel = request.first_channel;
    if (!request.from.contains("rotary_dim")) draft.Take("rotary_dim", model.From("qk_rope_head_dim"));
    return;
  }
  const bool whole_head = std::holds_alternative<ProportionalSchedule>(spec.schedule);
  if (whole_head) {
    spec.rotary_dim = request.head_dim;
    draft.Take("rotary_dim", {draft.key_of["head_dim"], draft.made_of["head_dim"]});
    return;
  }
  if (const auto width = model.text.Integer("rotary_dim", 1, kMaxHeadDim)) {
    spec.rotary_dim = *width;
    draft.key_of["rotary_dim"] = model.text.PathOf("rotary_dim");
    if (factor && RotaryWidth(model, *factor, request.head_dim) != *width) {
      layer.warnings.push_back(
          {model.text.PathOf("rotary_dim"), absl::StrCat("rotary_dim ", *width, " counts, not ", factor->path)});
    }
    return;
  }
  if (factor) {
    spec.rotary_dim = CheckedRotaryWidth(model, *factor, request.head_dim);
    draft.Take("rotary_dim", {factor->path, factor->made});
    return;
  }
  if (request.default_partial == 1 && request.head_dim % 2 != 0) {
    model.problems->Fail(draft.key_of["head_dim"], absl::StrCat(request.head_dim, draft.made_of["head_dim"]),
                         "an even number, or an odd one together with a partial_rotary_factor that makes it even");
    return;
  }
  const NumberSource from = model.From("partial_rotary_factor");
  const Found class_default{request.default_partial, from.path, from.made};
  spec.rotary_dim = CheckedRotaryWidth(model, class_default, request.head_dim);
  draft.Take("rotary_dim", from);
  if (model.family->model_type.starts_with("minimax")) {  // the class has the key
    layer.defaults.push_back({model.text.PathOf("rotary_dim"), absl::StrCat(*spec.rotary_dim, " (head_dim)")});
  }
  if (request.default_partial != 1) {
    layer.defaults.push_back({class_default.path, DefaultText(model, FormatNumber(request.default_partial))});
  }
}

// Turns the field of a SpecError ("rope.yarn.factor", "rope.longrope.short_factor[3]") into the configuration's key.
absl::Status InConfigurationTerms(const Model& model, const RopeDraft& draft, const absl::Status& status) {
  const auto error = SpecErrorOf(status);
  if (!error) return status;
  std::string path = KeyOfField(draft.key_of, error->field);
  if (path.empty()) path = model.text.PathOf(error->field.substr(error->field.rfind('.') + 1));
  return MakeSpecError(path, absl::StrCat(error->given, KeyOfField(draft.made_of, error->field)), error->allowed);
}

// The sections that the class takes by itself; empty when it has none that fit.
std::vector<int64_t> SectionsOfClass(const Model& model, int64_t pairs) {
  const Family& family = *model.family;
  std::vector<int64_t> sections;
  for (const int64_t section : family.sections) {
    if (section != 0) sections.push_back(section);
  }
  if (sections.empty() && family.axes > 0) sections.assign(static_cast<size_t>(family.axes), pairs / family.axes);
  const bool interleaved = family.axis_layout == AxisLayout::kInterleaved;
  if (interleaved && sections.size() == 3) {
    // Rows and columns take every third pair up to the head's last; time has the others.
    for (int64_t axis : {1, 2}) {
      int64_t& section = sections[static_cast<size_t>(axis)];
      section = std::min(section, (pairs - axis + 2) / 3);
    }
    sections[0] = pairs - sections[1] - sections[2];
  }
  const int64_t sum = std::accumulate(sections.begin(), sections.end(), int64_t{0});
  const bool fits = interleaved ? sum <= pairs : sum == pairs;
  return fits ? sections : std::vector<int64_t>();
}

// Several axes: by the dict's sections, else by the class's own.
void ReadAxes(const Model& model, const RopeRequest& request, std::string_view rope_type, RopeDraft& draft) {
  constexpr std::string_view kKey = "mrope_section";
  const std::string_view key = request.dict ? request.dict->FirstOf({kKey, "xdrope_section"}) : std::string_view();
  const bool named = rope_type == "mrope" || rope_type == "xdrope";
  if ((key.empty() && !model.family->mrope && !named) || !model.problems->ok()) return;
  RopeAxes axes;
  axes.layout = model.family->axis_layout;
  const std::string path = request.dict ? request.dict->PathOf(key.empty() ? kKey : key) : model.text.PathOf(kKey);
  if (!key.empty()) {
    axes.sections = request.dict->Integers(key, 0, kMaxHeadDim).value_or(std::vector<int64_t>());
    if (request.dict->IsTrue("mrope_interleaved")) axes.layout = AxisLayout::kInterleaved;
  } else {
    axes.sections = SectionsOfClass(model, *draft.spec.rotary_dim / 2);
    if (axes.sections.empty()) {
      draft.layer.unserved = rope_type == "xdrope" ? "xdrope" : "mrope";
      draft.layer.warnings.push_back(
          {path, "not given, and the class has no default: nothing says which pairs follow which axis"});
      return;
    }
    draft.layer.defaults.push_back({path, DefaultText(model, absl::StrCat("[", absl::StrJoin(axes.sections, ", "), "]"))});
  }
  draft.key_of["sections"] = path;
  SetMropeRule(model, axes.sections.size(), draft.layer);
  draft.spec.axes = std::move(axes);
}

// q · (1 + β·ln(1 + floor(m/M₀))) of the Ministral-3 generation.
void ReadQueryScale(const Model& model, const RopeRequest& request, LayerEncoding& layer) {
  constexpr std::string_view kKey = "llama_4_scaling_beta";
  if (!request.dict || !request.dict->Has(kKey)) return;
  const double beta = request.dict->Number(kKey).value_or(0);
  if (beta < 0) return model.problems->Fail(request.dict->PathOf(kKey), FormatNumber(beta), "a finite number, at least 0");
  const int64_t original = request.dict->Integer("original_max_position_embeddings", 1, kMaxLength).value_or(0);
  if (beta == 0 || original == 0) return;
  layer.query_scale = absl::StrCat("1 + ", FormatNumber(beta), "*ln(1 + floor(position/", original, "))");
  layer.query_scale_rule = QueryScaleRule{QueryScaleRule::Kind::kFloor, beta, original, 0};
}

void Finish(const Model& model, const RopeRequest& request, RopeDraft& draft) {
  LayerEncoding& layer = draft.layer;
  auto canonical = Canonicalize(draft.spec);
  if (!canonical.ok()) {
    model.problems->Fail(InConfigurationTerms(model, draft, canonical.status()));
    return;
  }
  layer.kind = PositionKind::kRope;
  layer.spec = *std::move(canonical);
  if (draft.own_attention_factor) ForgetAttentionFactor(*layer.spec);
  layer.key_of = draft.key_of;
  if (!request.deepseek_softmax) return;
  layer.softmax_scale = InverseSqrt(static_cast<double>(request.head_dim));
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  const auto* yarn = std::get_if<YarnSchedule>(&spec.schedule);
  if (!yarn || !yarn->mscale_all_dim) return;
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  if (!resolved.ok()) {
    model.problems->Fail(InConfigurationTerms(model, draft, resolved.status()));
    return;
  }
  layer.softmax_scale = *layer.softmax_scale * resolved->softmax_scale_multiplier.value_or(1);
}

// Whether the dict has an entry for each layer type. One that says itself what it is has none, whatever else is in it.
// Of a key beside which there is an entry per layer type.
bool NamesLayerType(std::string_view key) { return key.ends_with("_attention"); }

bool IsNested(const JsonObject& dict) {
  if (!dict.FirstOf({"rope_type", "type"}).empty()) return false;
  const auto keys = dict.Keys();
  return std::any_of(keys.begin(), keys.end(),
                     [&](const std::string& key) { return dict.IsObject(key) || NamesLayerType(key); });
}

}  // namespace

const std::optional<JsonObject>* RopeDicts::Nested(std::string_view layer_type) const {
  for (const auto& [name, dict] : nested) {
    if (name == layer_type) return &dict;
  }
  return nullptr;
}

RopeDicts FindRopeDicts(const Model& model) {
  RopeDicts dicts;
  const JsonObject& text = model.text;
  auto old = text.Object("rope_scaling");
  auto modern = text.Object("rope_parameters");
  if (old && old->IsEmpty()) old.reset();
  if (modern && modern->IsEmpty()) modern.reset();
  if (old && modern) {
    model.problems->Warn(text.PathOf("rope_parameters"), "not read: rope_scaling is given too and counts");
  }
  const auto& dict = old ? old : modern;
  if (!dict) return dicts;
  if (!IsNested(*dict)) {
    dicts.flat = *dict;
    return dicts;
  }
  const std::string& path = dicts.path = text.PathOf(old ? "rope_scaling" : "rope_parameters");
  int strays = 0;
  for (const std::string& key : dict->Keys()) {
    if (dicts.nested.size() >= kMaxLayerTypes || key.size() > kMaxLayerTypeLength) {
      model.problems->Fail(
          path, "an entry too many, or one with a long name",
          absl::StrCat("at most ", kMaxLayerTypes, " entries, names of at most ", kMaxLayerTypeLength, " bytes"));
      return dicts;
    }
    if (dict->IsObject(key)) {
      if (!dicts.Nested(key)) dicts.nested.emplace_back(key, dict->Object(key));
    } else if (dict->IsNull(key) && !dicts.Nested(key)) {
      dicts.nested.emplace_back(key, std::nullopt);
    } else if (!dict->IsNull(key) && NamesLayerType(key)) {
      model.problems->Fail(absl::StrCat(path, ".", key), dict->ValueText(key), "an object, or null");
    } else if (!dict->IsNull(key) && ++strays <= kMostUnreadKeys) {
      model.problems->Warn(
          path, absl::StrCat("\"", absl::CHexEscape(key), "\" is not read: the dict has an entry per layer type"));
    }
  }
  return dicts;
}

std::optional<JsonObject> FlatRopeDict(const Model& model) {
  for (const std::string_view key : {"rope_scaling", "rope_parameters"}) {
    if (!model.text.IsObject(key)) continue;
    const JsonObject dict = *model.text.Object(key);
    if (dict.IsEmpty()) continue;
    return IsNested(dict) ? std::nullopt : std::optional(dict);
  }
  return std::nullopt;
}

LayerEncoding ReadRopeLayer(const Model& model, const RopeRequest& request) {
  RopeDraft draft;
  draft.layer.layer_type = request.layer_type;
  draft.layer.layers = request.layers;
  draft.spec.head_dim = request.head_dim;
  draft.spec.pairing = request.pairing.value_or(model.family->pairing);
  draft.Take("head_dim", model.HeadDimFrom());
  for (const auto& [leaf, from] : request.from) draft.Take(leaf, from);
  FillFacts(model, request.head_dim, draft.layer);
  const std::string rope_type = request.scaled ? RopeTypeOf(model, request, draft) : "default";
  if (request.schedule) draft.spec.schedule = *request.schedule;
  if (request.scaled) ReadSchedule(model, request, rope_type, draft);
  if (!draft.layer.unserved.empty()) {
    draft.layer.kind = PositionKind::kUnserved;
    return std::move(draft.layer);
  }
  ReadBase(model, request, draft);
  ReadRotaryDim(model, request, draft);
  ReadAxes(model, request, rope_type, draft);
  if (!draft.layer.unserved.empty()) {
    draft.layer.kind = PositionKind::kUnserved;
    return std::move(draft.layer);
  }
  ReadQueryScale(model, request, draft.layer);
  if (model.problems->ok()) WarnLibraryReading(model, request, rope_type, draft);
  if (model.problems->ok()) Finish(model, request, draft);
  return std::move(draft.layer);
}

}  // namespace phasor::server
