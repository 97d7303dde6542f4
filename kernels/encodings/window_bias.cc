#include <array>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"
#include "kernels/encodings/weight_check.h"
#include "kernels/encodings/window_limits.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"window_height", "Wh, tokens", "required", "1 … 4096"},
    ParameterCard{"window_width", "Ww, tokens", "required", "1 … 4096"},
    ParameterCard{"num_heads", "attention heads", "the columns of the table", "1 … 65536"},
    ParameterCard{"class_token", "token 0 is a class token, the table has three rows more", "false", "true, false"},
    ParameterCard{"weights: table", "[(2·Wh − 1)·(2·Ww − 1) (+ 3), heads]", "absent: indices only", "finite numbers"},
};

constexpr Card kCard{
    .title = "Window bias (Swin, BEiT)",
    .summary =
        "A learned bias for every offset between two tokens of a window, one column of the table per head. Tokens are "
        "numbered row by row.",
    .formula =
        "b[h, i, j] = table[(Δy + Wh − 1)·(2·Ww − 1) + Δx + Ww − 1, h], Δ = coordinates of i − coordinates of j; with a "
        "class token the last three rows are class → token, token → class, class → class",
    .parameters = kParameters,
    .used_by =
        "Swin (window_size); BEiT and Data2VecVision (use_relative_position_bias, use_shared_relative_position_bias, over "
        "the whole image, with class token)",
    .pitfalls =
        "The three rows of the class token come last and must not be resized with the others. To resize, reshape each "
        "head's column to [2·Wh − 1, 2·Ww − 1]: Swin's recipe is bicubic, transformers' BEiT bilinear. The offset is query "
        "minus key, row-major: a transposed table looks alike on square windows.",
    .source = "Liu et al., arXiv 2103.14030; Bao et al., arXiv 2106.08254; transformers' models",
};

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  WindowBiasSpec& s = std::get<WindowBiasSpec>(canonical.spec);
  SpecChecker check(&canonical);
  check.InRange("window_bias.window_height", s.window_height, 1, kMaxWindow);
  check.InRange("window_bias.window_width", s.window_width, 1, kMaxWindow);
  if (!check.ok()) return check.status();
  const TokenWindow window{s.window_height, s.window_width, s.class_token};
  if (CheckWeight(check, "table", s.table, Need::kOptional, {{window.table_rows(), "rows"}, {0, "heads"}})) {
    if (s.num_heads == 0) s.num_heads = s.table->shape[1];
    if (s.num_heads != s.table->shape[1]) {
      check.Fail("window_bias.num_heads", absl::StrCat(s.num_heads),
                 absl::StrCat(s.table->shape[1], ": the table's columns"));
    }
  }
  check.InRange("window_bias.num_heads", s.num_heads, 1, kMaxHeads);
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const WindowBiasSpec& s = std::get<WindowBiasSpec>(canonical);
  Resolved resolved;
  resolved.plan =
      WindowBiasPlan{.window = {s.window_height, s.window_width, s.class_token}, .num_heads = s.num_heads, .table = s.table};
  return resolved;
}

}  // namespace

constexpr Scheme kWindowBias{"window_bias", "bias", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
