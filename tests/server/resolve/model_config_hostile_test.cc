// Configurations that nobody publishes: lists and objects as large as a file can hold, names that are not names, numbers of
// the wrong kind, widths that divide to nothing. Each is answered quickly, or refused with the path of its key.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

using ::testing::AllOf;
using ::testing::Field;
using ::testing::HasSubstr;

SpecError ErrorOf(std::string_view json) {
  const auto model = ReadModelConfig(json);
  EXPECT_FALSE(model.ok()) << json.substr(0, 200);
  if (model.ok()) return {};
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  return SpecErrorOf(model.status()).value_or(SpecError());
}

auto Is(const std::string& field, const std::string& given, const std::string& allowed) {
  return AllOf(Field(&SpecError::field, field), Field(&SpecError::given, HasSubstr(given)),
               Field(&SpecError::allowed, HasSubstr(allowed)));
}

// `entry` so many times, with commas.
std::string Times(int64_t count, std::string_view entry) {
  std::string text(entry);
  for (int64_t i = 1; i < count; ++i) text.append(",").append(entry);
  return text;
}

std::string ListOf(int64_t count, std::string_view entry) { return absl::StrCat("[", Times(count, entry), "]"); }

std::string Model(const std::string& type, const std::string& keys) {
  return absl::StrCat(R"({"model_type":")", type, "\",", keys, "}");
}

// Linear work takes a small part of this even in the slowest build; what grows with the square takes many times as much.
constexpr std::chrono::seconds kSoon{10};

bool IsAnsweredSoon(const std::string& json) {
  const auto start = std::chrono::steady_clock::now();
  ReadModelConfig(json).IgnoreError();
  return std::chrono::steady_clock::now() - start < kSoon;
}

TEST(HostileKeys, OfPerLayerConfigAreNumbersOrNotRead) {
  const auto head_dim = [](const std::string& keys) {
    const ModelEncoding model = Read(Model("gemma4_text", R"("num_hidden_layers":2,"per_layer_config":{)" + keys + "}"));
    return RopeOf(LayerOf(model, "full_attention")).head_dim;  // layer 1
  };
  for (const char* key : {"", "0", "00", "x", "1x", "-1", "99999999999999999999", " ", "+", "--1"}) {
    EXPECT_EQ(head_dim(absl::StrCat("\"", key, R"(":{"head_dim":64})")), 256) << key;
  }
  for (const char* key : {"1", "01", "0001"})
    EXPECT_EQ(head_dim(absl::StrCat("\"", key, R"(":{"head_dim":64})")), 64) << key;
  EXPECT_EQ(head_dim(R"("1":{"head_dim":64},"01":{"head_dim":32})"), 32);
  EXPECT_EQ(ErrorField(Model("gemma4_text", R"("num_hidden_layers":2,"per_layer_config":[])")), "per_layer_config");
  EXPECT_EQ(ErrorField(Model("gemma4_text", R"("num_hidden_layers":2,"per_layer_config":{"01":7})")), "per_layer_config.01");
}

// RapidJSON reads beside its table of powers on the way to some numbers near zero.
TEST(HostileNumbers, NearZeroOfAnyLengthAreRead) {
  for (const std::string& number : std::vector<std::string>{
           "0.00000000000000000000000001e-323", "0." + std::string(350, '0') + "1",
           "-0." + std::string(100000, '0') + "1e-5", "0." + std::string(360, '0') + "1e360", "1e-400", "1e-5000"}) {
    EXPECT_TRUE(ReadModelConfig(Llama(absl::StrCat("\"zzz\":", number))).ok()) << number.substr(0, 60);
    EXPECT_TRUE(ReadModelConfig(Llama(absl::StrCat("\"zzz\":[\"a\\\"\",", number, "]"))).ok()) << number.substr(0, 60);
  }
  const auto base = [](const std::string& number) {
    return RopeOf(Read(Llama(absl::StrCat("\"rope_theta\":", number))).layers[0]).base.value_or(0);
  };
  EXPECT_EQ(base("10000." + std::string(40, '0')), 10000);
  EXPECT_EQ(base("0." + std::string(400, '0') + "5e405"), 50000);
  EXPECT_EQ(base("123456.78901234567890123456789012345678901234567890"), 123456.78901234567890123456789);
  EXPECT_FALSE(ReadModelConfig(Llama("\"zzz\":0000000000000000000000000000001")).ok());
  EXPECT_TRUE(ReadModelConfig(Llama(R"("zzz":"0.00000000000000000000000001e-323 \" 1")")).ok());
}

TEST(HostileKeys, OfADictThatSaysWhatItIsAreNoLayerTypes) {
  const ModelEncoding plain = Read(Llama(R"("rope_scaling":{"rope_type":"linear","factor":4})"));
  const ModelEncoding beside = Read(Llama(R"("rope_scaling":{"rope_type":"linear","factor":4,"metadata":{"x":1}})"));
  ASSERT_EQ(beside.layers.size(), 1u);
  EXPECT_EQ(beside.layers[0].layer_type, "");
  EXPECT_EQ(RopeOf(beside.layers[0]), RopeOf(plain.layers[0]));
  EXPECT_TRUE(HasNote(beside.layers[0].warnings, "rope_scaling.metadata", "") ||
              HasNote(beside.warnings, "rope_scaling.metadata", ""));
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":{"rope_type":"linear","factor":{"a":1}})")), "rope_scaling.factor");
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":{"rope_type":{"a":1},"factor":4})")), "rope_scaling.rope_type");
}

TEST(HostileKeys, OfPerLayerConfigThatAnswerNothingAreCounted) {
  const auto warnings = [](const std::string& type, const std::string& keys) {
    return Read(Model(type, R"("num_hidden_layers":6,"per_layer_config":{)" + keys + "}")).warnings;
  };
  // Layers 0 to 4 slide; the answer is that of layer 0.
  EXPECT_TRUE(HasNote(warnings("gemma4_text", R"("0":{"head_dim":64})"), "per_layer_config",
                      "layer 0 is answered for 5 layers, of which 4 have other numbers"));
  EXPECT_TRUE(HasNote(warnings("gemma4_text", R"("1":{"head_dim":64})"), "per_layer_config", "of which 1 have other"));
  EXPECT_FALSE(HasNote(warnings("gemma4_text", R"("5":{"head_dim":64})"), "per_layer_config", ""));
  EXPECT_TRUE(HasNote(warnings("gemma4_text", R"("99":{},"x":1)"), "per_layer_config", "2 entries are not read"));
  EXPECT_TRUE(HasNote(warnings("llama", R"("1":{"head_dim":64})"), "per_layer_config", "1 entries are not read"));
}

TEST(HostileKeys, OfTextThatSaysNothingLeaveTheFileAsItIs) {
  for (const char* key : {"text_config", "thinker_config", "llm_config"}) {
    const ModelEncoding model =
        Read(Llama(absl::StrCat(R"("hidden_size":256,"num_attention_heads":4,")", key, R"(":{"foo":1})")));
    ASSERT_EQ(model.layers.size(), 1u) << key;
    EXPECT_EQ(RopeOf(model.layers[0]).head_dim, 64) << key;
    EXPECT_EQ(model.layers[0].num_q_heads, 4) << key;
    EXPECT_TRUE(HasNote(model.warnings, key, "says nothing of a network")) << key;
  }
}

TEST(HostileKeys, OfHeadsByLayerAreSaid) {
  const ModelEncoding model = Read(Llama(R"("num_attention_heads":[4,4],"head_dim":64)"));
  EXPECT_EQ(model.layers[0].num_q_heads, 0);
  EXPECT_TRUE(HasNote(model.warnings, "num_attention_heads", "a list"));
}

TEST(HostileKeys, OneThatIsRepeatedIsReadOnce) {
  std::string large = "{";
  for (int i = 0; i < 30000; ++i) absl::StrAppend(&large, i == 0 ? "" : ",", "\"", i, "\":0");
  EXPECT_TRUE(IsAnsweredSoon(Llama(absl::StrCat(Times(30000, R"("a_config":{})"), ",\"a_config\":", large, "}"))));
}

TEST(HostileKeys, AClassWithALongNameIsReadOnceForAllItsParts) {
  std::string parts;
  for (int i = 0; i < 30000; ++i) absl::StrAppend(&parts, ",\"", i, "_config\":{}");
  EXPECT_TRUE(IsAnsweredSoon(absl::StrCat(R"({"model_type":")", std::string(1 << 20, 'x'), "\"", parts, "}")));
}

TEST(HostileLists, NamesOfLayersAreBounded) {
  const std::string many = ListOf(10001, "\"conv\""), name = absl::StrCat("[\"", std::string(65, 'a'), "\"]");
  std::string types;
  for (int i = 0; i < 17; ++i) absl::StrAppend(&types, i == 0 ? "" : ",", "\"t", i, "\"");
  for (const char* type : {"llama", "cohere2_moe", "muse_spark_text", "gemma4_text", "inkling_text"}) {
    EXPECT_THAT(ErrorOf(Model(type, "\"layer_types\":" + many)), Is("layer_types", "10001 entries", "at most 10000"))
        << type;
    EXPECT_THAT(ErrorOf(Model(type, "\"layer_types\":" + name)), Is("layer_types[0]", "65 bytes", "at most 64")) << type;
    EXPECT_THAT(ErrorOf(Model(type, "\"layer_types\":[" + types + "]")), Is("layer_types", "17 different", "at most 16"))
        << type;
  }
  EXPECT_THAT(ErrorOf(Model("cohere2_moe", "\"mlp_layer_types\":" + many)), Is("mlp_layer_types", "10001", "10000"));
  EXPECT_THAT(ErrorOf(Model("deepseek_v4", "\"layer_types\":" + many)), Is("layer_types", "10001", "10000"));
  EXPECT_THAT(ErrorOf(Model("zamba2", "\"use_mem_rope\":true,\"layers_block_type\":" + many)),
              Is("layers_block_type", "10001", "10000"));
  EXPECT_THAT(ErrorOf(Model("recurrent_gemma", "\"block_types\":" + many)), Is("block_types", "10001", "10000"));
}

TEST(HostileLists, NumbersOfLayersAreBounded) {
  const std::string many = ListOf(10001, "1");
  const auto refuses = [&](const std::string& type, const std::string& key) {
    EXPECT_THAT(ErrorOf(Model(type, absl::StrCat("\"", key, "\":", many))), Is(key, "10001 entries", "at most 10000"))
        << type;
  };
  refuses("inkling_text", "local_layer_ids");
  refuses("bamba", "attn_layer_indices");
  refuses("minimax", "attn_type_list");
  refuses("mimo_v2_flash", "hybrid_layer_pattern");
  refuses("deepseek_v4", "compress_ratios");
  refuses("smollm3", "no_rope_layers");
  refuses("muse_spark_text", "layer_rope_theta");
  refuses("molmo2_text", "rope_scaling_layers");
  refuses("ultrabert", "attention_windows");
  EXPECT_THAT(ErrorOf(Model("nobody_knows", R"("head_dim":64,"swa_rope_theta":1e4,"hybrid_layer_pattern":)" + many)),
              Is("hybrid_layer_pattern", "10001 entries", "at most 10000"));
}

TEST(HostileLists, InklingsLocalLayersAreASet) {
  const ModelEncoding model = Read(Model("inkling_text", R"("num_hidden_layers":4,"local_layer_ids":[3,0,3])"));
  EXPECT_EQ(LayerOf(model, "hybrid_sliding").layers, (std::vector<int64_t>{0, 3}));
}

TEST(HostileLists, BiasesOfUdopAreBounded) {
  EXPECT_THAT(ErrorOf(Model("udop", "\"relative_bias_args\":" + ListOf(17, "{}"))),
              Is("relative_bias_args", "a list of 17", "at most 16"));
}

TEST(HostileLists, StagesOfDinat) {
  EXPECT_EQ(ErrorField(Model("dinat", R"("depths":7)")), "depths");
  EXPECT_THAT(ErrorOf(Model("dinat", R"("depths":[])")), Is("depths", "0 entries", "1 … 16"));
  EXPECT_THAT(ErrorOf(Model("dinat", "\"depths\":" + ListOf(17, "1"))), Is("depths", "17 entries", "1 … 16"));
  EXPECT_THAT(ErrorOf(Model("dinat", R"("depths":[1,10001],"num_heads":[1,1])")), Is("depths[1]", "10001", "1 … 10000"));
  EXPECT_THAT(ErrorOf(Model("dinat", R"("depths":[1,0],"num_heads":[1,1])")), Is("depths[1]", "0", "1 … "));
  EXPECT_THAT(ErrorOf(Model("dinat", R"("depths":[1,1],"num_heads":[1])")), Is("num_heads", "1 entries", "each of the 2"));
  EXPECT_THAT(ErrorOf(Model("dinat", R"("depths":[1,1,1,1,1])")), Is("depths", "5 stages", "at most 4 without num_heads"));
  const ModelEncoding model = Read(Model("dinat", R"("depths":[1,2],"num_heads":[2,4,8])"));
  EXPECT_EQ(LayerOf(model, "stage2").layers, (std::vector<int64_t>{1, 2}));
  EXPECT_TRUE(HasNote(model.warnings, "num_heads", "3 entries for 2 stages"));
  EXPECT_TRUE(HasNote(LayerOf(model, "stage1").defaults, "kernel_size", "7 (default of class "));
}

TEST(HostileLists, StagesOfPvt) {
  EXPECT_EQ(ErrorField(Model("pvt", R"("patch_sizes":7)")), "patch_sizes");
  EXPECT_THAT(ErrorOf(Model("pvt", R"("patch_sizes":[4,2,2])")), Is("patch_sizes", "3 entries", "each of the 4"));
  EXPECT_THAT(ErrorOf(Model("pvt", R"("patch_sizes":[4,2,2,0])")), Is("patch_sizes[3]", "0", "1 … "));
  EXPECT_THAT(ErrorOf(Model("pvt", R"("hidden_sizes":[4,2,0,2])")), Is("hidden_sizes[2]", "0", "1 … "));
  EXPECT_THAT(ErrorOf(Model("pvt", R"("hidden_sizes":[64])")), Is("hidden_sizes", "1 entries", "each of the 4"));
  EXPECT_THAT(ErrorOf(Model("pvt", R"("num_encoder_blocks":5)")), Is("num_encoder_blocks", "5", "at most 4 without"));
  EXPECT_THAT(ErrorOf(Model("pvt", R"("patch_sizes":[4,2,2,200])")), Is("patch_sizes", "200 in stage 4", "image_size"));
}

TEST(HostileLists, NamesOfTermsMakeOneWarning) {
  const ModelEncoding model =
      Read(Model("deberta-v2", R"("relative_attention":true,"pos_att_type":["c2p",)" + Times(1000, "\"x\"") + "]"));
  EXPECT_EQ(std::count_if(model.warnings.begin(), model.warnings.end(),
                          [](const Note& note) { return note.field == "pos_att_type"; }),
            1);
}

TEST(HostileLists, OnesThatAreTooShortForATableAreRefused) {
  EXPECT_THAT(ErrorOf(Model("seggpt", R"("image_size":[896])")), Is("image_size", "a list of 1", "at least 2"));
}

TEST(HostileWidths, FewerChannelsThanHeads) {
  EXPECT_THAT(ErrorOf(Model("llama", R"("hidden_size":8,"num_attention_heads":16)")),
              Is("num_attention_heads", "16", "at most hidden_size, 8"));
  EXPECT_THAT(ErrorOf(Model("llama", R"("d_model":8,"n_head":16)")), Is("n_head", "16", "at most hidden_size, 8"));
  EXPECT_THAT(ErrorOf(Model("llama", R"("hidden_size":8)")), Is("hidden_size", "8", "at least num_attention_heads, 32"));
  EXPECT_EQ(ErrorField(Model("deberta-v2", R"("relative_attention":true,"pos_att_type":["c2p"],"hidden_size":8)")),
            "hidden_size");
  EXPECT_EQ(ErrorField(Model("falcon", R"("alibi":true,"hidden_size":8,"num_attention_heads":16)")), "num_attention_heads");
  EXPECT_EQ(ErrorField(Model("layoutlmv3", R"("hidden_size":8)")), "hidden_size");
  EXPECT_EQ(ErrorField(Model("zamba2", R"("use_mem_rope":true,"hidden_size":1,"num_attention_heads":16)")), "hidden_size");
  EXPECT_EQ(ErrorField(Model("sam2_video", R"("memory_attention_hidden_size":4,"memory_attention_downsample_rate":8)")),
            "memory_attention_hidden_size");
}

TEST(HostileKinds, NumbersThatAreStringsAreRefused) {
  const auto refuses = [](const std::string& type, const std::string& key, const std::string& more = "") {
    EXPECT_THAT(ErrorOf(Model(type, absl::StrCat("\"", key, "\":\"768\"", more))), Field(&SpecError::field, key)) << type;
  };
  refuses("llama", "hidden_size");
  refuses("electra", "embedding_size");
  refuses("afmoe", "global_attn_every_n_layers");
  refuses("qwen3_next", "full_attention_interval");
  refuses("gpt_neox", "rotary_pct");
  refuses("vit", "image_size");
  refuses("vit", "patch_size");
  refuses("codegen", "n_positions");
  refuses("bamba", "attn_layer_indices");
  refuses("lfm2", "full_attn_idxs");
  refuses("mimo_v2_flash", "hybrid_layer_pattern");
  refuses("granite_swa", "layer_rope_theta");
  refuses("molmo2_text", "rope_scaling_layers");
  refuses("step3p5", "partial_rotary_factors");
  refuses("ultrabert", "attention_windows");
}

TEST(HostileKinds, NestedConfigurationsAreObjects) {
  for (const char* key : {"thinker_config", "text_config", "language_config", "llm_config"}) {
    for (const char* value : {"5", "\"llama\"", "[]", "true"}) {
      EXPECT_THAT(ErrorOf(Llama(absl::StrCat("\"", key, "\":", value))), Is(key, "", "an object or null")) << value;
    }
    EXPECT_EQ(ErrorField(Llama(absl::StrCat("\"", key, "\":null"))), "OK");
  }
  const ModelEncoding model = Read(R"({"model_type":"llava","text_config":{"model_type":"llama"},"vision_config":7})");
  EXPECT_TRUE(HasNote(model.warnings, "vision_config", "not read: no object"));
}

// What an error blames stands in the file, or is said to be the class's.
TEST(Blame, NamesKeysThatTheFileHas) {
  EXPECT_THAT(ErrorOf(Model("llama", R"("hidden_size":351,"num_attention_heads":13)")),
              Is("hidden_size", "27 (hidden_size 351 / num_attention_heads 13)", "an even number"));
  EXPECT_THAT(ErrorOf(Model("llama", R"("d_model":351,"n_head":13)")), Is("d_model", "27 (", "an even number"));
  EXPECT_THAT(ErrorOf(Model("gptj", R"("n_embd":512,"n_head":16)")), Is("rotary_dim", "64 (default of class gptj)", ""));
  EXPECT_THAT(ErrorOf(Model("dbrx", R"("attn_config":{"rope_theta":-1})")), Is("attn_config.rope_theta", "-1", ""));
  EXPECT_THAT(ErrorOf(Model("gemma4_text", R"("global_head_dim":3)")), Field(&SpecError::field, "global_head_dim"));
  EXPECT_THAT(ErrorOf(Model("gemma4_text", R"("num_hidden_layers":1,"per_layer_config":{"0":{"head_dim":3}})")),
              Field(&SpecError::field, "per_layer_config.0.head_dim"));
  EXPECT_THAT(ErrorOf(Model("stablelm", R"("head_dim":6)")), Is("partial_rotary_factor", "0.25 (default of class ", "even"));
  EXPECT_THAT(ErrorOf(Model("nomic_bert", R"("rotary_emb_base":1e4,"rotary_scaling_factor":-1)")),
              Field(&SpecError::field, "rotary_scaling_factor"));
  EXPECT_THAT(ErrorOf(Model("dots3_note_text", R"("num_hidden_layers":4,"swa_qk_nope_head_dim":300)")),
              Is("swa_qk_nope_head_dim", "300", "less than head_dim, 256"));
  EXPECT_THAT(ErrorOf(Model("dots3_note_text", R"("num_hidden_layers":4,"swa_head_dim":100)")),
              Is("swa_head_dim", "100", "192 (default of class "));
  EXPECT_THAT(ErrorOf(Model("esmfold2", R"("atom_encoder":{"spatial_rope_base_frequency":-1})")),
              Field(&SpecError::field, "atom_encoder.spatial_rope_base_frequency"));
  EXPECT_THAT(ErrorOf(Model("pixtral", R"("hidden_size":48,"num_attention_heads":16)")),
              Is("hidden_size", "3 (hidden_size 48 / num_attention_heads 16)", "at least 4"));
  EXPECT_THAT(ErrorOf(Model("fastspeech2_conformer", R"("d_model":15)")), Is("d_model", "15", "an even number"));
  EXPECT_THAT(ErrorOf(Model("swin", R"("image_size":2)")),
              Is("patch_size", "4 (default of class ", "at most image_size, 2"));
  EXPECT_THAT(ErrorOf(Model("t5", R"("relative_attention_max_distance":3)")),
              Field(&SpecError::field, "relative_attention_max_distance"));
}

}  // namespace
}  // namespace phasor::server
