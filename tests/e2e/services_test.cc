// What each method answers, over a socket, with clients generated from the protos.
#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "gtest/gtest.h"

#include "server/limits.h"
#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

float FloatAt(const std::string& bytes, size_t index) {
  float value = 0;
  std::memcpy(&value, bytes.data() + 4 * index, 4);
  return value;
}

TEST(ServicesTest, PrecomputesALlamaTableAndThenFindsItInTheCache) {
  TestServer server;
  for (int round = 0; round < 2; ++round) {
    grpc::ClientContext context;
    v1::PrecomputeResponse response;
    const grpc::Status status = server.position().Precompute(&context, LlamaTable(5000), &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_EQ(response.results_size(), 1);
    const v1::PrecomputeResult& result = response.results(0);
    EXPECT_EQ(result.status().code(), 0) << result.status().message();
    EXPECT_EQ(result.backend(), server->engine().backend().name());
    EXPECT_EQ(result.cache(), round == 0 ? v1::CACHE_OUTCOME_MISS : v1::CACHE_OUTCOME_HIT);
    EXPECT_EQ(result.fingerprint().size(), 32u);
    ASSERT_EQ(result.cos().data().size(), 5000u * 64 * 4);
    ASSERT_EQ(result.sin().data().size(), 5000u * 64 * 4);
    EXPECT_EQ(result.cos().dtype(), v1::DTYPE_F32);
    EXPECT_THAT(result.cos().shape(), ::testing::ElementsAre(5000, 64));
    EXPECT_EQ(FloatAt(result.cos().data(), 0), 1.0f);
    EXPECT_EQ(FloatAt(result.sin().data(), 0), 0.0f);
    EXPECT_EQ(FloatAt(result.cos().data(), 64), 0.54030230586813976f);  // position 1, frequency 1
    EXPECT_GT(response.stages().decode_ns(), 0);
  }
}

TEST(ServicesTest, AppliesARotation) {
  TestServer server;
  v1::ApplyRequest request;
  v1::ApplyItem* item = request.add_items();
  item->mutable_spec()->mutable_rope()->set_head_dim(4);
  v1::Tensor* tensor = item->add_tensors();
  tensor->set_dtype(v1::DTYPE_F32);
  for (const int64_t extent : {1, 3, 1, 4}) tensor->add_shape(extent);
  const std::vector<float> x = {1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4};
  tensor->set_data(x.data(), x.size() * 4);
  grpc::ClientContext context;
  v1::ApplyResponse response;
  const grpc::Status status = server.position().Apply(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 1);
  ASSERT_EQ(response.results(0).status().code(), 0) << response.results(0).status().message();
  ASSERT_EQ(response.results(0).tensors_size(), 1);
  const std::string& y = response.results(0).tensors(0).data();
  ASSERT_EQ(y.size(), x.size() * 4);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(FloatAt(y, i), x[i]);  // position 0 turns nothing
  // Position 1: pair (0, 2) by 1 radian, pair (1, 3) by 0.01.
  EXPECT_NEAR(FloatAt(y, 4), 0.5403023058681398 * 1 - 0.8414709848078965 * 3, 1e-6);
  EXPECT_NEAR(FloatAt(y, 6), 0.5403023058681398 * 3 + 0.8414709848078965 * 1, 1e-6);
  EXPECT_NEAR(FloatAt(y, 5), 0.9999500004166653 * 2 - 0.009999833334166664 * 4, 1e-6);
}

TEST(ServicesTest, ABadItemLeavesTheOthersAlone) {
  TestServer server;
  v1::PrecomputeRequest request = LlamaTable(8);
  *request.add_items() = request.items(0);
  request.mutable_items(1)->mutable_spec()->mutable_rope()->set_rotary_dim(3);
  *request.add_items() = request.items(0);
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.results_size(), 3);
  EXPECT_EQ(response.results(0).status().code(), 0);
  EXPECT_EQ(response.results(1).status().code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(response.results(1).status().message(), HasSubstr("items[1].spec.rope.rotary_dim"));
  EXPECT_EQ(response.results(2).status().code(), 0);
  EXPECT_EQ(response.results(0).cos().data(), response.results(2).cos().data());
}

TEST(ServicesTest, ErrorsCarryDetailsAndARequestId) {
  TestServer server;
  grpc::ClientContext context;
  context.AddMetadata("x-request-id", "test-7");
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, v1::PrecomputeRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto info = DetailOf<google::rpc::ErrorInfo>(status);
  EXPECT_EQ(info.domain(), "phasor.v1");
  EXPECT_FALSE(info.reason().empty());
  const auto bad = DetailOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), "items");
  const auto id = context.GetServerTrailingMetadata().find("x-request-id");
  ASSERT_NE(id, context.GetServerTrailingMetadata().end());
  EXPECT_EQ(id->second, "test-7");
  server.Stop();
  EXPECT_THAT(server.log(),
              ::testing::Contains(::testing::AllOf(HasSubstr("request_id=test-7"), HasSubstr("code=INVALID_ARGUMENT"))));
}

TEST(ServicesTest, MalformedBytesAreInvalidArguments) {
  TestServer server;
  for (const char* method :
       {"/phasor.v1.PositionService/Precompute", "/phasor.v1.PositionService/Apply", "/phasor.v1.CatalogService/GetScheme",
        "/phasor.v1.AdminService/ListTables", "/phasor.v1.CatalogService/ResolveModel"}) {
    const grpc::Slice slice("\x0a\xff\xff\xff\xff\x0f", 6);
    grpc::ByteBuffer request(&slice, 1), response;
    grpc::ClientContext context;
    const grpc::internal::RpcMethod rpc(method, grpc::internal::RpcMethod::NORMAL_RPC);
    const grpc::Status status = grpc::internal::BlockingUnaryCall(server.channel().get(), rpc, &context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method << ": " << status.error_message();
    EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status).reason(), "MALFORMED_MESSAGE") << method;
  }
}

TEST(ServicesTest, ListsSchemesAndShowsCards) {
  TestServer server;
  grpc::ClientContext context;
  v1::ListSchemesResponse schemes;
  ASSERT_TRUE(server.catalog().ListSchemes(&context, v1::ListSchemesRequest(), &schemes).ok());
  ASSERT_GE(schemes.schemes_size(), 11);
  for (const v1::SchemeSummary& summary : schemes.schemes()) {
    grpc::ClientContext card_context;
    v1::GetSchemeRequest request;
    request.set_name(summary.name());
    v1::GetSchemeResponse card;
    ASSERT_TRUE(server.catalog().GetScheme(&card_context, request, &card).ok()) << summary.name();
    EXPECT_EQ(card.scheme().title(), summary.title());
    EXPECT_FALSE(card.formula().empty()) << summary.name();
    EXPECT_GT(card.parameters_size(), 0) << summary.name();
  }
  grpc::ClientContext unknown_context;
  v1::GetSchemeRequest unknown;
  unknown.set_name("rope_nope");
  v1::GetSchemeResponse card;
  const grpc::Status status = server.catalog().GetScheme(&unknown_context, unknown, &card);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(DetailOf<google::rpc::ResourceInfo>(status).resource_name(), "rope_nope");
  EXPECT_THAT(status.error_message(), HasSubstr("rope_yarn"));
}

constexpr char kGemmaLike[] = R"({"model_type": "gemma3_text", "head_dim": 256, "num_attention_heads": 8,
  "num_key_value_heads": 4, "num_hidden_layers": 6, "max_position_embeddings": 32768, "rope_theta": 1000000.0,
  "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6, "hidden_size": 2048, "query_pre_attn_scalar": 256})";

TEST(ServicesTest, ResolvesAModelPerLayerType) {
  TestServer server;
  v1::ResolveModelRequest request;
  request.set_config_json(kGemmaLike);
  grpc::ClientContext context;
  v1::ResolveModelResponse all;
  grpc::Status status = server.catalog().ResolveModel(&context, request, &all);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(all.layers_size(), 2);
  for (const v1::ResolvedLayer& layer : all.layers()) {
    EXPECT_EQ(layer.kind(), v1::POSITION_KIND_ROPE);
    EXPECT_EQ(layer.inv_freq_size(), 128);
    EXPECT_EQ(layer.inv_freq(0), 1.0);
    EXPECT_EQ(layer.fingerprint().size(), 32u);
    EXPECT_EQ(layer.attention_factor(), 1.0);

    request.set_layer_type(layer.layer_type());
    grpc::ClientContext one_context;
    v1::ResolveModelResponse one;
    ASSERT_TRUE(server.catalog().ResolveModel(&one_context, request, &one).ok());
    ASSERT_EQ(one.layers_size(), 1);
    EXPECT_EQ(one.layers(0).SerializeAsString(), layer.SerializeAsString());
  }
  request.set_layer_type("no_such_layer");
  grpc::ClientContext wrong_context;
  status = server.catalog().ResolveModel(&wrong_context, request, &all);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("sliding_attention"));
}

TEST(ServicesTest, ResolveNamesTheKeyThatIsWrong) {
  TestServer server;
  v1::ResolveModelRequest request;
  grpc::ClientContext empty_context;
  v1::ResolveModelResponse response;
  EXPECT_EQ(server.catalog().ResolveModel(&empty_context, request, &response).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  request.set_config_json(R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": "many"})");
  grpc::ClientContext context;
  const grpc::Status status = server.catalog().ResolveModel(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  const auto bad = DetailOf<google::rpc::BadRequest>(status);
  ASSERT_EQ(bad.field_violations_size(), 1);
  EXPECT_EQ(bad.field_violations(0).field(), "config_json.num_attention_heads");
}

TEST(ServicesTest, ServerInfoTellsEveryLimit) {
  ServerOptions options = LoopbackOptions();
  options.limits.max_heads = 123;
  TestServer server(options);
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(server.admin().GetServerInfo(&context, v1::GetServerInfoRequest(), &info).ok());
  ASSERT_EQ(info.limits_size(), static_cast<int>(LimitRows().size()));
  for (size_t i = 0; i < LimitRows().size(); ++i) {
    const LimitRow& row = LimitRows()[i];
    EXPECT_EQ(info.limits(static_cast<int>(i)).name(), row.name);
    EXPECT_EQ(info.limits(static_cast<int>(i)).value(), options.limits.*row.field);
  }
  EXPECT_FALSE(info.version().empty());
  EXPECT_GT(info.numerics_version(), 0);
  EXPECT_GE(info.backends_size(), 2);
  EXPECT_EQ(info.worker_threads(), 2);
  EXPECT_GT(info.memory().resident_bytes(), 0);
  EXPECT_EQ(info.memory().cache_capacity_bytes(), options.cache_bytes);
  EXPECT_EQ(info.inflight_requests(), 1);
  EXPECT_FALSE(info.draining());
}

TEST(ServicesTest, TablesAreListedInPagesAndEvictedOnTheAdminListenerOnly) {
  ServerOptions options = LoopbackOptions();
  options.admin_listen = {"127.0.0.1:0"};
  TestServer server(options);
  for (const v1::Dtype dtype : {v1::DTYPE_F32, v1::DTYPE_F16, v1::DTYPE_BF16}) {
    grpc::ClientContext context;
    v1::PrecomputeRequest request = LlamaTable(10);
    request.mutable_items(0)->set_dtype(dtype);
    v1::PrecomputeResponse response;
    ASSERT_TRUE(server.position().Precompute(&context, request, &response).ok());
  }
  std::vector<std::string> names;
  v1::ListTablesRequest list;
  list.set_page_size(2);
  do {
    grpc::ClientContext context;
    v1::ListTablesResponse page;
    ASSERT_TRUE(server.admin().ListTables(&context, list, &page).ok());
    for (const v1::CachedTable& table : page.tables()) names.push_back(table.name());
    list.set_page_token(page.next_page_token());
  } while (!list.page_token().empty());
  ASSERT_EQ(names.size(), 3u);

  v1::EvictTablesRequest evict;
  evict.add_names(names[0]);
  v1::EvictTablesResponse evicted;
  grpc::ClientContext public_context;
  grpc::Status status = server.admin().EvictTables(&public_context, evict, &evicted);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(DetailOf<google::rpc::ErrorInfo>(status).reason(), "ADMIN_LISTENER_ONLY");

  const auto admin = v1::AdminService::NewStub(Connect(server->admin_ports().front()));
  grpc::ClientContext admin_context;
  status = admin->EvictTables(&admin_context, evict, &evicted);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_GT(evicted.tiles(), 0);
  grpc::ClientContext again_context;
  status = admin->EvictTables(&again_context, evict, &evicted);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(DetailOf<google::rpc::ResourceInfo>(status).resource_name(), names[0]);
  // The names that there are.
  EXPECT_NE(status.error_message().find("there are: "), std::string::npos) << status.error_message();
  EXPECT_NE(status.error_message().find(names[1]), std::string::npos) << status.error_message();
  grpc::ClientContext nothing_context;
  EXPECT_EQ(admin->EvictTables(&nothing_context, v1::EvictTablesRequest(), &evicted).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  evict.Clear();
  evict.set_all(true);
  grpc::ClientContext all_context;
  ASSERT_TRUE(admin->EvictTables(&all_context, evict, &evicted).ok());
  EXPECT_TRUE(server->engine().ListTables().empty());
}

TEST(ServicesTest, AnInProcessChannelNeedsNoListener) {
  ServerOptions options = LoopbackOptions();
  options.listen.clear();
  TestServer server(options);
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, LlamaTable(100), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.results(0).cos().data().size(), 100u * 64 * 4);
}

}  // namespace
}  // namespace phasor::server
