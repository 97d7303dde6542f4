// ResolveModel over the wire: kinds, weights to upload, factors on queries and ids, and specs that can be sent back.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using ::testing::ElementsAre;

v1::ResolveModelResponse Resolve(TestServer& server, const std::string& config) {
  v1::ResolveModelRequest request;
  request.set_config_json(config);
  grpc::ClientContext context;
  v1::ResolveModelResponse response;
  const grpc::Status status = server.catalog().ResolveModel(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

void Fill(const v1::NeededWeight& needed, v1::EncodingSpec* spec) {
  v1::Weight* weight = spec->add_weights();
  weight->set_name(needed.name());
  v1::Tensor& tensor = *weight->mutable_tensor();
  tensor.set_dtype(v1::DTYPE_F32);
  int64_t elements = 1;
  for (const int64_t extent : needed.shape()) {
    tensor.add_shape(extent);
    elements *= extent;
  }
  tensor.set_data(std::string(static_cast<size_t>(elements) * sizeof(float), '\0'));
}

TEST(ResolveTest, TermsComeWithTheirWeights) {
  TestServer server;
  const auto model = Resolve(server, R"({"model_type":"deberta-v2","hidden_size":48,"num_attention_heads":3,
    "relative_attention":true,"pos_att_type":["c2p","p2c"],"position_buckets":32,"position_biased_input":true})");
  ASSERT_EQ(model.layers_size(), 2);
  const v1::ResolvedLayer& layer = model.layers(0);
  EXPECT_EQ(layer.kind(), v1::POSITION_KIND_TERM);
  EXPECT_EQ(layer.scheme(), "deberta");
  EXPECT_EQ(layer.spec().deberta().position_buckets(), 32);
  EXPECT_EQ(layer.spec().deberta().max_relative_positions(), 512);
  ASSERT_EQ(layer.weights_size(), 2);
  EXPECT_EQ(layer.weights(0).name(), "key_positions");
  EXPECT_THAT(layer.weights(0).shape(), ElementsAre(3, 64, 16));
  EXPECT_FALSE(layer.weights(0).required());
  EXPECT_EQ(layer.fingerprint().size(), 32u);  // of the indices
  EXPECT_EQ(model.layers(1).layer_type(), "embedding");
  EXPECT_EQ(model.layers(1).kind(), v1::POSITION_KIND_LEARNED);
  EXPECT_EQ(model.layers(1).weights(0).name(), "table");
}

TEST(ResolveTest, ASpecThatNeedsWeightsHasNoNumbersYet) {
  TestServer server;
  const auto model = Resolve(server, R"({"model_type":"xlnet","d_model":24,"n_head":3,"n_layer":1,"clamp_len":16})");
  ASSERT_EQ(model.layers_size(), 1);
  const v1::ResolvedLayer& layer = model.layers(0);
  EXPECT_EQ(layer.kind(), v1::POSITION_KIND_TERM);
  EXPECT_EQ(layer.spec().xlnet().dim(), 24);
  EXPECT_EQ(layer.spec().xlnet().clamp_length(), 16);
  EXPECT_TRUE(layer.fingerprint().empty());
  // The answer with what it asks for is a spec that the data plane takes.
  v1::ScoresRequest request;
  v1::ScoresItem& item = *request.add_items();
  v1::EncodingSpec* spec = item.add_terms();
  *spec = layer.spec();
  for (const v1::NeededWeight& weight : layer.weights()) {
    if (weight.required()) Fill(weight, spec);
  }
  for (v1::Tensor* tensor : {item.mutable_q(), item.mutable_k()}) {
    tensor->set_dtype(v1::DTYPE_F32);
    for (const int64_t extent : {1, 4, 3, 8}) tensor->add_shape(extent);
    tensor->set_data(std::string(4 * 3 * 8 * sizeof(float), '\0'));
  }
  grpc::ClientContext context;
  v1::ScoresResponse response;
  const grpc::Status status = server.position().Scores(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 1);
  EXPECT_EQ(response.results(0).status().code(), 0) << response.results(0).status().message();
  EXPECT_THAT(response.results(0).scores().shape(), ElementsAre(1, 3, 4, 4));
}

TEST(ResolveTest, ErrorsThatShowWithTheFrequenciesNameTheKey) {
  TestServer server;
  const auto refusal = [&](const std::string& keys) {
    v1::ResolveModelRequest request;
    request.set_config_json(R"({"model_type":"llama","hidden_size":4096,"num_attention_heads":32,)"
                            R"("max_position_embeddings":8192)" +
                            keys + "}");
    request.set_sequence_length(16384);
    grpc::ClientContext context;
    v1::ResolveModelResponse response;
    return server.catalog().ResolveModel(&context, request, &response).error_message();
  };
  using ::testing::StartsWith;
  EXPECT_THAT(refusal(R"(,"rope_theta":1e-300)"), StartsWith("config_json.rope_theta"));
  EXPECT_THAT(refusal(R"(,"rope_scaling":{"type":"linear","factor":1e300})"), StartsWith("config_json.rope_scaling.factor"));
  EXPECT_THAT(refusal(R"(,"rope_scaling":{"rope_type":"yarn","factor":1e300,"original_max_position_embeddings":2048})"),
              StartsWith("config_json.rope_scaling.factor"));
}

// The image decides the size of DETR's map: the answer with a grid is a table, and without one it takes coordinates.
TEST(ResolveTest, AMapOfDetrWithAGridOrWithCoordinates) {
  TestServer server;
  const auto model = Resolve(server, R"({"model_type":"detr","d_model":16})");
  ASSERT_GE(model.layers_size(), 1);
  const v1::ResolvedLayer& layer = model.layers(0);
  ASSERT_EQ(layer.scheme(), "grid_sinusoidal");
  EXPECT_EQ(layer.spec().grid_sinusoidal().grid_size(), 0);
  EXPECT_EQ(layer.spec().grid_sinusoidal().extent_epsilon(), 1e-6);
  v1::PrecomputeRequest request;
  v1::PrecomputeItem& table = *request.add_items();
  *table.mutable_spec() = layer.spec();
  table.mutable_spec()->mutable_grid_sinusoidal()->add_grid(2);
  table.mutable_spec()->mutable_grid_sinusoidal()->add_grid(1);
  table.mutable_table()->mutable_positions()->mutable_range()->set_count(2);
  v1::PrecomputeItem& points = *request.add_items();
  *points.mutable_spec() = layer.spec();
  const double two_pi = layer.spec().grid_sinusoidal().scale();
  const std::vector<std::vector<double>> at = {{1 / (2 + 1e-6) * two_pi, 2 / (2 + 1e-6) * two_pi},
                                               {1 / (1 + 1e-6) * two_pi, 1 / (1 + 1e-6) * two_pi}};
  for (const std::vector<double>& axis : at) {
    v1::Tensor* ids = points.mutable_table()->mutable_positions()->mutable_multi_axis()->add_axes();
    ids->set_dtype(v1::DTYPE_F64);
    ids->add_shape(2);
    ids->set_data(std::string(reinterpret_cast<const char*>(axis.data()), 16));
  }
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 2);
  for (const v1::PrecomputeResult& result : response.results()) {
    EXPECT_EQ(result.status().code(), 0) << result.status().message();
    EXPECT_THAT(result.table().shape(), ElementsAre(2, 16));
  }
  EXPECT_EQ(response.results(0).table().data(), response.results(1).table().data());
}

TEST(ResolveTest, StagesOfSwin) {
  TestServer server;
  const auto model = Resolve(server, R"({"model_type":"swinv2","image_size":384,"window_size":24,
    "pretrained_window_sizes":[12,12,12,6]})");
  ASSERT_EQ(model.layers_size(), 4);
  EXPECT_EQ(model.layers(3).layer_type(), "stage4");
  EXPECT_EQ(model.layers(3).spec().continuous_window_bias().window_height(), 12);
  EXPECT_EQ(model.layers(3).spec().continuous_window_bias().pretrained_height(), 6);
  EXPECT_EQ(model.layers(3).num_q_heads(), 24);
  EXPECT_THAT(model.layers(3).weights(2).shape(), ElementsAre(24, 512));
  EXPECT_TRUE(model.layers(3).weights(2).required());
}

TEST(ResolveTest, FactorsOnQueriesAndIdsAreReadyToSend) {
  TestServer server;
  const auto llama = Resolve(server, R"({"model_type":"llama4_text","no_rope_layers":[1,0],"num_hidden_layers":2})");
  ASSERT_EQ(llama.layers_size(), 2);
  const v1::FloorScale& floor = llama.layers(1).query_scale_rule().floor_scale();
  EXPECT_EQ(floor.coefficient(), 0.1);
  EXPECT_EQ(floor.period(), 8192);
  EXPECT_EQ(floor.shift(), 1);
  const auto qwen1 = Resolve(server, R"({"model_type":"qwen","hidden_size":64,"num_attention_heads":4,"seq_length":2048})");
  EXPECT_EQ(qwen1.layers(0).query_scale_rule().log_n_training_length(), 2048);
  const auto qwen = Resolve(server, R"({"model_type":"qwen2_5_vl","hidden_size":2048,"num_attention_heads":16,
    "rope_scaling":{"type":"mrope","mrope_section":[16,24,24]},
    "vision_config":{"spatial_merge_size":2,"tokens_per_second":2,"hidden_size":1280,"num_heads":16}})");
  const v1::ResolvedLayer& layer = qwen.layers(0);
  EXPECT_EQ(layer.mrope_layout(), v1::MROPE_LAYOUT_QWEN2_5_VL);
  EXPECT_EQ(layer.mrope_positions().layout(), v1::MROPE_LAYOUT_QWEN2_5_VL);
  EXPECT_EQ(layer.mrope_positions().tokens_per_second(), 2);
  EXPECT_EQ(layer.mrope_positions().spatial_merge(), 2);
  const auto mla = Resolve(server, R"({"model_type":"deepseek_v3","hidden_size":7168,"num_attention_heads":128,
    "rope_theta":1e4})");
  EXPECT_EQ(mla.layers(0).spec().rope().first_channel(), 128);
}

}  // namespace
}  // namespace phasor::server
