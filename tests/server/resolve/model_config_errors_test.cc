// What is refused, and with which key's path; what is tolerated because it does not matter.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "tests/server/resolve/resolve_testing.h"

namespace phasor::server {
namespace {

using ::testing::HasSubstr;

std::string Message(std::string_view json) { return std::string(ReadModelConfig(json).status().message()); }

TEST(Errors, WrongTypesNameTheKeyAndWhatWasGiven) {
  EXPECT_EQ(ErrorField(Llama(R"("rope_theta":"10000")")), "rope_theta");
  EXPECT_THAT(Message(Llama(R"("rope_theta":"10000")")), HasSubstr("the string \"10000\""));
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":"linear")")), "rope_scaling");
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":{"type":"linear","factor":"2"})")), "rope_scaling.factor");
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":{"type":3})")), "rope_scaling.type");
  EXPECT_EQ(ErrorField(R"({"model_type":"llama","num_attention_heads":true,"hidden_size":64})"), "num_attention_heads");
  EXPECT_EQ(ErrorField(R"({"model_type":"llama","num_attention_heads":2.5,"hidden_size":64})"), "num_attention_heads");
  EXPECT_EQ(ErrorField(R"({"model_type":"llama","head_dim":-1})"), "head_dim");
  EXPECT_EQ(ErrorField(R"({"model_type":"llama","layer_types":["a",1]})"), "layer_types[1]");
  EXPECT_EQ(ErrorField(R"({"model_type":7})"), "model_type");
  EXPECT_EQ(ErrorField(R"({"text_config":{"model_type":"llama","rope_theta":[]}})"), "text_config.rope_theta");
  EXPECT_EQ(ErrorField(R"({"model_type":"gemma3_text","rope_parameters":{"full_attention":{"rope_theta":""}},
                           "layer_types":["full_attention"]})"),
            "rope_parameters.full_attention.rope_theta");
  EXPECT_EQ(ErrorField(R"({"model_type":"gemma3_text","rope_parameters":{"full_attention":"default",
                           "sliding_attention":{"rope_type":"default","rope_theta":10000}}})"),
            "rope_parameters.full_attention");
}

TEST(Errors, NonFiniteInKeysThatMatter) {
  for (const char* value : {"NaN", "Infinity", "-Infinity", "0", "-1"}) {
    EXPECT_EQ(ErrorField(Llama(std::string(R"("rope_theta":)") + value)), "rope_theta") << value;
    EXPECT_EQ(ErrorField(Llama(std::string(R"("rope_scaling":{"type":"linear","factor":)") + value + "}")),
              "rope_scaling.factor")
        << value;
  }
  EXPECT_EQ(ErrorField(Llama(R"("num_key_value_heads":NaN)")), "num_key_value_heads");
}

TEST(Errors, NonFiniteElsewhereIsTolerated) {
  EXPECT_EQ(ErrorField(Llama(R"("rope_theta":1e4,"time_step_limit":[0.0,Infinity],"bias":NaN,"low":-Infinity)")), "OK");
}

TEST(Errors, UnknownRopeTypeListsTheKnownOnes) {
  const std::string config = Llama(R"("rope_scaling":{"rope_type":"warp","factor":2})");
  EXPECT_EQ(ErrorField(config), "rope_scaling.rope_type");
  EXPECT_THAT(Message(config), HasSubstr("default, linear, dynamic, yarn"));
}

TEST(Errors, CanonicalisationSpeaksInConfigurationKeys) {
  EXPECT_EQ(ErrorField(R"({"model_type":"phi3","hidden_size":64,"num_attention_heads":8,"max_position_embeddings":8192,
                           "rope_scaling":{"type":"longrope","short_factor":[1,1],"long_factor":[1,1,1,1]}})"),
            "rope_scaling.short_factor");
  EXPECT_EQ(ErrorField(Llama(R"("head_dim":10,"partial_rotary_factor":0.5)")), "partial_rotary_factor");
  EXPECT_EQ(ErrorField(Llama(R"("partial_rotary_factor":1.5)")), "partial_rotary_factor");
  EXPECT_EQ(ErrorField(Llama(R"("rotary_dim":512)")), "rotary_dim");
  EXPECT_EQ(ErrorField(Llama(R"("rope_theta":0.5,"rope_scaling":{"type":"yarn","factor":2})")), "rope_theta");
  EXPECT_EQ(ErrorField(R"({"model_type":"mpt","attn_config":{"alibi_bias_max":-8}})"), "attn_config.alibi_bias_max");
}

TEST(Errors, AWidthThatIsOddBlamesWhatMadeIt) {
  for (const char* config : {R"("head_dim":5)", R"("head_dim":5,"rope_theta":1e4)"}) {
    EXPECT_EQ(ErrorField(Llama(config)), "head_dim");
    EXPECT_THAT(Message(Llama(config)), HasSubstr("given 5"));
  }
  EXPECT_EQ(ErrorField(Llama(R"("head_dim":5,"partial_rotary_factor":0.8)")), "OK");
  for (const char* factor : {"1e-9", "0.01", "0.3"}) {
    const std::string config = Llama(absl::StrCat(R"("head_dim":10,"partial_rotary_factor":)", factor));
    EXPECT_EQ(ErrorField(config), "partial_rotary_factor") << factor;
    EXPECT_THAT(Message(config), HasSubstr(absl::StrCat("given ", factor[0] == '1' ? "1e-09" : factor)));
    EXPECT_THAT(Message(config), HasSubstr("head_dim 10"));
  }
}

TEST(Errors, APaddingRowOutsideTheTableBlamesThePaddingIndex) {
  const std::string roberta =
      R"({"model_type":"roberta","hidden_size":768,"num_attention_heads":12,"max_position_embeddings":514,"pad_token_id":)";
  const auto error = SpecErrorOf(ReadModelConfig(absl::StrCat(roberta, "600}")).status());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->field, "pad_token_id");
  EXPECT_EQ(error->given, "600");
  EXPECT_EQ(ErrorField(absl::StrCat(roberta, "1}")), "OK");
}

// A length of -1 is none, and so a schedule that needs one names the key that has it.
TEST(Errors, ALengthThatIsNoneIsBlamedByItsKey) {
  const auto phi3 = [](std::string_view length, std::string_view scaling) {
    return absl::StrCat(R"({"model_type":"phi3","hidden_size":64,"num_attention_heads":8,)",
                        absl::string_view(length.data(), length.size()), R"("rope_scaling":{)",
                        absl::string_view(scaling.data(), scaling.size()), "}}");
  };
  constexpr char kMinusOne[] = R"("max_position_embeddings":-1,)";
  constexpr char kLongRope[] = R"("type":"longrope","short_factor":[1,1,1,1],"long_factor":[2,2,2,2])";
  for (const std::string& scaling : {std::string(kLongRope), std::string(R"("type":"dynamic","factor":2)"),
                                     std::string(R"("type":"yarn","original_max_position_embeddings":4096)"),
                                     std::string(R"("type":"yarn","factor":4)")}) {
    const auto error = SpecErrorOf(ReadModelConfig(phi3(kMinusOne, scaling)).status());
    ASSERT_TRUE(error) << scaling;
    EXPECT_EQ(error->field, "max_position_embeddings") << scaling;
    EXPECT_EQ(error->given, "-1") << scaling;
    EXPECT_THAT(error->allowed, HasSubstr("a whole number, at least 1")) << scaling;
  }
  EXPECT_EQ(ErrorField(phi3(R"("seq_length":-1,)", kLongRope)), "seq_length") << "the name under which the file has it";
  for (const char* more : {R"(,"factor":32)", R"(,"attention_factor":1.19)", R"(,"short_mscale":1,"long_mscale":1.2)"}) {
    EXPECT_EQ(ErrorField(phi3(kMinusOne, absl::StrCat(kLongRope, more))), "OK") << more;
  }
  EXPECT_EQ(ErrorField(phi3(kMinusOne, R"("type":"yarn","factor":4,"original_max_position_embeddings":4096)")), "OK");
}

TEST(Errors, SidesOfImagesAreOneOrTwo) {
  const auto of = [](std::string_view key, std::string_view list) {
    return absl::StrCat(R"({"model_type":"siglip_vision_model",")", absl::string_view(key.data(), key.size()),
                        "\":", absl::string_view(list.data(), list.size()), "}");
  };
  for (const auto& [key, list, given] :
       {std::tuple{"patch_size", "[14,14,14]", "3 entries"}, std::tuple{"patch_size", "[]", "0 entries"},
        std::tuple{"image_size", "[896,896,3]", "3 entries"}}) {
    const auto error = SpecErrorOf(ReadModelConfig(of(key, list)).status());
    ASSERT_TRUE(error) << key << list;
    EXPECT_EQ(error->field, key);
    EXPECT_EQ(error->given, given);
    EXPECT_EQ(error->allowed, "a whole number, or [height, width]");
  }
  EXPECT_EQ(ErrorField(of("patch_size", "[14]")), "OK");
  EXPECT_EQ(ErrorField(of("image_size", "[896,448]")), "OK");
  // Of a part it is a warning, and the part is not answered.
  const ModelEncoding gemma = Read(
      R"({"model_type":"gemma3","text_config":{"model_type":"gemma3_text"},
          "vision_config":{"model_type":"siglip_vision_model","patch_size":[14,14,14]}})");
  EXPECT_TRUE(HasNote(gemma.warnings, "vision_config",
                      "vision_config.patch_size is 3 entries, allowed: a whole number, or [height, width]"));
  for (const LayerEncoding& layer : gemma.layers) EXPECT_NE(layer.layer_type, "vision");
  EXPECT_EQ(ErrorField(R"({"model_type":"yolos","image_size":[512,864,3]})"), "image_size") << "of formulas over sides too";
  EXPECT_EQ(ErrorField(R"({"model_type":"yolos","image_size":[512,864]})"), "OK");
}

TEST(Errors, NeededKeys) {
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":{"type":"linear"})")), "rope_scaling.factor");
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":{"type":"linear","factor":null})")), "rope_scaling.factor");
  EXPECT_EQ(ErrorField(Llama(R"("rope_scaling":{"rope_type":"llama3","factor":8,"high_freq_factor":4})")),
            "rope_scaling.low_freq_factor");
  EXPECT_EQ(ErrorField(R"({"model_type":"unheard_of","rope_theta":1})"), "head_dim");
  EXPECT_EQ(ErrorField("{}"), "model_type");
  EXPECT_EQ(ErrorField(R"({"hidden_size":512,"num_attention_heads":8})"), "model_type");
}

TEST(Errors, SizesAreBounded) {
  EXPECT_EQ(ErrorField(R"({"model_type":"gemma3_text","num_hidden_layers":1000000000})"), "num_hidden_layers");
  EXPECT_EQ(ErrorField(R"({"model_type":"llama","head_dim":1000000000000})"), "head_dim");
  EXPECT_EQ(ErrorField(R"({"model_type":"bloom","n_head":100000000})"), "n_head");
}

TEST(Errors, NamesThatTheFileMakesUpAreBounded) {
  const std::string name(65, 'a');
  EXPECT_EQ(ErrorField(Llama(absl::StrCat("\"layer_types\":[\"x\",\"", name, "\"]"))), "layer_types[1]");
  EXPECT_EQ(ErrorField(Llama(absl::StrCat("\"rope_parameters\":{\"", name, "\":{}}"))), "rope_parameters");
  std::string types;
  for (int i = 0; i < 17; ++i) absl::StrAppend(&types, i == 0 ? "\"" : ",\"", i, "\"");
  EXPECT_EQ(ErrorField(Llama(absl::StrCat("\"layer_types\":[", types, "]"))), "layer_types");
}

TEST(Errors, NotJson) {
  EXPECT_THAT(Message("{\n  \"a\": 1,\n  b\n}"), HasSubstr("line 3, column 3, byte 14"));
  EXPECT_FALSE(ReadModelConfig("").ok());
  EXPECT_THAT(Message("[1]"), HasSubstr("a list of 1"));
  EXPECT_THAT(Message("{} {}"), HasSubstr("byte 3"));
  EXPECT_FALSE(ReadModelConfig(std::string_view("{}\0{}", 5)).ok());
  EXPECT_FALSE(ReadModelConfig("{\"a\":\"\xff\"}").ok());
}

TEST(Errors, DeepNestingIsRefusedWithoutRecursion) {
  EXPECT_THAT(Message(absl::StrCat("{\"a\":", std::string(200000, '['))), HasSubstr("nesting deeper than 64"));
  const std::string fits = std::string(63, '[') + std::string(63, ']');
  EXPECT_EQ(ErrorField(Llama(absl::StrCat("\"rope_theta\":1e4,\"x\":", fits))), "OK");
  EXPECT_EQ(ErrorField(Llama(absl::StrCat("\"rope_theta\":1e4,\"x\":[", fits, "]"))), "");
}

TEST(Errors, HugeTextIsRefused) {
  EXPECT_THAT(Message(std::string((size_t{16} << 20) + 1, ' ')), HasSubstr("at most 16777216 bytes"));
}

TEST(Tolerance, DuplicatesLastOneCountsWithAWarning) {
  const ModelEncoding model = Read(Llama(R"("rope_theta":5,"rope_theta":7)"));
  EXPECT_EQ(*RopeOf(LayerOf(model)).base, 7);
  EXPECT_TRUE(HasNote(model.warnings, "rope_theta", "more than once"));
}

TEST(Tolerance, ByteOrderMarkAndWholeFloats) {
  EXPECT_EQ(ErrorField(absl::StrCat("\xEF\xBB\xBF", Llama(R"("rope_theta":1e4)"))), "OK");
  EXPECT_EQ(RopeOf(LayerOf(Read(R"({"model_type":"llama","head_dim":64.0})"))).head_dim, 64);
}

TEST(Tolerance, LongNamesAreCutInMessages) {
  const ModelEncoding model = Read(absl::StrCat("{\"head_dim\":64,\"model_type\":\"", std::string(100000, 'x'), "\"}"));
  EXPECT_LE(model.model_type.size(), 64u);
  for (const Note& note : model.warnings) EXPECT_LT(note.message.size(), 1000u);
}

}  // namespace
}  // namespace phasor::server
