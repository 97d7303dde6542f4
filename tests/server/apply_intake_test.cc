// What the receiving half of StreamApply keeps of the messages it takes, and for how long.
#include "server/apply_intake.h"

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace phasor::server {
namespace {

constexpr int64_t kTokens = 4096, kRow = 64;  // f32 [1, tokens, 16]

class ApplyIntakeTest : public ::testing::Test {
 protected:
  std::vector<ApplyStep> Take(const v1::StreamApplyRequest& message, int64_t message_bytes) {
    auto steps = intake_.Take(message, payloads_, message_bytes);
    EXPECT_TRUE(steps.ok()) << steps.status();
    payloads_ = {};
    return steps.ok() ? *std::move(steps) : std::vector<ApplyStep>();
  }

  void Open(int64_t item = 0) {
    v1::StreamApplyRequest message;
    message.set_item(item);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "spec { sinusoidal { dim: 16 } } layout: LAYOUT_BSD add {} tensors { dtype: DTYPE_F32 shape: [1, 4096, 16] }",
        message.mutable_open()));
    const std::vector<ApplyStep> steps = Take(message, 100);
    ASSERT_EQ(steps.size(), 1u);
    EXPECT_EQ(steps[0].bytes, kTokens * kRow + 100);
  }

  // Takes `bytes` at `offset` out of a message of `message_bytes`; the bytes live as long as something holds them.
  std::vector<ApplyStep> Send(int64_t offset, int64_t bytes, int64_t message_bytes) {
    auto memory = std::make_shared<std::string>();
    for (int64_t i = 0; i < bytes; ++i) memory->push_back(static_cast<char>((offset + i) % 61));
    received_.push_back(memory);
    const raw::Piece piece{memory, reinterpret_cast<const std::byte*>(memory->data()), memory->size()};
    v1::StreamApplyRequest message;
    message.mutable_chunk()->set_offset_bytes(offset);
    message.mutable_chunk()->set_data(payloads_.Add({&piece, 1}));
    return Take(message, message_bytes);
  }

  int held() const {
    int held = 0;
    for (const auto& memory : received_) held += memory.expired() ? 0 : 1;
    return held;
  }

  const RequestParser parser_{Limits()};
  ApplyIntake intake_{&parser_};
  raw::Payloads payloads_;
  std::vector<std::weak_ptr<std::string>> received_;
};

// A message of a few bytes can ask for positions that take hundreds of megabytes.
class IntakeOfOffsets : public ApplyIntakeTest {
 protected:
  ApplyStep Begin(int64_t tokens, std::vector<int64_t> offsets) {
    v1::StreamApplyRequest message;
    message.set_item(item_++);
    v1::ApplyItem& open = *message.mutable_open();
    open.mutable_spec()->mutable_rope()->set_head_dim(2);
    open.set_layout(v1::LAYOUT_BSHD);
    v1::Tensor& tensor = *open.add_tensors();
    tensor.set_dtype(v1::DTYPE_BF16);
    for (const int64_t extent : {int64_t{2}, tokens, int64_t{1}, int64_t{2}}) tensor.add_shape(extent);
    open.mutable_positions()->mutable_range()->set_count(tokens);
    open.mutable_positions()->mutable_sequence_offsets()->Assign(offsets.begin(), offsets.end());
    std::vector<ApplyStep> steps = Take(message, 46);
    EXPECT_GE(steps.size(), 1u);
    return steps.empty() ? ApplyStep() : std::move(steps.back());
  }

  int64_t item_ = 0;
};

TEST_F(IntakeOfOffsets, OneForAllRowsTakesNoIds) {
  for (const std::vector<int64_t>& offsets : {std::vector<int64_t>(), {3, 3}}) {
    const ApplyStep step = Begin(int64_t{1} << 29, offsets);
    ASSERT_EQ(step.kind, ApplyStep::Kind::kHeader) << step.error;
    const ApplyItem& item = *step.request->items()[0];
    EXPECT_EQ(item.positions.bytes(), 0);
    EXPECT_EQ(item.positions.start, offsets.empty() ? 0 : 3);
    EXPECT_FALSE(item.per_batch);
  }
}

TEST_F(IntakeOfOffsets, DifferentOnesAreCharged) {
  const ApplyStep step = Begin(1000, {0, 1});
  EXPECT_EQ(step.kind, ApplyStep::Kind::kNothing);
  EXPECT_EQ(step.bytes, 2 * 1000 * (2 * 2 + 8) + 46);
}

TEST_F(IntakeOfOffsets, DifferentOnesKeepToTheLimitsOfApply) {
  const ApplyStep step = Begin(parser_.limits().max_positions, {0, 1});
  ASSERT_EQ(step.kind, ApplyStep::Kind::kFailed);
  EXPECT_EQ(step.error.code(), absl::StatusCode::kInvalidArgument) << step.error;
  EXPECT_NE(step.error.message().find("max_positions"), std::string::npos) << step.error;
}

TEST_F(ApplyIntakeTest, SmallChunksDoNotKeepTheirMessages) {
  Open();
  std::vector<ApplyStep> steps;
  for (int64_t at = 0; at < kTokens * kRow; at += kRow) steps = Send(at, kRow, kRow + 20);
  EXPECT_EQ(held(), 0);
  ASSERT_EQ(steps.size(), 1u);
  ASSERT_EQ(steps[0].kind, ApplyStep::Kind::kWhole);
  const auto& inputs = steps[0].request->items()[0]->work->inputs;
  ASSERT_EQ(inputs.size(), 1u);
  int64_t at = 0;
  for (const Bytes& piece : inputs[0].payload) {
    for (int64_t i = 0; i < piece.size; ++i, ++at) ASSERT_EQ(piece.data[i], static_cast<std::byte>(at % 61)) << at;
  }
  EXPECT_EQ(at, kTokens * kRow);
  EXPECT_LE(inputs[0].payload.size(), 2u);
}

TEST_F(ApplyIntakeTest, LargeChunksStayWhereTheyAreUnlessTheirMessageIsLarger) {
  Open();
  constexpr int64_t kHalf = kTokens * kRow / 2;
  Send(0, kHalf, kHalf + 30);
  EXPECT_EQ(held(), 1);
  std::vector<ApplyStep> steps = Send(kHalf, kHalf, 3 * kHalf);
  EXPECT_EQ(held(), 1);
  ASSERT_EQ(steps[0].kind, ApplyStep::Kind::kWhole);
  steps.clear();  // the item is through
  EXPECT_EQ(held(), 0);
}

TEST_F(ApplyIntakeTest, AnItemThatFailsIsForgotten) {
  Open();
  constexpr int64_t kHalf = kTokens * kRow / 2;
  Send(0, kHalf, kHalf + 30);
  EXPECT_EQ(held(), 1);
  const std::vector<ApplyStep> steps = Send(1, kHalf, kHalf + 30);
  ASSERT_EQ(steps[0].kind, ApplyStep::Kind::kFailed);
  EXPECT_EQ(held(), 0);
  EXPECT_TRUE(Send(kHalf, kHalf, kHalf + 30).empty());  // what still comes is nothing
  EXPECT_EQ(held(), 0);
  Open(1);
}

}  // namespace
}  // namespace phasor::server
