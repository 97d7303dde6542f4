// Classes whose learned tables, biases or lack of positions their code decides: transformers 5.24.0, timm 1.0.31.
#include "server/resolve/readers.h"

namespace phasor::server {
namespace {

// clang-format off
constexpr Family kFamilies[] = {
// Pages.
{.model_type = "layoutlmv2", .read = &ReadLayoutLm, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPlain},
{.model_type = "layoutxlm", .read = &ReadLayoutLm, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPlain},
{.model_type = "layoutlmv3", .read = &ReadLayoutLm, .hidden = 768, .heads = 12, .layers = 12, .max_position = 512, .learned = LearnedRule::kPadding},
// Buckets with segments.
{.model_type = "cpmant", .read = &ReadCpmAnt, .hidden = 4096, .heads = 32, .layers = 48},
// Bark's three models.
{.model_type = "semantic", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .learned = LearnedRule::kPlain, .rows_key = "block_size"},
{.model_type = "coarseacoustics", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .learned = LearnedRule::kPlain, .rows_key = "block_size"},
{.model_type = "fineacoustics", .read = &ReadLearned, .hidden = 768, .heads = 12, .layers = 12, .learned = LearnedRule::kPlain, .rows_key = "block_size"},
// Towers and their stages.
{.model_type = "pvt", .read = &ReadPvt},
{.model_type = "seggpt", .read = &ReadSegGpt, .hidden = 1024, .heads = 16, .layers = 24},
{.model_type = "dinat", .read = &ReadDinat},
{.model_type = "timmwrapper", .read = &ReadTimm},
{.model_type = "timmbackbone", .read = &ReadTimm},
{.model_type = "gemma4unifiedvision", .read = &ReadParts, .hidden = 3840, .width_key = "mm_embed_dim"},
{.model_type = "vibevoicediffusion", .read = &ReadDiffusionStep, .hidden = 1536, .layers = 4},
// No positions of their own: they take those of the image as an input, or have none.
{.model_type = "sammaskdecoder", .read = &ReadNone, .hidden = 256, .heads = 8, .layers = 2},
{.model_type = "samhqmaskdecoder", .read = &ReadNone, .hidden = 256, .heads = 8, .layers = 2},
{.model_type = "sam2maskdecoder", .read = &ReadNone, .hidden = 256, .heads = 8, .layers = 2},
{.model_type = "sam2videomaskdecoder", .read = &ReadNone, .hidden = 256, .heads = 8, .layers = 2},
{.model_type = "sam3trackermaskdecoder", .read = &ReadNone, .hidden = 256, .heads = 8, .layers = 2},
{.model_type = "sam3trackervideomaskdecoder", .read = &ReadNone, .hidden = 256, .heads = 8, .layers = 2},
{.model_type = "edgetammaskdecoder", .read = &ReadNone, .hidden = 256, .heads = 8, .layers = 2},
{.model_type = "edgetamvideomaskdecoder", .read = &ReadNone, .hidden = 256, .heads = 8, .layers = 2},
{.model_type = "gemma4unifiedaudio", .read = &ReadNone, .hidden = 640, .width_key = "audio_embed_dim"},
{.model_type = "ideficsperciever", .read = &ReadNone, .heads = 16, .layers = 6},
{.model_type = "sapiens2head", .read = &ReadNone},
};
// clang-format on

}  // namespace

std::span<const Family> LearnedFamilies() { return kFamilies; }

}  // namespace phasor::server
