// Scores of rotated queries and keys over a socket: those of the tensors that Apply rotates, bit for bit. And where errors
// of specs beside the item's own are said to be.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

template <typename M>
M FromText(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

void SetTensor(const std::vector<int64_t>& shape, int seed, v1::Tensor* tensor) {
  int64_t count = 1;
  for (const int64_t extent : shape) {
    tensor->add_shape(extent);
    count *= extent;
  }
  std::vector<float> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<float>((i * 37 + seed * 11) % 64 - 32) / 16);
  tensor->set_dtype(v1::DTYPE_F32);
  tensor->set_data(numbers.data(), numbers.size() * sizeof(float));
}

void AddWeight(const std::string& name, const std::vector<int64_t>& shape, int seed, v1::EncodingSpec* spec) {
  v1::Weight* weight = spec->add_weights();
  weight->set_name(name);
  SetTensor(shape, seed, weight->mutable_tensor());
}

v1::Tensor RotatedBy(TestServer& server, const v1::ScoresItem& item, bool is_query) {
  v1::ApplyRequest request;
  v1::ApplyItem* apply = request.add_items();
  *apply->mutable_spec() = item.rotation();
  if (item.has_sequence_length()) apply->set_sequence_length(item.sequence_length());
  *apply->mutable_positions() = is_query ? item.query_positions() : item.key_positions();
  apply->add_roles(is_query ? v1::TENSOR_ROLE_QUERY : v1::TENSOR_ROLE_KEY);
  *apply->add_tensors() = is_query ? item.q() : item.k();
  grpc::ClientContext context;
  v1::ApplyResponse response;
  EXPECT_TRUE(server.position().Apply(&context, request, &response).ok());
  if (response.results_size() != 1 || response.results(0).tensors_size() != 1) {
    ADD_FAILURE() << response.ShortDebugString();
    return {};
  }
  return response.results(0).tensors(0);
}

v1::ScoresResponse Call(TestServer& server, const v1::ScoresRequest& request) {
  grpc::ClientContext context;
  v1::ScoresResponse response;
  EXPECT_TRUE(server.position().Scores(&context, request, &response).ok());
  return response;
}

v1::ScoresResult One(TestServer& server, const v1::ScoresItem& item) {
  v1::ScoresRequest request;
  *request.add_items() = item;
  const v1::ScoresResponse response = Call(server, request);
  return response.results_size() == 1 ? response.results(0) : v1::ScoresResult();
}

std::string FieldOf(const google::rpc::Status& status) {
  for (const auto& any : status.details()) {
    google::rpc::BadRequest bad;
    if (any.UnpackTo(&bad) && bad.field_violations_size() > 0) return bad.field_violations(0).field();
  }
  return status.message();
}

// Five queries, seven keys; four heads of eight channels over two.
v1::ScoresItem ItemOf(const std::string& text) {
  v1::ScoresItem item = FromText<v1::ScoresItem>(text);
  SetTensor({2, 5, 4, 8}, 1, item.mutable_q());
  SetTensor({2, 7, 2, 8}, 2, item.mutable_k());
  return item;
}

std::string MultiAxis(int tokens, const char* field) {
  std::string text = absl::StrCat(field, " { multi_axis {");
  for (int axis = 0; axis < 3; ++axis) {
    std::string bytes;
    for (int i = 0; i < tokens; ++i) bytes += absl::StrCat("\\", (i * (axis + 1)) % 8, "\\0\\0\\0");
    absl::StrAppend(&text, " axes { dtype: DTYPE_I32 shape: ", tokens, " data: \"", bytes, "\" }");
  }
  return text + " } } ";
}

std::vector<v1::ScoresItem> Items() {
  const std::string ids =
      "query_positions { list { ids: [2, 3, 4, 5, 9] } } key_positions { list { ids: [0, 1, 2, 3, 4, 5, 9] } } ";
  std::vector<v1::ScoresItem> items;
  items.push_back(ItemOf(ids + "rotation { rope { head_dim: 8 rotary_dim: 4 first_channel: 2 attention_factor: 1.5 } }"));
  items.push_back(ItemOf(ids + "rotation { rope { head_dim: 8 xpos { scale_base: 64 } } } sequence_length: 12"));
  items.push_back(ItemOf(MultiAxis(5, "query_positions") + MultiAxis(7, "key_positions") +
                         "rotation { rope { head_dim: 8 axes { sections: [2, 1, 1] } } }"));
  items.push_back(
      ItemOf("query_positions { remapped { start: 9 side: ATTENTION_SIDE_QUERY rerope { window: 4 leaky_step: 2 } } } "
             "key_positions { remapped { side: ATTENTION_SIDE_KEY rerope { window: 4 leaky_step: 2 } } } "
             "rotation { rope { head_dim: 8 pairing: PAIRING_INTERLEAVED } }"));
  items.push_back(ItemOf(ids + "rotation { pope { head_dim: 8 } } biases { alibi { num_heads: 4 } }"));
  AddWeight("delta", {2, 8}, 3, items.back().mutable_rotation());
  items.push_back(ItemOf(ids + "rotation { fope { head_dim: 8 training_length: 100 } }"));
  AddWeight("cos_coef", {2, 2, 3}, 4, items.back().mutable_rotation());
  AddWeight("sin_coef", {2, 2, 3}, 5, items.back().mutable_rotation());
  return items;
}

TEST(ScoreRotationTest, ScoresOfTheTensorsThatApplyRotates) {
  TestServer server;
  v1::ScoresRequest batch;
  std::vector<std::string> alone;
  for (const v1::ScoresItem& item : Items()) {
    SCOPED_TRACE(item.rotation().ShortDebugString());
    const v1::ScoresResult result = One(server, item);
    ASSERT_EQ(result.status().code(), 0) << result.status().message();
    v1::ScoresItem plain = item;
    plain.clear_rotation();
    plain.set_scale(result.scale());
    EXPECT_EQ(plain.scale(), 1 / std::sqrt(8.0));  // also where PoPE doubles the width
    *plain.mutable_q() = RotatedBy(server, item, true);
    *plain.mutable_k() = RotatedBy(server, item, false);
    if (plain.biases().empty()) {  // positions were the rotation's
      plain.clear_query_positions();
      plain.clear_key_positions();
    }
    const v1::ScoresResult expected = One(server, plain);
    ASSERT_EQ(expected.status().code(), 0) << expected.status().message();
    EXPECT_EQ(result.scores().data(), expected.scores().data());
    EXPECT_EQ(result.scores().data().size(), size_t{2 * 4 * 5 * 7 * 4});
    *batch.add_items() = item;
    alone.push_back(result.scores().data());
  }
  const v1::ScoresResponse together = Call(server, batch);
  ASSERT_EQ(together.results_size(), static_cast<int>(alone.size()));
  for (size_t i = 0; i < alone.size(); ++i) {
    EXPECT_EQ(together.results(static_cast<int>(i)).scores().data(), alone[i]) << i;
  }
}

TEST(ScoreRotationTest, FingerprintsTellWhatDecidesTheBits) {
  TestServer server;
  const auto fingerprint = [&](const v1::ScoresItem& item) {
    const v1::ScoresResult result = One(server, item);
    EXPECT_EQ(result.status().code(), 0) << result.status().message();
    EXPECT_EQ(result.fingerprint().size(), 32u);
    return result.fingerprint();
  };
  const v1::ScoresItem base = ItemOf("rotation { rope { head_dim: 8 } } biases { alibi { num_heads: 4 } }");
  std::vector<std::string> all = {fingerprint(base)};
  v1::ScoresItem other_tensors = base;
  SetTensor({2, 5, 4, 8}, 9, (other_tensors.clear_q(), other_tensors.mutable_q()));
  EXPECT_EQ(fingerprint(other_tensors), all[0]);
  for (const char* change :
       {"rotation { rope { head_dim: 8 pairing: PAIRING_INTERLEAVED } }", "rotation { rope { head_dim: 8 base: 5 } }",
        "query_positions { list { ids: [0, 1, 2, 3, 5] } }", "key_positions { list { ids: [0, 1, 2, 3, 4, 5, 7] } }",
        "biases { alibi { num_heads: 4 } }", "first_head: 0 scale: 0.5", "scale_order: SCALE_ORDER_BIAS_THEN_SCALE",
        "masking { causal: true }", "masking { sliding_window: 2 }", "softmax: true", "query_scale { constant: 2 }",
        "omit_content: true", "dtype: DTYPE_F64"}) {
    v1::ScoresItem item = base;
    item.MergeFrom(FromText<v1::ScoresItem>(change));
    all.push_back(fingerprint(item));
    for (size_t i = 0; i + 1 < all.size(); ++i) EXPECT_NE(all[i], all.back()) << change << ' ' << i;
  }
}

TEST(ScoreRotationTest, ErrorsNameTheField) {
  TestServer server;
  const auto field = [&](const std::string& text) { return FieldOf(One(server, ItemOf(text)).status()); };
  const std::string axes = MultiAxis(5, "query_positions") + MultiAxis(7, "key_positions");
  const std::string mrope = "rotation { rope { head_dim: 8 axes { sections: [2, 1, 1] } } } ";
  EXPECT_EQ(field(axes), "items[0].query_positions");
  EXPECT_EQ(field(axes + mrope + "biases { alibi { num_heads: 4 } }"), "items[0].query_positions");
  EXPECT_EQ(field(mrope), "items[0].query_positions");
  EXPECT_EQ(field(mrope + MultiAxis(5, "query_positions")), "items[0].key_positions");
  EXPECT_EQ(field("rotation { rope { head_dim: 8 xpos {} } }"), "items[0].sequence_length");
  EXPECT_EQ(field("rotation { rope { head_dim: 8 xpos { scale_base: 1 center: 100000 } } }"), "items[0].query_positions");
  EXPECT_EQ(field("rotation { pope { head_dim: 6 } }"), "items[0].rotation.pope.head_dim");
  EXPECT_EQ(field("rotation { alibi { num_heads: 4 } }"), "items[0].rotation");
  v1::ScoresItem fope = ItemOf("rotation { fope { head_dim: 8 training_length: 100 } }");
  AddWeight("cos_coef", {3, 2, 3}, 4, fope.mutable_rotation());
  AddWeight("sin_coef", {3, 2, 3}, 5, fope.mutable_rotation());
  EXPECT_EQ(FieldOf(One(server, fope).status()), "items[0].q.shape");
  v1::ScoresItem pope = ItemOf("rotation { pope { head_dim: 8 } }");
  AddWeight("delta", {4, 8}, 3, pope.mutable_rotation());
  EXPECT_EQ(FieldOf(One(server, pope).status()), "items[0].k.shape");
  v1::ScoresItem cope = ItemOf("rotation { pope { head_dim: 8 } } terms { cope {} }");
  AddWeight("e", {8, 4}, 3, cope.mutable_terms(0));
  EXPECT_EQ(FieldOf(One(server, cope).status()), "items[0].terms");
  // Found when the plan is made: frequencies that are too small.
  EXPECT_EQ(field("rotation { rope { head_dim: 8 base: 1e200 } }"), "items[0].rotation.rope.base");
  EXPECT_EQ(
      field("biases { alibi { num_heads: 4 } } biases { sandwich { num_heads: 4 base: 1e308 dim: 4096 } }").substr(0, 18),
      "items[0].biases[1]");
}

// A plan's error is about the spec that it comes from.
TEST(SourcePathTest, ErrorsOfPlansNameTheirSpec) {
  TestServer server;
  const auto field = [&](const std::string& text, const std::vector<int64_t>& shape) {
    v1::ApplyRequest request;
    *request.add_items() = FromText<v1::ApplyItem>(text);
    SetTensor(shape, 1, request.mutable_items(0)->add_tensors());
    grpc::ClientContext context;
    v1::ApplyResponse response;
    EXPECT_TRUE(server.position().Apply(&context, request, &response).ok());
    return response.results_size() == 1 ? FieldOf(response.results(0).status()) : std::string();
  };
  const std::string small = "rope { head_dim: 8 base: 1e200 }";
  EXPECT_EQ(field("spec { rope { head_dim: 8 } } rerotate { target { " + small + " } }", {1, 2, 1, 8}),
            "items[0].rerotate.target.rope.base");
  EXPECT_EQ(field("spec { " + small + " } rerotate { target { rope { head_dim: 8 } } }", {1, 2, 1, 8}),
            "items[0].spec.rope.base");
  const std::string gate = " gate { dtype: DTYPE_F32 data: \"\\0\\0\\0\\0\" } } }";
  EXPECT_EQ(
      field("spec { sinusoidal { dim: 8 } } add { gate { other { sinusoidal { dim: 8 base: 1e200 } }" + gate, {1, 2, 8}),
      "items[0].add.gate.other.sinusoidal.base");
  EXPECT_EQ(
      field("spec { sinusoidal { dim: 8 base: 1e200 } } add { gate { other { sinusoidal { dim: 8 } }" + gate, {1, 2, 8}),
      "items[0].spec.sinusoidal.base");
}

}  // namespace
}  // namespace phasor::server
