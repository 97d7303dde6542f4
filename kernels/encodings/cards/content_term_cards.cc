#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kShawFailures[] = {
    {"Left and right context are exchanged.", "BERT counts rows by query − key, Shaw by key − query.",
     "Set one row of the table and see which neighbour gets it.", "key_minus_query."},
    {"An index error or a wrong row at far distances.", "The distance was not clipped before max − 1 was added.",
     "Distances clip, clip + 1 must read one row.", "Clip, then shift."},
    {"Only half of the term is there.", "relative_key_query adds k·a as well.",
     "position_embedding_type in the configuration.", "query_term_too."},
};
constexpr std::string_view kShawRelated[] = {"t5_bucket", "deberta", "transformer_xl", "learned"};
constexpr ExampleInput kShawInputs[] = {
    {"q", {1, 6, 2, 4}, 4, 3},
    {"k", {1, 6, 2, 4}, 4, 5},
    {"keys", {7, 4}, 2, 7},
};

constexpr FailureDetail kDebertaFailures[] = {
    {"Scores are too large by √3.", "They were divided by √d; the divisor counts the terms: √(d·f), f = 1 + terms.",
     "With c2p and p2c f is 3.", "Scale all terms and q·k alike."},
    {"p2c looks mirrored.",
     "The paper writes δ(j − i); after the code's negated gather and transpose both terms index by i − j.",
     "A table with one row set.", "query − key for both."},
    {"Buckets off by one at some distances.", "The logarithmic bucket rounds up; T5's truncates.",
     "Compare with the library's bucket matrix.", "ceil."},
    {"Wrong rows for all distances.",
     "δ = bucket + span, span = position_buckets, or max_relative_positions without buckets.", "Distance 0 reads row span.",
     "Give position_buckets."},
};
constexpr std::string_view kDebertaRelated[] = {"t5_bucket", "shaw", "tupe", "transformer_xl"};
constexpr ExampleInput kDebertaInputs[] = {
    {"q", {1, 6, 2, 4}, 4, 3},
    {"k", {1, 6, 2, 4}, 4, 5},
    {"key_positions", {2, 8, 4}, 3, 7},
    {"query_positions", {2, 8, 4}, 3, 11},
};

constexpr FailureDetail kCopeFailures[] = {
    {"Positions count into the future.", "The causal mask came after the sigmoid: keys after the query were counted.",
     "The last key of a row must have p = σ of its own score.", "Hide them before."},
    {"Positions are far too small or too large.", "The gates take q·k without the scale; some programs scale before.",
     "Compare p with a sum of σ(q·k).", "Give q·scale, e/scale and a scale of 1 for those."},
    {"Steps instead of smooth change.", "p was rounded: rows are interpolated linearly.", "Move a key a little.",
     "Blend the two rows."},
};
constexpr std::string_view kCopeRelated[] = {"forgetting_bias", "shaw", "alibi"};
constexpr ExampleInput kCopeInputs[] = {
    {"q", {1, 6, 2, 4}, 4, 3},
    {"k", {1, 6, 2, 4}, 4, 5},
    {"e", {4, 4}, 2, 7},
};

constexpr FailureDetail kDecomposedFailures[] = {
    {"Scores are off by a constant factor.",
     "The term was scaled by 1/√d with q·k: it is added after the scale, with q unscaled.",
     "Set k = 0: scores must be the term itself.", "Add it like a bias."},
    {"Wrong after resizing.", "Linear interpolation with aligned corners; the library aligns no corners.",
     "The resized ends differ.", "align_corners false."},
    {"It was cached as a bias.", "It depends on q.", "Change one query.", "Compute it per call."},
};
constexpr std::string_view kDecomposedRelated[] = {"window_bias", "shaw", "grid_sinusoidal"};
constexpr ExampleInput kDecomposedInputs[] = {
    {"q", {1, 6, 2, 4}, 4, 3},
    {"k", {1, 6, 2, 4}, 4, 5},
    {"rel_pos_h", {3, 4}, 2, 7},
    {"rel_pos_w", {5, 4}, 2, 11},
};

}  // namespace

constexpr CardDetails kShawCard{
    .scheme = "shaw",
    .latex =
        "S_{ij} = \\frac{q_i \\cdot k_j + q_i \\cdot a[\\mathrm{clip}(i - j)]}{\\sqrt d}\\ \\left(+\\ \\frac{k_j \\cdot "
        "a[\\mathrm{clip}(i-j)]}{\\sqrt d}\\right)",
    .extrapolation =
        "To any length in form: distances beyond the clip share the last row, nothing becomes zero, but they can no "
        "longer be told apart. BERT variants clip at max_position − 1 and so have a row for every distance up to "
        "there; rows near the ends were seen rarely.",
    .failures = kShawFailures,
    .related = kShawRelated,
    .example = {.kind = ExampleKind::kScores,
                .spec = R"({"shaw":{"clip":3}})",
                .cpp_spec = R"(phasor::ShawSpec{.clip = 3})",
                .positions = 6,
                .inputs = kShawInputs},
    .pytorch = R"py(clip = 3
query, key = q[0].transpose(0, 1), k[0].transpose(0, 1)  # [heads, tokens, channels]
tokens, dim = query.shape[-2:]
distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]  # query - key
row = keys[distance.clamp(-clip, clip) + clip]  # [tokens, tokens, channels]
scores = query @ key.transpose(-1, -2) + torch.einsum("hid,ijd->hij", query, row)
result = {"scores": (scores / math.sqrt(dim))[None]}
)py",
};

constexpr CardDetails kDebertaCard{
    .scheme = "deberta",
    .latex =
        "S_{ij} = \\frac{q_i \\cdot k_j + q_i \\cdot K_r[\\delta(i-j)] + k_j \\cdot Q_r[\\delta(i-j)]}{\\sqrt{d\\,(1 + "
        "\\#\\text{terms})}}",
    .extrapolation =
        "To max_relative_positions with distinct buckets: distances up to half of position_buckets have a row each, "
        "further ones share rows on a logarithmic scale, and all beyond the maximum the last one (256 buckets, 512 "
        "positions). Longer inputs run, but order beyond the last bucket is lost.",
    .failures = kDebertaFailures,
    .related = kDebertaRelated,
    .example = {.kind = ExampleKind::kScores,
                .spec = R"({"deberta":{"position_buckets":4,"max_relative_positions":6}})",
                .cpp_spec = R"(phasor::DebertaSpec{.position_buckets = 4, .max_relative_positions = 6})",
                .positions = 6,
                .inputs = kDebertaInputs},
    .pytorch = R"py(buckets, longest = 4, 6
query, key = q[0].transpose(0, 1), k[0].transpose(0, 1)  # [heads, tokens, channels]
tokens, dim = query.shape[-2:]
distance = torch.arange(tokens)[:, None] - torch.arange(tokens)[None, :]  # query - key
middle = buckets // 2
n = distance.abs()
log = torch.log(n.clamp(min=1).double() / middle) / math.log((longest - 1) / middle) * (middle - 1)
bucket = torch.where(n <= middle, distance, distance.sign() * (log.ceil().long() + middle))
row = (bucket + buckets).clamp(0, 2 * buckets - 1)
heads = torch.arange(query.shape[0])[:, None, None]
c2p = torch.einsum("hid,hijd->hij", query, key_positions[heads, row])
p2c = torch.einsum("hjd,hijd->hij", key, query_positions[heads, row])
scores = (query @ key.transpose(-1, -2) + c2p + p2c) / math.sqrt(3 * dim)
result = {"scores": scores[None]}
)py",
};

constexpr CardDetails kCopeCard{
    .scheme = "cope",
    .latex =
        "p_{ij} = \\min\\!\\Big(\\sum_{k=j}^{i} \\sigma(q_i \\cdot k_k),\\ p_{\\max} - 1\\Big),\\qquad S_{ij} \\mathrel{+}= "
        "q_i "
        "\\cdot e[p_{ij}]\\ \\text{(linear between rows)}",
    .extrapolation =
        "As far as its counts stay below max_positions: a position is a count of what the model chose to count, so a "
        "longer text needs no new rows if it has no more of that. Counts beyond are held to the last row, which all "
        "far keys then share.",
    .failures = kCopeFailures,
    .related = kCopeRelated,
    .example = {.kind = ExampleKind::kScores,
                .spec = R"({"cope":{}})",
                .cpp_spec = R"(phasor::CopeSpec{})",
                .positions = 6,
                .inputs = kCopeInputs},
    .pytorch = R"py(query, key = q[0].transpose(0, 1), k[0].transpose(0, 1)  # [heads, tokens, channels]
tokens, dim = query.shape[-2:]
hidden = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)  # keys after the query
content = query @ key.transpose(-1, -2)
gate = torch.sigmoid(content).masked_fill(hidden, 0)
position = gate.flip(-1).cumsum(-1).flip(-1).clamp(max=e.shape[-1] - 1)  # from the key to the query
low, high = position.floor().long(), position.ceil().long()
logit = query @ e  # [heads, tokens, rows]
share = position - low
term = (1 - share) * logit.gather(-1, low) + share * logit.gather(-1, high)
scores = ((content + term) / math.sqrt(dim)).masked_fill(hidden, -math.inf)
result = {"scores": scores[None]}
)py",
};

constexpr CardDetails kDecomposedCard{
    .scheme = "decomposed",
    .latex = "S_{ij} \\mathrel{+}= q_i \\cdot R_h[\\Delta y] + q_i \\cdot R_w[\\Delta x]",
    .extrapolation =
        "To other grids by resizing the two tables linearly to 2·max(q, k) − 1 rows. Offsets beyond the trained grid "
        "thus share what training learned for the same fraction of the image.",
    .failures = kDecomposedFailures,
    .related = kDecomposedRelated,
    .example = {.kind = ExampleKind::kScores,
                .spec = R"({"decomposed":{"query_height":2,"query_width":3}})",
                .cpp_spec = R"(phasor::DecomposedSpec{.query_height = 2, .query_width = 3})",
                .positions = 6,
                .inputs = kDecomposedInputs},
    .pytorch = R"py(height, width = 2, 3
query, key = q[0].transpose(0, 1), k[0].transpose(0, 1)  # [heads, tokens, channels]
tokens, dim = query.shape[-2:]
y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
y, x = y.flatten(), x.flatten()
row_h = rel_pos_h[y[:, None] - y[None, :] + height - 1]  # query minus key
row_w = rel_pos_w[x[:, None] - x[None, :] + width - 1]
scores = query @ key.transpose(-1, -2) / math.sqrt(dim)
scores = scores + torch.einsum("hid,ijd->hij", query, row_h) + torch.einsum("hid,ijd->hij", query, row_w)
result = {"scores": scores[None]}
)py",
};

}  // namespace phasor
