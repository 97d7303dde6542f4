#include "server/resolve/library_versions.h"

#include <algorithm>
#include <iterator>

namespace phasor::server {
namespace {

// Named as Family::model_type, sorted.
// clang-format off

// Those whose code takes its frequencies from modeling_rope_utils.py in transformers 4.57.6, the last of version 4.
constexpr std::string_view kInVersion4[] = {
    "apertus", "arcee", "aria", "bamba", "bitnet", "blt", "bltglobaltransformer", "bltlocaldecoder",
    "bltlocalencoder", "bltpatcher", "cohere", "cohere2", "csm", "csmdepthdecodermodel", "deepseekv2", "deepseekv3",
    "dia", "diadecoder", "diaencoder", "diffllama", "doge", "dots1", "emu3", "emu3textmodel", "ernie45", "ernie45moe",
    "exaone4", "falcon", "falconh1", "flexolmo", "gemma", "gemma2", "gemma3", "gemma3n", "glm", "glm4", "glm4moe",
    "glm4v", "glm4vmoe", "gptneox", "gptneoxjapanese", "gptoss", "granite", "granitemoe", "granitemoehybrid",
    "granitemoeshared", "helium", "hunyuanv1dense", "hunyuanv1moe", "jetmoe", "kyutaispeechto", "lfm2", "llama",
    "llama4", "longcatflash", "mimi", "minimax", "ministral", "mistral", "mixtral", "mllama", "mllamatextmodel",
    "modernbert", "modernbertdecoder", "moonshine", "moshi", "moshidepth", "nemotron", "olmo", "olmo2", "olmo3",
    "olmoe", "persimmon", "phi", "phi3", "phi4multimodal", "phimoe", "qwen2", "qwen25omni", "qwen25omnidit",
    "qwen25omnitalker", "qwen25omnithinker", "qwen25vl", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3next",
    "qwen3omnimoe", "qwen3omnimoetalker", "qwen3omnimoetalkercodepredictor", "qwen3omnimoethinker", "qwen3vl",
    "qwen3vlmoe", "seedoss", "smollm3", "stablelm", "starcoder2", "t5gemma", "t5gemmamodule", "vaultgemma", "zamba2",
};

// The same of 4.50.3. Left out are phi3 and phimoe, which refuse YaRN's dict.
constexpr std::string_view kBefore451[] = {
    "aria", "bamba", "cohere", "cohere2", "diffllama", "emu3", "emu3textmodel", "falcon", "gemma", "gemma2", "gemma3",
    "glm", "gptneox", "gptneoxjapanese", "granite", "granitemoe", "granitemoeshared", "helium", "jetmoe", "llama",
    "mimi", "mistral", "mixtral", "mllama", "mllamatextmodel", "modernbert", "moonshine", "moshi", "moshidepth",
    "nemotron", "olmo", "olmo2", "olmoe", "persimmon", "phi", "qwen2", "qwen25vl", "qwen2moe", "qwen2vl", "stablelm",
    "starcoder2", "zamba2",
};
// clang-format on

template <size_t kCount>
bool IsIn(const std::string_view (&names)[kCount], std::string_view name) {
  return std::binary_search(std::begin(names), std::end(names), name);
}

}  // namespace

bool RotatesInTransformers4(std::string_view model_type) { return IsIn(kInVersion4, model_type); }

bool HasYarnBeforeTransformers451(std::string_view model_type) { return IsIn(kBefore451, model_type); }

}  // namespace phasor::server
