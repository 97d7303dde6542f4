#include "server/warm.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMaxPositions = 1 << 24;

// A file in the tests' temporary folder, removed at the end.
class File {
 public:
  explicit File(const std::string& text) : path_(::testing::TempDir() + "warm_test_config.json") {
    std::ofstream(path_) << text;
  }
  ~File() { std::remove(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

constexpr char kLlama[] = R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "rope_theta": 500000.0,
  "num_hidden_layers": 2, "max_position_embeddings": 8192})";

TEST(WarmTest, AConfigurationBringsItsOwnLength) {
  const File file(kLlama);
  const auto tables = ReadWarmValue(file.path(), kMaxPositions);
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 1u);
  EXPECT_EQ(tables->front().rows, 8192);
  EXPECT_EQ(tables->front().dtype, DType::kF32);
  EXPECT_FALSE(tables->front().source.sequence_length);
}

TEST(WarmTest, OptionsComeBeforeTheSource) {
  const File file(kLlama);
  const auto tables = ReadWarmValue("dtype=bf16,positions=131072," + file.path(), kMaxPositions);
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 1u);
  EXPECT_EQ(tables->front().rows, 131072);
  EXPECT_EQ(tables->front().dtype, DType::kBF16);
}

TEST(WarmTest, ASpecAsJson) {
  const auto tables = ReadWarmValue(R"(positions=16,{"sinusoidal":{"dim":64}})", kMaxPositions);
  ASSERT_TRUE(tables.ok()) << tables.status();
  ASSERT_EQ(tables->size(), 1u);
  EXPECT_EQ(tables->front().rows, 16);
}

TEST(WarmTest, SchedulesThatNeedALengthSaySo) {
  const std::string spec = R"({"rope":{"head_dim":64,"dynamic_ntk":{"factor":2,"max_position":2048}}})";
  EXPECT_THAT(std::string(ReadWarmValue("positions=16," + spec, kMaxPositions).status().message()), HasSubstr("length=N"));
  const auto tables = ReadWarmValue("positions=16,length=4096," + spec, kMaxPositions);
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_EQ(tables->front().source.sequence_length, 4096);
}

TEST(WarmTest, BiasesAreLeftOut) {
  const auto tables = ReadWarmValue(R"({"alibi":{"num_heads":8}})", kMaxPositions);
  ASSERT_TRUE(tables.ok()) << tables.status();
  EXPECT_TRUE(tables->empty());
}

TEST(WarmTest, MistakesAreNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no source"},
      {"dtype=f32", "after"},
      {"dtype=f31,{}", "f64, f32, f16, bf16"},
      {"positions=0,{}", "1 to"},
      {"positions=99999999999,{}", "1 to"},
      {"length=0,{}", "1 or more"},
      {"positions=4,{\"rope\":", "EncodingSpec"},
      {"positions=4,{\"rope\":{\"heads\":1}}", "EncodingSpec"},
      {"positions=4,{\"rope\":{\"head_dim\":3}}", "--warm"},
      {"{\"rope\":{\"head_dim\":64}}", "positions=N"},
      {"positions=4,{\"rope\":{}}", "rope.head_dim: given nothing"},
      {"/no/such/file.json", "/no/such/file.json"},
  };
  for (const auto& [value, text] : cases) {
    const auto tables = ReadWarmValue(value, kMaxPositions);
    ASSERT_FALSE(tables.ok()) << value;
    EXPECT_THAT(std::string(tables.status().message()), HasSubstr(text)) << value;
    EXPECT_THAT(std::string(tables.status().message()), HasSubstr("--warm")) << value;
  }
  const File file(kLlama);
  EXPECT_THAT(std::string(ReadWarmValue("layer_type=full_attention," + file.path(), kMaxPositions).status().message()),
              HasSubstr("layer_type=full_attention"));
}

}  // namespace
}  // namespace phasor::server
