#include "kernels/encodings/rope_axes.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace phasor {
namespace {

std::string_view NameOf(AxisLayout layout) {
  switch (layout) {
    case AxisLayout::kChunked:
      return "chunked";
    case AxisLayout::kInterleaved:
      return "interleaved";
    case AxisLayout::kAlternating:
      return "alternating";
    case AxisLayout::kReset:
      return "reset";
    case AxisLayout::kSplitFrequencies:
      return "split_frequencies";
  }
  return {};
}

std::string Text(const std::vector<int64_t>& sections) { return absl::StrCat("[", absl::StrJoin(sections, ", "), "]"); }

// What a layout allows, beyond two to four sections that are not negative; empty when the sections fit.
std::string WhatIsAllowed(const RopeAxes& axes, int64_t pairs) {
  const std::vector<int64_t>& s = axes.sections;
  const int64_t sum = std::accumulate(s.begin(), s.end(), int64_t{0});
  switch (*axes.layout) {
    case AxisLayout::kInterleaved:
      return sum <= pairs ? "" : absl::StrCat("a sum of at most rotary_dim/2 = ", pairs);
    case AxisLayout::kAlternating:
      if (s.size() == 3 && s[0] == s[1] && sum == pairs) return "";
      return absl::StrCat("[height, width, time] with height = width and a sum of rotary_dim/2 = ", pairs);
    case AxisLayout::kSplitFrequencies:
      if (s.size() == 2 && s[0] == (pairs + 1) / 2 && s[1] == pairs / 2) return "";
      return absl::StrCat("[", (pairs + 1) / 2, ", ", pairs / 2, "]: every second frequency each");
    default:
      return sum == pairs ? "" : absl::StrCat("a sum of rotary_dim/2 = ", pairs);
  }
}

// A schedule that can be made for any width: not a list per pair, and not one that spans the head.
struct HasAnyWidth {
  bool operator()(const LongRopeSchedule&) const { return false; }
  bool operator()(const ProportionalSchedule&) const { return false; }
  template <typename Schedule>
  bool operator()(const Schedule& schedule) const {
    return !requires { schedule.factors; } && !requires { schedule.inv_freq; };
  }
};

// The rotation of one section by itself.
RopeSpec SectionOf(const RopeSpec& rope, int64_t pairs) {
  RopeSpec section = rope;
  section.axes.reset();
  section.head_dim = 2 * pairs;
  section.rotary_dim = 2 * pairs;
  return section;
}

// Pair i of the answer is pair order[i] of the plan.
void Reorder(const std::vector<size_t>& order, AnglePlan& plan) {
  AnglePlan from = plan;
  for (size_t i = 0; i < order.size(); ++i) {
    plan.frequencies[i] = from.frequencies[order[i]];
    plan.inv_freq[i] = from.inv_freq[order[i]];
    plan.inv_freq_f32[i] = from.inv_freq_f32[order[i]];
  }
}

template <typename T>
void Append(const std::vector<T>& from, std::vector<T>& to) {
  to.insert(to.end(), from.begin(), from.end());
}

// Every section resolved by itself, one after the other.
absl::StatusOr<Resolved> ResolveSections(const RopeSpec& rope, std::optional<int64_t> sequence_length, Precision precision) {
  std::optional<Resolved> whole;
  for (int64_t pairs : rope.axes->sections) {
    if (pairs == 0) continue;
    const EncodingSpec section = SectionOf(rope, pairs);
    absl::StatusOr<Resolved> part = SchemeOf(section).resolve(section, sequence_length, precision);
    if (!part.ok()) return part;
    if (!whole) {
      whole = *std::move(part);
      continue;
    }
    AnglePlan& plan = std::get<AnglePlan>(whole->plan);
    const AnglePlan& more = std::get<AnglePlan>(part->plan);
    Append(more.frequencies, plan.frequencies);
    Append(more.inv_freq, plan.inv_freq);
    Append(more.inv_freq_f32, plan.inv_freq_f32);
  }
  return *std::move(whole);  // rotary_dim ≥ 2: some section has pairs
}

}  // namespace

void CheckRopeAxes(RopeSpec& rope, SpecChecker& check) {
  if (!rope.axes || !check.ok()) return;
  RopeAxes& axes = *rope.axes;
  check.Default("rope.axes.layout", axes.layout, AxisLayout::kChunked, "chunked");
  if (NameOf(*axes.layout).empty()) {
    return check.Fail("rope.axes.layout", absl::StrCat(static_cast<int>(*axes.layout)),
                      "chunked, interleaved, alternating, reset, split_frequencies");
  }
  const auto count = static_cast<int64_t>(axes.sections.size());
  if (count < 2 || count > kMaxAxes) {
    return check.Fail("rope.axes.sections", count == 0 ? "nothing" : absl::StrCat(count, " axes"),
                      absl::StrCat("2 … ", kMaxAxes, " axes"));
  }
  const int64_t pairs = *rope.rotary_dim / 2;
  for (size_t a = 0; a < axes.sections.size(); ++a) {
    check.InRange(absl::StrCat("rope.axes.sections[", a, "]"), axes.sections[a], 0, pairs);
  }
  if (!check.ok()) return;
  if (const std::string allowed = WhatIsAllowed(axes, pairs); !allowed.empty()) {
    return check.Fail("rope.axes.sections", Text(axes.sections), allowed);
  }
  if (*axes.layout == AxisLayout::kReset && !std::visit(HasAnyWidth{}, rope.schedule)) {
    check.Fail("rope.axes.layout", "reset with a schedule that lists its pairs or spans the head",
               "chunked, or a schedule that can start anew in every section");
  }
}

void CheckRopeSections(const RopeSpec& rope, SpecChecker& check) {
  if (!rope.axes || !check.ok() || *rope.axes->layout != AxisLayout::kReset) return;
  for (int64_t pairs : rope.axes->sections) {
    if (pairs == 0 || !check.ok()) continue;
    const auto section = Canonicalize(SectionOf(rope, pairs));
    if (section.ok()) continue;
    const auto error = SpecErrorOf(section.status());
    if (error) check.Fail("rope.axes.sections", absl::StrCat("a section of ", pairs, " pairs"), error->allowed);
  }
}

std::vector<uint8_t> AxisOfPair(const RopeAxes& axes, int64_t pairs) {
  std::vector<uint8_t> axis_of_pair(static_cast<size_t>(pairs), 0);
  const auto count = static_cast<int64_t>(axes.sections.size());
  if (*axes.layout == AxisLayout::kInterleaved) {
    for (int64_t i = 0; i < pairs; ++i) {
      const int64_t axis = i % count;
      if (axis > 0 && i < count * axes.sections[static_cast<size_t>(axis)]) {
        axis_of_pair[static_cast<size_t>(i)] = static_cast<uint8_t>(axis);
      }
    }
    return axis_of_pair;
  }
  if (*axes.layout == AxisLayout::kAlternating) {
    for (int64_t i = 0; i < 2 * axes.sections[0]; ++i)
      axis_of_pair[static_cast<size_t>(i)] = static_cast<uint8_t>(1 + i % 2);
    return axis_of_pair;
  }
  auto next = axis_of_pair.begin();
  for (size_t a = 0; a < axes.sections.size(); ++a) next = std::fill_n(next, axes.sections[a], static_cast<uint8_t>(a));
  return axis_of_pair;
}

absl::StatusOr<Resolved> ResolveRopeAxes(const RopeSpec& rope, std::optional<int64_t> sequence_length, Precision precision) {
  RopeSpec one_axis = rope;
  one_axis.axes.reset();
  const EncodingSpec spec = one_axis;
  absl::StatusOr<Resolved> resolved = *rope.axes->layout == AxisLayout::kReset
                                          ? ResolveSections(rope, sequence_length, precision)
                                          : SchemeOf(spec).resolve(spec, sequence_length, precision);
  if (!resolved.ok()) return resolved;
  AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  plan.axes = static_cast<int64_t>(rope.axes->sections.size());
  plan.axis_of_pair = AxisOfPair(*rope.axes, plan.pairs());
  if (*rope.axes->layout == AxisLayout::kSplitFrequencies) {
    std::vector<size_t> order;
    for (size_t first : {size_t{0}, size_t{1}}) {
      for (size_t i = first; i < plan.frequencies.size(); i += 2) order.push_back(i);
    }
    Reorder(order, plan);
  }
  return resolved;
}

}  // namespace phasor
