// Every configuration class of transformers, from the config.json text that it saves, against the numbers of the library's
// own position modules (tests/golden/transformers).
#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/feature_compare.h"
#include "tests/server/resolve/library_compare.h"
#include "tests/server/resolve/library_schemes.h"
#include "tests/server/resolve/table_compare.h"

namespace phasor::server {
namespace {

constexpr char kFolder[] = PHASOR_SOURCE_DIR "/tests/golden/transformers/";
constexpr unsigned kParseFlags = rapidjson::kParseNanAndInfFlag | rapidjson::kParseFullPrecisionFlag;
rapidjson::Document Parse(const std::string& text) {
  rapidjson::Document document;
  document.Parse<kParseFlags>(text.c_str());
  return document;
}

std::string ToText(const Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>, rapidjson::CrtAllocator,
                    rapidjson::kWriteNanAndInfFlag>
      writer(buffer);
  value.Accept(writer);
  return buffer.GetString();
}

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

struct Case {
  std::string type;
  std::string config;
  rapidjson::Document document;
};

std::vector<Case> Cases() {
  std::vector<Case> cases;
  std::ifstream in(std::string(kFolder) + "cases.jsonl");
  for (std::string line; std::getline(in, line);) {
    Case each;
    each.document = Parse(line);
    each.type = each.document["type"].GetString();
    if (each.document.HasMember("config")) each.config = ToText(each.document["config"]);
    cases.push_back(std::move(each));
  }
  return cases;
}

const Value* EntryOf(const LayerEncoding& layer, const ModelEncoding& model, const Case& each, const char* kind) {
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
std::string CompareClaims(const ModelEncoding& model, const Case& each) {
  for (const LayerEncoding& layer : model.layers) {
    const std::string kind = KindOf(layer);
    // A part may be one that the class of the whole does not build.
    if (!layer.part.empty() || (kind != "rope" && kind != "alibi" && kind != "sinusoidal")) continue;
    if (!EntryOf(layer, model, each, kind.c_str()))
      return kind + " in '" + layer.layer_type + "', where the library has none";
  }
  return "";
}

using Problems = std::map<std::string, std::vector<std::string>>;

// What the library has and the answer does not: each needs a reason in unanswered.json, by its key.
struct Unanswered {
  std::map<std::string, std::set<std::string>> types;  // key → model types

  void Entry(const Case& each, const Value& want) {
    std::string key = Text(want, "kind") + " " + Text(want, "module");
    // Tables of plain classes are told apart by the names of their weights.
    if (Text(want, "kind") == "learned") {
      const std::string at = Text(want, "at");
      key += " " + (want.HasMember("name") ? Text(want, "name") : at.substr(at.rfind('.') + 1));
    }
    types[key].insert(each.type);
  }
  void Layers(const Case& each, const ModelEncoding& model, const std::set<std::string>& positional) {
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
  std::ifstream in(std::string(kFolder) + "modules.json");
  std::stringstream text;
  text << in.rdbuf();
  std::set<std::string> types;
  const rapidjson::Document document = Parse(text.str());
  for (const auto& entry : document.GetObject()) types.insert(entry.name.GetString());
  return types;
}

Outcome Compare(const std::vector<Case>& cases) {
  const std::set<std::string> positional = PositionalTypes();
  const auto of_modules = SchemesOfModules(std::string(kFolder) + "terms.json");
  Outcome outcome;
  for (const Case& each : cases) {
    if (each.config.empty()) continue;
    const auto fail = [&](const std::string& problem) {
      if (!problem.empty()) outcome.problems[each.type].push_back(problem);
    };
    const auto model = ReadModelConfig(each.config);
    if (!model.ok()) {
      fail("read: " + std::string(model.status().message()));
      continue;
    }
    for (const Value& want : each.document["expect"].GetArray()) {
      const std::string kind = Text(want, "kind");
      ++outcome.count[kind];
      const std::string path = Text(want, "path");
      const std::string where = path.empty() ? "" : path + ": ";
      std::string problem;
      if (kind == "rope") {
        problem = CompareGroup(*model, want, &CompareRope);
      } else if (kind == "mrope" || kind == "axial") {
        problem = Text(want, "pairing") == "half_split_per_axis" ? CompareHalves(*model, want)
                                                                 : CompareGroup(*model, want, &CompareSeveralAxes);
      } else if (kind == "alibi") {
        problem = CompareGroup(*model, want, &CompareSlopes);
      } else if (kind == "sinusoidal") {
        problem = CompareGroup(*model, want, &CompareSinusoids);
      } else if (kind == "t5_bucket") {
        problem = "no layer matches";
        for (const LayerEncoding* layer : LayersOf(*model, want)) {  // one stack alone does not say which it is
          if (problem.empty()) break;
          problem = CompareBuckets(*layer, want);
          if (problem.empty()) problem = CompareBiasTable(*layer, want);
        }
      } else if (kind == "swin_bias" || kind == "continuous_window_bias") {
        problem = CompareGroup(*model, want, &CompareWindow);
      } else if (kind == "deberta_bucket") {
        problem = CompareGroup(*model, want, &CompareLogBuckets);
      } else if (kind == "relative_sinusoidal") {
        problem = CompareGroup(*model, want, &CompareRelativeSinusoid);
      } else if (IsFeatureKind(kind)) {
        problem = CompareFeatures(LayersOf(*model, want), want);
      } else if (kind == "relative_positions" || kind == "relative_bias" || kind == "rope_uneven_pairs") {
        const auto schemes = of_modules.find(Text(want, "module"));
        problem = schemes == of_modules.end() ? "no case of terms.json has module " + Text(want, "module")
                                              : CompareScheme(*model, want, schemes->second);
      } else if (kind == "rope_2d_dinov3") {
        problem = CompareGroup(*model, want, &CompareDinoV3);
      } else if (kind == "axial_grid") {
        problem = CompareGroup(*model, want, &CompareAxialGrid);
      } else if (kind == "learned") {
        // Tables of queries, boxes and the like are weights too, but no layer's positions: those that are answered must fit.
        if (Text(want, "at").ends_with("rel_pos_emb")) {
          const auto* shaw =
              std::get_if<ShawSpec>(LayersOf(*model, want).empty() ? nullptr : SpecOf(*LayersOf(*model, want)[0]));
          if (shaw) {
            ++outcome.compared;
            if (2 * shaw->clip + 1 != want["rows"].GetInt64()) fail(where + "clip: " + std::to_string(shaw->clip));
            continue;
          }
        }
        const Layers tables = TablesOf(*model, want);
        const bool answered = HasTable(tables, want);
        const bool others = std::any_of(tables.begin(), tables.end(),
                                        [](const LayerEncoding* layer) { return layer->kind == PositionKind::kLearned; });
        if (!answered && !(others && IsMainTable(want))) {
          outcome.unanswered.Entry(each, want);
          continue;
        }
        if (!answered) problem = "no table like " + ToText(want);
      } else if (kind == "neighborhood_bias") {
        problem = CompareNeighborhood(LayersOf(*model, want), want);
      } else if (kind == "positional_convolution") {
        if (const std::string text = CompareConvolution(model->layers, want); !text.empty()) fail(where + text);
        outcome.unanswered.Entry(each, want);  // named and numbered, without a spec
        continue;
      } else {
        outcome.unanswered.Entry(each, want);
        continue;
      }
      ++outcome.compared;
      if (!problem.empty()) fail(where + problem);
    }
    // A class that could not be built shows only the rotations that its file defines.
    if (each.document.HasMember("class")) fail(CompareClaims(*model, each));
    outcome.unanswered.Layers(each, *model, positional);
  }
  return outcome;
}

// Reasons by key.
std::map<std::string, std::string> Reasons(const char* file) {
  std::ifstream in(std::string(kFolder) + file);
  std::stringstream text;
  text << in.rdbuf();
  const rapidjson::Document document = Parse(text.str());
  std::map<std::string, std::string> exceptions;
  for (const auto& entry : document.GetObject()) exceptions[entry.name.GetString()] = entry.value.GetString();
  return exceptions;
}

TEST(TransformersGolden, NumbersOfEveryClassMatch) {
  const auto cases = Cases();
  ASSERT_GE(cases.size(), 820u);
  const Outcome outcome = Compare(cases);
  const auto exceptions = Reasons("exceptions.json");
  for (const auto& [type, problems] : outcome.problems) {
    for (const std::string& problem : problems) {
      if (exceptions.contains(type)) continue;
      ADD_FAILURE() << type << " | " << problem;
    }
  }
  for (const auto& [type, reason] : exceptions) {
    EXPECT_TRUE(outcome.problems.contains(type)) << type << " is listed as an exception and matches";
    EXPECT_GE(reason.size(), 20u) << type;
  }
  const auto reasons = Reasons("unanswered.json");
  for (const auto& [key, types] : outcome.unanswered.types) {
    if (!reasons.contains(key))
      ADD_FAILURE() << "no reason is listed: " << key << " | " << *types.begin() << " (" << types.size() << ")";
  }
  for (const auto& [key, reason] : reasons) {
    EXPECT_TRUE(outcome.unanswered.types.contains(key)) << key << " has a reason and is answered";
    EXPECT_GE(reason.size(), 20u) << key;
  }
  EXPECT_GE(outcome.compared, 700);
  for (const auto& [kind, count] : outcome.count) std::printf("%5d %s\n", count, kind.c_str());
  std::printf("%d entries compared; %zu exceptions\n", outcome.compared, exceptions.size());
}

// A file that says no more than its class: every number is the class's default.
TEST(TransformersGolden, DefaultsOfEveryClassMatch) {
  auto cases = Cases();
  for (Case& each : cases) {
    if (each.config.empty()) continue;
    each.config = R"({"model_type":")" + each.type + R"("})";
  }
  const Outcome outcome = Compare(cases);
  const auto exceptions = Reasons("exceptions.json");
  const auto of_defaults = Reasons("defaults_exceptions.json");
  for (const auto& [type, problems] : outcome.problems) {
    for (const std::string& problem : problems) {
      if (exceptions.contains(type) || of_defaults.contains(type)) continue;
      ADD_FAILURE() << type << " | " << problem;
    }
  }
  for (const auto& [type, reason] : of_defaults) {
    EXPECT_TRUE(outcome.problems.contains(type)) << type << " is listed as an exception and matches";
    EXPECT_GE(reason.size(), 20u) << type;
    const auto model = ReadModelConfig(R"({"model_type":")" + type + R"("})");
    ASSERT_TRUE(model.ok()) << type;
    const bool said = std::any_of(model->layers.begin(), model->layers.end(), [](const LayerEncoding& layer) {
      return std::any_of(layer.warnings.begin(), layer.warnings.end(),
                         [](const Note& note) { return note.message.find("transformers 5 takes") != std::string::npos; });
    });
    EXPECT_TRUE(said || reason.find("base") == std::string::npos) << type << " does not name the new base";
  }
  std::printf("%d entries of defaults compared; %zu exceptions more\n", outcome.compared, of_defaults.size());
  EXPECT_GE(outcome.compared, 700);
}

}  // namespace
}  // namespace phasor::server
