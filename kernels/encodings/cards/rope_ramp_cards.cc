#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kRopeYarnFailures[] = {
    {"Log-probabilities are off on gpt-oss although everything else is right.",
     "lo and hi were rounded although the configuration says truncate: false.",
     "Width 64, base 150000, factor 32, M₀ 4096: lo 8.0927791, hi 17.3980245, inv_freq[12] 6.7949595e-3 (rounded: "
     "7.0157139e-3).",
     "Read truncate where it stands, also inside nested dictionaries."},
    {"Quality falls at once, near and far.", "beta_fast and beta_slow are swapped: the ramp runs the wrong way.",
     "lo must be below hi; the service warns when beta_fast ≤ beta_slow.", "Give 32 and 1 to the right names."},
    {"Logits are all a little too flat or too sharp.",
     "attention_factor was multiplied onto A where the library replaces A by it, or A was applied to cos and sin and "
     "to the softmax scale.",
     "cos at position 0 is A.", "attention_factor replaces A here; attention_factor_multiplier multiplies it."},
    {"Two versions of one library give different tables for one file.",
     "They disagree on the original length and on whether the factor is taken as given or replaced by max/original.",
     "`phasor compare` of the two specs shows which field differs.", "Give factor and original_max_position explicitly."},
};
constexpr std::string_view kRopeYarnRelated[] = {"rope_llama3", "rope_longrope", "rope_linear", "rope_ntk_aware",
                                                 "rope_freq_factors"};

constexpr FailureDetail kRopeLlama3Failures[] = {
    {"Long texts are worse than the reference, short ones right; a few pairs between the kept and the divided ones "
     "turn too fast, by up to 90 %.",
     "The blend was made in the wavelength; it is linear in the frequency.",
     "inv_freq[31] must be 8.5675141e-4, inv_freq[34] 1.7850781e-4 (width 128, base 500000, factor 8).",
     "Blend θ/factor and θ by t."},
    {"NaN or infinities in the table.",
     "low_freq_factor and high_freq_factor are equal, which occurs, and the blend divides by their difference.",
     "Look for equal factors in the configuration.",
     "With equal factors there is nothing between: take the two outer cases only."},
    {"A converted GGUF file scales twice, or the wrong way round.",
     "Its rope_freqs are divisors; they were multiplied, or applied beside a scaling from the header.",
     "The last divisor is the factor (8), the first is 1.", "Divide by them once: rope_freq_factors."},
};
constexpr std::string_view kRopeLlama3Related[] = {"rope_yarn", "rope_freq_factors", "rope_linear", "rope_default"};

constexpr FailureDetail kRopeLongropeFailures[] = {
    {"Random tokens once a conversation crosses 4096 tokens.",
     "The list was switched in mid-sequence: cached keys have the short divisors, new ones the long.",
     "Compare decoding across the border with one whole forward pass.",
     "Choose the list once per sequence, or move the keys with `phasor apply --rerotate` when it crosses."},
    {"Short prompts are worse than the reference.",
     "The long list was chosen from the capacity of the server instead of the length of the sequence.",
     "sequence_length ≤ original_max_position must take the short list; the switch is strictly above.",
     "Send the sequence's own length."},
    {"An error about the list's length, or silently shifted pairs.", "The lists have rotary_dim/2 entries, not head_dim/2.",
     "Count them against rotary_dim.", "Set rotary_dim where the model rotates part of the head."},
    {"Logits a little too flat.",
     "A was left out, or taken from max_position without the original length; old files call the scheme \"su\".",
     "cos at position 0 is A: sqrt(1 + ln 32/ln 4096) = 1.1902381 for Phi-3.", "Give max_position or factor."},
};
constexpr std::string_view kRopeLongropeRelated[] = {"rope_yarn", "rope_freq_factors", "rope_dynamic_ntk", "rope_default"};

}  // namespace

constexpr CardDetails kRopeYarnCard{
    .scheme = "rope_yarn",
    .latex =
        "\\mathrm{inv\\_freq}_i = \\theta_i (1 - r_i) + \\frac{\\theta_i}{s} r_i,\\quad r_i = "
        "\\mathrm{clamp}\\!\\left(\\frac{i - lo}{hi - lo}, 0, 1\\right),\\quad lo, hi = \\frac{d "
        "\\ln\\frac{M_0}{2\\pi\\beta}}{2 \\ln b},\\quad A = 0.1 \\ln s + 1",
    .extrapolation =
        "To factor × the original length, with little tuning, as published for it. Pairs that turn more than "
        "beta_fast = 32 times within the original length keep their frequency, pairs that turn less than once are "
        "divided by factor and so stay within trained phases; A sharpens the softmax over more keys (1.1386294 for "
        "factor 4). The table does not depend on the length, so short texts get the scaled one too: switch it on "
        "only where length is needed.",
    .failures = kRopeYarnFailures,
    .related = kRopeYarnRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":10000,"yarn":{"factor":4,"original_max_position":4096}}})",
                .cpp_spec = R"(phasor::RopeSpec{.head_dim = 16,
                         .base = 10000,
                         .schedule = phasor::YarnSchedule{.factor = 4, .original_max_position = 4096}})",
                .positions = 16},
    .pytorch = R"py(head_dim, base, factor, original = 16, 10000.0, 4.0, 4096
beta_fast, beta_slow = 32, 1


def pair_that_turns(times):
    return head_dim * math.log(original / (times * 2 * math.pi)) / (2 * math.log(base))


low = max(math.floor(pair_that_turns(beta_fast)), 0)
high = min(math.ceil(pair_that_turns(beta_slow)), head_dim - 1)
i = torch.arange(head_dim // 2, dtype=torch.float64)
ramp = ((i - low) / (high - low if high > low else 0.001)).clamp(0, 1)
theta = base ** (-2 * i / head_dim)
inv_freq = theta * (1 - ramp) + theta / factor * ramp
attention_factor = 0.1 * math.log(factor) + 1
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos() * attention_factor, "sin": angle.sin() * attention_factor}
)py",
};

constexpr CardDetails kRopeLlama3Card{
    .scheme = "rope_llama3",
    .latex =
        "\\mathrm{inv\\_freq}_i = \\begin{cases} \\theta_i & \\lambda_i < M_0/h \\\\ \\theta_i / s & \\lambda_i > M_0/l "
        "\\\\ "
        "(1-t)\\,\\theta_i/s + t\\,\\theta_i & \\text{else} \\end{cases}\\qquad \\lambda_i = "
        "\\frac{2\\pi}{\\theta_i},\\quad t = "
        "\\frac{M_0/\\lambda_i - l}{h - l}",
    .extrapolation =
        "To factor × the original length (8 × 8192 = 65536 by phases; the models are tuned to 131072). Waves shorter "
        "than a quarter of the original length are kept, waves longer than it are divided by factor and stay within "
        "trained phases. Width 128, base 500000, factor 8: pairs 0 to 28 are kept, 29 to 34 blended, 35 to 63 "
        "divided by 8.",
    .failures = kRopeLlama3Failures,
    .related = kRopeLlama3Related,
    .example =
        {.kind = ExampleKind::kAngles,
         .spec =
             R"({"rope":{"head_dim":16,"base":500000,"llama3":{"factor":8,"low_freq_factor":1,"high_freq_factor":4,"original_max_position":8192}}})",
         .cpp_spec =
             R"(phasor::RopeSpec{.head_dim = 16, .base = 500000, .schedule = phasor::Llama3Schedule{8, 1, 4, 8192}})",
         .positions = 16},
    .pytorch = R"py(head_dim, base = 16, 500000.0
factor, low, high, original = 8.0, 1.0, 4.0, 8192
i = torch.arange(head_dim // 2, dtype=torch.float64)
theta = base ** (-2 * i / head_dim)
turns = original * theta / (2 * math.pi)  # original length over wavelength
t = ((turns - low) / (high - low)).clamp(0, 1)
inv_freq = (1 - t) * theta / factor + t * theta
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

constexpr CardDetails kRopeLongropeCard{
    .scheme = "rope_longrope",
    .latex =
        "\\mathrm{inv\\_freq}_i = \\frac{\\theta_i}{f_i},\\quad f = \\begin{cases} \\text{short} & L \\le M_0 \\\\ "
        "\\text{long} "
        "& L > M_0 \\end{cases},\\qquad A = \\sqrt{1 + \\frac{\\ln s}{\\ln M_0}}",
    .extrapolation =
        "To the length that the divisors were searched and tuned for (Phi-3: 4096 → 131072, factor 32, A = "
        "1.1902381), and no further. Long divisors slow the slow pairs down so that their phases stay within the "
        "trained range; the short list leaves texts up to M₀ nearly untouched. The two lists make two different "
        "tables, and a sequence must stay on one.",
    .failures = kRopeLongropeFailures,
    .related = kRopeLongropeRelated,
    .example =
        {.kind = ExampleKind::kAngles,
         .spec =
             R"({"rope":{"head_dim":16,"base":10000,"longrope":{"short_factor":[1,1,1,1.25,1.5,1.5,2,2],"long_factor":[1,1.25,2,4,8,16,32,32],"original_max_position":4096,"max_position":131072}}})",
         .cpp_spec = R"(phasor::RopeSpec{.head_dim = 16,
                         .base = 10000,
                         .schedule = phasor::LongRopeSchedule{.short_factor = {1, 1, 1, 1.25, 1.5, 1.5, 2, 2},
                                                              .long_factor = {1, 1.25, 2, 4, 8, 16, 32, 32},
                                                              .original_max_position = 4096,
                                                              .max_position = 131072}})",
         .positions = 16,
         .sequence_length = 8192},
    .pytorch = R"py(head_dim, base, original, longest, length = 16, 10000.0, 4096, 131072, 8192
short = torch.tensor([1, 1, 1, 1.25, 1.5, 1.5, 2, 2], dtype=torch.float64)
long = torch.tensor([1, 1.25, 2, 4, 8, 16, 32, 32], dtype=torch.float64)
i = torch.arange(head_dim // 2, dtype=torch.float64)
inv_freq = base ** (-2 * i / head_dim) / (long if length > original else short)
attention_factor = math.sqrt(1 + math.log(longest / original) / math.log(original))
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos() * attention_factor, "sin": angle.sin() * attention_factor}
)py",
};

}  // namespace phasor
