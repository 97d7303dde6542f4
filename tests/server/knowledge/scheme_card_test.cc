// GetScheme's answer: examples that are what they say, costs that are counted right, sizes out of range.
#include "server/knowledge/scheme_card.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <optional>

#include "server/knowledge/scheme_costs.h"
#include "server/knowledge/wire_side.h"

namespace phasor::server {
namespace {

v1::GetSchemeRequest RequestFor(std::string_view name) {
  v1::GetSchemeRequest request;
  request.set_name(std::string(name));
  return request;
}

TEST(SchemeCardTest, ExamplesAreSpecsOfTheirSchemes) {
  for (const Scheme* scheme : Schemes()) {
    SCOPED_TRACE(scheme->name);
    const auto card = MakeSchemeCard(RequestFor(scheme->name));
    ASSERT_TRUE(card.ok()) << card.status();
    const auto spec = ReadSpec(card->example(), "example");
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(SchemeOf(spec->spec).name, scheme->name);
    EXPECT_TRUE(spec->warnings.empty()) << spec->warnings.front().message;
    std::optional<int64_t> length;
    if (card->example_sequence_length() > 0) length = card->example_sequence_length();
    EXPECT_TRUE(Resolve(*spec, length, Precision::kExact).ok());
  }
}

TEST(SchemeCardTest, EveryPartIsThere) {
  for (const Scheme* scheme : Schemes()) {
    SCOPED_TRACE(scheme->name);
    const auto card = MakeSchemeCard(RequestFor(scheme->name));
    ASSERT_TRUE(card.ok()) << card.status();
    EXPECT_EQ(card->scheme().name(), scheme->name);
    EXPECT_FALSE(card->latex().empty() || card->extrapolation().empty());
    EXPECT_GE(card->failures_size(), 2);
    EXPECT_FALSE(card->related().empty());
    ASSERT_EQ(card->snippets_size(), 3);
    EXPECT_EQ(card->snippets(0).language(), "pytorch");
    EXPECT_EQ(card->snippets(1).language(), "c++");
    EXPECT_EQ(card->snippets(2).language(), "phasor");
    ASSERT_GE(card->costs_size(), 2);
    for (const v1::CostCard& cost : card->costs()) {
      EXPECT_FALSE(cost.what().empty() || cost.note().empty());
      EXPECT_GT(cost.bytes(), 0) << cost.what();
      EXPECT_GE(cost.operations(), 0) << cost.what();
    }
  }
}

std::map<std::string, v1::CostCard> CostsByName(std::string_view name, int64_t positions, int64_t width, int64_t heads) {
  v1::GetSchemeRequest request = RequestFor(name);
  request.set_positions(positions);
  request.set_width(width);
  request.set_heads(heads);
  std::map<std::string, v1::CostCard> costs;
  const auto card = MakeSchemeCard(request);
  EXPECT_TRUE(card.ok()) << card.status();
  if (card.ok()) {
    for (const v1::CostCard& cost : card->costs()) costs[cost.what()] = cost;
  }
  return costs;
}

TEST(SchemeCardTest, CostsAreCounted) {
  auto rope = CostsByName("rope_yarn", 1000, 64, 8);
  EXPECT_EQ(rope["table, half width"].bytes(), 1000 * 32 * 2 * 4);
  EXPECT_EQ(rope["table, half width"].operations(), 1000 * 32 * 3);
  EXPECT_EQ(rope["table, duplicated"].bytes(), 1000 * 64 * 2 * 4);
  EXPECT_EQ(rope["apply to q and k"].bytes(), 2 * 2 * 1000 * 8 * 64 * 4);   // q and k, read and written
  EXPECT_EQ(rope["apply to q and k"].operations(), 2 * 1000 * 8 * 32 * 6);  // four products and two sums a pair
  auto alibi = CostsByName("alibi", 1000, 64, 8);
  EXPECT_EQ(alibi["slopes"].bytes(), 8 * 4);
  EXPECT_EQ(alibi["bias, vector"].bytes(), 8 * 1999 * 4);
  EXPECT_EQ(alibi["bias, full"].bytes(), 8.0 * 1000 * 1000 * 4);
  EXPECT_EQ(alibi["add to the scores"].operations(), 8.0 * 1000 * 1000);
  auto learned = CostsByName("learned", 3000, 768, 12);
  EXPECT_EQ(learned["table"].bytes(), 9216000);  // 9.2 MB, not "too big"
  EXPECT_EQ(learned["table"].operations(), 0);
  auto distilled = CostsByName("distilled", 3000, 768, 12);
  EXPECT_EQ(distilled["table"].bytes(), 9216000);
  EXPECT_EQ(distilled["add to the input"].bytes(), 3 * 9216000) << "the table is read too";
  auto window = CostsByName("window_bias", 49, 32, 4);
  EXPECT_EQ(window["learned table"].bytes(), 13 * 13 * 4 * 4);  // a window of 7 × 7
  EXPECT_EQ(CostsByName("alibi", 0, 0, 0)["bias, full"].bytes(), 32.0 * 4096 * 4096 * 4) << "defaults";
  EXPECT_EQ(CostsByName("alibi", int64_t{1} << 31, 1, 65536)["bias, full"].bytes(), std::ldexp(1, 16 + 62 + 2));
  EXPECT_TRUE(CostsOf("rop", {}).empty());
}

TEST(SchemeCardTest, RefusesSizesOutOfRange) {
  const struct {
    void (v1::GetSchemeRequest::*set)(int64_t);
    const char* field;
    int64_t highest;
  } kFields[] = {{&v1::GetSchemeRequest::set_positions, "positions", int64_t{1} << 31},
                 {&v1::GetSchemeRequest::set_width, "width", 65536},
                 {&v1::GetSchemeRequest::set_heads, "heads", 65536}};
  for (const auto& [set, field, highest] : kFields) {
    for (const int64_t value : {int64_t{-1}, highest + 1, std::numeric_limits<int64_t>::min()}) {
      v1::GetSchemeRequest request = RequestFor("alibi");
      (request.*set)(value);
      const auto card = MakeSchemeCard(request);
      ASSERT_EQ(card.status().code(), absl::StatusCode::kInvalidArgument) << field << " " << value;
      EXPECT_EQ(card.status().message().find(field), 0u) << card.status();
    }
    v1::GetSchemeRequest request = RequestFor("alibi");
    (request.*set)(highest);
    EXPECT_TRUE(MakeSchemeCard(request).ok()) << field;
  }
  EXPECT_EQ(MakeSchemeCard(RequestFor("rope")).status().code(), absl::StatusCode::kNotFound);
}

// The contract's promise is 5 ms of a core; the best of several runs, for the machine may be busy.
TEST(SchemeCardTest, IsQuick) {
  for (const Scheme* scheme : Schemes()) {
    double best = 1;
    for (int run = 0; run < 5; ++run) {
      const auto start = std::chrono::steady_clock::now();
      ASSERT_TRUE(MakeSchemeCard(RequestFor(scheme->name)).ok());
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    EXPECT_LT(best, 0.005) << scheme->name;
  }
}

}  // namespace
}  // namespace phasor::server
