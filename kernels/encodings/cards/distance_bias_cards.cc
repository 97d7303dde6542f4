#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kAlibiFailures[] = {
    {"Quality falls with length, worst in the first heads.", "The sign is wrong: −s·j + s·i = s·(i − j) rewards distance.",
     "The bias of a past key must be ≤ 0.", "s·(j − i) with a causal mask, or −s·|i − j|; slopes are positive constants."},
    {"12 or 40 heads: slopes do not match the checkpoint.",
     "One geometric series was used; a head count that is no power of two takes p = 2^floor(log2 H) heads by the "
     "rule and the rest from the odd steps of 2p.",
     "12 heads: 0.5, 0.25 … 0.00390625, then 0.7071, 0.3536, 0.1768, 0.0884.",
     "Give the head count and let the rule make them."},
    {"Bias vanishes while decoding.", "It was built from the query's length 1, so that every distance is 0.",
     "The row of the last query must have as many different values as keys.",
     "Build it over the cache's length, with the query's offset."},
    {"A tensor-parallel shard differs from the whole model.", "Slopes were made from the local head count.",
     "Compare slopes of rank 1 with heads H/2 … of the whole list.", "Global head count and first_head."},
    {"Two libraries' biases differ, the outputs do not.",
     "They store s·j, s·(j − S + 1) or −s·|Δ|: a constant per row is free under softmax.", "Compare after the softmax.",
     "Fix one form before comparing."},
    {"A model with RoPE and ALiBi differs from its reference.",
     "Steps in another order. RoPE turns queries and keys, which there are only behind their projections; the bias is added "
     "to scores, so it cannot come before.",
     "x = (0, 1) at position 1, W_q = diag(1, 2), key (1, 0) at position 0, slope 1/2: the score is −1.69002; −1.09501 "
     "where x was turned before W_q, −1.54357 where the bias was added before 1/√d.",
     "x → q, k, v → qk-norm → RoPE on q and k → q·k·scale → + ALiBi → mask → softmax."},
};
constexpr std::string_view kAlibiRelated[] = {"kerple", "sandwich", "t5_bucket", "forgetting_bias", "fire"};

constexpr FailureDetail kT5BucketFailures[] = {
    {"Encoder right, decoder wrong (or the reverse).", "bidirectional is true in encoders and false in decoders.",
     "Bucket of key − query = +1: 17 in an encoder, 0 in a decoder.", "Set it by side."},
    {"Everything looks mirrored.", "The sign: T5 takes memory − query.",
     "Bucket of −1 is 1, of +1 is 17 (bidirectional, 32).", "key − query."},
    {"Cross-attention is biased.", "The bias was added to encoder–decoder attention, which has none.",
     "Zero the table: cross-attention must not change.", "Self-attention only."},
    {"Decoded tokens differ from a full pass.", "With cached keys the new query stands at the end, not at 0.",
     "Compare the last row of the full bias with the decoded one.", "Give the query's offset (form row)."},
    {"UMT5 is wrong where T5 is right.", "T5 shares the first layer's table, UMT5 has one for every layer.",
     "Count the tables in the checkpoint.", "One table per layer."},
};
constexpr std::string_view kT5BucketRelated[] = {"alibi", "deberta", "shaw", "dynamic_position_bias", "tupe"};
constexpr ExampleInput kT5BucketInputs[] = {
    {"table", {32, 2}, 2, 3},
};

constexpr FailureDetail kKerpleFailures[] = {
    {"The bias is 0 everywhere and stays so in training.", "a = 0 in NeMo's code, where a and p are no parameters.",
     "Look at r2: it must be above 0; 0 is refused here.", "Start with r2 above 0 and train it."},
    {"Future keys get the same weight as past ones.", "The form is symmetric.", "Values at +1 and −1 are equal.",
     "Add a causal mask."},
    {"A checkpoint's numbers do not fit.", "Log form, power form and NeMo's −b·ln(1 + a·|Δ|^p) share parameter names.",
     "Value at distance 1: −r1·ln(1 + r2), or −r1.", "Name the form."},
};
constexpr std::string_view kKerpleRelated[] = {"alibi", "fire", "sandwich"};

constexpr FailureDetail kSandwichFailures[] = {
    {"All values are slightly off.", "The sum started at k = 0: it starts at 1, so the fastest frequency is base^(−2/dim).",
     "8 heads, dim 128, head 0, distance 1: −1.446619.", "k = 1 … dim/2."},
    {"The bias grows linearly.", "A revision of NeMo sums Δ·frequency without the cosine and drops the last k.",
     "Distance 512 must give −47.96, not thousands.", "Use the cosine form."},
    {"Heads are in the wrong order.", "The strongest decay is head 0: the divisor is 8(h + 1)/H.",
     "Head 0 has the lowest values.", "Multiply by H/(8(h + 1))."},
};
constexpr std::string_view kSandwichRelated[] = {"alibi", "kerple", "sinusoidal"};

}  // namespace

constexpr CardDetails kAlibiCard{
    .scheme = "alibi",
    .latex = "b_{hij} = s_h\\,(j - i),\\qquad s_h = 2^{-8(h+1)/H}\\ \\ (H = 2^k)",
    .extrapolation =
        "To any length without breaking, because no phase or row is unseen: mostly by no longer attending far away. "
        "A head with slope s has lost 10 nats at distance 10/s: with 8 heads 20 positions for the first (slope 1/2) "
        "and 2560 for the last (slope 1/256), where an equal key has e^−10 = 0.000045 of the weight. So what lies further "
        "back than a few thousand positions is hardly seen by any head. Percentages that are quoted without their setup, "
        "for ALiBi or others, are anecdotes.",
    .failures = kAlibiFailures,
    .related = kAlibiRelated,
    .example = {.kind = ExampleKind::kBiasVector,
                .spec = R"({"alibi":{"num_heads":12}})",
                .cpp_spec = R"(phasor::AlibiSpec{.num_heads = 12})",
                .positions = 8},
    .pytorch = R"py(heads, queries, keys = 12, 8, 8
p = 2 ** math.floor(math.log2(heads))
slopes = [2 ** (-8 * (h + 1) / p) for h in range(p)]
slopes += [2 ** (-4 * (2 * k + 1) / p) for k in range(heads - p)]
distance = torch.arange(-(queries - 1), keys, dtype=torch.float64)  # key - query
result = {"bias": torch.tensor(slopes, dtype=torch.float64)[:, None] * distance}
)py",
};

constexpr CardDetails kT5BucketCard{
    .scheme = "t5_bucket",
    .latex =
        "b_{hij} = W[\\mathrm{bucket}(j - i),\\, h],\\qquad \\mathrm{bucket}(n) = e + \\left\\lfloor "
        "\\frac{\\ln(n/e)}{\\ln(D/e)}\\,(N - e) \\right\\rfloor\\ \\ (n \\ge e)",
    .extrapolation =
        "To any length in form, because all distances from max_distance on share the last bucket. With 32 buckets "
        "and distance 128 a decoder tells distances 0 to 15 apart and has 16 buckets for the rest; at 113 and beyond "
        "it cannot tell distances apart at all, so order among far tokens is lost rather than wrong.",
    .failures = kT5BucketFailures,
    .related = kT5BucketRelated,
    .example = {.kind = ExampleKind::kBiasVector,
                .spec = R"({"t5_bucket":{"num_buckets":32,"max_distance":128,"bidirectional":true}})",
                .cpp_spec = R"(phasor::T5BucketSpec{.num_buckets = 32, .max_distance = 128, .bidirectional = true})",
                .positions = 40,
                .inputs = kT5BucketInputs},
    .pytorch = R"py(num_buckets, max_distance, queries, keys = 32, 128, 40, 40
distance = torch.arange(-(queries - 1), keys)  # key - query
side, exact = num_buckets // 2, num_buckets // 4
n = distance.abs()
far = torch.log(n.clamp(min=1).double() / exact) / math.log(max_distance / exact) * (side - exact)
far = (exact + far.trunc().long()).clamp(max=side - 1)
bucket = torch.where(n < exact, n, far) + side * (distance > 0)
result = {"bias": table[bucket].T}
)py",
};

constexpr CardDetails kKerpleCard{
    .scheme = "kerple",
    .latex = "b = -r_1 \\ln(1 + r_2 |\\Delta|)\\quad\\text{or}\\quad b = -r_1 |\\Delta|^{r_2}",
    .extrapolation =
        "To any length: the bias is defined and monotone everywhere. The logarithm falls ever more slowly, so far "
        "keys keep weight where ALiBi's line has removed them (r₁ = r₂ = 1: −6.9 at distance 1000, where a line of "
        "slope 1 has −1000); the weight of a key falls as a power of its distance.",
    .failures = kKerpleFailures,
    .related = kKerpleRelated,
    .example =
        {.kind = ExampleKind::kBiasVector,
         .spec = R"({"kerple":{"form":"KERPLE_FORM_LOG","r1":[0.5,1,2,0.25],"r2":[1,0.5,0.125,4]}})",
         .cpp_spec =
             R"(phasor::KerpleSpec{.form = phasor::KerpleForm::kLog, .r1 = {0.5, 1, 2, 0.25}, .r2 = {1, 0.5, 0.125, 4}})",
         .positions = 16},
    .pytorch = R"py(queries, keys = 16, 16
r1 = torch.tensor([0.5, 1, 2, 0.25], dtype=torch.float64)[:, None]
r2 = torch.tensor([1, 0.5, 0.125, 4], dtype=torch.float64)[:, None]
distance = torch.arange(-(queries - 1), keys, dtype=torch.float64)
result = {"bias": -r1 * torch.log1p(r2 * distance.abs())}
)py",
};

constexpr CardDetails kSandwichCard{
    .scheme = "sandwich",
    .latex =
        "b_h(\\Delta) = \\frac{H}{8(h+1)} \\left( \\sum_{k=1}^{\\bar d/2} \\cos\\!\\left(\\Delta\\, b^{-2k/\\bar d}\\right) "
        "- "
        "\\frac{\\bar d}{2} \\right)",
    .extrapolation =
        "To any length in form: it is bounded below and falls roughly with the logarithm of the distance, with "
        "ripples. With 8 heads and width 128 the first head has −1.446619 at distance 1, −22.340688 at 16 and "
        "−47.961317 at 512. It is not monotone, so single far distances can stand above nearer ones.",
    .failures = kSandwichFailures,
    .related = kSandwichRelated,
    .example = {.kind = ExampleKind::kBiasVector,
                .spec = R"({"sandwich":{"num_heads":4,"dim":16,"base":10000}})",
                .cpp_spec = R"(phasor::SandwichSpec{.num_heads = 4, .dim = 16, .base = 10000})",
                .positions = 16},
    .pytorch = R"py(heads, dim, base, queries, keys = 4, 16, 10000.0, 16, 16
k = torch.arange(1, dim // 2 + 1, dtype=torch.float64)
distance = torch.arange(-(queries - 1), keys, dtype=torch.float64)
curve = (distance[:, None] * base ** (-2 * k / dim)).cos().sum(-1) - dim / 2
factor = heads / (8 * torch.arange(1, heads + 1, dtype=torch.float64))
result = {"bias": factor[:, None] * curve}
)py",
};

}  // namespace phasor
