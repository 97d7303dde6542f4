// Typed reading itself: numbers as IEEE doubles, lists, paths, the first error kept.
#include "server/resolve/json_reader.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <random>

namespace phasor::server {
namespace {

TEST(ParseConfig, NumbersAreTheNearestDoubles) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const double value = std::bit_cast<double>(random());
    // Subnormal and near-limit decimals are no configuration's numbers.
    if (!(std::abs(value) > 1e-290 && std::abs(value) < 1e290)) continue;
    char text[64];
    std::snprintf(text, sizeof(text), "{\"x\":%.*e}", static_cast<int>(random() % 25), value);
    rapidjson::Document document;
    ASSERT_TRUE(ParseConfig(text, document).ok()) << text;
    EXPECT_EQ(document["x"].GetDouble(), std::strtod(text + 5, nullptr)) << text;
  }
}

class Reader : public ::testing::Test {
 protected:
  JsonObject Object(const char* text) {
    EXPECT_TRUE(ParseConfig(text, document_).ok());
    return JsonObject(document_, "", &problems_);
  }
  rapidjson::Document document_;
  Problems problems_;
};

TEST_F(Reader, AbsentAndNullReadAlike) {
  const JsonObject object = Object(R"({"a":null})");
  EXPECT_EQ(object.Number("a"), std::nullopt);
  EXPECT_EQ(object.Number("b"), std::nullopt);
  EXPECT_TRUE(object.IsNull("a"));
  EXPECT_FALSE(object.IsNull("b"));
  EXPECT_TRUE(problems_.ok());
}

TEST_F(Reader, WholeNumbersWithinTheirRange) {
  const JsonObject object = Object(R"({"i":7,"f":7.0,"half":7.5,"big":1e30,"u":18446744073709551615})");
  EXPECT_EQ(object.Integer("i", 0, 7), 7);
  EXPECT_EQ(object.Integer("f", 0, 7), 7);
  EXPECT_TRUE(problems_.ok());
  for (const char* key : {"half", "big", "u"}) {
    Problems fresh;
    EXPECT_EQ(JsonObject(document_, "", &fresh).Integer(key, 0, std::numeric_limits<int64_t>::max()), std::nullopt);
    EXPECT_FALSE(fresh.ok()) << key;
  }
}

TEST_F(Reader, ErrorsRepeatTheNumberThatWasGiven) {
  Object(R"({"u":18446744073709551615,"i":123456789012,"f":0.1,"n":-9223372036854775808})");
  for (const auto& [key, text] :
       {std::pair("u", "18446744073709551615"), {"i", "123456789012"}, {"f", "0.1"}, {"n", "-9223372036854775808"}}) {
    Problems fresh;
    EXPECT_EQ(JsonObject(document_, "", &fresh).Integer(key, 0, 1), std::nullopt);
    EXPECT_EQ(SpecErrorOf(fresh.status())->given, text);
  }
}

TEST_F(Reader, TheFirstErrorIsKeptWithItsPath) {
  const JsonObject object = Object(R"({"outer":{"list":[1,"two"],"flag":1}})");
  const auto outer = object.Object("outer");
  ASSERT_TRUE(outer.has_value());
  EXPECT_EQ(outer->Numbers("list"), std::nullopt);
  EXPECT_EQ(outer->Bool("flag"), std::nullopt);
  const auto error = SpecErrorOf(problems_.status());
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->field, "outer.list[1]");
  EXPECT_EQ(error->given, "the string \"two\"");
}

TEST_F(Reader, BareNonFiniteNumbersParseAndAreRefusedWhenAskedFor) {
  const JsonObject object = Object(R"({"a":NaN,"b":[Infinity,-Infinity]})");
  EXPECT_TRUE(object.Has("a"));
  EXPECT_TRUE(problems_.ok());
  EXPECT_EQ(object.Numbers("b"), std::nullopt);
  EXPECT_EQ(SpecErrorOf(problems_.status())->field, "b[0]");
}

TEST_F(Reader, FirstOfSkipsNulls) {
  const JsonObject object = Object(R"({"a":null,"b":1})");
  EXPECT_EQ(object.FirstOf({"a", "b"}), "b");
  EXPECT_EQ(object.FirstOf({"a", "c"}), "");
}

}  // namespace
}  // namespace phasor::server
