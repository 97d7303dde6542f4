#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kRopeDefaultFailures[] = {
    {"Fluent nonsense from the first token on, with finite losses.",
     "The pairing is not the checkpoint's: (2i, 2i + 1) for (i, i + d/2), or the other way round.",
     "Rotate one query at position 1 in both pairings and compare with the reference model.",
     "Set `pairing`, or permute the rows of Wq and Wk per head once: new[i] = old[2i], new[i + d/2] = old[2i + 1]."},
    {"Loss is 0.1 to 1 nat too high with no error; worse with distance.",
     "The base was not read: newer configurations keep rope_theta inside rope_parameters, and a reader that looks at "
     "the top level falls back to 10000.",
     "`phasor resolve config.json` shows the base and whether it is a default.",
     "Read both places and treat a missing base as an error, not as 10000."},
    {"Long prompts drift in bfloat16 or float16 while short ones are right.",
     "Positions, inv_freq or the angle were held in 16 bits: near 15962 bfloat16 steps by 64, so that position "
     "becomes 15936 and the first pair's cosine −0.26795 instead of −0.90802.",
     "Compare the table at the longest position with `phasor table` in f32; `phasor diagnose` names the precision.",
     "Keep positions, inv_freq and angles in float32 or better, and cast only the finished cosines and sines."},
    {"A model with a partial rotation loses accuracy with length.",
     "The exponents run over head_dim instead of rotary_dim, or pairs are (i, i + head_dim/2).",
     "inv_freq[1] must be base^(−2/rotary_dim).",
     "Give rotary_dim; pairs are then (i, i + rotary_dim/2) and the other channels pass through."},
    {"Every pair turns too slowly, the first one included.",
     "Pairs were counted from 1 and the exponent was left at −2i/d. Counted so it is −2(i − 1)/d, and d is the rotary "
     "width of a head, not the model's.",
     "inv_freq of the first pair must be 1; width 128 and base 10000 give 0.86596 where the 1 was not taken off.",
     "Count pairs from 0."},
    {"Heads differ that should not, or the shapes do not fit.",
     "A table [S, d/2] was multiplied with [B, S, H, d/2]: its positions meet the heads. Where S equals H that passes: "
     "head 0 never turns, at position 1 its first cosine is 1 instead of 0.54030.",
     "Give all heads one query: they must come out equal.", "[S, 1, d/2], or heads before tokens."},
};
constexpr std::string_view kRopeDefaultRelated[] = {"rope_linear",       "rope_ntk_aware", "rope_yarn",
                                                    "rope_proportional", "pope",           "sinusoidal"};

constexpr FailureDetail kRopeLinearFailures[] = {
    {"Short texts become worse as soon as scaling is on.",
     "All pairs are slowed down, the fast ones that tell neighbours apart included.",
     "Compare perplexity below the trained length with factor 1 and with the factor.",
     "Tune with the factor, or use YaRN or Llama 3.1's rule, which keep the fast pairs."},
    {"Positions behave as if divided by factor².", "The factor was applied to the positions and to the frequencies.",
     "inv_freq[0] must be 1/factor while position ids stay whole.", "Apply it once."},
    {"A model with two kinds of layers is wrong at all lengths.",
     "The factor belongs to the global layers only (Gemma-3: 8 on full attention, none on sliding layers).",
     "`phasor resolve config.json` lists a schedule for every layer type.", "Take the schedule by layer type."},
};
constexpr std::string_view kRopeLinearRelated[] = {"rope_default", "rope_ntk_aware", "rope_yarn", "rope_llama3",
                                                   "rope_freq_factors"};

constexpr FailureDetail kRopeNtkAwareFailures[] = {
    {"Numbers are close to the library's but not equal.", "The base was multiplied by factor instead of factor^(d/(d − 2)).",
     "base 10000, factor 4, width 128: base' is 40889.94, not 40000.",
     "Use the exponent, or say linear in the base on purpose (Lumina does)."},
    {"Division by zero or infinite frequencies.", "rotary_dim is 2: the exponent d/(d − 2) has no value.",
     "The spec is refused with the field's name.", "Use linear scaling at width 2."},
    {"A Hunyuan model is read as dynamic NTK.",
     "Its configuration says type \"dynamic\" with `alpha`, which is this fixed rule and does not depend on the "
     "length.",
     "`phasor resolve config.json` gives rope_ntk_aware.", "Let alpha decide, not the type's name."},
    {"A conversation loses its thread when the base is raised in the middle of it.",
     "Cached keys were rotated with the old base; a new base is not free. From 10000 to 40889.94 (width 128) pair 32 of "
     "a key at position 1024 has to turn by 5.176 radians.",
     "Compare with one whole forward pass at the new base.",
     "Rotate the cached keys again (`phasor apply --rerotate`) or start anew."},
};
constexpr std::string_view kRopeNtkAwareRelated[] = {"rope_default", "rope_dynamic_ntk", "rope_ntk_mixed", "rope_qwen1_ntk",
                                                     "rope_yarn"};

constexpr FailureDetail kRopeDynamicNtkFailures[] = {
    {"Worse with a key cache than without one beyond M.",
     "Cached keys were rotated with the base of an earlier, shorter length.",
     "Compare decoding with one whole forward pass at the same length.",
     "Freeze one length for a sequence, or keep keys unrotated and rotate when they are read (`phasor apply "
     "--rerotate` moves them)."},
    {"Answers of one sequence depend on its batch.", "The library takes the longest sequence of the batch as L.",
     "Run the sequence alone and in a batch with a longer one.", "Give each request its own sequence_length."},
    {"A short prompt after a long one is answered with other numbers than before.",
     "The frequencies of the longer length were kept; the library resets them only when the length falls below M.",
     "inv_freq at L = M must be that of plain RoPE.", "Derive the table from the request's length, never from state."},
};
constexpr std::string_view kRopeDynamicNtkRelated[] = {"rope_ntk_aware", "rope_qwen1_ntk", "rope_longrope", "rope_default"};

}  // namespace

constexpr CardDetails kRopeDefaultCard{
    .scheme = "rope_default",
    .latex =
        "\\theta_i = b^{-2i/d},\\quad i = 0 \\dots \\tfrac{d}{2}-1,\\qquad \\begin{pmatrix} x_i' \\\\ x_{i+d/2}' "
        "\\end{pmatrix} = \\begin{pmatrix} \\cos m\\theta_i & -\\sin m\\theta_i \\\\ \\sin m\\theta_i & \\cos m\\theta_i "
        "\\end{pmatrix} \\begin{pmatrix} x_i \\\\ x_{i+d/2} \\end{pmatrix}",
    .extrapolation =
        "Little beyond the trained length by itself. Fast pairs have gone through every phase in training; the slow "
        "pairs, whose wavelength is longer than the trained length, meet phases that they never saw. With width 128, "
        "base 10000 and 4096 trained positions these are pairs 46 to 63, 18 of 64; the longest wavelength is "
        "2π·10000^(126/128) = 54410 positions. A larger base before training, or one of the scaling rules after it, "
        "is what extends it. The base follows from the context that is wanted: the ratio of neighbouring frequencies, "
        "base^(2/d) (here 1.1548), has no value that it ought to have, and the first pair turns one radian per position "
        "at any base.",
    .failures = kRopeDefaultFailures,
    .related = kRopeDefaultRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":10000}})",
                .cpp_spec = R"(phasor::RopeSpec{.head_dim = 16, .base = 10000})",
                .positions = 16},
    .pytorch = R"py(head_dim, base = 16, 10000.0
i = torch.arange(head_dim // 2, dtype=torch.float64)
inv_freq = base ** (-2 * i / head_dim)
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos(), "sin": angle.sin()}

# Half-split pairs (i, i + head_dim/2) of x [16, head_dim]:
#   first, second = x.chunk(2, -1)
#   y = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
)py",
};

constexpr CardDetails kRopeLinearCard{
    .scheme = "rope_linear",
    .latex = "\\mathrm{inv\\_freq}_i = \\frac{b^{-2i/d}}{s} \\qquad\\Longleftrightarrow\\qquad m \\mapsto \\frac{m}{s}",
    .extrapolation =
        "To factor × the trained length, after some tuning: every phase then lies within what training saw, because "
        "position factor·m has the angles that m had. The price is resolution: neighbouring tokens differ by "
        "1/factor of the trained angle in every pair, also in the fastest (1/8 radian for factor 8), which is why "
        "short texts suffer without tuning.",
    .failures = kRopeLinearFailures,
    .related = kRopeLinearRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":10000,"linear":{"factor":8}}})",
                .cpp_spec =
                    R"(phasor::RopeSpec{.head_dim = 16, .base = 10000, .schedule = phasor::LinearSchedule{.factor = 8}})",
                .positions = 16},
    .pytorch = R"py(head_dim, base, factor = 16, 10000.0, 8.0
i = torch.arange(head_dim // 2, dtype=torch.float64)
inv_freq = base ** (-2 * i / head_dim) / factor
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

constexpr CardDetails kRopeNtkAwareCard{
    .scheme = "rope_ntk_aware",
    .latex = "b' = b \\, s^{d/(d-2)},\\qquad \\mathrm{inv\\_freq}_i = b'^{-2i/d}",
    .extrapolation =
        "To somewhat less than factor × the trained length without tuning. The last pair is slowed down by exactly "
        "factor, so that it stays within its trained phases up to factor × the length (with width 128, base 10000 "
        "and factor 4 the longest wavelength goes from 54410 to 217641); the first keeps its frequency. Pairs "
        "between are slowed down by less than factor, and those that had not completed a turn in training leave "
        "their trained phases before the full factor is reached.",
    .failures = kRopeNtkAwareFailures,
    .related = kRopeNtkAwareRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":10000,"ntk_aware":{"factor":4}}})",
                .cpp_spec =
                    R"(phasor::RopeSpec{.head_dim = 16, .base = 10000, .schedule = phasor::NtkAwareSchedule{.factor = 4}})",
                .positions = 16},
    .pytorch = R"py(head_dim, base, factor = 16, 10000.0, 4.0
i = torch.arange(head_dim // 2, dtype=torch.float64)
larger = base * factor ** (head_dim / (head_dim - 2))
angle = torch.arange(16, dtype=torch.float64)[:, None] * larger ** (-2 * i / head_dim)
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

constexpr CardDetails kRopeDynamicNtkCard{
    .scheme = "rope_dynamic_ntk",
    .latex = "b' = b \\left( \\frac{sL}{M} - (s - 1) \\right)^{d/(d-2)},\\qquad L = \\max(\\text{length}, M)",
    .extrapolation =
        "As far as the NTK-aware rule at the factor that the length asks for, without tuning, and with nothing "
        "changed up to M. The base grows with the length: for factor 2, M = 2048 and width 128 it is 10000 at 2048, "
        "19499.28 at 3000 and 30527.74 at 4096. So there is no one table: every length has its own.",
    .failures = kRopeDynamicNtkFailures,
    .related = kRopeDynamicNtkRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":10000,"dynamic_ntk":{"factor":2,"max_position":2048}}})",
                .cpp_spec = R"(phasor::RopeSpec{
      .head_dim = 16, .base = 10000, .schedule = phasor::DynamicNtkSchedule{.factor = 2, .max_position = 2048}})",
                .positions = 16,
                .sequence_length = 4096},
    .pytorch = R"py(head_dim, base, factor, max_position, length = 16, 10000.0, 2.0, 2048, 4096
i = torch.arange(head_dim // 2, dtype=torch.float64)
growth = factor * max(length, max_position) / max_position - (factor - 1)
larger = base * growth ** (head_dim / (head_dim - 2))
angle = torch.arange(16, dtype=torch.float64)[:, None] * larger ** (-2 * i / head_dim)
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

}  // namespace phasor
