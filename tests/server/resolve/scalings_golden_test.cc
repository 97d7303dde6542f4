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

// The layers of an entry [group, side, layer type, factors…].
std::vector<const LayerEncoding*> LayersAt(const ModelEncoding& model, const Value& entry) {
  const std::string group = entry[0].GetString();
  const std::string side = entry[1].GetString();
  const std::string type = entry[2].GetString();
  std::vector<const LayerEncoding*> found;
  for (const LayerEncoding& layer : model.layers) {
    const std::string last = layer.layer_type.substr(layer.layer_type.rfind('.') + 1);
    const bool part =
        layer.part == group || (group.empty() && layer.part == side) || (!side.empty() && layer.part == group + "." + side);
    const bool one_side = layer.part != group || side.empty() || (last != "encoder" && last != "decoder") || last == side;
    // V-JEPA 2's parts are no sub-configurations: "encoder.even_channels", "predictor.even_channels".
    const std::string half = layer.layer_type.substr(0, layer.layer_type.find('.'));
    if (half != last && (half == "encoder" || half == "predictor") && (half == "encoder") != (side == "encoder")) continue;
    if ((!part && half != side) || !one_side || last == "embedding") continue;
    if (!type.empty() && last != type && layer.layer_type != layer.part) continue;
    found.push_back(&layer);
  }
  return found;
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
    for (const Value& entry : goldens[each.type.c_str()].GetArray()) {
      for (const LayerEncoding* layer : LayersAt(*model, entry)) {
        const double got = ScaleOf(*layer);
        bool as_one = false;
        bool fits = false;
        for (rapidjson::SizeType i = 3; i < entry.Size(); ++i) {
          as_one = as_one || entry[i].GetDouble() == 1;
          fits = fits || std::fabs(got - entry[i].GetDouble()) <= 1e-6 * got;
        }
        if (got == 0 && !(as_one && layer->kind == PositionKind::kBias)) {
          ++unsaid;
          continue;
        }
        ++compared;
        EXPECT_TRUE(fits) << each.type << " | '" << layer->layer_type << "': " << got << " instead of "
                          << entry[3].GetDouble();
      }
    }
  }
  EXPECT_GE(compared, 300);
  std::printf("%d layers compared; %d leave the scale to a width that they do not give\n", compared, unsaid);
}

}  // namespace
}  // namespace phasor::server
