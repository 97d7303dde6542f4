// Attention scores over a socket: the goldens of every term, the bits of the kernels library, and errors field by field.
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/rpc/error_details.pb.h"
#include "gtest/gtest.h"

#include "server/spec_parser.h"
#include "tests/e2e/fixture.h"
#include "tests/kernels/program/score_cases.h"

namespace phasor::server {
namespace {

const std::vector<ScoreCase>& Cases() {
  static const ScoreCases cases = ReadScoreCases(PHASOR_GOLDEN_DIR "/scores/scores.txt");
  return cases.cases;
}

const ScoreCase& CaseOf(const std::string& name) {
  for (const ScoreCase& c : Cases()) {
    if (c.name == name) return c;
  }
  ADD_FAILURE() << name;
  return Cases().front();
}

void SetTensor(const std::vector<double>& numbers, std::vector<int64_t> shape, v1::Tensor* tensor) {
  tensor->set_dtype(v1::DTYPE_F64);
  for (int64_t extent : shape) tensor->add_shape(extent);
  tensor->set_data(numbers.data(), numbers.size() * sizeof(double));
}

v1::ScoresItem ItemOf(const ScoreCase& c) {
  const ScoreSettings settings = SettingsOf(c);
  v1::ScoresItem item;
  if (c.term != "none") {
    v1::EncodingSpec* term = item.add_terms();
    SpecToProto(settings.terms[0], term);
    term->clear_weights();
    for (const auto& [name, weight] : c.weights) {
      v1::Weight* message = term->add_weights();
      message->set_name(name);
      SetTensor(weight->values(), weight->shape, message->mutable_tensor());
    }
  }
  if (settings.rotation) SpecToProto(*settings.rotation, item.mutable_rotation());
  for (const EncodingSpec& bias : settings.biases) SpecToProto(bias, item.add_biases());
  if (settings.masking.causal) item.mutable_masking()->set_causal(true);
  if (settings.masking.window_before) item.mutable_masking()->set_sliding_window(*settings.masking.window_before);
  if (settings.masking.window_after) item.mutable_masking()->set_sliding_window_after(*settings.masking.window_after);
  item.set_omit_content(settings.omit_content);
  const auto set_positions = [](const std::vector<int64_t>& ids, v1::Positions* positions) {
    positions->mutable_list()->mutable_ids()->Add(ids.begin(), ids.end());
  };
  if (!c.query_positions.empty()) set_positions(settings.query_positions.ids, item.mutable_query_positions());
  if (!c.key_positions.empty()) set_positions(settings.key_positions.ids, item.mutable_key_positions());
  item.set_softmax(settings.softmax);
  if (settings.scale) item.set_scale(*settings.scale);
  if (settings.scale_order == ScaleOrder::kBiasThenScale) item.set_scale_order(v1::SCALE_ORDER_BIAS_THEN_SCALE);
  SetTensor(c.q, {c.batch, c.queries, c.heads, c.dim}, item.mutable_q());
  SetTensor(c.k, {c.batch, c.keys, c.key_heads, c.dim}, item.mutable_k());
  return item;
}

v1::ScoresResponse Call(TestServer& server, const v1::ScoresRequest& request) {
  grpc::ClientContext context;
  v1::ScoresResponse response;
  const grpc::Status status = server.position().Scores(&context, request, &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  return response;
}

v1::ScoresResult CallOne(TestServer& server, const v1::ScoresItem& item) {
  v1::ScoresRequest request;
  *request.add_items() = item;
  const v1::ScoresResponse response = Call(server, request);
  EXPECT_EQ(response.results_size(), 1);
  return response.results_size() == 1 ? response.results(0) : v1::ScoresResult();
}

// All goldens in one batch, each with the bits that the kernels library gives it alone.
TEST(ScoresServiceTest, GoldensInABatch) {
  TestServer server;
  v1::ScoresRequest request;
  for (const ScoreCase& c : Cases()) *request.add_items() = ItemOf(c);
  const v1::ScoresResponse response = Call(server, request);
  ASSERT_EQ(response.results_size(), static_cast<int>(Cases().size()));
  const auto cpu = CreateBackend("cpu");
  for (int i = 0; i < response.results_size(); ++i) {
    const ScoreCase& c = Cases()[static_cast<size_t>(i)];
    const v1::ScoresResult& result = response.results(i);
    SCOPED_TRACE(c.name);
    ASSERT_EQ(result.status().code(), 0) << result.status().message();
    const auto alone = RunScores(**cpu, SettingsOf(c), BytesOf(c.q, DType::kF64), BytesOf(c.k, DType::kF64));
    ASSERT_TRUE(alone.ok()) << alone.status();
    ASSERT_EQ(result.scores().data().size(), alone->scores.size());
    EXPECT_EQ(std::memcmp(result.scores().data().data(), alone->scores.data(), alone->scores.size()), 0);
    EXPECT_EQ(result.scores().shape_size(), 4);
    EXPECT_EQ(result.payload_bytes(), static_cast<int64_t>(alone->scores.size()));
    const auto program = ScoreProgram::Make(SettingsOf(c));
    EXPECT_EQ(result.scale(), program->ScaleWith(1));
    EXPECT_FALSE(result.has_values());
  }
}

TEST(ScoresServiceTest, LayoutsGiveTheSameScores) {
  TestServer server;
  const ScoreCase& c = CaseOf("transformer_xl");
  v1::ScoresItem item = ItemOf(c);
  const std::string expected = CallOne(server, item).scores().data();
  const auto lay = [&](const std::vector<double>& x, int64_t tokens, bool bhsd) {
    std::vector<double> out(x.size());
    for (int64_t b = 0; b < c.batch; ++b) {
      for (int64_t s = 0; s < tokens; ++s) {
        for (int64_t h = 0; h < c.heads; ++h) {
          for (int64_t d = 0; d < c.dim; ++d) {
            const int64_t to = bhsd ? (b * c.heads + h) * tokens + s : (s * c.batch + b) * c.heads + h;
            out[static_cast<size_t>(to * c.dim + d)] = x[static_cast<size_t>(((b * tokens + s) * c.heads + h) * c.dim + d)];
          }
        }
      }
    }
    return out;
  };
  for (bool bhsd : {true, false}) {
    item.set_layout(bhsd ? v1::LAYOUT_BHSD : v1::LAYOUT_SBHD);
    item.clear_q();
    item.clear_k();
    const auto shape = [&](int64_t tokens) {
      return bhsd ? std::vector<int64_t>{c.batch, c.heads, tokens, c.dim}
                  : std::vector<int64_t>{tokens, c.batch, c.heads, c.dim};
    };
    SetTensor(lay(c.q, c.queries, bhsd), shape(c.queries), item.mutable_q());
    SetTensor(lay(c.k, c.keys, bhsd), shape(c.keys), item.mutable_k());
    EXPECT_EQ(CallOne(server, item).scores().data(), expected) << bhsd;
  }
}

TEST(ScoresServiceTest, ShawValuesComeBesideProbabilities) {
  TestServer server;
  v1::ScoresItem item;
  v1::EncodingSpec* term = item.add_terms();
  term->mutable_shaw()->set_clip(1);
  for (const char* name : {"keys", "values"}) {
    v1::Weight* weight = term->add_weights();
    weight->set_name(name);
    SetTensor(name[0] == 'k' ? std::vector<double>(3) : std::vector<double>{4, 1, 16}, {3, 1}, weight->mutable_tensor());
  }
  item.set_softmax(true);
  SetTensor({0, 0}, {1, 2, 1, 1}, item.mutable_q());
  SetTensor({0, 0}, {1, 2, 1, 1}, item.mutable_k());
  const v1::ScoresResult result = CallOne(server, item);
  ASSERT_EQ(result.status().code(), 0) << result.status().message();
  double values[2];
  ASSERT_EQ(result.values().data().size(), sizeof(values));
  std::memcpy(values, result.values().data().data(), sizeof(values));
  EXPECT_EQ(values[0], 2.5);
  EXPECT_EQ(values[1], 8.5);
}

TEST(ScoresServiceTest, EmptySequences) {
  TestServer server;
  v1::ScoresItem item;
  SetTensor({}, {1, 0, 2, 4}, item.mutable_q());
  SetTensor(std::vector<double>(24), {1, 3, 2, 4}, item.mutable_k());
  const v1::ScoresResult result = CallOne(server, item);
  EXPECT_EQ(result.status().code(), 0) << result.status().message();
  EXPECT_EQ(result.scores().data().size(), 0u);
  EXPECT_EQ(result.scores().shape(2), 0);
}

// Queries without keys, and a mask of no numbers whose strides say that there are gaps between them.
TEST(ScoresServiceTest, MasksOfNoKeys) {
  TestServer server;
  v1::ScoresItem item;
  SetTensor(std::vector<double>(16), {1, 2, 2, 4}, item.mutable_q());
  SetTensor({}, {1, 0, 2, 4}, item.mutable_k());
  SetTensor({}, {2, 0}, item.mutable_masking()->mutable_additive());
  const std::string dense = CallOne(server, item).fingerprint();
  for (const int64_t stride : {5, 1}) item.mutable_masking()->mutable_additive()->add_strides(stride);
  const v1::ScoresResult result = CallOne(server, item);
  EXPECT_EQ(result.status().code(), 0) << result.status().message();
  EXPECT_EQ(result.scores().data().size(), 0u);
  EXPECT_EQ(result.fingerprint(), dense);
}

// Each sequence of a pack has the scores that it has alone: rotation, terms and biases count within it, as the masks do.
TEST(ScoresServiceTest, SequencesOfAPackAreAlone) {
  TestServer server;
  constexpr int64_t kQueryEnds[] = {0, 1, 1, 5}, kKeyEnds[] = {0, 4, 6, 9};
  const auto numbers = [](int64_t begin, int64_t end) {
    std::vector<double> values;
    for (int64_t i = begin * 8; i < end * 8; ++i) values.push_back(static_cast<double>(i * 37 % 19) / 8 - 1);
    return values;
  };
  v1::ScoresItem pack;
  pack.mutable_rotation()->mutable_rope()->set_head_dim(4);
  v1::AlibiSpec* alibi = pack.add_biases()->mutable_alibi();
  alibi->set_num_heads(2);
  v1::EncodingSpec* shaw = pack.add_terms();
  shaw->mutable_shaw()->set_clip(3);
  shaw->add_weights()->set_name("keys");
  std::vector<double> rows = numbers(2, 6);
  rows.resize(28);
  SetTensor(rows, {7, 4}, shaw->mutable_weights(0)->mutable_tensor());
  pack.mutable_masking()->set_causal(true);
  v1::ScoresItem alone = pack;
  pack.mutable_masking()->mutable_query_cu_seqlens()->Add(std::begin(kQueryEnds), std::end(kQueryEnds));
  pack.mutable_masking()->mutable_key_cu_seqlens()->Add(std::begin(kKeyEnds), std::end(kKeyEnds));
  SetTensor(numbers(0, 5), {1, 5, 2, 4}, pack.mutable_q());
  SetTensor(numbers(5, 14), {1, 9, 2, 4}, pack.mutable_k());
  const v1::ScoresResult whole = CallOne(server, pack);
  ASSERT_EQ(whole.status().code(), 0) << whole.status().message();
  const auto* all = reinterpret_cast<const double*>(whole.scores().data().data());
  for (const int s : {0, 2}) {
    const int64_t q = kQueryEnds[s], queries = kQueryEnds[s + 1] - q, k = kKeyEnds[s], keys = kKeyEnds[s + 1] - k;
    alone.clear_q();
    alone.clear_k();
    SetTensor(numbers(q, q + queries), {1, queries, 2, 4}, alone.mutable_q());
    SetTensor(numbers(5 + k, 5 + k + keys), {1, keys, 2, 4}, alone.mutable_k());
    const v1::ScoresResult part = CallOne(server, alone);
    ASSERT_EQ(part.status().code(), 0) << part.status().message();
    const auto* some = reinterpret_cast<const double*>(part.scores().data().data());
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < queries; ++i) {
        for (int64_t j = 0; j < keys; ++j) {
          EXPECT_EQ(all[(h * 5 + q + i) * 9 + k + j], some[(h * queries + i) * keys + j])
              << s << " " << h << " " << i << " " << j;
        }
      }
    }
  }
}

// Also where keys count towards one another: CoPE's gates, and forgetting gates, of which there is one for every key of the
// pack.
TEST(ScoresServiceTest, GatesOfAPackAreAlone) {
  TestServer server;
  constexpr int64_t kEnds[] = {0, 3, 4, 9}, kTokens = 9;
  const auto numbers = [](int64_t begin, int64_t end, int64_t modulus) {
    std::vector<double> values;
    for (int64_t i = begin; i < end; ++i) values.push_back(static_cast<double>(i * 37 % modulus) / 8 - 1);
    return values;
  };
  const std::vector<double> gates = numbers(3, 3 + 2 * kTokens, 23);
  const auto item = [&](int64_t first, int64_t end) {
    v1::ScoresItem made;
    v1::EncodingSpec* cope = made.add_terms();
    cope->mutable_cope();
    cope->add_weights()->set_name("e");
    SetTensor(numbers(1, 1 + 4 * 6, 17), {4, 6}, cope->mutable_weights(0)->mutable_tensor());
    v1::EncodingSpec* forgetting = made.add_biases();
    forgetting->mutable_forgetting_bias();
    forgetting->add_weights()->set_name("gates");
    std::vector<double> part;
    for (int64_t h = 0; h < 2; ++h) part.insert(part.end(), &gates[h * kTokens + first], &gates[h * kTokens] + end);
    SetTensor(part, {2, end - first}, forgetting->mutable_weights(0)->mutable_tensor());
    made.mutable_masking()->set_causal(true);
    SetTensor(numbers(first * 8, end * 8, 19), {1, end - first, 2, 4}, made.mutable_q());
    SetTensor(numbers(100 + first * 8, 100 + end * 8, 19), {1, end - first, 2, 4}, made.mutable_k());
    return made;
  };
  v1::ScoresItem pack = item(0, kTokens);
  pack.mutable_masking()->mutable_query_cu_seqlens()->Add(std::begin(kEnds), std::end(kEnds));
  const v1::ScoresResult whole = CallOne(server, pack);
  ASSERT_EQ(whole.status().code(), 0) << whole.status().message();
  const auto* all = reinterpret_cast<const double*>(whole.scores().data().data());
  for (size_t s = 0; s + 1 < std::size(kEnds); ++s) {
    const int64_t first = kEnds[s], tokens = kEnds[s + 1] - first;
    const v1::ScoresResult part = CallOne(server, item(first, first + tokens));
    ASSERT_EQ(part.status().code(), 0) << part.status().message();
    const auto* some = reinterpret_cast<const double*>(part.scores().data().data());
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < tokens; ++i) {
        for (int64_t j = 0; j < tokens; ++j) {
          EXPECT_EQ(all[(h * kTokens + first + i) * kTokens + first + j], some[(h * tokens + i) * tokens + j])
              << s << " " << h << " " << i << " " << j;
        }
      }
    }
  }
}

std::string FieldOf(const google::rpc::Status& status) {
  for (const auto& any : status.details()) {
    google::rpc::BadRequest bad;
    if (any.UnpackTo(&bad) && bad.field_violations_size() > 0) return bad.field_violations(0).field();
  }
  return status.message();
}

TEST(ScoresServiceTest, ErrorsNameTheField) {
  ServerOptions options = LoopbackOptions();
  options.limits.max_score_elements = 1000;
  options.limits.max_function_products = 2000;
  TestServer server(options);
  const auto with = [&](const char* name, auto change) {
    v1::ScoresItem item = ItemOf(CaseOf(name));
    change(item);
    const v1::ScoresResult result = CallOne(server, item);
    return result.status().code() == 0 ? std::string() : FieldOf(result.status());
  };
  EXPECT_EQ(with("cope", [](auto&) {}), "");
  EXPECT_EQ(with("cope", [](auto& i) { i.set_layout(v1::LAYOUT_THD); }), "items[0].layout");
  EXPECT_EQ(with("cope", [](auto& i) { i.mutable_k()->set_dtype(v1::DTYPE_F32); }).substr(0, 10), "items[0].k");
  EXPECT_EQ(with("cope", [](auto& i) { i.clear_q(); }).substr(0, 10), "items[0].q");
  EXPECT_EQ(with("cope", [](auto& i) { i.set_scale(-1); }), "items[0].scale");
  EXPECT_EQ(with("cope", [](auto& i) { i.set_first_head(-1); }), "items[0].first_head");
  EXPECT_EQ(with("cope", [](auto& i) { i.set_dtype(v1::DTYPE_I32); }), "items[0].dtype");
  EXPECT_EQ(with("cope", [](auto& i) { i.mutable_query_scale(); }), "items[0].query_scale");
  EXPECT_EQ(with("cope", [](auto& i) { *i.add_terms() = i.terms(0); }), "items[0].terms[1]");
  EXPECT_EQ(with("cope", [](auto& i) { *i.add_biases() = i.terms(0); }), "items[0].biases[0]");
  EXPECT_EQ(with("cope", [](auto& i) { i.mutable_rotation()->mutable_rope()->set_head_dim(6); }),
            "items[0].rotation.rope.head_dim");
  EXPECT_EQ(with("cope", [](auto& i) { i.mutable_masking()->set_chunk_size(0); }), "items[0].masking.chunk_size");
  EXPECT_EQ(with("cope", [](auto& i) { i.mutable_terms(0)->clear_weights(); }), "items[0].terms[0].weights");
  EXPECT_EQ(with("cope", [](auto& i) { i.mutable_key_positions()->mutable_list()->add_ids(1); }).substr(0, 22),
            "items[0].key_positions");
  // Weights by their place, as the spec's own errors have it.
  v1::ScoresItem narrow;
  narrow.add_terms()->mutable_shaw()->set_clip(1);
  for (const char* name : {"values", "keys"}) {
    v1::Weight* weight = narrow.mutable_terms(0)->add_weights();
    weight->set_name(name);
    SetTensor(std::vector<double>(6), {3, 2}, weight->mutable_tensor());
  }
  SetTensor({0, 0}, {1, 2, 1, 1}, narrow.mutable_q());
  SetTensor({0, 0}, {1, 2, 1, 1}, narrow.mutable_k());
  EXPECT_EQ(FieldOf(CallOne(server, narrow).status()), "items[0].terms[0].weights[1].tensor.shape");
  // 20·20·2 scores pass, 2·2·… of a larger case do not.
  EXPECT_EQ(with("deberta", [](auto&) {}), "");
  v1::ScoresItem large;
  SetTensor(std::vector<double>(40), {1, 40, 1, 1}, large.mutable_q());
  SetTensor(std::vector<double>(40), {1, 40, 1, 1}, large.mutable_k());
  // A FIRE bias costs its function for every pair.
  v1::ScoresItem learned;
  SetTensor(std::vector<double>(20), {1, 20, 1, 1}, learned.mutable_q());
  SetTensor(std::vector<double>(20), {1, 20, 1, 1}, learned.mutable_k());
  const auto add_fire = [&learned](int64_t width) {
    v1::EncodingSpec* bias = learned.add_biases();
    bias->mutable_fire();
    for (const auto& [name, shape] :
         {std::pair{"w1", std::vector<int64_t>{width, 1}}, {"b1", {width}}, {"w2", {1, width}}, {"b2", {1}}}) {
      v1::Weight* weight = bias->add_weights();
      weight->set_name(name);
      const int64_t count = std::string_view(name) == "b2" ? 1 : width;
      SetTensor(std::vector<double>(static_cast<size_t>(count)), shape, weight->mutable_tensor());
    }
  };
  add_fire(2);
  EXPECT_EQ(CallOne(server, learned).status().code(), 0) << CallOne(server, learned).status().message();
  add_fire(3);
  EXPECT_EQ(FieldOf(CallOne(server, learned).status()), "items[0].biases[1]");  // 20·20·6 products
  const v1::ScoresResult refused = CallOne(server, large);
  EXPECT_NE(refused.status().code(), 0);
  EXPECT_NE(refused.status().message().find("max_score_elements"), std::string::npos) << refused.status().message();
}

}  // namespace
}  // namespace phasor::server
