// What a thread that must not be kept waiting parses, and what it leaves to another one.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"

#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

std::string Packed(int64_t tokens) {
  return absl::StrCat("items { ", kRope, " table { positions { packed { cu_seqlens: [0, ", tokens, "] } } } }");
}

// Whether the budget was enough; the request must parse without one.
bool IsQuick(const v1::PrecomputeRequest& request) {
  const grpc::ByteBuffer wire = ToWire(request);
  const auto at_leisure = RequestParser(Limits{}).ParsePrecompute(wire);
  EXPECT_TRUE(at_leisure.ok()) << at_leisure.status();
  ParseBudget budget;
  const auto now = RequestParser(Limits{}).ParsePrecompute(wire, nullptr, &budget);
  EXPECT_EQ(now.ok(), !budget.exceeded) << now.status();
  if (now.ok() && at_leisure.ok()) {
    EXPECT_EQ(now->charged_bytes(), at_leisure->charged_bytes());
    EXPECT_EQ(now->items().size(), at_leisure->items().size());
  }
  return !budget.exceeded;
}
bool IsQuick(const std::string& text) { return IsQuick(FromText<v1::PrecomputeRequest>(text)); }

TEST(ParseBudgetTest, IdsOfACallTogether) {
  EXPECT_TRUE(IsQuick(Packed(65536)));
  EXPECT_FALSE(IsQuick(Packed(65537)));
  EXPECT_TRUE(IsQuick(Packed(32768) + Packed(32768)));
  EXPECT_FALSE(IsQuick(Packed(32768) + Packed(32769)));
  EXPECT_TRUE(IsQuick(absl::StrCat("items { ", kRope, " table { positions { range { count: 16777216 } } } }")));
}

TEST(ParseBudgetTest, IdsThatTravelAsATensor) {
  for (const int64_t count : {65536, 65537}) {
    auto request = FromText<v1::PrecomputeRequest>(absl::StrCat("items { ", kRope, " table { } }"));
    v1::Tensor& ids = *request.mutable_items(0)->mutable_table()->mutable_positions()->mutable_ids();
    ids.set_dtype(v1::DTYPE_I32);
    ids.add_shape(count);
    ids.set_data(std::string(static_cast<size_t>(4 * count), '\0'));
    EXPECT_EQ(IsQuick(request), count == 65536);
  }
}

// A message counts without its payloads.
TEST(ParseBudgetTest, BytesOfTheMessage) {
  auto request = FromText<v1::PrecomputeRequest>(absl::StrCat("items { ", kRope, " table { } }"));
  auto& list = *request.mutable_items(0)->mutable_table()->mutable_positions()->mutable_list();
  for (int64_t i = 0; i < 60000; ++i) list.add_ids(-1 - i);  // ten bytes each
  EXPECT_TRUE(IsQuick(request));
  ParseBudget little{.message_bytes = 500000};
  EXPECT_FALSE(RequestParser(Limits{}).ParsePrecompute(ToWire(request), nullptr, &little).ok());
  EXPECT_TRUE(little.exceeded);

  const auto rotation =
      FromText<v1::ApplyRequest>(ApplyText("", "[2, 65536, 2, 4]", size_t{2} * 65536 * 2 * 4 * sizeof(float)));
  ParseBudget budget;
  const auto parsed = RequestParser(Limits{}).ParseApply(ToWire(rotation), nullptr, &budget);
  EXPECT_TRUE(parsed.ok() && parsed->items()[0].ok() && !budget.exceeded) << parsed.status();
}

TEST(ParseBudgetTest, OfRotationsToo) {
  const auto request = FromText<v1::ApplyRequest>(
      "items { spec { rope { head_dim: 2 } } tensors { dtype: DTYPE_BF16 shape: [2, 40000, 1, 2] } "
      "positions { range { } sequence_offsets: [0, 1] } } validate_only: true");
  ParseBudget budget;
  EXPECT_FALSE(RequestParser(Limits{}).ParseApply(ToWire(request), nullptr, &budget).ok());
  EXPECT_TRUE(budget.exceeded);
  const auto parsed = RequestParser(Limits{}).ParseApply(ToWire(request));
  EXPECT_TRUE(parsed.ok() && parsed->items()[0].ok()) << parsed.status();
}

// An error is an error, however early: no second look is needed to find it.
TEST(ParseBudgetTest, ErrorsAreNotLong) {
  ParseBudget budget;
  const auto batch = RequestParser(Limits{}).ParsePrecompute(
      ToWire(FromText<v1::PrecomputeRequest>(Packed(Limits{}.max_positions + 1))), nullptr, &budget);
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ(batch->items()[0].status().code(), kBad);
  EXPECT_FALSE(budget.exceeded);
}

}  // namespace
}  // namespace phasor::server
