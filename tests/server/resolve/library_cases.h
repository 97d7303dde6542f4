// The goldens of tests/golden as tests read them, and the lists of what is known to differ from them.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_CASES_H_
#define PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_CASES_H_

#include <gtest/gtest.h>
#include <rapidjson/document.h>
#include <rapidjson/stringbuffer.h>
#include <rapidjson/writer.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace phasor::server {

using rapidjson::Value;

inline rapidjson::Document ParseJson(const std::string& text) {
  rapidjson::Document document;
  document.Parse<rapidjson::kParseNanAndInfFlag | rapidjson::kParseFullPrecisionFlag>(text.c_str());
  return document;
}

// A file under tests/golden. One that is missing or no JSON fails the test.
inline rapidjson::Document ReadGoldenJson(const std::string& name) {
  std::ifstream in(PHASOR_SOURCE_DIR "/tests/golden/" + name);
  std::stringstream text;
  text << in.rdbuf();
  rapidjson::Document document = ParseJson(text.str());
  EXPECT_FALSE(document.HasParseError()) << name;
  return document;
}

inline rapidjson::Document ReadLibraryJson(const std::string& name) { return ReadGoldenJson("transformers/" + name); }

inline std::string JsonText(const Value& value) {
  rapidjson::StringBuffer buffer;
  rapidjson::Writer<rapidjson::StringBuffer, rapidjson::UTF8<>, rapidjson::UTF8<>, rapidjson::CrtAllocator,
                    rapidjson::kWriteNanAndInfFlag>
      writer(buffer);
  value.Accept(writer);
  return buffer.GetString();
}

// A member that is a string; empty where there is none.
inline std::string Text(const Value& value, const char* key) {
  return value.HasMember(key) && value[key].IsString() ? value[key].GetString() : "";
}

// One configuration class: the file that it saves, and the whole line of cases.jsonl.
struct LibraryCase {
  std::string type;
  std::string config;
  rapidjson::Document document;
};

// Every class whose default configuration the library can make: all but two of cases.jsonl.
inline std::vector<LibraryCase> LibraryCases() {
  std::vector<LibraryCase> cases;
  std::ifstream in(PHASOR_SOURCE_DIR "/tests/golden/transformers/cases.jsonl");
  for (std::string line; std::getline(in, line);) {
    rapidjson::Document document = ParseJson(line);
    if (!document.HasMember("config")) continue;
    cases.push_back({document["type"].GetString(), JsonText(document["config"]), std::move(document)});
  }
  EXPECT_EQ(cases.size(), 820u);
  return cases;
}

// The files of a folder of tests/golden that end so, without the ending, in order; and such a name as a test may be called.
inline std::vector<std::string> GoldenNames(const std::string& folder, const std::string& ending) {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(PHASOR_SOURCE_DIR "/tests/golden/" + folder)) {
    if (file.path().extension() == ending) names.push_back(file.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string GoldenTestName(const ::testing::TestParamInfo<std::string>& golden) {
  std::string name = golden.param;
  std::replace_if(name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); }, '_');
  return name;
}

// Differences that are known, by class or question: {"reason": text, "differs": [difference, …]}. Each listed difference
// excuses itself alone, word for word, and must still be there.
class KnownDifferences {
 public:
  explicit KnownDifferences(const std::string& name) : name_(name) {
    const rapidjson::Document document = ReadLibraryJson(name);
    for (const auto& entry : document.GetObject()) {
      const std::string key = entry.name.GetString();
      EXPECT_GE(entry.value["reason"].GetStringLength(), 20u) << name << ": " << key;
      EXPECT_GT(entry.value["differs"].Size(), 0u) << name << ": " << key;
      for (const Value& difference : entry.value["differs"].GetArray()) listed_[key].insert(difference.GetString());
      reasons_[key] = entry.value["reason"].GetString();
    }
  }

  // Whether the difference is listed; it then counts as seen.
  bool Has(const std::string& key, const std::string& difference) {
    const auto found = listed_.find(key);
    if (found == listed_.end() || !found->second.contains(difference)) return false;
    seen_[key].insert(difference);
    return true;
  }

  void ExpectAllSeen() const {
    for (const auto& [key, differences] : listed_) {
      for (const std::string& difference : differences) {
        const auto found = seen_.find(key);
        EXPECT_TRUE(found != seen_.end() && found->second.contains(difference))
            << name_ << " lists a difference that is not there: " << key << " | " << difference;
      }
    }
  }

  const std::map<std::string, std::string>& reasons() const { return reasons_; }

 private:
  std::string name_;
  std::map<std::string, std::set<std::string>> listed_, seen_;
  std::map<std::string, std::string> reasons_;
};

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_CASES_H_
