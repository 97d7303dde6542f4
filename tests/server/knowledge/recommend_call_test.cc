// Recommend and PlanMemory as messages: what is refused, with its path, and that answers come through.
#include <algorithm>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "kernels/cpu/cpu_backend.h"
#include "server/knowledge/calls.h"
#include "server/spec_parser.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

constexpr char kLlama[] =
    R"({"model_type": "llama", "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
        "num_hidden_layers": 32, "rope_theta": 500000.0, "max_position_embeddings": 8192})";

struct Room {
  std::unique_ptr<Backend> backend = MakeCpuBackend();
  Limits limits;
  KnowledgeContext context{*backend, nullptr, limits};
};

v1::RecommendRequest Wanted() {
  v1::RecommendRequest request;
  request.set_task(v1::MODEL_TASK_LANGUAGE_MODEL);
  request.set_trained_length(8192);
  request.set_wanted_length(131072);
  request.set_tuning(v1::TUNING_SHORT);
  request.mutable_current()->mutable_rope()->set_head_dim(128);
  request.mutable_current()->mutable_rope()->mutable_default_schedule();
  return request;
}

// The error of a request after `change`.
template <typename Change>
std::string RecommendError(Change change) {
  const Room room;
  v1::RecommendRequest request = Wanted();
  change(request);
  const auto answer = Recommend(room.context, request);
  if (answer.ok()) return "OK";
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(answer.status().message());
}

TEST(RecommendCall, AnswersWithSpecsReadyToSend) {
  const Room room;
  const auto answer = Recommend(room.context, Wanted());
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GE(answer->choices_size(), 3);
  const v1::Choice& best = answer->choices(0);
  EXPECT_EQ(best.scheme(), "rope_yarn");
  EXPECT_EQ(best.rule(), "tune.yarn");
  EXPECT_EQ(best.form(), "half-width table");
  EXPECT_EQ(best.spec().rope().yarn().factor(), 16);
  EXPECT_GT(best.reasons_size(), 0);
  EXPECT_GT(best.checks_size(), 0);
  EXPECT_GT(best.figures_size(), 0);
  for (const v1::Choice& choice : answer->choices()) EXPECT_TRUE(CanonicalFromProto(choice.spec()).ok()) << choice.rule();
  EXPECT_GT(answer->rejected_size(), 0);
  EXPECT_FALSE(answer->rejected(0).rule().empty());
}

TEST(RecommendCall, NumbersThatAreLeftOutHaveDefaults) {
  const Room room;
  v1::RecommendRequest request;
  request.set_task(v1::MODEL_TASK_LANGUAGE_MODEL);
  request.set_trained_length(4096);
  const auto answer = Recommend(room.context, request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->choices(0).rule(), "new.lm.rope");
  EXPECT_EQ(answer->choices(0).spec().rope().head_dim(), 128);
  request = Wanted();
  request.mutable_current()->mutable_rope()->set_head_dim(64);
  EXPECT_EQ(Recommend(room.context, request)->choices(0).spec().rope().head_dim(), 64);
}

TEST(RecommendCall, ContradictionHasNoChoice) {
  const Room room;
  v1::RecommendRequest request = Wanted();
  request.set_tuning(v1::TUNING_NONE);
  const auto answer = Recommend(room.context, request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->choices_size(), 0);
  EXPECT_THAT(answer->contradiction(), HasSubstr("131072 tokens are 16 times the trained length"));
  EXPECT_THAT(answer->contradiction(), HasSubstr("Give up tuning none"));
}

TEST(RecommendCall, BadWishesAreNamed) {
  using Request = v1::RecommendRequest;
  EXPECT_THAT(RecommendError([](Request& r) { r.clear_task(); }),
              HasSubstr("task: given nothing; allowed: MODEL_TASK_LANGUAGE_MODEL"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_task(static_cast<v1::ModelTask>(99)); }), HasSubstr("task: given 99"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_target(static_cast<v1::DeployTarget>(9)); }),
              HasSubstr("target: given 9"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_tuning(static_cast<v1::Tuning>(-1)); }), HasSubstr("tuning: given -1"));
  EXPECT_THAT(RecommendError([](Request& r) { r.clear_trained_length(); }),
              HasSubstr("trained_length: given nothing; allowed: 1 … 2147483648"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_trained_length(-5); }), HasSubstr("trained_length: given -5"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_wanted_length((int64_t{1} << 31) + 1); }),
              HasSubstr("wanted_length: given 2147483649"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_num_heads(65537); }),
              HasSubstr("num_heads: given 65537; allowed: 1 … 65536"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_head_dim(-1); }), HasSubstr("head_dim: given -1"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_head_dim(64); }), HasSubstr("head_dim: given 64; allowed: 128"));
  EXPECT_THAT(RecommendError([](Request& r) {
                r.set_num_heads(16);
                r.mutable_current()->mutable_alibi()->set_num_heads(32);
              }),
              HasSubstr("num_heads: given 16; allowed: 32"));
  EXPECT_THAT(RecommendError([](Request& r) { r.set_memory_limit_bytes(-1); }), HasSubstr("memory_limit_bytes: given -1"));
  EXPECT_THAT(RecommendError([](Request& r) { r.mutable_current()->mutable_rope()->set_rotary_dim(65); }),
              HasSubstr("current.rope.rotary_dim: given 65"));
  EXPECT_THAT(RecommendError([](Request& r) { r.mutable_current()->Clear(); }), HasSubstr("current: given nothing"));
  EXPECT_THAT(RecommendError([](Request& r) {
                r.clear_current();
                r.set_tuning(v1::TUNING_NONE);
              }),
              HasSubstr("current: given nothing"));
}

v1::PlanMemoryRequest Planned(const char* config) {
  v1::PlanMemoryRequest request;
  request.mutable_source()->set_config_json(config);
  request.set_key_length(8192);
  return request;
}

TEST(PlanMemoryCall, ReadsAConfiguration) {
  const Room room;
  v1::PlanMemoryRequest request = Planned(kLlama);
  request.set_dtype(v1::DTYPE_BF16);
  const auto answer = PlanMemory(room.context, request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_GE(answer->uses_size(), 5);
  EXPECT_EQ(answer->uses(0).what(), "table");
  EXPECT_EQ(answer->uses(0).form(), "half width");
  EXPECT_EQ(answer->uses(0).bytes(), 2.0 * 8192 * 64 * 2);
  EXPECT_EQ(answer->uses(0).cached_bytes(), 2.0 * 8192 * 64 * 2);
  EXPECT_TRUE(answer->uses(0).advised());
  EXPECT_EQ(answer->uses(answer->uses_size() - 1).bytes(), 8192.0 * 8);  // ids of as many queries
  EXPECT_THAT(answer->advice(), HasSubstr("half-width table, 2 MiB"));
}

TEST(PlanMemoryCall, NumbersOfACheckpointHaveTheShapesOfTheConfiguration) {
  const Room room;
  const auto answer = PlanMemory(room.context, Planned(R"({"model_type": "t5", "d_model": 512, "d_kv": 64, "num_heads": 8,
      "num_layers": 6, "relative_attention_num_buckets": 32, "vocab_size": 32128})"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  const bool has_table = std::any_of(answer->uses().begin(), answer->uses().end(), [](const v1::MemoryUse& use) {
    return use.what() == "weights" && use.bytes() == 32.0 * 8 * 4;
  });
  EXPECT_TRUE(has_table) << answer->DebugString();
}

TEST(PlanMemoryCall, ATableThatIsShorterThanTheSequenceIsSaid) {
  const Room room;
  const auto answer = PlanMemory(room.context, Planned(R"({"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2,
      "n_positions": 1024})"));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_THAT(answer->advice(),
              HasSubstr("rows for positions 0 to 1023 only: 7168 of the 8192 positions asked for have none"));
}

template <typename Change>
std::string PlanError(Change change) {
  const Room room;
  v1::PlanMemoryRequest request = Planned(kLlama);
  change(request);
  const auto answer = PlanMemory(room.context, request);
  return answer.ok() ? "OK" : std::string(answer.status().message());
}

TEST(PlanMemoryCall, BadRequestsAreNamed) {
  using Request = v1::PlanMemoryRequest;
  EXPECT_THAT(PlanError([](Request& r) { r.clear_key_length(); }), HasSubstr("key_length: given nothing"));
  EXPECT_THAT(PlanError([](Request& r) { r.set_key_length((int64_t{1} << 31) + 1); }),
              HasSubstr("key_length: given 2147483649"));
  EXPECT_THAT(PlanError([](Request& r) { r.set_query_length(-1); }), HasSubstr("query_length: given -1"));
  EXPECT_THAT(PlanError([](Request& r) { r.set_batch(-1); }), HasSubstr("batch: given -1; allowed: 1 … 1048576"));
  EXPECT_THAT(PlanError([](Request& r) { r.set_dtype(v1::DTYPE_I64); }), HasSubstr("dtype: given DTYPE_I64"));
  EXPECT_THAT(PlanError([](Request& r) { r.clear_source(); }), HasSubstr("source: given nothing"));
  EXPECT_THAT(PlanError([](Request& r) { r.mutable_source()->mutable_table(); }), HasSubstr("source: given a table"));
  EXPECT_THAT(PlanError([](Request& r) { r.mutable_source()->mutable_spec(); }), HasSubstr("source.spec: given nothing"));
  EXPECT_THAT(PlanError([](Request& r) { r.mutable_source()->set_config_json("{"); }), HasSubstr("source.config_json"));
  EXPECT_THAT(PlanError([](Request& r) { r.mutable_source()->set_layer_type("x"); }),
              HasSubstr("source.layer_type: given x"));
}

}  // namespace
}  // namespace phasor::server
