#include "kernels/cpu/rotate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "kernels/core/dtype.h"
#include "kernels/core/narrow.h"
#include "tests/kernels/cpu/each_target.h"
#include "tests/kernels/cpu/guarded_buffer.h"

namespace phasor {
namespace {

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};

template <typename T>
T LoadAt(const void* base, int64_t index) {
  T value;
  std::memcpy(&value, static_cast<const uint8_t*>(base) + index * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return value;
}
template <typename T>
void StoreAt(void* base, int64_t index, T value) {
  std::memcpy(static_cast<uint8_t*>(base) + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

// RotateTask's comment, word for word.
template <typename T>
void Reference(const RotateTask& task) {
  using C = ComputeType<T>;
  const int64_t n = task.pairs;
  for (int64_t t = 0; t < task.tokens; ++t) {
    for (int64_t h = 0; h < task.heads; ++h) {
      const int64_t x = t * task.x_token_stride + h * task.x_head_stride;
      const int64_t y = t * task.y_token_stride + h * task.y_head_stride;
      const int64_t row = task.table_rows.empty() ? t : task.table_rows[static_cast<size_t>(t)];
      const bool changes = task.pairing == Pairing::kInterleavedToHalf;
      const bool from_halves = task.pairing == Pairing::kHalfSplit || (changes && task.inverse);
      const bool to_halves = task.pairing == Pairing::kHalfSplit || (changes && !task.inverse);
      std::vector<C> head;
      for (int64_t i = 0; i < 2 * n; ++i) head.push_back(Widen<C>(LoadAt<T>(task.x, x + i)));
      for (int64_t i = 0; i < n; ++i) {
        const C x_a = head[static_cast<size_t>(from_halves ? i : 2 * i)];
        const C x_b = head[static_cast<size_t>(from_halves ? i + n : 2 * i + 1)];
        const int64_t a = to_halves ? i : 2 * i, b = to_halves ? i + n : 2 * i + 1;
        const C c = LoadAt<C>(task.cos, row * task.table_stride + i), s = LoadAt<C>(task.sin, row * task.table_stride + i);
        const C y_a = task.inverse ? std::fma(x_a, c, x_b * s) : std::fma(x_a, c, -(x_b * s));
        const C y_b = task.inverse ? std::fma(x_b, c, -(x_a * s)) : std::fma(x_b, c, x_a * s);
        StoreAt(task.y, y + a, Narrow<T>(y_a));
        StoreAt(task.y, y + b, Narrow<T>(y_b));
      }
      for (int64_t i = 2 * n; i < task.head_dim; ++i) StoreAt(task.y, y + i, LoadAt<T>(task.x, x + i));
    }
  }
}

enum class Layout { kTokensOutside, kHeadsOutside, kGaps };
// Which numbers: usual ones, any bit pattern (NaN payloads, infinities, denormals), denormals and zeros, or such that many
// results lie half way between two 16-bit numbers, or such that one result of all is a NaN: the second of its pair, whose
// first is infinite.
enum class Values { kUsual, kAnyBits, kTiny, kTies, kLoneNaN };

struct Case {
  DType dtype = DType::kF32;
  Pairing pairing = Pairing::kHalfSplit;
  bool inverse = false;
  bool in_place = false;
  Layout layout = Layout::kTokensOutside;
  Values values = Values::kUsual;
  int64_t tokens = 3, heads = 3, head_dim = 64, pairs = 32;
  bool table_rows = false;
  int64_t misalignment = 0;  // of x and y, bytes beyond a multiple of 64
  StoreHint hint = StoreHint::kAuto;

  std::string Text() const {
    return std::string(Name(dtype)) +
           (pairing == Pairing::kHalfSplit     ? " half"
            : pairing == Pairing::kInterleaved ? " interleaved"
                                               : " interleaved to half") +
           (inverse ? " inverse" : "") + (in_place ? " in place" : "") + " layout " +
           std::to_string(static_cast<int>(layout)) + " values " + std::to_string(static_cast<int>(values)) + " tokens " +
           std::to_string(tokens) + " heads " + std::to_string(heads) + " head_dim " + std::to_string(head_dim) + " pairs " +
           std::to_string(pairs) + " misalignment " + std::to_string(misalignment);
  }
};

template <typename T>
void Fill(uint8_t* to, int64_t bytes, Values values, std::mt19937_64& random) {
  std::uniform_real_distribution<double> usual(-3, 3);
  for (int64_t i = 0; i < bytes / static_cast<int64_t>(sizeof(T)); ++i) {
    T value = Narrow<T>(usual(random));
    if (values == Values::kAnyBits) value = FromBits<T>(random());
    if (values == Values::kTiny) value = FromBits<T>((random() & (kSignBit<T> | 7u)) | (random() % 8 == 0 ? 1u : 0u));
    // A few special ones among the usual.
    if (values == Values::kUsual && random() % 4096 == 0) value = FromBits<T>(random() | kInfinityBits<T>);
    StoreAt(to, i, value);
  }
}

struct Buffers {
  GuardedBuffer x, y, cos, sin;
  std::vector<int32_t> rows;
};

Buffers MakeBuffers(const Case& c, RotateTask& task) {
  std::mt19937_64 random(20240607);
  const int64_t size = SizeOf(c.dtype);
  const int64_t gap = c.layout == Layout::kGaps ? 5 : 0;
  task.dtype = c.dtype, task.pairing = c.pairing, task.inverse = c.inverse, task.hint = c.hint;
  task.tokens = c.tokens, task.heads = c.heads, task.head_dim = c.head_dim, task.pairs = c.pairs;
  if (c.layout == Layout::kHeadsOutside) {
    task.x_token_stride = c.head_dim;
    task.x_head_stride = c.tokens * c.head_dim;
  } else {
    task.x_head_stride = c.head_dim + gap;
    task.x_token_stride = c.heads * (c.head_dim + gap) + gap;
  }
  // Out of place, y has tokens outside whatever x has.
  task.y_head_stride = c.in_place ? task.x_head_stride : c.head_dim;
  task.y_token_stride = c.in_place ? task.x_token_stride : c.heads * c.head_dim;
  task.table_stride = c.pairs + gap;
  const int64_t elements = (c.tokens + 1) * (c.heads * (c.head_dim + gap) + gap);
  const int64_t table_size = c.dtype == DType::kF64 ? 8 : 4;
  const int64_t table_bytes = (c.tokens + 1) * task.table_stride * table_size;
  Buffers b{GuardedBuffer(elements * size, c.misalignment),
            GuardedBuffer(elements * size, c.misalignment),
            GuardedBuffer(table_bytes, c.misalignment % 8),
            GuardedBuffer(table_bytes, c.misalignment % 8),
            {}};
  VisitFloat(c.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    Fill<T>(b.x.data(), b.x.bytes(), c.values, random);
    const Values table = c.values == Values::kAnyBits || c.values == Values::kLoneNaN ? c.values : Values::kUsual;
    Fill<ComputeType<T>>(b.cos.data(), b.cos.bytes(), table, random);
    Fill<ComputeType<T>>(b.sin.data(), b.sin.bytes(), table, random);
    for (int64_t i = 0; c.values == Values::kTies && i < table_bytes / table_size; ++i) {
      StoreAt(b.cos.data(), i, ComputeType<T>(i % 5 == 0 ? 1.0 : 1.5));
      StoreAt(b.sin.data(), i, ComputeType<T>(i % 7 == 0 ? 0.25 : 0.0));
    }
    if (c.values == Values::kLoneNaN) {
      // ∞·1 − b·0 = ∞ and b·1 + ∞·0, a NaN whose sign processors set as they like.
      const bool in_halves = c.pairing == Pairing::kHalfSplit || (c.pairing == Pairing::kInterleavedToHalf && c.inverse);
      const int64_t pair = c.pairs * 2 / 3;
      StoreAt(b.x.data(), (c.heads - 1) * task.x_head_stride + (in_halves ? pair : 2 * pair), FromBits<T>(kInfinityBits<T>));
      StoreAt(b.cos.data(), pair, ComputeType<T>(1));
      StoreAt(b.sin.data(), pair, ComputeType<T>(0));
    }
  });
  if (c.table_rows) {
    for (int64_t t = 0; t < c.tokens; ++t) b.rows.push_back(static_cast<int32_t>((t * 7 + 1) % (c.tokens + 1)));
  }
  task.table_rows = b.rows;
  task.cos = b.cos.data(), task.sin = b.sin.data();
  return b;
}

// The task on every instruction set, in two ranges, against the reference: all bytes of the output and its guards.
void Check(const Case& c) {
  SCOPED_TRACE(c.Text());
  RotateTask task;
  Buffers buffers = MakeBuffers(c, task);
  task.table_rows = buffers.rows;
  task.cos = buffers.cos.data(), task.sin = buffers.sin.data();
  const auto bind = [&](GuardedBuffer& x, GuardedBuffer& y) {
    task.x = x.data();
    task.y = c.in_place ? x.data() : y.data();
  };
  GuardedBuffer expected_x(buffers.x.bytes(), c.misalignment), expected_y(buffers.y.bytes(), c.misalignment);
  std::memcpy(expected_x.data(), buffers.x.data(), static_cast<size_t>(buffers.x.bytes()));
  std::memcpy(expected_y.data(), buffers.y.data(), static_cast<size_t>(buffers.y.bytes()));
  bind(expected_x, expected_y);
  VisitFloat(c.dtype, [&](auto tag) { Reference<typename decltype(tag)::type>(task); });

  OnEachTarget([&] {
    GuardedBuffer x(buffers.x.bytes(), c.misalignment), y(buffers.y.bytes(), c.misalignment);
    std::memcpy(x.data(), buffers.x.data(), static_cast<size_t>(x.bytes()));
    std::memcpy(y.data(), buffers.y.data(), static_cast<size_t>(y.bytes()));
    bind(x, y);
    const int64_t cut = c.tokens / 2;
    ASSERT_TRUE(RunRotate(task, {0, cut}, nullptr).ok());
    ASSERT_TRUE(RunRotate(task, {cut, c.tokens}, nullptr).ok());
    EXPECT_TRUE(x.SameAs(expected_x)) << "x";
    EXPECT_TRUE(y.SameAs(expected_y)) << "y";
  });
}

// Every combination of type, pairing, direction and place.
template <typename F>
void ForEachKind(F&& f) {
  for (DType dtype : kTypes) {
    for (Pairing pairing : {Pairing::kHalfSplit, Pairing::kInterleaved, Pairing::kInterleavedToHalf}) {
      for (bool inverse : {false, true}) {
        for (bool in_place : {false, true}) {
          Case c;
          c.dtype = dtype, c.pairing = pairing, c.inverse = inverse, c.in_place = in_place;
          f(c);
          if (testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST(RotateTest, EveryWidth) {
  ForEachKind([](Case c) {
    for (int64_t head_dim = 2; head_dim <= 130; head_dim += head_dim < 34 ? 1 : 3) {
      c.head_dim = head_dim;
      c.pairs = head_dim / 2;
      c.tokens = 1 + head_dim % 3;
      c.heads = 1 + head_dim % 2;
      Check(c);
      if (testing::Test::HasFailure()) return;
    }
  });
}

TEST(RotateTest, WholeVectorsAndStreaming) {
  ForEachKind([](Case c) {
    for (int64_t pairs : {16, 32, 64, 96, 128, 256}) {
      c.pairs = pairs;
      c.head_dim = 2 * pairs;
      for (StoreHint hint : {StoreHint::kKeep, StoreHint::kReadNext}) {
        c.hint = hint;
        Check(c);
      }
    }
  });
}

TEST(RotateTest, PartialRotary) {
  ForEachKind([](Case c) {
    for (auto [head_dim, pairs] : {std::pair<int64_t, int64_t>{128, 32}, {96, 16}, {80, 10}, {65, 32}, {7, 1}, {5, 0}}) {
      c.head_dim = head_dim, c.pairs = pairs;
      c.hint = StoreHint::kKeep;
      Check(c);
    }
  });
}

TEST(RotateTest, LayoutsRowsAndUnalignedAddresses) {
  ForEachKind([](Case c) {
    int64_t misalignment = 1;
    for (Layout layout : {Layout::kTokensOutside, Layout::kHeadsOutside, Layout::kGaps}) {
      for (bool table_rows : {false, true}) {
        c.layout = layout, c.table_rows = table_rows;
        c.tokens = 5, c.head_dim = 72, c.pairs = 34;
        c.misalignment = misalignment = misalignment * 5 % 63;
        c.hint = StoreHint::kKeep;
        Check(c);
        c.head_dim = 128, c.pairs = 64;
        c.misalignment = table_rows ? 0 : 16;
        Check(c);
      }
    }
  });
}

TEST(RotateTest, AnyBitsDenormalsAndTies) {
  ForEachKind([](Case c) {
    for (Values values : {Values::kAnyBits, Values::kTiny, Values::kTies}) {
      c.values = values;
      c.head_dim = 128, c.pairs = 64;
      c.tokens = 9;
      Check(c);
      c.head_dim = 50, c.pairs = 23;
      Check(c);
    }
  });
}

TEST(RotateTest, FindsTheOnlyNaN) {
  ForEachKind([](Case c) {
    c.values = Values::kLoneNaN;
    for (int64_t pairs : {3, 8, 16, 23, 32, 64, 128, 160}) {
      c.head_dim = 2 * pairs, c.pairs = pairs;
      Check(c);
    }
  });
}

TEST(RotateTest, WiderThanABlockOfTables) {
  ForEachKind([](Case c) {
    c.head_dim = 2500, c.pairs = 1100;
    c.tokens = 2, c.heads = 2;
    Check(c);
  });
}

TEST(RotateTest, NothingToDo) {
  Case c;
  c.tokens = 0;
  Check(c);
  c.tokens = 2, c.heads = 0;
  Check(c);
}

TEST(RotateTest, RefusesWhatItCannotRun) {
  float x[4] = {1, 2, 3, 4};
  float table[2] = {1, 1};
  RotateTask good;
  good.tokens = 1, good.heads = 1, good.head_dim = 4, good.pairs = 2;
  good.x = x, good.y = x, good.cos = table, good.sin = table;
  ASSERT_TRUE(RunRotate(good, {0, 1}, nullptr).ok());
  const auto refused = [&](auto change) {
    RotateTask task = good;
    change(task);
    return absl::IsInvalidArgument(RunRotate(task, {0, 1}, nullptr));
  };
  EXPECT_TRUE(refused([](RotateTask& t) { t.y = nullptr; }));
  EXPECT_TRUE(refused([](RotateTask& t) { t.x = nullptr; }));
  EXPECT_TRUE(refused([](RotateTask& t) { t.cos = nullptr; }));
  EXPECT_TRUE(refused([](RotateTask& t) { t.pairs = 3; }));
  EXPECT_TRUE(refused([](RotateTask& t) { t.dtype = DType::kI32; }));
  EXPECT_TRUE(refused([](RotateTask& t) { t.tokens = -1; }));
  EXPECT_TRUE(absl::IsInvalidArgument(RunRotate(good, {0, 2}, nullptr)));
}

TEST(RotateTest, StopsWhenCancelled) {
  Case c;
  RotateTask task;
  Buffers buffers = MakeBuffers(c, task);
  task.cos = buffers.cos.data(), task.sin = buffers.sin.data();
  task.x = task.y = buffers.x.data();
  const GuardedBuffer before = buffers.x;
  const std::vector<uint8_t> bytes(before.data(), before.data() + before.bytes());
  CancelFlag cancel = true;
  OnEachTarget([&] {
    EXPECT_TRUE(absl::IsCancelled(RunRotate(task, {0, task.tokens}, &cancel)));
    EXPECT_EQ(std::memcmp(bytes.data(), buffers.x.data(), bytes.size()), 0);
  });
}

TEST(RotateTest, SlicesAreSmallAndNeverEmpty) {
  RotateTask task;
  task.heads = 32, task.head_dim = 128;
  OnEachTarget([&] {
    const int64_t rows = RotateRowsPerSlice(task);
    EXPECT_GE(rows, 1);
    EXPECT_LE(rows * task.heads * task.head_dim * 4, 4 << 20);
  });
  task.heads = 1 << 20;
  EXPECT_EQ(RotateRowsPerSlice(task), 1);
}

}  // namespace
}  // namespace phasor
