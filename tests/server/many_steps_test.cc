// Works of very many steps: callers decide how many there are, by the batch rows that they name. They run to their end, with
// the bits of few.
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "kernels/backend.h"
#include "server/engine.h"
#include "server/work.h"
#include "tests/server/parse_text.h"

namespace phasor::server {
namespace {

std::string Flatten(const std::optional<Array>& array) {
  std::string bytes;
  if (!array) return bytes;
  for (const Bytes& piece : array->data) bytes.append(reinterpret_cast<const char*>(piece.data), piece.size);
  return bytes;
}

// Bytes as a literal of the text format.
template <typename T>
std::string Literal(const std::vector<T>& values) {
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  return absl::StrCat("'", absl::CHexEscape(bytes), "'");
}

class ManyStepsTest : public ::testing::Test {
 protected:
  PrecomputeResult Run(ValidatedPrecompute request) {
    std::promise<Answer<PrecomputeResult>> promise;
    engine_.Precompute(std::make_shared<CallContext>(), std::move(request),
                       [&promise](Answer<PrecomputeResult> answer) { promise.set_value(std::move(answer)); });
    Answer<PrecomputeResult> answer = promise.get_future().get();
    EXPECT_TRUE(answer.status.ok()) << answer.status;
    if (answer.results.empty()) return PrecomputeResult();
    EXPECT_TRUE(answer.results[0].status.ok()) << answer.results[0].status;
    return std::move(answer.results[0]);
  }
  PrecomputeResult One(const std::string& item) {
    auto parsed = Precompute(absl::StrCat("items { ", item, " }"));
    EXPECT_TRUE(parsed.ok()) << parsed.status();
    return Run(*std::move(parsed));
  }

  Engine engine_{EngineOptions(), *CreateBackend("cpu"), nullptr};
};

std::vector<int64_t> FarApart(int64_t rows) {
  std::vector<int64_t> places;
  for (int64_t row = 0; row < rows; ++row) places.push_back(row * 7919 % (int64_t{1} << 30));
  return places;
}

std::string Positions(const std::vector<int64_t>& places, int64_t batch) {
  return absl::StrCat("{ ids { dtype: DTYPE_I64 shape: [", batch, ", ", static_cast<int64_t>(places.size()) / batch,
                      "] data: ", Literal(places), " } }");
}

std::string AlibiOfRows(int64_t rows) {
  return absl::StrCat("spec { alibi { slopes: 1 } } bias { queries: 1 keys: 1 form: BIAS_FORM_FULL query_positions ",
                      Positions(FarApart(rows), rows), " }");
}

// As many steps as rows: a stack of them would overflow.
TEST_F(ManyStepsTest, TwoHundredThousandBatchRowsInOneCall) {
  constexpr int64_t kRows = 200'000;
  const std::string bytes = Flatten(One(AlibiOfRows(kRows)).bias);
  std::vector<float> bias(bytes.size() / sizeof(float));
  std::memcpy(bias.data(), bytes.data(), bytes.size());
  const std::vector<int64_t> places = FarApart(kRows);
  ASSERT_EQ(bias.size(), places.size());
  for (size_t i = 0; i < bias.size(); ++i) ASSERT_EQ(bias[i], -static_cast<float>(places[i])) << i;
}

TEST_F(ManyStepsTest, AndInAStream) {
  constexpr int64_t kRows = 200'000;
  v1::StreamPrecomputeRequest request;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(AlibiOfRows(kRows), request.add_items()));
  auto stream = RequestParser(Limits()).ParseStreamPrecompute(ToWire(request));
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE(stream->batch.items()[0].ok()) << stream->batch.items()[0].status();
  const std::shared_ptr<const Work> work = stream->batch.items()[0]->work;
  ASSERT_NE(work, nullptr);
  const WorkPiece piece = work->PieceAt(0, kRows, Bytes());
  ASSERT_EQ(piece.rows, kRows);
  EXPECT_GT(piece.work->parts(), 100) << "no more steps at once than those of a part";
}

constexpr int64_t kRows = 600, kTokens = 3;

// Rows on both sides of where parts meet: each has the bits that it has alone. `item` makes the item of some rows, from the
// first of them on.
template <typename Item>
void ExpectRowsAsAlone(const Item& item, const std::function<PrecomputeResult(const std::string&)>& one) {
  const std::string all = Flatten(one(item(0, kRows)).bias);
  ASSERT_EQ(all.size(), static_cast<size_t>(kRows * 2 * kTokens * kTokens * 4));
  const size_t row_bytes = all.size() / kRows;
  for (const int64_t row : {0, 1, 254, 255, 256, 257, 511, 512, 513, 598, 599}) {
    const std::string alone = Flatten(one(item(row, 1)).bias);
    ASSERT_EQ(alone.size(), row_bytes);
    EXPECT_EQ(std::memcmp(alone.data(), all.data() + static_cast<size_t>(row) * row_bytes, row_bytes), 0) << "row " << row;
  }
}

std::string Weight(const char* name, const std::string& shape, int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(0.25f * static_cast<float>(i % 7) - 0.5f);
  return absl::StrCat("weights { name: '", name, "' tensor { dtype: DTYPE_F32 shape: ", shape, " data: ", Literal(values),
                      " } } ");
}

TEST_F(ManyStepsTest, EachRowHasTheBitsThatItHasAlone) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < kRows * kTokens; ++i) {
    places.push_back(i / kTokens * 131 % 9973 + i % kTokens * (i / kTokens % 5 + 1));
  }
  const std::string perceptron = Weight("w1", "[5, 1]", 5) + Weight("b1", "[5]", 5) + Weight("w2", "[2, 5]", 10);
  const std::string specs[] = {
      "spec { alibi { num_heads: 2 } }",
      "spec { kerple { form: KERPLE_FORM_LOG r1: [0.25, 1.25] r2: [1.5, 2.5] } }",
      absl::StrCat("spec { dynamic_position_bias { } ", perceptron, Weight("b2", "[2]", 2), " }"),
      absl::StrCat("spec { fire { } ", perceptron, Weight("b2", "[2]", 2), " }"),
  };
  for (const std::string& spec : specs) {
    for (const char* masking : {"", " masking { causal: true }"}) {
      SCOPED_TRACE(absl::StrCat(spec.substr(0, 30), masking));
      ExpectRowsAsAlone(
          [&](int64_t row, int64_t count) {
            const auto begin = places.begin() + row * kTokens;
            const std::string at = Positions({begin, begin + count * kTokens}, count);
            return absl::StrCat(spec, " bias { queries: 3 keys: 3 form: BIAS_FORM_FULL query_positions ", at,
                                " key_positions ", at, masking, " }");
          },
          [this](const std::string& item) { return One(item); });
    }
  }
}

TEST_F(ManyStepsTest, EachRowHasItsOwnSlopes) {
  for (const char* masking : {"", " masking { causal: true }"}) {
    SCOPED_TRACE(masking);
    ExpectRowsAsAlone(
        [&](int64_t row, int64_t count) {
          std::string slopes;
          for (int64_t i = 2 * row; i < 2 * (row + count); ++i) absl::StrAppend(&slopes, i > 2 * row ? ", " : "", 0.5 + i);
          return absl::StrCat("spec { alibi { num_heads: 2 batch_slopes: [", slopes,
                              "] } } bias { queries: 3 keys: 3 form: BIAS_FORM_FULL", masking, " }");
        },
        [this](const std::string& item) { return One(item); });
  }
}

}  // namespace
}  // namespace phasor::server
