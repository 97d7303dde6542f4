// How every rotating class of transformers pairs the channels of a head, as its own functions turn unit vectors
// (tests/golden/transformers/pairings.json), against the pairing of every rotation that is answered for it.
#include <gtest/gtest.h>

#include <algorithm>
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

// The last word of a dotted path, and what stands before it.
std::pair<std::string, std::string> Split(const std::string& path) {
  const size_t dot = path.rfind('.');
  return dot == std::string::npos ? std::pair<std::string, std::string>("", path)
                                  : std::pair(path.substr(0, dot), path.substr(dot + 1));
}

// The golden's entries of a layer: of its part, or of the side (encoder, decoder) that it names.
std::vector<const Value*> EntriesOf(const LayerEncoding& layer, const Value& entries, bool flagged) {
  const auto [before, last] = Split(layer.layer_type);
  for (const bool by_side : {true, false}) {
    std::vector<const Value*> found;
    for (const Value& entry : entries.GetArray()) {
      if (entry.HasMember("rope_interleave") != flagged) continue;
      const std::string group = Text(entry, "group");
      const std::string side = Text(entry, "side");
      const std::string at = layer.part.empty() ? last : layer.part;
      const bool here = by_side ? !side.empty() && (at == side || layer.layer_type == group + "." + side) && group.empty()
                                : group == layer.part;
      if (here) found.push_back(&entry);
    }
    if (!found.empty()) return found;
  }
  return {};
}

struct Tally {
  std::map<std::string, int> pairings;  // layers by pairing
  int unknown = 0;                      // layers of parts that the class does not build
};

// Empty, or what is wrong with a layer.
std::string Check(const LayerEncoding& layer, const Value& entries, bool flagged, Tally& tally) {
  const std::string got = NameOf(*std::get<RopeSpec>(layer.spec->spec).pairing);
  const auto found = EntriesOf(layer, entries, flagged);
  if (found.empty()) return "no entry";
  for (const Value* entry : found) {
    for (const auto& pairing : (*entry)["pairings"].GetObject()) {
      std::string want = pairing.name.GetString();
      const bool backwards = want.ends_with("_backwards");
      if (backwards) want.resize(want.size() - std::string("_backwards").size());
      if (want == "half_split_per_axis") want = "half_split";  // two layer types, one for each half
      if (want != got) return got + " instead of " + want;
      const bool warned = std::any_of(layer.warnings.begin(), layer.warnings.end(), [](const Note& note) {
        return note.message.find("the other way") != std::string::npos;
      });
      if (warned != backwards) return "direction";
    }
  }
  ++tally.pairings[got];
  return "";
}

// Rotations of a part that the whole does not build are those of the part's own class.
const Value* EntriesOfPart(const LayerEncoding& layer, const Value& config, const Value& goldens) {
  const Value* at = &config;
  std::stringstream path(layer.part);
  for (std::string key; std::getline(path, key, '.');) {
    const std::string long_key = key + "_config";
    for (const std::string& wrapper : {std::string(), std::string("thinker_config")}) {
      const Value* from = at;
      if (!wrapper.empty() && from->HasMember(wrapper.c_str())) from = &(*from)[wrapper.c_str()];
      const std::string& name = from->HasMember(long_key.c_str()) ? long_key : key;
      if (!from->HasMember(name.c_str()) || !(*from)[name.c_str()].IsObject()) continue;
      at = &(*from)[name.c_str()];
      break;
    }
  }
  const std::string type = Text(*at, "model_type");
  return at != &config && goldens.HasMember(type.c_str()) ? &goldens[type.c_str()] : nullptr;
}

TEST(PairingsGolden, EveryRotationPairsAsTheLibraryDoes) {
  const rapidjson::Document goldens = ReadLibraryJson("pairings.json");
  ASSERT_TRUE(goldens.IsObject());
  const Value& reasons = goldens["not_probed"];
  KnownDifferences exceptions("exceptions.json");
  Tally tally;
  for (const LibraryCase& each : LibraryCases()) {
    const std::string& type = each.type;
    const auto model = ReadModelConfig(each.config);
    if (!model.ok()) {  // a default that the class itself cannot use
      const std::string difference = "read: " + std::string(model.status().message());
      EXPECT_TRUE(exceptions.Has(type, difference)) << type << " | " << difference;
      continue;
    }
    const bool known = std::none_of(model->warnings.begin(), model->warnings.end(), [](const Note& note) {
      return note.field == "model_type" && note.message.find(" is unknown") != std::string::npos;
    });
    if (!known) continue;
    for (const LayerEncoding& layer : model->layers) {
      // Turning sound by time is held by transformers_golden_test, pairing and all.
      if (layer.kind != PositionKind::kRope || layer.layer_type == "audio_times") continue;
      const Value* own = goldens["types"].HasMember(type.c_str()) ? &goldens["types"][type.c_str()] : nullptr;
      std::string problem = own == nullptr ? "no entry" : Check(layer, *own, false, tally);
      if (problem == "no entry") {
        own = EntriesOfPart(layer, each.document["config"], goldens["types"]);
        LayerEncoding alone = layer;
        alone.part.clear();
        if (own != nullptr) problem = Check(alone, *own, false, tally);
      }
      if (problem.empty()) continue;
      if (reasons.HasMember(type.c_str())) {
        ++tally.unknown;
        EXPECT_GE(reasons[type.c_str()].GetStringLength(), 20u) << type;
        continue;
      }
      ADD_FAILURE() << type << " | '" << layer.layer_type << "': " << problem;
    }
  }
  EXPECT_GE(tally.pairings["half_split"], 300);
  EXPECT_GE(tally.pairings["interleaved"], 40);
  EXPECT_GE(tally.pairings["interleaved_to_half"], 12);
  for (const auto& [pairing, count] : tally.pairings) std::printf("%5d %s\n", count, pairing.c_str());
  std::printf("%5d not probed\n", tally.unknown);
}

// Whether an answer has the rotation of an entry: by the part's name, by the side's, or as one layer type of the model's.
bool Answers(const ModelEncoding& model, const Value& entry) {
  const std::string group = Text(entry, "group");
  const std::string side = Text(entry, "side");
  return std::any_of(model.layers.begin(), model.layers.end(), [&](const LayerEncoding& layer) {
    // LightGlue's rotation takes the cos and sin that are answered.
    const bool makes_angles = layer.spec && std::holds_alternative<GaussianFourierSpec>(layer.spec->spec) &&
                              std::get<GaussianFourierSpec>(layer.spec->spec).radians;
    if (layer.kind != PositionKind::kRope && !makes_angles && !layer.unserved.starts_with("rope")) return false;
    return layer.part == group || (!side.empty() && (layer.part == side || layer.part == group + "." + side)) ||
           layer.layer_type == group || (!group.empty() && layer.part.starts_with(group + "."));
  });
}

// The other way round: no rotation of the library is left out of the answer.
TEST(PairingsGolden, EveryRotationOfTheLibraryIsAnswered) {
  const rapidjson::Document goldens = ReadLibraryJson("pairings.json");
  int answered = 0;
  for (const LibraryCase& each : LibraryCases()) {
    const std::string& type = each.type;
    if (!goldens["types"].HasMember(type.c_str())) continue;
    const auto model = ReadModelConfig(each.config);
    if (!model.ok()) continue;  // EveryRotationPairsAsTheLibraryDoes knows why
    for (const Value& entry : goldens["types"][type.c_str()].GetArray()) {
      if (Answers(*model, entry)) {
        ++answered;
        continue;
      }
      if (goldens["not_by_default"].HasMember(type.c_str())) continue;
      ADD_FAILURE() << type << " | group '" << Text(entry, "group") << "' side '" << Text(entry, "side") << "' "
                    << JsonText(entry["pairings"]);
    }
  }
  std::printf("%5d answered\n", answered);
  EXPECT_GE(answered, 430);
}

// Classes that read rope_interleave, with the value that their default is not.
TEST(PairingsGolden, RopeInterleaveTurnsAsTheLibraryDoes) {
  const rapidjson::Document goldens = ReadLibraryJson("pairings.json");
  Tally tally;
  int types = 0;
  for (LibraryCase& each : LibraryCases()) {
    const std::string& type = each.type;
    Value& config = each.document["config"];
    if (!config.HasMember("rope_interleave")) continue;
    const Value& entries = goldens["types"][type.c_str()];
    const bool flagged =
        std::any_of(entries.Begin(), entries.End(), [](const Value& entry) { return entry.HasMember("rope_interleave"); });
    ASSERT_TRUE(flagged) << type;
    ++types;
    Value& flag = config["rope_interleave"];
    flag.SetBool(!flag.GetBool());
    const auto model = ReadModelConfig(JsonText(config));
    ASSERT_TRUE(model.ok());
    for (const LayerEncoding& layer : model->layers) {
      EXPECT_EQ(Check(layer, entries, true, tally), "") << type;
    }
    // Without the key the class's default counts.
    config.RemoveMember("rope_interleave");
    const auto bare = ReadModelConfig(JsonText(config));
    ASSERT_TRUE(bare.ok());
    for (const LayerEncoding& layer : bare->layers) {
      EXPECT_EQ(Check(layer, entries, false, tally), "") << type;
    }
  }
  EXPECT_GE(types, 6);
  EXPECT_EQ(tally.pairings["half_split"], types);
  EXPECT_EQ(tally.pairings["interleaved_to_half"], types);
}

// Classes whose defaults cannot run without mrope_section, with the sections of published files.
TEST(PairingsGolden, ClassesThatNeedSectionsTurnAsTheLibraryDoes) {
  const rapidjson::Document goldens = ReadLibraryJson("pairings.json");
  Tally tally;
  for (const std::string type : {"glm4v_text", "glm4v_moe_text"}) {
    ASSERT_TRUE(goldens["types"].HasMember(type.c_str())) << type;
    const auto model = ReadModelConfig(R"({"model_type":")" + type +
                                       R"(","head_dim":128,"rope_parameters":{"rope_type":"default","rope_theta":10000.0,)"
                                       R"("mrope_section":[8,12,12],"partial_rotary_factor":0.5}})");
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_EQ(model->layers.size(), 1u);
    ASSERT_EQ(model->layers[0].kind, PositionKind::kRope);
    EXPECT_EQ(Check(model->layers[0], goldens["types"][type.c_str()], false, tally), "") << type;
  }
  // GLM-4.1V and GLM-4.5V differ.
  EXPECT_EQ(tally.pairings["interleaved"], 1);
  EXPECT_EQ(tally.pairings["half_split"], 1);
}

}  // namespace
}  // namespace phasor::server
