#include "kernels/encodings/sinusoid_terms.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/encodings/rope.h"
#include "kernels/encodings/weight_check.h"

namespace phasor {
namespace {

std::string PathOf(const SinusoidTable& table, const char* field) {
  return absl::StrCat(std::string(table.scheme), ".", field);
}

}  // namespace

TermWidth CheckSinusoidTable(SpecChecker& check, const SinusoidTable& table, std::initializer_list<NamedBias> biases) {
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
  for (const NamedBias& bias : biases) {
    if (width.heads > 0) {
      CheckWeight(check, bias.name, bias.weight, Need::kOptional, {{width.heads}, {width.dim}});
    } else if (CheckWeight(check, bias.name, bias.weight, Need::kOptional, {{0, "heads"}, {0, "d"}})) {
      width = {bias.weight->shape[0], bias.weight->shape[1]};
    }
  }
  if (!table.projection || !check.ok()) return width;
  if (width.heads == 0) {
    const std::string_view name = biases.begin()->name;
    check.Fail("weights", "w_r alone",
               absl::StrCat("w_r with ", std::string(name), " [heads, d], which says what heads are"));
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

absl::Status FillSinusoidTable(const SinusoidTable& table, Precision precision, SinusoidTermPlan* plan) {
  plan->table = table.table;
  plan->projection = table.projection;
  if (!table.projection) return absl::OkStatus();
  auto angles = ResolveAngles(RopeFrequencies(*table.base, table.dim, table.dim / 2), 1.0, precision, PathOf(table, "base"));
  if (!angles.ok()) return angles.status();
  plan->sinusoids = std::make_shared<const AnglePlan>(std::get<AnglePlan>(std::move(angles->plan)));
  return absl::OkStatus();
}

}  // namespace phasor
