// The golden models' samples, computed with 50 digits from the published formulas, on every backend and instruction set:
// 16-bit and f32 entries are the nearest numbers, f64 ones within 0.5001 units in the last place.
#include <cmath>
#include <string>

#include "kernels/core/narrow.h"
#include "tests/conformance/case_run.h"
#include "tests/kernels/encodings/decimal.h"
#include "tests/kernels/encodings/golden_specs.h"

namespace phasor {
namespace {

const GoldenModels& Models() {
  static const GoldenModels* const models = new GoldenModels(PHASOR_SOURCE_DIR "/tests/golden/models");
  return *models;
}

// |number with these bits − exact|, in MPFR.
template <typename T>
void Distance(uint64_t bits, const Mpfr& exact, Mpfr& out) {
  mpfr_set_d(out.get(), Widen<double>(FromBits<T>(bits)), MPFR_RNDN);
  mpfr_sub(out.get(), out.get(), exact.get(), MPFR_RNDN);
  mpfr_abs(out.get(), out.get(), MPFR_RNDN);
}

// No neighbour of the stored number is nearer to the exact one (by more than a hundredth of a percent of a unit, which is
// how much of a double the strings' 20 digits leave open).
template <typename T>
void ExpectNearest(const void* data, int64_t index, const Mpfr& exact) {
  uint64_t bits = 0;
  std::memcpy(&bits, static_cast<const char*>(data) + index * sizeof(T), sizeof(T));
  if (mpfr_zero_p(exact.get())) {
    EXPECT_EQ(bits, 0u);
    return;
  }
  Mpfr distance, neighbour;
  Distance<T>(bits, exact, distance);
  for (uint64_t other : {bits + 1, bits - 1}) {
    const bool overflow = (other & (kSignBit<T> - 1u)) >= kInfinityBits<T>;
    if (overflow) continue;
    Distance<T>(other, exact, neighbour);
    mpfr_mul_d(neighbour.get(), neighbour.get(), 1.0004, MPFR_RNDN);
    EXPECT_LE(mpfr_cmp(distance.get(), neighbour.get()), 0) << "bits " << bits;
  }
}

void ExpectNearest(DType dtype, const void* data, int64_t index, const Mpfr& exact) {
  VisitFloat(dtype, [&](auto tag) { ExpectNearest<typename decltype(tag)::type>(data, index, exact); });
}

Plan PlanOf(const GoldenEntry& entry) {
  return PlanOf(Case{entry.name, entry.spec, entry.sequence_length}, Precision::kExact);
}

Mpfr Decimal(const rapidjson::Value& value) { return Mpfr(std::string(value.GetString())); }

// The one row at `position`.
struct Row {
  Row(const Backend& backend, const AnglePlan& plan, DType dtype, int64_t position)
      : cos(plan.pairs() * SizeOf(dtype)), sin(plan.pairs() * SizeOf(dtype)) {
    AngleTask task;
    task.plan = &plan;
    task.positions.start = position;
    task.dtype = dtype;
    task.cos = cos.data();
    task.sin = sin.data();
    task.row_stride = plan.pairs();
    const absl::Status status = backend.Run(task, {0, 1}, nullptr);
    EXPECT_TRUE(status.ok()) << status;
  }
  Buffer cos;
  Buffer sin;
};

void ExpectRope(const Backend& backend, const GoldenEntry& entry, DType dtype) {
  const Plan resolved = PlanOf(entry);
  const AnglePlan& plan = std::get<AnglePlan>(resolved);
  const Mpfr factor = Decimal((*entry.expect)["attention_factor_exact"]);
  for (const rapidjson::Value& sample : (*entry.expect)["samples"].GetArray()) {
    // Several axes: the pair's own coordinate is all that its angle knows.
    const rapidjson::Value& position = sample["position"];
    const int64_t pair = sample["pair"].GetInt64();
    const int64_t at = position.IsArray()
                           ? position[(*entry.expect)["axis_of_pair"][static_cast<int>(pair)].GetInt()].GetInt64()
                           : position.GetInt64();
    SCOPED_TRACE(testing::Message() << "position " << at << " pair " << pair);
    Row row(backend, plan, dtype, at);
    Mpfr cos = Decimal(sample["cos"]);
    Mpfr sin = Decimal(sample["sin"]);
    mpfr_mul(cos.get(), cos.get(), factor.get(), MPFR_RNDN);
    mpfr_mul(sin.get(), sin.get(), factor.get(), MPFR_RNDN);
    ExpectNearest(dtype, row.cos.data(), pair, cos);
    ExpectNearest(dtype, row.sin.data(), pair, sin);
  }
}

void ExpectSinusoidal(const Backend& backend, const GoldenEntry& entry, DType dtype) {
  const Plan resolved = PlanOf(entry);
  const AnglePlan& plan = std::get<AnglePlan>(resolved);
  const SinusoidalSpec& spec = std::get<SinusoidalSpec>(entry.spec);
  for (const rapidjson::Value& sample : (*entry.expect)["samples"].GetArray()) {
    const int64_t table_row = sample["row"].GetInt64();
    if (table_row == spec.padding_row) continue;  // zeros by decree, not by angle
    SCOPED_TRACE(testing::Message() << "row " << table_row << " column " << sample["column"].GetInt());
    Row row(backend, plan, dtype, table_row);
    Buffer out(spec.dim * SizeOf(dtype));
    AssembleTask task;
    task.form =
        spec.layout == SinusoidalLayout::kConcatenated ? TableForm::kSinCosConcatenated : TableForm::kSinCosInterleaved;
    task.element_size = SizeOf(dtype);
    task.pairs = plan.pairs();
    task.columns = spec.dim;
    task.cos = row.cos.data();
    task.sin = row.sin.data();
    task.table_stride = plan.pairs();
    task.out = out.data();
    ASSERT_TRUE(backend.Run(task, {0, 1}, nullptr).ok());
    ExpectNearest(dtype, out.data(), sample["column"].GetInt64(), Decimal(sample["value"]));
  }
}

void ExpectAlibi(const Backend& backend, const GoldenEntry& entry, DType dtype) {
  const Plan resolved = PlanOf(entry);
  const BiasPlan& plan = std::get<BiasPlan>(resolved);
  for (const rapidjson::Value& sample : (*entry.expect)["samples"].GetArray()) {
    const int64_t head = sample["head"].GetInt64();
    const int64_t distance = sample["key"].GetInt64() - sample["query"].GetInt64();
    SCOPED_TRACE(testing::Message() << "head " << head << " distance " << distance);
    const Mpfr exact = Decimal(sample["bias"]);
    if (dtype == DType::kF16 && std::fabs(exact.ToDouble()) >= 65504) continue;  // infinity has no distance
    Buffer out(SizeOf(dtype));
    BiasVectorTask task;
    task.plan = &plan;
    task.dtype = dtype;
    task.first_distance = distance;
    task.first_head = head;
    task.heads = 1;
    task.out = out.data();
    task.head_stride = 1;
    ASSERT_TRUE(backend.Run(task, {0, 1}, nullptr).ok());
    ExpectNearest(dtype, out.data(), 0, exact);
  }
}

class GoldenSamplesTest : public testing::TestWithParam<int> {};

TEST_P(GoldenSamplesTest, EveryVariant) {
  const GoldenEntry& entry = Models().entries()[GetParam()];
  ASSERT_GT((*entry.expect)["samples"].Size(), 0u);
  for (const Variant& variant : VariantsUnderTest()) {
    for (DType dtype : kFloatTypes) {
      SCOPED_TRACE(testing::Message() << entry.name << " " << variant.name << " " << Name(dtype));
      const Backend& backend = variant.Select();
      if (entry.kind == "alibi") {
        ExpectAlibi(backend, entry, dtype);
      } else if (entry.kind == "sinusoidal") {
        ExpectSinusoidal(backend, entry, dtype);
      } else {
        ExpectRope(backend, entry, dtype);
      }
      if (HasFailure()) return;
    }
  }
}

std::string NameOf(const testing::TestParamInfo<int>& test) {
  std::string name = Models().entries()[test.param].name;
  for (char& c : name) {
    if (!isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, GoldenSamplesTest, testing::Range(0, static_cast<int>(Models().entries().size())), NameOf);

}  // namespace
}  // namespace phasor
