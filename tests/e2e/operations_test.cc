// Every operation through a real socket: what it answers, what it refuses and how, and that a batch of all of them holds the
// bits that each has alone, whatever the server's threads and backend.
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "server/fingerprint.h"
#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using ::testing::Pointwise;

template <typename M>
M From(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::vector<double> Numbers(size_t count, uint64_t seed = 1) {
  std::vector<double> numbers(count);
  uint64_t state = 88172645463325252u + seed;
  for (double& number : numbers) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    number = static_cast<double>(static_cast<int64_t>(state) >> 40) * 0x1p-23;
  }
  return numbers;
}

v1::Tensor TensorOf(std::vector<int64_t> shape, const std::vector<double>& values) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_F64);
  for (const int64_t extent : shape) tensor.add_shape(extent);
  tensor.set_data(values.data(), values.size() * sizeof(double));
  return tensor;
}
v1::Tensor Some(std::vector<int64_t> shape, uint64_t seed = 1) {
  size_t count = 1;
  for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
  return TensorOf(std::move(shape), Numbers(count, seed));
}
std::vector<double> ValuesOf(const v1::Tensor& tensor) {
  std::vector<double> values(tensor.data().size() / sizeof(double));
  std::memcpy(values.data(), tensor.data().data(), values.size() * sizeof(double));
  return values;
}

v1::ApplyItem Item(const std::string& text, std::vector<v1::Tensor> tensors) {
  auto item = From<v1::ApplyItem>(text);
  for (v1::Tensor& tensor : tensors) *item.add_tensors() = std::move(tensor);
  return item;
}

v1::ApplyResponse Apply(TestServer& server, const std::vector<v1::ApplyItem>& items) {
  v1::ApplyRequest request;
  for (const v1::ApplyItem& item : items) *request.add_items() = item;
  grpc::ClientContext context;
  v1::ApplyResponse response;
  const grpc::Status status = server.position().Apply(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.results_size(), static_cast<int>(items.size()));
  return response;
}
v1::PrecomputeResponse Precompute(TestServer& server, const std::vector<v1::PrecomputeItem>& items) {
  v1::PrecomputeRequest request;
  for (const v1::PrecomputeItem& item : items) *request.add_items() = item;
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.results_size(), static_cast<int>(items.size()));
  return response;
}

std::vector<double> One(TestServer& server, const v1::ApplyItem& item) {
  const v1::ApplyResponse response = Apply(server, {item});
  EXPECT_EQ(response.results(0).status().code(), 0) << response.results(0).status().message();
  return response.results(0).tensors_size() == 0 ? std::vector<double>() : ValuesOf(response.results(0).tensors(0));
}

// The field that a status blames, from its details.
std::string FieldOf(const google::rpc::Status& status) {
  google::rpc::ErrorInfo info;
  for (const auto& detail : status.details()) {
    if (detail.UnpackTo(&info) && info.metadata().contains("field")) return info.metadata().at("field");
  }
  return {};
}

const char kRope[] = "spec { rope { head_dim: 8 attention_factor: 1.25 } } ";
constexpr int64_t kSize = 2 * 3 * 2 * 8;
std::vector<v1::Tensor> X() { return {Some({2, 3, 2, 8})}; }

TEST(OperationsTest, RotateUndoAndGradient) {
  TestServer server;
  const std::string at = absl::StrCat(kRope, "positions { list { ids: [5, 6, 9] } } ");
  const std::vector<double> y = One(server, Item(at, X()));
  const auto back = [&](const char* how) {
    return One(server, Item(absl::StrCat(at, "rotate { ", how, ": true }"), {TensorOf({2, 3, 2, 8}, y)}));
  };
  EXPECT_THAT(back("inverse"), Pointwise(DoubleNear(1e-14), Numbers(kSize)));
  std::vector<double> squared = Numbers(kSize);
  for (double& v : squared) v *= 1.25 * 1.25;
  EXPECT_THAT(back("backward"), Pointwise(DoubleNear(1e-14), squared));
}

TEST(OperationsTest, ShiftedAndRerotatedKeysAreFreshOnes) {
  TestServer server;
  const auto at = [&](const std::string& spec, const std::string& ids) {
    return One(server, Item(absl::StrCat("spec { ", spec, " } positions { list { ids: [", ids, "] } }"), X()));
  };
  const std::string plain = "rope { head_dim: 8 }", linear = "rope { head_dim: 8 linear { factor: 4 } }";
  const std::vector<double> near = at(plain, "3, 4, 5");
  const std::vector<double> shifted = One(
      server,
      Item("spec { rope { head_dim: 8 } } positions { list { ids: [7, -2, 0] } } shift {}", {TensorOf({2, 3, 2, 8}, near)}));
  EXPECT_THAT(shifted, Pointwise(DoubleNear(1e-14), at(plain, "10, 2, 5")));
  const std::vector<double> rerotated = One(
      server,
      Item(absl::StrCat("spec { ", plain, " } positions { list { ids: [3, 4, 5] } } rerotate { target { ", linear, " } }"),
           {TensorOf({2, 3, 2, 8}, near)}));
  EXPECT_THAT(rerotated, Pointwise(DoubleNear(1e-14), at(linear, "3, 4, 5")));
}

TEST(OperationsTest, AddResizeAndTablesByRole) {
  TestServer server;
  const std::vector<double> x = Numbers(2 * 3 * 4);
  const std::vector<double> sum =
      One(server, Item("spec { sinusoidal { dim: 4 } } layout: LAYOUT_BSD add { scale: 2 }", {TensorOf({2, 3, 4}, x)}));
  for (size_t i = 0; i < 24; ++i) {
    const double angle = static_cast<double>(i / 4 % 3) * (i % 4 < 2 ? 1 : 0.01);
    EXPECT_NEAR(sum[i], 2 * x[i] + (i % 2 == 0 ? std::sin(angle) : std::cos(angle)), 1e-15);
  }
  EXPECT_THAT(
      One(server, Item("resize { source: 2 target: 4 interpolation: INTERPOLATION_LINEAR }", {TensorOf({2, 1}, {0, 8})})),
      Pointwise(DoubleNear(0), {0., 2., 6., 8.}));
  const std::string xpos =
      "spec { rope { head_dim: 2 xpos { scale_base: 64 center: 16 } } } dtype: DTYPE_F64 table { positions { list { ids: 40 "
      "} } role: ";
  for (const double sign : {1.0, -1.0}) {
    const auto item = From<v1::PrecomputeItem>(absl::StrCat(xpos, sign > 0 ? "TENSOR_ROLE_QUERY }" : "TENSOR_ROLE_KEY }"));
    const v1::PrecomputeResponse response = Precompute(server, {item});
    ASSERT_EQ(response.results(0).status().code(), 0) << response.results(0).status().message();
    EXPECT_NEAR(ValuesOf(response.results(0).cos())[0], std::pow(0.4 / 1.4, sign * 24 / 64) * std::cos(40), 1e-15);
  }
}

// Uploads the content of a tensor and puts its hash in the content's place.
void Upload(TestServer& server, v1::Tensor* tensor) {
  grpc::ClientContext context;
  v1::UploadTensorResponse response;
  const auto writer = server.position().UploadTensor(&context, &response);
  v1::UploadTensorRequest request;
  request.set_size_bytes(static_cast<int64_t>(tensor->data().size()));
  request.set_data(tensor->data());
  EXPECT_TRUE(writer->Write(request));
  writer->WritesDone();
  EXPECT_TRUE(writer->Finish().ok());
  tensor->clear_data();
  tensor->mutable_upload()->set_sha256(response.sha256());
}

TEST(OperationsTest, UploadedContentServesEveryOperation) {
  TestServer server;
  const std::vector<std::pair<std::string, std::vector<v1::Tensor>>> items = {
      {kRope, X()},
      {absl::StrCat(kRope, "positions { list { ids: [1, 2, 3] } } shift {}"), X()},
      {absl::StrCat(kRope, "rerotate { target { rope { head_dim: 8 base: 500 } } }"), X()},
      {"spec { sinusoidal { dim: 8 } } layout: LAYOUT_BSD add {}", {Some({2, 3, 8})}},
      {"resize { source: 5 target: 9 }", {Some({5, 3})}}};
  for (const auto& [text, tensors] : items) {
    SCOPED_TRACE(text);
    v1::ApplyItem item = Item(text, tensors);
    const std::vector<double> sent = One(server, item);
    Upload(server, item.mutable_tensors(0));
    EXPECT_EQ(One(server, item), sent);
  }
}

TEST(OperationsTest, ErrorsNameTheFieldThroughTheSocket) {
  TestServer server;
  const struct {
    std::string text;
    std::vector<v1::Tensor> tensors;
    const char* field;
    const char* allowed;
  } cases[] = {
      {"spec { rope { head_dim: 16 } }", X(), "items[0].tensors[0].shape", "16"},
      {absl::StrCat(kRope, "positions { list { ids: [1, 2] } }"), X(), "items[0].positions", "3"},
      {absl::StrCat(kRope, "rotate { inverse: true backward: true }"), X(), "items[0].rotate.backward", "inverse"},
      {absl::StrCat(kRope, "shift {} positions { multi_axis {} }"), X(), "items[0].positions.multi_axis.axes", "2"},
      {absl::StrCat(kRope, "rerotate {}"), X(), "items[0].rerotate.target", "a RoPE spec"},
      {absl::StrCat(kRope, "rerotate { target { rope { head_dim: 4 } } }"), X(), "items[0].rerotate.target", "8"},
      {"spec { sinusoidal { dim: 7 } } layout: LAYOUT_BSD add {}", {Some({2, 3, 8})}, "items[0].tensors[0].shape", "7"},
      {"spec { sinusoidal { dim: 8 } } layout: LAYOUT_BSD add { dropout { probability: 1 } }",
       {Some({2, 3, 8})},
       "items[0].add.dropout.probability",
       "1"},
      {"resize { source: 5 target: 9 antialias: true align_corners: true }",
       {Some({5, 3})},
       "items[0].resize.align_corners",
       "antialias"},
      {"resize { source: 4 target: 9 }", {Some({5, 3})}, "items[0].tensors[0].shape", "[4, columns]"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.text);
    const v1::ApplyResponse response = Apply(server, {Item(c.text, c.tensors)});
    const google::rpc::Status& status = response.results(0).status();
    EXPECT_EQ(status.code(), 3);
    EXPECT_THAT(FieldOf(status), HasSubstr(c.field)) << status.message();
    EXPECT_THAT(status.message(), HasSubstr(c.allowed));
  }
  v1::ApplyItem item = Item(kRope, X());
  item.mutable_tensors(0)->clear_data();
  item.mutable_tensors(0)->mutable_upload()->set_sha256(Sha256("nothing that was sent"));
  EXPECT_EQ(FieldOf(Apply(server, {item}).results(0).status()), "items[0].tensors[0].upload");
}

// ---- Everything in one batch.

std::vector<v1::ApplyItem> EveryOperation() {
  std::vector<v1::ApplyItem> items = {
      Item("spec { rope { head_dim: 8 } }", {Some({2, 5, 3, 8})}),
      Item("spec { rope { head_dim: 9 rotary_dim: 4 first_channel: 3 pairing: PAIRING_INTERLEAVED } } layout: LAYOUT_BHSD "
           "positions { list { ids: [9, -4, 2147483647] } } rotate { inverse: true }",
           {Some({2, 3, 3, 9})}),
      Item("spec { rope { head_dim: 8 yarn { factor: 4 original_max_position: 128 } } } rotate { query_scale { "
           "log_n_training_length: 2 } }",
           {Some({1, 7, 6, 8}), Some({1, 7, 2, 8}, 2)}),
      Item("spec { rope { head_dim: 8 } } precision: PRECISION_COMPAT_F32 rotate { backward: true }", {Some({1, 4, 1, 8})}),
      Item("spec { rope { head_dim: 4 xpos { center: 3 } } }", {Some({1, 9, 2, 4}), Some({1, 9, 1, 4}, 3)}),
      Item("spec { rope { head_dim: 12 axes { sections: [2, 2, 2] } } } positions { mrope { segments { text: 2 } segments { "
           "image { "
           "height: 4 width: 4 } } } }",
           {Some({1, 6, 2, 12})}),
      Item(absl::StrCat(kRope, "positions { list { ids: [1, -7, 100000] } } shift {}"), X()),
      Item("spec { rope { head_dim: 8 dynamic_ntk { factor: 2 max_position: 16 } } } sequence_length: 16 rerotate { target "
           "{ rope { "
           "head_dim: 8 dynamic_ntk { factor: 2 max_position: 16 } } } target_sequence_length: 64 }",
           X()),
      Item("spec { pope { head_dim: 8 } }", X()),
      Item("spec { sinusoidal { dim: 6 } } layout: LAYOUT_SBD add { scale_sqrt_dim: true dropout { probability: 0.25 seed: "
           "7 } }",
           {Some({5, 2, 6})}),
      Item("spec { timestep { dim: 5 downscale_freq_shift: 0 } } positions { list { ids: [4, 2] } } layout: LAYOUT_BSD add "
           "{}",
           {Some({1, 2, 5})}),
      Item("resize { source: [3, 4] target: [5, 2] antialias: true extra_rows_first: 1 }", {Some({13, 3})}),
      Item("spec { rope { head_dim: 8 } }", {Some({1, 0, 2, 8})}),  // no tokens
      Item("spec { rope { head_dim: 6 } }", {Some({1, 1, 1, 8})}),  // refused
      Item("spec { rope { head_dim: 8 } }", {Some({1, 1, 1, 8})}),  // a neighbour of the refused one
  };
  v1::ApplyItem tables = Item("positions { list { ids: [2, 0] } } table_pairing: PAIRING_HALF_SPLIT", {Some({1, 2, 2, 6})});
  *tables.mutable_table()->mutable_cos() = Some({3, 2}, 4);
  *tables.mutable_table()->mutable_sin() = Some({3, 2}, 5);
  items.push_back(std::move(tables));
  v1::ApplyItem learned = Item("spec { learned { position_offset: 1 } } layout: LAYOUT_BSD add {}", {Some({2, 3, 4})});
  v1::Weight* weight = learned.mutable_spec()->add_weights();
  weight->set_name("table");
  *weight->mutable_tensor() = Some({5, 4}, 6);
  items.push_back(std::move(learned));
  return items;
}

std::vector<v1::PrecomputeItem> EveryTable() {
  std::vector<v1::PrecomputeItem> items;
  const auto add = [&](const std::string& text) { items.push_back(From<v1::PrecomputeItem>(text)); };
  add("spec { rope { head_dim: 8 } } table { positions { range { count: 9 } } }");
  add("spec { rope { head_dim: 8 } } dtype: DTYPE_BF16 table { positions { range { start: 4 count: 90 } } form: "
      "TABLE_FORM_CONCATENATED }");
  add("spec { rope { head_dim: 8 longrope { short_factor: [1, 1, 1, 2] long_factor: [2, 3, 4, 5] original_max_position: 16 "
      "factor: 4 } } } "
      "sequence_length: 17 dtype: DTYPE_F64 table { positions { range { count: 3 stride: 1000 } } include_inv_freq: true "
      "inverse: true }");
  add("spec { rope { head_dim: 8 axes { sections: [2, 2] layout: AXIS_LAYOUT_RESET } } } table { positions { grid { "
      "extents: 3 "
      "extents: 4 } } }");
  add("spec { rope { head_dim: 4 xpos { center: 3 } } } table { positions { range { count: 5 } } role: TENSOR_ROLE_KEY }");
  add("spec { sinusoidal { dim: 7 } } dtype: DTYPE_F16 table { positions { list { ids: [-3, 8] } } }");
  add("spec { grid_sinusoidal { dim: 8 grid: [2, 3] } } table { positions { range { count: 6 } } }");
  add("spec { learned { num_positions: 9 dim: 2 position_offset: 2 } } table { positions { range { count: 3 } } indices: "
      "true }");
  add("spec { alibi { num_heads: 6 } } bias { queries: 3 keys: 7 form: BIAS_FORM_FULL masking { causal: true } }");
  add("spec { alibi { num_heads: 3 form: ALIBI_FORM_SYMMETRIC } } dtype: DTYPE_F64 bias { queries: 4 keys: 4 form: "
      "BIAS_FORM_VECTOR }");
  add("spec { kerple { form: KERPLE_FORM_LOG r1: [0.5, 1] r2: [1, 2] } } bias { queries: 2 keys: 5 form: BIAS_FORM_FULL }");
  add("spec { sandwich { num_heads: 2 } } bias { queries: 1 keys: 5 form: BIAS_FORM_ROW }");
  add("spec { t5_bucket { num_heads: 1 } } bias { queries: 3 keys: 3 indices: true }");
  add("spec { window_bias { window_height: 2 window_width: 3 num_heads: 1 } } bias { queries: 6 keys: 6 indices: true }");
  add("spec { rope { head_dim: 7 } } table { positions { range { count: 3 } } }");  // refused
  add("spec { rope { head_dim: 8 } } table { positions { range { count: 0 } } }");  // nothing
  return items;
}

// What an answer says about an item, without where it came from, how long it took and paths, which name the item's number.
std::string Content(v1::ApplyResult result) {
  result.clear_stages(), result.clear_cache(), result.clear_backend(), result.clear_warnings();
  if (result.status().code() != 0) return std::to_string(result.status().code());
  return result.SerializeAsString();
}
std::string Content(v1::PrecomputeResult result) {
  result.clear_stages(), result.clear_cache(), result.clear_backend(), result.clear_warnings();
  if (result.status().code() != 0) return std::to_string(result.status().code());
  return result.SerializeAsString();
}

ServerOptions With(const std::string& backend, int threads) {
  ServerOptions options = LoopbackOptions();
  options.backend = backend;
  options.worker_threads = threads;
  return options;
}

TEST(OperationsTest, ABatchOfEverythingHoldsTheBitsOfEachAlone) {
  TestServer server, alone(With("cpu", 1)), reference(With("reference", 2));
  const std::vector<v1::ApplyItem> operations = EveryOperation();
  const v1::ApplyResponse applied = Apply(server, operations);
  int refused = 0;
  for (size_t i = 0; i < operations.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("operation ", i, ": ", operations[i].ShortDebugString().substr(0, 120)));
    const v1::ApplyResult& result = applied.results(static_cast<int>(i));
    refused += result.status().code() == 0 ? 0 : 1;
    EXPECT_EQ(result.tensors_size(), result.status().code() == 0 ? operations[i].tensors_size() : 0)
        << result.status().message();
    for (TestServer* other : {&server, &alone, &reference}) {
      EXPECT_TRUE(Content(Apply(*other, {operations[i]}).results(0)) == Content(result));
    }
  }
  EXPECT_EQ(refused, 1);
  const std::vector<v1::PrecomputeItem> tables = EveryTable();
  const v1::PrecomputeResponse computed = Precompute(server, tables);
  refused = 0;
  for (size_t i = 0; i < tables.size(); ++i) {
    SCOPED_TRACE(absl::StrCat("table ", i, ": ", tables[i].ShortDebugString().substr(0, 120)));
    const v1::PrecomputeResult& result = computed.results(static_cast<int>(i));
    refused += result.status().code() == 0 ? 0 : 1;
    EXPECT_TRUE(result.status().code() == 0 || i == 14) << result.status().message();
    for (TestServer* other : {&server, &alone, &reference}) {
      EXPECT_TRUE(Content(Precompute(*other, {tables[i]}).results(0)) == Content(result));
    }
  }
  EXPECT_EQ(refused, 1);
}

}  // namespace
}  // namespace phasor::server
