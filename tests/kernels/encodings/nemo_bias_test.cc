// KERPLE and Sandwich against NVIDIA NeMo's own modules in float64 (tests/golden/bias/make_nemo.py).
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

using rapidjson::Value;

const rapidjson::Document& Golden() {
  static const rapidjson::Document* const document = [] {
    std::ifstream file(PHASOR_SOURCE_DIR "/tests/golden/bias/nemo.json");
    std::ostringstream text;
    text << file.rdbuf();
    auto* parsed = new rapidjson::Document;
    parsed->Parse(text.str().c_str());
    return parsed;
  }();
  EXPECT_TRUE(document->IsObject());
  return *document;
}

// Within a few roundings of float64, relative and, where many terms are summed, absolute.
void ExpectBias(const EncodingSpec& spec, const Value& want, double absolute) {
  const auto canonical = Canonicalize(spec);
  ASSERT_TRUE(canonical.ok()) << canonical.status();
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  std::vector<int64_t> distances;
  for (const Value& d : Golden()["distances"].GetArray()) distances.push_back(-d.GetInt64());
  const auto count = static_cast<int64_t>(distances.size()), heads = static_cast<int64_t>(want.Size());
  std::vector<double> got(static_cast<size_t>(count * heads));
  const BiasVectorTask task{.plan = *DistancePlanOf(resolved->plan),
                            .dtype = DType::kF64,
                            .heads = heads,
                            .out = got.data(),
                            .head_stride = count,
                            .distances = distances};
  ASSERT_TRUE((*CreateBackend("cpu"))->Run(task, {0, count}, nullptr).ok());
  for (int64_t i = 0; i < count * heads; ++i) {
    const double expected =
        want[static_cast<rapidjson::SizeType>(i / count)][static_cast<rapidjson::SizeType>(i % count)].GetDouble();
    EXPECT_NEAR(got[static_cast<size_t>(i)], expected, absolute + 1e-15 * std::fabs(expected))
        << "head " << i / count << ", distance " << distances[static_cast<size_t>(i % count)];
  }
}

std::vector<double> Numbers(const Value& list) {
  std::vector<double> numbers;
  for (const Value& n : list.GetArray()) numbers.push_back(n.GetDouble());
  return numbers;
}

TEST(NemoBiasTest, Kerple) {
  ASSERT_EQ(Golden()["kerple"].Size(), 2u);
  for (const Value& c : Golden()["kerple"].GetArray()) {
    KerpleSpec spec;
    spec.form = KerpleForm::kNemo;
    spec.r2 = Numbers(c["a"]);
    spec.p = Numbers(c["p"]);  // r1, NeMo's b, starts at ALiBi's slopes
    ExpectBias(spec, c["bias"], 1e-15);
  }
}

TEST(NemoBiasTest, Sandwich) {
  ASSERT_EQ(Golden()["sandwich"].Size(), 2u);
  for (const Value& c : Golden()["sandwich"].GetArray()) {
    SandwichSpec spec;
    spec.num_heads = c["heads"].GetInt64();
    spec.dim = c["dim"].GetInt64();
    // Sums of up to 64 cosines of angles up to 520, each within 3 units in the last place of its angle.
    ExpectBias(spec, c["bias"], 64 * 3 * 0x1p-44);
  }
}

}  // namespace
}  // namespace phasor
