// Lists with an entry for every layer: names, flags, bases.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/spec_check.h"
#include "server/resolve/layer_patterns.h"

namespace phasor::server {
namespace {

// Whether the list at `key`, where there is one, has no more entries than a model has layers at most.
bool FewLayers(const Model& model, std::string_view key) {
  const int64_t count = model.text.ListSize(key);
  if (count <= kMaxLayers) return true;
  model.problems->Fail(model.text.PathOf(key), absl::StrCat(count, " entries"), absl::StrCat("at most ", kMaxLayers));
  return false;
}

}  // namespace

std::vector<std::string> LayerNames(const Model& model, std::string_view key) {
  if (!FewLayers(model, key)) return {};
  std::vector<std::string> names = model.text.Strings(key).value_or(std::vector<std::string>());
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i].size() <= kMaxLayerTypeLength) continue;
    model.problems->Fail(absl::StrCat(model.text.PathOf(key), "[", i, "]"),
                         absl::StrCat("a name of ", names[i].size(), " bytes"),
                         absl::StrCat("at most ", kMaxLayerTypeLength));
    return {};
  }
  return names;
}

std::vector<int64_t> LayerIntegers(const Model& model, std::string_view key, int64_t high) {
  if (!FewLayers(model, key)) return {};
  return model.text.Integers(key, 0, high).value_or(std::vector<int64_t>());
}

std::vector<double> LayerNumbers(const Model& model, std::string_view key) {
  if (!FewLayers(model, key)) return {};
  return model.text.Numbers(key).value_or(std::vector<double>());
}

bool FewTypes(const Model& model, std::string_view key, const std::vector<LayerGroup>& groups) {
  if (groups.size() <= kMaxLayerTypes) return true;
  model.problems->Fail(model.text.PathOf(key), absl::StrCat(groups.size(), " different types"),
                       absl::StrCat("at most ", kMaxLayerTypes));
  return false;
}

std::vector<LayerGroup> RopeAndNope(const Model& model) {
  std::vector<Note> ignored;
  std::vector<int64_t> flags = LayerIntegers(model, "no_rope_layers", 1);
  if (!model.problems->ok()) return {};
  const bool from_class = flags.empty();
  if (from_class) {
    const int64_t interval = model.text.Integer("no_rope_layer_interval", 1, kMaxLayers).value_or(4);
    const int64_t count = model.NumLayers(ignored);
    for (int64_t i = 0; i < count; ++i) flags.push_back((i + 1) % interval != 0 ? 1 : 0);
  }
  const std::string_view count_key = model.text.FirstOf({"num_hidden_layers", "n_layer", "n_layers", "num_layers"});
  if (!from_class && !count_key.empty() && model.NumLayers(ignored) != static_cast<int64_t>(flags.size())) {
    model.problems->Warn(model.text.PathOf("no_rope_layers"),
                         absl::StrCat("has ", flags.size(), " entries, not one per layer; they are taken as they stand"));
  }
  std::vector<std::string> names;
  for (const int64_t flag : flags) names.push_back(flag != 0 ? "rope_layers" : "nope_layers");
  std::vector<LayerGroup> groups = GroupByName(names);
  if (from_class) NotePattern(model, "no_rope_layers", groups);
  if (groups.size() == 1 && groups.front().name == "rope_layers") groups.front() = {};
  return groups;
}

namespace {

// The bases of the file, or the class's: its NoPE layers are every fourth, counted from the last.
std::vector<double> LayerBases(const Model& model, bool own_bases) {
  constexpr std::string_view kKey = "layer_rope_theta";
  std::vector<double> bases = LayerNumbers(model, kKey);
  for (size_t i = 0; i < bases.size(); ++i) {
    if (bases[i] >= 0) continue;
    model.problems->Fail(absl::StrCat(model.text.PathOf(kKey), "[", i, "]"), FormatNumber(bases[i]),
                         "a finite number, at least 0 (0: the layer does not rotate)");
  }
  if (!bases.empty() || own_bases || !model.problems->ok()) return bases;
  std::vector<Note> ignored;
  const int64_t count = model.NumLayers(ignored);
  for (int64_t i = 0; i < count; ++i) bases.push_back((count - 1 - i) % 4 == 0 ? 0 : 1);
  return bases;
}

// The file's layer types, where layers of one type have one base.
std::vector<std::string> TypesThatFit(const Model& model, const std::vector<double>& bases) {
  constexpr std::string_view kKey = "layer_types";
  std::vector<std::string> types = LayerNames(model, kKey);
  const std::vector<LayerGroup> groups = GroupByName(types);
  if (!FewTypes(model, kKey, groups) || types.size() != bases.size()) return {};
  const auto base_of = [&](int64_t layer) { return bases[static_cast<size_t>(layer)]; };
  const bool fit = std::all_of(groups.begin(), groups.end(), [&](const LayerGroup& group) {
    return std::all_of(group.layers.begin(), group.layers.end(),
                       [&](int64_t layer) { return base_of(layer) == base_of(group.layers.front()); });
  });
  return fit && groups.size() > 1 ? types : std::vector<std::string>();
}

}  // namespace

void ReadLayerBases(const Model& model, bool own_bases, ModelEncoding& out) {
  constexpr std::string_view kKey = "layer_rope_theta";
  std::vector<double> bases = LayerBases(model, own_bases);
  if (!model.problems->ok()) return;
  if (!own_bases) {
    for (double& base : bases) base = base == 0 ? 0 : 1;
  }
  std::set<double> different(bases.begin(), bases.end());
  different.erase(0);
  const bool several = different.size() > 1;
  std::vector<std::string> names = TypesThatFit(model, bases);
  if (!model.problems->ok()) return;
  for (size_t i = names.size(); i < bases.size(); ++i) {
    names.push_back(bases[i] == 0 ? "nope_layers"
                    : several     ? absl::StrCat("theta_", FormatNumber(bases[i]))
                                  : "rope_layers");
  }
  std::vector<LayerGroup> groups = GroupByName(names);
  if (groups.size() > kMaxLayerTypes) {
    return model.problems->Fail(model.text.PathOf(kKey), absl::StrCat(groups.size(), " different bases"),
                                absl::StrCat("at most ", kMaxLayerTypes));
  }
  if (!model.text.IsList(kKey)) NotePattern(model, kKey, groups);
  std::map<std::string, double, std::less<>> base_of;
  for (size_t i = 0; i < bases.size(); ++i) base_of[names[i]] = bases[i];
  const auto rule_of = [&](std::string_view group) {
    GroupRule rule;
    rule.request.default_base = model.family->base;
    rule.request.default_partial = model.family->partial;
    const auto base = base_of.find(group);
    if (base == base_of.end()) return rule;
    rule.rotates = base->second != 0;
    if (own_bases && rule.rotates) {
      rule.request.theta = FoundNumber{base->second, model.text.PathOf(kKey)};
      rule.request.dict_theta = false;
    }
    return rule;
  };
  if (groups.size() == 1 && names.front() == "rope_layers") {
    base_of[""] = bases.front();
    groups.front() = {};
  }
  ReadGroups(model, std::move(groups), rule_of, out);
}

}  // namespace phasor::server
