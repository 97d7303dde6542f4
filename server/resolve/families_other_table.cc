// Class defaults of models that do not rotate: those of transformers 4.57.6.
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

// clang-format off
constexpr Family kFamilies[] = {
// ALiBi; hidden, heads, kv_heads, layers, head_dim, max_position
{"bloom", &ReadAlibi, 64, 8, 0, 2, 0, 0},
{"mpt", &ReadMpt, 2048, 16, 0, 24, 0, 2048},
// By position_embedding_type.
{"bert", &ReadBert, 768, 12, 0, 12, 0, 512},
{"jinabert", &ReadBert, 768, 12, 0, 12, 0, 512},
{"electra", &ReadBert, 256, 4, 0, 12, 0, 512},
{"albert", &ReadBert, 4096, 64, 0, 12, 0, 512},
{"roberta", &ReadBert, 768, 12, 0, 12, 0, 512},
{"camembert", &ReadBert, 768, 12, 0, 12, 0, 512},
{"xlmroberta", &ReadBert, 768, 12, 0, 12, 0, 512},
{"xlmrobertaxl", &ReadBert, 2560, 32, 0, 36, 0, 514},
{"esm", &ReadBert, 768, 12, 0, 12, 0, 1026},
{"clvpencoder", &ReadClvp, 768, 12, 0, 20, 0, 0},
// Learned tables.
{"gpt2", &ReadLearned, 768, 12, 0, 12, 0, 1024},
{"openaigpt", &ReadLearned, 768, 12, 0, 12, 0, 512},
{"gptneo", &ReadLearned, 2048, 16, 0, 24, 0, 2048},
{"gptbigcode", &ReadLearned, 768, 12, 1, 12, 0, 1024},
{"opt", &ReadLearned, 768, 12, 0, 12, 0, 2048},
{"bart", &ReadLearned, 1024, 16, 0, 12, 0, 1024},
{"mbart", &ReadLearned, 1024, 16, 0, 12, 0, 1024},
{"blenderbot", &ReadLearned, 2560, 32, 0, 2, 0, 128},
{"biogpt", &ReadLearned, 1024, 16, 0, 24, 0, 1024},
{"vit", &ReadLearned, 768, 12, 0, 12, 0, 0},
{"deit", &ReadLearned, 768, 12, 0, 12, 0, 0},
{"dinov2", &ReadLearned, 768, 12, 0, 12, 0, 0},
{"clip", &ReadLearned},
{"siglip", &ReadLearned},
// Sinusoids.
{"m2m100", &ReadFairseqSinusoid, 1024, 16, 0, 12, 0, 1024},
{"nllbmoe", &ReadFairseqSinusoid, 1024, 16, 0, 12, 0, 1024},
{"xglm", &ReadFairseqSinusoid, 1024, 16, 0, 24, 0, 2048},
{"fsmt", &ReadFairseqSinusoid, 1024, 16, 0, 12, 0, 1024},
{"marian", &ReadMarian, 1024, 16, 0, 12, 0, 1024},
{"pegasus", &ReadMarian, 1024, 16, 0, 12, 0, 1024},
{"whisper", &ReadWhisper, 384, 6, 0, 4, 0, 448},
{"xlm", &ReadXlm, 2048, 16, 0, 12, 0, 512},
{"flaubert", &ReadXlm, 2048, 16, 0, 12, 0, 512},
{"distilbert", &ReadDistilBert, 768, 12, 0, 6, 0, 512},
{"florencevision", &ReadFlorenceVision},
{"seamlessm4t", &ReadSeamless, 1024, 16, 0, 24, 0, 4096},
{"seamlessm4tv2", &ReadSeamless, 1024, 16, 0, 24, 0, 4096},
// Relative, from buckets, windows or rows.
{"t5", &ReadT5, 512, 8, 0, 6, 64, 0},
{"mt5", &ReadT5, 512, 6, 0, 8, 64, 0},
{"umt5", &ReadT5, 512, 6, 0, 8, 64, 0},
{"longt5", &ReadT5, 512, 8, 0, 6, 64, 0},
{"switchtransformers", &ReadT5, 768, 12, 0, 12, 64, 0},
{"debertav2", &ReadDeberta, 1536, 24, 0, 24, 0, 512},
{"deberta", &ReadDeberta, 768, 12, 0, 12, 0, 512},
{"swin", &ReadSwin},
{"swinv2", &ReadSwin},
{"beit", &ReadBeit, 768, 12, 0, 12, 0, 0},
{"data2vecvision", &ReadBeit, 768, 12, 0, 12, 0, 0},
{"xlnet", &ReadRelativeSinusoid, 1024, 16, 0, 24, 0, 0},
{"transfoxl", &ReadRelativeSinusoid, 1024, 16, 0, 18, 0, 0},
{"dinov3vit", &ReadDinoV3, 384, 6, 0, 12, 0, 0},
// No positions at all: the recurrence, or the causal mask, carries the order.
{"jamba", &ReadNone, 4096, 32, 8, 32, 0, 262144},
{"mamba", &ReadNone},
{"mamba2", &ReadNone},
{"falconmamba", &ReadNone},
{"rwkv", &ReadNone},
{"xlstm", &ReadNone},
{"nemotronh", &ReadNone},
{"kimilinear", &ReadNone},
};
// clang-format on

}  // namespace

std::span<const Family> OtherFamilies() { return kFamilies; }

}  // namespace phasor::server
