// What every attention of transformers multiplies q·k by (tests/golden/transformers/scalings.json), against the softmax
// scale of the answer for the same class.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {
namespace {

// The golden has factors that the library computes in float64, cut to 9 digits: at most half a unit of the ninth
// of 1.00000000.
constexpr double kCut = 5e-9;

// The scale that an answer says; 0 where it leaves it to a head's width that it does not give.
double ScaleOf(const LayerEncoding& layer) {
  if (layer.softmax_scale) return *layer.softmax_scale;
  if (layer.kind != PositionKind::kRope) return 0;
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  return 1 / std::sqrt(static_cast<double>(spec.head_dim));
}

// The entries [group, side, layer type, factors…] of a layer: of its part and its type, and of the side that it names.
std::vector<const Value*> EntriesOf(const LayerEncoding& layer, const Value& entries) {
  const std::string dotted = "." + layer.layer_type + ".";
  const auto named = [&](const std::string& word) { return dotted.find("." + word + ".") != std::string::npos; };
  const std::string last = layer.layer_type.substr(layer.layer_type.rfind('.') + 1);
  std::vector<const Value*> own, without, others;
  for (const Value& entry : entries.GetArray()) {
    const std::string group = entry[0].GetString();
    const std::string side = entry[1].GetString();
    const std::string type = entry[2].GetString();
    const bool part =
        layer.part == group || (group.empty() && layer.part == side) || (!side.empty() && layer.part == group + "." + side);
    if (!part || (!type.empty() && last != type && layer.layer_type != layer.part)) continue;
    (side.empty() ? without : named(side) ? own : others).push_back(&entry);
  }
  return !own.empty() ? own : !without.empty() ? without : others;
}

TEST(ScalingsGolden, EveryAttentionIsScaledAsInTheLibrary) {
  const rapidjson::Document goldens = ReadLibraryJson("scalings.json");
  ASSERT_TRUE(goldens.IsObject());
  KnownDifferences exceptions("exceptions.json");
  int compared = 0;
  std::map<std::string, int> unsaid;  // layers by kind
  for (const LibraryCase& each : LibraryCases()) {
    if (!goldens.HasMember(each.type.c_str())) continue;
    const auto model = ReadModelConfig(each.config);
    if (!model.ok()) {
      EXPECT_TRUE(exceptions.Has(each.type, "read: " + std::string(model.status().message()))) << each.type;
      continue;
    }
    for (const LayerEncoding& layer : model->layers) {
      const auto entries = EntriesOf(layer, goldens[each.type.c_str()]);
      if (entries.empty() || layer.layer_type.ends_with("embedding")) continue;
      const double got = ScaleOf(layer);
      bool as_one = false;
      bool fits = false;
      for (const Value* entry : entries) {
        for (rapidjson::SizeType i = 3; i < entry->Size(); ++i) {
          const double factor = (*entry)[i].GetDouble();
          as_one = as_one || factor == 1;
          fits = fits || std::fabs(got - factor) <= kCut * factor;
        }
      }
      if (got == 0 && !(as_one && layer.kind == PositionKind::kBias)) {
        ++unsaid[KindOf(layer)];
        continue;
      }
      ++compared;
      EXPECT_TRUE(fits) << each.type << " | '" << layer.layer_type << "': " << got << " instead of "
                        << (*entries.front())[3].GetDouble();
    }
  }
  // What these goldens are compared with today: a class that no longer says its scale shows here or below.
  EXPECT_GE(compared, 446);
  // A rotation knows its head's width, and so its scale. Tables and sinusoids stand before the layers, and a layer without
  // positions or without a spec says nothing. Of the others these many have no width in their spec, and a configuration that
  // does not decide the scale.
  const std::map<std::string, int> most = {{"alibi", 2}, {"bias", 31}, {"mrope", 4}, {"term", 62}};
  const std::set<std::string> free = {"learned", "sinusoidal", "none", "positional_convolution"};
  for (const auto& [kind, count] : unsaid) {
    if (free.contains(kind)) continue;
    EXPECT_LE(count, most.contains(kind) ? most.at(kind) : 0) << kind;
  }
}

}  // namespace
}  // namespace phasor::server
