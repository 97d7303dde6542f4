#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/library_readings.h"

namespace phasor::server {
namespace {

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// Whether a list of LibraryReading names a layer type. A class whose only list has one name means the plain type by it.
bool Names(std::string_view list, std::string_view layer_type) {
  if (list == "*") return true;
  if (list.empty() || list == "!") return false;
  const std::vector<std::string> names = absl::StrSplit(Absl(list), ' ');
  return std::find(names.begin(), names.end(), layer_type) != names.end();
}

// The layer type as the library's dicts name it.
std::string_view TypeOf(const RopeRequest& request) { return request.entry.empty() ? request.layer_type : request.entry; }

struct BaseOfType {
  std::string_view layer_type, key;
  double without;
};

std::vector<BaseOfType> Bases(std::string_view list) {
  std::vector<BaseOfType> bases;
  for (const absl::string_view entry : absl::StrSplit(Absl(list), ' ', absl::SkipEmpty())) {
    const size_t equals = entry.find('=');
    const size_t colon = entry.find(':', equals);
    double number = 0;
    if (!absl::SimpleAtod(entry.substr(colon + 1), &number)) continue;
    bases.push_back({{entry.data(), equals}, {entry.data() + equals + 1, colon - equals - 1}, number});
  }
  return bases;
}

bool Scales(std::string_view rope_type) { return rope_type != "default" && rope_type != "mrope" && rope_type != "axial"; }

// Whether the dict is rope_parameters, not the older rope_scaling.
bool IsModern(const Model& model) {
  return !model.text.IsObject("rope_scaling") || model.text.Object("rope_scaling")->IsEmpty();
}

// What the library does with the dict of one layer.
struct Theirs {
  bool refused = false;  // the class cannot be built from the file
  bool scales = false;   // by the dict's rope type
  bool reads = false;    // the dict at all
};

Theirs DictOf(const LibraryReading& reading, const Model& model, const RopeRequest& request, std::string_view type) {
  Theirs theirs;
  const JsonObject* dict = request.dict;
  if (dict == nullptr) return theirs;
  if (request.nested || request.class_dict) return {.scales = Scales(type), .reads = true};
  const bool modern = IsModern(model);
  if (modern && reading.flat != LibraryReading::Flat::kRead) {
    theirs.refused = reading.flat == LibraryReading::Flat::kRefused;
    return theirs;
  }
  if (reading.scaled == "!") {
    const bool own_type = type == "longrope" || type == "su";  // Phi's classes take it, and no other
    theirs.refused = (Scales(type) && !own_type) || reading.flat == LibraryReading::Flat::kRefused;
    theirs.reads = !theirs.refused;
    theirs.scales = Scales(type) && !theirs.refused;
    return theirs;
  }
  theirs.reads = Names(reading.scaled, TypeOf(request)) || (modern && reading.scaled.empty());
  theirs.scales = theirs.reads && Scales(type) && (reading.old_type || dict->Has("rope_type"));
  return theirs;
}

void WarnNull(const LibraryReading& reading, const Model& model, const RopeRequest& request, RopeDraft& draft) {
  constexpr std::string_view kKey = "rope_scaling";
  if (request.dict != nullptr || !model.text.IsNull(kKey) || model.text.Has("rope_parameters")) return;
  if (!reading.null_dict) {
    draft.layer.warnings.push_back(
        {model.text.PathOf(kKey),
         absl::StrCat("null: nothing is scaled; transformers 5 refuses it in class ", model.type_name)});
  } else if (const std::string type = ClassRopeType(model, TypeOf(request)); !type.empty()) {
    draft.layer.warnings.push_back(
        {model.text.PathOf(kKey),
         absl::StrCat("null: nothing is scaled; transformers 5 takes the class's own dict, of type ", type, ", in class ",
                      model.type_name)});
  }
}

void WarnBase(const LibraryReading& reading, const Model& model, const RopeRequest& request, const Theirs& theirs,
              RopeDraft& draft) {
  if (request.theta || (request.nested && !request.class_dict)) return;
  const bool of_file = theirs.reads && !request.class_dict;
  const LibraryBase base = LibraryBaseOf(reading, TypeOf(request), of_file);
  double value = base.without;
  if (!base.key.empty() && model.text.IsNumber(base.key)) value = model.text.Number(base.key).value_or(value);
  if (of_file && reading.dict_theta && request.dict->Has("rope_theta")) {
    value = request.dict->Number("rope_theta").value_or(value);
  }
  const double ours = draft.spec.base.value_or(value);
  if (value == 0 || value == ours) return;
  draft.layer.warnings.push_back(
      {draft.key_of["base"], absl::StrCat("base ", FormatNumber(ours), " counts; transformers 5 takes ", FormatNumber(value),
                                          " in class ", model.type_name)});
}

void WarnWidth(const LibraryReading& reading, const Model& model, const RopeRequest& request, const Theirs& theirs,
               RopeDraft& draft) {
  constexpr std::string_view kKey = "partial_rotary_factor";
  if (request.rotary_dim != 0 || request.partial) return;
  const bool in_dict = request.dict && request.dict->Has(kKey);
  if (in_dict && request.class_dict) return;
  double share = request.default_partial;
  if (in_dict || model.text.Has(kKey)) {
    const std::string_view where = in_dict ? (theirs.scales ? "*" : reading.partial_in_dict)
                                           : (theirs.scales ? reading.partial_scaled : reading.partial);
    if (Names(where, TypeOf(request)) && (theirs.reads || !in_dict)) return;
  } else if (reading.whole_with_dict && theirs.reads && !request.class_dict) {
    share = 1;
  } else {
    return;
  }
  const int64_t width = draft.spec.rotary_dim.value_or(request.head_dim);
  const auto theirs_width = static_cast<int64_t>(static_cast<double>(request.head_dim) * share);
  if (width == theirs_width) return;
  const std::string path = in_dict || !request.dict || !reading.whole_with_dict ? std::string() : request.dict->PathOf(kKey);
  draft.layer.warnings.push_back({in_dict        ? request.dict->PathOf(kKey)
                                  : path.empty() ? model.text.PathOf(kKey)
                                                 : path,
                                  absl::StrCat(width / 2, " pairs rotate; transformers 5 rotates ", share == 1 ? "all " : "",
                                               theirs_width / 2, " in class ", model.type_name)});
}

void WarnScaling(const LibraryReading& reading, const Model& model, const RopeRequest& request, std::string_view type,
                 const Theirs& theirs, RopeDraft& draft) {
  if (request.dict == nullptr || request.class_dict || request.nested) return;
  const bool ours = request.scaled && Scales(type);
  const std::string_view key = request.dict->FirstOf({"rope_type", "type"});
  const std::string path = request.dict->PathOf(key.empty() ? "rope_type" : key);
  const absl::string_view name = Absl(type);
  if (theirs.refused) {
    draft.layer.warnings.push_back(
        {path, absl::StrCat("transformers 5 refuses ", ours ? "this dict" : "a flat dict", " in class ", model.type_name)});
  } else if (ours && !theirs.scales) {
    const bool old = key == "type" && !reading.old_type;
    draft.layer.warnings.push_back(
        {path, absl::StrCat("transformers 5 does not read ", old ? "`type`" : "it", " in class ", model.type_name,
                            ": there the frequencies stay as they are, not ", name)});
  } else if (!ours && theirs.scales) {
    draft.layer.warnings.push_back(
        {path, absl::StrCat("transformers 5 scales these layers too in class ", model.type_name)});
  }
}

}  // namespace

std::string ClassRopeType(const Model& model, std::string_view layer_type) {
  rapidjson::Document storage;
  Problems ignored;
  if (model.family->rope_parameters.empty() || !ParseConfig(model.family->rope_parameters, storage).ok()) return "";
  JsonObject dict(storage, "", &ignored);
  if (dict.IsObject(layer_type)) dict = *dict.Object(layer_type);
  const std::string type = dict.String("rope_type").value_or("default");
  return Scales(type) ? type : "";
}

LibraryBase LibraryBaseOf(const LibraryReading& reading, std::string_view layer_type, bool with_dict) {
  const std::string_view list = with_dict && !reading.dict_bases.empty() ? reading.dict_bases : reading.bases;
  if (list.empty()) return {"rope_theta", 10000};
  const std::vector<BaseOfType> bases = Bases(list);
  for (const BaseOfType& each : bases) {
    const bool only = bases.size() == 1 && (each.layer_type.empty() || layer_type.empty());
    if (each.layer_type == layer_type || only) return {each.key, each.without};
  }
  const bool alike =
      std::all_of(bases.begin(), bases.end(), [&](const BaseOfType& each) { return each.key == bases[0].key; });
  return alike && !bases.empty() ? LibraryBase{bases[0].key, 0} : LibraryBase{"rope_theta", 0};
}

void WarnLibraryReading(const Model& model, const RopeRequest& request, std::string_view rope_type, RopeDraft& draft) {
  const LibraryReading* reading = FindLibraryReading(model.family->model_type);
  if (reading == nullptr) return;
  const Theirs theirs = DictOf(*reading, model, request, rope_type);
  WarnScaling(*reading, model, request, rope_type, theirs, draft);
  if (theirs.refused) return;
  WarnNull(*reading, model, request, draft);
  WarnBase(*reading, model, request, theirs, draft);
  WarnWidth(*reading, model, request, theirs, draft);
}

void WarnAxialScaling(const Model& model, LayerEncoding& layer) {
  const LibraryReading* reading = FindLibraryReading(model.family->model_type);
  const std::string_view dict_key = IsModern(model) ? "rope_parameters" : "rope_scaling";
  if (!model.text.IsObject(dict_key)) return;
  const JsonObject dict = *model.text.Object(dict_key);
  const std::string_view key = dict.FirstOf({"rope_type", "type"});
  if (key.empty() || !Scales(dict.String(key).value_or("default"))) return;
  const bool refused = reading != nullptr && reading->scaled == "!";
  layer.warnings.push_back(
      {dict.PathOf(key),
       absl::StrCat("not read: rows and columns turn by plain frequencies",
                    refused ? absl::StrCat("; transformers 5 refuses this dict in class ", model.type_name) : "")});
}

}  // namespace phasor::server
