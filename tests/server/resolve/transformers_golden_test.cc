// Every configuration class of transformers, from the config.json text that it saves, against the numbers of the library's
// own position modules (tests/golden/transformers).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/feature_compare.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/library_compare.h"
#include "tests/server/resolve/library_schemes.h"
#include "tests/server/resolve/table_compare.h"

namespace phasor::server {
namespace {

// Rows and columns turn halves of the head by themselves: two rotations of one axis, one after the other.
std::string CompareHalves(const ModelEncoding& model, const Value& want) {
  const auto layers = LayersOf(model, want);
  std::vector<double> frequencies;
  for (const char* name : {"height", "width"}) {
    const auto half = std::find_if(layers.begin(), layers.end(), [&](const LayerEncoding* layer) {
      return layer->layer_type == Join(layer->part, name) && layer->kind == PositionKind::kRope;
    });
    if (half == layers.end()) return std::string("no layers: ") + name;
    const RopeSpec& spec = std::get<RopeSpec>((*half)->spec->spec);
    if (spec.first_channel != (frequencies.empty() ? 0 : spec.head_dim / 2)) return "first channel";
    const auto resolved = Resolve(*(*half)->spec, std::nullopt, Precision::kExact);
    if (!resolved.ok()) return "resolve: " + std::string(resolved.status().message());
    const auto& more = std::get<AnglePlan>(resolved->plan).inv_freq;
    frequencies.insert(frequencies.end(), more.begin(), more.end());
  }
  return CompareFrequencies(frequencies, want);
}

// The table that positions of tokens or patches read, not one of boxes, queries or rows of a table.
bool IsMainTable(const Value& want) {
  const std::string at = Text(want, "at");
  const std::string leaf = at.substr(at.rfind('.') + 1);
  return leaf == "position_embeddings" || leaf == "position_embedding" || leaf == "embed_positions" || leaf == "wpe" ||
         leaf == "pos_embed" || leaf == "positions_embed" || leaf == "position_embedding_table" ||
         leaf == "gated_positional_embedding";
}

const EncodingSpec* SpecOf(const LayerEncoding& layer) { return layer.spec ? &layer.spec->spec : nullptr; }

// Every layer of the part that an entry is about, whichever side: tables stand beside what the layers have.
Layers TablesOf(const ModelEncoding& model, const Value& want) {
  std::string part = Text(want, "group");
  const std::string path = Text(want, "path");
  Layers found;
  for (const LayerEncoding& layer : model.layers) {
    if (layer.part == part || (part.empty() && layer.part == path)) found.push_back(&layer);
  }
  for (const LayerEncoding* layer : LayersOf(model, want)) found.push_back(layer);
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

std::string CompareSinusoids(const LayerEncoding& layer, const Value& want) {
  if (layer.kind != PositionKind::kSinusoidal) return "kind: " + KindOf(layer) + " instead of sinusoidal";
  if (const auto* timestep = std::get_if<TimestepSpec>(&layer.spec->spec)) return CompareTimestep(*timestep, want);
  const SinusoidalSpec& spec = std::get<SinusoidalSpec>(layer.spec->spec);
  if (spec.dim != want["dim"].GetInt64()) return "dim: " + std::to_string(spec.dim);
  if (want.HasMember("offset") && *spec.position_offset != want["offset"].GetInt64()) {
    return "offset: " + std::to_string(*spec.position_offset);
  }
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  if (!resolved.ok()) return "resolve: " + std::string(resolved.status().message());
  const auto& inv_freq = std::get<AnglePlan>(resolved->plan).inv_freq;
  for (const Value& sample : want["samples"].GetArray()) {
    const double got = SinusoidAt(spec, inv_freq, sample[0].GetInt64(), sample[1].GetInt64());
    // The tables are made in float32.
    if (std::fabs(got - sample[2].GetDouble()) <= 2e-5) continue;
    return "sample: row " + std::to_string(sample[0].GetInt64()) + " column " + std::to_string(sample[1].GetInt64()) + ": " +
           std::to_string(got) + " instead of " + std::to_string(sample[2].GetDouble());
  }
  return "";
}

std::string CompareGroup(const ModelEncoding& model, const Value& want,
                         std::string (*compare)(const LayerEncoding&, const Value&)) {
  auto layers = LayersOf(model, want);
  std::erase_if(layers, [](const LayerEncoding* layer) { return IsFeature(*layer); });
  if (layers.empty()) {
    return "no layers: group '" + Text(want, "group") + "' side '" + Text(want, "side") + "' type '" +
           Text(want, "layer_type") + "'";
  }
  bool any = false;
  for (const LayerEncoding* layer : layers) {
    // Layers without position: the module does not say which. A learned table may stand beside the rotation.
    if (layers.size() > 1 && (layer->kind == PositionKind::kNone || layer->kind == PositionKind::kUnserved)) continue;
    // A table at the input stands beside what the layers have.
    const bool table = layer->layer_type.ends_with("embedding");
    if (layers.size() > 1 && table != (Text(want, "kind") == "learned")) continue;
    any = true;
    if (const std::string problem = compare(*layer, want); !problem.empty()) return problem;
  }
  return any ? "" : "kind: none instead of " + Text(want, "kind");
}

std::string CompareScheme(const ModelEncoding& model, const Value& want, const std::set<std::string>& schemes) {
  std::string found;
  for (const LayerEncoding* layer : LayersOf(model, want)) {
    if (layer->spec && schemes.contains(std::string(SchemeOf(layer->spec->spec).name))) return "";
    found.append(" ").append(KindOf(*layer));
  }
  return "kind" + found + " instead of " + Text(want, "kind") + " as " + Text(want, "module");
}

const Value* EntryOf(const LayerEncoding& layer, const ModelEncoding& model, const LibraryCase& each, const char* kind) {
  for (const Value& want : each.document["expect"].GetArray()) {
    const std::string found = Text(want, "kind");
    const bool rotates = found == "mrope" || found == "axial" || found == "axial_grid" || found == "rope_2d_dinov3" ||
                         found == "rope_uneven_pairs" || found == "time_stamps";
    const bool is_feature = IsFeatureKind(found) && found != "time_stamps";
    const std::string_view wanted = kind;
    if (found != wanted && !(wanted == "rope" && rotates) && !(wanted == "sinusoidal" && is_feature)) continue;
    const auto layers = LayersOf(model, want);
    if (std::find(layers.begin(), layers.end(), &layer) != layers.end()) return &want;
  }
  return nullptr;
}

// Numbers that are given for what the library does not have.
std::string CompareClaims(const ModelEncoding& model, const LibraryCase& each) {
  for (const LayerEncoding& layer : model.layers) {
    const std::string kind = KindOf(layer);
    // A part may be one that the class of the whole does not build.
    if (!layer.part.empty() || (kind != "rope" && kind != "alibi" && kind != "sinusoidal")) continue;
    if (!EntryOf(layer, model, each, kind.c_str()))
      return kind + " in '" + layer.layer_type + "', where the library has none";
  }
  return "";
}

// How many stages the library convolves depthwise, as this entry does; 0: the entry's groups are a number of their own.
size_t DepthwiseStages(const LibraryCase& each, const Value& want) {
  if (Text(want, "module") != "RepConditionalPosEnc") return 0;
  const auto entries = each.document["expect"].GetArray();
  return static_cast<size_t>(std::count_if(entries.begin(), entries.end(), [&](const Value& entry) {
    return Text(entry, "module") == Text(want, "module") && Text(entry, "path") == Text(want, "path");
  }));
}

using Problems = std::map<std::string, std::vector<std::string>>;

// What the library has and the answer does not: each needs a reason in unanswered.json, by its key.
struct Unanswered {
  std::map<std::string, std::set<std::string>> types;  // key → model types

  void Entry(const LibraryCase& each, const Value& want) {
    std::string key = Text(want, "kind") + " " + Text(want, "module");
    // Tables of plain classes are told apart by the names of their weights.
    if (Text(want, "kind") == "learned") {
      const std::string at = Text(want, "at");
      key += " " + (want.HasMember("name") ? Text(want, "name") : at.substr(at.rfind('.') + 1));
    }
    types[key].insert(each.type);
  }
  void Layers(const LibraryCase& each, const ModelEncoding& model, const std::set<std::string>& positional) {
    bool any = false;
    for (const LayerEncoding& layer : model.layers) {
      any = any || layer.kind != PositionKind::kNone;
      if (layer.kind == PositionKind::kUnserved) types["unserved " + layer.unserved + " " + each.type].insert(each.type);
    }
    if (!any && positional.contains(each.type)) types["none " + each.type].insert(each.type);
  }
};

struct Outcome {
  Problems problems;                 // by model type
  std::map<std::string, int> count;  // entries by kind
  int compared = 0;
  Unanswered unanswered;
};

// Classes with modules whose names speak of positions.
std::set<std::string> PositionalTypes() {
  std::set<std::string> types;
  const rapidjson::Document document = ReadLibraryJson("modules.json");
  for (const auto& entry : document.GetObject()) types.insert(entry.name.GetString());
  return types;
}

// What differs in one entry; nothing: the answer has no spec that could be compared.
using Difference = std::optional<std::string>;

// Tables of queries, boxes and the like are weights too, but no layer's positions: those that are answered must fit.
Difference CompareLearned(const ModelEncoding& model, const Value& want) {
  if (Text(want, "at").ends_with("rel_pos_emb")) {
    const Layers layers = LayersOf(model, want);
    const auto* shaw = std::get_if<ShawSpec>(layers.empty() ? nullptr : SpecOf(*layers[0]));
    if (shaw) return 2 * shaw->clip + 1 == want["rows"].GetInt64() ? "" : "clip: " + std::to_string(shaw->clip);
  }
  const Layers tables = TablesOf(model, want);
  if (HasTable(tables, want)) return "";
  const bool others = std::any_of(tables.begin(), tables.end(),
                                  [](const LayerEncoding* layer) { return layer->kind == PositionKind::kLearned; });
  if (others && IsMainTable(want)) return "no table like " + JsonText(want);
  return std::nullopt;
}

// One stack alone does not say which it is.
std::string CompareAnyBuckets(const Layers& layers, const Value& want) {
  std::string problem = "no layer matches";
  for (const LayerEncoding* layer : layers) {
    problem = CompareBuckets(*layer, want);
    if (problem.empty()) problem = CompareBiasTable(*layer, want);
    if (problem.empty()) break;
  }
  return problem;
}

Difference CompareEntry(const ModelEncoding& model, const Value& want,
                        const std::map<std::string, std::set<std::string>>& of_modules) {
  static const std::map<std::string, std::string (*)(const LayerEncoding&, const Value&)> kOfLayer = {
      {"rope", &CompareRope},
      {"mrope", &CompareSeveralAxes},
      {"axial", &CompareSeveralAxes},
      {"alibi", &CompareSlopes},
      {"sinusoidal", &CompareSinusoids},
      {"swin_bias", &CompareWindow},
      {"continuous_window_bias", &CompareWindow},
      {"deberta_bucket", &CompareLogBuckets},
      {"relative_sinusoidal", &CompareRelativeSinusoid},
      {"rope_2d_dinov3", &CompareDinoV3},
      {"axial_grid", &CompareAxialGrid},
  };
  const std::string kind = Text(want, "kind");
  if (Text(want, "pairing") == "half_split_per_axis") return CompareHalves(model, want);
  if (const auto compare = kOfLayer.find(kind); compare != kOfLayer.end()) return CompareGroup(model, want, compare->second);
  if (kind == "t5_bucket") return CompareAnyBuckets(LayersOf(model, want), want);
  if (IsFeatureKind(kind)) return CompareFeatures(LayersOf(model, want), want);
  if (kind == "neighborhood_bias") return CompareNeighborhood(LayersOf(model, want), want);
  if (kind == "learned") return CompareLearned(model, want);
  if (kind == "relative_positions" || kind == "relative_bias" || kind == "rope_uneven_pairs") {
    const auto schemes = of_modules.find(Text(want, "module"));
    if (schemes == of_modules.end()) return "no case of terms.json has module " + Text(want, "module");
    return CompareScheme(model, want, schemes->second);
  }
  return std::nullopt;
}

Outcome Compare(const std::vector<LibraryCase>& cases) {
  const std::set<std::string> positional = PositionalTypes();
  const auto of_modules = SchemesOfModules();
  Outcome outcome;
  for (const LibraryCase& each : cases) {
    const auto fail = [&](const std::string& problem) {
      if (!problem.empty()) outcome.problems[each.type].push_back(problem);
    };
    const auto model = ReadModelConfig(each.config);
    if (!model.ok()) {
      fail("read: " + std::string(model.status().message()));
      continue;
    }
    for (const Value& want : each.document["expect"].GetArray()) {
      ++outcome.count[Text(want, "kind")];
      Difference difference = CompareEntry(*model, want, of_modules);
      if (!difference) outcome.unanswered.Entry(each, want);
      if (difference) ++outcome.compared;
      // Named and numbered, without a spec.
      if (Text(want, "kind") == "positional_convolution") {
        difference = CompareConvolution(LayersOf(*model, want), want, DepthwiseStages(each, want));
      }
      const std::string path = Text(want, "path");
      if (difference && !difference->empty()) fail((path.empty() ? "" : path + ": ") + *difference);
    }
    // A class that could not be built shows only the rotations that its file defines.
    if (each.document.HasMember("class")) fail(CompareClaims(*model, each));
    outcome.unanswered.Layers(each, *model, positional);
  }
  return outcome;
}

// Every key without an answer has a reason in unanswered.json, and every reason a key that has no answer. What differs for
// files of another kind stands in `of_files`: by class the keys that those do not answer, and under "answered" the keys that
// they do answer.
void ExpectReasons(const Outcome& outcome, KnownDifferences* of_files = nullptr) {
  const rapidjson::Document reasons = ReadLibraryJson("unanswered.json");
  for (const auto& [key, types] : outcome.unanswered.types) {
    if (reasons.HasMember(key.c_str())) continue;
    for (const std::string& type : types) {
      EXPECT_TRUE(of_files && of_files->Has(type, key)) << type << " | " << key;
    }
  }
  for (const auto& entry : reasons.GetObject()) {
    const std::string key = entry.name.GetString();
    const bool needed = outcome.unanswered.types.contains(key);
    EXPECT_TRUE(needed || (of_files && of_files->Has("answered", key))) << "answered | " << key;
    EXPECT_GE(entry.value.GetStringLength(), 20u) << key;
  }
  if (of_files) of_files->ExpectAllSeen();
}

TEST(TransformersGolden, NumbersOfEveryClassMatch) {
  const Outcome outcome = Compare(LibraryCases());
  KnownDifferences exceptions("exceptions.json");
  for (const auto& [type, problems] : outcome.problems) {
    for (const std::string& problem : problems) {
      EXPECT_TRUE(exceptions.Has(type, problem)) << type << " | " << problem;
    }
  }
  exceptions.ExpectAllSeen();
  ExpectReasons(outcome);
  EXPECT_GE(outcome.compared, 700);
  for (const auto& [kind, count] : outcome.count) std::printf("%5d %s\n", count, kind.c_str());
  std::printf("%d entries compared; %zu exceptions\n", outcome.compared, exceptions.reasons().size());
}

// A file that says no more than its class: every number is the class's default.
TEST(TransformersGolden, DefaultsOfEveryClassMatch) {
  auto cases = LibraryCases();
  for (LibraryCase& each : cases) each.config = R"({"model_type":")" + each.type + R"("})";
  const Outcome outcome = Compare(cases);
  KnownDifferences exceptions("exceptions.json"), of_defaults("defaults_exceptions.json");
  for (const auto& [type, problems] : outcome.problems) {
    for (const std::string& problem : problems) {
      const bool known = exceptions.Has(type, problem) || of_defaults.Has(type, problem);
      EXPECT_TRUE(known) << type << " | " << problem;
    }
  }
  of_defaults.ExpectAllSeen();
  KnownDifferences unanswered("defaults_unanswered.json");
  ExpectReasons(outcome, &unanswered);
  for (const auto& [type, reason] : of_defaults.reasons()) {
    if (reason.find("default base") == std::string::npos) continue;
    const auto model = ReadModelConfig(R"({"model_type":")" + type + R"("})");
    ASSERT_TRUE(model.ok()) << type;
    const bool said = std::any_of(model->layers.begin(), model->layers.end(), [](const LayerEncoding& layer) {
      return std::any_of(layer.warnings.begin(), layer.warnings.end(),
                         [](const Note& note) { return note.message.find("transformers 5 takes") != std::string::npos; });
    });
    EXPECT_TRUE(said) << type << " does not name the new base";
  }
  std::printf("%d entries of defaults compared; %zu exceptions more\n", outcome.compared, of_defaults.reasons().size());
  EXPECT_GE(outcome.compared, 700);
}

}  // namespace
}  // namespace phasor::server
