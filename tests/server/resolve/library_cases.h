// The goldens of tests/golden/transformers as tests read them.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_CASES_H_
#define PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_CASES_H_

#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace phasor::server {

inline constexpr char kLibraryFolder[] = PHASOR_SOURCE_DIR "/tests/golden/transformers/";
inline constexpr unsigned kLibraryFlags = rapidjson::kParseNanAndInfFlag | rapidjson::kParseFullPrecisionFlag;

inline rapidjson::Document ReadLibraryJson(const char* name) {
  std::ifstream in(std::string(kLibraryFolder) + name);
  std::stringstream text;
  text << in.rdbuf();
  rapidjson::Document document;
  document.Parse<kLibraryFlags>(text.str().c_str());
  return document;
}

inline std::string JsonText(const rapidjson::Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>, rapidjson::CrtAllocator,
                    rapidjson::kWriteNanAndInfFlag>
      writer(buffer);
  value.Accept(writer);
  return buffer.GetString();
}

// One configuration class and the file that it saves.
struct LibraryCase {
  std::string type;
  std::string config;
};

inline std::vector<LibraryCase> LibraryCases() {
  std::vector<LibraryCase> cases;
  std::ifstream in(std::string(kLibraryFolder) + "cases.jsonl");
  for (std::string line; std::getline(in, line);) {
    rapidjson::Document document;
    document.Parse<kLibraryFlags>(line.c_str());
    if (document.HasMember("config")) cases.push_back({document["type"].GetString(), JsonText(document["config"])});
  }
  return cases;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_CASES_H_
