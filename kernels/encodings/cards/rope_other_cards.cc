#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kRopeProportionalFailures[] = {
    {"Wrong from the first token on; a partial rotation looked like the same thing.",
     "Read as partial RoPE: exponents over the rotated width and pairs within the first channels. Here exponents run "
     "over head_dim and pairs are (i, i + head_dim/2).",
     "Head 512, share 0.25: channels 0 to 63 and 256 to 319 move, and inv_freq[1] = base^(−2/512).",
     "Use this scheme and leave rotary_dim out."},
    {"One pair too many or too few turns.", "The count was rounded instead of truncated.",
     "The count is int(share·head_dim // 2), in double precision.", "Truncate as the library does."},
    {"Cosine is 0 instead of 1 in the still pairs.",
     "Their frequency is 0, so cos is 1 and sin 0; padding cos with zeros erases those channels.",
     "Columns from the live pairs on: cos 1, sin 0.", "Pad frequencies, not tables."},
};
constexpr std::string_view kRopeProportionalRelated[] = {"rope_default", "fope", "rope_linear"};

constexpr FailureDetail kRopeQwen1NtkFailures[] = {
    {"Decoding beyond the training length differs from one whole pass.",
     "α was computed again for each new token; the model's code computes it at prefill and keeps it.",
     "Cross 2·M while decoding and compare.", "Send the prefill's length as sequence_length for the whole sequence."},
    {"Wrong α at lengths that are no power of two.",
     "floor was used for ceil: a discussion writes floor, the code has ceil.", "M = 2048: α is 3 at 3000 and 7 at 8192.",
     "ceil(log2(L/M) + 1)."},
    {"Scores are too sharp beyond M although the table is right.",
     "LogN scaling of q is missing: max(1, ln(m + 1)/ln M), key use_logn_attn.",
     "Compare the queries' norms with the reference.", "`phasor apply --query-scale log_n=M`."},
};
constexpr std::string_view kRopeQwen1NtkRelated[] = {"rope_dynamic_ntk", "rope_ntk_aware", "rope_ntk_mixed"};

constexpr FailureDetail kRopeNtkMixedFailures[] = {
    {"Pair 0 keeps the frequency 1.", "The NTK-aware rule was used: there pair 0 is not scaled.",
     "inv_freq[0] must be factor^(−2/d) (fixed), or exp(−a) (mixed).", "Use this scheme for type \"ntk\"."},
    {"The exponent starts one pair late.", "The mixed form counts pairs from 1: (i + 1)^b.",
     "The last pair must be θ/factor.", "Use i + 1."},
};
constexpr std::string_view kRopeNtkMixedRelated[] = {"rope_ntk_aware", "rope_dynamic_ntk", "rope_linear"};

}  // namespace

constexpr CardDetails kRopeProportionalCard{
    .scheme = "rope_proportional",
    .latex =
        "\\mathrm{inv\\_freq}_i = \\begin{cases} b^{-2i/h}/s & i < k \\\\ 0 & k \\le i < h/2 \\end{cases},\\qquad k = "
        "\\lfloor f h / 2 \\rfloor,\\quad h = \\text{head dim}",
    .extrapolation =
        "Without limit from slow pairs: those that would meet unseen phases do not turn at all. With head width 512, "
        "base 1000000 and a share of 0.25 the 64 live pairs have wavelengths from 6.28 to 188 positions, so every "
        "phase is seen in any training; the other 192 pairs carry content without position. What limits the length "
        "is what the model learned to do with far keys.",
    .failures = kRopeProportionalFailures,
    .related = kRopeProportionalRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":1000000,"proportional":{"partial_rotary_factor":0.25}}})",
                .cpp_spec = R"(phasor::RopeSpec{
      .head_dim = 16, .base = 1e6, .schedule = phasor::ProportionalSchedule{.partial_rotary_factor = 0.25}})",
                .positions = 16},
    .pytorch = R"py(head_dim, base, share = 16, 1000000.0, 0.25
live = int(share * head_dim // 2)
i = torch.arange(head_dim // 2, dtype=torch.float64)
inv_freq = torch.where(i < live, base ** (-2 * i / head_dim), torch.zeros_like(i))
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

constexpr CardDetails kRopeQwen1NtkCard{
    .scheme = "rope_qwen1_ntk",
    .latex =
        "\\alpha = \\max\\!\\left(1,\\ 2^{\\lceil \\log_2 (L/M) + 1 \\rceil} - 1\\right),\\qquad b' = b\\,\\alpha^{d/(d-2)}",
    .extrapolation =
        "To a few times the training length M without tuning, together with LogN scaling of the queries. α moves in "
        "steps: 1 up to M, 3 up to 2·M, 7 up to 4·M; between the steps the base does not change, so cached keys stay "
        "right there. At each step every wavelength jumps.",
    .failures = kRopeQwen1NtkFailures,
    .related = kRopeQwen1NtkRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":10000,"qwen1_ntk":{"training_length":2048}}})",
                .cpp_spec = R"(phasor::RopeSpec{
      .head_dim = 16, .base = 10000, .schedule = phasor::Qwen1NtkSchedule{.training_length = 2048}})",
                .positions = 16,
                .sequence_length = 3000},
    .pytorch = R"py(head_dim, base, training_length, length = 16, 10000.0, 2048, 3000
alpha = max(1, 2 ** math.ceil(math.log2(length / training_length) + 1) - 1)
i = torch.arange(head_dim // 2, dtype=torch.float64)
larger = base * alpha ** (head_dim / (head_dim - 2))
angle = torch.arange(16, dtype=torch.float64)[:, None] * larger ** (-2 * i / head_dim)
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

constexpr CardDetails kRopeNtkMixedCard{
    .scheme = "rope_ntk_mixed",
    .latex =
        "\\text{fixed: } \\frac{(s b)^{-2i/d}}{s^{2/d}},\\qquad \\text{mixed: } \\theta_i \\exp\\!\\left(-a "
        "(i+1)^{\\beta}\\right),\\quad a = \\frac{\\ln s}{(d/2)^{\\beta}}",
    .extrapolation =
        "To about factor × the trained length without tuning. The last pair is divided by exactly factor in both "
        "forms and so keeps to trained phases; pair 0 is slowed down too, but only a little (fixed form, width 128, "
        "factor 4: by 4^(2/128) = 1.0219). The mixed form's exponent says how the slowing is spread over the pairs.",
    .failures = kRopeNtkMixedFailures,
    .related = kRopeNtkMixedRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":10000,"ntk_mixed":{"factor":4,"mixed_b":0.625}}})",
                .cpp_spec = R"(phasor::RopeSpec{
      .head_dim = 16, .base = 10000, .schedule = phasor::NtkMixedSchedule{.factor = 4, .mixed_b = 0.625}})",
                .positions = 16},
    .pytorch = R"py(head_dim, base, factor, b = 16, 10000.0, 4.0, 0.625
i = torch.arange(head_dim // 2, dtype=torch.float64)
a = math.log(factor) / (head_dim / 2) ** b
inv_freq = base ** (-2 * i / head_dim) * torch.exp(-a * (i + 1) ** b)
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

}  // namespace phasor
