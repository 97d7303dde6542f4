#include "server/resolve/gguf_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "kernels/encodings/encoding.h"
#include "tests/server/resolve/gguf_testing.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;
using Maker = GgufMaker;

// The error of a head that must be refused.
SpecError ErrorOf(std::string_view bytes) {
  const auto head = ParseGgufHead(bytes);
  EXPECT_FALSE(head.ok());
  EXPECT_EQ(head.status().code(), absl::StatusCode::kInvalidArgument);
  return SpecErrorOf(head.status()).value_or(SpecError());
}

std::string SmallHead() {
  return Maker()
      .String("general.architecture", "llama")
      .Uint("llama.block_count", 2)
      .Float("llama.rope.freq_base", 500000)
      .List<uint32_t>("llama.attention.head_count", GgufType::kUint32, {8, 16})
      .Tensor("rope_freqs.weight", {1, 2, 8})
      .Head();
}

TEST(GgufHeadTest, ReadsEntriesAndTensors) {
  for (const uint32_t version : {2u, 3u}) {
    std::string bytes = SmallHead();
    bytes[4] = static_cast<char>(version);
    const auto head = ParseGgufHead(bytes);
    ASSERT_TRUE(head.ok()) << head.status();
    EXPECT_EQ(head->version, version);
    EXPECT_EQ(head->entries.size(), 4u);
    EXPECT_EQ(head->size, bytes.size());
    EXPECT_EQ(head->data_offset, (bytes.size() + 31) / 32 * 32);
    ASSERT_NE(head->Find("general.architecture"), nullptr);
    EXPECT_EQ(head->Find("general.architecture")->value.bytes, "llama");
    const GgufEntry* list = head->Find("llama.attention.head_count");
    ASSERT_NE(list, nullptr);
    EXPECT_EQ(list->value.count, 2u);
    EXPECT_EQ(list->value.element, GgufType::kUint32);
    const GgufTensorInfo* tensor = head->FindTensor("rope_freqs.weight");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->elements, 3u);
    EXPECT_EQ(head->Find("llama"), nullptr);
    EXPECT_EQ(head->FindTensor("rope"), nullptr);
  }
}

TEST(GgufHeadTest, HonoursAlignment) {
  std::string bytes = Maker().Uint("general.alignment", 4096).Head();
  const auto head = ParseGgufHead(bytes);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(head->data_offset, 4096u);
  for (const uint32_t bad : {0u, 3u, 1u << 31}) {
    EXPECT_EQ(ErrorOf(Maker().Uint("general.alignment", bad).Head()).field, "general.alignment") << bad;
  }
}

// Every prefix is refused, and only for being too short: whoever reads a file knows to read on.
TEST(GgufHeadTest, EveryPrefixIsTruncated) {
  const std::string bytes = SmallHead();
  for (size_t size = 0; size < bytes.size(); ++size) {
    bool truncated = false;
    const auto head = ParseGgufHead(std::string_view(bytes).substr(0, size), &truncated);
    EXPECT_FALSE(head.ok()) << size;
    EXPECT_TRUE(truncated) << size;
    EXPECT_THAT(SpecErrorOf(head.status())->given, HasSubstr("at byte")) << size;
  }
  bool truncated = true;
  EXPECT_TRUE(ParseGgufHead(bytes + "weights", &truncated).ok());
  EXPECT_FALSE(truncated);
}

TEST(GgufHeadTest, NamesTheKeyAndTheByte) {
  const std::string bytes = Maker().Uint("a", 1).Add("b.key", static_cast<GgufType>(13), "").Head();
  const SpecError error = ErrorOf(bytes);
  EXPECT_EQ(error.field, "b.key");
  EXPECT_THAT(error.given, HasSubstr("value type 13 at byte"));
  EXPECT_EQ(error.allowed, "0 … 12");
}

TEST(GgufHeadTest, RefusesOtherFiles) {
  std::string bytes = SmallHead();
  bytes[0] = 'g';
  EXPECT_EQ(ErrorOf(bytes).allowed, "\"GGUF\"");
  for (const uint32_t version : {0u, 1u, 4u, 0x03000000u})
    EXPECT_THAT(ErrorOf(Maker().Head(version)).allowed, HasSubstr("2 or 3"));
  EXPECT_THAT(ErrorOf(Maker().Head(0x03000000u)).given, HasSubstr("big-endian"));
}

// Counts and lengths that promise more than there is cost nothing.
TEST(GgufHeadTest, RefusesHugeNumbers) {
  const uint64_t huge[] = {uint64_t{1} << 31, uint64_t{1} << 40, UINT64_MAX / 8 + 1, UINT64_MAX};
  for (const uint64_t count : huge) {
    const std::string start = "GGUF" + Maker::Raw(uint32_t{3});
    EXPECT_THAT(ErrorOf(start + Maker::Raw(uint64_t{0}) + Maker::Raw(count)).allowed, HasSubstr("at most"));
    EXPECT_THAT(ErrorOf(start + Maker::Raw(count) + Maker::Raw(uint64_t{0})).allowed, HasSubstr("at most"));
    const std::string one = start + Maker::Raw(uint64_t{0}) + Maker::Raw(uint64_t{1});
    EXPECT_THAT(ErrorOf(one + Maker::Raw(count)).given, HasSubstr("a key of"));
    const std::string list = Maker::Raw(uint32_t{8}) + Maker::Raw(count);
    EXPECT_THAT(ErrorOf(Maker().Add("k", GgufType::kArray, list).Head()).allowed, HasSubstr("cut short"));
    const std::string numbers = Maker::Raw(uint32_t{12}) + Maker::Raw(count);
    EXPECT_THAT(ErrorOf(Maker().Add("k", GgufType::kArray, numbers).Head()).allowed, HasSubstr("cut short"));
    EXPECT_THAT(ErrorOf(Maker().Add("k", GgufType::kString, Maker::Raw(count)).Head()).allowed, HasSubstr("cut short"));
  }
}

TEST(GgufHeadTest, ReadsNestedListsUpToALimit) {
  const auto nested = [](int levels) {
    std::string bytes;
    for (int i = 1; i < levels; ++i) bytes += Maker::Raw(static_cast<uint32_t>(GgufType::kArray)) + Maker::Raw(uint64_t{1});
    return Maker().Add("k", GgufType::kArray, bytes + Maker::Raw(uint32_t{0}) + Maker::Raw(uint64_t{1}) + "x").Head();
  };
  EXPECT_TRUE(ParseGgufHead(nested(kMaxGgufNesting)).ok());
  EXPECT_THAT(ErrorOf(nested(kMaxGgufNesting + 1)).given, HasSubstr("nested deeper"));
  EXPECT_FALSE(ParseGgufHead(nested(100000)).ok());
}

TEST(GgufHeadTest, RefusesWhatIsThereTwice) {
  EXPECT_EQ(ErrorOf(Maker().Uint("k", 1).Uint("j", 1).Uint("k", 1).Head()).field, "k");
  EXPECT_EQ(ErrorOf(Maker().Tensor("t", {1}).Tensor("t", {1}).Head()).field, "t");
  EXPECT_EQ(ErrorOf(Maker().Add("flag", GgufType::kBool, "\2").Head()).allowed, "0, 1");
}

TEST(GgufHeadTest, ShortensKeysInMessages) {
  const std::string key(60000, '\n');
  EXPECT_LE(ErrorOf(Maker().Add(key, static_cast<GgufType>(99), "").Head()).field.size(), 200u);
}

TEST(GgufHeadTest, RewritingKeepsBytes) {
  const std::string bytes = Maker()
                                .String("general.architecture", "llama")
                                .String("tokenizer.ggml.model", "llama")
                                .Float("llama.rope.freq_base", 5)
                                .Tensor("rope_freqs.weight", {1})
                                .Tensor("token_embd.weight", {1})
                                .Head();
  const auto head = ParseGgufHead(bytes);
  ASSERT_TRUE(head.ok());
  EXPECT_EQ(
      RewriteGgufHead(*head, [](const GgufEntry&) { return true; }, [](const GgufTensorInfo&) { return true; }), bytes);
  const auto compact = CompactGgufHead(*head);
  const auto again = ParseGgufHead(compact);
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->entries.size(), 2u);
  ASSERT_EQ(again->tensors.size(), 1u);
  EXPECT_EQ(again->tensors[0].name, "rope_freqs.weight");
}

// Any damage gives an answer or an error that names something, never more; sanitizer builds watch the reads.
TEST(GgufHeadTest, SurvivesFlippedBits) {
  std::mt19937_64 random(20240229);
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GgufFolder())) {
    if (entry.path().extension() != ".gguf") continue;
    const std::string file = ReadBytes(entry.path());
    const auto whole = ParseGgufHead(file);
    ASSERT_TRUE(whole.ok()) << entry.path();
    const std::vector<GgufTensor> tensors = TensorsOf(*whole, file);
    for (size_t bit = 0; bit < whole->size * 8; bit += 1 + random() % 16) {
      std::string damaged = file;
      damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
      if (bit % 5 == 0) damaged.resize(random() % damaged.size());
      const auto model = ReadGguf(damaged, tensors);
      if (model.ok()) continue;
      ++refused;
      EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
      const auto error = SpecErrorOf(model.status());
      ASSERT_TRUE(error.has_value()) << model.status();
      EXPECT_FALSE(error->field.empty()) << model.status();
    }
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace phasor::server
