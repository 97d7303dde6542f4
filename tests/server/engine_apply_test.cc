#include <algorithm>
#include <mutex>
#include <random>
#include <thread>
#include <variant>
#include <vector>

#include "gtest/gtest.h"

#include "kernels/core/narrow.h"
#include "tests/server/engine_test_util.h"

namespace phasor::server {
namespace {

const FakeBackend& Oracle() {
  static const FakeBackend oracle{std::make_shared<FakeBackendState>()};
  return oracle;
}

enum class Axes { kBshd, kBhsd, kSbhd, kThd };

// A tensor of random numbers in that layout, cut into pieces of those lengths (the last one takes the rest). Between heads
// there are `gap` elements that belong to none.
TensorInput RandomTensor(DType dtype, Axes axes, int64_t batch, int64_t sequence, int64_t heads, int64_t head_dim,
                         int64_t gap, uint32_t seed, int64_t piece_bytes) {
  TensorInput t;
  t.dtype = dtype;
  t.batch = batch;
  t.sequence = sequence;
  t.heads = heads;
  t.head_dim = head_dim;
  const int64_t head = head_dim + gap;
  switch (axes) {
    case Axes::kBshd:
    case Axes::kThd:
      t.head_stride = head, t.sequence_stride = heads * head, t.batch_stride = sequence * heads * head;
      break;
    case Axes::kBhsd:
      t.sequence_stride = head, t.head_stride = sequence * head, t.batch_stride = heads * sequence * head;
      break;
    case Axes::kSbhd:
      t.head_stride = head, t.batch_stride = heads * head, t.sequence_stride = batch * heads * head;
      break;
  }
  const int64_t elements = batch * sequence * heads * head - gap;
  t.bytes = elements * SizeOf(dtype);
  t.shape = {batch, sequence, heads, head_dim};
  auto storage = std::make_shared<ByteString>(static_cast<size_t>(t.bytes));
  std::mt19937 random(seed);
  VisitFloat(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t i = 0; i < elements; ++i) {
      const T value = Narrow<T>(static_cast<double>(random()) * 0x1p-30 - 2);
      std::memcpy(storage->data() + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
  });
  // Each piece in memory of its own, at an odd address.
  for (int64_t at = 0, i = 0; at < t.bytes; ++i) {
    const int64_t size = std::min(t.bytes - at, piece_bytes + i % 3);
    auto piece = std::make_shared<ByteString>(static_cast<size_t>(size) + 1);
    std::memcpy(piece->data() + 1, storage->data() + at, static_cast<size_t>(size));
    t.payload.push_back(Bytes{piece, piece->data() + 1, size});
    if (i == 2) t.payload.push_back(Bytes{nullptr, nullptr, 0});
    at += size;
  }
  return t;
}

// One token and head at a time, straight through the backend.
ByteString Expect(const ApplyItem& item, const TensorInput& t) {
  const auto resolved = Resolve(item.source.spec, std::nullopt, item.source.precision);
  const auto& plan = std::get<AnglePlan>(resolved->plan);
  ByteString data = Flatten(t.payload);
  const DType table = t.dtype == DType::kF64 ? DType::kF64 : DType::kF32;
  for (int64_t b = 0; b < t.batch; ++b) {
    for (int64_t s = 0; s < t.sequence; ++s) {
      std::vector<std::byte> cos(static_cast<size_t>(plan.pairs()) * 8), sin(cos.size());
      AngleTask angle;
      angle.plan = &plan;
      angle.positions.start = item.positions.at(item.per_batch ? b * t.sequence + s : s);
      angle.dtype = table;
      angle.inverse = item.inverse;
      angle.cos = cos.data();
      angle.sin = sin.data();
      angle.row_stride = plan.pairs();
      EXPECT_TRUE(Oracle().Run(angle, {0, 1}, nullptr).ok());
      RotateTask rotate;
      rotate.dtype = t.dtype;
      rotate.pairing = *std::get<RopeSpec>(item.source.spec.spec).pairing;
      rotate.inverse = item.inverse;
      rotate.tokens = 1;
      rotate.heads = t.heads;
      rotate.head_dim = t.head_dim;
      rotate.pairs = plan.pairs();
      rotate.y = data.data() + (b * t.batch_stride + s * t.sequence_stride) * SizeOf(t.dtype);
      rotate.x = rotate.y;
      rotate.x_head_stride = rotate.y_head_stride = t.head_stride;
      rotate.cos = cos.data();
      rotate.sin = sin.data();
      rotate.table_stride = plan.pairs();
      EXPECT_TRUE(Oracle().Run(rotate, {0, 1}, nullptr).ok());
    }
  }
  return data;
}

ApplyItem Item(TableSource source, PositionSet positions, bool per_batch = false) {
  ApplyItem item;
  item.source = std::move(source);
  item.positions = std::move(positions);
  item.per_batch = per_batch;
  return item;
}

void Check(TestEngine& engine, ApplyItem item) {
  std::vector<ByteString> expected;
  for (const TensorInput& tensor : item.tensors) expected.push_back(Expect(item, tensor));
  const auto answer = engine.SendApply({item}).get();
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  const ApplyResult& result = answer.results[0];
  ASSERT_TRUE(result.status.ok()) << result.status;
  ASSERT_EQ(result.tensors.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_TRUE(Flatten(result.tensors[i].data) == expected[i]) << "tensor " << i;
    EXPECT_EQ(result.tensors[i].shape, item.tensors[i].shape);
    EXPECT_EQ(result.tensors[i].dtype, item.tensors[i].dtype);
  }
  EXPECT_EQ(result.fingerprint.size(), 32u);
}

TEST(Apply, EveryLayoutTypeAndCut) {
  TestEngine engine;
  uint32_t seed = 1;
  for (Axes axes : {Axes::kBshd, Axes::kBhsd, Axes::kSbhd}) {
    for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
      for (int64_t piece : {1, 7, 1 << 20}) {
        ApplyItem item = Item(Rope(3, 10000, seed % 2 == 0 ? Pairing::kInterleaved : Pairing::kHalfSplit), Range(4090, 9));
        item.tensors.push_back(RandomTensor(dtype, axes, 2, 9, 3, 6, 0, seed++, piece));
        Check(engine, item);
      }
    }
  }
}

TEST(Apply, QueriesAndKeysWithChannelsAndGapsLeftAlone) {
  TestEngine engine;
  for (Axes axes : {Axes::kBshd, Axes::kBhsd, Axes::kSbhd}) {
    ApplyItem item = Item(Rope(2), Range(0, 5));
    item.tensors.push_back(RandomTensor(DType::kF32, axes, 2, 5, 8, 7, 3, 11, 100));
    item.tensors.push_back(RandomTensor(DType::kBF16, axes, 2, 5, 2, 4, 0, 12, 33));
    item.tensors.push_back(RandomTensor(DType::kF64, axes, 2, 5, 1, 9, 1, 13, 5));
    Check(engine, item);
  }
}

TEST(Apply, PositionsPerBatchRowScatteredAndBackwards) {
  TestEngine engine;
  for (int round = 0; round < 2; ++round) {
    ApplyItem per_batch = Item(Rope(2), Ids({0, 1, 2, 8000, 8001, 3}), true);
    per_batch.tensors.push_back(RandomTensor(DType::kF32, Axes::kBshd, 2, 3, 2, 4, 0, 5, 64));
    Check(engine, per_batch);
    ApplyItem tokens = Item(Rope(2), Ids({0, 1, 0, 1, 2, 3}));
    tokens.tensors.push_back(RandomTensor(DType::kF16, Axes::kThd, 1, 6, 2, 4, 0, 6, 64));
    Check(engine, tokens);
    ApplyItem strided = Item(Rope(2), Range(5, 4, -3));
    strided.tensors.push_back(RandomTensor(DType::kF32, Axes::kBhsd, 3, 4, 2, 4, 0, 7, 64));
    Check(engine, strided);
    engine.One(TableItem(Rope(2), Range(0, 10)));  // now one of the tiles is there
  }
}

TEST(Apply, LargeTensorsRunInManySlices) {
  TestEngine engine;
  for (Axes axes : {Axes::kBshd, Axes::kBhsd}) {
    ApplyItem item = Item(Rope(4), Range(-3000, 6000));
    item.tensors.push_back(RandomTensor(DType::kF32, axes, 1, 6000, 4, 8, 0, 21, 65536));
    Check(engine, item);
  }
}

TEST(Apply, LittleRotationsByCachedTablesAreDoneWhereTheyCome) {
  std::mutex mutex;
  std::vector<std::thread::id> rotated;
  TestEngine engine({}, [&](const Task& task, RowRange) {
    if (std::holds_alternative<RotateTask>(task)) {
      const std::lock_guard lock(mutex);
      rotated.push_back(std::this_thread::get_id());
    }
    return absl::OkStatus();
  });
  const auto here = [&](ApplyItem item, size_t copies = 1) {
    rotated.clear();
    const auto answer = engine.SendApply(std::vector<ApplyItem>(copies, item)).get();
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    EXPECT_FALSE(rotated.empty());
    return std::all_of(rotated.begin(), rotated.end(), [](auto id) { return id == std::this_thread::get_id(); });
  };
  ApplyItem item = Item(Rope(4), Range(4000, 128));                                           // of two tiles
  item.tensors.push_back(RandomTensor(DType::kF32, Axes::kBshd, 1, 128, 8, 8, 0, 41, 1000));  // 32 KiB
  EXPECT_FALSE(here(item));                                                                   // a table has to be made
  EXPECT_TRUE(here(item));
  Check(engine, item);
  EXPECT_FALSE(here(item, 2));  // more than that in the whole call
  ApplyItem scattered = Item(Rope(4), Ids({4100, 4000, 4001}));
  scattered.tensors.push_back(RandomTensor(DType::kBF16, Axes::kBhsd, 1, 3, 2, 8, 0, 42, 7));
  EXPECT_TRUE(here(scattered));
  Check(engine, scattered);
  scattered.tensors.push_back(RandomTensor(DType::kF64, Axes::kBhsd, 1, 3, 2, 8, 0, 43, 7));
  EXPECT_FALSE(here(scattered));  // no table of f64 is there
  Check(engine, scattered);
}

// A description hashes every id: the thread that reads calls leaves many of them to a worker.
TEST(Apply, ManyIdsAreDescribedByAWorker) {
  TestEngine engine;
  const auto described_here = [&](PositionSet positions) {
    Batch<ApplyItem> batch;
    batch.emplace_back(Item(Rope(4), std::move(positions)));
    std::promise<std::thread::id> thread;
    engine->Apply(std::make_shared<CallContext>(), ValidatedAccess::Make(std::move(batch), true, 0),
                  [&thread](Answer<ApplyResult> answer) {
                    EXPECT_TRUE(answer.status.ok() && answer.results[0].status.ok()) << answer.status;
                    EXPECT_FALSE(answer.results[0].fingerprint.empty());
                    thread.set_value(std::this_thread::get_id());
                  });
    return thread.get_future().get() == std::this_thread::get_id();
  };
  const auto scattered = [](int64_t count) {
    std::vector<int64_t> ids(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) ids[static_cast<size_t>(i)] = i * i;
    return Ids(std::move(ids));
  };
  EXPECT_FALSE(described_here(Range(0, 1)));  // a plan has to be made
  EXPECT_TRUE(described_here(Range(0, 1 << 24)));
  EXPECT_TRUE(described_here(scattered(4096)));
  EXPECT_FALSE(described_here(scattered(4097)));
}

TEST(Apply, InverseUndoesForward) {
  auto backend = CreateBackend("auto");
  ASSERT_TRUE(backend.ok()) << backend.status();
  TestEngine engine({}, *std::move(backend));
  RopeSpec spec;
  spec.head_dim = 8;
  spec.attention_factor = 1.25;
  ApplyItem item = Item(Source(spec), Range(1000, 50));
  item.tensors.push_back(RandomTensor(DType::kF32, Axes::kBshd, 2, 50, 3, 8, 0, 31, 77));
  const ByteString before = Flatten(item.tensors[0].payload);
  auto forward = engine.SendApply({item}).get();
  ASSERT_TRUE(forward.results[0].status.ok()) << forward.results[0].status;
  item.inverse = true;
  item.tensors[0].payload = forward.results[0].tensors[0].data;
  EXPECT_NE(Flatten(item.tensors[0].payload), before);
  const auto back = engine.SendApply({item}).get();
  ASSERT_TRUE(back.results[0].status.ok()) << back.results[0].status;
  const ByteString after = Flatten(back.results[0].tensors[0].data);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < after.size(); i += sizeof(float)) {
    float x = 0, y = 0;
    std::memcpy(&x, before.data() + i, sizeof(x));
    std::memcpy(&y, after.data() + i, sizeof(y));
    EXPECT_NEAR(x, y, 4e-7 * 2.83);  // two rotations of three roundings each, of numbers below 2
  }
}

TEST(Apply, ABatchIsItsItemsAndPayloadsAreReleased) {
  std::vector<ApplyItem> items;
  std::vector<std::weak_ptr<const void>> owners;
  for (uint32_t i = 0; i < 6; ++i) {
    items.push_back(Item(Rope(2, 100 + i), Range(i, 20)));
    items.back().tensors.push_back(RandomTensor(DType::kF32, Axes::kBshd, 1, 20, 2, 4, 0, 40 + i, 50));
    owners.push_back(items.back().tensors[0].payload[0].owner);
  }
  TestEngine together, apart;
  std::vector<ByteString> single;
  for (const ApplyItem& item : items) single.push_back(Flatten(apart.SendApply({item}).get().results[0].tensors[0].data));
  const auto answer = together.SendApply(std::move(items)).get();
  for (size_t i = 0; i < single.size(); ++i) EXPECT_TRUE(Flatten(answer.results[i].tensors[0].data) == single[i]);
  items.clear();
  for (const auto& owner : owners) EXPECT_TRUE(owner.expired());
}

TEST(Apply, RefusesWhatIsNoRotation) {
  TestEngine engine;
  ApplyItem item = Item(Alibi(4), Range(0, 1));
  item.tensors.push_back(RandomTensor(DType::kF32, Axes::kBshd, 1, 1, 1, 4, 0, 1, 50));
  EXPECT_EQ(engine.SendApply({item}).get().results[0].status.code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace phasor::server
