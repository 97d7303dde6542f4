// Which scheme answers a class of modules that is compared by its name alone.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_SCHEMES_H_
#define PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_SCHEMES_H_

#include <map>
#include <set>
#include <string>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {

// Schemes that the cases of terms.json answer such a class with: terms_golden_test holds their numbers to the module's own.
inline std::map<std::string, std::set<std::string>> SchemesOfModules() {
  const rapidjson::Document document = ReadLibraryJson("terms.json");
  std::map<std::string, std::set<std::string>> of_cases, schemes;
  for (const Value& each : document["cases"].GetArray()) {
    const auto model = ReadModelConfig(JsonText(each["config"]));
    if (!model.ok()) continue;
    for (const Value& want : each["layers"].GetArray()) {
      for (const LayerEncoding& layer : model->layers) {
        if (layer.layer_type != Text(want, "layer_type") || want.HasMember("table") || !layer.spec) continue;
        of_cases[Text(each, "name")].insert(std::string(SchemeOf(layer.spec->spec).name));
      }
    }
  }
  for (const auto& module : document["modules"].GetObject()) {
    schemes[module.name.GetString()] = of_cases[module.value.GetString()];
  }
  return schemes;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_SCHEMES_H_
