#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/core/narrow.h"
#include "kernels/reference/reference_backend.h"
#include "tests/kernels/cuda/run_lowered.h"

namespace phasor::cuda {
namespace {

constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kF16, DType::kBF16};
constexpr Pairing kPairings[] = {Pairing::kHalfSplit, Pairing::kInterleaved, Pairing::kInterleavedToHalf};

enum class Form : uint8_t { kDense, kBetweenOthers, kHeadsFirst };

struct Shape {
  int64_t tokens, heads, head_dim, pairs;
};

// Numbers of every kind: mostly ordinary ones, some infinite, denormal or NaN.
template <typename T>
void FillRandom(void* to, int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < count; ++i) {
    const auto ordinary = Narrow<T>(static_cast<double>(static_cast<int64_t>(random())) * 0x1p-62);
    BitsType<T> bits = BitsOf(ordinary);
    if (random() % 16 == 0) bits = static_cast<BitsType<T>>(random());
    if (random() % 64 == 0) bits = static_cast<BitsType<T>>(kInfinityBits<T> | (random() % 2));
    std::memcpy(static_cast<std::byte*>(to) + i * static_cast<int64_t>(sizeof(T)), &bits, sizeof(T));
  }
}

// A rotation with memory of its own, `shift` elements off alignment.
struct Case {
  Case(Shape s, DType dtype, Form x_form, Form y_form, int64_t shift, int64_t seed) : size(SizeOf(dtype)) {
    task.dtype = dtype;
    task.tokens = s.tokens;
    task.heads = s.heads;
    task.head_dim = s.head_dim;
    task.pairs = s.pairs;
    SetStrides(x_form, s, task.x_token_stride, task.x_head_stride);
    SetStrides(y_form, s, task.y_token_stride, task.y_head_stride);
    const int64_t elements = s.tokens * s.heads * s.head_dim * 2 + 64;
    x.resize(static_cast<size_t>(elements * size));
    y.assign(x.size(), 0xee);
    task.table_stride = s.pairs + (seed % 2 == 0 ? 0 : 3);
    table.resize(static_cast<size_t>((2 * (s.tokens + 5) * task.table_stride + 64) * 8));
    VisitFloat(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      FillRandom<T>(x.data(), elements, static_cast<uint64_t>(seed));
      FillRandom<ComputeType<T>>(table.data(), static_cast<int64_t>(table.size() / sizeof(ComputeType<T>)), 7);
    });
    const int64_t entry = dtype == DType::kF64 ? 8 : 4;
    x_at = shift * size;
    task.cos = table.data() + (shift != 0 ? entry : 0);
    task.sin = static_cast<const std::byte*>(task.cos) + (s.tokens + 5) * task.table_stride * entry;
  }

  static void SetStrides(Form form, Shape s, int64_t& token, int64_t& head) {
    head = form == Form::kHeadsFirst ? s.tokens * s.head_dim + 2 * s.head_dim : s.head_dim;
    token = form == Form::kHeadsFirst ? s.head_dim : s.heads * s.head_dim + (form == Form::kDense ? 0 : 24);
  }

  RotateTask On(std::vector<uint8_t>& x_memory, std::vector<uint8_t>& y_memory) const {
    RotateTask on = task;
    on.x = x_memory.data() + x_at;
    on.y = y_memory.data() + x_at;
    return on;
  }

  RotateTask task;
  int64_t size, x_at = 0;
  std::vector<uint8_t> x, y;
  std::vector<std::byte> table;
};

// Every chunk, order and number of OS threads against the reference; out of place and in place.
void Compare(const Case& c, RowRange rows) {
  static const auto reference = MakeReferenceBackend();
  for (const bool in_place : {false, true}) {
    if (in_place && (c.task.x_token_stride != c.task.y_token_stride || c.task.x_head_stride != c.task.y_head_stride)) {
      continue;
    }
    const auto run = [&](const auto& how) {
      std::vector<uint8_t> x = c.x, y = in_place ? std::vector<uint8_t>() : c.y;
      EXPECT_TRUE(how(c.On(x, in_place ? x : y)).ok());
      return in_place ? x : y;
    };
    const auto want = run([&](const RotateTask& task) { return reference->Run(task, rows, nullptr); });
    for (const HostGrid& grid :
         {HostGrid{ThreadOrder::kForward, 1}, HostGrid{ThreadOrder::kShuffled, 3}, HostGrid{ThreadOrder::kReversed, 3, 1}}) {
      for (const int64_t chunk : {1, 3, 100}) {
        const auto got = run([&](const RotateTask& task) { return RunLowered(task, rows, grid, chunk); });
        ASSERT_TRUE(got == want) << (in_place ? "in place" : "out of place") << ", chunk " << chunk;
      }
    }
  }
}

TEST(CudaRotateTest, BitsOfTheReference) {
  const Shape shapes[] = {{7, 3, 32, 16}, {5, 2, 48, 16}, {4, 1, 21, 9}, {3, 2, 16, 5},
                          {2, 3, 8, 0},   {6, 2, 40, 20}, {1, 1, 2, 1}};
  int64_t seed = 0;
  for (const Shape& shape : shapes) {
    for (const DType dtype : kTypes) {
      for (const Pairing pairing : kPairings) {
        for (const bool inverse : {false, true}) {
          ++seed;
          const Form forms[] = {Form::kDense, Form::kBetweenOthers, Form::kHeadsFirst};
          Case c(shape, dtype, forms[seed % 3], forms[seed / 3 % 3], seed % 5 == 0 ? 1 : 0, seed);
          c.task.pairing = pairing;
          c.task.inverse = inverse;
          SCOPED_TRACE(::testing::Message() << Name(dtype) << " pairing " << static_cast<int>(pairing) << " head_dim "
                                            << shape.head_dim << " pairs " << shape.pairs << " seed " << seed);
          Compare(c, {0, shape.tokens});
          if (shape.tokens > 3) Compare(c, {1, shape.tokens - 1});
        }
      }
    }
  }
}

TEST(CudaRotateTest, RowsOfTheTableByList) {
  const std::vector<int32_t> list = {9, 3, 3, 4, 11, 9, 8};
  for (const DType dtype : kTypes) {
    for (const Form form : {Form::kDense, Form::kHeadsFirst}) {
      Case c({7, 2, 32, 16}, dtype, form, form, 0, 4);
      c.task.table_rows = list;
      Compare(c, {0, 7});
      Compare(c, {2, 5});
      // Only rows 3 … 11 go to the device.
      std::vector<uint8_t> x = c.x;
      const Task task = c.On(x, x);
      const auto lowered = Lower(task);
      ASSERT_TRUE(lowered.ok());
      ASSERT_EQ((*lowered)->constants().size(), 2u);
      EXPECT_EQ((*lowered)->constants()[0].bytes, (8 * 16 + 16) * (dtype == DType::kF64 ? 8 : 4));
    }
  }
}

TEST(CudaRotateTest, TableOnceWhereItsHalvesLieSideBySide) {
  Case c({7, 2, 32, 16}, DType::kF32, Form::kDense, Form::kDense, 0, 2);
  c.task.table_stride = 32;
  c.task.sin = static_cast<const float*>(c.task.cos) + 16;
  std::vector<uint8_t> x = c.x;
  const Task task = c.On(x, x);
  const auto lowered = Lower(task);
  ASSERT_TRUE(lowered.ok());
  ASSERT_EQ((*lowered)->constants().size(), 1u);
  EXPECT_EQ((*lowered)->constants()[0].bytes, 7 * 32 * 4);
  Compare(c, {0, 7});
}

TEST(CudaRotateTest, SharedTable) {
  for (const bool list : {false, true}) {
    Case c({7, 2, 32, 16}, DType::kBF16, Form::kDense, Form::kHeadsFirst, 0, 2);
    const std::vector<int32_t> rows = {9, 3, 3, 4, 11, 9, 8};
    if (list) c.task.table_rows = rows;
    const SharedTable shared{17, c.table.data(), static_cast<int64_t>(c.table.size())};
    c.task.shared = &shared;
    std::vector<uint8_t> x = c.x, y = c.y;
    const Task task = c.On(x, y);
    const auto lowered = Lower(task);
    ASSERT_TRUE(lowered.ok());
    ASSERT_EQ((*lowered)->constants().size(), 1u);
    EXPECT_EQ((*lowered)->constants()[0].host, c.table.data());
    EXPECT_EQ((*lowered)->constants()[0].bytes, shared.bytes);
    EXPECT_EQ((*lowered)->constants()[0].id, 17u);
    Compare(c, {0, 7});
    // A table that does not hold cos and sin is not believed.
    const SharedTable other{18, c.table.data() + 4, shared.bytes - 4};
    c.task.shared = &other;
    const Task with_other = c.On(x, y);
    const auto without = Lower(with_other);
    ASSERT_TRUE(without.ok());
    EXPECT_EQ((*without)->constants()[0].id, list ? 18u : 0u);  // its rows begin at the third
    Compare(c, {0, 7});
  }
}

TEST(CudaRotateTest, Group) {
  static const auto reference = MakeReferenceBackend();
  for (const size_t members : {size_t{1}, size_t{2}, size_t{5}, size_t{40}, size_t{256}}) {
    for (const DType dtype : kTypes) {
      std::vector<Case> cases;
      for (size_t i = 0; i < members; ++i) {
        const auto n = static_cast<int64_t>(i);
        cases.emplace_back(Shape{1 + n % 4, 1 + n % 3, 32, 12 + n % 5}, dtype, Form::kDense, Form::kDense, 0, n);
        cases.back().task.pairing = kPairings[i % 3];
        cases.back().task.inverse = i % 2 == 0;
      }
      std::vector<std::vector<uint8_t>> want, x, y;
      auto group = std::make_shared<std::vector<RotateParams>>();
      for (Case& c : cases) {
        want.push_back(c.y);
        x.push_back(c.x);
        y.push_back(c.y);
      }
      for (size_t i = 0; i < members; ++i) {
        const int64_t tokens = cases[i].task.tokens;
        ASSERT_TRUE(reference->Run(cases[i].On(x[i], want[i]), {0, tokens}, nullptr).ok());
        const Task task = cases[i].On(x[i], y[i]);
        const auto lowered = Lower(task);
        ASSERT_TRUE(lowered.ok());
        // Host memory as the device's: addresses of any alignment.
        std::vector<std::byte*> constants, inputs, outputs;
        for (const Constant& constant : (*lowered)->constants()) {
          constants.push_back(static_cast<std::byte*>(const_cast<void*>(constant.host)));
        }
        const Transfers moves = (*lowered)->TransfersOf({0, tokens});
        for (const Strip& strip : moves.inputs) inputs.push_back(strip.host);
        for (const Strip& strip : moves.outputs) outputs.push_back(strip.host);
        const auto launches = (*lowered)->Launches({0, tokens}, {constants, inputs, outputs});
        group->push_back(std::get<RotateParams>(launches.at(0)));
      }
      HostGrid{ThreadOrder::kShuffled, 3}.Launch(RotateGroupParams{group});
      EXPECT_TRUE(y == want) << members << " of " << Name(dtype);
    }
  }
}

std::vector<size_t> SizesOf(const std::vector<KernelParams>& launches) {
  std::vector<size_t> sizes;
  for (const KernelParams& each : launches) {
    const auto* const group = std::get_if<RotateGroupParams>(&each);
    sizes.push_back(group == nullptr ? 0 : group->tasks->size());
    if (group == nullptr) continue;
    EXPECT_LE(group->works(), kMaxGroupWorks);
  }
  return sizes;
}

TEST(CudaRotateTest, GroupsAsLargeAsAKernelsParametersHold) {
  RotateParams small;
  small.dtype = DType::kBF16;
  small.tokens = 1;
  small.heads = 32;
  small.pairs = 64;
  using Sizes = std::vector<size_t>;
  EXPECT_EQ(SizesOf(GroupsOf({})), Sizes());
  EXPECT_EQ(SizesOf(GroupsOf({small})), Sizes{1});
  EXPECT_EQ(SizesOf(GroupsOf(std::vector<RotateParams>(256, small))), Sizes{256}) << "requests of a step in one launch";
  EXPECT_EQ(SizesOf(GroupsOf(std::vector<RotateParams>(600, small))), (Sizes{256, 256, 88}));
  // Their works are counted in 32 bits; what is as large as that needs no company.
  RotateParams half = small, whole = small, more = small;
  half.pairs = whole.pairs = more.pairs = 1;
  half.heads = whole.heads = more.heads = 1;
  half.tokens = int64_t{1} << 31;
  whole.tokens = kMaxGroupWorks;
  more.tokens = kMaxGroupWorks + 1;
  EXPECT_EQ(SizesOf(GroupsOf({half, half})), (Sizes{1, 1}));
  --half.tokens;
  EXPECT_EQ(SizesOf(GroupsOf({half, half})), Sizes{2});
  EXPECT_EQ(SizesOf(GroupsOf({small, whole, small})), (Sizes{1, 1, 1}));
  EXPECT_EQ(SizesOf(GroupsOf({small, more, more, small, small})), (Sizes{1, 0, 0, 2}));
}

TEST(CudaRotateTest, LayoutsAndErrors) {
  std::vector<float> memory(4096);
  RotateTask task;
  task.tokens = 4;
  task.heads = 3;
  task.head_dim = 16;
  task.pairs = 8;
  task.x = task.y = memory.data();
  task.cos = task.sin = memory.data() + 2048;
  task.table_stride = 8;
  const auto status = [&](int64_t token, int64_t head) {
    task.x_token_stride = task.y_token_stride = token;
    task.x_head_stride = task.y_head_stride = head;
    return Lower(task).status();
  };
  EXPECT_TRUE(status(48, 16).ok());
  EXPECT_TRUE(status(100, 16).ok());
  EXPECT_TRUE(status(16, 64).ok());
  const absl::Status left = absl::UnimplementedError("layout");
  EXPECT_EQ(status(60, 20), left);  // gaps between heads
  EXPECT_EQ(status(20, 80), left);  // gaps between tokens
  EXPECT_EQ(status(0, 16), left);   // one token for all
  EXPECT_EQ(status(16, 16), left);  // tokens that overlap
  task.pairs = 9;
  EXPECT_EQ(status(48, 16).code(), absl::StatusCode::kInvalidArgument);
  task.pairs = 8;
  task.cos = nullptr;
  EXPECT_EQ(status(48, 16).code(), absl::StatusCode::kInvalidArgument);
  task.pairs = 0;
  EXPECT_TRUE(status(48, 16).ok());
  EXPECT_EQ(RunLowered(task, {0, 5}, {}, 1).code(), absl::StatusCode::kInvalidArgument);
  task.heads = 0;
  EXPECT_TRUE(RunLowered(task, {0, 4}, {}, 1).ok());
}

// 2^33 elements: numbers only, no memory.
TEST(CudaRotateTest, PlacesBeyondTwoToThe31) {
  constexpr RotateParams p = [] {
    RotateParams large;
    large.dtype = DType::kBF16;
    large.tokens = 1 << 20;
    large.heads = 64;
    large.pairs = 64;
    large.tail = 3;
    large.x_token_stride = 64 * 131;
    large.x_head_stride = 131;
    large.y_token_stride = 131;
    large.y_head_stride = int64_t{131} << 20;
    return large;
  }();
  static_assert(p.units() == 9 && p.pair_units() == 8);
  static_assert(p.works() == int64_t{9} * 64 * (1 << 20));
  constexpr RotatePlace last = p.PlaceOf(p.works() - 1);
  static_assert(last == RotatePlace{(1 << 20) - 1, 63, 8});
  static_assert(p.PlaceOf(p.works() / 2) == RotatePlace{1 << 19, 0, 0});
  static_assert(p.XOf(last) == (int64_t{1} << 20) * 64 * 131 - 131 && p.YOf(last) == p.XOf(last));
}

}  // namespace
}  // namespace phasor::cuda
