// Which layers of every class of transformers rotate, and by which numbers, against the library's own layers
// (tests/golden/transformers/layers.json): of the configuration that each class saves, of the same without the lists that
// the class makes by itself, and of other patterns.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {
namespace {

// Takes the key out, wherever it is.
void Remove(Value& object, const char* key) {
  object.RemoveMember(key);
  for (auto& member : object.GetObject()) {
    if (member.value.IsObject()) Remove(member.value, key);
  }
}

bool Near(double got, double want) {
  constexpr double kFactor = 4;  // tables of sines, where the library keeps no frequencies
  return std::fabs(got - want) <= kFactor * kTolerance * std::fabs(want);
}

// One layer against one of the library's tables.
std::string CompareTable(const LayerEncoding& layer, const Value& table) {
  if (!table.HasMember("pairs")) return "";
  const auto resolved = Resolve(*layer.spec, 1, Precision::kExact);
  if (!resolved.ok()) return "resolve: " + std::string(resolved.status().message());
  const auto& inv_freq = std::get<AnglePlan>(resolved->plan).inv_freq;
  std::ostringstream text;
  if (inv_freq.size() != table["pairs"].GetUint64()) {
    text << inv_freq.size() << " pairs instead of " << table["pairs"].GetUint64();
  } else if (!Near(inv_freq.front(), table["first"].GetDouble())) {
    text << "first frequency " << inv_freq.front() << " instead of " << table["first"].GetDouble();
  } else if (!Near(inv_freq[inv_freq.size() > 1 ? 1 : 0], table["second"].GetDouble())) {
    text << "second frequency " << inv_freq[1] << " instead of " << table["second"].GetDouble();
  } else if (!Near(inv_freq.back(), table["last"].GetDouble())) {
    text << "last frequency " << inv_freq.back() << " instead of " << table["last"].GetDouble();
  } else if (!Near(resolved->attention_factor, table["factor"].GetDouble())) {
    text << "factor " << resolved->attention_factor << " instead of " << table["factor"].GetDouble();
  }
  return text.str();
}

struct Tally {
  int layers = 0, turning = 0, still = 0, open = 0, models = 0;
};

// What the answer says about one layer of the library.
std::string CompareLayer(const std::vector<const LayerEncoding*>& groups, int64_t index, const Value* table) {
  bool turns = false;
  for (const LayerEncoding* group : groups) {
    const auto& list = group->layers;
    if (!list.empty() && std::find(list.begin(), list.end(), index) == list.end()) continue;
    // Music Flamingo turns its sounds by their times before the layers.
    if (group->kind != PositionKind::kRope || group->layer_type == "audio_times") continue;
    turns = true;
    if (!table) return "'" + group->layer_type + "' rotates, and the library's layer does not";
    if (const std::string problem = CompareTable(*group, *table); !problem.empty()) {
      return "'" + group->layer_type + "': " + problem;
    }
  }
  return table && !turns ? "does not rotate, and the library's layer does" : "";
}

// "0-3, 7" of such layers.
std::string Ranges(const std::vector<int64_t>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool goes_on = i > 0 && layers[i] == layers[i - 1] + 1;
    if (goes_on && i + 1 < layers.size() && layers[i + 1] == layers[i] + 1) continue;
    text += (i == 0 ? "" : goes_on ? "-" : ", ") + std::to_string(layers[i]);
  }
  return text;
}

// What differs in one list of layers, each difference with the layers that show it.
std::vector<std::string> CompareRow(const ModelEncoding& model, const Value& row, Tally& tally) {
  const std::string letters = Text(row, "layers");
  const auto groups = LayersOf(model, row);
  std::map<std::string, std::vector<int64_t>> differing;
  ++tally.models;
  for (size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] == '?') {
      ++tally.open;
      continue;
    }
    ++tally.layers;
    ++(letters[i] == '-' ? tally.still : tally.turning);
    const Value* table = letters[i] == '-' ? nullptr : &row["tables"][static_cast<rapidjson::SizeType>(letters[i] - 'a')];
    const std::string problem = CompareLayer(groups, static_cast<int64_t>(i), table);
    if (!problem.empty()) differing[problem].push_back(static_cast<int64_t>(i));
  }
  std::vector<std::string> differences;
  const std::string where = Join(Text(row, "group"), Text(row, "side"));
  for (const auto& [problem, layers] : differing) {
    differences.push_back((where.empty() ? "" : where + " ") + "layers " + Ranges(layers) + " of " +
                          std::to_string(letters.size()) + ": " + problem);
  }
  return differences;
}

class LayersGolden : public testing::Test {
 protected:
  void SetUp() override {
    for (LibraryCase& each : LibraryCases()) configurations_.emplace(each.type, std::move(each.document));
  }

  const rapidjson::Document goldens_ = ReadLibraryJson("layers.json");
  std::map<std::string, rapidjson::Document> configurations_;

  // The configuration of one entry, with or without the lists that the class makes.
  rapidjson::Document ConfigurationOf(const std::string& type, const Value& entry, bool bare) const {
    rapidjson::Document config;
    config.CopyFrom(configurations_.at(type)["config"], config.GetAllocator());
    const bool changed = entry.HasMember("changes");
    if ((bare || changed) && entry.HasMember("made_by_class")) {
      for (const Value& key : entry["made_by_class"].GetArray()) Remove(config, key.GetString());
    }
    if (!changed) return config;
    for (const auto& change : entry["changes"].GetObject()) {
      config.RemoveMember(change.name.GetString());
      Value name(change.name, config.GetAllocator());
      config.AddMember(name, Value(change.value, config.GetAllocator()), config.GetAllocator());
    }
    return config;
  }

  // What differs in one entry.
  std::vector<std::string> CompareModel(const std::string& type, const Value& entry, bool bare, Tally& tally) const {
    const auto model = ReadModelConfig(JsonText(ConfigurationOf(type, entry, bare)));
    if (!model.ok()) return {"read: " + std::string(model.status().message())};
    std::vector<std::string> differences;
    for (const Value& row : entry["rows"].GetArray()) {
      if (!row.HasMember("layers")) continue;
      for (std::string& each : CompareRow(*model, row, tally)) differences.push_back(std::move(each));
    }
    return differences;
  }

  // `exceptions` lists what differs in these runs.
  void CompareAll(bool bare, const char* exceptions, Tally& tally) const {
    KnownDifferences known(exceptions), faults("exceptions.json");
    for (const auto& [name, entries] : goldens_.GetObject()) {
      const std::string type = name.GetString();
      for (const Value& entry : entries.GetArray()) {
        if (!entry.HasMember("rows") || (bare && !entry.HasMember("made_by_class"))) continue;
        const std::string changed = entry.HasMember("changes") ? "with " + JsonText(entry["changes"]) + ": " : "";
        for (const std::string& difference : CompareModel(type, entry, bare, tally)) {
          // A file that is refused is so in every test.
          if (faults.Has(type, difference)) continue;
          EXPECT_TRUE(known.Has(type, changed + difference)) << type << " | " << changed << difference;
        }
      }
    }
    known.ExpectAllSeen();
    std::printf("%d lists of layers: %d layers, %d rotate and %d do not; %d could not be run\n", tally.models, tally.layers,
                tally.turning, tally.still, tally.open);
  }
};

TEST_F(LayersGolden, LayersOfEveryClassRotateAsTheLibrarysDo) {
  Tally tally;
  CompareAll(false, "layers_exceptions.json", tally);
  EXPECT_GE(tally.layers, 9000);
  EXPECT_GE(tally.still, 700);
}

TEST_F(LayersGolden, ClassesMakeTheListsThatFilesLeaveOut) {
  Tally tally;
  CompareAll(true, "layers_without_lists_exceptions.json", tally);
  EXPECT_GE(tally.still, 500);
}

}  // namespace
}  // namespace phasor::server
