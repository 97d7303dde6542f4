// What is computed in the caller's process has the bits, fingerprints and errors of what a server sends.
#include "client/local/local_client.h"

#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "tests/e2e/fixture.h"

namespace phasor::client {
namespace {

using ::testing::HasSubstr;

template <typename M>
M From(const std::string& text) {
  M message;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &message)) << text;
  return message;
}

std::unique_ptr<LocalClient> Local(const LocalOptions& options = {}) {
  auto made = LocalClient::Create(options);
  EXPECT_TRUE(made.ok()) << made.status();
  return *std::move(made);
}

// The bytes of a tensor whose data is a token.
std::string BytesOf(const v1::Tensor& tensor, const raw::Payloads& payloads) {
  const auto pieces = payloads.Find(tensor.data());
  EXPECT_TRUE(pieces.has_value());
  std::string bytes;
  if (!pieces) return bytes;
  for (const raw::Piece& piece : *pieces) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
  return bytes;
}

v1::Tensor Floats(const std::vector<int64_t>& shape) {
  v1::Tensor tensor;
  tensor.set_dtype(v1::DTYPE_F32);
  int64_t count = 1;
  for (int64_t extent : shape) {
    tensor.add_shape(extent);
    count *= extent;
  }
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>(i % 23) * 0.37f - 3);
  tensor.set_data(values.data(), values.size() * sizeof(float));
  return tensor;
}

// Tensors with their bytes in `data`, so that requests and answers of both sides compare as messages.
void Inline(v1::Tensor* tensor, const raw::Payloads& payloads) { tensor->set_data(BytesOf(*tensor, payloads)); }

// What may differ: how long it took, and where the table came from.
template <typename Result>
void DropOutcome(Result* result) {
  result->clear_cache();
  result->clear_stages();
}

const char* const kTables[] = {
    "spec { rope { head_dim: 64 } } table { positions { range { start: -5 count: 100 } } }",
    "spec { rope { head_dim: 64 } } dtype: DTYPE_BF16 table { form: TABLE_FORM_DUPLICATED positions { list { ids: [9, 2, "
    "70000] "
    "} } }",
    "spec { rope { head_dim: 32 yarn { factor: 4 original_max_position: 4096 } } } dtype: DTYPE_F64 precision: "
    "PRECISION_EXACT "
    "table { include_inv_freq: true positions { range { count: 9 } } }",
    "spec { rope { head_dim: 32 } } precision: PRECISION_COMPAT_F32 dtype: DTYPE_F16 table { positions { range { count: 9 } "
    "} }",
    "spec { sinusoidal { dim: 33 } } table { positions { range { count: 9 } } }",
    "spec { grid_sinusoidal { dim: 16 grid: [3, 4] } } table { positions { range { count: 12 } } }",
    "spec { alibi { num_heads: 5 } } bias { queries: 7 keys: 9 form: BIAS_FORM_FULL masking { causal: true } }",
    "spec { t5_bucket { num_heads: 1 num_buckets: 8 max_distance: 16 } } bias { indices: true queries: 7 keys: 9 }",
    "spec { rope { head_dim: 63 } } table { positions { range { count: 1 } } }",
    "spec { rope { head_dim: 8 } } table { positions { range { count: 99999999 } } }",
};

TEST(LocalClientTest, TablesAreThoseOfTheWire) {
  server::TestServer server;
  const auto local = Local();
  v1::PrecomputeRequest request;
  for (const char* text : kTables) *request.add_items() = From<v1::PrecomputeItem>(text);
  for (int round = 0; round < 2; ++round) {  // the second from its cache
    auto made = local->Precompute(request);
    ASSERT_TRUE(made.ok()) << made.status();
    grpc::ClientContext context;
    v1::PrecomputeResponse sent;
    ASSERT_TRUE(server.position().Precompute(&context, request, &sent).ok());
    ASSERT_EQ(made->message.results_size(), std::ssize(kTables));
    for (int i = 0; i < sent.results_size(); ++i) {
      v1::PrecomputeResult* result = made->message.mutable_results(i);
      if (i == 0 && round == 1) {
        EXPECT_EQ(result->cache(), v1::CACHE_OUTCOME_HIT);
      }
      for (const char* field : {"cos", "sin", "table", "bias", "inv_freq"}) {
        const auto* descriptor = result->GetDescriptor()->FindFieldByName(field);
        if (!result->GetReflection()->HasField(*result, descriptor)) continue;
        Inline(static_cast<v1::Tensor*>(result->GetReflection()->MutableMessage(result, descriptor)), made->payloads);
      }
      DropOutcome(result);
      DropOutcome(sent.mutable_results(i));
      EXPECT_EQ(result->SerializeAsString(), sent.results(i).SerializeAsString()) << kTables[i] << result->DebugString();
      EXPECT_EQ(result->status().code() != 0, i >= 8) << kTables[i];
    }
  }
}

TEST(LocalClientTest, TensorsAndScoresAreThoseOfTheWire) {
  server::TestServer server;
  const auto local = Local({.backend = "reference", .threads = 2});
  auto apply = From<v1::ApplyRequest>("items { spec { rope { head_dim: 8 } } positions { range { start: 70 } } }");
  *apply.mutable_items(0)->add_tensors() = Floats({2, 5, 3, 8});
  v1::ScoresRequest scores;
  *scores.add_items()->mutable_q() = Floats({1, 2, 4, 8});
  *scores.mutable_items(0)->mutable_k() = Floats({1, 2, 4, 8});

  v1::ApplyResponse applied;
  v1::ScoresResponse scored;
  grpc::ClientContext first, second;
  ASSERT_TRUE(server.position().Apply(&first, apply, &applied).ok());
  ASSERT_TRUE(server.position().Scores(&second, scores, &scored).ok());

  raw::Payloads payloads;
  const auto detach = [&](v1::Tensor* tensor) {
    auto bytes = std::make_shared<const std::string>(tensor->data());
    const raw::Piece piece{bytes, reinterpret_cast<const std::byte*>(bytes->data()), bytes->size()};
    tensor->set_data(payloads.Add({&piece, 1}));
  };
  detach(apply.mutable_items(0)->mutable_tensors(0));
  auto rotated = local->Apply(apply, payloads);
  ASSERT_TRUE(rotated.ok()) << rotated.status();
  EXPECT_EQ(BytesOf(rotated->message.results(0).tensors(0), rotated->payloads), applied.results(0).tensors(0).data());
  EXPECT_EQ(rotated->message.results(0).fingerprint(), applied.results(0).fingerprint());
  EXPECT_EQ(rotated->message.results(0).backend(), "reference");

  detach(scores.mutable_items(0)->mutable_q());
  detach(scores.mutable_items(0)->mutable_k());
  auto products = local->Scores(scores, payloads);
  ASSERT_TRUE(products.ok()) << products.status();
  EXPECT_EQ(BytesOf(products->message.results(0).scores(), products->payloads), scored.results(0).scores().data());
}

TEST(LocalClientTest, ErrorsAreThoseOfTheWire) {
  server::TestServer server;
  const auto client = Client::Over(server.channel());
  const auto local = Local();
  const auto far = client->Precompute({}), near = local->Precompute({});
  EXPECT_EQ(near.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(near.status(), far.status());  // payloads too
  EXPECT_TRUE(near.status().GetPayload(kDetailsPayload).has_value());

  const auto hasty = Local({.deadline = std::chrono::milliseconds(1)});
  const auto slow = From<v1::PrecomputeRequest>(
      "items { spec { rope { head_dim: 128 } } dtype: DTYPE_F64 table { positions { range { count: 500000 } } } }");
  EXPECT_EQ(hasty->Precompute(slow).status().code(), absl::StatusCode::kDeadlineExceeded);

  EXPECT_THAT(LocalClient::Create({.backend = "gpu"}).status().message(), HasSubstr("gpu"));
  EXPECT_THAT(LocalClient::Create({.threads = -1}).status().message(), HasSubstr("threads: given -1; allowed: 0"));
  EXPECT_THAT(LocalClient::Create({.cache_bytes = -1}).status().message(), HasSubstr("cache_bytes: given -1"));
  EXPECT_THAT(LocalClient::Create({.deadline = std::chrono::milliseconds(-1)}).status().message(), HasSubstr("-1 ms"));
}

// What an answer holds outlives the cache and the client that made it.
TEST(LocalClientTest, PayloadsOutliveTheClient) {
  auto local = Local({.cache_bytes = 0});
  const auto request = From<v1::PrecomputeRequest>(absl::StrCat("items { ", kTables[0], " }"));
  auto made = local->Precompute(request);
  ASSERT_TRUE(made.ok());
  const std::string before = BytesOf(made->message.results(0).cos(), made->payloads);
  local.reset();
  EXPECT_EQ(BytesOf(made->message.results(0).cos(), made->payloads), before);
  EXPECT_EQ(before.size(), 100u * 32 * 4);
}

}  // namespace
}  // namespace phasor::client
