// Which scheme answers a class of modules that is compared by its name alone.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_SCHEMES_H_
#define PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_SCHEMES_H_

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {

// Schemes that the cases of terms.json answer such a class with: terms_golden_test holds their numbers to the module's own.
inline std::map<std::string, std::set<std::string>> SchemesOfModules(const std::string& file) {
  std::ifstream in(file);
  std::stringstream text;
  text << in.rdbuf();
  rapidjson::Document document;
  document.Parse<rapidjson::kParseFullPrecisionFlag>(text.str().c_str());
  std::map<std::string, std::set<std::string>> of_cases, schemes;
  for (const Value& each : document["cases"].GetArray()) {
    rapidjson::StringBuffer buffer;
    rapidjson::Writer<rapidjson::StringBuffer> writer(buffer);
    each["config"].Accept(writer);
    const auto model = ReadModelConfig(buffer.GetString());
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
