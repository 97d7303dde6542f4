// Items of streams cut into pieces of every size: each row of each piece has the bits of the whole.
#include "server/stream_pieces.h"

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "kernels/backend.h"
#include "server/engine.h"
#include "server/request_parser.h"
#include "tests/proto/codec_check.h"
#include "tests/server/random_bias.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

grpc::ByteBuffer ToWire(const google::protobuf::Message& message) {
  std::mt19937_64 random(11);
  return raw::Split(message.SerializeAsString(), 13, random);
}

// The bytes of each array.
std::vector<std::string> ArraysOf(const PrecomputeResult& result) {
  std::vector<std::string> arrays;
  for (const std::optional<Array>* array : {&result.cos, &result.sin, &result.table, &result.bias}) {
    if (!*array) continue;
    std::string& bytes = arrays.emplace_back();
    for (const Bytes& piece : (*array)->data) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
  }
  return arrays;
}

std::vector<std::string> PartsOf(std::vector<std::string> arrays, int64_t begin, int64_t end) {
  for (std::string& bytes : arrays) bytes = bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin));
  return arrays;
}

absl::StatusOr<StreamRequest> ParseStream(const v1::PrecomputeItem& item, const Limits& limits = {}) {
  v1::StreamPrecomputeRequest request;
  *request.add_items() = item;
  return RequestParser(limits).ParseStreamPrecompute(ToWire(request));
}

// Limits within which Precompute makes nothing, so that what can be cut is.
Limits NoWhole() {
  Limits limits;
  limits.max_item_elements = 1;
  return limits;
}

v1::PrecomputeItem ItemOf(const std::string& text) {
  v1::PrecomputeItem item;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &item)) << text;
  return item;
}

class StreamPiecesTest : public ::testing::Test {
 protected:
  PrecomputeResult Run(ValidatedPrecompute request) {
    auto promise = std::make_shared<std::promise<Answer<PrecomputeResult>>>();
    auto future = promise->get_future();
    engine_.Precompute(std::make_shared<CallContext>(), std::move(request),
                       [promise](Answer<PrecomputeResult> answer) { promise->set_value(std::move(answer)); });
    Answer<PrecomputeResult> answer = future.get();
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    return std::move(answer.results[0]);
  }

  // Every row is asked for with every chunk size. False: the item is invalid, also as a whole.
  bool ExpectTheBitsOfTheWhole(const v1::PrecomputeItem& item, const Limits& limits) {
    v1::PrecomputeRequest request;
    *request.add_items() = item;
    auto parsed = RequestParser(Limits()).ParsePrecompute(ToWire(request));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    if (!parsed->items()[0].ok()) return false;
    const PrecomputeResult whole = Run(*std::move(parsed));
    EXPECT_TRUE(whole.status.ok()) << whole.status;
    const std::vector<std::string> expected = ArraysOf(whole);
    for (const int64_t chunk : {int64_t{8}, int64_t{300}, int64_t{5000}, int64_t{1} << 20}) {
      SCOPED_TRACE(absl::StrCat("chunks of ", chunk));
      auto stream = ParseStream(item, limits);
      EXPECT_TRUE(stream.ok()) << stream.status();
      const PrecomputeItem* in_stream = stream->batch.items()[0].ok() ? &*stream->batch.items()[0] : nullptr;
      EXPECT_NE(in_stream, nullptr) << stream->batch.items()[0].status();
      if (in_stream == nullptr) return true;
      const bool cut = !in_stream->whole;
      StreamPieces pieces(std::move(stream->batch), chunk, int64_t{1} << 30);
      const PrecomputeResult header = Run(pieces.Header(0));
      EXPECT_EQ(header.fingerprint, whole.fingerprint);
      const StreamExtent extent = ExtentOf(header);
      EXPECT_EQ(extent.array_bytes(), static_cast<int64_t>(expected[0].size()));
      const int64_t most = std::max(chunk, extent.row_bytes * extent.arrays);
      if (auto preparation = pieces.Preparation(0)) pieces.Keep(0, Run(*std::move(preparation)));
      for (int64_t row = 0; row < extent.rows; ++row) {
        StreamPieces::Piece piece = pieces.At(0, extent, row * extent.row_bytes);
        EXPECT_EQ(piece.begin, cut ? row * extent.row_bytes : 0);
        EXPECT_LE((piece.end - piece.begin) * extent.arrays, cut ? most : extent.array_bytes());
        EXPECT_LE(piece.bytes, pieces.MemoryOf(most));
        const PrecomputeResult made = Run(std::move(piece.request));
        EXPECT_TRUE(made.status.ok()) << made.status;
        if (ArraysOf(made) != PartsOf(expected, piece.begin, piece.end)) {
          ADD_FAILURE() << "other bits from row " << row << " of " << extent.rows << " on, to byte " << piece.end;
          return true;
        }
      }
    }
    return true;
  }

  Engine engine_{EngineOptions(), *CreateBackend("cpu"), nullptr};
};

TEST_F(StreamPiecesTest, BiasesWithMasksPositionsAndBatches) {
  std::map<int, int> valid;
  for (uint64_t seed = 0; seed < 24 * RandomBias::kSchemes && !HasFailure(); ++seed) {
    const RandomBias random(seed);
    SCOPED_TRACE(absl::StrCat("seed ", seed, ": ", random.item.ShortDebugString().substr(0, 2000)));
    valid[static_cast<int>(seed % RandomBias::kSchemes)] += ExpectTheBitsOfTheWhole(random.item, NoWhole()) ? 1 : 0;
  }
  EXPECT_EQ(valid.size(), static_cast<size_t>(RandomBias::kSchemes));
  for (const auto& [scheme, count] : valid) EXPECT_GE(count, 12) << "scheme " << scheme;
}

// One evaluation serves all heads and batch rows: what Precompute may make is made as a whole, with the same answer.
TEST_F(StreamPiecesTest, FunctionsOfPairsAreWholeWhereTheyMayBe) {
  const v1::PrecomputeItem fire = RandomBias(5).item;
  ASSERT_TRUE(fire.spec().has_fire());
  EXPECT_TRUE(ParseStream(fire)->batch.items()[0]->whole);
  EXPECT_FALSE(ParseStream(fire, NoWhole())->batch.items()[0]->whole);
  EXPECT_TRUE(ExpectTheBitsOfTheWhole(fire, Limits()));
  // A function of the distance alone has its few values made first.
  v1::PrecomputeItem dynamic = RandomBias(6).item;
  *dynamic.mutable_bias() = ItemOf("bias { queries: 9 keys: 30 form: BIAS_FORM_FULL masking { causal: true } }").bias();
  EXPECT_FALSE(ParseStream(dynamic)->batch.items()[0]->whole);
  EXPECT_TRUE(ExpectTheBitsOfTheWhole(dynamic, Limits()));
}

// What bounds an item of Precompute bounds a piece, and what pieces share.
TEST_F(StreamPiecesTest, LearnedFunctionsKeepToTheirLimitInPieces) {
  const auto refused = [](v1::PrecomputeItem item, const std::string& bias, int64_t products) {
    *item.mutable_bias() = ItemOf(bias).bias();
    item.set_dtype(v1::DTYPE_F32);
    Limits limits = NoWhole();
    limits.max_function_products = products;
    return std::string(ParseStream(item, limits)->batch.items()[0].status().message());
  };
  // 4 MiB of one of three heads, width 5; the whole has 2^32 pairs.
  const v1::PrecomputeItem fire = RandomBias(5).item;
  const std::string bias = "bias { queries: 65536 keys: 65536 form: BIAS_FORM_FULL masking { causal: true } }";
  EXPECT_EQ(refused(fire, bias, (int64_t{1} << 20) * 10), "");
  EXPECT_THAT(refused(fire, bias, (int64_t{1} << 20) * 10 - 1),
              HasSubstr("10485760 products of the spec's learned function for a piece"));
  // Of distances, all of which are made at once.
  const v1::PrecomputeItem dynamic = RandomBias(6).item;
  EXPECT_EQ(refused(dynamic, bias, (int64_t{1} << 17) * 20), "");
  EXPECT_THAT(refused(dynamic, bias, (int64_t{1} << 17) * 20 - 1), HasSubstr("2621440 products"));
}

TEST_F(StreamPiecesTest, TablesAtListsOfPositions) {
  for (const char* text : {
           "spec { rope { head_dim: 10 } } table { positions { list { ids: [5, 9, -3, 77777, 0, 1, 2, 3, 70000] } } }",
           "spec { rope { head_dim: 10 } } table { form: TABLE_FORM_CONCATENATED positions { packed { cu_seqlens: [0, 3, "
           "8] } } }",
           "spec { rope { head_dim: 16 axes { sections: 4 sections: 4 } } } table { form: TABLE_FORM_DUPLICATED inverse: "
           "true "
           "positions { grid { extents: 3 extents: 4 } } }",
           "spec { rope { head_dim: 32 xpos {} } } sequence_length: 30 table { role: TENSOR_ROLE_KEY inverse: true form: "
           "TABLE_FORM_CONCATENATED positions { list { ids: [5, 9, 3, 29, 0, 1] } } }",
           "spec { sinusoidal { dim: 9 padding_row: 3 position_offset: 1 } } table { positions { list { ids: [5, 2, 0, 2] } "
           "} }",
           "spec { learned { num_positions: 40 dim: 8 } } table { indices: true positions { list { ids: [5, 9, 3] } } }",
       }) {
    SCOPED_TRACE(text);
    EXPECT_TRUE(ExpectTheBitsOfTheWhole(ItemOf(text), NoWhole()));
  }
}

// The limits that hold for what Precompute makes say nothing here; a row and what goes with each position have theirs.
TEST_F(StreamPiecesTest, SizesHaveTheLimitsOfStreams) {
  const auto refused = [](const std::string& text, const Limits& limits = {}, int scheme = -1) {
    v1::PrecomputeItem item = ItemOf(text);
    if (scheme >= 0) *item.mutable_spec() = RandomBias(static_cast<uint64_t>(scheme)).item.spec();
    const auto stream = ParseStream(item, limits);
    return std::string(stream.ok() ? stream->batch.items()[0].status().message() : stream.status().message());
  };
  const std::string alibi = "spec { alibi { num_heads: 16 } } ";
  EXPECT_EQ(refused(alibi + "bias { queries: 16777216 keys: 1000 masking { causal: true } }"), "");
  EXPECT_EQ(refused(alibi + "bias { queries: 1000 keys: 16777216 masking { causal: true } }"), "");
  EXPECT_THAT(refused(alibi + "bias { queries: 1000 keys: 16777217 masking { causal: true } }"), HasSubstr("max_positions"));
  EXPECT_THAT(refused(alibi + "bias { queries: 100000 keys: 1000000 masking { causal: true } }"),
              HasSubstr("items[0].bias: given 6400000000000 bytes of answer; allowed: up to 1099511627776 (the server's "
                        "max_stream_bytes)"));
  EXPECT_THAT(refused("spec { t5_bucket { num_heads: 8 } } bias { queries: 16777217 keys: 8 indices: true }"),
              HasSubstr("max_positions"));
  // Nothing is made room for before that is known.
  EXPECT_THAT(refused("bias { queries: 2147483647 keys: 1 query_offset: 0 }", {}, 5), HasSubstr("max_positions"));
  Limits few;
  few.max_item_bytes = 64;
  EXPECT_THAT(refused("bias { queries: 4 keys: 4 form: BIAS_FORM_FULL }", few, 6),
              HasSubstr("84 bytes of values that all pieces share; allowed: up to 64"));
}

}  // namespace
}  // namespace phasor::server
