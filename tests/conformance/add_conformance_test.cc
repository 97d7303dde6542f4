// Additions, bit for bit against the reference: element types, layouts, widths, splits, and everything that can be switched
// on.
#include <cmath>
#include <optional>
#include <random>

#include "tests/conformance/case_run.h"

namespace phasor {
namespace {

// Any bits: NaNs, infinities and denormals among ordinary numbers.
void Fill(Buffer& buffer, int64_t elements, DType dtype, std::mt19937_64& random) {
  const int64_t size = SizeOf(dtype);
  for (int64_t i = 0; i < elements; ++i) {
    uint64_t bits = random();
    if (random() % 16 != 0) {
      const double value = std::ldexp(static_cast<double>(static_cast<int64_t>(bits) >> 11), -51);
      const float narrow = static_cast<float>(value);
      std::memcpy(&bits, dtype == DType::kF64 ? static_cast<const void*>(&value) : &narrow, dtype == DType::kF64 ? 8 : 4);
      if (dtype == DType::kBF16) bits >>= 16;
      if (dtype == DType::kF16) bits = 0x3800 | (random() & 0x87ff);
    }
    // NaNs with payloads that a careless rounding carries over into infinity and beyond.
    if (random() % 64 == 0) bits = size == 8 ? 0x7fffffffffffffff : size == 4 ? 0x7fffffff : 0x7fff;
    std::memcpy(static_cast<char*>(buffer.data()) + i * size, &bits, size);
  }
}

enum Switch : int {
  kGate = 1,
  kEnds = 2,
  kHidden = 4,
  kDropout = 8,
  kPerBatch = 16,
  kSequenceFirst = 32,
  kApart = 64,     // y is not x
  kBackward = 128  // nothing is added
};

struct Shape {
  int64_t batch, tokens, dim;
};

// A task with all that it points at.
class AddCase {
 public:
  AddCase(const Shape& shape, DType dtype, int switches, std::mt19937_64& random)
      : compute_(dtype == DType::kF64 ? DType::kF64 : DType::kF32),
        x_(Elements(shape) * SizeOf(dtype)),
        pe_(Rows(shape) * SizeOf(compute_)),
        other_(Rows(shape) * SizeOf(compute_)),
        gate_((Vectors(shape) + shape.dim) * SizeOf(compute_)),
        ends_(kEndRows * shape.dim * SizeOf(compute_)) {
    Fill(x_, Elements(shape), dtype, random);
    Fill(pe_, Rows(shape), compute_, random);
    Fill(other_, Rows(shape), compute_, random);
    Fill(gate_, Vectors(shape) + shape.dim, compute_, random);
    Fill(ends_, kEndRows * shape.dim, compute_, random);
    const int64_t width = shape.dim + 3;
    task_.dtype = dtype;
    task_.batch = shape.batch;
    task_.tokens = shape.tokens;
    task_.dim = shape.dim;
    task_.x_token_stride = switches & kSequenceFirst ? shape.batch * width : width;
    task_.x_batch_stride = switches & kSequenceFirst ? width : shape.tokens * width;
    task_.y_token_stride = task_.x_token_stride;
    task_.y_batch_stride = task_.x_batch_stride;
    task_.scale = compute_ == DType::kF64 ? 1.1 : 1.1f;
    task_.element_token_stride = switches & kSequenceFirst ? shape.batch * shape.dim : shape.dim;
    task_.element_batch_stride = switches & kSequenceFirst ? shape.dim : shape.tokens * shape.dim;
    task_.first_element = static_cast<int64_t>(random() % 1000);
    if (!(switches & kBackward)) SetEncodings(shape, switches, random);
    if (switches & kHidden) {
      for (int64_t i = 0; i < Vectors(shape); ++i) hidden_.push_back(random() % 3 == 0);
      task_.hidden = hidden_.data();
      task_.hidden_batch_stride = switches & kPerBatch ? shape.tokens : 0;
    }
    if (switches & kDropout) {
      const double probability = random() % 4 == 0 ? 0 : 0.3;
      task_.dropout = {true, random(), random() % 2 == 0 ? UINT64_MAX - 3 : random(), DropoutThreshold(probability),
                       compute_ == DType::kF64 ? 1 / 0.7 : static_cast<double>(static_cast<float>(1 / 0.7))};
    }
    apart_ = switches & kApart;
    elements_ = Elements(shape);
  }

  const AddTask& task() const { return task_; }
  int64_t elements() const { return elements_; }

  // The result of rows [0, n), cut where `cuts` says.
  Buffer Run(const Backend& backend, const std::vector<int64_t>& cuts = {}) const {
    Buffer y = apart_ ? Buffer(elements_ * SizeOf(task_.dtype)) : x_;
    Buffer x = x_;
    AddTask task = task_;
    task.x = apart_ ? x.data() : y.data();
    task.y = y.data();
    int64_t begin = 0;
    for (const int64_t cut : cuts) {
      EXPECT_TRUE(backend.Run(task, {begin, cut}, nullptr).ok());
      begin = cut;
    }
    EXPECT_TRUE(backend.Run(task, {begin, task.batch * task.tokens}, nullptr).ok());
    EXPECT_TRUE(y.GuardIntact());
    return y;
  }

 private:
  static constexpr int64_t kEndRows = 3;
  static int64_t Vectors(const Shape& shape) { return shape.batch * shape.tokens; }
  static int64_t Rows(const Shape& shape) { return Vectors(shape) * (shape.dim + 1); }
  static int64_t Elements(const Shape& shape) { return Vectors(shape) * (shape.dim + 3); }

  void SetEncodings(const Shape& shape, int switches, std::mt19937_64& random) {
    const int64_t batch_stride = switches & kPerBatch ? shape.tokens * (shape.dim + 1) : 0;
    task_.pe = {pe_.data(), batch_stride, shape.dim + 1};
    if (switches & kGate) {
      task_.other = {other_.data(), 0, shape.dim + 1};
      const int kind = static_cast<int>(random() % 3);
      task_.gate = {gate_.data(), kind == 2 && switches & kPerBatch ? shape.tokens : 0, kind == 2 ? 1 : 0};
      task_.gate_channel_stride = kind == 1 ? 1 : 0;
    }
    if (switches & kEnds) {
      for (int64_t i = 0; i < Vectors(shape); ++i) {
        first_.push_back(static_cast<int32_t>(random() % (kEndRows + 2)) - 2);
        last_.push_back(static_cast<int32_t>(random() % (kEndRows + 2)) - 2);
      }
      const int64_t stride = switches & kPerBatch ? shape.tokens : 0;
      if (random() % 3 != 0) task_.first = {ends_.data(), first_.data(), stride};
      if (random() % 3 != 0) task_.last = {ends_.data(), last_.data(), stride};
    }
  }

  const DType compute_;
  Buffer x_, pe_, other_, gate_, ends_;
  std::vector<int32_t> first_, last_;
  std::vector<uint8_t> hidden_;
  AddTask task_;
  bool apart_ = false;
  int64_t elements_ = 0;
};

const Shape kShapes[] = {{1, 1, 1},   {2, 3, 2},  {3, 2, 7},  {1, 5, 15},  {2, 2, 16}, {4, 3, 17},
                         {1, 2, 31},  {2, 1, 32}, {2, 3, 33}, {1, 3, 64},  {3, 5, 65}, {1, 2, 514},
                         {2, 2, 769}, {0, 3, 8},  {2, 0, 8},  {1, 1, 515}, {2, 40, 9}, {1, 2, 1023}};

TEST(AddConformanceTest, EveryShapeTypeAndSwitch) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(31);
  for (const Shape& shape : kShapes) {
    for (const DType dtype : kFloatTypes) {
      for (int i = 0; i < 12; ++i) {
        const int switches = i == 0 ? 0 : static_cast<int>(random() % 256);
        const AddCase c(shape, dtype, switches, random);
        const Buffer wanted = c.Run(**reference);
        for (const Variant& variant : VariantsUnderTest()) {
          EXPECT_EQ(c.Run(variant.Select()).FirstDifference(wanted, 0, c.elements(), SizeOf(dtype)), -1)
              << variant.name << " " << Name(dtype) << " batch " << shape.batch << " tokens " << shape.tokens << " dim "
              << shape.dim << " switches " << switches;
        }
      }
    }
  }
}

TEST(AddConformanceTest, WideVectorsAndManyTokens) {
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  std::mt19937_64 random(32);
  for (const Shape& shape : {Shape{2, 2, 8193}, Shape{1, 2, 40001}, Shape{3, 5000, 13}}) {
    for (const int switches : {0, kGate | kEnds, kGate | kPerBatch | kHidden, kDropout | kSequenceFirst}) {
      const AddCase c(shape, DType::kBF16, switches, random);
      const Buffer wanted = c.Run(**reference);
      for (const Variant& variant : VariantsUnderTest()) {
        EXPECT_EQ(c.Run(variant.Select()).FirstDifference(wanted, 0, c.elements(), 2), -1)
            << variant.name << " dim " << shape.dim << " switches " << switches;
      }
    }
  }
}

TEST(AddConformanceTest, AnyCutGivesTheSameBits) {
  std::mt19937_64 random(33);
  for (const Variant& variant : VariantsUnderTest()) {
    const Backend& backend = variant.Select();
    for (int i = 0; i < 60; ++i) {
      const Shape shape{static_cast<int64_t>(1 + random() % 4), static_cast<int64_t>(1 + random() % 9),
                        static_cast<int64_t>(1 + random() % 70)};
      const DType dtype = kFloatTypes[random() % 4];
      const AddCase c(shape, dtype, static_cast<int>(random() % 256) & ~kBackward, random);
      std::vector<int64_t> cuts;
      for (int64_t row = 0; row < shape.batch * shape.tokens; ++row) {
        if (random() % 3 == 0) cuts.push_back(row);
      }
      EXPECT_EQ(c.Run(backend, cuts).FirstDifference(c.Run(backend), 0, c.elements(), SizeOf(dtype)), -1) << variant.name;
    }
  }
}

TEST(AddConformanceTest, BadTasksAreRefusedAndCancellingStops) {
  const auto cpu = CreateBackend("cpu");
  ASSERT_TRUE(cpu.ok());
  float x[8] = {}, pe[8] = {};
  AddTask good;
  good.tokens = 2;
  good.dim = 4;
  good.x = good.y = x;
  good.x_token_stride = good.y_token_stride = 4;
  good.pe = {pe, 0, 4};
  EXPECT_TRUE((*cpu)->Run(good, {0, 2}, nullptr).ok());
  AddTask bad = good;
  bad.y = nullptr;
  EXPECT_FALSE((*cpu)->Run(bad, {0, 2}, nullptr).ok());
  EXPECT_FALSE((*cpu)->Run(good, {0, 3}, nullptr).ok());
  bad = good;
  bad.other = {pe, 0, 4};  // without a gate
  EXPECT_FALSE((*cpu)->Run(bad, {0, 2}, nullptr).ok());
  bad = good;
  bad.first.data = pe;  // without an index
  EXPECT_FALSE((*cpu)->Run(bad, {0, 2}, nullptr).ok());
  const CancelFlag cancelled{true};
  EXPECT_EQ((*cpu)->Run(good, {0, 2}, &cancelled).code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace phasor
