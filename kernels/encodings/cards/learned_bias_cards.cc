#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kFireFailures[] = {
    {"Decoding with a cache differs from a full pass.",
     "The normaliser is the query's absolute position; the new query was taken to stand at 0.",
     "Compare the last row of the full bias.", "Give the query's offset."},
    {"Rows are assumed to repeat.", "A vector by distance was cached; rows differ even at equal distances.",
     "Rows L and 2·L at distance 10.", "Use the full form."},
    {"A division by zero at position 0.", "threshold 0 and ε 0.", "Row 0.", "Keep ε 1e-6 and a threshold above 0."},
};
constexpr std::string_view kFireRelated[] = {"dynamic_position_bias", "kerple", "alibi", "continuous_window_bias"};
constexpr ExampleInput kFireInputs[] = {
    {"w1", {4, 1}, 2, 3},
    {"b1", {4}, 1, 5},
    {"w2", {2, 4}, 2, 7},
    {"b2", {2}, 1, 11},
};

constexpr FailureDetail kDynamicPositionBiasFailures[] = {
    {"Everything looks mirrored.", "The argument is query − key, opposite to a bias vector by key − query.",
     "Value at query − key = 1 against perceptron(1).", "Turn the vector around."},
    {"Slow and large for what it is.", "The perceptron ran for every pair: it depends on the distance only.",
     "Rows of the full bias repeat, shifted.", "Compute 2·S − 1 values (form vector)."},
    {"Numbers explode at long distances.", "Raw distances go into the first layer.",
     "Compare the inputs with those of training.", "log_distance, if the model was trained so."},
};
constexpr std::string_view kDynamicPositionBiasRelated[] = {"fire", "t5_bucket", "continuous_window_bias"};
constexpr ExampleInput kDynamicPositionBiasInputs[] = {
    {"w1", {4, 1}, 2, 3},
    {"b1", {4}, 1, 5},
    {"w2", {2, 4}, 2, 7},
    {"b2", {2}, 1, 11},
};

constexpr FailureDetail kForgettingBiasFailures[] = {
    {"Every distance is off by one gate.",
     "The key's own gate was counted, or the query's was not: the sum runs from j + 1 to i.",
     "b[i, i] = 0 and b[i, i − 1] = log σ(f_i).", "Subtract running sums: C_i − C_j."},
    {"Digits are lost at length.", "Running sums in float32 grow while their differences stay small.",
     "Compare late rows with float64.", "Sum in float64 or in two parts."},
    {"Padded batches differ.", "Gates of padding were added up.", "Run a sequence with and without padding.",
     "Padded positions count nothing (key_padding)."},
};
constexpr std::string_view kForgettingBiasRelated[] = {"alibi", "cope"};
constexpr ExampleInput kForgettingBiasInputs[] = {
    {"gates", {2, 6}, 2, 5},
};

constexpr FailureDetail kTupeFailures[] = {
    {"Scores too large by √2.", "The content term was divided by √d; both terms are divided by √(2·d).",
     "Variance of the sum at random q, k is 1.", "Scale (2·d)^−½."},
    {"The class token attends wrongly.",
     "Its row and column are constants that replace the whole bias, the distance term included.", "Row 0 must be constant.",
     "Give `untied`."},
    {"A few far distances fall in the neighbouring bucket.",
     "TUPE's own bucket function rounds up and uses max_distance − 1.", "Compare bucket by bucket.",
     "Send clipped distances [heads, 2·max − 1]."},
};
constexpr std::string_view kTupeRelated[] = {"t5_bucket", "deberta", "learned"};
constexpr ExampleInput kTupeInputs[] = {
    {"q", {2, 6, 4}, 3, 3},
    {"k", {2, 6, 4}, 3, 5},
    {"bias", {2, 11}, 2, 7},
    {"untied", {2, 2}, 2, 11},
};

}  // namespace

constexpr CardDetails kFireCard{
    .scheme = "fire",
    .latex =
        "b_{hij} = \\mathrm{MLP}_h\\!\\left( \\frac{\\ln(1 + c\\,|i - j|)}{\\ln(1 + c \\max(L, i)) + \\varepsilon} \\right)",
    .extrapolation =
        "To any length in form: for every query at or beyond the threshold L (512) the distances 0 … i map to 0 … 1, "
        "the interval that the perceptron was trained on. Before it the normaliser is that of L, so distances keep "
        "their meaning; beyond it near distances are squeezed together as the query moves on.",
    .failures = kFireFailures,
    .related = kFireRelated,
    .example = {.kind = ExampleKind::kBiasMatrix,
                .spec = R"({"fire":{"c":0.125,"threshold":4}})",
                .cpp_spec = R"(phasor::FireSpec{.c = 0.125, .threshold = 4})",
                .positions = 8,
                .inputs = kFireInputs},
    .pytorch = R"py(c, threshold, epsilon = 0.125, 4.0, 1e-6
query = torch.arange(8, dtype=torch.float64)[:, None]
key = torch.arange(8, dtype=torch.float64)[None, :]
x = torch.log(1 + c * (query - key).abs()) / (torch.log(1 + c * query.clamp(min=threshold)) + epsilon)
hidden = torch.relu(x[..., None] @ w1.T + b1)
result = {"bias": (hidden @ w2.T + b2).permute(2, 0, 1)}
)py",
};

constexpr CardDetails kDynamicPositionBiasCard{
    .scheme = "dynamic_position_bias",
    .latex =
        "b_h(\\Delta) = \\mathrm{MLP}_h(\\Delta)\\quad\\text{or}\\quad \\mathrm{MLP}_h\\big(\\mathrm{sgn}(\\Delta) \\ln(1 + "
        "|\\Delta|)\\big),\\qquad \\Delta = i - j",
    .extrapolation =
        "As far as the perceptron does outside its trained inputs. With SiLU between the layers it becomes nearly "
        "linear in its input for large distances: a line in Δ, or a line in ln Δ with log_distance, which grows far "
        "more slowly (ln 4096 = 8.3).",
    .failures = kDynamicPositionBiasFailures,
    .related = kDynamicPositionBiasRelated,
    .example = {.kind = ExampleKind::kBiasVector,
                .spec = R"({"dynamic_position_bias":{"log_distance":true}})",
                .cpp_spec = R"(phasor::DynamicPositionBiasSpec{.log_distance = true})",
                .positions = 8,
                .inputs = kDynamicPositionBiasInputs},
    .pytorch = R"py(queries, keys = 8, 8
distance = torch.arange(queries - 1, -keys, -1, dtype=torch.float64)  # query - key
x = distance.sign() * torch.log(1 + distance.abs())
hidden = torch.nn.functional.silu(x[:, None] @ w1.T + b1)
result = {"bias": (hidden @ w2.T + b2).T}  # by key - query, ascending
)py",
};

constexpr CardDetails kForgettingBiasCard{
    .scheme = "forgetting_bias",
    .latex = "b_{hij} = \\sum_{k=j+1}^{i} \\log \\sigma(f_{hk}),\\qquad j \\le i",
    .extrapolation =
        "To any length, because it is a sum of gates and knows no positions. How far a head sees is decided by the "
        "gates: a constant f = 5 (the usual start) loses 10 nats after 1489 tokens; a head that learned f = 12 after "
        "1.6 million.",
    .failures = kForgettingBiasFailures,
    .related = kForgettingBiasRelated,
    .example = {.kind = ExampleKind::kBiasMatrix,
                .spec = R"({"forgetting_bias":{"logits":true}})",
                .cpp_spec = R"(phasor::ForgettingBiasSpec{.logits = true})",
                .positions = 6,
                .inputs = kForgettingBiasInputs},
    .pytorch = R"py(total = torch.nn.functional.logsigmoid(gates).cumsum(-1)  # [heads, keys]
bias = total[:, :, None] - total[:, None, :]
result = {"bias": bias.tril()}  # 0 for keys after the query: mask them
)py",
};

constexpr CardDetails kTupeCard{
    .scheme = "tupe",
    .latex =
        "b_{hij} = \\frac{(p_i U_q)(p_j U_k)^\\top}{\\sqrt{2d}} + \\beta[j - i],\\qquad b_{h0j} = \\theta_1,\\ b_{hi0} = "
        "\\theta_2",
    .extrapolation =
        "Not beyond the learned positions p: rows that do not exist are refused. The distance part has a last bucket "
        "or clip that all far distances share.",
    .failures = kTupeFailures,
    .related = kTupeRelated,
    .example = {.kind = ExampleKind::kBiasMatrix,
                .spec = R"({"tupe":{}})",
                .cpp_spec = R"(phasor::TupeSpec{})",
                .positions = 6,
                .inputs = kTupeInputs},
    .pytorch = R"py(dim, positions = q.shape[-1], q.shape[-2]
product = q @ k.transpose(-1, -2) / math.sqrt(2 * dim)
distance = torch.arange(positions)[None, :] - torch.arange(positions)[:, None]  # key - query
total = product + bias[:, distance + positions - 1]
total[:, :, 0] = untied[:, 1:]  # any -> class
total[:, 0, :] = untied[:, :1]  # class -> any
result = {"bias": total}
)py",
};

}  // namespace phasor
