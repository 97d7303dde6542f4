// Class defaults of models that do not rotate: those of transformers 4.57.6, later ones as they say.
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

// clang-format off
constexpr Family kFamilies[] = {
// ALiBi; hidden, heads, kv_heads, layers, head_dim, max_position
{"bloom", &ReadAlibi, 64, 8, 0, 2, 0, 0},
{.model_type = "mpt", .read = &ReadMpt, .hidden = 2048, .heads = 16, .layers = 24, .max_position = 2048, .learned = LearnedRule::kPlain},
// By position_embedding_type.
{.model_type = "bert", .read = &ReadBert, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPlain},
{.model_type = "jinabert", .read = &ReadBert, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPlain},
{.model_type = "electra", .read = &ReadBert, .hidden = 256, .heads = 4, .layers = 12, .max_position = 512, .width_key = "embedding_size", .width = 128, .learned = LearnedRule::kPlain},
{.model_type = "albert", .read = &ReadBert, .hidden = 4096, .heads = 64, .layers = 12, .max_position = 512, .width_key = "embedding_size", .width = 128, .learned = LearnedRule::kPlain},
{.model_type = "roberta", .read = &ReadBert, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPadding},
{.model_type = "camembert", .read = &ReadBert, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPadding},
{.model_type = "xlmroberta", .read = &ReadBert, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPadding},
{.model_type = "xlmrobertaxl", .read = &ReadBert, .hidden = 2560, .heads = 32, .layers = 36, .max_position = 514, .learned = LearnedRule::kPadding},
{.model_type = "esm", .read = &ReadBert, .hidden = 768, .heads = 12, .layers = 12, .max_position = 1026, .learned = LearnedRule::kPadding},
{"clvpencoder", &ReadClvp, 768, 12, 0, 20, 0, 0},
// Learned tables.
{.model_type = "gpt2", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .max_position = 1024, .learned = LearnedRule::kPlain},
{.model_type = "openaigpt", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPlain},
{.model_type = "gptneo", .read = &ReadLearned, .hidden = 2048, .heads = 16, .layers = 24, .max_position = 2048, .learned = LearnedRule::kPlain},
{.model_type = "gptbigcode", .read = &ReadLearned, .hidden = 768, .heads = 12, .kv_heads = 1, .layers = 12, .max_position = 1024, .learned = LearnedRule::kPlain},
{.model_type = "opt", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .max_position = 2048, .learned = LearnedRule::kTwoMoreMasked},
{.model_type = "bart", .read = &ReadLearned, .hidden = 1024, .heads = 16, .layers = 12, .max_position = 1024, .learned = LearnedRule::kTwoMore},
{.model_type = "mbart", .read = &ReadLearned, .hidden = 1024, .heads = 16, .layers = 12, .max_position = 1024, .learned = LearnedRule::kTwoMore},
{.model_type = "blenderbot", .read = &ReadLearned, .hidden = 2560, .heads = 32, .layers = 2, .max_position = 128, .learned = LearnedRule::kPlain},
{.model_type = "biogpt", .read = &ReadLearned, .hidden = 1024, .heads = 16, .layers = 24, .max_position = 1024, .learned = LearnedRule::kTwoMoreMasked},
{.model_type = "vit", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .learned = LearnedRule::kImage, .extra_rows = 1},
{.model_type = "deit", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .learned = LearnedRule::kImage, .extra_rows = 2},
{.model_type = "dinov2", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .learned = LearnedRule::kImage, .extra_rows = 1},
{"clip", &ReadLearned},
{"siglip", &ReadLearned},
// Towers with forms of their own.
{.model_type = "sam2hieradetmodel", .read = &ReadHiera, .hidden = 96, .heads = 1},
{.model_type = "hunyuanvlvision", .read = &ReadHunyuanVision, .hidden = 1152, .heads = 16, .kv_heads = 16, .layers = 27},
{.model_type = "hyv4vlvision", .read = &ReadHunyuanVision, .hidden = 1536, .heads = 16, .kv_heads = 16, .layers = 40},
{.model_type = "granitespeechencoder", .read = &ReadGraniteSpeech, .heads = 8, .layers = 10},
{.model_type = "granitespeechplusencoder", .read = &ReadGraniteSpeech, .heads = 8, .layers = 10},
{.model_type = "granitespeech5encoder", .read = &ReadGraniteSpeech, .hidden = 1024, .heads = 8, .kv_heads = 8, .layers = 16, .max_position = 512},
{.model_type = "led", .read = &ReadLed, .hidden = 1024, .heads = 16, .layers = 12},
{.model_type = "efficientloftr", .read = &ReadLoftr, .hidden = 256, .heads = 8, .kv_heads = 8},
{.model_type = "phi4multimodalaudio", .read = &ReadPhi4Audio, .hidden = 1024, .heads = 16},
// Sines over the grid of a feature map, which the model makes for the map that it sees.
{.model_type = "dfine", .read = &ReadOther, .hidden = 256, .heads = 8, .layers = 1, .other = "sine_2d"},
{.model_type = "deimv2", .read = &ReadOther, .hidden = 256, .heads = 8, .layers = 1, .other = "sine_2d"},
{.model_type = "dabdetr", .read = &ReadOther, .hidden = 256, .heads = 8, .layers = 6, .other = "sine_2d"},
{.model_type = "ppdoclayoutv2", .read = &ReadOther, .hidden = 256, .heads = 8, .layers = 1, .other = "sine_2d"},
{.model_type = "ppdoclayoutv3", .read = &ReadOther, .hidden = 256, .heads = 8, .layers = 1, .other = "sine_2d"},
{.model_type = "ppdoclayoutv4", .read = &ReadOther, .hidden = 256, .heads = 8, .layers = 1, .other = "sine_2d"},
{.model_type = "rtdetr", .read = &ReadOther, .hidden = 256, .heads = 8, .layers = 1, .other = "sine_2d"},
{.model_type = "rtdetrv2", .read = &ReadOther, .hidden = 256, .heads = 8, .layers = 1, .other = "sine_2d"},
// Sinusoids.
{"m2m100", &ReadFairseqSinusoid, 1024, 16, 0, 12, 0, 1024},
{"nllbmoe", &ReadFairseqSinusoid, 1024, 16, 0, 12, 0, 1024},
{"xglm", &ReadFairseqSinusoid, 1024, 16, 0, 24, 0, 2048},
{"fsmt", &ReadFairseqSinusoid, 1024, 16, 0, 12, 0, 1024},
{"marian", &ReadMarian, 1024, 16, 0, 12, 0, 1024},
{"pegasus", &ReadMarian, 1024, 16, 0, 12, 0, 1024},
{"whisper", &ReadWhisper, 384, 6, 0, 4, 0, 448},
{.model_type = "xlm", .read = &ReadXlm, .hidden = 2048, .heads = 16, .layers = 12, .max_position = 512, .learned = LearnedRule::kPlain},
{.model_type = "flaubert", .read = &ReadXlm, .hidden = 2048, .heads = 16, .layers = 12, .max_position = 512, .learned = LearnedRule::kPlain},
{.model_type = "distilbert", .read = &ReadDistilBert, .hidden = 768, .heads = 12, .layers = 6, .max_position = 512, .learned = LearnedRule::kPlain},
{"florencevision", &ReadFlorenceVision},
{"seamlessm4t", &ReadSeamless, 1024, 16, 0, 24, 0, 4096},
{"seamlessm4tv2", &ReadSeamless, 1024, 16, 0, 24, 0, 4096},
// Relative, from buckets, windows or rows.
{"t5", &ReadT5, 512, 8, 0, 6, 64, 0},
{"mt5", &ReadT5, 512, 6, 0, 8, 64, 0},
{"umt5", &ReadT5, 512, 6, 0, 8, 64, 0},
{"longt5", &ReadT5, 512, 8, 0, 6, 64, 0},
{"switchtransformers", &ReadT5, 768, 12, 0, 12, 64, 0},
{.model_type = "debertav2", .read = &ReadDeberta, .hidden = 1536, .heads = 24, .layers = 24, .max_position = 512, .learned = LearnedRule::kPlain},
{.model_type = "deberta", .read = &ReadDeberta, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPlain},
{"swin", &ReadSwin},
{"swinv2", &ReadSwin},
{"beit", &ReadBeit, 768, 12, 0, 12, 0, 0},
{"data2vecvision", &ReadBeit, 768, 12, 0, 12, 0, 0},
{"swin2sr", &ReadSwin},
{.model_type = "samvisionmodel", .read = &ReadSam, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "samhqvisionmodel", .read = &ReadSam, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "deepseekocr2samvisionmodel", .read = &ReadSam, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "unlimitedocrsamvisionmodel", .read = &ReadSam, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "gotocr2vision", .read = &ReadSam, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "ppformulanetvision", .read = &ReadSam, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "ppchart2tablevision", .read = &ReadSam, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "slanextvision", .read = &ReadSam, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "udop", .read = &ReadUdop, .hidden = 1024, .heads = 16, .layers = 24},
{.model_type = "mpnet", .read = &ReadMpnet, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPadding},
{.model_type = "wavlm", .read = &ReadWavLm, .hidden = 768, .heads = 12, .layers = 12},
// Terms of the scores.
{.model_type = "sewd", .read = &ReadDeberta, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512},
{"xlnet", &ReadXlnet, 1024, 16, 0, 24, 0, 0},
{"transfoxl", &ReadTransformerXl, 1024, 16, 0, 18, 64, 0},
{.model_type = "funnel", .read = &ReadFunnel, .hidden = 768, .heads = 12, .head_dim = 64},
{.model_type = "fastspeech2conformer", .read = &ReadFastSpeech2, .hidden = 384, .heads = 2, .layers = 4},
{.model_type = "gemma3naudio", .read = &ReadGemmaSound, .hidden = 1536, .heads = 8, .layers = 12},
{.model_type = "gemma4audio", .read = &ReadGemmaSound, .hidden = 1024, .heads = 8, .layers = 12},
{.model_type = "inkling", .read = &ReadInkling, .hidden = 6144, .heads = 64, .kv_heads = 8, .layers = 66, .head_dim = 128, .max_position = 131072},
{.model_type = "inkling2", .read = &ReadInkling, .hidden = 4608, .heads = 48, .kv_heads = 8, .layers = 48, .head_dim = 128, .max_position = 1048576},
{.model_type = "inkling2loop", .read = &ReadInkling, .hidden = 2304, .heads = 24, .kv_heads = 8, .layers = 24, .head_dim = 128, .max_position = 1048576},
{.model_type = "wav2vec2conformer", .read = &ReadWav2Vec2, .hidden = 768, .heads = 12, .layers = 12},
{.model_type = "wav2vec2bert", .read = &ReadWav2Vec2, .hidden = 1024, .heads = 16, .layers = 24},
{.model_type = "speecht5", .read = &ReadSpeechT5, .hidden = 768, .heads = 12, .layers = 12},
{"dinov3vit", &ReadDinoV3, 384, 6, 0, 12, 0, 0},
// Image towers, and a matcher of keypoints (transformers 5.24.0).
{.model_type = "llama4visionmodel", .read = &ReadLlama4Vision, .hidden = 768, .heads = 16, .layers = 34, .pairing = Pairing::kInterleaved, .grid = GridRule::kResetWidthFirst, .learned = LearnedRule::kImageFirst, .extra_rows = 1},
{.model_type = "mllamavisionmodel", .read = &ReadMllamaVision, .hidden = 1280, .heads = 16, .layers = 32, .learned = LearnedRule::kImage, .extra_rows = 1},
{.model_type = "vjepa2", .read = &ReadVjepa2, .hidden = 1024, .heads = 16, .layers = 24},
{.model_type = "lightglue", .read = &ReadLightGlue, .hidden = 256, .heads = 4, .kv_heads = 4, .layers = 9},
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
