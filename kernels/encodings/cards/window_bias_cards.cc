#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kWindowBiasFailures[] = {
    {"The class token's bias is garbage after resizing.",
     "The three last rows (class → token, token → class, class → class) were resized with the others.",
     "They must be unchanged.", "Keep them apart (`phasor resize` does)."},
    {"Wrong on wide windows only.", "Height and width were exchanged; square windows hide it up to a transposition.",
     "Offset (1, 0) must be 2·Ww − 1 rows from offset (0, 0).", "Row-major, query minus key."},
    {"Small differences to another library after resizing.", "Swin resizes bicubically, transformers' BEiT bilinearly.",
     "Compare one head's picture.", "Choose the mode."},
};
constexpr std::string_view kWindowBiasRelated[] = {"continuous_window_bias", "decomposed", "dynamic_position_bias",
                                                   "learned"};
constexpr ExampleInput kWindowBiasInputs[] = {
    {"table", {15, 2}, 2, 3},
};

constexpr FailureDetail kContinuousWindowBiasFailures[] = {
    {"Wrong as soon as the window differs from pre-training.", "Offsets were divided by the current window minus 1.",
     "The feature of the largest trained offset must be ±1.0566 (log2(9)/3).",
     "Give pretrained_height and pretrained_width; 0 means the window itself."},
    {"Attention is nearly uniform.",
     "The bias of 0 … 16 belongs to cosine attention with a clamped logit scale, not to q·k/√d.",
     "Look at the range of q·k.", "Use cosine attention."},
    {"Values above 16 or negative.", "16·sigmoid was left out, or a bias was added to the last layer, which has none.",
     "0 < b < 16.", "Apply it last."},
};
constexpr std::string_view kContinuousWindowBiasRelated[] = {"window_bias", "fire", "dynamic_position_bias"};
constexpr ExampleInput kContinuousWindowBiasInputs[] = {
    {"w1", {4, 2}, 2, 3},
    {"b1", {4}, 1, 5},
    {"w2", {2, 4}, 2, 7},
};

}  // namespace

constexpr CardDetails kWindowBiasCard{
    .scheme = "window_bias",
    .latex = "b_{hij} = T\\big[(\\Delta y + W_h - 1)(2 W_w - 1) + \\Delta x + W_w - 1,\\ h\\big]",
    .extrapolation =
        "Not beyond its window: a larger window has offsets that the table has no row for. It is resized per head as "
        "a picture of (2·Wh − 1) × (2·Ww − 1), bicubically in Swin's recipe, and then tuned. Resizing a full (tokens "
        "× tokens) matrix instead destroys it: it would no longer depend on the offset alone.",
    .failures = kWindowBiasFailures,
    .related = kWindowBiasRelated,
    .example = {.kind = ExampleKind::kBiasMatrix,
                .spec = R"({"window_bias":{"window_height":2,"window_width":3}})",
                .cpp_spec = R"(phasor::WindowBiasSpec{.window_height = 2, .window_width = 3})",
                .positions = 6,
                .inputs = kWindowBiasInputs},
    .pytorch = R"py(height, width = 2, 3
y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
y, x = y.flatten(), x.flatten()
dy = y[:, None] - y[None, :] + height - 1  # query minus key
dx = x[:, None] - x[None, :] + width - 1
result = {"bias": table[dy * (2 * width - 1) + dx].permute(2, 0, 1)}
)py",
};

constexpr CardDetails kContinuousWindowBiasCard{
    .scheme = "continuous_window_bias",
    .latex =
        "b = 16\\,\\sigma\\!\\left(w_2\\,\\mathrm{ReLU}(w_1 f + b_1)\\right),\\quad f = \\mathrm{sgn}(c)\\,\\frac{\\log_2(1 "
        "+ "
        "8|c|)}{3},\\quad c = \\frac{\\Delta}{W_{pre} - 1}",
    .extrapolation =
        "To larger windows without resizing: offsets are divided by the pre-training window and put on a logarithmic "
        "scale, so an offset of twice the trained maximum goes in as 1.36 instead of 1.06. The perceptron is asked "
        "outside the interval it was trained on, but not far.",
    .failures = kContinuousWindowBiasFailures,
    .related = kContinuousWindowBiasRelated,
    .example = {.kind = ExampleKind::kBiasMatrix,
                .spec = R"({"continuous_window_bias":{"window_height":2,"window_width":3}})",
                .cpp_spec = R"(phasor::ContinuousWindowBiasSpec{.window_height = 2, .window_width = 3})",
                .positions = 6,
                .inputs = kContinuousWindowBiasInputs},
    .pytorch = R"py(height, width = 2, 3  # also those of the pre-training
y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
y, x = y.flatten().double(), x.flatten().double()
dy = (y[:, None] - y[None, :]) / (height - 1)  # query minus key
dx = (x[:, None] - x[None, :]) / (width - 1)
c = torch.stack([dy, dx], -1)
feature = c.sign() * torch.log2(1 + 8 * c.abs()) / 3
hidden = torch.relu(feature @ w1.T + b1)
result = {"bias": (16 * torch.sigmoid(hidden @ w2.T)).permute(2, 0, 1)}
)py",
};

}  // namespace phasor
