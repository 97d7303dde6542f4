// Equal fingerprints mean equal bits, and one request in another spelling has the same fingerprint: on what backends answer.
#include "server/fingerprint.h"

#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/backend.h"
#include "kernels/core/key_bytes.h"
#include "server/call_context.h"
#include "server/plan_cache.h"
#include "tests/server/engine_test_util.h"

namespace phasor::server {
namespace {

class FingerprintTest : public ::testing::Test {
 protected:
  FingerprintTest() {
    auto backend = CreateBackend("auto");
    EXPECT_TRUE(backend.ok()) << backend.status();
    engine_ = std::make_unique<TestEngine>(EngineOptions(), *std::move(backend));
  }

  // The fingerprint. Everything that was answered under it before must have had the same shapes and bits.
  std::string Print(const PrecomputeItem& item) {
    const PrecomputeResult result = engine_->One(item);
    std::vector<std::pair<std::vector<int64_t>, ByteString>> arrays;
    for (const auto* array : {&result.cos, &result.sin, &result.table, &result.bias, &result.inv_freq}) {
      if (*array) arrays.emplace_back((*array)->shape, Flatten(*array));
    }
    const auto [known, fresh] = seen_.emplace(result.fingerprint, arrays);
    EXPECT_TRUE(fresh || known->second == arrays);
    return result.fingerprint;
  }

  std::unique_ptr<TestEngine> engine_;
  std::map<std::string, std::vector<std::pair<std::vector<int64_t>, ByteString>>> seen_;
};

TableSource WithFactor(double factor, Precision precision) {
  RopeSpec spec;
  spec.head_dim = 8;
  spec.attention_factor = factor;
  TableSource source = Source(spec);
  source.precision = precision;
  return source;
}

PrecomputeItem Inverse(PrecomputeItem item) {
  std::get<TableRequest>(item.window).inverse = true;
  return item;
}

PrecomputeItem WithInvFreq(PrecomputeItem item) {
  std::get<TableRequest>(item.window).include_inv_freq = true;
  return item;
}

TEST_F(FingerprintTest, AnInverseWithoutAFactorIsTheSameTable) {
  for (const Precision precision : {Precision::kExact, Precision::kCompatF32}) {
    for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      const auto item = TableItem(WithFactor(1, precision), Range(-7, 300), TableForm::kHalf, dtype);
      EXPECT_EQ(Print(item), Print(Inverse(item)));
      const auto scaled = TableItem(WithFactor(1.25, precision), Range(-7, 300), TableForm::kHalf, dtype);
      EXPECT_NE(Print(scaled), Print(Inverse(scaled)));
      EXPECT_NE(Print(scaled), Print(item));
    }
  }
  // A factor that float32 cannot tell from 1.
  const auto nearly = TableItem(WithFactor(1 + 0x1p-40, Precision::kCompatF32), Range(0, 50));
  EXPECT_EQ(Print(nearly), Print(Inverse(nearly)));
  const auto exactly = TableItem(WithFactor(1 + 0x1p-40, Precision::kExact), Range(0, 50));
  EXPECT_NE(Print(exactly), Print(Inverse(exactly)));
}

// Compat plans that float32 cannot tell apart give the same table, but not the same inv_freq in f64.
TEST_F(FingerprintTest, InvFreqCountsWhereItIsAnswered) {
  TableSource a = Rope(4, 10000), b = Rope(4, 10000.000000001);
  a.precision = b.precision = Precision::kCompatF32;
  EXPECT_EQ(Print(TableItem(a, Range(0, 9))), Print(TableItem(b, Range(0, 9))));
  EXPECT_NE(Print(WithInvFreq(TableItem(a, Range(0, 9)))), Print(WithInvFreq(TableItem(b, Range(0, 9)))));
}

TEST_F(FingerprintTest, AnOffsetIsTheRowsThatItLeadsTo) {
  const auto item = [](int64_t offset, int64_t start, std::optional<int64_t> padding = std::nullopt) {
    SinusoidalSpec spec;
    spec.dim = 8;
    spec.position_offset = offset;
    spec.padding_row = padding;
    return TableItem(Source(spec), Range(start, 20), TableForm::kSinCosInterleaved);
  };
  EXPECT_EQ(Print(item(0, 5)), Print(item(2, 3)));
  EXPECT_EQ(Print(item(0, 5)), Print(item(-4, 9)));
  EXPECT_NE(Print(item(0, 5)), Print(item(2, 5)));
  EXPECT_NE(Print(item(0, 5)), Print(item(0, 5, 7)));
  EXPECT_EQ(Print(item(0, 5, 7)), Print(item(2, 3, 7)));
  EXPECT_EQ(Print(item(0, 5)), Print(item(2, 3, 1)));  // a row that the window does not have
}

TableSource Slopes(std::vector<double> slopes, AlibiForm form = AlibiForm::kCausal) {
  AlibiSpec spec;
  spec.slopes = std::move(slopes);
  spec.form = form;
  return Source(spec);
}

TEST_F(FingerprintTest, ABiasIsItsArray) {
  // Heads: those of the window, whatever model they belong to.
  EXPECT_EQ(Print(BiasItem(Slopes({0.5, 0.25, 0.125}), {4, 9, 5, 1, 2, BiasForm::kFull})),
            Print(BiasItem(Slopes({0.25, 0.125}), {4, 9, 5, 0, 2, BiasForm::kFull})));
  EXPECT_NE(Print(BiasItem(Slopes({0.5, 0.25, 0.125}), {4, 9, 5, 0, 2, BiasForm::kFull})),
            Print(BiasItem(Slopes({0.25, 0.125}), {4, 9, 5, 0, 2, BiasForm::kFull})));
  const TableSource alibi = Alibi(8);
  // Vectors: the first distance and how many there are.
  const std::string vector = Print(BiasItem(alibi, {4, 9, 5, 2, 3, BiasForm::kVector}));
  EXPECT_EQ(vector, Print(BiasItem(alibi, {6, 7, 3, 2, 3, BiasForm::kVector})));
  EXPECT_EQ(vector, Print(BiasItem(alibi, {1, 12, 8, 2, 3, BiasForm::kVector})));
  EXPECT_EQ(vector, Print(BiasItem(alibi, {1, 12, 8, 2, 3, BiasForm::kRow})));
  EXPECT_EQ(vector, Print(BiasItem(alibi, {4, 12, 5, 2, 3, BiasForm::kRow})));
  EXPECT_NE(vector, Print(BiasItem(alibi, {4, 9, 4, 2, 3, BiasForm::kVector})));
  EXPECT_NE(vector, Print(BiasItem(alibi, {4, 8, 5, 2, 3, BiasForm::kVector})));
  EXPECT_NE(vector, Print(BiasItem(alibi, {4, 9, 5, 1, 3, BiasForm::kVector})));
  EXPECT_NE(vector, Print(BiasItem(alibi, {4, 9, 5, 2, 3, BiasForm::kVector}, DType::kF16)));
  // A full one has an axis more, whatever its extents.
  EXPECT_NE(vector, Print(BiasItem(alibi, {1, 12, 8, 2, 3, BiasForm::kFull})));
  EXPECT_NE(Print(BiasItem(alibi, {3, 4, 1, 0, 1, BiasForm::kFull})),
            Print(BiasItem(alibi, {4, 3, 0, 0, 1, BiasForm::kFull})));
}

TEST_F(FingerprintTest, FormsOfABiasDifferOnlyBeyondTheQuery) {
  const TableSource causal = Slopes({0.5, -0.25, 0}), symmetric = Slopes({0.5, -0.25, 0}, AlibiForm::kSymmetric);
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    EXPECT_EQ(Print(BiasItem(causal, {1, 9, 8, 0, 3, BiasForm::kRow}, dtype)),
              Print(BiasItem(symmetric, {1, 9, 8, 0, 3, BiasForm::kRow}, dtype)));
    EXPECT_NE(Print(BiasItem(causal, {1, 9, 7, 0, 3, BiasForm::kRow}, dtype)),
              Print(BiasItem(symmetric, {1, 9, 7, 0, 3, BiasForm::kRow}, dtype)));
  }
}

// Clients keep fingerprints, so the bytes that they are digests of may not change unless the numerics version does.
TEST(FingerprintBytes, AreThePlansAndThenTheContents) {
  const std::string key(3000, 'k');
  KeyBytes plan;
  plan.Int(kNumericsVersion);
  plan.Text(key);

  KeyBytes whole = plan;
  whole.Byte(0);
  EXPECT_EQ(PlanKeyFingerprint(PlanHash(key)), Sha256(whole.bytes()));

  const PositionSet range = Range(-7, 300, 3), ids = Ids({4, 4, 9});
  const double frequencies[] = {1, 0.5};
  KeyBytes table = plan;
  table.Byte(1);
  table.Int(300);
  table.Byte(1);
  table.Int(-5);
  table.Int(3);
  table.Byte(1);
  table.Int(8);
  table.Byte(1);
  table.Int(2);
  for (const double frequency : frequencies) table.Double(frequency);
  table.Byte(static_cast<uint8_t>(DType::kF16));
  table.Byte(static_cast<uint8_t>(TableForm::kDuplicated));
  table.Int(128);
  EXPECT_EQ(*TableFingerprint(PlanHash(key),
                              {.positions = &range,
                               .position_offset = 2,
                               .zero_row = 8,
                               .form = TableForm::kDuplicated,
                               .columns = 128,
                               .inverse = true,
                               .inv_freq = frequencies},
                              DType::kF16),
            Sha256(table.bytes()));

  KeyBytes rows = plan;
  rows.Byte(1);
  rows.Int(3);
  rows.Byte(2);
  for (const int64_t id : {4, 4, 9}) rows.Int(id);
  rows.Byte(0);
  rows.Int(0);
  rows.Byte(0);
  rows.Int(0);
  rows.Byte(static_cast<uint8_t>(DType::kF32));
  rows.Byte(static_cast<uint8_t>(TableForm::kHalf));
  rows.Int(64);
  TableContent scattered;
  scattered.positions = &ids;
  scattered.columns = 64;
  EXPECT_EQ(*TableFingerprint(PlanHash(key), scattered, DType::kF32), Sha256(rows.bytes()));
}

// Ids are hashed in blocks, of which nothing is seen in the digest.
TEST(FingerprintBytes, OfManyIds) {
  constexpr int64_t kCount = 3 * 8192 + 5, kOffset = -100;
  std::vector<int64_t> squares;
  for (int64_t i = 0; i < kCount; ++i) squares.push_back(i % 7 - i * i);
  KeyBytes bytes;
  bytes.Int(kNumericsVersion);
  bytes.Text("plan");
  bytes.Byte(1);
  bytes.Int(kCount);
  bytes.Byte(2);
  for (const int64_t id : squares) bytes.Int(id + kOffset);
  bytes.Byte(0);
  bytes.Int(0);
  bytes.Byte(0);
  bytes.Int(0);
  bytes.Byte(static_cast<uint8_t>(DType::kF32));
  bytes.Byte(static_cast<uint8_t>(TableForm::kHalf));
  bytes.Int(64);
  const PositionSet ids = Ids(squares);
  TableContent content;
  content.positions = &ids;
  content.position_offset = kOffset;
  content.columns = 64;
  CallContext call;
  EXPECT_EQ(*TableFingerprint(PlanHash("plan"), content, DType::kF32, &call), Sha256(bytes.bytes()));
}

TEST(FingerprintBytes, ACallThatIsOverHashesNoMoreIds) {
  std::vector<int64_t> squares;
  for (int64_t i = 0; i < 8193; ++i) squares.push_back(i * i);
  const PositionSet ids = Ids(squares);
  TableContent content;
  content.positions = &ids;
  CallContext late, cancelled;
  late.deadline = std::chrono::steady_clock::now();
  cancelled.cancelled = true;
  const auto code = [&](const CallContext* call) {
    return TableFingerprint(PlanHash("plan"), content, DType::kF32, call).status().code();
  };
  EXPECT_EQ(code(nullptr), absl::StatusCode::kOk);
  EXPECT_EQ(code(&late), absl::StatusCode::kDeadlineExceeded);
  EXPECT_EQ(code(&cancelled), absl::StatusCode::kCancelled);
}

// A plan of the cache has its hash at hand; it says what is made anew from the plan's key.
TEST(FingerprintBytes, OfPlansInTheCache) {
  PlanCache cache(4);
  KerpleSpec kerple;
  kerple.form = KerpleForm::kLog;
  kerple.num_heads = 2;
  kerple.r1 = {1, 2};
  kerple.r2 = {0.5, 0.25};
  const BiasRequest request{4, 9, 5, 0, 1, BiasForm::kFull};
  for (const TableSource& source : {Rope(), Alibi(4), Source(kerple)}) {
    const auto entry = cache.Resolve(source.spec, std::nullopt, Precision::kExact);
    ASSERT_TRUE(entry.ok()) << entry.status();
    EXPECT_EQ((*entry)->hash.With("window"), PlanHash((*entry)->key).With("window"));
    EXPECT_EQ((*entry)->fingerprint, PlanFingerprint((*entry)->resolved.plan));
    if (!(*entry)->bias()) continue;
    const Plan& plan = (*entry)->resolved.plan;
    EXPECT_EQ(BiasFingerprint(plan, request, DType::kF32, &(*entry)->hash), BiasFingerprint(plan, request, DType::kF32));
  }
}

TEST(FingerprintBytes, OneHashServesManyThreads) {
  const PlanHash hash(std::string(5000, 'k'));
  std::vector<std::string> expected;
  for (int i = 0; i < 50; ++i) expected.push_back(hash.With(std::string(static_cast<size_t>(i), 'w')));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&expected, mine = hash] {
      for (int round = 0; round < 100; ++round) {
        for (size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(mine.With(std::string(i, 'w')), expected[i]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Windows of every kind against each other: Print checks that no two of them share a fingerprint by mistake.
TEST_F(FingerprintTest, NeverOneForDifferentBits) {
  for (const TableSource& source : {Alibi(2), Alibi(3), Slopes({0.5, 0.25}), Slopes({0.5, 0.25}, AlibiForm::kSymmetric)}) {
    for (const BiasForm form : {BiasForm::kFull, BiasForm::kVector, BiasForm::kRow}) {
      for (const int64_t queries : {1, 2, 3}) {
        for (const int64_t keys : {1, 2, 3, 4}) {
          for (const int64_t offset : {-1, 0, 1, 2}) {
            for (const int64_t first : {0, 1}) Print(BiasItem(source, {queries, keys, offset, first, 1, form}));
          }
        }
      }
    }
  }
  for (const Precision precision : {Precision::kExact, Precision::kCompatF32}) {
    for (const double factor : {1.0, 1 + 0x1p-40, 2.0}) {
      for (const TableForm form :
           {TableForm::kHalf, TableForm::kDuplicated, TableForm::kInterleavedDuplicated, TableForm::kConcatenated}) {
        for (const PositionSet& positions : {Range(0, 3), Range(1, 3), Range(2, 3, -1), Ids({0, 1, 2}), Ids({0, 2, 1})}) {
          const PrecomputeItem item = TableItem(WithFactor(factor, precision), positions, form);
          Print(item);
          Print(Inverse(item));
          Print(WithInvFreq(item));
        }
      }
    }
  }
  EXPECT_GT(seen_.size(), 200u);
}

}  // namespace
}  // namespace phasor::server
