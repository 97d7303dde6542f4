#include <algorithm>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "server/table_cache.h"
#include "tests/server/engine_test_util.h"

namespace phasor::server {
namespace {

using ::testing::ElementsAre;

const FakeBackend& Oracle() {
  static const FakeBackend oracle{std::make_shared<FakeBackendState>()};
  return oracle;
}

TEST(Precompute, WindowsOverTileEdges) {
  TestEngine engine;
  for (auto [start, count] : {std::pair<int64_t, int64_t>{0, 5},
                              {4090, 12},
                              {-3, 6},
                              {-4097, 4099},
                              {4096, 4096},
                              {100, 9000},
                              {(int64_t{1} << 31) - 5, 5},
                              {-(int64_t{1} << 31) + 1, 5}}) {
    for (int round = 0; round < 2; ++round) {  // built, then cached
      const PrecomputeItem item = TableItem(Rope(2), Range(start, count));
      const PrecomputeResult result = engine.One(item);
      ExpectSame(ExpectTable(Oracle(), item), result);
      ASSERT_TRUE(result.cos && result.sin && !result.table && !result.bias && !result.inv_freq);
      EXPECT_THAT(result.cos->shape, ElementsAre(count, 2));
      EXPECT_EQ(result.payload_bytes, 2 * count * 2 * 4);
      if (round == 1) {
        EXPECT_EQ(result.cache, CacheOutcome::kHit);
      }
    }
  }
}

TEST(Precompute, EveryFormTypeAndSpacing) {
  TestEngine engine;
  const std::vector<PositionSet> positions = {Range(0, 7),     Range(4000, 300), Range(5, 40, 3),
                                              Range(9, 5, -4), Range(3, 4, 0),   Ids({5, 3, 3, 70000, -1, 4097, 4, 5}),
                                              Range(11, 0)};
  for (TableForm form :
       {TableForm::kHalf, TableForm::kDuplicated, TableForm::kInterleavedDuplicated, TableForm::kConcatenated}) {
    for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      for (const PositionSet& set : positions) {
        const PrecomputeItem item = TableItem(Rope(3), set, form, dtype);
        const PrecomputeResult result = engine.One(item);
        ExpectSame(ExpectTable(Oracle(), item), result);
        const auto& array = form == TableForm::kConcatenated ? result.table : result.cos;
        ASSERT_TRUE(array.has_value());
        EXPECT_EQ(array->dtype, dtype);
        EXPECT_THAT(array->shape, ElementsAre(set.count, form == TableForm::kHalf ? 3 : 6));
      }
    }
  }
}

TEST(Precompute, SinusoidsWithOffsetPaddingAndOddWidth) {
  TestEngine engine;
  for (int64_t dim : {1, 7, 8}) {
    for (bool concatenated : {false, true}) {
      SinusoidalSpec spec;
      spec.dim = dim;
      spec.layout = concatenated ? SinusoidalLayout::kConcatenated : SinusoidalLayout::kInterleaved;
      spec.position_offset = 2;
      spec.padding_row = 5;
      const TableForm form = concatenated ? TableForm::kSinCosConcatenated : TableForm::kSinCosInterleaved;
      for (const PositionSet& set : {Range(0, 10), Range(100, 4), Ids({3, 9, 3, 4})}) {
        const PrecomputeItem item = TableItem(Source(spec), set, form);
        const Expected expected = ExpectTable(Oracle(), item);
        ExpectSame(expected, engine.One(item));
        ExpectSame(expected, engine.One(item));
      }
    }
  }
  SinusoidalSpec spec;
  spec.dim = 8;
  spec.position_offset = 2;
  const auto refused =
      engine.Call({TableItem(Source(spec), Range((int64_t{1} << 31) - 2, 1), TableForm::kSinCosInterleaved)});
  ASSERT_EQ(refused.results.size(), 1u);
  EXPECT_EQ(refused.results[0].status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SpecErrorOf(refused.results[0].status)->field, "sinusoidal.position_offset");
}

TEST(Precompute, InverseHasTilesOfItsOwn) {
  TestEngine engine;
  PrecomputeItem item = TableItem(Rope(), Range(0, 10));
  const auto forward = Flatten(engine.One(item).cos);
  std::get<TableRequest>(item.window).inverse = true;
  const PrecomputeResult inverse = engine.One(item);
  EXPECT_EQ(inverse.cache, CacheOutcome::kMiss);
  ExpectSame(ExpectTable(Oracle(), item), inverse);
  EXPECT_NE(Flatten(inverse.cos), forward);
}

TEST(Precompute, InvFreqAndWhatThePlanSays) {
  TestEngine engine;
  RopeSpec spec;
  spec.head_dim = 8;
  spec.schedule = YarnSchedule{.factor = 4,
                               .original_max_position = 1000,
                               .beta_fast = {},
                               .beta_slow = {},
                               .truncate = {},
                               .mscale = {},
                               .mscale_all_dim = {},
                               .attention_coefficient = {},
                               .log_blend = {},
                               .attention_factor_multiplier = {},
                               .extrapolation_factor = {}};
  PrecomputeItem item = TableItem(Source(spec), Range(0, 2));
  std::get<TableRequest>(item.window).include_inv_freq = true;
  const PrecomputeResult result = engine.One(item);
  const auto plan = engine->ResolvePlan(item.source.spec, std::nullopt, Precision::kExact);
  ASSERT_TRUE(plan.ok() && result.inv_freq);
  EXPECT_EQ(result.attention_factor, (*plan)->attention_factor);
  EXPECT_GT(result.attention_factor, 1);
  EXPECT_THAT(result.inv_freq->shape, ElementsAre(4));
  std::vector<double> values(4);
  const auto bytes = Flatten(result.inv_freq);
  ASSERT_EQ(bytes.size(), sizeof(double) * 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  EXPECT_EQ(values, std::get<AnglePlan>((*plan)->plan).inv_freq);
}

// The real backend: whatever the engine cuts, caches or gathers, bits are those of one task a row.
TEST(Precompute, RealNumbersDoNotDependOnTheWay) {
  const auto direct = CreateBackend("auto");
  ASSERT_TRUE(direct.ok()) << direct.status();
  TestEngine engine({}, *CreateBackend("auto"));
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 700; ++i) ids.push_back(i * 37 % 4096 + 1000000);
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (Precision precision : {Precision::kExact, Precision::kCompatF32}) {
      for (const PositionSet& set :
           {Range(1000000, 300), Range(-70, 5000), Range(7, 90, 1111), Ids(ids), Ids({1000001, 5, -3})}) {
        TableSource source = Rope(5, 500000);
        source.precision = precision;
        const PrecomputeItem item = TableItem(source, set, TableForm::kDuplicated, dtype);
        ExpectSame(ExpectTable(**direct, item), engine.One(item));
      }
    }
  }
}

TEST(Precompute, GrowingWindowsBuildOnlyWhatIsNew) {
  TestEngine engine;
  EXPECT_EQ(engine.One(TableItem(Rope(), Range(0, 100))).cache, CacheOutcome::kMiss);
  EXPECT_EQ(engine.builds(), 1);
  EXPECT_EQ(engine.fake().angle_rows, kTileRows);
  EXPECT_EQ(engine.One(TableItem(Rope(), Range(0, 4096))).cache, CacheOutcome::kHit);
  EXPECT_EQ(engine.One(TableItem(Rope(), Range(0, 4097))).cache, CacheOutcome::kPartial);
  EXPECT_EQ(engine.builds(), 2);
  EXPECT_EQ(engine.One(TableItem(Rope(), Range(2000, 12000))).cache, CacheOutcome::kPartial);
  EXPECT_EQ(engine.builds(), 4);
  EXPECT_EQ(engine.fake().angle_rows, 4 * kTileRows);
  // Another spelling of the plan shares the tiles.
  RopeSpec linear;
  linear.head_dim = 8;
  linear.schedule = LinearSchedule{1};
  EXPECT_EQ(engine.One(TableItem(Source(linear), Range(0, 100))).cache, CacheOutcome::kHit);
  EXPECT_EQ(engine.builds(), 4);
}

TEST(Precompute, CachedWindowsAreSlicesOfTheSameTile) {
  TestEngine engine;
  const PrecomputeResult first = engine.One(TableItem(Rope(), Range(0, 8192)));
  const int64_t used = engine->stats().pool_used_bytes;
  const PrecomputeResult second = engine.One(TableItem(Rope(), Range(1, 8191)));
  ASSERT_EQ(second.cos->data.size(), 2u);
  EXPECT_EQ(second.cos->data[0].data, first.cos->data[0].data + 16);
  EXPECT_EQ(second.sin->data[1].data, first.sin->data[1].data);
  EXPECT_EQ(engine->stats().pool_used_bytes, used);
}

TEST(Precompute, DearWindowsAreComputedAlone) {
  TestEngine engine;
  const PrecomputeItem narrow = TableItem(Rope(), Range(100, 1023), TableForm::kHalf, DType::kF64);
  const PrecomputeResult direct = engine.One(narrow);
  EXPECT_EQ(direct.cache, CacheOutcome::kBypass);
  EXPECT_EQ(engine.fake().angle_rows, 1023);
  EXPECT_EQ(engine.builds(), 0);
  ExpectSame(ExpectTable(Oracle(), narrow), direct);
  const PrecomputeItem wide = TableItem(Rope(), Range(100, 1024), TableForm::kHalf, DType::kF64);
  EXPECT_EQ(engine.One(wide).cache, CacheOutcome::kMiss);
  EXPECT_EQ(engine.builds(), 1);
  EXPECT_EQ(engine.One(narrow).cache, CacheOutcome::kHit);
}

TEST(Precompute, ScatteredIds) {
  TestEngine engine;
  const PrecomputeItem few = TableItem(Rope(), Ids({9000, 3, 70000, 3}));
  const PrecomputeResult bypass = engine.One(few);
  EXPECT_EQ(bypass.cache, CacheOutcome::kBypass);
  EXPECT_EQ(engine.fake().angle_rows, 4);
  ExpectSame(ExpectTable(Oracle(), few), bypass);

  std::vector<int64_t> dense;
  std::mt19937 random(7);
  for (int i = 0; i < 600; ++i) dense.push_back(static_cast<int64_t>(random() % 4096));
  dense.push_back(100000);
  const PrecomputeItem mixed = TableItem(Rope(), Ids(dense), TableForm::kDuplicated);
  const PrecomputeResult built = engine.One(mixed);
  EXPECT_EQ(built.cache, CacheOutcome::kMiss);
  EXPECT_EQ(engine.builds(), 1);
  EXPECT_EQ(engine.fake().angle_rows, 4 + kTileRows + 1);
  ExpectSame(ExpectTable(Oracle(), mixed), built);
  EXPECT_EQ(engine.One(few).cache, CacheOutcome::kPartial);  // 3 is there now
}

TEST(Precompute, NothingIsCachedWithoutRoom) {
  EngineOptions options;
  options.cache_bytes = 0;
  TestEngine engine(options);
  const PrecomputeItem item = TableItem(Rope(), Range(4000, 5000), TableForm::kConcatenated);
  for (int i = 0; i < 2; ++i) {
    const PrecomputeResult result = engine.One(item);
    EXPECT_EQ(result.cache, CacheOutcome::kBypass);
    ExpectSame(ExpectTable(Oracle(), item), result);
  }
  EXPECT_EQ(engine->stats().cache_bytes, 0);
  EXPECT_EQ(engine.fake().angle_rows, 10000);
}

TEST(Precompute, OneRequestDoesNotPushOutTheRest) {
  EngineOptions options;
  options.cache_bytes = 8 * 2 * kTileRows * 4 * 4;  // eight tiles of 4 pairs in f32
  TestEngine engine(options);
  engine.One(TableItem(Rope(), Range(0, 10)));
  const PrecomputeItem scan = TableItem(Rope(4, 500), Range(0, 5 * kTileRows));
  const PrecomputeResult result = engine.One(scan);
  EXPECT_EQ(result.cache, CacheOutcome::kBypass);
  ExpectSame(ExpectTable(Oracle(), scan), result);
  EXPECT_EQ(engine.One(TableItem(Rope(), Range(0, 10))).cache, CacheOutcome::kHit);
}

ByteString ExpectBias(const PrecomputeItem& item) {
  const auto& request = std::get<BiasRequest>(item.window);
  const auto resolved = Resolve(item.source.spec, std::nullopt, Precision::kExact);
  const int64_t size = SizeOf(item.dtype);
  ByteString out;
  for (int64_t head = 0; head < request.heads; ++head) {
    const auto append = [&](int64_t distance) {
      BiasVectorTask task;
      task.plan = &std::get<BiasPlan>(resolved->plan);
      task.dtype = item.dtype;
      task.first_distance = distance;
      task.first_head = request.first_head + head;
      task.heads = 1;
      std::byte value[8];
      task.out = value;
      EXPECT_TRUE(Oracle().Run(task, {0, 1}, nullptr).ok());
      out.insert(out.end(), value, value + size);
    };
    const int64_t first = -(request.queries - 1) - request.query_offset;
    if (request.form == BiasForm::kVector) {
      for (int64_t e = 0; e < request.queries + request.keys - 1; ++e) append(first + e);
    } else if (request.form == BiasForm::kRow) {
      for (int64_t k = 0; k < request.keys; ++k) append(k - (request.query_offset + request.queries - 1));
    } else {
      for (int64_t q = 0; q < request.queries; ++q) {
        for (int64_t k = 0; k < request.keys; ++k) append(k - (request.query_offset + q));
      }
    }
  }
  return out;
}

TEST(Precompute, BiasesInEveryForm) {
  TestEngine engine;
  for (BiasForm form : {BiasForm::kVector, BiasForm::kRow, BiasForm::kFull}) {
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kF64}) {
      for (const BiasRequest& request : {BiasRequest{5, 7, 2, 0, 8, form}, BiasRequest{1, 300, 299, 3, 2, form},
                                         BiasRequest{40, 9, -5, 7, 1, form}, BiasRequest{3, 5000, 4997, 1, 2, form}}) {
        const PrecomputeItem item = BiasItem(Alibi(8), request, dtype);
        for (int round = 0; round < 2; ++round) {
          const PrecomputeResult result = engine.One(item);
          EXPECT_TRUE(Flatten(result.bias) == ExpectBias(item));
          if (round == 1) {
            EXPECT_EQ(result.cache, CacheOutcome::kHit);
          }
        }
      }
    }
  }
  // A large full bias takes the worker's way: two stages in slices.
  const PrecomputeItem large = BiasItem(Alibi(8), {200, 300, 100, 0, 8, BiasForm::kFull});
  EXPECT_TRUE(Flatten(engine.One(large).bias) == ExpectBias(large));
}

TEST(Precompute, ValidateOnlyAndNotModifiedMakeNoData) {
  TestEngine engine;
  PrecomputeItem item = TableItem(Rope(), Range(0, 5000), TableForm::kConcatenated);
  for (int round = 0; round < 2; ++round) {  // plan unknown, then known
    const auto answer = engine.Send({item}, std::make_shared<CallContext>(), true).get();
    ASSERT_EQ(answer.results.size(), 1u);
    const PrecomputeResult& result = answer.results[0];
    EXPECT_TRUE(result.status.ok());
    EXPECT_EQ(result.fingerprint.size(), 32u);
    EXPECT_EQ(result.payload_bytes, item.payload_bytes);
    ASSERT_TRUE(result.table);
    EXPECT_THAT(result.table->shape, ElementsAre(5000, 8));
    EXPECT_TRUE(result.table->data.empty());
    EXPECT_EQ(result.cache, CacheOutcome::kNone);
    item.if_fingerprint_not = result.fingerprint;
  }
  EXPECT_EQ(engine.fake().runs, 0);
  const PrecomputeResult same = engine.One(item);
  EXPECT_TRUE(same.not_modified);
  EXPECT_TRUE(same.table->data.empty());
  EXPECT_EQ(engine.fake().runs, 0);
  item.if_fingerprint_not[0] ^= 1;
  const PrecomputeResult other = engine.One(item);
  EXPECT_FALSE(other.not_modified);
  EXPECT_FALSE(other.table->data.empty());
}

TEST(Precompute, ABatchIsItsItems) {
  std::vector<PrecomputeItem> items;
  for (int64_t i = 0; i < 12; ++i) {
    items.push_back(TableItem(Rope(2 + i % 3, 1000 + static_cast<double>(i)), Range(i * 1000, 700 + i),
                              static_cast<TableForm>(1 + i % 4)));
  }
  items.push_back(BiasItem(Alibi(4), {9, 9, 0, 0, 4, BiasForm::kFull}));
  TestEngine together, apart;
  Answer<PrecomputeResult> batch = together.Call(items);
  ASSERT_EQ(batch.results.size(), items.size());
  for (size_t i = 0; i < items.size(); ++i) {
    const PrecomputeResult one = apart.One(items[i]);
    EXPECT_EQ(batch.results[i].fingerprint, one.fingerprint);
    EXPECT_EQ(Flatten(batch.results[i].cos), Flatten(one.cos));
    EXPECT_EQ(Flatten(batch.results[i].sin), Flatten(one.sin));
    EXPECT_EQ(Flatten(batch.results[i].table), Flatten(one.table));
    EXPECT_EQ(Flatten(batch.results[i].bias), Flatten(one.bias));
  }
}

TEST(Precompute, ARefusedItemLeavesTheOthersAlone) {
  TestEngine engine;
  Batch<PrecomputeItem> batch;
  batch.emplace_back(absl::InvalidArgumentError("bad"));
  batch.emplace_back(TableItem(Rope(), Range(0, 3)));
  RopeSpec dynamic;
  dynamic.head_dim = 8;
  dynamic.schedule = DynamicNtkSchedule{2, 1024};
  PrecomputeItem without_length = TableItem(Rope(), Range(0, 3));
  without_length.source = Source(dynamic);
  batch.emplace_back(std::move(without_length));
  std::promise<Answer<PrecomputeResult>> promise;
  engine->Precompute(std::make_shared<CallContext>(), ValidatedAccess::Make(std::move(batch), false, 100),
                     [&](Answer<PrecomputeResult> answer) { promise.set_value(std::move(answer)); });
  const auto answer = promise.get_future().get();
  ASSERT_EQ(answer.results.size(), 3u);
  EXPECT_EQ(answer.results[0].status, absl::InvalidArgumentError("bad"));
  EXPECT_TRUE(answer.results[1].status.ok());
  EXPECT_EQ(Flatten(answer.results[1].cos).size(), 48u);
  EXPECT_EQ(answer.results[2].status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(Precompute, WarmingMakesHits) {
  TestEngine engine;
  EXPECT_TRUE(engine->Warm(Rope(), DType::kF32, 10000).ok());
  EXPECT_EQ(engine.builds(), 3);
  EXPECT_EQ(engine.One(TableItem(Rope(), Range(0, 10000))).cache, CacheOutcome::kHit);
  EXPECT_TRUE(engine->Warm(Alibi(4), DType::kF32, 5000).ok());
  EXPECT_EQ(engine.One(BiasItem(Alibi(4), {5000, 5000, 0, 0, 4, BiasForm::kVector})).cache, CacheOutcome::kHit);
  EXPECT_EQ(engine->ListTables().size(), 2u);
  EXPECT_TRUE(engine->HasTable(engine->ListTables()[0].name));
  EXPECT_EQ(engine->Warm(Rope(30000), DType::kF64, 10000).code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace phasor::server
