#include "kernels/encodings/sinusoid_terms.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

std::string PathOf(const SinusoidTerm& table, const char* field) {
  return absl::StrCat(std::string(table.scheme), ".", field);
}

// num_heads against what the weights say; without vectors it says how rows of w_r are shared.
void CheckHeads(SpecChecker& check, const SinusoidTerm& term, TermWidth& width) {
  int64_t& heads = *term.num_heads;
  const std::string path = PathOf(term, "num_heads");
  if (heads == 0) return;
  check.InRange(path, heads, 1, kMaxHeads);
  if (!check.ok()) return;
  if (width.heads != 0) {
    if (heads != width.heads) check.Fail(path, absl::StrCat(heads), absl::StrCat(width.heads, ", as the weights have"));
    heads = 0;  // one spelling
    return;
  }
  if (!CheckWeight(check, "w_r", term.projection, Need::kRequired, {{0, "heads·d"}, {term.dim, "dim"}})) return;
  const int64_t rows = term.projection->shape[0];
  if (rows % heads != 0) {
    return check.Fail(path, absl::StrCat(heads), absl::StrCat("a divisor of ", rows, ", the rows of w_r"));
  }
  width = {heads, rows / heads};
}

}  // namespace

TermWidth CheckSinusoidTerm(SpecChecker& check, const SinusoidTerm& table) {
  if (table.clamp) check.InRange(PathOf(table, "clamp_length"), *table.clamp, 1, kMaxLength);
  check.Default(PathOf(table, "base"), table.base, 10000.0, "10000");
  check.Positive(PathOf(table, "base"), *table.base);
  if (!table.table == !table.projection) {
    check.Fail("weights", table.table ? "r and w_r" : "neither r nor w_r",
               "one of r [heads, rows, d] and w_r [heads·d, dim]");
    return {};
  }
  TermWidth width;
  if (CheckWeight(check, "r", table.table, Need::kOptional, {{0, "heads"}, {0, "rows"}, {0, "d"}})) {
    width = {table.table->shape[0], table.table->shape[2]};
    if (table.dim != 0) check.Warn(PathOf(table, "dim"), "has no effect: r is given");
    table.dim = 0;
  }
  for (const NamedBias& bias : {table.content, table.position}) {
    if (width.heads > 0) {
      CheckWeight(check, bias.name, bias.weight, Need::kOptional, {{width.heads}, {width.dim}});
    } else if (CheckWeight(check, bias.name, bias.weight, Need::kOptional, {{0, "heads"}, {0, "d"}})) {
      width = {bias.weight->shape[0], bias.weight->shape[1]};
    }
  }
  if (check.ok() && table.num_heads != nullptr) CheckHeads(check, table, width);
  if (!table.projection || !check.ok()) return width;
  if (width.heads == 0) {
    check.Fail("weights", "w_r alone",
               absl::StrCat("w_r with ", std::string(table.content.name), " [heads, d], which says what heads are",
                            table.num_heads != nullptr ? ", or with num_heads" : ""));
    return width;
  }
  if (!CheckWeight(check, "w_r", table.projection, Need::kRequired, {{width.heads * width.dim}, {table.dim, "dim"}})) {
    return width;
  }
  table.dim = table.projection->shape[1];
  check.InRange(PathOf(table, "dim"), table.dim, 2, kMaxDim);
  if (table.dim % 2 != 0) check.Fail(PathOf(table, "dim"), absl::StrCat(table.dim), "an even number");
  return width;
}

absl::StatusOr<SinusoidTermPlan> PlanOfSinusoidTerm(const SinusoidTerm& term, SinusoidTermPlan::Form form,
                                                    Precision precision) {
  SinusoidTermPlan plan;
  plan.form = form;
  if (const WeightRef& wide = term.table ? term.table : term.content.weight ? term.content.weight : term.position.weight) {
    plan.heads = wide->shape.front();
    plan.dim = wide->shape.back();
  } else {
    plan.heads = *term.num_heads;
    plan.dim = term.projection->shape[0] / plan.heads;
  }
  plan.clamp = term.clamp;
  plan.content_bias = term.content.weight;
  plan.position_bias = term.position.weight;
  plan.table = term.table;
  plan.projection = term.projection;
  if (!term.projection) return plan;
  // Exponents i/(dim/2 − 1) are 2i/(dim − 2). One pair alone has frequency 1 either way.
  const int64_t width = term.base_inclusive && term.dim > 2 ? term.dim - 2 : term.dim;
  auto angles = ResolveAngles(RopeFrequencies(*term.base, width, term.dim / 2), 1.0, precision, PathOf(term, "base"));
  if (!angles.ok()) return angles.status();
  plan.sinusoids = std::make_shared<const AnglePlan>(std::get<AnglePlan>(std::move(angles->plan)));
  return plan;
}

}  // namespace phasor
