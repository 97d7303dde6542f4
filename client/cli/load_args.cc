#include "client/cli/load_args.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "client/cli/load_schedule.h"
#include "client/cli/text.h"
#include "client/cli/tool.h"

namespace phasor::cli {

absl::StatusOr<int64_t> ParseDuration(std::string_view option, std::string_view text) {
  constexpr std::pair<std::string_view, double> kUnits[] = {
      {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}};
  constexpr double kDay = 24 * 3600e9;
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view unit = text.substr(digits);
  double number = 0;
  const bool is_number = digits > 0 && absl::SimpleAtod(View(text.substr(0, digits)), &number);
  double ns = unit.empty() ? number * 1e9 : -1;
  for (const auto& [name, factor] : kUnits) {
    if (unit == name) ns = number * factor;
  }
  if (!is_number || !(ns >= 1 && ns <= kDay)) {
    return UsageError(
        absl::StrCat(View(option), ": given '", View(text),
                     "'; allowed: a duration up to 24h, such as 1.05s, 500ms, 20us or 2m (a number alone is seconds)"));
  }
  return static_cast<int64_t>(std::llround(ns));
}

absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> ParseMix(std::string_view text,
                                                                      const std::vector<std::string>& allowed) {
  std::vector<std::pair<std::string, int64_t>> mix;
  int64_t total = 0;
  for (const absl::string_view part : absl::StrSplit(View(text), ',')) {
    const std::pair<absl::string_view, absl::string_view> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    const std::string name(pair.first);
    const bool has_weight = pair.first.size() != part.size();
    int64_t weight = 1;
    if (std::find(allowed.begin(), allowed.end(), name) == allowed.end()) {
      return UsageError(
          absl::StrCat("--mix: given '", name, "'; allowed: NAME[=WEIGHT],… of ", absl::StrJoin(allowed, ", ")));
    }
    if ((has_weight && !absl::SimpleAtoi(pair.second, &weight)) || weight < 1 || weight > Mix::kMostWeight - total) {
      return UsageError(absl::StrCat("--mix: ", name, ": given weight '", pair.second,
                                     "'; allowed: whole numbers from 1, up to ", Mix::kMostWeight, " together"));
    }
    for (const auto& [other, unused] : mix) {
      if (other == name) return UsageError(absl::StrCat("--mix: ", name, " is given twice; allowed: once"));
    }
    total += weight;
    mix.emplace_back(name, weight);
  }
  return mix;
}

}  // namespace phasor::cli
