// CompareSpecs and Plot as callers meet them: what is answered, and bad input field by field.
#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/grpc_status.h"
#include "server/knowledge/calls.h"
#include "tests/server/status_details.h"

namespace phasor::server {
namespace {

using testing::HasSubstr;

template <typename M>
M FromText(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

absl::StatusOr<v1::CompareSpecsResponse> Compared(const std::string& text) {
  const auto backend = MakeCpuBackend();
  const Limits limits;
  return CompareSpecs({*backend, nullptr, limits}, FromText<v1::CompareSpecsRequest>(text));
}

absl::StatusOr<v1::PlotResponse> Plotted(const std::string& text) {
  const auto backend = MakeCpuBackend();
  const Limits limits;
  return Plot({*backend, nullptr, limits}, FromText<v1::PlotRequest>(text));
}

void ExpectField(const absl::Status& status, const std::string& field, const std::string& text) {
  ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status << " for " << text;
  EXPECT_EQ(MetadataOf(ToRpcStatus(status), "field"), field) << status << " for " << text;
}

constexpr char kRope[] = "{ spec { rope { head_dim: 8 } } }";

TEST(CompareCall, SaysWhichFieldsDiffer) {
  const auto answer = Compared(
      "a { spec { rope { head_dim: 8 } } } b { spec { rope { head_dim: 8 base: 5e5 linear { factor: 4 } } } compat_f32: "
      "true }");
  ASSERT_TRUE(answer.ok()) << answer.status();
  std::string fields;
  for (const auto& field : answer->fields()) fields += field.field() + ": " + field.a() + " > " + field.b() + "\n";
  EXPECT_EQ(fields,
            "rope.base: 10000 > 500000\nrope.default_schedule: {} > \nrope.linear.factor:  > 4\ncompat_f32: false > true\n");
  EXPECT_EQ(answer->by_column_size(), 4);
  EXPECT_EQ(answer->first_differences_size(), 3);
  EXPECT_EQ(answer->first_differences(0).dtype(), v1::DTYPE_F32);
  EXPECT_TRUE(answer->has_scores());
  EXPECT_FALSE(answer->has_max_ulps());
}

TEST(CompareCall, DefaultsWrittenOutAreNoDifference) {
  const auto answer = Compared(
      "a { spec { rope { head_dim: 8 } } } b { spec { rope { head_dim: 8 base: 10000 pairing: PAIRING_HALF_SPLIT } } }");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_TRUE(answer->same_spec() && answer->same_bits());
  EXPECT_EQ(answer->fields_size(), 0);
  EXPECT_EQ(answer->transformation().kind(), "identical");
}

TEST(CompareCall, ConfigurationsAndTables) {
  const std::string config = "config_json: '{\"model_type\": \"llama\", \"hidden_size\": 8, \"num_attention_heads\": 1}'";
  const auto same = Compared("a { " + config + " } b " + kRope);
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_TRUE(same->same_spec());
  const auto table =
      Compared("a " + std::string(kRope) +
               " b { table { content: TABLE_CONTENT_INV_FREQ tensors { dtype: DTYPE_F32 shape: 4 data: '" +
               "\\x00\\x00\\x80\\x3f\\xcd\\xcc\\xcc\\x3d\\x0a\\xd7\\x23\\x3c\\x6f\\x12\\x83\\x3a" + "' } } }");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->fields_size(), 0);
  EXPECT_GT(table->max_difference(), 0);  // 0.1 and its like as float32
  EXPECT_LT(table->max_difference(), 1e-4);
}

TEST(CompareCall, LearnedEncodingsComeWithTheirWeights) {
  // One frequency turns within 8 positions; its cosines and sines times 1 and 2 (f64).
  const auto fope = [](const std::string& number) {
    const std::string tensor =
        "tensor { dtype: DTYPE_F64 shape: [1, 1, 1] data: '\\x00\\x00\\x00\\x00\\x00\\x00" + number + "' }";
    return "{ spec { fope { head_dim: 4 training_length: 8 } weights { name: \"cos_coef\" " + tensor +
           " } weights { name: \"sin_coef\" " + tensor + " } } }";
  };
  const auto answer = Compared("a " + fope("\\xf0\\x3f") + " b " + fope("\\x00\\x40") + " count: 4");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->max_difference(), 1);  // cos 0
  EXPECT_EQ(answer->max_column(), 0);
  EXPECT_EQ(answer->by_column_size(), 2);
  const auto pope = Compared("a { spec { pope { head_dim: 4 } } } b { spec { pope { head_dim: 4 base: 100 } } } count: 2");
  ASSERT_TRUE(pope.ok()) << pope.status();
  EXPECT_EQ(pope->by_column_size(), 8);
  // Channel 1: 10000^(−1/4) = 0.1 against 100^(−1/4).
  EXPECT_NEAR(pope->by_column(1).max(), std::sin(std::pow(100, -0.25)) - std::sin(0.1), 1e-12);
  const auto refused = Compared(
      "a { spec { cope { max_positions: 2 } weights { name: \"e\" tensor { dtype: DTYPE_F64 shape: [1, 2] data: "
      "'\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00' } } } } b " +
      std::string(kRope));
  ExpectField(refused.status(), "a.spec", "a term");
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("phasor scores"));
}

TEST(CompareCall, BadInput) {
  const std::string rope = kRope;
  const std::string nan =
      "{ table { tensors { dtype: DTYPE_F32 shape: [1, 2] data: '\\x00\\x00\\xc0\\x7f\\x00\\x00\\x00\\x00' } } }";
  const struct {
    std::string text, field;
  } cases[] = {
      {"", "a"},
      {"a " + rope, "b"},
      {"a {} b " + rope, "a"},
      {"a " + rope + " b { spec {} }", "b.spec"},
      {"a " + rope + " b { spec { rope { head_dim: 7 } } }", "b.spec.rope.head_dim"},
      {"a " + rope + " b { spec { rope { head_dim: 16 } } }", "b"},
      {"a " + rope + " b { spec { alibi { num_heads: 4 } } }", "b"},
      {"a " + rope + " b { spec { t5_bucket { num_heads: 4 } } }", "b.spec.weights"},
      {"a " + rope + " b { spec { learned { num_positions: 4 dim: 4 } } }", "b.spec.weights"},
      {"a " + rope + " b { spec { rope { head_dim: 8 dynamic_ntk { factor: 2 max_position: 16 } } } }", "sequence_length"},
      {"a " + rope + " b " + rope + " count: 65537", "count"},
      {"a " + rope + " b " + rope + " count: -1", "count"},
      {"a " + rope + " b " + rope + " first_position: 2147483648", "first_position"},
      {"a " + rope + " b " + rope + " sequence_length: 0", "sequence_length"},
      {"a " + rope + " b { spec { rope { head_dim: 8 } } layer_type: \"x\" }", "b.layer_type"},
      {"a { config_json: '{' } b " + rope, "a.config_json"},
      {"a " + nan + " b { spec { sinusoidal { dim: 2 } } }", "a.table.tensors[0].data"},
      {"a { spec { sinusoidal { dim: 2 } } } b { table {} }", "b.table.tensors"},
      {"a { spec { rope { head_dim: 65536 } } } b { spec { rope { head_dim: 65536 } } } count: 65536", "count"},
  };
  for (const auto& [text, field] : cases) ExpectField(Compared(text).status(), field, text);
}

TEST(PlotCall, AnswersAPicture) {
  const auto answer =
      Plotted("kind: PLOT_KIND_TABLE subject " + std::string(kRope) + " title: \"<mine>\" width: 400 count: 16");
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->media_type(), "image/svg+xml");
  EXPECT_THAT(answer->image(), HasSubstr("width=\"400\""));
  EXPECT_THAT(answer->image(), HasSubstr("<title id=\"title\">&lt;mine&gt;</title>"));
  EXPECT_THAT(answer->description(), HasSubstr("positions 0 to 15"));
  const auto difference = Plotted("kind: PLOT_KIND_DIFFERENCE subject " + std::string(kRope) +
                                  " other { spec { rope { head_dim: 8 base: 5e5 } } }");
  ASSERT_TRUE(difference.ok()) << difference.status();
}

TEST(PlotCall, DrawsChannelsOfPope) {
  const std::string pope = " subject { spec { pope { head_dim: 4 } } } count: 16";
  const auto waves = Plotted("kind: PLOT_KIND_WAVELENGTHS" + pope);
  ASSERT_TRUE(waves.ok()) << waves.status();
  EXPECT_THAT(waves->description(), HasSubstr("each of the 4 channels of pope"));
  const auto table = Plotted("kind: PLOT_KIND_TABLE" + pope);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->description(), HasSubstr("pope, 8 channels: positions 0 to 15 from top to bottom, 16 columns"));
  ExpectField(Plotted("kind: PLOT_KIND_SCORE_DECAY" + pope).status(), "subject", "a polar rotation");
}

TEST(PlotCall, BadInput) {
  const std::string subject = " subject " + std::string(kRope);
  const struct {
    std::string text, field;
  } cases[] = {
      {subject, "kind"},
      {"kind: PLOT_KIND_TABLE", "subject"},
      {"kind: PLOT_KIND_DIFFERENCE" + subject, "other"},
      {"kind: PLOT_KIND_TABLE other " + std::string(kRope) + subject, "other"},
      {"kind: PLOT_KIND_BIAS" + subject, "subject"},
      {"kind: PLOT_KIND_TABLE width: 100" + subject, "width"},
      {"kind: PLOT_KIND_TABLE width: 5000" + subject, "width"},
      {"kind: PLOT_KIND_TABLE count: 65537" + subject, "count"},
      {"kind: PLOT_KIND_WAVELENGTHS trained_length: -1" + subject, "trained_length"},
      {"kind: PLOT_KIND_TABLE title: \"" + std::string(201, 'x') + "\"" + subject, "title"},
      {"kind: PLOT_KIND_WAVELENGTHS subject { spec { alibi { num_heads: 4 } } }", "subject"},
  };
  for (const auto& [text, field] : cases) ExpectField(Plotted(text).status(), field, text);
}

}  // namespace
}  // namespace phasor::server
