#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kSinusoidalFailures[] = {
    {"A converted checkpoint gives nonsense or slightly worse output.",
     "Column order or spacing differs: interleaved or [sines, cosines]; exponents −2i/D (paper) or −i/(D/2 − 1) "
     "(Whisper, fairseq), which agree at pair 0 only.",
     "Compare row 1 with the library's; `phasor diagnose` names layout and spacing.",
     "Set layout and spacing. The layouts hold the same numbers in permuted columns."},
    {"Shape error in the cosine columns at an odd width.",
     "An odd D has ceil(D/2) sines and floor(D/2) cosines; broadcasting does not repair it, 768 against 769 raises.",
     "Build the table at D = 5.", "Cut the cosines to floor(D/2); fairseq pads a column of zeros instead."},
    {"Every row of a batch gets the position of its place in the batch.",
     "A table [max_len, 1, D] was added to batch-first input; [max_len, D] broadcasts correctly.",
     "Add it to zeros of [2, 3, D] and compare the two batch rows: they must be equal.",
     "Keep the table [max_len, D], or put the axis where the batch is."},
    {"Off by one or two rows with fairseq models.", "Rows start at padding_idx + 1 and the padding row is zeros.",
     "Row 0 of the model against row padding_idx + 1 of the table.", "position_offset and padding_row."},
    {"Long prompts drift in bfloat16 or float16 while short ones are right.",
     "Positions, inv_freq or the angle were held in 16 bits: near 15962 bfloat16 steps by 64, so that position "
     "becomes 15936 and the first pair's cosine −0.26795 instead of −0.90802. Positions as integers do no harm: "
     "dividing them has been true division in PyTorch since 1.5.",
     "Compare the table at the longest position with `phasor table` in f32; `phasor diagnose` names the precision.",
     "Keep positions, inv_freq and angles in float32 or better, and cast only the finished cosines and sines."},
    {"Left padding changes the answer although pads are masked.",
     "The mask hides pads as keys, but does not move tokens back: behind 3 pads the first one gets row 3, whose first "
     "cosine is −0.98999 instead of 1. What averages over a row has the pads in it, too.",
     "Run the row with pads and without.", "Positions cumsum(mask) − 1 per row; the mask in the pooling as well."},
    {"A gate between position and none only makes the encoding weaker.",
     "α·PE + (1 − α)·0 is α·PE: with α = 0.25 a quarter of every entry, which `scale` gives without a gate.",
     "Compare with α times the table: every bit is equal.",
     "Gate two encodings, α·A + (1 − α)·B: `gate` of an addition names the second."},
};
constexpr std::string_view kSinusoidalRelated[] = {"timestep", "grid_sinusoidal", "learned", "rope_default",
                                                   "transformer_xl"};

constexpr FailureDetail kTimestepFailures[] = {
    {"Images are noise with a checkpoint that works elsewhere.",
     "The library's defaults (shift 1, sines first) were used where its pipelines use shift 0 and cosines first.",
     "Compare the embedding of step 1 with the model's.",
     "flip_sin_to_cos true, downscale_freq_shift 0 where the model says so."},
    {"Division by zero at width 2 or 3.", "With shift 1 the exponent divides by floor(dim/2) − 1 = 0.",
     "Build it at that width: the spec is refused.", "Shift 0."},
    {"Fractional steps give the same embedding as whole ones.", "The step was cast to an integer on the way.",
     "Steps 0.5 and 0 must differ.", "Keep steps in floating point."},
};
constexpr std::string_view kTimestepRelated[] = {"sinusoidal", "gaussian_fourier"};
constexpr double kTimestepPositions[] = {0.5, 1, 50, 250.25, 999};

constexpr FailureDetail kGaussianFourierFailures[] = {
    {"Each load of the model gives other numbers.", "The frequencies were drawn anew instead of read from the checkpoint.",
     "Compare the weights with the checkpoint's tensor.", "Upload the stored weight."},
    {"NaN or infinities at the first step.", "The logarithm of 0.", "Look for t = 0; the call is refused there.",
     "Start above 0, or log false where the model takes none."},
    {"Points of a prompt land in a mirrored place.",
     "The matrix takes [x, y] and 2c − 1 of c in 0 … 1 (SAM), and got [y, x] or raw pixels.", "Embed the four corners.",
     "x first, scaled to −1 … 1."},
};
constexpr std::string_view kGaussianFourierRelated[] = {"timestep", "rope_pixel", "grid_sinusoidal"};
constexpr ExampleInput kGaussianFourierInputs[] = {
    {"weight", {4}, 1, 5},
};
constexpr double kGaussianFourierPositions[] = {0.0625, 0.5, 1, 3, 20};

constexpr FailureDetail kLearnedFailures[] = {
    {"Output is plausible but worse than the reference.",
     "The offset is missing: OPT and BART read row m + 2, RoBERTa padding_idx + 1 + m.",
     "Row 0 of the model against row offset of the table.", "position_offset."},
    {"A batch with left padding differs from its sequences one by one.",
     "Positions were counted by column; padding moved every token.",
     "Run one sequence with and without padding on the left.", "Count positions from the mask: cumulative sum − 1."},
    {"A crash or silent garbage at the end of long inputs.", "A row beyond the table was read without a bounds check.",
     "Ask for the row num_positions: it must be refused.", "Limit the length, or resize the table."},
    {"An image model fails for some image sizes only.",
     "The table was resized by scale_factor, whose rounding comes out one short (14 patches: at 61, 115 and 122).",
     "Resize to those sizes.", "Pass the size."},
    {"Rows for the first and last tokens of a text go wrong in short texts, or while decoding.",
     "k rows for each end of 768 channels are 2·k·768 numbers (15360 for k = 10). The ends overlap where S < 2·k: with "
     "k = 10 and S = 12 the positions 2 … 9 are at both. While decoding the end is not known.",
     "Add them to zeros for S = 12 and count the rows that got both.",
     "Decide it: `offsets` of an addition adds both; give sequence_length, or leave `last` out."},
};
constexpr std::string_view kLearnedRelated[] = {"sinusoidal", "grid_sinusoidal", "window_bias", "shaw"};
constexpr ExampleInput kLearnedInputs[] = {
    {"table", {10, 4}, 2, 3},
};

constexpr FailureDetail kGridSinusoidalFailures[] = {
    {"The image is understood as if transposed.",
     "The first half of the columns encodes the width in MAE and its kin, although their variable is called h; "
     "DETR's encodes the height.",
     "Compare rows 0 and 1 of the table: they differ in the first half where width comes first.",
     "order width_first or as_listed."},
    {"One row too few.", "The class token's row of zeros is missing.", "rows = grid + extra_rows.", "extra_rows 1."},
    {"Wrong only where images are padded.", "The extent is that of the visible part, row by row and column by column.",
     "Compare a padded with an unpadded image.", "Leave the grid out and give coordinates."},
    {"Error about the width.", "Two axes with halves of [sin, cos] need dim % 4 == 0, three need 16.", "Divide.",
     "Choose the width, or give columns."},
};
constexpr std::string_view kGridSinusoidalRelated[] = {"sinusoidal", "learned", "rope_pixel", "decomposed"};

constexpr FailureDetail kDistilledFailures[] = {
    {"Quality falls off a cliff beyond the fitted length.",
     "Nothing holds the function to anything there: a perceptron goes on in straight lines, a cosine series comes back "
     "through the range in reverse.",
     "max_error_beyond of Distill's answer.", "Fit the whole range that will be used."},
    {"Short distances are blurred in rotations.",
     "Pairs that turn many times within the range cannot be followed by a small smooth function: for one radian per "
     "position a cosine series over N positions needs N/π terms (1304 for 4096) before it can follow at all.",
     "max_error_by_column: the first pairs are the worst.",
     "Use the rotation's closed form, which is exact and cheaper: 64 numbers for RoPE of width 128, nothing to fit."},
    {"Rows differ from the file's ONNX model in the last digits.",
     "Another library adds in another order, with another sigmoid.", "Compare in float64: a few 1e-15.",
     "Nothing to fix; take one of the two everywhere."},
};
constexpr std::string_view kDistilledRelated[] = {"learned", "sinusoidal", "dynamic_position_bias", "fire"};
constexpr ExampleInput kDistilledInputs[] = {
    {"w1", {6, 1}, 2, 3}, {"b1", {6}, 1, 5},    {"w2", {6, 6}, 2, 7},
    {"b2", {6}, 1, 11},   {"w3", {4, 6}, 2, 5}, {"b3", {4}, 1, 3},
};

}  // namespace

constexpr CardDetails kSinusoidalCard{
    .scheme = "sinusoidal",
    .latex = "PE(m, 2i) = \\sin\\!\\left(m\\, b^{-2i/D}\\right),\\qquad PE(m, 2i+1) = \\cos\\!\\left(m\\, b^{-2i/D}\\right)",
    .extrapolation =
        "The table exists at every position, so nothing overflows, and a shift is a fixed linear map: PE(m + k) = "
        "R_k·PE(m). A trained model still meets unseen phases in its slow pairs: with width 512 and base 10000 "
        "wavelengths run from 2π to 2π·10000^(510/512) = 60611, not to 2π·10000. Every position has a code of its "
        "own, and order is encoded: permuting tokens changes the input. Rows are not orthogonal (width 64: rows 50 "
        "apart have the inner product 15.67, of 32 with themselves), and need not be. The last cosine of row 1 is "
        "0.99995 at width 4. The inner product of two rows and the norm "
        "of their difference depend on the distance alone (width 4, one step: 0.95890), the difference itself "
        "does not, and behind learned projections of q and k neither do.",
    .failures = kSinusoidalFailures,
    .related = kSinusoidalRelated,
    .example = {.kind = ExampleKind::kRows,
                .spec = R"({"sinusoidal":{"dim":16,"base":10000}})",
                .cpp_spec = R"(phasor::SinusoidalSpec{.dim = 16, .base = 10000})",
                .positions = 16},
    .pytorch = R"py(dim, base = 16, 10000.0
i = torch.arange(dim // 2, dtype=torch.float64)
angle = torch.arange(16, dtype=torch.float64)[:, None] * base ** (-2 * i / dim)
table = torch.zeros(16, dim, dtype=torch.float64)
table[:, 0::2] = angle.sin()
table[:, 1::2] = angle.cos()[:, : dim // 2]  # an odd dim has one cosine less
result = {"table": table}
)py",
};

constexpr CardDetails kTimestepCard{
    .scheme = "timestep",
    .latex =
        "\\left[\\sin(s\\,t\\,\\omega_i),\\ \\cos(s\\,t\\,\\omega_i)\\right],\\qquad \\omega_i = P^{-i/(D/2 - "
        "\\text{shift})}",
    .extrapolation =
        "Not a matter of length: the steps of a diffusion run lie in a known range (0 to 1000 for most), and the "
        "slowest wavelength is 2π·P with shift 1, so each step in it has a code of its own. Steps between whole "
        "numbers interpolate smoothly, because nothing rounds them.",
    .failures = kTimestepFailures,
    .related = kTimestepRelated,
    .example = {.kind = ExampleKind::kRows,
                .spec = R"({"timestep":{"dim":16,"flip_sin_to_cos":true,"downscale_freq_shift":0}})",
                .cpp_spec = R"(phasor::TimestepSpec{.dim = 16, .downscale_freq_shift = 0, .flip_sin_to_cos = true})",
                .fractional_positions = kTimestepPositions},
    .pytorch = R"py(dim, max_period, shift = 16, 10000.0, 0.0
i = torch.arange(dim // 2, dtype=torch.float64)
step = torch.tensor([0.5, 1, 50, 250.25, 999], dtype=torch.float64)
angle = step[:, None] * max_period ** (-i / (dim / 2 - shift))
result = {"table": torch.cat([angle.cos(), angle.sin()], -1)}  # flipped: cosines first
)py",
};

constexpr CardDetails kGaussianFourierCard{
    .scheme = "gaussian_fourier",
    .latex =
        "\\left[\\sin(2\\pi w_i \\ln t),\\ \\cos(2\\pi w_i \\ln t)\\right],\\qquad w_i \\sim \\mathcal{N}(0, \\sigma^2)\\ "
        "\\text{stored}",
    .extrapolation =
        "Within the range of values seen in training only. The frequencies are random and have no order of slow and "
        "fast; a value outside that range has phases with no relation to those inside. With the logarithm equal "
        "ratios of t are equal steps, so t must be above 0.",
    .failures = kGaussianFourierFailures,
    .related = kGaussianFourierRelated,
    .example = {.kind = ExampleKind::kRows,
                .spec = R"({"gaussian_fourier":{}})",
                .cpp_spec = R"(phasor::GaussianFourierSpec{})",
                .fractional_positions = kGaussianFourierPositions,
                .inputs = kGaussianFourierInputs},
    .pytorch = R"py(noise = torch.tensor([0.0625, 0.5, 1, 3, 20], dtype=torch.float64)
angle = 2 * math.pi * weight * noise.log()[:, None]
result = {"table": torch.cat([angle.sin(), angle.cos()], -1)}
)py",
};

constexpr CardDetails kLearnedCard{
    .scheme = "learned",
    .latex = "PE(m) = s \\cdot E[\\,m + \\text{offset}\\,]",
    .extrapolation =
        "Not at all beyond the table: rows that do not exist cannot be read, and here they are refused. Rows that "
        "were rarely reached in training are close to their initial values. A longer table can be made by "
        "interpolating rows (resize by size, not by scale factor) and then needs tuning. Memory is no obstacle: 3000 "
        "rows of 768 in float32 are 9.2 MB and cost one addition.",
    .failures = kLearnedFailures,
    .related = kLearnedRelated,
    .example = {.kind = ExampleKind::kRows,
                .spec = R"({"learned":{"position_offset":2}})",
                .cpp_spec = R"(phasor::LearnedSpec{.position_offset = 2})",
                .positions = 8,
                .inputs = kLearnedInputs},
    .pytorch = R"py(offset = 2
result = {"table": table[torch.arange(8) + offset]}
)py",
};

constexpr CardDetails kGridSinusoidalCard{
    .scheme = "grid_sinusoidal",
    .latex =
        "PE(x, y) = \\left[\\, S(x),\\ S(y)\\,\\right],\\qquad S(c) = \\left[\\sin(c\\, b^{-4i/D}),\\ \\cos(c\\, "
        "b^{-4i/D})\\right]_{i < D/4}",
    .extrapolation =
        "To larger grids by scaling coordinates rather than by counting on: dividing by N/base_size maps a finer "
        "grid onto the trained extent, so that all phases stay seen. Counted coordinates beyond the trained grid "
        "meet unseen phases in the slow pairs, as with any sinusoid.",
    .failures = kGridSinusoidalFailures,
    .related = kGridSinusoidalRelated,
    .example = {.kind = ExampleKind::kRows,
                .spec = R"({"grid_sinusoidal":{"dim":16,"grid":[3,4],"base":10000}})",
                .cpp_spec = R"(phasor::GridSinusoidalSpec{.dim = 16, .grid = {3, 4}, .base = 10000})",
                .positions = 12},
    .pytorch = R"py(dim, height, width, base = 16, 3, 4, 10000.0


def half(coordinate):
    i = torch.arange(dim // 4, dtype=torch.float64)
    angle = coordinate.reshape(-1, 1) * base ** (-4 * i / dim)
    return torch.cat([angle.sin(), angle.cos()], -1)


y, x = torch.meshgrid(
    torch.arange(height, dtype=torch.float64), torch.arange(width, dtype=torch.float64), indexing="ij"
)
result = {"table": torch.cat([half(x), half(y)], -1)}  # the width comes first
)py",
};
constexpr CardDetails kDistilledCard{
    .scheme = "distilled",
    .latex =
        "PE(m) = W_3\\,\\mathrm{SiLU}\\big(W_2\\,\\mathrm{SiLU}(W_1 x + b_1) + b_2\\big) + b_3,\\quad x = \\tfrac{2(m - "
        "m_0)}{N - 1} - 1;\\qquad PE(m) = \\sum_{k < K} w_k \\cos\\frac{\\pi k (m - m_0 + \\frac12)}{N} + b",
    .extrapolation =
        "Not at all: only the fitted positions are held to anything. Beyond them every SiLU is either nearly 0 or nearly "
        "its input, so a perceptron goes on in straight lines; a cosine series is even about the ends of the range and "
        "runs through it in reverse.",
    .failures = kDistilledFailures,
    .related = kDistilledRelated,
    .example = {.kind = ExampleKind::kRows,
                .spec = R"({"distilled":{"num_positions":8}})",
                .cpp_spec = R"(phasor::DistilledSpec{.num_positions = 8})",
                .positions = 8,
                .inputs = kDistilledInputs},
    .pytorch = R"py(positions = torch.arange(8, dtype=torch.float64)
x = 2 * (positions / (8 - 1)) - 1
hidden = torch.nn.functional.silu(x[:, None] @ w1.T + b1)
hidden = torch.nn.functional.silu(hidden @ w2.T + b2)
result = {"table": hidden @ w3.T + b3}
)py",
};

}  // namespace phasor
