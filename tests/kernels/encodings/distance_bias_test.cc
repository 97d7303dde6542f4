// Biases by distance against the libraries that introduced them and against 300-bit arithmetic (tests/golden/bias), and the
// traps of each scheme by name, with the right and the wrong value.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidjson/document.h>

#include <bit>
#include <cmath>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/encodings/buckets.h"
#include "kernels/encodings/encoding.h"

namespace phasor {
namespace {

using rapidjson::Value;
using testing::ElementsAre;
using testing::Pointwise;

const Value& Golden(const char* part) {
  static const rapidjson::Document* const document = [] {
    std::ifstream file(PHASOR_SOURCE_DIR "/tests/golden/bias/bias.json");
    std::ostringstream text;
    text << file.rdbuf();
    auto* parsed = new rapidjson::Document;
    parsed->Parse(text.str().c_str());
    return parsed;
  }();
  EXPECT_TRUE(document->IsObject());
  return (*document)[part];
}

std::vector<float> Floats(const Value& bits) {
  std::vector<float> values;
  for (const Value& word : bits.GetArray()) values.push_back(std::bit_cast<float>(word.GetUint()));
  return values;
}

// f32 values of head h at the distances, head by head.
std::vector<float> ValuesOf(const EncodingSpec& spec, const std::vector<int64_t>& distances) {
  const auto canonical = Canonicalize(spec);
  EXPECT_TRUE(canonical.ok()) << canonical.status();
  if (!canonical.ok()) return {};
  const auto resolved = Resolve(*canonical, std::nullopt, Precision::kExact);
  EXPECT_TRUE(resolved.ok()) << resolved.status();
  const auto plan = DistancePlanOf(resolved->plan);
  EXPECT_TRUE(plan.has_value());
  const int64_t count = static_cast<int64_t>(distances.size()), heads = VectorsOf(*plan);
  std::vector<float> out(static_cast<size_t>(count * heads));
  const auto backend = CreateBackend("cpu");
  const BiasVectorTask task{.plan = *plan, .heads = heads, .out = out.data(), .head_stride = count, .distances = distances};
  EXPECT_TRUE((*backend)->Run(task, {0, count}, nullptr).ok());
  return out;
}

AlibiSpec Alibi(int64_t heads) {
  AlibiSpec alibi;
  alibi.num_heads = heads;
  return alibi;
}

// |a − b| within so many units in the last place of b.
MATCHER_P(WithinUlps, ulps, "") {
  const float got = std::get<0>(arg), want = std::get<1>(arg);
  const float unit = std::nextafter(std::fabs(want), INFINITY) - std::fabs(want);
  return std::fabs(got - want) <= ulps * unit;
}

// ---- Buckets.

TEST(BucketsTest, T5Bidirectional) {
  const DistanceBuckets buckets(32, 128, true);
  // encodings of T5's paper code: sign is key − query.
  const std::vector<std::pair<int64_t, int64_t>> want = {{-200, 15}, {-64, 14}, {-32, 12}, {-16, 10}, {-8, 8},  {-1, 1},
                                                         {0, 0},     {1, 17},   {8, 24},   {64, 30},  {127, 31}};
  for (const auto& [distance, bucket] : want) EXPECT_EQ(buckets.at(distance), bucket) << distance;
  EXPECT_NE(buckets.at(1), 1) << "with the sign turned round, keys before the query would take the upper half";
}

TEST(BucketsTest, T5Causal) {
  const DistanceBuckets buckets(32, 128, false);
  const std::vector<std::pair<int64_t, int64_t>> want = {{-15, 15}, {-16, 16}, {-32, 21}, {-64, 26}, {-113, 31}, {5, 0}};
  for (const auto& [distance, bucket] : want) EXPECT_EQ(buckets.at(distance), bucket) << distance;
}

// UDOP cuts (memory − context)·100 of coordinates in 0 … 1 to whole numbers, towards zero: 0 … 0.0099 is no distance on
// either side. A quotient that is rounded down would put −1 … −139 one bucket further.
TEST(BucketsTest, DividedDistancesAreCutTowardsZero) {
  const DistanceBuckets plain(32, 100, true), divided(32, 100, true, 140);
  for (int64_t d = -1000; d <= 1000; ++d) EXPECT_EQ(divided.at(d), plain.at(d / 140)) << d;
  EXPECT_EQ(divided.at(-139), 0);
  EXPECT_EQ(divided.at(139), 0);
  EXPECT_EQ(divided.at(-140), 1);
  EXPECT_EQ(divided.at(140), 17);
}

void ExpectRuns(const Value& runs, int64_t last, const std::function<int64_t(int64_t)>& at) {
  for (rapidjson::SizeType i = 0; i < runs.Size(); ++i) {
    const int64_t begin = runs[i][0].GetInt64();
    const int64_t end = i + 1 < runs.Size() ? runs[i + 1][0].GetInt64() : last + 1;
    for (int64_t d = begin; d < end; ++d) ASSERT_EQ(at(d), runs[i][1].GetInt64()) << d;
  }
}

// transformers' float32 logarithms decide as whole numbers do, in all of these.
TEST(BucketsTest, MatchesTransformersAndWholeNumbers) {
  for (const Value& c : Golden("t5")["buckets"].GetArray()) {
    const int64_t num_buckets = c["num_buckets"].GetInt64(), max_distance = c["max_distance"].GetInt64();
    SCOPED_TRACE(testing::Message() << num_buckets << " " << max_distance);
    const DistanceBuckets buckets(num_buckets, max_distance, c["bidirectional"].GetBool());
    ExpectRuns(c["exact"], 5000, [&](int64_t d) { return buckets.at(d); });
    ExpectRuns(c["runs"], 5000, [&](int64_t d) { return buckets.at(d); });
  }
}

TEST(BucketsTest, DebertaMatchesTransformers) {
  for (const Value& c : Golden("deberta").GetArray()) {
    const int64_t size = c["position_buckets"].GetInt64(), longest = c["max_relative_positions"].GetInt64();
    SCOPED_TRACE(testing::Message() << size << " " << longest);
    const LogBuckets buckets(size, longest);
    // The file's distances are query − key.
    ExpectRuns(c["runs"], 4000, [&](int64_t r) { return buckets.at(-r); });
    EXPECT_EQ(buckets.rows(), 2 * size);
  }
}

TEST(BucketsTest, DebertaRoundsUpAndCountsFromTheQuery) {
  const LogBuckets buckets(256, 512);
  EXPECT_EQ(buckets.at(0), 256);
  EXPECT_EQ(buckets.at(-128), 384);  // query 128 after the key; T5's sign would give 128
  // ceil: 129 is 128 + ceil(0.72) = 129; rounding down would give 128.
  EXPECT_EQ(buckets.at(-129), 256 + 129);
  EXPECT_EQ(buckets.at(-1000000), 511);
  EXPECT_EQ(buckets.at(1000000), 0);
  const LogBuckets plain(0, 4);
  EXPECT_EQ(plain.at(-3), 7);
  EXPECT_EQ(plain.at(-4), 7);
  EXPECT_EQ(plain.at(4), 0);
}

TEST(BucketsTest, ShawClipsAndShares) {
  const ClippedDistances bert{.clip = 3};
  EXPECT_EQ(bert.at(0), 3);
  EXPECT_EQ(bert.at(-2), 5);  // query − key = 2
  EXPECT_EQ(bert.at(-100), 6);
  EXPECT_EQ(bert.at(100), 0);
  const ClippedDistances shaw{.clip = 3, .key_minus_query = true};
  EXPECT_EQ(shaw.at(-2), 1);
  EXPECT_EQ(shaw.rows(), 7);
}

// ---- ALiBi.

// BLOOM's slope·position, as the bias of a query at position 0; keys stand where the mask puts them.
std::vector<int64_t> BloomPositions() {
  std::vector<int64_t> positions;
  for (const Value& row : Golden("alibi")["mask"].GetArray()) {
    int64_t ones = 0;
    for (const Value& entry : row.GetArray()) {
      ones += entry.GetInt64();
      positions.push_back(entry.GetInt64() == 1 ? ones - 1 : 0);
    }
  }
  return positions;
}

TEST(AlibiGoldenTest, BloomCountsPositionsOnTheMask) {
  const std::vector<int64_t> positions = BloomPositions();
  EXPECT_THAT(std::vector<int64_t>(positions.begin(), positions.begin() + 7), ElementsAre(0, 0, 0, 0, 1, 2, 3))
      << "by column the first key of a left-padded row would stand at 3";
  for (const Value& c : Golden("alibi")["bloom"].GetArray()) {
    const int64_t heads = c["heads"].GetInt64();
    const std::vector<float> ours = ValuesOf(Alibi(heads), positions), theirs = Floats(c["bits"]);
    for (int64_t b = 0; b < 3; ++b) {
      for (int64_t h = 0; h < heads; ++h) {
        for (int64_t k = 0; k < 7; ++k) {
          const float got = ours[static_cast<size_t>(h * 21 + b * 7 + k)];
          const float want = theirs[static_cast<size_t>((b * heads + h) * 7 + k)];
          // The library raises a rounded base to powers of up to 64 in float32.
          EXPECT_NEAR(got, want, std::fabs(want) * 64 * 0x1p-24) << heads << " " << h;
        }
      }
    }
  }
}

TEST(AlibiGoldenTest, FalconRoundsSlopesToBf16) {
  AlibiSpec spec = Alibi(71);
  spec.slope_dtype = DType::kBF16;
  // Head 64 is the first of the second series: 2^(−1/16) … its slope is no bf16 number.
  const std::vector<float> ours = ValuesOf(spec, {1, 256, 257, 299});
  const float slope = ours[64 * 4];
  EXPECT_EQ(slope, std::bit_cast<float>(std::bit_cast<uint32_t>(slope) & 0xffff0000u));
  spec.slope_dtype.reset();
  EXPECT_NE(ValuesOf(spec, {1})[64], slope) << "the exact slope";
  const std::vector<float> far = Floats(Golden("alibi")["falcon_far"]["bits"]);
  EXPECT_EQ(far[0], slope * 256);
  EXPECT_EQ(far[1], far[0]) << "the library rounds position 257 to 256 in bf16";
  EXPECT_NE(ours[64 * 4 + 2], far[1]) << "which is not repeated here";
}

TEST(AlibiGoldenTest, FalconScalesTheBias) {
  AlibiSpec spec = Alibi(8);
  spec.scale = 0.125;  // 1/√64
  EXPECT_EQ(ValuesOf(spec, {-16})[0], -1.0f);
  EXPECT_EQ(ValuesOf(Alibi(8), {-16})[0], -8.0f) << "without the factor";
}

TEST(AlibiGoldenTest, MptMatches) {
  for (const Value& c : Golden("alibi")["mpt"].GetArray()) {
    AlibiSpec spec = Alibi(c["heads"].GetInt64());
    spec.max_bias = c["max_bias"].GetDouble();
    EXPECT_THAT(ValuesOf(spec, {-5, -4, -3, -2, -1, 0}), Pointwise(WithinUlps(4), Floats(c["bits"])));
  }
}

TEST(AlibiGoldenTest, XTransformersBiasesSomeHeads) {
  for (const Value& c : Golden("alibi")["x_transformers"].GetArray()) {
    AlibiSpec spec = Alibi(c["total"].GetInt64());
    spec.biased_heads = c["heads"].GetInt64();
    spec.form = AlibiForm::kSymmetric;
    std::vector<int64_t> distances;
    for (int64_t q = 2; q < 5; ++q) {
      for (int64_t k = 0; k < 5; ++k) distances.push_back(k - q);  // bottom-right
    }
    EXPECT_THAT(ValuesOf(spec, distances), Pointwise(WithinUlps(4), Floats(c["bits"])));
  }
}

TEST(AlibiFormsTest, TwoSided) {
  AlibiSpec spec = Alibi(8);
  spec.form = AlibiForm::kTwoSided;
  spec.future_factor = 0.5;
  const std::vector<float> values = ValuesOf(spec, {-4, 0, 4});
  EXPECT_EQ(values[0], -2.0f);
  EXPECT_EQ(values[1], 0.0f);
  EXPECT_EQ(values[2], -1.0f) << "the causal form would reward it with 2";
  spec.future_factor = 1;
  AlibiSpec symmetric = Alibi(8);
  symmetric.form = AlibiForm::kSymmetric;
  EXPECT_EQ(PlanKey(Resolve(*Canonicalize(spec), {}, Precision::kExact)->plan),
            PlanKey(Resolve(*Canonicalize(symmetric), {}, Precision::kExact)->plan));
}

// ggml: the mask holds −|Δ|, which the slope multiplies; slope 1 when max_bias is 0.
TEST(AlibiFormsTest, Ggml) {
  AlibiSpec spec = Alibi(12);
  spec.form = AlibiForm::kSymmetric;
  const std::vector<float> values = ValuesOf(spec, {-1, 1});
  EXPECT_EQ(values[0], -0.5f);
  EXPECT_EQ(values[1], -0.5f);
  // m0 = 2^(−8/8), m1 = 2^(−8/2/8): head 8 has m1^(2·(8 − 8) + 1).
  EXPECT_EQ(values[16], -0.70710677f);
  spec.max_bias = 0;
  EXPECT_EQ(ValuesOf(spec, {-3})[0], -3.0f);
}

TEST(AlibiFormsTest, SlopesPerBatchRow) {
  AlibiSpec spec = Alibi(2);
  spec.batch_slopes = {0.5, 0.25, 2, 0};
  EXPECT_THAT(ValuesOf(spec, {-2, 1}), ElementsAre(-1, 0.5, -0.5, 0.25, -4, 2, 0, 0));
}

TEST(AlibiFormsTest, HeadsThatAreNoPowerOfTwo) {
  const std::vector<float> slopes = ValuesOf(Alibi(12), {1});
  EXPECT_THAT(slopes, ElementsAre(.5f, .25f, .125f, .0625f, .03125f, .015625f, .0078125f, .00390625f, 0.70710677f,
                                  0.35355338f, 0.17677669f, 0.088388346f));
  EXPECT_NE(slopes[0], std::exp2(-8.0f / 12)) << "one geometric sequence (a known bug)";
}

// ---- T5 values.

TEST(T5ValuesTest, XTransformersScalesTheTable) {
  const Value& c = Golden("t5")["x_transformers"];
  const std::vector<float> table = Floats(c["table"]);
  T5BucketSpec spec;
  spec.bidirectional = false;
  spec.scale = c["scale"].GetDouble();
  spec.table = MakeWeight({32, 3}, std::vector<double>(table.begin(), table.end()));
  std::vector<int64_t> distances;
  for (int64_t q = 2; q < 6; ++q) {
    for (int64_t k = 0; k < 6; ++k) distances.push_back(k - q);
  }
  EXPECT_EQ(ValuesOf(spec, distances), Floats(c["bits"]));
}

// ---- KERPLE and Sandwich: the nearest float32 everywhere.

TEST(KerpleTest, NearestNumbers) {
  const Value& golden = Golden("kerple");
  std::vector<int64_t> distances;
  for (const Value& d : golden["distances"].GetArray()) distances.push_back(d.GetInt64());
  for (const Value& c : golden["cases"].GetArray()) {
    KerpleSpec spec;
    const std::string form = c["form"].GetString();
    spec.form = form == "log" ? KerpleForm::kLog : form == "power" ? KerpleForm::kPower : KerpleForm::kNemo;
    spec.r1 = {c["r1"].GetDouble()};
    spec.r2 = {c["r2"].GetDouble()};
    if (form == "nemo") spec.p = {c["p"].GetDouble()};
    EXPECT_EQ(ValuesOf(spec, distances), Floats(c["bits"])) << form << " " << spec.r2[0];
    std::vector<int64_t> future = distances;
    for (int64_t& d : future) d = -d;
    EXPECT_EQ(ValuesOf(spec, future), Floats(c["bits"])) << "both sides are alike";
  }
}

TEST(KerpleTest, NemoWithAZeroIsRefused) {
  KerpleSpec spec;
  spec.form = KerpleForm::kNemo;
  spec.r2 = {0};
  const auto error = SpecErrorOf(Canonicalize(spec).status());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->field, "kerple.r2[0]");
  spec.r2 = {1};
  // b starts at ALiBi's slopes.
  EXPECT_EQ(ValuesOf(spec, {1})[0], static_cast<float>(-0x1p-8 * std::log(2.0)));
}

TEST(SandwichTest, NearestNumbers) {
  const Value& golden = Golden("sandwich");
  std::vector<int64_t> distances;
  for (const Value& d : golden["distances"].GetArray()) distances.push_back(d.GetInt64());
  for (const Value& c : golden["cases"].GetArray()) {
    SandwichSpec spec;
    spec.num_heads = c["heads"].GetInt64();
    spec.dim = c["dim"].GetInt64();
    spec.base = c["base"].GetDouble();
    EXPECT_EQ(ValuesOf(spec, distances), Floats(c["bits"])) << spec.num_heads << " " << *spec.dim;
  }
}

TEST(SandwichTest, TermsStartAtOne) {
  SandwichSpec spec;
  spec.num_heads = 8;
  const std::vector<float> values = ValuesOf(spec, {0, 1, 16, 512});
  EXPECT_EQ(values[0], 0.0f);
  EXPECT_NEAR(values[1], -1.446619, 1e-6);
  EXPECT_NEAR(values[2], -22.340688, 1e-6);
  EXPECT_NEAR(values[3], -47.961317, 2e-6);
  // From k = 0 on the fastest term would be cos Δ: cos 1 − 1 more at distance 1, and the slowest one would be missing.
  EXPECT_GT(std::fabs(values[1] - (-1.446619 + std::cos(1.0) - 1)), 0.4);
  EXPECT_LT(values[3], values[4 * 7 + 3]) << "the first head decays most";
}

// ---- Errors.

void ExpectError(const EncodingSpec& spec, const std::string& field, const std::string& given) {
  const auto error = SpecErrorOf(Canonicalize(spec).status());
  ASSERT_TRUE(error) << field;
  EXPECT_EQ(error->field, field);
  EXPECT_EQ(error->given, given) << field;
  EXPECT_FALSE(error->allowed.empty());
}

TEST(DistanceBiasErrorsTest, Alibi) {
  const auto alibi = [](auto change, const std::string& field, const std::string& given) {
    AlibiSpec spec = Alibi(4);
    change(spec);
    ExpectError(spec, field, given);
  };
  alibi([](AlibiSpec& s) { s.biased_heads = 0; }, "alibi.biased_heads", "0");
  alibi([](AlibiSpec& s) { s.biased_heads = 5; }, "alibi.biased_heads", "5");
  alibi([](AlibiSpec& s) { s.scale = 0; }, "alibi.scale", "0");
  alibi([](AlibiSpec& s) { s.scale = NAN; }, "alibi.scale", "nan");
  alibi([](AlibiSpec& s) { s.slope_dtype = DType::kF64; }, "alibi.slope_dtype", "f64");
  alibi([](AlibiSpec& s) { s.form = AlibiForm::kTwoSided, s.future_factor = -1; }, "alibi.future_factor", "-1");
  alibi([](AlibiSpec& s) { s.batch_slopes = {1, 2, 3}; }, "alibi.batch_slopes", "3 entries");
  alibi([](AlibiSpec& s) { s.batch_slopes = {1, 2, 3, INFINITY}; }, "alibi.batch_slopes[3]", "inf");
  alibi([](AlibiSpec& s) { s.slopes = s.batch_slopes = {1, 2, 3, 4}; }, "alibi.batch_slopes", "4 entries");
  alibi([](AlibiSpec& s) { s.slopes = {1, 2, 3, 4}, s.biased_heads = 2; }, "alibi.biased_heads", "2");
  alibi([](AlibiSpec& s) { s.slopes = {1, 2, 3, 1e5}, s.slope_dtype = DType::kF16; }, "alibi.slopes[3]", "100000");
}

TEST(DistanceBiasErrorsTest, T5) {
  const auto t5 = [](auto change, const std::string& field, const std::string& given) {
    T5BucketSpec spec;
    spec.num_heads = 2;
    change(spec);
    ExpectError(spec, field, given);
  };
  t5([](T5BucketSpec& s) { s.num_buckets = 3; }, "t5_bucket.num_buckets", "3");
  t5([](T5BucketSpec& s) { s.num_buckets = 33; }, "t5_bucket.num_buckets", "33");
  t5([](T5BucketSpec& s) { s.num_buckets = 65538; }, "t5_bucket.num_buckets", "65538");
  t5([](T5BucketSpec& s) { s.max_distance = 8; }, "t5_bucket.max_distance", "8");
  t5([](T5BucketSpec& s) { s.scale = INFINITY; }, "t5_bucket.scale", "inf");
  t5([](T5BucketSpec& s) { s.distance_divisor = 0; }, "t5_bucket.distance_divisor", "0");
  t5([](T5BucketSpec& s) { s.distance_divisor = int64_t{1} << 31; }, "t5_bucket.distance_divisor", "2147483648");
  t5([](T5BucketSpec& s) { s.num_heads = 0; }, "t5_bucket.num_heads", "0");
  t5([](T5BucketSpec& s) { s.table = MakeWeight({32, 3}, std::vector<double>(96)); }, "weights.table", "shape [32, 3]");
  t5([](T5BucketSpec& s) { s.table = MakeWeight({64}, std::vector<double>(64)); }, "weights.table", "shape [64]");
  t5(
      [](T5BucketSpec& s) {
        std::vector<double> values(64);
        values[5] = NAN;
        s.table = MakeWeight({32, 2}, values);
      },
      "weights.table[2, 1]", "nan");
}

TEST(DistanceBiasErrorsTest, KerpleAndSandwich) {
  const auto kerple = [](auto change, const std::string& field, const std::string& given) {
    KerpleSpec spec;
    spec.form = KerpleForm::kLog;
    spec.r1 = spec.r2 = {1, 2};
    change(spec);
    ExpectError(spec, field, given);
  };
  kerple([](KerpleSpec& s) { s.form.reset(); }, "kerple.form", "nothing");
  kerple([](KerpleSpec& s) { s.num_heads = 3; }, "kerple.r1", "2 entries");
  kerple([](KerpleSpec& s) { s.r2 = {1}; }, "kerple.r2", "1 entries");
  kerple([](KerpleSpec& s) { s.r1[1] = -1; }, "kerple.r1[1]", "-1");
  kerple([](KerpleSpec& s) { s.form = KerpleForm::kPower, s.r2[0] = 2.5; }, "kerple.r2[0]", "2.5");
  kerple([](KerpleSpec& s) { s.p = {1, 1}; }, "kerple.p", "2 entries");
  kerple([](KerpleSpec& s) { s.form = KerpleForm::kNemo, s.p = {1, 3}; }, "kerple.p[1]", "3");
  const auto sandwich = [](auto change, const std::string& field, const std::string& given) {
    SandwichSpec spec;
    spec.num_heads = 2;
    change(spec);
    ExpectError(spec, field, given);
  };
  sandwich([](SandwichSpec& s) { s.num_heads = 0; }, "sandwich.num_heads", "0");
  sandwich([](SandwichSpec& s) { s.dim = 7; }, "sandwich.dim", "7");
  sandwich([](SandwichSpec& s) { s.dim = 65538; }, "sandwich.dim", "65538");
  sandwich([](SandwichSpec& s) { s.base = 0; }, "sandwich.base", "0");
}

}  // namespace
}  // namespace phasor
