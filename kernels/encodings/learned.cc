#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "kernels/encodings/schemes.h"
#include "kernels/encodings/spec_check.h"

namespace phasor {
namespace {

constexpr std::array kParameters{
    ParameterCard{"num_positions", "rows of the table", "those of the weight \"table\"", "1 … 2^31 − 1"},
    ParameterCard{"dim", "columns of the table", "those of the weight \"table\"", "1 … 2^20"},
    ParameterCard{"position_offset", "position m reads row m + position_offset", "0", "−2^30 + 1 … 2^30 − 1"},
    ParameterCard{"padding_row", "row of the tokens that a position mask hides", "that of their position",
                  "0 … num_positions − 1"},
    ParameterCard{"scale", "factor on every entry", "1", "finite"},
    ParameterCard{"l2_normalize", "divide rows by their Euclidean norm first", "false", "true, false"},
};

constexpr Card kCard{
    .title = "Learned table",
    .summary =
        "Absolute positions as rows of a table that was trained with the model. The caller uploads the table as the "
        "weight \"table\" [rows, dim]; without it the row numbers alone can be asked for.",
    .formula = "PE(m) = scale·E[m + position_offset]",
    .parameters = kParameters,
    .used_by =
        "BERT, GPT-2, ViT (offset 0); OPT, BART (offset 2); RoBERTa, XLM-R, MPNet (offset padding_idx + 1, padded tokens "
        "read padding_idx); x-transformers (scale dim^−½, or l2_normalize)",
    .pitfalls =
        "Rows beyond the table are refused, never read. With left padding the positions must come from the mask, not from "
        "the columns. OPT's table has two rows more than its maximum of positions.",
    .source = "Gehring et al., arXiv 1705.03122; Devlin et al., arXiv 1810.04805; transformers modeling files",
};

constexpr int64_t kMaxRow = (int64_t{1} << 30) - 1;
constexpr int64_t kMaxRows = (int64_t{1} << 31) - 1;

// The extent as it was given, or the table's.
void TakeExtent(std::string_view field, int64_t& extent, const WeightRef& table, size_t axis, SpecChecker& check) {
  if (!table) return;
  const int64_t rows = table->shape[axis];
  if (extent == 0) {
    extent = rows;
  } else if (extent != rows) {
    check.Fail(field, absl::StrCat(extent), absl::StrCat(rows, ", as in the weight \"table\""));
  }
}

absl::StatusOr<CanonicalSpec> CanonicalizeSpec(const EncodingSpec& spec) {
  CanonicalSpec canonical{spec, {}, {}};
  LearnedSpec& s = std::get<LearnedSpec>(canonical.spec);
  SpecChecker check(&canonical);
  if (s.table && s.table->shape.size() != 2) {
    check.Fail("weights", absl::StrCat("\"table\" [", absl::StrJoin(s.table->shape, ", "), "]"), "[rows, dim]");
  }
  if (!check.ok()) return check.status();
  TakeExtent("learned.num_positions", s.num_positions, s.table, 0, check);
  TakeExtent("learned.dim", s.dim, s.table, 1, check);
  check.InRange("learned.num_positions", s.num_positions, 1, kMaxRows);
  check.InRange("learned.dim", s.dim, 1, kMaxDim);
  check.Default("learned.position_offset", s.position_offset, int64_t{0}, "0");
  check.Default("learned.scale", s.scale, 1.0, "1");
  check.InRange("learned.position_offset", *s.position_offset, -kMaxRow, kMaxRow);
  if (s.padding_row) check.InRange("learned.padding_row", *s.padding_row, 0, s.num_positions - 1);
  if (!std::isfinite(*s.scale)) check.Fail("learned.scale", FormatNumber(*s.scale), "finite");
  *s.scale += 0.0;  // −0
  if (!check.ok()) return check.status();
  return canonical;
}

absl::StatusOr<Resolved> ResolveSpec(const EncodingSpec& canonical, std::optional<int64_t>, Precision) {
  const LearnedSpec& s = std::get<LearnedSpec>(canonical);
  Resolved resolved;
  resolved.plan =
      GatherPlan{.rows = s.num_positions, .dim = s.dim, .table = s.table, .scale = *s.scale, .l2_normalize = s.l2_normalize};
  return resolved;
}

}  // namespace

constexpr Scheme kLearned{"learned", "table", false, &kCard, &CanonicalizeSpec, &ResolveSpec};

}  // namespace phasor
