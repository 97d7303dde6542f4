// Biases over windows, learned functions of positions and resized tables, through the whole server.
#include <cstring>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "rapidjson/document.h"

#include "server/fingerprint.h"
#include "tests/e2e/fixture.h"
#include "tests/kernels/program/golden_weights.h"
#include "tests/kernels/program/window_specs.h"

namespace phasor::server {
namespace {

rapidjson::Document ReadJson(const std::string& path) {
  std::ifstream file(std::string(PHASOR_SOURCE_DIR) + "/tests/golden/" + path);
  std::ostringstream text;
  text << file.rdbuf();
  rapidjson::Document document;
  document.Parse(text.str().c_str());
  return document;
}

std::string ToHex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    constexpr char kDigits[] = "0123456789abcdef";
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string Text(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

// Values as float32, which the rule's numbers are exactly.
void AddWeight(const std::string& name, const std::vector<int64_t>& shape, const std::vector<double>& values,
               v1::EncodingSpec* spec) {
  v1::Weight* weight = spec->add_weights();
  weight->set_name(name);
  weight->mutable_tensor()->set_dtype(v1::DTYPE_F32);
  weight->mutable_tensor()->mutable_shape()->Add(shape.begin(), shape.end());
  const std::vector<float> narrow(values.begin(), values.end());
  weight->mutable_tensor()->set_data(std::string(reinterpret_cast<const char*>(narrow.data()), 4 * narrow.size()));
}

v1::PrecomputeResponse Call(TestServer& server, const v1::PrecomputeRequest& request) {
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

v1::PrecomputeItem* AddItem(int64_t queries, int64_t keys, v1::PrecomputeRequest* request) {
  v1::PrecomputeItem* item = request->add_items();
  item->mutable_bias()->set_queries(queries);
  item->mutable_bias()->set_keys(keys);
  return item;
}

v1::PrecomputeItem* AddWindow(int64_t height, int64_t width, bool class_token, v1::PrecomputeRequest* request) {
  const int64_t tokens = height * width + (class_token ? 1 : 0);
  v1::PrecomputeItem* item = AddItem(tokens, tokens, request);
  auto* window = item->mutable_spec()->mutable_window_bias();
  window->set_window_height(height);
  window->set_window_width(width);
  window->set_class_token(class_token);
  return item;
}

// Indices and biases of transformers' own modules, by their hashes.
TEST(WindowBiasE2eTest, WindowsAreTheLibrarys) {
  TestServer server;
  const rapidjson::Document golden = ReadJson("window/expected.json");
  int cases = 0;
  for (const auto& json : golden["cases"].GetArray()) {
    if (!json.HasMember("index_sha256")) continue;
    SCOPED_TRACE(json["name"].GetString());
    const auto& fields = json["fields"];
    const auto& table = json["weights"]["table"];
    v1::PrecomputeRequest request;
    for (bool indices : {true, false}) {
      v1::PrecomputeItem* item = AddWindow(fields["window_height"].GetInt64(), fields["window_width"].GetInt64(),
                                           fields["class_token"].GetBool(), &request);
      item->mutable_bias()->set_indices(indices);
      const std::vector<int64_t> shape = {table["shape"][0].GetInt64(), table["shape"][1].GetInt64()};
      AddWeight("table", shape, RuleValues(table["seed"].GetUint64(), shape[0] * shape[1]), item->mutable_spec());
    }
    const v1::PrecomputeResponse response = Call(server, request);
    for (const auto& result : response.results()) ASSERT_EQ(result.status().code(), 0) << result.status().message();
    EXPECT_EQ(ToHex(Sha256(response.results(0).bias().data())), json["index_sha256"].GetString());
    EXPECT_EQ(ToHex(Sha256(response.results(1).bias().data())), json["bias_sha256"].GetString());
    ++cases;
  }
  EXPECT_EQ(cases, 8);
}

TEST(WindowBiasE2eTest, GoldenModels) {
  TestServer server;
  for (const char* name : {"swin-tiny-patch4-window7-224", "swinv2-tiny-patch4-window8-256", "beit-base-patch16-224"}) {
    SCOPED_TRACE(name);
    const rapidjson::Document golden = ReadJson(std::string("models/") + name + ".json");
    const auto& expect = golden["expect"][0];
    v1::PrecomputeRequest request;
    v1::PrecomputeItem* item = AddWindow(expect["window"][0].GetInt64(), expect["window"][1].GetInt64(),
                                         expect["extra_rows"].GetInt64() == 3, &request);
    item->mutable_spec()->mutable_window_bias()->set_num_heads(expect["heads"][0].GetInt64());
    item->mutable_bias()->set_indices(true);
    const v1::PrecomputeResponse response = Call(server, request);
    ASSERT_EQ(response.results(0).status().code(), 0) << response.results(0).status().message();
    EXPECT_EQ(ToHex(Sha256(response.results(0).bias().data())), expect["index_sha256_int64_le"].GetString());
  }
}

// One of each function, its golden seed or any.
v1::PrecomputeRequest EveryFunction() {
  v1::PrecomputeRequest request;
  v1::EncodingSpec* spec = AddItem(3, 20, &request)->mutable_spec();
  spec->mutable_fire();
  AddWeight("w1", {8, 1}, RuleValues(1, 8), spec);
  AddWeight("b1", {8}, RuleValues(2, 8), spec);
  AddWeight("w2", {2, 8}, RuleValues(3, 16), spec);
  AddWeight("b2", {2}, RuleValues(4, 2), spec);
  spec = AddItem(3, 20, &request)->mutable_spec();
  spec->mutable_dynamic_position_bias();
  AddWeight("w1", {8, 1}, RuleValues(1, 8), spec);
  AddWeight("b1", {8}, RuleValues(2, 8), spec);
  AddWeight("w2", {2, 8}, RuleValues(3, 16), spec);
  AddWeight("b2", {2}, RuleValues(4, 2), spec);
  spec = AddItem(3, 20, &request)->mutable_spec();
  spec->mutable_forgetting_bias()->set_logits(true);
  AddWeight("gates", {2, 3, 20}, RuleValues(5, 120, 4), spec);
  spec = AddItem(3, 20, &request)->mutable_spec();
  spec->mutable_tupe();
  AddWeight("q", {2, 20, 6}, RuleValues(6, 240), spec);
  AddWeight("k", {2, 20, 6}, RuleValues(7, 240), spec);
  spec = AddItem(6, 6, &request)->mutable_spec();
  spec->mutable_continuous_window_bias()->set_window_height(2);
  spec->mutable_continuous_window_bias()->set_window_width(3);
  AddWeight("w1", {8, 2}, RuleValues(1, 16), spec);
  AddWeight("b1", {8}, RuleValues(2, 8), spec);
  AddWeight("w2", {2, 8}, RuleValues(3, 16), spec);
  return request;
}

TEST(WindowBiasE2eTest, ABatchIsItsItemsAndFingerprintsAreKnownBefore) {
  TestServer server;
  v1::PrecomputeRequest request = EveryFunction();
  const v1::PrecomputeResponse batch = Call(server, request);
  request.set_validate_only(true);
  const v1::PrecomputeResponse described = Call(server, request);
  request.set_validate_only(false);
  ASSERT_EQ(batch.results_size(), request.items_size());
  for (int i = 0; i < request.items_size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(batch.results(i).status().code(), 0) << batch.results(i).status().message();
    v1::PrecomputeRequest alone;
    *alone.add_items() = request.items(i);
    const v1::PrecomputeResponse one = Call(server, alone);
    EXPECT_EQ(one.results(0).bias().data(), batch.results(i).bias().data());
    EXPECT_EQ(one.results(0).fingerprint(), batch.results(i).fingerprint());
    EXPECT_EQ(described.results(i).fingerprint(), batch.results(i).fingerprint());
    EXPECT_EQ(described.results(i).payload_bytes(), static_cast<int64_t>(batch.results(i).bias().data().size()));
    alone.mutable_items(0)->set_if_fingerprint_not(batch.results(i).fingerprint());
    EXPECT_TRUE(Call(server, alone).results(0).not_modified());
    // Another weight, another fingerprint.
    auto* data = alone.mutable_items(0)->mutable_spec()->mutable_weights(0)->mutable_tensor()->mutable_data();
    (*data)[1] = static_cast<char>((*data)[1] ^ 1);
    EXPECT_FALSE(Call(server, alone).results(0).not_modified());
  }
}

TEST(WindowBiasE2eTest, TheServerGivesTheLibrarysBits) {
  TestServer server;
  v1::PrecomputeRequest request = EveryFunction();
  request.mutable_items(0)->set_dtype(v1::DTYPE_BF16);
  request.mutable_items(1)->mutable_bias()->set_form(v1::BIAS_FORM_FULL);
  const v1::PrecomputeResponse response = Call(server, request);
  const auto cpu = CreateBackend("cpu");
  const auto narrow = [](uint64_t seed, std::vector<int64_t> shape) { return RuleWeight(seed, std::move(shape)); };
  const FireSpec fire{.c = {},
                      .threshold = {},
                      .epsilon = {},
                      .w1 = narrow(1, {8, 1}),
                      .b1 = narrow(2, {8}),
                      .w2 = narrow(3, {2, 8}),
                      .b2 = narrow(4, {2})};
  EXPECT_EQ(response.results(0).bias().data(),
            Text(RunBias(**cpu, fire, DType::kBF16, Consecutive(17, 3), Consecutive(0, 20))));
  DynamicPositionBiasSpec dynamic;
  dynamic.w[0] = narrow(1, {8, 1}), dynamic.b[0] = narrow(2, {8}), dynamic.w[1] = narrow(3, {2, 8});
  dynamic.b[1] = narrow(4, {2});
  EXPECT_EQ(response.results(1).bias().data(),
            Text(RunBias(**cpu, dynamic, DType::kF32, Consecutive(17, 3), Consecutive(0, 20))));
  EXPECT_EQ(response.results(2).bias().shape_size(), 4);
  const TupeSpec tupe{.num_buckets = {},
                      .max_distance = {},
                      .q = narrow(6, {2, 20, 6}),
                      .k = narrow(7, {2, 20, 6}),
                      .bias = {},
                      .untied = {}};
  EXPECT_EQ(response.results(3).bias().data(),
            Text(RunBias(**cpu, tupe, DType::kF32, Consecutive(17, 3), Consecutive(0, 20))));
}

TEST(WindowBiasE2eTest, FormsAgree) {
  TestServer server;
  v1::PrecomputeRequest request;
  const v1::PrecomputeRequest all = EveryFunction();
  for (v1::BiasForm form : {v1::BIAS_FORM_FULL, v1::BIAS_FORM_VECTOR, v1::BIAS_FORM_ROW}) {
    *request.add_items() = all.items(1);
    request.mutable_items(request.items_size() - 1)->mutable_bias()->set_form(form);
  }
  const v1::PrecomputeResponse response = Call(server, request);
  const auto at = [&](int item, int64_t index) {
    float value;
    std::memcpy(&value, response.results(item).bias().data().data() + 4 * index, 4);
    return value;
  };
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t k = 0; k < 20; ++k) {
      for (int64_t q = 0; q < 3; ++q) EXPECT_EQ(at(0, (h * 3 + q) * 20 + k), at(1, h * 22 + 2 - q + k));
      EXPECT_EQ(at(2, h * 20 + k), at(0, (h * 3 + 2) * 20 + k));
    }
  }
}

TEST(ResizeE2eTest, TablesComeBackInAnotherSize) {
  TestServer server;
  v1::ApplyRequest request;
  v1::ApplyItem* item = request.add_items();
  auto* resize = item->mutable_resize();
  resize->add_source(2), resize->add_source(2);
  resize->add_target(3), resize->add_target(4);
  resize->set_interpolation(v1::INTERPOLATION_LINEAR);
  resize->set_extra_rows_last(1);
  for (v1::Dtype dtype : {v1::DTYPE_F32, v1::DTYPE_F64}) {
    v1::Tensor* tensor = item->add_tensors();
    tensor->set_dtype(dtype);
    tensor->add_shape(5), tensor->add_shape(1);
    const float narrow[] = {0, 4, 8, 12, 99};
    const double wide[] = {0, 4, 8, 12, 99};
    tensor->set_data(dtype == v1::DTYPE_F32 ? std::string(reinterpret_cast<const char*>(narrow), sizeof(narrow))
                                            : std::string(reinterpret_cast<const char*>(wide), sizeof(wide)));
  }
  grpc::ClientContext context;
  v1::ApplyResponse response;
  ASSERT_TRUE(server.position().Apply(&context, request, &response).ok());
  ASSERT_EQ(response.results(0).status().code(), 0) << response.results(0).status().message();
  ASSERT_EQ(response.results(0).tensors_size(), 2);
  const float want[] = {0, 1, 3, 4, 4, 5, 7, 8, 8, 9, 11, 12, 99};
  for (size_t i = 0; i < 13; ++i) {
    float narrow;
    double wide;
    std::memcpy(&narrow, response.results(0).tensors(0).data().data() + 4 * i, 4);
    std::memcpy(&wide, response.results(0).tensors(1).data().data() + 8 * i, 8);
    EXPECT_EQ(narrow, want[i]) << i;
    EXPECT_EQ(wide, want[i]) << i;
  }
  EXPECT_EQ(response.results(0).tensors(0).shape(0), 13);
}

}  // namespace
}  // namespace phasor::server
