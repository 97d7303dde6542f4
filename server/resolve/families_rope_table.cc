// Class defaults of rotating models: those of transformers 4.57.6 and, for classes that came later, 5.24.0; of remote code
// (baichuan, chatglm, qwen, internlm2, deepseek, kimi_k2) as published with the models.
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

constexpr Pairing kInterleaved = Pairing::kInterleaved;
constexpr Pairing kToHalf = Pairing::kInterleavedToHalf;
constexpr SoftmaxRule kMultiplier = SoftmaxRule::kAttentionMultiplier;
constexpr SoftmaxRule kQueryScalar = SoftmaxRule::kQueryPreAttention;

constexpr std::string_view kGptOssRope =
    R"({"rope_type":"yarn","factor":32.0,"beta_fast":32.0,"beta_slow":1.0,"truncate":false,)"
    R"("original_max_position_embeddings":4096})";
constexpr std::string_view kApertusRope =
    R"({"rope_type":"llama3","factor":8.0,"original_max_position_embeddings":8192,"low_freq_factor":1.0,)"
    R"("high_freq_factor":4.0,"rope_theta":12000000.0})";
constexpr std::string_view kCwmRope =
    R"({"rope_type":"llama3","factor":16.0,"original_max_position_embeddings":8192,"low_freq_factor":1.0,)"
    R"("high_freq_factor":4.0,"rope_theta":1000000.0})";
constexpr std::string_view kMinistral3Rope =
    R"({"rope_type":"yarn","rope_theta":1000000.0,"factor":16.0,"original_max_position_embeddings":16384,)"
    R"("beta_fast":32.0,"beta_slow":1.0,"mscale":1.0,"mscale_all_dim":1.0,"llama_4_scaling_beta":0.1})";
constexpr std::string_view kMistral4Rope =
    R"({"rope_type":"yarn","rope_theta":10000.0,"factor":128.0,"original_max_position_embeddings":8192,)"
    R"("beta_fast":32.0,"beta_slow":1.0,"mscale":1.0,"mscale_all_dim":1.0,"llama_4_scaling_beta":0.1})";
constexpr std::string_view kGemma4Rope =
    R"({"full_attention":{"rope_type":"proportional","partial_rotary_factor":0.25,"rope_theta":1000000.0},)"
    R"("sliding_attention":{"rope_type":"default","rope_theta":10000.0}})";

constexpr std::string_view kUltraBertRope = R"({"full_attention":{"rope_type":"default","rope_theta":2560000.0},)"
                                            R"("sliding_attention":{"rope_type":"default","rope_theta":10000.0}})";
constexpr std::string_view kDots3Rope = R"({"indexed_attention":{"rope_type":"default","rope_theta":80000000.0},)"
                                        R"("full_attention":{"rope_type":"default","rope_theta":80000000.0},)"
                                        R"("sliding_attention":{"rope_type":"default","rope_theta":50000.0}})";

// clang-format off
constexpr Family kFamilies[] = {
// LLaMA's reading: hidden, heads, kv_heads, layers, head_dim, max_position, base, partial
{"llama", &ReadRope, 4096, 32, 0, 32, 0, 2048},
{"codellama", &ReadRope, 4096, 32, 0, 32, 0, 2048},
{"mistral", &ReadRope, 4096, 32, 8, 32, 0, 131072},
{"mixtral", &ReadRope, 4096, 32, 8, 32, 0, 131072, 1e6},
{"ministral", &ReadRope, 4096, 32, 8, 32, 0, 131072},
{.model_type = "ministral3", .read = &ReadRope, .hidden = 4096, .heads = 32, .kv_heads = 8, .layers = 34, .head_dim = 128, .max_position = 262144, .rope_parameters = kMinistral3Rope},
{"qwen2", &ReadRope, 4096, 32, 32, 32, 0, 32768},
{"qwen2moe", &ReadRope, 2048, 16, 16, 24, 0, 32768},
{"qwen3", &ReadRope, 4096, 32, 32, 32, 128, 32768},
{"qwen3moe", &ReadRope, 2048, 32, 4, 24, 0, 32768},
{"qwen3next", &ReadRope, 2048, 16, 2, 48, 256, 32768, 1e4, 0.25},
{"nanochat", &ReadNanoChat, 768, 6, 6, 12, 0, 2048},
{"internlm", &ReadRope, 0, 0, 0, 0, 0, 2048},
{"internlm2", &ReadRope, 4096, 32, 0, 32, 0, 2048},
{"internlm3", &ReadRope, 4096, 32, 2, 32, 0, 32768},
{"deepseek", &ReadRope, 4096, 32, 0, 30, 0, 2048},
{"minicpm", &ReadRope, 4096, 32, 0, 32, 0, 2048},
{"exaone", &ReadRope, 4096, 32, 8, 32, 128, 4096, 5e5},
{"olmo", &ReadRope, 4096, 32, 0, 32, 0, 2048},
{"olmo2", &ReadRope, 4096, 32, 0, 32, 0, 2048},
{"olmoe", &ReadRope, 2048, 16, 0, 16, 0, 4096},
{"flexolmo", &ReadRope, 4096, 32, 0, 32, 0, 4096, 5e5},
{"starcoder2", &ReadRope, 3072, 24, 2, 30, 0, 4096},
{"granite", &ReadRope, 4096, 32, 0, 32, 0, 2048, 1e4, 1, Pairing::kHalfSplit, kMultiplier},
{"granitemoe", &ReadRope, 4096, 32, 0, 32, 0, 2048, 1e4, 1, Pairing::kHalfSplit, kMultiplier},
{"granitemoeshared", &ReadRope, 4096, 32, 0, 32, 0, 2048, 1e4, 1, Pairing::kHalfSplit, kMultiplier},
{"granitemoehybrid", &ReadGraniteHybrid, 4096, 32, 0, 32, 0, 2048, 1e4, 1, Pairing::kHalfSplit, kMultiplier},
{"gemma", &ReadRope, 3072, 16, 16, 28, 256, 8192},
{"gemma2", &ReadRope, 2304, 8, 4, 26, 256, 8192, 1e4, 1, Pairing::kHalfSplit, kQueryScalar},
{"vaultgemma", &ReadRope, 2304, 8, 4, 26, 256, 8192, 1e4, 1, Pairing::kHalfSplit, kQueryScalar},
{"phi3", &ReadRope, 3072, 32, 32, 32, 0, 4096},
{"phi4multimodal", &ReadRope, 3072, 32, 8, 32, 0, 131072},
{"phimoe", &ReadRope, 4096, 32, 8, 32, 0, 131072, 1e6},
{"seedoss", &ReadRope, 4096, 80, 8, 64, 128, 524288},
{"minimax", &ReadRope, 4096, 32, 8, 32, 0, 131072, 1e6},
{"minimaxtext01", &ReadRope, 4096, 32, 8, 32, 0, 131072, 1e6},
{"minimaxm2", &ReadRope, 3072, 48, 8, 62, 128, 196608, 5e6},
{"arcee", &ReadRope, 2560, 32, 32, 32, 0, 4096},
{"bitnet", &ReadRope, 2560, 20, 5, 30, 0, 2048, 5e5},
{"diffllama", &ReadRope, 2048, 32, 0, 16, 0, 2048},
{"doge", &ReadRope, 1024, 8, 0, 32, 0, 2048},
{"dots1", &ReadRope, 4608, 32, 0, 62, 0, 2048},
{"hunyuanv1dense", &ReadRope, 4096, 32, 0, 32, 0, 2048},
{"hunyuanv1moe", &ReadRope, 4096, 32, 0, 32, 0, 2048},
{"jetmoe", &ReadRope, 2048, 32, 16, 12, 128, 4096},
{"lfm2", &ReadRope, 2560, 32, 8, 32, 0, 128000, 1e6},
{"lfm2moe", &ReadRope, 2048, 32, 8, 32, 0, 128000, 1e6},
{.model_type = "falconh1", .read = &ReadRope, .hidden = 4096, .heads = 32, .kv_heads = 8, .layers = 32, .max_position = 8192, .base = 1e5, .base_since_5 = 1e4},
{"solaropen", &ReadRope, 4096, 64, 8, 48, 128, 131072, 1e6},
{"eurobert", &ReadRope, 768, 12, 12, 12, 0, 8192},
{.model_type = "apertus", .read = &ReadRope, .hidden = 4096, .heads = 32, .layers = 32, .max_position = 65536, .base = 12e6, .rope_parameters = kApertusRope},
{.model_type = "cwm", .read = &ReadRope, .hidden = 6144, .heads = 48, .kv_heads = 8, .layers = 64, .head_dim = 128, .max_position = 131072, .base = 1e6, .rope_parameters = kCwmRope},
{.model_type = "gptoss", .read = &ReadRope, .hidden = 2880, .heads = 64, .kv_heads = 8, .layers = 36, .head_dim = 64, .max_position = 131072, .base = 150000, .rope_parameters = kGptOssRope},
// A part of the head rotates.
{"phi", &ReadRope, 2048, 32, 0, 24, 0, 2048, 1e4, 0.5},
{"stablelm", &ReadRope, 2560, 32, 32, 32, 0, 4096, 1e4, 0.25},
{"stablelmepoch", &ReadRope, 2560, 32, 32, 32, 0, 4096, 1e4, 0.25},
{.model_type = "persimmon", .read = &ReadRope, .hidden = 4096, .heads = 64, .layers = 36, .max_position = 16384, .base = 25000, .partial = 0.5, .base_since_5 = 1e4},
{.model_type = "fuyu", .read = &ReadRope, .hidden = 4096, .heads = 64, .layers = 36, .max_position = 16384, .base = 25000, .partial = 0.5, .base_since_5 = 1e4},
{"nemotron", &ReadRope, 6144, 48, 0, 32, 0, 4096, 1e4, 0.5},
{"recurrentgemma", &ReadRope, 2560, 10, 0, 26, 256, 8192, 1e4, 0.5},
{"bamba", &ReadRope, 4096, 32, 8, 32, 0, 262144, 1e4, 0.5},
{"glm4moe", &ReadRope, 4096, 96, 8, 46, 0, 131072, 1e4, 0.5},
{"gptneox", &ReadNeoX, 6144, 64, 0, 44, 0, 2048, 1e4, 0.25},
{"gptneoxjapanese", &ReadNeoX, 2560, 32, 0, 32, 0, 2048},
// Interleaved pairs.
{"glm", &ReadRope, 4096, 32, 2, 40, 128, 131072, 1e4, 0.5, kInterleaved},
{"glm4", &ReadRope, 4096, 32, 2, 40, 128, 131072, 1e4, 0.5, kInterleaved},
{"chatglm", &ReadChatGlm, 4096, 32, 0, 28, 128, 2048, 1e4, 0.5, kInterleaved},
{.model_type = "cohere", .read = &ReadRope, .hidden = 8192, .heads = 64, .layers = 40, .max_position = 8192, .pairing = kInterleaved, .base_since_5 = 5e5},
{"helium", &ReadRope, 2560, 20, 20, 24, 128, 4096, 1e5, 1, kInterleaved},
{"ernie45", &ReadRope, 1024, 16, 2, 18, 128, 131072, 5e5, 1, kInterleaved},
{"ernie45moe", &ReadRope, 2560, 20, 4, 28, 0, 131072, 5e5, 1, kInterleaved},
{"roformer", &ReadRope, 768, 12, 0, 12, 0, 1536, 1e4, 1, kInterleaved},
{"gptj", &ReadGptJ, 4096, 16, 0, 28, 0, 2048, 1e4, 1, kInterleaved},
{"codegen", &ReadGptJ, 4096, 16, 0, 28, 0, 2048, 1e4, 1, kInterleaved},
// A rotary slice beside a wider head (MLA).
{.model_type = "deepseekv2", .read = &ReadMla, .hidden = 4096, .heads = 32, .layers = 32, .max_position = 2048, .pairing = kInterleaved, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64},
{.model_type = "deepseekv3", .read = &ReadMla, .hidden = 7168, .heads = 128, .layers = 61, .max_position = 4096, .pairing = kToHalf, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .rope_interleave = true},
{.model_type = "deepseekv32", .read = &ReadMla, .hidden = 7168, .heads = 128, .layers = 61, .max_position = 163840, .pairing = kToHalf, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64},
{.model_type = "kimik2", .read = &ReadMla, .pairing = kToHalf, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64},
{.model_type = "glm4moelite", .read = &ReadMla, .hidden = 2048, .heads = 20, .layers = 47, .max_position = 202752, .pairing = kToHalf, .qk_nope_head_dim = 192, .qk_rope_head_dim = 64, .rope_interleave = true},
{.model_type = "glmmoedsa", .read = &ReadMla, .hidden = 6144, .heads = 64, .layers = 78, .max_position = 202752, .pairing = kToHalf, .qk_nope_head_dim = 192, .qk_rope_head_dim = 64},
{.model_type = "longcatflash", .read = &ReadMla, .hidden = 6144, .heads = 64, .layers = 56, .max_position = 131072, .base = 1e7, .pairing = kToHalf, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64},
{.model_type = "youtu", .read = &ReadMla, .hidden = 2048, .heads = 16, .layers = 32, .max_position = 131072, .pairing = kToHalf, .qk_nope_head_dim = 128, .qk_rope_head_dim = 64, .rope_interleave = true},
{.model_type = "mistral4", .read = &ReadMla, .hidden = 4096, .heads = 32, .layers = 36, .max_position = 1048576, .pairing = kToHalf, .qk_nope_head_dim = 64, .qk_rope_head_dim = 64, .rope_parameters = kMistral4Rope, .rope_interleave = true},
{.model_type = "minicpm3", .read = &ReadMla, .hidden = 2560, .heads = 40, .kv_heads = 40, .layers = 62, .max_position = 32768, .qk_nope_head_dim = 64, .qk_rope_head_dim = 32},
// Layer types that differ.
{"gemma3", &ReadGemma3, 2304, 8, 4, 26, 256, 131072, 1e6, 1, Pairing::kHalfSplit, kQueryScalar},
{"t5gemma2", &ReadGemma3, 2304, 8, 4, 26, 256, 131072, 1e6, 1, Pairing::kHalfSplit, kQueryScalar},
{"t5gemma2decoder", &ReadGemma3, 2304, 8, 4, 26, 256, 131072, 1e6, 1, Pairing::kHalfSplit, kQueryScalar},
{.model_type = "step3p5", .read = &ReadStep3p5, .hidden = 4096, .heads = 64, .kv_heads = 8, .layers = 45, .head_dim = 128, .max_position = 128000, .softmax = SoftmaxRule::kQueryPreAttentionOrHead},
{.model_type = "ultrabert", .read = &ReadUltraBert, .hidden = 4096, .heads = 32, .kv_heads = 32, .layers = 32, .max_position = 32768, .base = 2560000, .rope_parameters = kUltraBertRope},
{.model_type = "dots3note", .read = &ReadDots3Note, .hidden = 5120, .heads = 128, .kv_heads = 128, .layers = 46, .max_position = 524288, .base = 8e7, .pairing = kToHalf, .rope_parameters = kDots3Rope},
{"gemma3n", &ReadGemma3n, 2048, 8, 2, 35, 256, 32768, 1e6, 1, Pairing::kHalfSplit, SoftmaxRule::kOne},
{.model_type = "gemma4", .read = &ReadGemma4, .hidden = 2304, .heads = 8, .kv_heads = 4, .layers = 30, .head_dim = 256, .max_position = 131072, .softmax = SoftmaxRule::kOne, .rope_parameters = kGemma4Rope},
{"modernbert", &ReadModernBert, 768, 12, 0, 22, 0, 8192, 160000},
{"modernbertdecoder", &ReadModernBert, 768, 12, 0, 22, 0, 8192, 160000},
{.model_type = "olmo3", .read = &ReadOlmo3, .hidden = 4096, .heads = 32, .layers = 32, .max_position = 2048, .base_since_5 = 5e5},
{"cohere2", &ReadCohere2, 8192, 64, 0, 40, 128, 8192, 1e4, 1, kInterleaved},
{"exaone4", &ReadExaone4, 4096, 32, 32, 32, 0, 2048},
{"exaonemoe", &ReadExaone4, 4096, 32, 32, 32, 0, 2048},
{"smollm3", &ReadNopeList, 2048, 16, 4, 36, 0, 32768, 2e6},
{"llama4", &ReadLlama4, 5120, 40, 8, 48, 128, 131072, 5e5, 1, kInterleaved},
{"deepseekv4", &ReadDeepseekV4, 4096, 64, 1, 43, 512, 1048576, 1e4, 0.125, kInterleaved},
// By a flag, or from other keys.
{"falcon", &ReadFalcon, 4544, 71, 0, 32, 0, 2048},
{"refinedweb", &ReadFalcon},
{"refinedwebmodel", &ReadFalcon},
{"rw", &ReadFalcon},
{"baichuan", &ReadBaichuan, 0, 0, 0, 0, 0, 4096},
{"qwen", &ReadQwen1, 4096, 32, 0, 32, 128, 8192},
{"nomicbert", &ReadNomic, 768, 12, 0, 12, 0, 2048, 1000},
{"dbrx", &ReadDbrx, 2048, 16, 1, 24, 0, 2048},
{"telechat3", &ReadRope},
{"grok", &ReadGrok}, {"grok1", &ReadGrok}, {"grok1model", &ReadGrok}, {"grok2", &ReadGrok},  // grok1model: of Grok1ModelForCausalLM
// Several axes.
{.model_type = "qwen2vl", .read = &ReadRope, .hidden = 8192, .heads = 64, .kv_heads = 8, .layers = 80, .max_position = 32768, .base = 1e6, .mrope = true, .sections = {16, 24, 24}},
{.model_type = "qwen25vl", .read = &ReadRope, .hidden = 8192, .heads = 64, .kv_heads = 8, .layers = 80, .max_position = 32768, .base = 1e6, .mrope = true, .sections = {16, 24, 24}},
{.model_type = "qwen25omni", .read = &ReadRope, .hidden = 3584, .heads = 28, .kv_heads = 4, .layers = 28, .max_position = 32768, .base = 1e6, .mrope = true, .sections = {16, 24, 24}},
{.model_type = "qwen3vl", .read = &ReadRope, .hidden = 4096, .heads = 32, .kv_heads = 32, .layers = 32, .head_dim = 128, .max_position = 128000, .base = 5e6, .base_since_5 = 5e5, .mrope = true, .sections = {24, 20, 20}, .axis_layout = AxisLayout::kInterleaved},
{.model_type = "qwen3vlmoe", .read = &ReadRope, .hidden = 2048, .heads = 16, .kv_heads = 16, .layers = 24, .head_dim = 128, .max_position = 128000, .base = 5e6, .base_since_5 = 5e5, .mrope = true, .sections = {24, 20, 20}, .axis_layout = AxisLayout::kInterleaved},
{.model_type = "qwen3omnimoetalker", .read = &ReadRope, .hidden = 1024, .heads = 16, .kv_heads = 2, .layers = 20, .max_position = 32768, .mrope = true, .sections = {24, 20, 20}, .axis_layout = AxisLayout::kInterleaved},
{.model_type = "qwen35", .read = &ReadRope, .hidden = 4096, .heads = 16, .kv_heads = 4, .layers = 32, .head_dim = 256, .max_position = 32768, .partial = 0.25, .mrope = true, .sections = {11, 11, 10}, .axis_layout = AxisLayout::kInterleaved},
{.model_type = "qwen35moe", .read = &ReadRope, .hidden = 2048, .heads = 16, .kv_heads = 2, .layers = 40, .head_dim = 256, .max_position = 32768, .partial = 0.25, .mrope = true, .sections = {11, 11, 10}, .axis_layout = AxisLayout::kInterleaved},
{.model_type = "glm4v", .read = &ReadRope, .hidden = 4096, .heads = 32, .kv_heads = 2, .layers = 40, .max_position = 32768, .pairing = kInterleaved, .mrope = true, .sections = {8, 12, 12}},
{.model_type = "glm4vmoe", .read = &ReadRope, .hidden = 4096, .heads = 96, .kv_heads = 8, .layers = 46, .max_position = 65536, .partial = 0.5, .mrope = true, .sections = {8, 12, 12}},
{.model_type = "zamba2", .read = &ReadZamba2, .hidden = 2560, .heads = 32, .kv_heads = 32, .layers = 54, .max_position = 4096},
{"esmfold2", &ReadEsmFold2, 384},
{.model_type = "coherecompass", .read = &ReadCohereCompass, .hidden = 8192, .heads = 64, .layers = 40, .head_dim = 128, .max_position = 8192, .mrope = true, .sections = {24, 20, 20}, .axis_layout = AxisLayout::kInterleaved},
{.model_type = "ernie45vlmoe", .read = &ReadRope, .hidden = 2560, .heads = 20, .kv_heads = 4, .layers = 28, .max_position = 131072, .base = 5e5, .pairing = kInterleaved, .mrope = true, .sections = {22, 22, 20}, .axis_layout = AxisLayout::kAlternating},
};
// clang-format on

}  // namespace

std::span<const Family> RopeFamilies() { return kFamilies; }

}  // namespace phasor::server
