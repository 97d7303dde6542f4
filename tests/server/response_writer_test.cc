#include "server/response_writer.h"

#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/raw/payload_cutter.h"
#include "server/grpc_status.h"
#include "tests/proto/codec_check.h"
#include "tests/server/status_details.h"

namespace phasor::server {
namespace {

// Memory that says when it goes.
struct Block {
  explicit Block(size_t size, int* count) : bytes(size), alive(count) {
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 31 + size);
    ++*alive;
  }
  ~Block() { --*alive; }
  std::vector<std::byte> bytes;
  int* alive;
};

Bytes MakeBytes(size_t size, int* alive) {
  auto block = std::make_shared<const Block>(size, alive);
  const std::byte* data = block->bytes.data();
  return {std::move(block), data, static_cast<int64_t>(size)};
}

std::string Text(const Chunks& chunks) {
  std::string text;
  for (const Bytes& piece : chunks) text.append(reinterpret_cast<const char*>(piece.data), static_cast<size_t>(piece.size));
  return text;
}

Array MakeArray(std::vector<int64_t> shape, std::vector<size_t> pieces, int* alive) {
  Array array{DType::kBF16, std::move(shape), {}, {}};
  for (size_t size : pieces) array.data.push_back(MakeBytes(size, alive));
  return array;
}

template <typename M>
M Parse(const grpc::ByteBuffer& buffer) {
  M message;
  EXPECT_TRUE(message.ParseFromString(raw::Flatten(buffer)));
  return message;
}

TEST(ResponseWriterTest, EveryFieldOfAPrecomputeAnswer) {
  int alive = 0;
  Answer<PrecomputeResult> answer;
  answer.stages = {1, 2, 3, 4};
  PrecomputeResult result;
  result.cache = CacheOutcome::kPartial;
  result.stages = {5, 6, 7, 8};
  result.fingerprint = std::string(32, 'f');
  result.payload_bytes = 8192;
  result.attention_factor = 1.25;
  result.softmax_scale_multiplier = 1.5;
  result.warnings = {{"spec.rope.yarn.factor", "is odd"}, {"", "of no field"}};
  result.inv_freq = Array{DType::kF64, {1}, {}, {MakeBytes(8, &alive)}};
  result.cos = MakeArray({2, 1024}, {2048, 2048}, &alive);
  result.sin = MakeArray({2, 1024}, {4096}, &alive);
  const std::string cos = Text(result.cos->data);
  answer.results.push_back(std::move(result));

  const auto buffer = WritePrecompute(std::move(answer), "cpu");
  ASSERT_TRUE(buffer.ok());
  const auto response = Parse<v1::PrecomputeResponse>(*buffer);
  EXPECT_EQ(response.stages().ShortDebugString(), "decode_ns: 1 queue_ns: 2 build_ns: 3 copy_ns: 4");
  ASSERT_EQ(response.results_size(), 1);
  const v1::PrecomputeResult& out = response.results(0);
  EXPECT_FALSE(out.has_status());
  EXPECT_EQ(out.backend(), "cpu");
  EXPECT_EQ(out.cache(), v1::CACHE_OUTCOME_PARTIAL);
  EXPECT_EQ(out.stages().queue_ns(), 6);
  EXPECT_EQ(out.fingerprint(), std::string(32, 'f'));
  EXPECT_EQ(out.payload_bytes(), 8192);
  EXPECT_EQ(out.attention_factor(), 1.25);
  EXPECT_EQ(out.softmax_scale_multiplier(), 1.5);
  ASSERT_EQ(out.warnings_size(), 2);
  EXPECT_EQ(out.warnings(0).field(), "items[0].spec.rope.yarn.factor");
  EXPECT_EQ(out.warnings(1).field(), "");
  EXPECT_EQ(out.inv_freq().dtype(), v1::DTYPE_F64);
  EXPECT_EQ(out.cos().dtype(), v1::DTYPE_BF16);
  EXPECT_THAT(out.cos().shape(), testing::ElementsAre(2, 1024));
  EXPECT_EQ(out.cos().data(), cos);
  EXPECT_EQ(out.sin().data().size(), 4096u);
  EXPECT_FALSE(out.has_table() || out.has_bias());
}

TEST(ResponseWriterTest, ArraysAreNotCopiedAndTheirOwnersLeaveWithTheBuffer) {
  int alive = 0;
  Answer<PrecomputeResult> answer;
  answer.results.resize(3);
  std::vector<const void*> places;
  for (PrecomputeResult& result : answer.results) {
    result.table = MakeArray({4, 1024}, {4096, 4096}, &alive);
    for (const Bytes& piece : result.table->data) places.push_back(piece.data);
  }
  auto buffer = WritePrecompute(std::move(answer), "cpu");
  ASSERT_TRUE(buffer.ok());
  answer = {};
  EXPECT_EQ(alive, 6);
  {
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(buffer->Dump(&slices).ok());
    std::vector<const void*> found;
    for (const grpc::Slice& slice : slices) {
      if (slice.size() == 4096) found.push_back(slice.begin());
    }
    EXPECT_EQ(found, places);
  }
  buffer->Clear();
  EXPECT_EQ(alive, 0);
}

TEST(ResponseWriterTest, FailedItemsAnswerTheirStatusAlone) {
  int alive = 0;
  Answer<ApplyResult> answer;
  answer.results.resize(3);
  answer.results[0].status = AtPath("items[0].", InvalidField("tensors", "nothing", "1 … 16 tensors"));
  answer.results[1].status = MakeSpecError("rope.yarn.factor", "1e300", "less");
  answer.results[1].fingerprint = "not told";
  answer.results[1].stages.queue_ns = 5;
  answer.results[2].tensors.push_back(MakeArray({1}, {2}, &alive));
  const auto buffer = WriteApply(std::move(answer), "reference");
  ASSERT_TRUE(buffer.ok());
  const auto response = Parse<v1::ApplyResponse>(*buffer);
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_EQ(MetadataOf(response.results(0).status(), "field"), "items[0].tensors");
  EXPECT_EQ(MetadataOf(response.results(1).status(), "field"), "items[1].spec.rope.yarn.factor");
  EXPECT_EQ(response.results(1).fingerprint(), "");
  EXPECT_EQ(response.results(1).backend(), "");
  EXPECT_EQ(response.results(1).stages().queue_ns(), 5);
  EXPECT_FALSE(response.results(2).has_status());
  EXPECT_EQ(response.results(2).backend(), "reference");
  EXPECT_EQ(response.results(2).tensors(0).data().size(), 2u);
}

TEST(ResponseWriterTest, DataThatWasNotAskedForIsLeftOut) {
  Answer<PrecomputeResult> answer;
  answer.results.resize(2);
  answer.results[0].not_modified = true;
  answer.results[0].cos = Array{DType::kF32, {4096, 64}, {}, {}};
  answer.results[1].cos = Array{DType::kF32, {0, 64}, {}, {}};
  const auto buffer = WritePrecompute(std::move(answer), "cpu");
  ASSERT_TRUE(buffer.ok());
  const auto response = Parse<v1::PrecomputeResponse>(*buffer);
  EXPECT_TRUE(response.results(0).not_modified());
  EXPECT_FALSE(response.results(0).cos().has_data());
  EXPECT_THAT(response.results(0).cos().shape(), testing::ElementsAre(4096, 64));
  EXPECT_TRUE(response.results(1).cos().has_data());
}

TEST(ResponseWriterTest, RandomAnswersReadTheSameBothWays) {
  std::mt19937_64 random(5);
  int alive = 0;
  for (int round = 0; round < 100; ++round) {
    Answer<ApplyResult> answer;
    answer.results.resize(random() % 5);
    std::vector<std::string> wanted;
    for (ApplyResult& result : answer.results) {
      if (random() % 4 == 0) result.status = absl::CancelledError("gone");
      for (uint64_t k = random() % 4; k > 0; --k) {
        std::vector<size_t> pieces(random() % 4 + 1);
        for (size_t& size : pieces) size = random() % 3 == 0 ? random() % 5000 : random() % 10;
        Array array = MakeArray({static_cast<int64_t>(random() % 1000 + 1)}, pieces, &alive);
        if (random() % 2) array.strides = {1};
        if (result.status.ok()) wanted.push_back(Text(array.data));
        result.tensors.push_back(std::move(array));
      }
    }
    const auto buffer = WriteApply(std::move(answer), "cpu");
    ASSERT_TRUE(buffer.ok());
    std::vector<std::string> generated;
    const auto response = Parse<v1::ApplyResponse>(*buffer);
    for (const auto& result : response.results()) {
      for (const auto& tensor : result.tensors()) generated.push_back(tensor.data());
    }
    EXPECT_EQ(generated, wanted);

    v1::ApplyResponse cut;
    raw::Payloads payloads;
    ASSERT_TRUE(raw::Cut(*buffer, raw::kApplyResponse, {}, &cut, &payloads).ok());
    std::vector<std::string> found;
    for (const auto& result : cut.results()) {
      for (const auto& tensor : result.tensors()) found.push_back(raw::Flatten(*payloads.Find(tensor.data())));
    }
    EXPECT_EQ(found, wanted);
  }
  EXPECT_EQ(alive, 0);
}

}  // namespace
}  // namespace phasor::server
