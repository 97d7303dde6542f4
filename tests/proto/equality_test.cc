// Thousands of random and damaged messages: the raw codec reads what generated code reads.
#include <random>
#include <string>

#include "google/protobuf/stubs/logging.h"
#include "gtest/gtest.h"

#include "tests/proto/codec_check.h"

namespace phasor::raw {
namespace {

void Damage(std::string& bytes, std::mt19937_64& random) {
  if (bytes.empty()) return;
  const size_t at = random() % bytes.size();
  switch (random() % 5) {
    case 0:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << (random() % 8)));
      break;
    case 1:
      bytes.resize(at);
      break;
    case 2:
      bytes.erase(at, random() % 8 + 1);
      break;
    case 3:
      bytes.insert(at, bytes.substr(random() % bytes.size(), random() % 32));
      break;
    default:
      bytes[at] = static_cast<char>(random());
  }
}

bool Accepts(const Kind& kind, const std::string& bytes) {
  const google::protobuf::LogSilencer quiet;
  return kind.make()->ParseFromString(bytes);
}

class EqualityTest : public testing::TestWithParam<int> {};

TEST_P(EqualityTest, RandomMessages) {
  const Kind kind = KindOf(GetParam());
  std::mt19937_64 random(1000 + GetParam());
  for (int i = 0; i < 400; ++i) {
    const auto message = kind.make();
    FillAtRandom(message.get(), random);
    const std::string bytes = message->SerializeAsString();
    ASSERT_EQ(Difference(kind, bytes, i % 2 == 0 ? 4096 : 1, random), "") << "message " << i;
  }
}

// Two valid encodings one after the other are one message, merged: singular sub-messages and oneofs meet themselves.
TEST_P(EqualityTest, ConcatenatedMessagesMerge) {
  const Kind kind = KindOf(GetParam());
  std::mt19937_64 random(2000 + GetParam());
  for (int i = 0; i < 200; ++i) {
    std::string bytes;
    for (int k = 0; k < 3; ++k) {
      const auto message = kind.make();
      FillAtRandom(message.get(), random, 3);
      bytes += message->SerializeAsString();
    }
    ASSERT_EQ(Difference(kind, bytes, 64, random), "") << "message " << i;
  }
}

TEST_P(EqualityTest, DamagedMessages) {
  const Kind kind = KindOf(GetParam());
  std::mt19937_64 random(3000 + GetParam());
  int accepted = 0;
  for (int i = 0; i < 150; ++i) {
    const auto message = kind.make();
    FillAtRandom(message.get(), random, 4);
    const std::string whole = message->SerializeAsString();
    for (int k = 0; k < 40; ++k) {
      std::string bytes = whole;
      for (uint64_t damage = random() % 3;; --damage) {
        Damage(bytes, random);
        if (damage == 0) break;
      }
      ASSERT_EQ(Difference(kind, bytes, k % 3 == 0 ? 1 : 200, random), "") << "message " << i << ", damage " << k;
      accepted += Accepts(kind, bytes);
    }
  }
  EXPECT_GT(accepted, 500);  // of 6000: both answers are tried
  EXPECT_LT(accepted, 5500);
}

// Short strings of likely tag and length bytes reach corners (groups, ends, overlong varints) that damage rarely does.
TEST_P(EqualityTest, NoiseThatLooksLikeTags) {
  const Kind kind = KindOf(GetParam());
  std::mt19937_64 random(4000 + GetParam());
  constexpr uint8_t kAlphabet[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x0a, 0x0b, 0x0c, 0x12, 0x1a, 0x22, 0x2a, 0x32,
                                   0x80, 0x81, 0x8a, 0x8c, 0xa2, 0x06, 0x08, 0x10, 0x7f, 0xff, 0x5a, 0x13, 0x14};
  int accepted = 0;
  for (int i = 0; i < 40000; ++i) {
    std::string bytes(random() % 24, '\0');
    for (char& byte : bytes) byte = static_cast<char>(kAlphabet[random() % sizeof(kAlphabet)]);
    ASSERT_EQ(Difference(kind, bytes, 3, random), "") << testing::PrintToString(bytes);
    accepted += Accepts(kind, bytes);
  }
  EXPECT_GT(accepted, 2000);
  EXPECT_LT(accepted, 38000);
}

INSTANTIATE_TEST_SUITE_P(Kinds, EqualityTest, testing::Range(0, kKinds));

}  // namespace
}  // namespace phasor::raw
