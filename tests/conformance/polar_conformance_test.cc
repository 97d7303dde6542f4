// PoPE and FoPE, bit for bit against the reference: element types, odd sizes, positions of every kind, splits.
#include <bit>
#include <random>
#include <string>

#include "kernels/program/polar.h"
#include "kernels/program/rotate.h"
#include "tests/conformance/case_run.h"

namespace phasor {
namespace {

std::vector<int64_t> Cuts(int64_t rows) { return rows > 2 ? std::vector<int64_t>{1, rows / 2} : std::vector<int64_t>{}; }

// cos and sin of a task, one after the other.
template <typename Task>
std::vector<Buffer> RunTable(const Backend& backend, Task task, int64_t rows, int64_t row_bytes,
                             const std::vector<int64_t>& cuts) {
  std::vector<Buffer> out(2, Buffer(rows * row_bytes));
  task.cos = out[0].data();
  task.sin = out[1].data();
  int64_t begin = 0;
  for (const int64_t cut : cuts) {
    EXPECT_TRUE(backend.Run(task, {begin, cut}, nullptr).ok());
    begin = cut;
  }
  const absl::Status status = backend.Run(task, {begin, rows}, nullptr);
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_TRUE(out[0].GuardIntact() && out[1].GuardIntact());
  return out;
}

struct Places {
  std::string name;
  int64_t rows;
  std::vector<int64_t> ids;
  std::vector<double> fractional;
  int64_t start = 0, stride = 1;

  PositionSource Source() const { return {start, stride, ids, fractional}; }
};

std::vector<Places> AllPlaces() {
  std::vector<Places> all = {{"from 0", 150, {}, {}},
                             {"backwards from 2^31", 70, {}, {}, (int64_t{1} << 31) - 1, -3},
                             {"ids", 9, {7, 8, 9, 0, -5, 1 << 30, 1 << 30, 131071, 3}, {}},
                             {"fractions", 7, {}, {0.5, -0.25, 0x1p-64, 1e6 + 0x1p-20, 0, -3, 0x1.fffffffffffffp30}},
                             {"none", 0, {}, {}}};
  return all;
}

// δ with its ends, zeros of both signs and a value that no polynomial takes.
WeightRef Deltas(const std::vector<int64_t>& shape, std::mt19937_64& random) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) {
    switch (random() % 8) {
      case 0:
        values.push_back(random() % 2 == 0 ? -0.0 : 0.0);
        break;
      case 1:
        values.push_back(-7);
        break;
      case 2:
        values.push_back(-1e-30);
        break;
      default:
        values.push_back(-static_cast<double>(random() % 6283185) * 1e-6);
    }
  }
  return MakeWeight(shape, values);
}

std::shared_ptr<const PolarPhases> PhasesOf(const WeightRef& delta) {
  const PreparedPhases prepared = PreparePhases(delta);
  auto backend = CreateBackend("reference");
  EXPECT_TRUE(RunStep(**backend, prepared.step, {0, prepared.step.rows}, nullptr).ok());
  return prepared.phases;
}

TEST(PolarConformanceTest, TablesOfKeys) {
  auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(11);
  for (const auto& [heads, dim] : {std::pair<int64_t, int64_t>{1, 1}, {3, 5}, {2, 64}, {1, 131}}) {
    PopeSpec pope;
    pope.head_dim = dim;
    const auto phases = PhasesOf(Deltas({heads, dim}, random));
    for (const Precision precision : {Precision::kExact, Precision::kCompatF32}) {
      const auto resolved = Resolve(*Canonicalize(pope), {}, precision);
      ASSERT_TRUE(resolved.ok());
      for (const Places& places : AllPlaces()) {
        const int64_t rows = std::min<int64_t>(places.rows, 20);
        for (const DType dtype : kFloatTypes) {
          PolarAngleTask task;
          task.plan = &std::get<AnglePlan>(resolved->plan);
          task.phases = phases.get();
          task.heads = heads;
          task.positions = places.Source();
          task.dtype = dtype;
          const int64_t row_bytes = heads * dim * SizeOf(dtype);
          const auto want = RunTable(**reference, task, rows, row_bytes, {});
          for (const Variant& variant : VariantsUnderTest()) {
            const auto got = RunTable(variant.Select(), task, rows, row_bytes, Cuts(rows));
            for (int i = 0; i < 2; ++i) {
              EXPECT_EQ(want[i].FirstDifference(got[i], 0, rows * row_bytes / SizeOf(dtype), SizeOf(dtype)), -1)
                  << variant.name << ' ' << places.name << ' ' << Name(dtype) << ' ' << heads << 'x' << dim
                  << (i == 0 ? " cos" : " sin");
            }
          }
        }
      }
    }
  }
}

FopeSpec Fope(int64_t head_dim, int64_t length, int64_t heads, int64_t outputs, DType dtype, std::mt19937_64& random) {
  FopeSpec fope;
  fope.head_dim = head_dim;
  fope.training_length = length;
  int64_t kept = 0;
  for (int64_t j = 0; j < head_dim / 2; ++j) {
    const double frequency = std::pow(10000.0, -2.0 * static_cast<double>(j) / static_cast<double>(head_dim));
    kept += frequency > 2 * 3.141592653589793 / static_cast<double>(length) ? 1 : 0;
  }
  const auto weight = [&] {
    std::vector<double> values;
    for (int64_t i = 0; i < heads * kept * outputs; ++i) {
      values.push_back(static_cast<double>(static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f));
    }
    WeightRef f64 = MakeWeight({heads, kept, outputs}, values);
    if (dtype == DType::kF64) return f64;
    auto narrow = std::make_shared<Weight>(*f64);
    narrow->dtype = DType::kF32;
    auto bytes = std::shared_ptr<std::byte[]>(new std::byte[values.size() * 4]);
    for (size_t i = 0; i < values.size(); ++i) {
      const float value = static_cast<float>(values[i]);
      std::memcpy(bytes.get() + 4 * i, &value, 4);
    }
    narrow->data = std::shared_ptr<const std::byte>(bytes, bytes.get());
    return WeightRef(narrow);
  };
  fope.cos_coef = weight();
  fope.sin_coef = weight();
  return fope;
}

TEST(PolarConformanceTest, Mixtures) {
  auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(12);
  struct Size {
    int64_t head_dim, length, heads, outputs;
  };
  for (const Size& size : {Size{8, 100, 1, 3}, {128, 4096, 2, 64}, {64, 2048, 3, 17}, {2, 7, 1, 1}}) {
    const FopeSpec fope =
        Fope(size.head_dim, size.length, size.heads, size.outputs, size.heads == 2 ? DType::kF32 : DType::kF64, random);
    const auto canonical = Canonicalize(fope);
    ASSERT_TRUE(canonical.ok()) << canonical.status();
    const auto resolved = Resolve(*canonical, {}, Precision::kExact);
    ASSERT_TRUE(resolved.ok()) << resolved.status();
    for (const Places& places : AllPlaces()) {
      std::vector<double> factors;
      for (int64_t r = 0; r < places.rows; ++r) factors.push_back(r % 5 == 0 ? -0.5 : 1 + 0.01 * static_cast<double>(r));
      for (const DType dtype : kFloatTypes) {
        MixedAngleTask task;
        task.plan = &std::get<MixedAnglePlan>(resolved->plan);
        task.positions = places.Source();
        task.factors = dtype == DType::kF16 ? nullptr : factors.data();
        task.dtype = dtype;
        const int64_t row_bytes = size.heads * size.head_dim / 2 * SizeOf(dtype);
        const auto want = RunTable(**reference, task, places.rows, row_bytes, {});
        for (const Variant& variant : VariantsUnderTest()) {
          const auto got = RunTable(variant.Select(), task, places.rows, row_bytes, Cuts(places.rows));
          for (int i = 0; i < 2; ++i) {
            EXPECT_EQ(want[i].FirstDifference(got[i], 0, places.rows * row_bytes / SizeOf(dtype), SizeOf(dtype)), -1)
                << variant.name << ' ' << places.name << ' ' << Name(dtype) << ' ' << size.head_dim
                << (i == 0 ? " cos" : " sin");
          }
        }
      }
    }
  }
}

TEST(PolarConformanceTest, Tensors) {
  auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(13);
  for (const DType dtype : kFloatTypes) {
    const int64_t size = SizeOf(dtype), table_size = dtype == DType::kF64 ? 8 : 4;
    for (const auto& [tokens, heads, dim] :
         {std::tuple<int64_t, int64_t, int64_t>{3, 2, 1}, {5, 3, 7}, {2, 1, 64}, {4, 3, 33}, {0, 2, 4}, {300, 8, 128}}) {
      for (const bool per_head : {false, true}) {
        Buffer x(tokens * heads * dim * size), cos(tokens * heads * dim * table_size),
            sin(tokens * heads * dim * table_size);
        for (Buffer* buffer : {&x, &cos, &sin}) {
          const int64_t element = buffer == &x ? size : table_size;
          for (int64_t i = 0; i < tokens * heads * dim; ++i) {
            uint64_t bits = random();  // any bits: NaNs, infinities, denormals
            if (random() % 8 != 0) {
              const double value = static_cast<double>(static_cast<int64_t>(bits)) * 0x1p-59;
              const float narrow = static_cast<float>(value);
              bits = element == 8 ? std::bit_cast<uint64_t>(value) : std::bit_cast<uint32_t>(narrow);
              if (dtype == DType::kBF16 && element == 2) bits >>= 16;
              if (dtype == DType::kF16 && element == 2) bits = 0x3800 | (random() & 0x8fff);
            }
            std::memcpy(static_cast<char*>(buffer->data()) + i * element, &bits, static_cast<size_t>(element));
          }
        }
        PolarTask task;
        task.dtype = dtype;
        task.tokens = tokens;
        task.heads = heads;
        task.head_dim = dim;
        task.x = x.data();
        task.x_token_stride = heads * dim;
        task.x_head_stride = dim;
        task.y_token_stride = 2 * dim;  // the result is [heads, tokens, 2·dim]
        task.y_head_stride = tokens * 2 * dim;
        task.cos = cos.data();
        task.sin = sin.data();
        task.table_stride = heads * dim;
        task.table_head_stride = per_head ? dim : 0;
        const auto run = [&](const Backend& backend, const std::vector<int64_t>& cuts) {
          Buffer y(tokens * heads * 2 * dim * size);
          task.y = y.data();
          int64_t begin = 0;
          for (const int64_t cut : cuts) {
            EXPECT_TRUE(backend.Run(task, {begin, cut}, nullptr).ok());
            begin = cut;
          }
          EXPECT_TRUE(backend.Run(task, {begin, tokens}, nullptr).ok());
          EXPECT_TRUE(y.GuardIntact());
          return y;
        };
        const Buffer want = run(**reference, {});
        for (const Variant& variant : VariantsUnderTest()) {
          EXPECT_EQ(want.FirstDifference(run(variant.Select(), Cuts(tokens)), 0, 2 * tokens * heads * dim, size), -1)
              << variant.name << ' ' << Name(dtype) << ' ' << tokens << 'x' << heads << 'x' << dim;
        }
      }
    }
  }
}

TEST(PolarConformanceTest, Refusals) {
  auto backend = CreateBackend("cpu");
  ASSERT_TRUE(backend.ok());
  PopeSpec pope;
  pope.head_dim = 4;
  const auto resolved = Resolve(*Canonicalize(pope), {}, Precision::kExact);
  std::mt19937_64 random(14);
  const auto phases = PhasesOf(Deltas({4}, random));
  float cos[4], sin[4];
  PolarAngleTask task;
  task.plan = &std::get<AnglePlan>(resolved->plan);
  task.phases = phases.get();
  task.cos = cos;
  task.sin = sin;
  EXPECT_TRUE((*backend)->Run(task, {0, 1}, nullptr).ok());
  const CancelFlag cancelled(true);
  EXPECT_EQ((*backend)->Run(task, {0, 1}, &cancelled).code(), absl::StatusCode::kCancelled);
  task.positions.start = int64_t{1} << 31;
  EXPECT_EQ((*backend)->Run(task, {0, 1}, nullptr).code(), absl::StatusCode::kInvalidArgument);
  task.positions.start = 0;
  task.heads = 2;  // the phases are of one
  EXPECT_EQ((*backend)->Run(task, {0, 1}, nullptr).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace phasor
