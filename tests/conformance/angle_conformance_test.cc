// Angle tables: every case, backend, type, precision and direction, bit for bit against the reference.
#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "tests/conformance/case_run.h"

namespace phasor {
namespace {

constexpr int64_t kLastPosition = (int64_t{1} << 31) - 1;
constexpr int64_t kRows = 200;  // several anchors of any recurrence, and a tail

struct Window {
  std::string name;
  PositionSource positions;
};

const std::vector<int64_t>& RandomIds() {
  static const std::vector<int64_t>* const ids = [] {
    auto* list = new std::vector<int64_t>;
    std::mt19937_64 random(5);
    for (int64_t i = 0; i < kRows; ++i) list->push_back(static_cast<int32_t>(random()) >> (random() % 31));
    return list;
  }();
  return *ids;
}

// Fractions of every size, whole numbers among them.
const std::vector<double>& Fractions() {
  static const std::vector<double>* const fractions = [] {
    auto* list = new std::vector<double>{0.0, -0.0, 0x1p-64, -0x1p-64, 0x1.fffffffffffffp30, 1.0, -3.0, 0.5, 2147483647.0};
    std::mt19937_64 random(6);
    std::uniform_real_distribution<double> mantissa(1, 2);
    while (static_cast<int64_t>(list->size()) < kRows) {
      const double magnitude = std::ldexp(mantissa(random), static_cast<int>(random() % 95) - 64);
      list->push_back(random() % 2 == 0 ? magnitude : -magnitude);
    }
    std::shuffle(list->begin() + 9, list->end(), random);
    return list;
  }();
  return *fractions;
}

std::vector<Window> Windows() {
  return {{"from 0", {0, 1, {}}},
          {"across 0", {-101, 1, {}}},
          {"unaligned", {131011, 1, {}}},
          {"up to the last position", {kLastPosition - (kRows - 1), 1, {}}},
          {"strided", {-7000, 977, {}}},
          {"ids", {0, 1, RandomIds()}},
          {"fractions", {0, 1, {}, Fractions()}}};
}

// One window of a plan: the outputs' shape, and the task without outputs.
struct Table {
  explicit Table(const AngleTask& shape)
      : task(shape),
        stride(shape.plan->pairs() + 3),
        size(SizeOf(shape.dtype)),
        cos(kRows * stride * size),
        sin(kRows * stride * size) {
    task.row_stride = stride;
    task.cos = cos.data();
    task.sin = sin.data();
  }

  AngleTask task;
  int64_t stride;
  int64_t size;
  Buffer cos;
  Buffer sin;
};

// Each variant fills the whole window in uneven ranges; the reference fills `rows_to_check` rows of it.
void CompareWindow(const std::vector<Variant>& variants, const AngleTask& shape, const std::vector<int64_t>& rows_to_check) {
  Table want(shape);
  const auto reference = CreateBackend("reference");
  ASSERT_TRUE(reference.ok());
  for (int64_t row : rows_to_check) ASSERT_TRUE((*reference)->Run(want.task, {row, row + 1}, nullptr).ok());

  for (const Variant& variant : variants) {
    SCOPED_TRACE(variant.name);
    Table got(shape);
    for (RowRange rows : {RowRange{0, 1}, RowRange{1, 78}, RowRange{78, kRows}}) {
      ASSERT_TRUE(variant.Select().Run(got.task, rows, nullptr).ok());
    }
    EXPECT_TRUE(got.cos.GuardIntact() && got.sin.GuardIntact());
    for (int64_t row : rows_to_check) {
      // The gap between rows is compared too: both must have left it alone.
      const int64_t begin = row * got.stride;
      const int64_t end = begin + got.stride;
      ASSERT_EQ(got.cos.FirstDifference(want.cos, begin, end, got.size), -1) << "cos, row " << row;
      ASSERT_EQ(got.sin.FirstDifference(want.sin, begin, end, got.size), -1) << "sin, row " << row;
    }
  }
}

void CompareCase(const std::vector<Variant>& variants, const Case& c) {
  std::mt19937_64 random(std::hash<std::string>{}(c.name));
  for (Precision precision : {Precision::kExact, Precision::kCompatF32}) {
    const Plan resolved = PlanOf(c, precision);
    const AnglePlan* plan = std::get_if<AnglePlan>(&resolved);
    if (plan == nullptr) return;
    // Few rows of wide tables, more of narrow ones: the reference takes about 20 µs an entry.
    const int64_t count = std::clamp<int64_t>(64 / std::max<int64_t>(1, plan->pairs()), 1, 8);
    for (DType dtype : kFloatTypes) {
      for (const Window& window : Windows()) {
        std::vector<int64_t> rows;
        while (static_cast<int64_t>(rows.size()) < count) rows.push_back(static_cast<int64_t>(random() % kRows));
        AngleTask shape;
        shape.plan = plan;
        shape.positions = window.positions;
        for (int64_t axis = 1; axis < plan->axes; ++axis) {
          shape.more_axes[static_cast<size_t>(axis - 1)] = Windows()[random() % Windows().size()].positions;
        }
        shape.dtype = dtype;
        shape.inverse = random() % 2 == 0;
        SCOPED_TRACE(testing::Message() << c.name << " " << Name(dtype) << " "
                                        << (precision == Precision::kExact ? "exact " : "compat_f32 ") << window.name
                                        << (shape.inverse ? " inverse" : ""));
        CompareWindow(variants, shape, rows);
        if (testing::Test::HasFailure()) return;
      }
    }
  }
}

class AngleConformanceTest : public testing::TestWithParam<int> {};

TEST_P(AngleConformanceTest, SameBitsAsTheReference) { CompareCase(VariantsUnderTest(), ConformanceCases()[GetParam()]); }

std::string NameOf(const testing::TestParamInfo<int>& test) {
  std::string name = ConformanceCases()[test.param].name;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, AngleConformanceTest, testing::Range(0, static_cast<int>(ConformanceCases().size())), NameOf);

TEST(ConformanceCasesTest, EverySchemeHasACase) {
  std::set<std::string_view> schemes;
  std::set<std::string> names;
  for (const Case& c : ConformanceCases()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    const Scheme& scheme = SchemeOf(c.spec);
    schemes.insert(scheme.name);
    EXPECT_EQ(c.name.substr(0, c.name.find('/')), scheme.name);
    EXPECT_EQ(c.sequence_length.has_value(), scheme.needs_sequence_length) << c.name;
  }
  for (const Scheme* scheme : Schemes()) EXPECT_TRUE(schemes.contains(scheme->name)) << scheme->name;
}

}  // namespace
}  // namespace phasor
