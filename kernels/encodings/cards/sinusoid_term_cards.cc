#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kTransformerXlFailures[] = {
    {"Scores have the right size but the wrong keys.",
     "The rows of R run from the largest distance down to 0; they were read upwards.", "Row 0 belongs to distance rows − 1.",
     "Reverse them, or let the service make them."},
    {"Keys after the query have values.", "A whole product and relative shift leaves other rows' numbers there.",
     "The upper triangle before masking.", "Mask them; here they are −∞."},
    {"The position bias acts on content.", "The fourth term was written v·k: it is v·W_r R.",
     "Set u = 0, v ≠ 0 and R = 0: scores must be q·k.", "Four terms: q·k, q·W_r R, u·k, v·W_r R."},
    {"Right alone, wrong with interleaved sinusoids.", "R is [sines, cosines]; Conformer's is interleaved.",
     "Column 1 of R.", "Use the scheme that the model has."},
    {"Distances are right at one length only.",
     "R was made once as a table of max_len rows, row 1 for +1 and row 2 for −1. There is a row for every distance from "
     "keys − 1 down to 0, none for keys after the query, and row 0 changes with the number of keys.",
     "First column of row 0: sin 6 = −0.27942 with 7 keys, sin 8 = 0.98936 with 9.", "Make R anew for every length."},
};
constexpr std::string_view kTransformerXlRelated[] = {"xlnet", "conformer", "shaw", "sinusoidal"};
constexpr ExampleInput kTransformerXlInputs[] = {
    {"q", {1, 6, 2, 4}, 4, 3}, {"k", {1, 6, 2, 4}, 4, 5}, {"w_r", {8, 8}, 2, 7}, {"u", {2, 4}, 2, 11}, {"v", {2, 4}, 2, 13},
};

constexpr FailureDetail kXlnetFailures[] = {
    {"All distances are off by one.",
     "The table starts at distance keys, one more than any pair has; the library's shift drops that row and cuts the "
     "rest.",
     "Row j of r is distance keys − j.", "Start there."},
    {"Segments are exchanged.", "seg_embed's row 0 is the same segment; Funnel's has the rows the other way round.",
     "Set one row to 0.", "Swap the rows for Funnel."},
    {"A fully masked row is not NaN in fp16 but differs.", "The library's fp16 mask constant is −65500, not −∞.",
     "Compare a masked row.", "Mask after adding, with one constant."},
};
constexpr std::string_view kXlnetRelated[] = {"transformer_xl", "conformer", "deberta"};
constexpr ExampleInput kXlnetInputs[] = {
    {"q", {1, 6, 2, 4}, 4, 3},   {"k", {1, 6, 2, 4}, 4, 5},   {"w_r", {8, 8}, 2, 7},
    {"r_w_bias", {2, 4}, 2, 11}, {"r_r_bias", {2, 4}, 2, 13},
};

constexpr FailureDetail kConformerFailures[] = {
    {"Keys after the query get odd scores.",
     "ESPnet's legacy form has rows for distances ≥ 0 only, and its shift reads other rows there.",
     "Count the rows: 2·keys − 1, or keys.", "Use the latest form, or mask."},
    {"Right scheme, wrong numbers.",
     "Columns of R are interleaved, not [sines, cosines] (Gemma's sound encoders: concatenated and base-inclusive).",
     "Column 1 of R is a cosine.", "concatenated, base_inclusive."},
    {"Left and right are exchanged.", "The rows were read upwards: row 0 is distance keys − 1.", "A table with one row set.",
     "Descending distances."},
};
constexpr std::string_view kConformerRelated[] = {"transformer_xl", "xlnet", "sinusoidal"};
constexpr ExampleInput kConformerInputs[] = {
    {"q", {1, 6, 2, 4}, 4, 3}, {"k", {1, 6, 2, 4}, 4, 5}, {"w_r", {8, 8}, 2, 7}, {"u", {2, 4}, 2, 11}, {"v", {2, 4}, 2, 13},
};

}  // namespace

constexpr CardDetails kTransformerXlCard{
    .scheme = "transformer_xl",
    .latex = "S_{ij} = \\frac{q_i^\\top k_j + q_i^\\top W_r R_{i-j} + u^\\top k_j + v^\\top W_r R_{i-j}}{\\sqrt d}",
    .extrapolation =
        "Beyond the trained memory as far as the sinusoids of the distance carry: distances that training never had "
        "bring unseen phases in the slow pairs. clamp_length holds every distance to the largest trained one. The "
        "rows cover distances from keys − 1 down to 0 and are made again for every length, so nothing overflows.",
    .failures = kTransformerXlFailures,
    .related = kTransformerXlRelated,
    .example = {.kind = ExampleKind::kScores,
                .spec = R"({"transformer_xl":{}})",
                .cpp_spec = R"(phasor::TransformerXlSpec{})",
                .positions = 6,
                .inputs = kTransformerXlInputs},
    .pytorch = R"py(query, key = q[0].transpose(0, 1), k[0].transpose(0, 1)  # [heads, tokens, channels]
heads, tokens, width = query.shape
dim = w_r.shape[1]


def rows(distance):
    i = torch.arange(dim // 2, dtype=torch.float64)
    angle = distance.double()[..., None] * 10000.0 ** (-2 * i / dim)
    return torch.cat([angle.sin(), angle.cos()], -1)


distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]  # query - key
r = (rows(distance) @ w_r.T).reshape(tokens, tokens, heads, width)
content = (query + u[:, None]) @ key.transpose(-1, -2)
position = torch.einsum("hid,ijhd->hij", query + v[:, None], r)
scores = ((content + position) / math.sqrt(width)).masked_fill(distance < 0, -math.inf)
result = {"scores": scores[None]}
)py",
};

constexpr CardDetails kXlnetCard{
    .scheme = "xlnet",
    .latex = "S_{ij} = \\frac{(q_i + r_w)^\\top k_j + (q_i + r_r)^\\top W_r R_{i-j} + (q_i + r_s)^\\top s_{ij}}{\\sqrt d}",
    .extrapolation =
        "As Transformer-XL: the rows are made for every length, distances beyond training bring unseen phases in the "
        "slow pairs, and clamp_length holds them. Bidirectional attention has distances of both signs, keys … "
        "−queries.",
    .failures = kXlnetFailures,
    .related = kXlnetRelated,
    .example = {.kind = ExampleKind::kScores,
                .spec = R"({"xlnet":{}})",
                .cpp_spec = R"(phasor::XlnetSpec{})",
                .positions = 6,
                .inputs = kXlnetInputs},
    .pytorch = R"py(query, key = q[0].transpose(0, 1), k[0].transpose(0, 1)  # [heads, tokens, channels]
heads, tokens, width = query.shape
dim = w_r.shape[1]


def rows(distance):
    i = torch.arange(dim // 2, dtype=torch.float64)
    angle = distance.double()[..., None] * 10000.0 ** (-2 * i / dim)
    return torch.cat([angle.sin(), angle.cos()], -1)


distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]  # query - key, both signs
r = (rows(distance) @ w_r.T).reshape(tokens, tokens, heads, width)
content = (query + r_w_bias[:, None]) @ key.transpose(-1, -2)
position = torch.einsum("hid,ijhd->hij", query + r_r_bias[:, None], r)
result = {"scores": ((content + position) / math.sqrt(width))[None]}
)py",
};

constexpr CardDetails kConformerCard{
    .scheme = "conformer",
    .latex =
        "S_{ij} = \\frac{(q_i + u)^\\top k_j + (q_i + v)^\\top W_r R_{i-j}}{\\sqrt d},\\qquad R_\\Delta = [\\sin_0, "
        "\\cos_0, "
        "\\sin_1, \\dots]",
    .extrapolation =
        "As Transformer-XL, in both directions: rows for distances keys − 1 … −(keys − 1) are made for every length. "
        "Recordings longer than those of training bring distances with unseen phases in the slow pairs, unless "
        "attention stays within chunks.",
    .failures = kConformerFailures,
    .related = kConformerRelated,
    .example = {.kind = ExampleKind::kScores,
                .spec = R"({"conformer":{}})",
                .cpp_spec = R"(phasor::ConformerSpec{})",
                .positions = 6,
                .inputs = kConformerInputs},
    .pytorch = R"py(query, key = q[0].transpose(0, 1), k[0].transpose(0, 1)  # [heads, tokens, channels]
heads, tokens, width = query.shape
dim = w_r.shape[1]


def rows(distance):
    i = torch.arange(dim // 2, dtype=torch.float64)
    angle = distance.double()[..., None] * 10000.0 ** (-2 * i / dim)
    return torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)  # interleaved


distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]  # query - key, both signs
r = (rows(distance) @ w_r.T).reshape(tokens, tokens, heads, width)
content = (query + u[:, None]) @ key.transpose(-1, -2)
position = torch.einsum("hid,ijhd->hij", query + v[:, None], r)
result = {"scores": ((content + position) / math.sqrt(width))[None]}
)py",
};

}  // namespace phasor
