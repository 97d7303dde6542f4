#include "kernels/encodings/cards/card_list.h"

namespace phasor {
namespace {

constexpr FailureDetail kRopeFreqFactorsFailures[] = {
    {"Long texts fail at once although the file has rope_freqs.",
     "The divisors were taken as factors: frequencies grew instead of falling.",
     "The slow pairs' divisors are above 1 and inv_freq must be below θ.", "Divide."},
    {"Numbers differ from the configuration's by 1e-7.", "The list is stored as float32.", "Compare at a relative 1e-6.",
     "Nothing is wrong; use the schedule itself where the last digits matter."},
    {"Logits too flat on a converted LongRoPE model.", "Its attention factor is not in the list.", "cos at position 0.",
     "Set attention_factor."},
};
constexpr std::string_view kRopeFreqFactorsRelated[] = {"rope_inv_freq", "rope_llama3", "rope_longrope", "rope_linear"};

constexpr FailureDetail kRopeInvFreqFailures[] = {
    {"A table is off by up to 0.4 % in angle.",
     "The buffer was cast with the model to bfloat16 or float16 before it was read.",
     "A bfloat16 number has at most 8 significant bits: `phasor diagnose` on the buffer names it.",
     "Read the buffer in float32, or derive it from base and width."},
    {"A changed base has no effect.", "Given frequencies do not use it; the service warns.", "Look for a warning on base.",
     "Change the frequencies, or use a schedule."},
    {"Small differences to a library at long positions.",
     "It forms the angle in float32: the cosine is off by 1.4e-4 at 4095 and 3.2e-3 at 131071.",
     "Ask for compat_f32 precision and compare again.", "compat_f32 for that library's bits, exact for the definition."},
};
constexpr std::string_view kRopeInvFreqRelated[] = {"rope_freq_factors", "rope_default", "gaussian_fourier"};

constexpr FailureDetail kRopePixelFailures[] = {
    {"The first pair carries nothing: its sines are 0 and its cosines ±1.",
     "Whole positions were given, and it turns by π a unit.", "The table at 0, 1, 2.", "Scale coordinates to −1 … 1."},
    {"Another base has no effect.", "The frequencies are evenly spaced, not powers of a base.",
     "inv_freq[0] is π, the last π·max_freq/2.", "Change max_freq."},
    {"A square image works, a wide one does not.", "Each axis has its own coordinates from −1 to 1, and tokens need both.",
     "Look at the coordinates of the last column.", "Give one axis per section (axes)."},
};
constexpr std::string_view kRopePixelRelated[] = {"rope_inv_freq", "grid_sinusoidal", "gaussian_fourier"};
constexpr double kRopePixelPositions[] = {-1, -0.75, -0.5, -0.25, 0, 0.25, 0.5, 0.75, 1};

}  // namespace

constexpr CardDetails kRopeFreqFactorsCard{
    .scheme = "rope_freq_factors",
    .latex = "\\mathrm{inv\\_freq}_i = \\frac{b^{-2i/d}}{f_i \\, s}",
    .extrapolation =
        "As far as the divisors were made for: they are another schedule written down as numbers (Llama 3.1's, "
        "LongRoPE's). A divisor of factor on the slow pairs keeps their phases within the trained ones up to factor "
        "× the length; a divisor of 1 leaves a pair as it was.",
    .failures = kRopeFreqFactorsFailures,
    .related = kRopeFreqFactorsRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"base":500000,"freq_factors":{"factors":[1,1,1,1,2.5,8,8,8]}}})",
                .cpp_spec = R"(phasor::RopeSpec{
      .head_dim = 16, .base = 500000, .schedule = phasor::FreqFactorsSchedule{.factors = {1, 1, 1, 1, 2.5, 8, 8, 8}}})",
                .positions = 16},
    .pytorch = R"py(head_dim, base = 16, 500000.0
factors = torch.tensor([1, 1, 1, 1, 2.5, 8, 8, 8], dtype=torch.float64)
i = torch.arange(head_dim // 2, dtype=torch.float64)
inv_freq = base ** (-2 * i / head_dim) / factors
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

constexpr CardDetails kRopeInvFreqCard{
    .scheme = "rope_inv_freq",
    .latex = "\\text{angle}_i(m) = m \\cdot \\mathrm{inv\\_freq}_i",
    .extrapolation =
        "As far as the frequencies that are given: compare 2π/inv_freq of the last pair with the trained length. "
        "Pairs whose wavelength is longer than that meet phases beyond it that training never showed.",
    .failures = kRopeInvFreqFailures,
    .related = kRopeInvFreqRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":8,"inv_freq":{"inv_freq":[1,0.25,0.0625,0.0009765625]}}})",
                .cpp_spec = R"(phasor::RopeSpec{
      .head_dim = 8, .schedule = phasor::InvFreqSchedule{.inv_freq = {1, 0.25, 0.0625, 0.0009765625}}})",
                .positions = 16},
    .pytorch = R"py(inv_freq = torch.tensor([1, 0.25, 0.0625, 0.0009765625], dtype=torch.float64)
angle = torch.arange(16, dtype=torch.float64)[:, None] * inv_freq
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

constexpr CardDetails kRopePixelCard{
    .scheme = "rope_pixel",
    .latex =
        "\\mathrm{inv\\_freq}_i = \\pi\\left(1 + \\frac{i}{n-1}\\left(\\frac{F}{2} - 1\\right)\\right),\\quad n = "
        "\\frac{d}{2},\\quad m \\in [-1, 1]",
    .extrapolation =
        "To any resolution, because coordinates are scaled to −1 … 1 first: a finer image has more points in the "
        "same interval, not larger coordinates. Outside that interval the first pair repeats after 2 units. What "
        "changes with resolution is the step between neighbours, 2/(N − 1).",
    .failures = kRopePixelFailures,
    .related = kRopePixelRelated,
    .example = {.kind = ExampleKind::kAngles,
                .spec = R"({"rope":{"head_dim":16,"pixel":{"max_freq":10}}})",
                .cpp_spec = R"(phasor::RopeSpec{.head_dim = 16, .schedule = phasor::PixelSchedule{.max_freq = 10}})",
                .fractional_positions = kRopePixelPositions},
    .pytorch = R"py(head_dim, max_freq = 16, 10.0
inv_freq = torch.linspace(1, max_freq / 2, head_dim // 2, dtype=torch.float64) * math.pi
position = torch.linspace(-1, 1, 9, dtype=torch.float64)
angle = position[:, None] * inv_freq
result = {"cos": angle.cos(), "sin": angle.sin()}
)py",
};

}  // namespace phasor
