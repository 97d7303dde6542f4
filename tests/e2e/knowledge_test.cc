// Comparing, diagnosing, choosing, planning and drawing over a socket.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

template <typename Request, typename Response>
grpc::Status Call(TestServer& server,
                  grpc::Status (v1::CatalogService::Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                  const Request& request, Response* response) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  return (server.catalog().*method)(&context, request, response);
}

v1::EncodingSpec Rope(double base) {
  v1::EncodingSpec spec;
  spec.mutable_rope()->set_head_dim(64);
  spec.mutable_rope()->set_base(base);
  return spec;
}

// What the server itself answers for a spec, as somebody's unknown table.
v1::TableInput TableOf(TestServer& server, const v1::EncodingSpec& spec, int64_t start, int64_t rows, v1::Dtype dtype) {
  v1::PrecomputeRequest request;
  v1::PrecomputeItem& item = *request.add_items();
  *item.mutable_spec() = spec;
  item.set_dtype(dtype);
  item.mutable_table()->mutable_positions()->mutable_range()->set_start(start);
  item.mutable_table()->mutable_positions()->mutable_range()->set_count(rows);
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  EXPECT_TRUE(server.position().Precompute(&context, request, &response).ok());
  v1::TableInput table;
  *table.add_tensors() = response.results(0).cos();
  *table.add_tensors() = response.results(0).sin();
  return table;
}

TEST(KnowledgeTest, DiagnosesATableThatTheServerMade) {
  TestServer server;
  for (const v1::Dtype dtype : {v1::DTYPE_F32, v1::DTYPE_BF16}) {
    v1::DiagnoseRequest request;
    *request.mutable_table() = TableOf(server, Rope(500000), 4096, 128, dtype);
    v1::DiagnoseResponse response;
    const grpc::Status status = Call(server, &v1::CatalogService::Stub::Diagnose, request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    ASSERT_GT(response.hypotheses_size(), 0) << response.verdict();
    const v1::Hypothesis& best = response.hypotheses(0);
    EXPECT_TRUE(best.reproduces()) << response.DebugString();
    EXPECT_EQ(best.first_position(), 4096);
    EXPECT_LE(best.max_ulps(), 1);
    // The spec makes the same table again.
    const v1::TableInput again = TableOf(server, best.spec(), best.first_position(), 128, dtype);
    EXPECT_EQ(again.tensors(0).data(), request.table().tensors(0).data());
    EXPECT_EQ(again.tensors(1).data(), request.table().tensors(1).data());
    EXPECT_EQ(response.faults_size(), 0) << response.DebugString();
  }
}

TEST(KnowledgeTest, ComparesTwoBases) {
  TestServer server;
  v1::CompareSpecsRequest request;
  *request.mutable_a()->mutable_spec() = Rope(10000);
  *request.mutable_b()->mutable_spec() = Rope(500000);
  request.set_count(512);
  v1::CompareSpecsResponse response;
  const grpc::Status status = Call(server, &v1::CatalogService::Stub::CompareSpecs, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_FALSE(response.same_bits());
  ASSERT_EQ(response.fields_size(), 1);
  EXPECT_EQ(response.fields(0).field(), "rope.base");
  EXPECT_GT(response.max_difference(), 1);
  // Pair 0 turns a radian per position whatever the base.
  ASSERT_EQ(response.by_column_size(), 32);
  EXPECT_EQ(response.by_column(0).max(), 0);

  *request.mutable_b() = request.a();
  request.mutable_b()->mutable_spec()->mutable_rope()->clear_base();  // 10000 is the default
  ASSERT_TRUE(Call(server, &v1::CatalogService::Stub::CompareSpecs, request, &response).ok());
  EXPECT_TRUE(response.same_bits());
  EXPECT_EQ(response.max_difference(), 0);
}

TEST(KnowledgeTest, RecommendsASpecThatTheServerTakes) {
  TestServer server;
  v1::RecommendRequest request;
  request.set_task(v1::MODEL_TASK_LANGUAGE_MODEL);
  request.set_trained_length(8192);
  request.set_wanted_length(32768);
  request.set_tuning(v1::TUNING_SHORT);
  *request.mutable_current() = Rope(500000);
  request.set_head_dim(64);
  v1::RecommendResponse response;
  const grpc::Status status = Call(server, &v1::CatalogService::Stub::Recommend, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_GT(response.choices_size(), 0);
  for (const v1::Choice& choice : response.choices()) {
    EXPECT_FALSE(choice.reasons().empty()) << choice.scheme();
    v1::PrecomputeRequest check;
    check.set_validate_only(true);
    v1::PrecomputeItem& item = *check.add_items();
    *item.mutable_spec() = choice.spec();
    item.set_sequence_length(32768);
    if (choice.spec().has_rope()) {
      item.mutable_table()->mutable_positions()->mutable_range()->set_count(1);
    } else if (choice.spec().has_alibi()) {
      item.mutable_bias()->set_queries(1);
      item.mutable_bias()->set_keys(1);
    } else {
      continue;
    }
    grpc::ClientContext context;
    v1::PrecomputeResponse checked;
    ASSERT_TRUE(server.position().Precompute(&context, check, &checked).ok());
    EXPECT_EQ(checked.results(0).status().code(), 0) << choice.scheme() << ": " << checked.results(0).status().message();
  }
}

TEST(KnowledgeTest, PlansMemoryAndDraws) {
  TestServer server;
  v1::PlanMemoryRequest plan;
  plan.mutable_source()->mutable_spec()->mutable_alibi()->set_num_heads(32);
  plan.set_key_length(4096);
  v1::PlanMemoryResponse planned;
  grpc::Status status = Call(server, &v1::CatalogService::Stub::PlanMemory, plan, &planned);
  ASSERT_TRUE(status.ok()) << status.error_message();
  bool full = false;
  for (const v1::MemoryUse& use : planned.uses()) full |= use.bytes() == 32.0 * 4096 * 4096 * 4;
  EXPECT_TRUE(full) << planned.DebugString();
  EXPECT_FALSE(planned.advice().empty());

  v1::PlotRequest plot;
  plot.set_kind(v1::PLOT_KIND_WAVELENGTHS);
  *plot.mutable_subject()->mutable_spec() = Rope(10000);
  v1::PlotResponse drawn;
  status = Call(server, &v1::CatalogService::Stub::Plot, plot, &drawn);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(drawn.media_type(), "image/svg+xml");
  EXPECT_THAT(drawn.image(), HasSubstr("<svg"));
  EXPECT_FALSE(drawn.description().empty());
}

TEST(KnowledgeTest, RefusalsNameTheField) {
  TestServer server;
  v1::CompareSpecsResponse compared;
  v1::CompareSpecsRequest compare;
  *compare.mutable_a()->mutable_spec() = Rope(-1);
  *compare.mutable_b()->mutable_spec() = Rope(2);
  grpc::Status status = Call(server, &v1::CatalogService::Stub::CompareSpecs, compare, &compared);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("a.spec.rope.base"));

  v1::DiagnoseRequest diagnose;
  v1::DiagnoseResponse diagnosed;
  v1::Tensor& tensor = *diagnose.mutable_table()->add_tensors();
  tensor.set_dtype(v1::DTYPE_F32);
  tensor.add_shape(int64_t{1} << 40);
  status = Call(server, &v1::CatalogService::Stub::Diagnose, diagnose, &diagnosed);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("table.tensors[0]"));

  v1::PlotResponse drawn;
  status = Call(server, &v1::CatalogService::Stub::Plot, v1::PlotRequest(), &drawn);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("kind"));
}

}  // namespace
}  // namespace phasor::server
