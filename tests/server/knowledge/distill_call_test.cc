// Distill as callers meet it: what is answered, and bad input field by field.
#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "server/spec_parser.h"
#include "server/spec_weights.h"
#include "tests/server/status_details.h"

namespace phasor::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

v1::DistillRequest FromText(const std::string& text) {
  v1::DistillRequest request;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &request)) << text;
  return request;
}

absl::StatusOr<DistillJob> Prepared(const v1::DistillRequest& request) {
  const auto backend = MakeCpuBackend();
  const Limits limits;
  return PrepareDistill({*backend, nullptr, limits}, request);
}

v1::DistilledFunction Fitted(const DistillJob& job, DistillForm form) {
  const auto backend = MakeCpuBackend();
  const Limits limits;
  auto fitted = FitForm({*backend, nullptr, limits}, job, form, [](const DistillProgress&) {});
  EXPECT_TRUE(fitted.ok()) << fitted.status();
  return *std::move(fitted);
}

void ExpectRefused(const v1::DistillRequest& request, const std::string& field, const std::string& said = "") {
  const absl::Status status = Prepared(request).status();
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << " for " << request.ShortDebugString();
  EXPECT_EQ(MetadataOf(ToRpcStatus(status), "field"), field) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(said));
}
void ExpectRefused(const std::string& text, const std::string& field, const std::string& said = "") {
  ExpectRefused(FromText(text), field, said);
}

constexpr char kRope[] = "source { spec { rope { head_dim: 8 } } } ";

v1::DistillRequest TableRequest(const std::vector<int64_t>& shape, const std::vector<double>& values) {
  v1::DistillRequest request;
  v1::Tensor& tensor = *request.mutable_source()->mutable_table()->add_tensors();
  tensor.set_dtype(v1::DTYPE_F64);
  tensor.mutable_shape()->Add(shape.begin(), shape.end());
  tensor.mutable_data()->resize(8 * values.size());
  std::memcpy(tensor.mutable_data()->data(), values.data(), 8 * values.size());
  return request;
}

TEST(DistillCall, DefaultsAreTheOnesOfTheContract) {
  const auto job = Prepared(FromText(kRope));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->forms, ElementsAre(DistillForm::kPerceptron, DistillForm::kCosineSeries));
  EXPECT_EQ(job->samples.first, 0);
  EXPECT_EQ(job->samples.values.rows, 512);
  EXPECT_EQ(job->samples.values.columns, 8);
  EXPECT_EQ(job->samples.beyond.rows, 512);
  EXPECT_EQ(job->options.hidden, 64);
  EXPECT_EQ(job->options.steps, 2000);
  EXPECT_EQ(job->options.terms, 32);
  EXPECT_GT(job->bytes, 512 * 64 * 8);
}

// Defaults never lead beyond the limits.
TEST(DistillCall, DefaultsAreCutToWhatTheSizeAllows) {
  const auto few = Prepared(FromText(std::string(kRope) + "count: 5"));
  ASSERT_TRUE(few.ok()) << few.status();
  EXPECT_EQ(few->options.terms, 5);
  const auto many = Prepared(FromText("source { spec { alibi { num_heads: 32 } } } count: 65536"));
  ASSERT_TRUE(many.ok()) << many.status();
  EXPECT_EQ(many->options.hidden, 64);
  EXPECT_LT(many->options.steps, 2000);
  EXPECT_GE(many->options.steps, 10);
  EXPECT_LE(PerceptronWork(65536, 32, 64, many->options.steps), static_cast<double>(kMaxDistillWork));
  EXPECT_GT(PerceptronWork(65536, 32, 64, many->options.steps + 1), static_cast<double>(kMaxDistillWork));
}

TEST(DistillCall, ATableIsRowsUnlessItSaysOtherwise) {
  std::vector<double> values;
  for (int i = 0; i < 40 * 3; ++i) values.push_back(1.0 / (i + 1));
  v1::DistillRequest request = TableRequest({40, 3}, values);
  request.set_terms(6);
  const auto job = Prepared(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->samples.values.rows, 40);
  EXPECT_EQ(job->samples.beyond.rows, 0);
  EXPECT_EQ(job->samples.values.values, values);

  const v1::DistilledFunction result = Fitted(*job, DistillForm::kCosineSeries);
  EXPECT_EQ(result.form(), v1::DISTILL_FORM_COSINE_SERIES);
  EXPECT_EQ(result.parameters(), 18);
  EXPECT_EQ(result.table_numbers(), 120);
  EXPECT_EQ(result.steps(), 0);
  EXPECT_EQ(result.max_error_by_column_size(), 3);
  EXPECT_EQ(result.max_error_by_column(static_cast<int>(result.max_column())), result.max_error());
  EXPECT_FALSE(result.has_max_error_beyond());
  EXPECT_FALSE(result.has_bias_spec());
  EXPECT_FALSE(result.closed_form_is_better());
  EXPECT_FALSE(result.verdict().empty());
  EXPECT_EQ(result.onnx().substr(0, 2), "\x08\x08");
  EXPECT_THAT(result.safetensors(), HasSubstr("\"w1\":{\"dtype\":\"F64\",\"shape\":[3,6]"));
  // The spec can be sent as it is.
  const InlineWeightReader weights;
  const auto spec = CanonicalFromProto(result.spec(), &weights);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(std::get<DistilledSpec>(spec->spec).cosine_terms, 6);
  EXPECT_EQ(std::get<DistilledSpec>(spec->spec).num_positions, 40);
}

TEST(DistillCall, ABiasComesAsABiasToo) {
  const auto job =
      Prepared(FromText("source { spec { kerple { form: KERPLE_FORM_LOG r1: 1 r1: 0.5 r2: 0.3 r2: 2 } } } count: 50 "
                        "hidden: 6 steps: 5 form: DISTILL_FORM_PERCEPTRON"));
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(job->forms, ElementsAre(DistillForm::kPerceptron));
  const v1::DistilledFunction result = Fitted(*job, DistillForm::kPerceptron);
  EXPECT_TRUE(result.closed_form_is_better());
  EXPECT_LE(result.max_position(), 0);
  const InlineWeightReader weights;
  const auto spec = CanonicalFromProto(result.bias_spec(), &weights);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(std::holds_alternative<DynamicPositionBiasSpec>(spec->spec));
}

TEST(DistillCall, RefusesNumbersOutOfRange) {
  ExpectRefused("", "source", "nothing");
  for (const auto& [field, given] : {std::pair("count", "1"),
                                     {"count", "-1"},
                                     {"count", "65537"},
                                     {"hidden", "-1"},
                                     {"hidden", "513"},
                                     {"terms", "-3"},
                                     {"terms", "4097"},
                                     {"steps", "-1"},
                                     {"steps", "100001"},
                                     {"first_position", "-1"},
                                     {"sequence_length", "0"},
                                     {"first_position", "2147483648"},
                                     {"tolerance", "-1e-9"},
                                     {"tolerance", "nan"},
                                     {"tolerance", "inf"}}) {
    ExpectRefused(std::string(kRope) + field + ": " + given, field);
  }
  ExpectRefused(std::string(kRope) + "form: 7", "form");
  ExpectRefused(std::string(kRope) + "count: 20 terms: 21", "terms", "1 … 20");
  ExpectRefused(std::string(kRope) + "first_position: 2147483647", "first_position");
  ExpectRefused(std::string(kRope) + "count: 65536 hidden: 128", "hidden", "1 … 64");
  ExpectRefused(std::string(kRope) + "count: 8192 hidden: 512 steps: 100000", "steps", "8192 positions");
  ExpectRefused("source { spec { rope { head_dim: 64 } } } count: 65536 terms: 4096", "terms");
}

TEST(DistillCall, RefusesWhatHasNoNumbersOfOnePosition) {
  ExpectRefused("source { spec { } }", "source.spec");
  ExpectRefused("source { spec { rope { head_dim: 7 } } }", "source.spec.rope.head_dim");
  ExpectRefused("source { spec { pope { head_dim: 8 } } }", "source.spec", "a polar rotation");
  const auto weight = [](const char* name, const char* shape, int count) {
    std::string data;
    for (int i = 0; i < count; ++i) data += "\\0\\0\\200\\077";  // 1
    return std::string("weights { name: \"") + name + "\" tensor { dtype: DTYPE_F32 shape: " + shape + " data: \"" + data +
           "\" } } ";
  };
  ExpectRefused("source { spec { fope { head_dim: 4 training_length: 100 } " + weight("cos_coef", "[2, 1, 1]", 2) +
                    weight("sin_coef", "[2, 1, 1]", 2) + "} }",
                "source.spec", "2 heads");
  ExpectRefused("source { spec { fire { } " + weight("w1", "[1, 1]", 1) + weight("b1", "[1]", 1) +
                    weight("w2", "[1, 1]", 1) + weight("b2", "[1]", 1) + "} }",
                "source.spec", "more than the distance");
  ExpectRefused("source { spec { window_bias { window_height: 1 window_width: 2 } " + weight("table", "[3, 1]", 3) + "} }",
                "source.spec", "a bias over a window");
  ExpectRefused("source { spec { learned { num_positions: 8 dim: 2 } } }", "source.spec.weights");
  ExpectRefused("source { spec { t5_bucket { num_buckets: 32 max_distance: 128 num_heads: 2 } } }", "source.spec.weights");
  ExpectRefused("source { spec { transformer_xl { dim: 8 } } }", "source.spec.weights");
  ExpectRefused("source { config_json: '{\"model_type\": \"gpt2\", \"n_positions\": 8, \"n_embd\": 4, \"n_head\": 1}' }",
                "source.config_json.weights", "learned table");
  ExpectRefused("source { spec { rope { head_dim: 8 dynamic_ntk { factor: 2 max_position: 64 } } } }", "sequence_length");
}

// A batch axis or coordinates would be lost silently.
TEST(DistillCall, RefusesSeveralCoordinatesAndBatchRows) {
  ExpectRefused("source { spec { rope { head_dim: 16 axes { sections: 4 sections: 4 } } } }", "source.spec.rope.axes",
                "one coordinate per position");
  ExpectRefused("source { spec { alibi { num_heads: 2 batch_slopes: [0.5, 0.25, 1, 2] } } }",
                "source.spec.alibi.batch_slopes", "4 slopes of batch rows");
}

TEST(DistillCall, RefusesMoreColumnsThanALayerHasOutputs) {
  const auto zeros = [](int64_t columns) { return TableRequest({2, columns}, std::vector<double>(2 * columns)); };
  EXPECT_TRUE(Prepared(zeros(65536)).ok());
  ExpectRefused(zeros(65537), "source.table", "given 65537 columns; allowed: up to 65536");
  ExpectRefused("source { spec { sinusoidal { dim: 65538 } } } count: 4", "source.spec", "65538 columns");
}

TEST(DistillCall, OneColumnIsOne) {
  v1::DistillRequest request = TableRequest({4, 1}, {1, 2, 3, 4});
  request.set_count(5);
  ExpectRefused(request, "count", "of 1 column from");
}

TEST(DistillCall, AContentThatIsNoneIsToldWhichThereAre) {
  v1::DistillRequest request = TableRequest({4, 1}, {1, 2, 3, 4});
  request.mutable_source()->mutable_table()->set_content(static_cast<v1::TableContent>(77));
  ExpectRefused(request, "source.table.content", "given 77; allowed: TABLE_CONTENT_");
}

TEST(DistillCall, RefusesTablesThatCannotBeFitted) {
  ExpectRefused(TableRequest({4, 2}, {1, 2, 3, 4, std::nan(""), 6, 7, 8}), "source.table.tensors[0].data");
  ExpectRefused(TableRequest({2, 2}, {1, 2, 3, std::numeric_limits<double>::infinity()}), "source.table.tensors[0].data");
  ExpectRefused(TableRequest({1, 4}, {1, 2, 3, 4}), "source.table", "1 row");
  ExpectRefused(TableRequest({2, 2, 2}, std::vector<double>(8, 1.0)), "source.table.tensors[0].shape");
  v1::DistillRequest short_one = TableRequest({4, 2}, std::vector<double>(8, 1.0));
  v1::Tensor& tensor = *short_one.mutable_source()->mutable_table()->mutable_tensors(0);
  tensor.set_shape(0, int64_t{1} << 37);  // terabytes, of which there are 64 bytes
  ExpectRefused(short_one, "source.table.tensors[0].shape");
  v1::DistillRequest beyond = TableRequest({4, 2}, std::vector<double>(8, 1.0));
  beyond.set_count(5);
  ExpectRefused(beyond, "count", "2 … 4");
  beyond.set_count(2);
  beyond.set_first_position(3);
  ExpectRefused(beyond, "first_position", "0 … 2");
}

TEST(DistillCall, CancelledIsCancelled) {
  const auto job = Prepared(FromText(kRope));
  ASSERT_TRUE(job.ok());
  const auto backend = MakeCpuBackend();
  const Limits limits;
  const CancelFlag cancel{true};
  const auto fitted = FitForm({*backend, &cancel, limits}, *job, DistillForm::kPerceptron, [](const DistillProgress&) {});
  EXPECT_EQ(fitted.status().code(), absl::StatusCode::kCancelled);
}

}  // namespace
}  // namespace phasor::server
