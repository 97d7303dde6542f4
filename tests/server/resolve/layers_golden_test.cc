// Which layers of every class of transformers rotate, and by which numbers, against the library's own layers
// (tests/golden/transformers/layers.json): of the configuration that each class saves, of the same without the lists that
// the class makes by itself, and of other patterns.
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
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {
namespace {

constexpr char kFolder[] = PHASOR_SOURCE_DIR "/tests/golden/transformers/";
constexpr unsigned kParseFlags = rapidjson::kParseNanAndInfFlag | rapidjson::kParseFullPrecisionFlag;

rapidjson::Document ReadJson(const std::string& file) {
  std::ifstream in(kFolder + file);
  std::stringstream text;
  text << in.rdbuf();
  rapidjson::Document document;
  document.Parse<kParseFlags>(text.str().c_str());
  return document;
}

std::map<std::string, rapidjson::Document> Configurations() {
  std::map<std::string, rapidjson::Document> configurations;
  std::ifstream in(std::string(kFolder) + "cases.jsonl");
  for (std::string line; std::getline(in, line);) {
    rapidjson::Document document;
    document.Parse<kParseFlags>(line.c_str());
    const std::string type = Text(document, "type");
    if (!document.HasMember("config")) continue;
    rapidjson::Document config;
    config.CopyFrom(document["config"], config.GetAllocator());
    configurations.emplace(type, std::move(config));
  }
  return configurations;
}

std::string ToText(const Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>, rapidjson::CrtAllocator,
                    rapidjson::kWriteNanAndInfFlag>
      writer(buffer);
  value.Accept(writer);
  return buffer.GetString();
}

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

// The first layer that differs; empty when none does.
std::string CompareRow(const ModelEncoding& model, const Value& row, Tally& tally) {
  const std::string letters = Text(row, "layers");
  const auto groups = LayersOf(model, row);
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
    if (!problem.empty()) return Text(row, "group") + Text(row, "side") + " layer " + std::to_string(i) + ": " + problem;
  }
  return "";
}

class LayersGolden : public testing::Test {
 protected:
  const rapidjson::Document goldens_ = ReadJson("layers.json");
  const std::map<std::string, rapidjson::Document> configurations_ = Configurations();

  // The configuration of one entry, with or without the lists that the class makes.
  rapidjson::Document ConfigurationOf(const std::string& type, const Value& entry, bool bare) const {
    rapidjson::Document config;
    config.CopyFrom(configurations_.at(type), config.GetAllocator());
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

  void CompareAll(bool bare, Tally& tally) const {
    const rapidjson::Document reasons = ReadJson("layers_exceptions.json"), faults = ReadJson("exceptions.json");
    std::set<std::string> excepted;
    for (const auto& [name, entries] : goldens_.GetObject()) {
      const std::string type = name.GetString();
      for (const Value& entry : entries.GetArray()) {
        if (!entry.HasMember("rows") || (bare && !entry.HasMember("made_by_class"))) continue;
        const std::string text = ToText(ConfigurationOf(type, entry, bare));
        const auto model = ReadModelConfig(text);
        const bool known = reasons.HasMember(type.c_str()) || faults.HasMember(type.c_str());
        if (!model.ok()) {
          if (!known) ADD_FAILURE() << type << " | " << model.status();
          continue;
        }
        for (const Value& row : entry["rows"].GetArray()) {
          if (!row.HasMember("layers")) continue;
          const std::string problem = CompareRow(*model, row, tally);
          if (!problem.empty()) excepted.insert(type);
          if (problem.empty() || known) continue;
          ADD_FAILURE() << type << (bare ? " without lists" : "") << (entry.HasMember("changes") ? " changed" : "") << " | "
                        << problem << " | " << Text(row, "layers");
        }
      }
    }
    for (const auto& [type, reason] : reasons.GetObject()) {
      EXPECT_TRUE(bare || excepted.contains(type.GetString()))
          << type.GetString() << " is listed as an exception and matches";
      EXPECT_GE(reason.GetStringLength(), 20u);
    }
    std::printf("%d lists of layers: %d layers, %d rotate and %d do not; %d could not be run\n", tally.models, tally.layers,
                tally.turning, tally.still, tally.open);
  }
};

TEST_F(LayersGolden, LayersOfEveryClassRotateAsTheLibrarysDo) {
  Tally tally;
  CompareAll(false, tally);
  EXPECT_GE(tally.layers, 9000);
  EXPECT_GE(tally.still, 700);
}

TEST_F(LayersGolden, ClassesMakeTheListsThatFilesLeaveOut) {
  Tally tally;
  CompareAll(true, tally);
  EXPECT_GE(tally.still, 500);
}

}  // namespace
}  // namespace phasor::server
