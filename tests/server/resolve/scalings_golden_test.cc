// What every attention of transformers multiplies q·k by (tests/golden/transformers/scalings.json), against the softmax
// scale of the answer for the same class.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_cases.h"
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {
namespace {

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
  int compared = 0;
  int unsaid = 0;
  for (const LibraryCase& each : LibraryCases()) {
    if (!goldens.HasMember(each.type.c_str())) continue;
    const auto model = ReadModelConfig(each.config);
    if (!model.ok()) continue;  // transformers_golden_test has its reason
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
          fits = fits || std::fabs(got - factor) <= 1e-6 * got;
        }
      }
      if (got == 0 && !(as_one && layer.kind == PositionKind::kBias)) {
        ++unsaid;
        continue;
      }
      ++compared;
      EXPECT_TRUE(fits) << each.type << " | '" << layer.layer_type << "': " << got << " instead of "
                        << (*entries.front())[3].GetDouble();
    }
  }
  EXPECT_GE(compared, 300);
  std::printf("%d layers compared; %d leave the scale to a width that they do not give\n", compared, unsaid);
}

}  // namespace
}  // namespace phasor::server
