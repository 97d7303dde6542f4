// index.json beside the list of schemes: every scheme has a case, expected values of two sources (or one and the reason),
// and a commented message in the contract.
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/encodings/encoding.h"
#include "tests/conformance/cases.h"

namespace phasor {
namespace {

using rapidjson::Value;

std::string Text(const std::string& file) {
  static std::map<std::string, std::string> known;
  const auto [it, is_new] = known.try_emplace(file);
  if (is_new) {
    std::ifstream in(std::string(PHASOR_SOURCE_DIR "/") + file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    it->second = text.str();
  }
  return it->second;
}

const Value& Index(const char* part) {
  static const rapidjson::Document* const document = [] {
    auto* parsed = new rapidjson::Document;
    parsed->Parse(Text("tests/conformance/index.json").c_str());
    return parsed;
  }();
  EXPECT_TRUE(document->IsObject());
  return (*document)[part];
}

// What is wrong with a row for a scheme; empty when nothing is.
std::vector<std::string> Faults(const Value& row, const std::string& proto) {
  std::vector<std::string> faults;
  const std::string scheme = row["scheme"].GetString(), message = row["message"].GetString();
  const std::vector<Case> cases = ConformanceCases();
  if (std::none_of(cases.begin(), cases.end(), [&](const Case& c) { return SchemeOf(c.spec).name == scheme; })) {
    faults.push_back("no case");
  }
  for (const char* source : {"library", "exact"}) {
    if (row[source].Empty() && !row.HasMember("one_source")) faults.push_back(std::string("no golden: ") + source);
    for (const Value& golden : row[source].GetArray()) {
      const std::string file = golden["file"].GetString(), holds = golden["holds"].GetString();
      if (Text(file).find(holds) == std::string::npos) faults.push_back(file + " does not hold " + holds);
    }
  }
  if (row["library"].Empty() && row["exact"].Empty()) faults.push_back("no golden at all");
  if (row.HasMember("one_source") && row["one_source"].GetStringLength() < 40) faults.push_back("no reason for one source");
  if (row.HasMember("one_source") && !row["library"].Empty() && !row["exact"].Empty()) faults.push_back("a reason too many");

  const size_t at = proto.find("\nmessage " + message + " {");
  if (at == std::string::npos) {
    faults.push_back("no message " + message);
    return faults;
  }
  const size_t line = proto.rfind('\n', at - 1) + 1;
  if (proto.compare(line, 3, "// ") != 0) faults.push_back("no comment above message " + message);
  // Every field of it has a comment above it; a message without fields says all in its own.
  std::istringstream body(proto.substr(at + 1, proto.find("\n}", at) - at));
  std::string above, text;
  for (std::getline(body, text); std::getline(body, text); above = text) {
    const bool is_field = text.find(" = ") != std::string::npos && text.find("//") == std::string::npos;
    if (is_field && above.find("//") == std::string::npos) faults.push_back("no comment above " + text);
  }
  return faults;
}

TEST(IndexTest, EverySchemeHasACaseGoldensAndAMessage) {
  const std::string proto = Text("proto/phasor/v1/encoding.proto");
  std::multiset<std::string> rows;
  for (const Value& row : Index("schemes").GetArray()) {
    rows.insert(row["scheme"].GetString());
    for (const std::string& fault : Faults(row, proto)) ADD_FAILURE() << row["scheme"].GetString() << ": " << fault;
  }
  for (const Scheme* scheme : Schemes()) EXPECT_EQ(rows.count(std::string(scheme->name)), 1u) << scheme->name;
  EXPECT_EQ(rows.size(), Schemes().size());
}

// The check can fail, each part of it.
TEST(IndexTest, WhatIsMissingIsSaid) {
  const auto faults = [](const std::string& row, const std::string& proto) {
    rapidjson::Document document;
    document.Parse(row.c_str());
    return Faults(document, proto);
  };
  const std::string good =
      R"({"scheme":"alibi","message":"M","library":[{"file":"tests/golden/bias/bias.json","holds":"bloom"}],"exact":[],)"
      R"("one_source":"a reason that is long enough to be one of those"})";
  const std::string proto = "// What it is.\nmessage M {\n  // A field.\n  int64 a = 1;\n}\n";
  EXPECT_TRUE(faults(good, proto).empty());
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string row = good;
    return row.replace(row.find(from), from.size(), to);
  };
  EXPECT_EQ(faults(with("\"alibi\"", "\"no_scheme\""), proto).size(), 1u);
  EXPECT_EQ(faults(with("holds\":\"bloom", "holds\":\"nothing of it"), proto).size(), 1u);
  EXPECT_EQ(faults(with("bias.json", "no_such.json"), proto).size(), 1u);
  EXPECT_EQ(faults(with("one_source", "no_reason"), proto).size(), 1u);
  EXPECT_EQ(faults(with("\"M\"", "\"N\""), proto).size(), 1u);
  EXPECT_EQ(faults(good, "int64 x = 1;\nmessage M {\n  // A field.\n  int64 a = 1;\n}\n").size(), 1u);
  EXPECT_EQ(faults(good, "// What it is.\nmessage M {\n  int64 a = 1;\n}\n").size(), 1u);
}

}  // namespace
}  // namespace phasor
