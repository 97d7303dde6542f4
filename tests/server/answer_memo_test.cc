// Answers kept whole: which are found, when they are kept and forgotten, and what their bytes are.
#include "server/answer_memo.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"

#include "server/method.h"

namespace phasor::server {
namespace {

// Offers twice, as two calls do.
void Keep(AnswerMemo& memo, const std::string& request, const std::string& answer) {
  for (int i = 0; i < 2; ++i) memo.Offer(request, memo.generation(), [&] { return answer; });
}

TEST(AnswerMemoTest, AnAnswerIsKeptWhenItsRequestComesTheSecondTime) {
  AnswerMemo memo;
  int made = 0;
  const auto make = [&made] { return "answer " + std::to_string(++made); };
  EXPECT_EQ(memo.Find("request"), nullptr);
  memo.Offer("request", 0, make);
  EXPECT_EQ(made, 0);
  EXPECT_EQ(memo.Find("request"), nullptr);
  memo.Offer("request", 0, make);
  ASSERT_NE(memo.Find("request"), nullptr);
  memo.Offer("request", 0, make);  // there is one already
  EXPECT_EQ(*memo.Find("request"), "answer 1");
  EXPECT_EQ(made, 1);
  // Bytes are compared in full, a zero among them.
  EXPECT_EQ(memo.Find("reques"), nullptr);
  EXPECT_EQ(memo.Find(std::string("request\0", 8)), nullptr);
  EXPECT_EQ(memo.stats().answers, 1);
  EXPECT_EQ(memo.stats().found, 2);
}

TEST(AnswerMemoTest, WhatMustNotBeKeptIsNot) {
  AnswerMemo memo;
  Keep(memo, "request", "");
  EXPECT_EQ(memo.Find("request"), nullptr);
  EXPECT_EQ(memo.stats().bytes, 0);
}

TEST(AnswerMemoTest, ClearForgetsAlsoWhatIsOnItsWay) {
  AnswerMemo memo;
  Keep(memo, "old", "answer");
  const uint64_t before = memo.generation();
  memo.Clear();
  EXPECT_EQ(memo.Find("old"), nullptr);
  EXPECT_EQ(memo.stats().bytes, 0);
  for (int i = 0; i < 3; ++i) memo.Offer("late", before, [] { return std::string("answer"); });
  EXPECT_EQ(memo.Find("late"), nullptr);
  // One that is cleared away while its answer is being made.
  memo.Offer("during", memo.generation(), [] { return std::string("answer"); });
  memo.Offer("during", memo.generation(), [&] {
    memo.Clear();
    return std::string("answer");
  });
  EXPECT_EQ(memo.Find("during"), nullptr);
}

TEST(AnswerMemoTest, TheOnesUsedLastStayWithinTheBound) {
  AnswerMemo memo;
  const std::string answer(AnswerMemo::kMaxAnswerBytes, 'a');
  Keep(memo, "first", answer);
  const size_t room = AnswerMemo::kMaxBytes / answer.size();
  for (size_t i = 0; i < 3 * room; ++i) {
    Keep(memo, "request " + std::to_string(i), answer);
    ASSERT_NE(memo.Find("first"), nullptr) << i;
    ASSERT_LE(memo.stats().bytes, static_cast<int64_t>(AnswerMemo::kMaxBytes));
  }
  EXPECT_EQ(memo.Find("request 0"), nullptr);
  EXPECT_NE(memo.Find("request " + std::to_string(3 * room - 1)), nullptr);
  EXPECT_GT(memo.stats().answers, static_cast<int64_t>(room) - 8);
}

TEST(AnswerMemoTest, ManyThreads) {
  AnswerMemo memo;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&memo, t] {
      for (int i = 0; i < 4000; ++i) {
        const std::string request = "request " + std::to_string(i * (t + 1) % 97);
        if (const auto answer = memo.Find(request)) {
          ASSERT_EQ(*answer, request + "!");
        } else {
          memo.Offer(request, memo.generation(), [&] { return request + "!"; });
        }
        if (t == 0 && i % 500 == 0) memo.Clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(memo.stats().answers, 97);
}

TEST(AnswerMemoTest, RequestsThatNeedMoreThanTheirBytesAreTold) {
  v1::PrecomputeRequest request;
  v1::PrecomputeItem* item = request.add_items();
  item->mutable_spec()->mutable_rope()->set_head_dim(64);
  item->mutable_table()->mutable_positions()->mutable_range()->set_count(1);
  EXPECT_TRUE(SaysAll(request));
  item->mutable_table()->mutable_positions()->mutable_ids()->set_data("12345678");
  EXPECT_TRUE(SaysAll(request));
  item->mutable_table()->mutable_positions()->mutable_ids()->mutable_upload()->set_sha256("x");
  EXPECT_FALSE(SaysAll(request));
  item->mutable_table()->mutable_positions()->mutable_ids()->mutable_shared_memory();
  EXPECT_FALSE(SaysAll(request));
  item->mutable_table()->mutable_positions()->mutable_ids()->mutable_device();
  EXPECT_FALSE(SaysAll(request));
  item->mutable_table()->mutable_positions()->mutable_range()->set_count(1);
  EXPECT_TRUE(SaysAll(request));
  item->set_share(true);
  EXPECT_FALSE(SaysAll(request));
  item->set_share(false);
  item->mutable_output()->set_region("r");
  EXPECT_FALSE(SaysAll(request));
}

TEST(AnswerMemoTest, AnAnswerComesBackWithItsOwnTimes) {
  v1::PrecomputeResponse response;
  v1::PrecomputeResult* result = response.add_results();
  result->set_fingerprint(std::string(32, 'f'));
  result->mutable_stages()->set_build_ns(5);
  result->mutable_cos()->set_data("1234");
  response.mutable_stages()->set_decode_ns(7);
  const std::string kept = WithoutTimes(AnswerWith(response).response);
  ASSERT_FALSE(kept.empty());
  grpc::ByteBuffer answer = WithTimes(kept, {.decode_ns = 300, .copy_ns = 1});
  v1::PrecomputeResponse read;
  ASSERT_TRUE(ParseMessage(&answer, &read).ok());
  EXPECT_EQ(read.stages().decode_ns(), 300);
  EXPECT_EQ(read.stages().copy_ns(), 1);
  EXPECT_FALSE(read.results(0).has_stages());
  EXPECT_EQ(read.results(0).cos().data(), "1234");
  EXPECT_EQ(read.results(0).fingerprint(), result->fingerprint());

  result->mutable_cos()->set_data(std::string(AnswerMemo::kMaxAnswerBytes, 'x'));
  EXPECT_EQ(WithoutTimes(AnswerWith(response).response), "");
  const grpc::Slice noise("\x0a\x7f...");
  EXPECT_EQ(WithoutTimes(grpc::ByteBuffer(&noise, 1)), "");
}

}  // namespace
}  // namespace phasor::server
