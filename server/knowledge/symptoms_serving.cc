#include <array>

#include "server/knowledge/symptoms.h"

namespace phasor::server {
namespace {

using Aliases = std::string_view;

constexpr std::array kPaddedAliases{Aliases("left padding changes the result"), Aliases("left padded batches differ"),
                                    Aliases("padding changes logits")};
constexpr std::array kPadded{
    SymptomStep{"Positions are counted by column, so that pads count: left padding moves every position of the row.",
                "Print the ids: the first real token of every row must have the same position.",
                "phasor apply config.json --input q.npy --positions 0:8 -o rotated.npy",
                "Positions = cumsum(mask) − 1 per row, pads 0 (some models 1)."},
    SymptomStep{"RoBERTa and its kin: pads belong at padding_idx and ids start at padding_idx + 1; OPT and BART add 2.",
                "Diagnose the rows that are looked up: their first position must be the offset.",
                "phasor diagnose rows.npy --content sinusoidal", "Use the mask with the model's offset."},
    SymptomStep{
        "ALiBi by column: with s·key the pads shift all keys of a row alike, which the softmax removes; with a window or "
        "−s·|query − key| of other positions it does not.",
        "Compare after the softmax, or diagnose the bias.", "phasor diagnose bias.npy --content bias",
        "Give queries and keys positions by the mask (phasor bias --query-positions, --key-positions)."},
    SymptomStep{"Pads are not masked as keys, or a row of pads has every key masked, whose softmax is NaN.",
                "Count finite values in every row of the mask.", "phasor diagnose mask.npy --content bias",
                "Mask pads as keys; ignore the rows of pads, also where outputs are averaged over a row."},
};

constexpr std::array kDeviceAliases{Aliases("CPU and GPU give different results"), Aliases("GPU differs from CPU"),
                                    Aliases("cuda results differ")};
constexpr std::array kDevice{
    SymptomStep{
        "The angle is a float32 product, and sine and cosine of one side are fast approximations: cos is off by 1.4e-4 at "
        "position 4 095 and 2.5e-2 at 1 048 575 even with an exact cosine.",
        "Diagnose both tables: \"compat_f32\" on one side and another way on the other is the reason.",
        "phasor diagnose cos.npy --content cos", "Make the table once, exactly, and give it to both."},
    SymptomStep{"One side computes in bf16 or TF32.",
                "Ask for the type of cos and sin; the diagnosis names bf16 positions and angles.",
                "phasor diagnose cos.npy --content cos", "Keep positions, frequencies and angles in float32 or better."},
    SymptomStep{"Sums in another order: differences of a few ulps in scores that do not grow with the position.",
                "Compare scores at position 0 and at the end; equal differences are harmless.",
                "phasor scores --q q.npy --k k.npy --rope config.json -o scores.npy", "Compare with a tolerance."},
};

constexpr std::array kDecodeAliases{Aliases("decode differs from prefill"), Aliases("generation with cache differs"),
                                    Aliases("kv cache gives other results"), Aliases("use_cache changes the output")};
constexpr std::array kDecode{
    SymptomStep{"The step's position: queries start at 0 again, or one off, instead of at the length of the cache.",
                "Diagnose the row of the step: its first position must be the number of cached tokens.",
                "phasor diagnose cos.npy --content cos", "Position = cached length (with rope_delta for images)."},
    SymptomStep{"The bias is built from the query's length: one query gives distance 0 only, and ALiBi vanishes.",
                "The row of a step must equal the last row of the full bias.",
                "phasor bias alibi num_heads=8 --queries 1 --keys 128 --form row -o row.npy",
                "Build it over the cached length, aligned at the bottom right."},
    SymptomStep{
        "Dynamic NTK: cached keys were rotated with an older base (2048 → 10000, 3000 → 19 499, 4096 → 30 528 for factor 2, "
        "M 2048, width 128).",
        "Resolve with both lengths and compare the bases.", "phasor resolve config.json --length 4096",
        "Keep one base per sequence: freeze it, or rotate keys at read."},
    SymptomStep{"LongRoPE crossed original_max_position: prefill with the short list, decode with the long one.",
                "Resolve with lengths on both sides of the switch.", "phasor resolve config.json --length 4097",
                "Drop or re-rotate the cache on crossing (phasor apply --rerotate)."},
    SymptomStep{"T5: the bias of a new query needs the offset of its position; without it every step has row 0.",
                "Diagnose the bias of one step.", "phasor diagnose bias.npy --content bias",
                "Use the query's absolute position (phasor bias --query-offset)."},
};

constexpr std::array kBatchAliases{Aliases("batched results differ from single"), Aliases("batch size changes the output"),
                                   Aliases("results depend on the batch")};
constexpr std::array kBatch{
    SymptomStep{"Padding counts as positions.", "See left_padded_batches_differ: ids by cumsum of the mask.",
                "phasor diagnose --symptom left_padded_batches_differ", "Positions per row, by the mask."},
    SymptomStep{"Dynamic schedules take the length of the longest row for all rows.",
                "Resolve with the row's own length and with the batch's.", "phasor resolve config.json --length 3000",
                "One base per row, or freeze one for the server."},
    SymptomStep{
        "One table of positions for all rows where rows are at different lengths: rows run past its end or share ids.",
        "Ask for each row's positions.", "phasor table config.json --positions 100,7,2048", "Positions per row."},
    SymptomStep{"Packed rows without block masks: a token sees the sequence before it.",
                "Scores across sequences must be masked.",
                "phasor scores --q q.npy --k k.npy --rope config.json --causal --softmax -o p.npy",
                "Give cu_seqlens (phasor scores --cu-seqlens)."},
};

constexpr std::array kBf16Aliases{Aliases("long prompts diverge in bf16"), Aliases("bf16 is worse at long context"),
                                  Aliases("half precision fails on long inputs")};
constexpr std::array kBf16{
    SymptomStep{"Positions in bf16: whole numbers above 256 do not fit. 15 962 becomes 15 936 (the step is 64): cos −.26795 "
                "instead of "
                "−.90802 for the first pair.",
                "The diagnosis names positions computed in bf16, with the first row where it shows.",
                "phasor diagnose cos.npy --content cos", "Keep positions in int64 or float32."},
    SymptomStep{"inv_freq in bf16: `model.to(bfloat16)` or a checkpoint rounded the buffer. Relative error up to 2^−9, so "
                "the angles of "
                "the fast pairs are off by up to a radian near position 600.",
                "Diagnose inv_freq: it says what was rounded.", "phasor diagnose inv_freq.npy --content inv_freq",
                "Make inv_freq in float32 after the cast; do not save it."},
    SymptomStep{"ALiBi: distances or slopes in bf16.", "Diagnose the bias.", "phasor diagnose bias.npy --content bias",
                "Multiply in float32, round the product."},
    SymptomStep{"Autocast turns the product position × inv_freq into bf16.",
                "Compare the table in and out of autocast with the right one.",
                "phasor table config.json --positions 15962:15963 --dtype bf16 -o right.safetensors",
                "Switch autocast off around the angle."},
};

constexpr std::array kNanAliases{Aliases("scores are NaN or inf"), Aliases("nan in attention"),
                                 Aliases("attention gives nan")};
constexpr std::array kNan{
    SymptomStep{"A row in which every key is masked: the softmax of −inf alone is NaN.", "The diagnosis counts such rows.",
                "phasor diagnose mask.npy --content bias", "Keep one key, or write 0 for the row."},
    SymptomStep{
        "−inf or the type's lowest number added twice, or multiplied by 0: −65504 − 1 is −inf in f16, and −inf·0 is NaN.",
        "Diagnose mask and bias together, after the addition.", "phasor diagnose mask.npy --content bias",
        "Combine masks by choice, not by addition, and add the bias once."},
    SymptomStep{"A division by zero in the schedule: NTK with width 2, llama3 with equal frequency factors, YaRN with "
                "β_fast = β_slow, "
                "timesteps of width 2 with shift 1.",
                "The resolved spec says so, or refuses.", "phasor resolve config.json", "Correct the configuration."},
    SymptomStep{"xPos: a centre that moves with the length, far from the positions: the factors overflow.",
                "The diagnosis of the table shows infinite rows.", "phasor diagnose cos.npy --content cos",
                "Pin the centre."},
};

constexpr std::array kParallelAliases{Aliases("tensor parallel differs"), Aliases("results change with tensor parallelism"),
                                      Aliases("sharded model differs")};
constexpr std::array kParallel{
    SymptomStep{"ALiBi slopes from the local head count.",
                "Diagnose the slopes of each rank: they must be parts of one list.",
                "phasor diagnose slopes.npy --content slopes", "Cut each rank's part out of the list for all heads."},
    SymptomStep{"The bias table of T5 or Swin is cut at the wrong heads.",
                "Diagnose the bias of a rank against the whole spec.", "phasor diagnose bias.npy --content bias",
                "Give first head and count (phasor bias --heads FIRST:COUNT)."},
    SymptomStep{"Context parallel: each rank counts its positions from 0, or the zig-zag halves (chunks r and 2c − 1 − r) "
                "are taken for "
                "one run.",
                "Diagnose the table of each rank: its first position must be its chunk's.",
                "phasor diagnose cos.npy --content cos", "Make positions for the rank's chunks."},
};

constexpr std::array kVisionAliases{Aliases("image tokens misplaced"), Aliases("video tokens at wrong positions"),
                                    Aliases("wrong boxes or captions with images")};
constexpr std::array kVision{
    SymptomStep{"Time ids: the start is multiplied by the interval, still images are scaled, or the interval is cut to a "
                "whole number. "
                "After 15 text tokens T starts at 15, not 60; 0.5 s × 2/s gives 0, 1, 2, 3.",
                "Print the three rows of ids.", "phasor table config.json --positions ids.npy",
                "Scale first, add the offset after."},
    SymptomStep{
        "Sections: chunked where the model interleaves, or the order of height and width swapped (ERNIE lists h, w, t).",
        "The resolved spec shows the axis of each pair.", "phasor resolve config.json", "Use the layout of the model."},
    SymptomStep{"Text after an image goes on at the number of tokens instead of the largest id + 1.",
                "The next text id must be max + 1; rope_delta is max + 1 − length.",
                "phasor table config.json --positions ids.npy", "Keep rope_delta with the cache."},
    SymptomStep{
        "Patches in another order than the ids: merge blocks, or rows by the configuration's width instead of the image's.",
        "Draw the grid of ids.", "phasor table config.json --positions grid:4x6",
        "Number patches in the order in which they come."},
};

constexpr std::array kResizedAliases{Aliases("other image sizes fail"), Aliases("size mismatch for some images"),
                                     Aliases("resized images give worse results")};
constexpr std::array kResized{
    SymptomStep{
        "Interpolated by scale_factor: some sizes come out one short (for 37 patches a side: 39, 43, 78, 86, 115, 123).",
        "Resize to the size and look at the shape.", "phasor resize pos.npy --source 37x37 --target 39x39 -o larger.npy",
        "Pass the size, not the factor."},
    SymptomStep{"Class token or extra rows were resized along (BEiT's last three rows).", "Count rows: grid + extra.",
                "phasor resize bias.npy --source 27x27 --target 39x39 --extra-last 3 -o larger.npy",
                "Keep the extra rows apart."},
    SymptomStep{"Another kernel than in training: bilinear for bicubic, antialias or align_corners.",
                "Resize with each and compare.",
                "phasor resize pos.npy --source 14x14 --target 24x24 --antialias -o larger.npy", "Follow the model's code."},
    SymptomStep{"A full bias matrix was interpolated: it loses its form, distance 1 becomes 4.",
                "Diagnose the resized bias: equal distances must have equal values.",
                "phasor diagnose bias.npy --content bias",
                "Interpolate the table by offset, (2H − 1) × (2W − 1) for each head."},
};

constexpr std::array kShiftAliases{Aliases("context shift drifts"), Aliases("quality degrades after context shift"),
                                   Aliases("k-shift drifts")};
constexpr std::array kShift{
    SymptomStep{"Keys are rounded to the cache's type at each shift: errors add up.",
                "Shift once by n and n times by 1, and compare.",
                "phasor apply config.json --input k.npy --shift -1 -o shifted.npy",
                "Shift from one kept copy by the whole delta, or rotate at read."},
    SymptomStep{"The shift applies the attention factor again; it is a pure rotation.", "The norm of a key must stay.",
                "phasor apply config.json --input k.npy --shift -512 -o shifted.npy",
                "Leave the factor out of shifts; undo a rotation by dividing by it."},
    SymptomStep{"Keys of another schedule are shifted with this one's frequencies (dynamic NTK, LongRoPE, other base per "
                "layer type).",
                "Compare the layer types of the configuration.", "phasor resolve config.json",
                "Shift each layer with the frequencies that rotated it, or re-rotate (phasor apply --rerotate)."},
};

constexpr std::array kList{
    Symptom{"left_padded_batches_differ", "left-padded batches differ", kPaddedAliases, kPadded},
    Symptom{"gpu_and_cpu_differ", "GPU and CPU differ", kDeviceAliases, kDevice},
    Symptom{"decode_differs_from_prefill", "decode differs from prefill", kDecodeAliases, kDecode},
    Symptom{"batch_differs_from_single", "a batch differs from single requests", kBatchAliases, kBatch},
    Symptom{"long_prompts_diverge_in_bf16", "long prompts diverge in bf16", kBf16Aliases, kBf16},
    Symptom{"nan_or_inf_scores", "NaN or infinite scores", kNanAliases, kNan},
    Symptom{"tensor_parallel_differs", "tensor parallel ranks differ from one device", kParallelAliases, kParallel},
    Symptom{"image_or_video_tokens_misplaced", "image or video tokens misplaced", kVisionAliases, kVision},
    Symptom{"resized_images_fail", "resized images fail", kResizedAliases, kResized},
    Symptom{"kv_cache_shift_drifts", "cached keys drift after shifts", kShiftAliases, kShift},
};

}  // namespace

std::span<const Symptom> ServingSymptoms() { return kList; }

}  // namespace phasor::server
