#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"

#include "server/knowledge/alibi_lines.h"
#include "server/knowledge/alibi_slopes.h"
#include "server/knowledge/bias_search.h"
#include "server/text.h"

namespace phasor::server {
namespace {

std::optional<AlibiLines> SlopesAsLines(const BiasCurve& curve) {
  AlibiLines lines;
  bool zero = true;
  for (int64_t head = 0; head < curve.heads; ++head) {
    const double value = -curve.middle(head, 0), ulp = curve.ulp(head, 0);
    lines.slopes.push_back({value - ulp, value + ulp});
    zero = zero && value == 0;
  }
  if (zero) return std::nullopt;
  return lines;
}

// Distances that were whole numbers of a narrow type only.
std::optional<AlibiLines> RoundedLines(const BiasCurve& curve) {
  for (const DType dtype : {DType::kBF16, DType::kF16}) {
    for (const double ulps : {0.5001, 1.0}) {
      if (auto lines = LinesAt(curve, 0, ulps, dtype)) return lines;
    }
  }
  return std::nullopt;
}

bool AllNegative(const std::vector<Interval>& slopes) {
  return std::all_of(slopes.begin(), slopes.end(),
                     [](const Interval& slope) { return slope.high < 0 || slope.contains(0); });
}

// Sandwich without its cosine: slopes go as 1/(h + 1).
bool GoesAsOneOverHead(const std::vector<Interval>& slopes) {
  Interval first;
  for (size_t h = 0; h < slopes.size(); ++h) {
    const auto factor = static_cast<double>(h + 1);
    first.Clip(slopes[h].low * factor, slopes[h].high * factor);
  }
  return slopes.size() > 2 && !first.empty() && first.low != 0;
}

struct LineSearch {
  const Backend& backend;
  const DiagnoseInput& input;
  const BiasCurve& curve;
  const AlibiLines& lines;
  bool slopes;
  Diagnosis& diagnosis;

  void Shape(AlibiSpec& spec) const {
    if (lines.form != AlibiForm::kCausal) spec.form = lines.form;
    if (lines.form == AlibiForm::kTwoSided) spec.future_factor = Simplest(lines.future_factor);
  }

  // Rows that the softmax cannot tell from the spec's, or that stand in another place.
  std::string NoteOfOrigin() const {
    if (lines.origin == 0 || slopes) return "";
    return Cat("the zero is at distance ", lines.origin,
               ", not 0: a constant per row, which the softmax removes (MPT stores "
               "slope·(key − keys + 1))");
  }

  absl::Status Judged(BiasCandidate candidate) {
    // A zero beyond the query is no form of the spec: only the past is compared.
    const BiasCurve past =
        lines.future_zero && lines.future_seen ? curve.Without(0, std::max<int64_t>(1 - curve.first, 0)) : curve;
    auto hypothesis = Judge(backend, past, candidate, input.cancel);
    if (!hypothesis.ok()) return hypothesis.status();
    if (!*hypothesis) return absl::OkStatus();
    if (lines.future_zero && lines.future_seen) {
      (*hypothesis)->note += "; keys after their query hold 0, so they need a causal mask";
      (*hypothesis)->reproduces = false;
    }
    diagnosis.hypotheses.push_back(**std::move(hypothesis));
    return absl::OkStatus();
  }

  absl::Status Explain(const std::vector<Interval>& positive, std::string_view fault, const std::string& seen) {
    for (SlopeRule& rule : ExplainSlopes(positive)) {
      BiasCandidate candidate{.origin = lines.origin, .first_head = rule.first_head, .confidence = rule.confidence};
      Shape(rule.spec);
      const bool given = !rule.spec.slopes.empty();
      const bool flipped = !fault.empty() && given && fault == "alibi_sign_flipped";
      if (flipped) {
        for (double& slope : rule.spec.slopes) slope = -slope;
      } else if (!fault.empty()) {
        candidate.fault = fault;
        candidate.seen = seen;
      }
      if (!rule.fault.empty()) {
        candidate.fault = rule.fault;
        AddFault(rule.fault, rule.seen, rule.confidence, std::nullopt, diagnosis);
      }
      candidate.spec = std::move(rule.spec);
      candidate.note = rule.note;
      if (const std::string note = NoteOfOrigin(); !note.empty())
        candidate.note += (candidate.note.empty() ? "" : "; ") + note;
      if (absl::Status status = Judged(std::move(candidate)); !status.ok()) return status;
    }
    return absl::OkStatus();
  }
};

}  // namespace

absl::Status SearchLines(const Backend& backend, const DiagnoseInput& input, const BiasCurve& curve, bool slopes,
                         Diagnosis& diagnosis) {
  auto lines = slopes ? SlopesAsLines(curve) : FindLines(curve);
  std::string_view fault;
  std::string seen;
  if (!lines && !slopes) {
    lines = RoundedLines(curve);
    if (lines) {
      fault = "bias_distances_rounded";
      seen = Cat("the values are the slopes times distances rounded to ", Name(*lines->rounded_distances));
    }
  }
  if (!lines) return absl::OkStatus();
  std::vector<Interval> positive = lines->slopes;
  if (AllNegative(positive)) {
    for (Interval& slope : positive) slope = slope.Negated();
    fault = "alibi_sign_flipped";
    seen = absl::StrFormat("the bias grows with the distance of a past key (by %.6g a key in the first head)",
                           positive[0].middle());
  }
  if (!fault.empty()) AddFault(fault, seen, 0.95, std::nullopt, diagnosis);
  if (!slopes && GoesAsOneOverHead(positive)) {
    AddFault("sandwich_without_cosine", "straight lines whose slopes go as 1/(head + 1)", 0.8, std::nullopt, diagnosis);
  }
  if (!slopes && lines->origin != 0 && lines->form != AlibiForm::kCausal &&
      input.table.content != InputContent::kBiasVector) {
    const std::vector<int64_t>& shape = input.table.tensors.front().shape;
    const int64_t more = shape.size() > 1 ? shape[shape.size() - 2] - shape.back() : 0;  // queries − keys
    AddFault("bias_not_bottom_right_aligned",
             Cat("distance 0 is at key − query − (keys − queries) = ", lines->origin, " instead of 0",
                 lines->origin == more ? ": the first query stands at the first key" : ""),
             0.9, std::nullopt, diagnosis);
  }
  LineSearch search{backend, input, curve, *lines, slopes, diagnosis};
  return search.Explain(positive, fault, seen);
}

}  // namespace phasor::server
