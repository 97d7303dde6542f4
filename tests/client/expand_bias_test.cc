// A vector of the server, expanded, has the bytes of the server's full form.
#include "client/expand_bias.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::client {
namespace {

using ::testing::HasSubstr;

std::string Bias(server::TestServer& server, v1::Dtype dtype, int64_t queries, int64_t keys, v1::BiasForm form) {
  v1::PrecomputeRequest request;
  v1::PrecomputeItem* item = request.add_items();
  item->mutable_spec()->mutable_alibi()->set_num_heads(5);
  item->set_dtype(dtype);
  item->mutable_bias()->set_queries(queries);
  item->mutable_bias()->set_keys(keys);
  item->mutable_bias()->set_query_offset(3);
  item->mutable_bias()->set_form(form);
  grpc::ClientContext context;
  v1::PrecomputeResponse response;
  const grpc::Status status = server.position().Precompute(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response.results(0).bias().data();
}

TEST(ExpandBiasTest, HasTheBytesOfTheFullForm) {
  server::TestServer server;
  for (const auto& [dtype, size] :
       {std::pair{v1::DTYPE_F64, 8}, std::pair{v1::DTYPE_F32, 4}, std::pair{v1::DTYPE_BF16, 2}}) {
    for (const auto& [queries, keys] :
         {std::pair{1, 1}, std::pair{7, 3}, std::pair{1, 40}, std::pair{64, 1}, std::pair{50, 77}}) {
      const std::string vector = Bias(server, dtype, queries, keys, v1::BIAS_FORM_VECTOR);
      const std::string full = Bias(server, dtype, queries, keys, v1::BIAS_FORM_FULL);
      std::string made(full.size(), '\0');
      ASSERT_EQ(
          ExpandBias(std::as_bytes(std::span(vector)), size, 5, queries, keys, std::as_writable_bytes(std::span(made))),
          absl::OkStatus());
      EXPECT_TRUE(made == full) << queries << " × " << keys;
    }
  }
}

TEST(ExpandBiasTest, SizesMustAgree) {
  std::vector<std::byte> vector(12), full(20);
  const auto error = [&](int64_t size, int64_t heads, int64_t queries, int64_t keys) {
    return std::string(ExpandBias(vector, size, heads, queries, keys, full).message());
  };
  EXPECT_EQ(error(2, 1, 2, 5), "");
  EXPECT_THAT(error(2, 1, 3, 5), HasSubstr("vector: given 12 bytes; allowed: 14"));
  EXPECT_EQ(error(2, 1, 5, 2), "");
  EXPECT_THAT(error(2, 1, 1, 6), HasSubstr("full: given 20 bytes; allowed: 12"));
  EXPECT_THAT(error(0, 1, 2, 5), HasSubstr("element_size: given 0"));
  EXPECT_THAT(error(4, 1, 0, 3), HasSubstr("0 queries"));
  EXPECT_THAT(error(16, int64_t{1} << 40, int64_t{1} << 40, int64_t{1} << 40), HasSubstr("extents that fit in 63 bits"));
}

}  // namespace
}  // namespace phasor::client
