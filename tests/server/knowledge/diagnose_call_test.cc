// Diagnose over the wire: what a request may hold, and what the answer does.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "server/spec_parser.h"

namespace phasor::server {
namespace {

class DiagnoseCall : public testing::Test {
 protected:
  absl::StatusOr<v1::DiagnoseResponse> Call() { return Diagnose({*backend_, nullptr, limits_}, request_); }
  void Add(std::vector<int64_t> shape, const std::vector<float>& values, v1::TableContent content) {
    v1::Tensor* tensor = request_.mutable_table()->add_tensors();
    tensor->set_dtype(v1::DTYPE_F32);
    tensor->mutable_shape()->Add(shape.begin(), shape.end());
    tensor->set_data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    request_.mutable_table()->set_content(content);
  }
  // INVALID_ARGUMENT about `field`.
  void Refused(const std::string& field) {
    const auto answer = Call();
    ASSERT_FALSE(answer.ok()) << answer->DebugString();
    EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument) << answer.status();
    EXPECT_TRUE(std::string(answer.status().message()).starts_with(field + ":")) << answer.status();
  }
  // An answer without a hypothesis that reproduces the table.
  v1::DiagnoseResponse Unknown() {
    const auto answer = Call();
    EXPECT_TRUE(answer.ok()) << answer.status();
    for (const v1::Hypothesis& hypothesis : answer->hypotheses())
      EXPECT_FALSE(hypothesis.reproduces()) << hypothesis.DebugString();
    return *answer;
  }

  std::unique_ptr<Backend> backend_ = MakeCpuBackend();
  Limits limits_;
  v1::DiagnoseRequest request_;
};

std::vector<float> AlibiRows(int64_t heads, int64_t queries, int64_t keys) {
  std::vector<float> values;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t query = 0; query < queries; ++query) {
      for (int64_t key = 0; key < keys; ++key) {
        values.push_back(std::ldexp(static_cast<float>(key - query - (keys - queries)), -static_cast<int>(head + 1)));
      }
    }
  }
  return values;
}

// A fault that is known says more than that any numbers could be a learned bias.
TEST_F(DiagnoseCall, AFaultCountsMoreThanWhatHoldsAnyNumbers) {
  std::vector<float> values;
  for (int row = 0; row < 256; ++row) {
    const double position = 128 * std::nearbyint((20000 + row) / 128.0);  // as bfloat16 has them
    for (int half = 0; half < 2; ++half) {
      for (int pair = 0; pair < 16; ++pair) {
        const double angle = position * std::pow(10000.0, -pair / 16.0);
        values.push_back(static_cast<float>(half == 0 ? std::cos(angle) : std::sin(angle)));
      }
    }
  }
  Add({256, 32}, values, v1::TABLE_CONTENT_UNSPECIFIED);
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GE(answer->faults_size(), 1) << answer->DebugString();
  EXPECT_EQ(answer->faults(0).name(), "positions_in_bf16");
  for (const v1::Hypothesis& hypothesis : answer->hypotheses()) EXPECT_NE(hypothesis.scheme(), "t5_bucket");
}

TEST_F(DiagnoseCall, AnswersWithASpecThatMakesTheNumbers) {
  Add({8, 10, 20}, AlibiRows(8, 10, 20), v1::TABLE_CONTENT_BIAS);
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GE(answer->hypotheses_size(), 1);
  const v1::Hypothesis& best = answer->hypotheses(0);
  EXPECT_EQ(best.scheme(), "alibi");
  EXPECT_TRUE(best.reproduces());
  EXPECT_EQ(best.max_ulps(), 0);
  EXPECT_EQ(best.content(), v1::TABLE_CONTENT_BIAS);
  EXPECT_EQ(best.spec().alibi().num_heads(), 8);
  EXPECT_TRUE(CanonicalFromProto(best.spec()).ok());
  EXPECT_EQ(answer->faults_size(), 0);
  EXPECT_THAT(answer->verdict(), testing::HasSubstr("ALiBi"));
}

TEST_F(DiagnoseCall, FaultsComeWithTheirCards) {
  std::vector<float> values = AlibiRows(8, 4, 30);
  for (float& value : values) value = -value;
  Add({8, 4, 30}, values, v1::TABLE_CONTENT_BIAS);
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GE(answer->faults_size(), 1);
  const v1::Fault& fault = answer->faults(0);
  EXPECT_EQ(fault.name(), "alibi_sign_flipped");
  for (const std::string& text : {fault.symptom(), fault.cause(), fault.check(), fault.fix()}) EXPECT_FALSE(text.empty());
  EXPECT_THAT(answer->verdict(), testing::HasSubstr("alibi_sign_flipped"));
}

TEST_F(DiagnoseCall, SaysWhatIsWrongWithARequest) {
  Refused("subject");
  request_.mutable_table();
  Refused("table.tensors");
  Add({0}, {}, v1::TABLE_CONTENT_BIAS);
  Refused("table.tensors[0].shape");
  request_.Clear();
  Add({4}, {1, 2, 3}, v1::TABLE_CONTENT_BIAS);
  EXPECT_FALSE(Call().ok());
  request_.Clear();
  Add({2, 2}, {1, 2, 3, 4}, v1::TABLE_CONTENT_SLOPES);
  Refused("table.tensors[0].shape");
  request_.Clear();
  Add({2, 2, 1, 1}, {1, 2, 3, 4}, v1::TABLE_CONTENT_BIAS);
  Refused("table.tensors[0].shape");
  request_.Clear();
  Add({4}, {1, 2, 3, 4}, v1::TABLE_CONTENT_COS_AND_SIN);
  Refused("table.tensors");
  Add({2, 2}, {1, 2, 3, 4}, v1::TABLE_CONTENT_COS_AND_SIN);
  Refused("table.tensors[1]");
  request_.Clear();
  Add({2}, {1, 2}, v1::TABLE_CONTENT_BIAS);
  request_.mutable_table()->mutable_tensors(0)->set_dtype(v1::DTYPE_I64);
  EXPECT_FALSE(Call().ok());
  request_.mutable_table()->mutable_tensors(0)->set_dtype(v1::DTYPE_F32);
  request_.mutable_expected()->mutable_alibi();
  Refused("expected.alibi.num_heads");
  request_.clear_expected();
  request_.set_max_hypotheses(21);
  Refused("max_hypotheses");
  request_.set_max_hypotheses(1);
  request_.set_sequence_length(0);
  Refused("sequence_length");
  request_.clear_sequence_length();
  request_.mutable_table()->set_content(static_cast<v1::TableContent>(99));
  Refused("table.content");
}

TEST_F(DiagnoseCall, OddTablesGetAnHonestAnswer) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, 3.5f, nan, infinity, -infinity, 3e38f, -3e38f, 1e-45f}) {
    for (const auto content : {v1::TABLE_CONTENT_BIAS, v1::TABLE_CONTENT_BIAS_VECTOR, v1::TABLE_CONTENT_SLOPES}) {
      for (const int64_t count : {1, 2, 40}) {
        request_.Clear();
        Add({count}, std::vector<float>(static_cast<size_t>(count), value), content);
        const auto answer = Call();
        ASSERT_TRUE(answer.ok()) << value << answer.status();
        EXPECT_FALSE(answer->verdict().empty());
        if (value != value) {
          EXPECT_EQ(answer->faults(0).name(), "bias_not_finite");
        }
      }
    }
  }
  request_.Clear();
  Add({1, 30}, std::vector<float>(30, 0), v1::TABLE_CONTENT_BIAS);
  const v1::DiagnoseResponse zero = Unknown();
  ASSERT_EQ(zero.faults_size(), 1);
  EXPECT_EQ(zero.faults(0).name(), "bias_without_distance");
  // Noise.
  request_.Clear();
  std::vector<float> noise(64 * 64);
  uint32_t state = 1;
  for (float& value : noise) value = static_cast<float>((state = state * 1664525 + 1013904223) >> 8) / 1e6f;
  Add({64, 64}, noise, v1::TABLE_CONTENT_BIAS);
  EXPECT_THAT(Unknown().verdict(), testing::HasSubstr("Unknown"));
}

TEST_F(DiagnoseCall, LargestTablesAnswer) {
  const int64_t keys = 2048;
  Add({2, keys / 2, keys}, AlibiRows(2, keys / 2, keys), v1::TABLE_CONTENT_BIAS);
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->hypotheses(0).scheme(), "alibi");
  request_.Clear();
  Add({keys + 1, keys}, std::vector<float>(static_cast<size_t>((keys + 1) * keys)), v1::TABLE_CONTENT_BIAS);
  Refused("table.tensors[0].shape");
}

TEST_F(DiagnoseCall, BucketsComeWithTheirTable) {
  std::vector<float> values;
  const auto row = [](int64_t n) {  // num_buckets 8, max_distance 16, causal: starts 0 1 2 3 4 6 8 12
    constexpr int64_t kStarts[] = {0, 1, 2, 3, 4, 6, 8, 12};
    int64_t bucket = 0;
    while (bucket < 7 && n >= kStarts[bucket + 1]) ++bucket;
    return static_cast<float>((bucket * 5) % 8) + 0.25f;
  };
  for (int64_t query = 0; query < 40; ++query) {
    for (int64_t key = 0; key < 40; ++key) values.push_back(row(std::max<int64_t>(query - key, 0)));
  }
  Add({40, 40}, values, v1::TABLE_CONTENT_BIAS);
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_TRUE(answer->hypotheses_size() > 0 && answer->hypotheses(0).reproduces()) << answer->DebugString();
  const v1::EncodingSpec& spec = answer->hypotheses(0).spec();
  EXPECT_EQ(spec.t5_bucket().num_buckets(), 8);
  EXPECT_EQ(spec.t5_bucket().max_distance(), 16);
  ASSERT_EQ(spec.weights_size(), 1);
  EXPECT_EQ(spec.weights(0).tensor().data().size(), 8 * sizeof(double));
}

TEST_F(DiagnoseCall, SymptomsByNameAndWords) {
  request_.set_symptom("Worse beyond N tokens");
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->symptom(), "worse_beyond_length");
  EXPECT_GE(answer->checks_size(), 3);
  request_.set_symptom("list");
  EXPECT_GE(Call()->observations_size(), 17);
  request_.set_symptom("my loss has spikes");
  Refused("symptom");
  EXPECT_THAT(std::string(Call().status().message()), testing::HasSubstr("perhaps loss_spikes_at_start"));
  request_.set_symptom("");
  Refused("symptom");
}

// Numbers that depend on the index alone, about normal.
std::vector<float> Noise(size_t count, uint64_t state = 88172645463325252u) {
  std::vector<float> values(count);
  for (float& value : values) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) {
      state ^= state << 13, state ^= state >> 7, state ^= state << 17;
      sum += static_cast<double>(static_cast<int64_t>(state)) * 0x1p-63;
    }
    value = static_cast<float>(sum);
  }
  return values;
}

TEST_F(DiagnoseCall, NoiseIsUnknownAndNotAnyBias) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{512, 64}, {8, 300}, {2, 9}}) {
    request_.Clear();
    Add(shape, Noise(static_cast<size_t>(shape[0] * shape[1])), v1::TABLE_CONTENT_UNSPECIFIED);
    const v1::DiagnoseResponse answer = Unknown();
    EXPECT_THAT(answer.verdict(), testing::StartsWith("Unknown")) << shape[0];
    EXPECT_LT(answer.ByteSizeLong(), 100000u) << "no table comes back as somebody's weights";
  }
}

TEST_F(DiagnoseCall, ATableThatIsNearlyRopeHasItAsTheNearest) {
  std::vector<float> values = Noise(512 * 32);
  for (size_t i = 0; i < values.size(); ++i) {
    const double angle = static_cast<double>(i / 32) * std::pow(10000.0, -static_cast<double>(i % 32) / 32);
    values[i] = static_cast<float>(std::cos(angle) + 1e-4 * values[i]);
  }
  Add({512, 32}, values, v1::TABLE_CONTENT_UNSPECIFIED);
  const v1::DiagnoseResponse answer = Unknown();
  ASSERT_GE(answer.hypotheses_size(), 1);
  EXPECT_THAT(answer.hypotheses(0).scheme(), testing::StartsWith("rope"));
  EXPECT_THAT(answer.verdict(), testing::StartsWith("Unknown: the nearest is RoPE"));
}

TEST_F(DiagnoseCall, GivenFrequenciesAreNoExplanation) {
  std::vector<float> values = Noise(48);
  for (float& value : values) value = std::fabs(value);
  Add({48}, values, v1::TABLE_CONTENT_UNSPECIFIED);
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->verdict(), testing::StartsWith("Unknown"));
  for (const v1::Hypothesis& hypothesis : answer->hypotheses()) EXPECT_LE(hypothesis.confidence(), 0.3);
}

TEST_F(DiagnoseCall, LongVectorsAreNotSearchedAndCancelledOnesEnd) {
  std::vector<float> values = Noise(200000);
  for (float& value : values) value = std::fabs(value);
  Add({200000}, values, v1::TABLE_CONTENT_UNSPECIFIED);
  const auto answer = Call();
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->verdict(), testing::StartsWith("Unknown"));
  EXPECT_LT(answer->ByteSizeLong(), 100000u);
  request_.Clear();
  values.resize(4096);
  Add({4096}, values, v1::TABLE_CONTENT_INV_FREQ);
  const CancelFlag cancel{true};
  EXPECT_EQ(Diagnose({*backend_, &cancel, limits_}, request_).status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace phasor::server
