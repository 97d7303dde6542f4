#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kPopeFailures[] = {
    {"Half of the frequencies are missing.",
     "The exponent of RoPE was used: here it is −i/head_dim over all head_dim channels.",
     "inv_freq[1] = base^(−1/head_dim).", "One frequency per channel."},
    {"Softmax too flat.", "The scale was taken from the doubled width.", "Scale is head_dim^−½ of the width before.",
     "Pass the scale explicitly."},
    {"Scores change when q and k are exchanged.", "δ was added to the queries as well, or to both sides.",
     "At equal positions q·k must have cos δ.", "δ belongs to keys (role key), clamped to −2π … 0."},
};
constexpr std::string_view kPopeRelated[] = {"rope_default", "fope"};

constexpr FailureDetail kFopeFailures[] = {
    {"Shape error when loading the coefficients.",
     "The number of kept frequencies depends on base, width and training_length.", "Count the ω_j above 2π/M.",
     "Give the training_length of the checkpoint."},
    {"The rotation cannot be undone.", "cos'² + sin'² is not 1, so the transpose is no inverse.",
     "Sum the squares of an entry.", "Keep unrotated keys where they will be moved."},
    {"Still channels leak into their partners.", "sin was padded with 1 instead of 0.",
     "Pairs from the outputs on: cos 1, sin 0.", "Pad cos with 1 and sin with 0."},
    {"Grouped heads are wrong.", "The mixture belongs to a key-value head, and every query head takes that of its group.",
     "Compare the first query head of each group.", "Index by query head // group size."},
};
constexpr std::string_view kFopeRelated[] = {"rope_default", "rope_proportional", "pope"};
constexpr ExampleInput kFopeInputs[] = {
    {"cos_coef", {2, 3, 3}, 3, 3},
    {"sin_coef", {2, 3, 3}, 3, 5},
};

}  // namespace

constexpr CardDetails kPopeCard{
    .scheme = "pope",
    .latex =
        "q_i \\mapsto \\mathrm{softplus}(q_i)\\,[\\cos\\varphi_i, \\sin\\varphi_i],\\quad k_i \\mapsto "
        "\\mathrm{softplus}(k_i)\\,[\\cos(\\varphi_i + \\delta_i), \\sin(\\varphi_i + \\delta_i)],\\quad \\varphi_i = m\\, "
        "b^{-i/D}",
    .extrapolation =
        "The limit is the same in kind as RoPE's: content sets only the radius and position only the angle, but "
        "channels whose wavelength is longer than the trained length (width 128, base 10000: the longest is "
        "2π·10000^(127/128) = 58470 positions) meet unseen phases beyond it.",
    .failures = kPopeFailures,
    .related = kPopeRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"pope":{"head_dim":8,"base":10000}})",
                .cpp_spec = R"(phasor::PopeSpec{.head_dim = 8, .base = 10000})",
                .positions = 16},
    .pytorch = R"py(head_dim, base = 8, 10000.0
i = torch.arange(head_dim, dtype=torch.float64)
angle = torch.arange(16, dtype=torch.float64)[:, None] * base ** (-i / head_dim)
result = {"cos": angle.cos(), "sin": angle.sin()}

# q [16, head_dim] becomes twice as wide:
#   radius = torch.nn.functional.softplus(q)
#   q = torch.cat([radius * cos, radius * sin], -1)
)py",
};

constexpr CardDetails kFopeCard{
    .scheme = "fope",
    .latex =
        "\\cos'_d = \\sum_j \\cos(m\\omega_j)\\, C_{hjd},\\quad \\sin'_d = \\sum_j \\sin(m\\omega_j)\\, S_{hjd},\\qquad "
        "\\omega_j "
        "= b^{-2j/D} > \\frac{2\\pi}{M}",
    .extrapolation =
        "No kept pair meets an unseen phase beyond M, because the frequencies that turn less than once within the "
        "training length are dropped; what is left to fail is how attention spreads over more keys than in training. "
        "With width 128, base 10000 and M = 4096, 46 of 64 frequencies are kept. The pairs beyond the outputs stand "
        "still (cos 1, sin 0) and carry no position.",
    .failures = kFopeFailures,
    .related = kFopeRelated,
    .example = {.kind = ExampleKind::kMixedAngles,
                .spec = R"({"fope":{"head_dim":16,"base":10000,"training_length":64}})",
                .cpp_spec = R"(phasor::FopeSpec{.head_dim = 16, .training_length = 64, .base = 10000})",
                .positions = 16,
                .inputs = kFopeInputs},
    .pytorch = R"py(head_dim, base, training_length = 16, 10000.0, 64
omega = base ** (-2 * torch.arange(head_dim // 2, dtype=torch.float64) / head_dim)
omega = omega[omega > 2 * math.pi / training_length]  # 3 of them
angle = torch.arange(16, dtype=torch.float64)[:, None] * omega
cos = torch.einsum("pj,hjd->phd", angle.cos(), cos_coef)
sin = torch.einsum("pj,hjd->phd", angle.sin(), sin_coef)
still = (0, head_dim // 2 - cos.shape[-1])
result = {
    "cos": torch.nn.functional.pad(cos, still, value=1.0),
    "sin": torch.nn.functional.pad(sin, still, value=0.0),
}
)py",
};

}  // namespace phasor
