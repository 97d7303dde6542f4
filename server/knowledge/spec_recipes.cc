#include "server/knowledge/spec_recipes.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace phasor::server {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
constexpr double kUsualBase = 10000;
// The base that models which were tuned for a longer context by their base alone are given at least.
constexpr double kTunedBase = 500000;

double Length(int64_t length) { return static_cast<double>(length); }

const RopeSpec* CurrentRope(const Wishes& wishes) {
  return wishes.current ? std::get_if<RopeSpec>(&*wishes.current) : nullptr;
}

absl::Status NoSource(std::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("the current encoding is no ", std::string(what)));
}

// Even, and as wide as the head has room for.
absl::StatusOr<int64_t> RotaryDim(const Wishes& wishes) {
  const int64_t width = wishes.head_dim / 2 * 2;
  if (width >= 4) return width;
  return absl::FailedPreconditionError(absl::StrCat(
      "a head of ", wishes.head_dim, " channels has room for ", width / 2,
      " pairs: one pair turns once in 6.28 positions whatever the base, so that no wavelength reaches the length"));
}

// The current rotation with another schedule; A is the new schedule's.
absl::StatusOr<RopeSpec> Rescheduled(const Wishes& wishes, RopeSchedule schedule) {
  const RopeSpec* rope = CurrentRope(wishes);
  if (rope == nullptr) return NoSource("rotation");
  RopeSpec other = *rope;
  other.schedule = std::move(schedule);
  other.attention_factor.reset();
  return other;
}

// What the last pairs must be divided by so that none of them gets further at the wanted length than it got in training:
// NTK-aware scaling divides pair i by S^(2i/(d−2)), and the first slow pair decides.
double NtkScale(const RopeSpec& rope, const Wishes& wishes) {
  const double d = Length(*rope.rotary_dim);
  const auto slow = FirstSlowPair(*rope.base, *rope.rotary_dim, Length(wishes.trained_length));
  const double exponent = slow && *slow > 0 ? (d - 2) / (2 * Length(*slow)) : 1;
  return std::pow(wishes.ratio(), exponent);
}

int64_t TotalDim(const Wishes& wishes) { return wishes.head_dim * wishes.num_heads; }

}  // namespace

double SmallestBase(double length, int64_t rotary_dim) {
  const double d = static_cast<double>(rotary_dim);
  return std::pow(std::max(length / kTurn, 1.0), d / (d - 2));
}

double RoundUp(double value) {
  double power = std::pow(10, std::floor(std::log10(value)));
  // The logarithm's last bit must not push a power of ten up a step.
  if (power * 10 <= value) power *= 10;
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= value * (1 - 1e-12)) return step * power;
  }
  return 10 * power;
}

std::optional<int64_t> FirstSlowPair(double base, int64_t rotary_dim, double length) {
  for (int64_t pair = 0; pair < rotary_dim / 2; ++pair) {
    if (kTurn * std::pow(base, 2 * static_cast<double>(pair) / static_cast<double>(rotary_dim)) > length) return pair;
  }
  return std::nullopt;
}

Sides SidesOf(int64_t tokens) {
  auto height = static_cast<int64_t>(std::floor(std::sqrt(static_cast<double>(tokens))));
  return {height, (tokens + height - 1) / height};
}

namespace recipes {

MadeSpec Keep(const Wishes& wishes) {
  if (!wishes.current) return NoSource("encoding");
  return *wishes.current;
}

MadeSpec RopeForLength(const Wishes& wishes) {
  const auto rotary_dim = RotaryDim(wishes);
  if (!rotary_dim.ok()) return rotary_dim.status();
  RopeSpec rope;
  rope.head_dim = wishes.head_dim;
  rope.rotary_dim = *rotary_dim;
  rope.base = std::max(kUsualBase, RoundUp(SmallestBase(Length(wishes.wanted_length), *rotary_dim)));
  rope.schedule = DefaultSchedule{};
  return rope;
}

MadeSpec GridRope(const Wishes& wishes) {
  RopeSpec rope;
  rope.head_dim = wishes.head_dim;
  rope.base = kUsualBase;
  rope.schedule = DefaultSchedule{};
  rope.axes = RopeAxes{{wishes.head_dim / 4, wishes.head_dim / 4}, AxisLayout::kReset};
  return rope;
}

MadeSpec Alibi(const Wishes& wishes) {
  AlibiSpec alibi;
  alibi.num_heads = wishes.num_heads;
  return alibi;
}

MadeSpec SymmetricAlibi(const Wishes& wishes) {
  AlibiSpec alibi;
  alibi.num_heads = wishes.num_heads;
  alibi.form = AlibiForm::kSymmetric;
  return alibi;
}

MadeSpec TwoSidedBuckets(const Wishes& wishes) {
  T5BucketSpec buckets;
  buckets.num_heads = wishes.num_heads;
  buckets.bidirectional = true;
  return buckets;
}

MadeSpec LearnedRows(const Wishes& wishes) {
  LearnedSpec learned;
  learned.num_positions = wishes.wanted_length;
  learned.dim = TotalDim(wishes);
  return learned;
}

MadeSpec Sinusoids(const Wishes& wishes) {
  SinusoidalSpec sinusoidal;
  sinusoidal.dim = TotalDim(wishes);
  return sinusoidal;
}

MadeSpec SpeechSinusoids(const Wishes& wishes) {
  SinusoidalSpec sinusoidal;
  sinusoidal.dim = TotalDim(wishes);
  sinusoidal.layout = SinusoidalLayout::kConcatenated;
  sinusoidal.spacing = SinusoidalSpacing::kEndpointInclusive;
  return sinusoidal;
}

MadeSpec GridSinusoids(const Wishes& wishes) {
  const Sides sides = SidesOf(wishes.wanted_length);
  GridSinusoidalSpec grid;
  grid.dim = TotalDim(wishes);
  grid.grid = {sides.height, sides.width};
  return grid;
}

MadeSpec Window(const Wishes& wishes) {
  const Sides sides = SidesOf(wishes.wanted_length);
  WindowBiasSpec window;
  window.window_height = sides.height;
  window.window_width = sides.width;
  window.num_heads = wishes.num_heads;
  return window;
}

MadeSpec Yarn(const Wishes& wishes) {
  YarnSchedule yarn;
  yarn.factor = wishes.ratio();
  yarn.original_max_position = wishes.trained_length;
  return Rescheduled(wishes, yarn);
}

MadeSpec DynamicNtk(const Wishes& wishes) {
  const RopeSpec* rope = CurrentRope(wishes);
  if (rope == nullptr) return NoSource("rotation");
  // base' = base·(factor·L/M − (factor − 1))^(d/(d−2)), and at the wanted length that power's argument is to be NtkScale.
  // In between, the straight line in L lies above the power that would do.
  const double factor = (NtkScale(*rope, wishes) - 1) / (wishes.ratio() - 1);
  return Rescheduled(wishes, DynamicNtkSchedule{std::max(1.0, std::ceil(factor * 100) / 100), wishes.trained_length});
}

MadeSpec LargerBase(const Wishes& wishes) {
  auto rope = Rescheduled(wishes, DefaultSchedule{});
  if (!rope.ok()) return rope.status();
  const double d = Length(*rope->rotary_dim);
  if (d <= 2) return absl::FailedPreconditionError("one pair turns once in 6.28 positions whatever the base");
  rope->base = std::max(kTunedBase, RoundUp(*rope->base * std::pow(NtkScale(*rope, wishes), d / (d - 2))));
  return *rope;
}

MadeSpec Llama3(const Wishes& wishes) {
  return Rescheduled(wishes, Llama3Schedule{wishes.ratio(), 1, 4, wishes.trained_length});
}

MadeSpec Linear(const Wishes& wishes) { return Rescheduled(wishes, LinearSchedule{wishes.ratio()}); }

namespace {

// The current rotation, its schedule's factor times wanted / trained.
template <typename Schedule>
MadeSpec More(const Wishes& wishes) {
  const RopeSpec* rope = CurrentRope(wishes);
  const Schedule* schedule = rope == nullptr ? nullptr : std::get_if<Schedule>(&rope->schedule);
  if (schedule == nullptr) return NoSource("rotation with this schedule");
  RopeSpec other = *rope;
  std::get<Schedule>(other.schedule).factor = schedule->factor * wishes.ratio();
  return other;
}

}  // namespace

MadeSpec MoreYarn(const Wishes& wishes) { return More<YarnSchedule>(wishes); }
MadeSpec MoreLlama3(const Wishes& wishes) { return More<Llama3Schedule>(wishes); }
MadeSpec MoreLinear(const Wishes& wishes) { return More<LinearSchedule>(wishes); }

MadeSpec MoreRows(const Wishes& wishes) {
  if (!wishes.current || !std::holds_alternative<LearnedSpec>(*wishes.current)) return NoSource("learned table");
  LearnedSpec learned = std::get<LearnedSpec>(*wishes.current);
  // Rows beside those of positions (a class token, a padding row, an offset) stay.
  const int64_t others = std::max<int64_t>(0, learned.num_positions - wishes.trained_length);
  learned.num_positions = wishes.wanted_length + others;
  learned.table = {};
  return learned;
}

MadeSpec LargerGrid(const Wishes& wishes) {
  if (!wishes.current || !std::holds_alternative<GridSinusoidalSpec>(*wishes.current)) return NoSource("grid");
  GridSinusoidalSpec grid = std::get<GridSinusoidalSpec>(*wishes.current);
  if (grid.grid.size() != 2) {
    return absl::FailedPreconditionError(
        "the current encoding has no grid of two axes: how it grows is not said by a length");
  }
  const double side = std::sqrt(wishes.ratio());
  std::vector<double> scales(grid.grid.size(), 1);
  if (!grid.interpolation_scale.empty()) scales = grid.interpolation_scale;
  for (size_t axis = 0; axis < grid.grid.size(); ++axis) {
    const double points = Length(grid.grid[axis]);
    grid.grid[axis] = static_cast<int64_t>(std::ceil(points * side - 1e-9));
    scales[axis] *= Length(grid.grid[axis]) / points;
  }
  // With base_size or extent_epsilon coordinates are relative to the grid already.
  if (grid.base_size.empty() && !grid.extent_epsilon) grid.interpolation_scale = scales;
  return grid;
}

MadeSpec LargerWindow(const Wishes& wishes) {
  if (!wishes.current || !std::holds_alternative<WindowBiasSpec>(*wishes.current)) return NoSource("window");
  WindowBiasSpec window = std::get<WindowBiasSpec>(*wishes.current);
  const double side = std::sqrt(wishes.ratio());
  window.window_height = static_cast<int64_t>(std::ceil(Length(window.window_height) * side - 1e-9));
  window.window_width = static_cast<int64_t>(std::ceil(Length(window.window_width) * side - 1e-9));
  window.table = {};
  return window;
}

MadeSpec SlowerGridRope(const Wishes& wishes) { return Rescheduled(wishes, LinearSchedule{std::sqrt(wishes.ratio())}); }

}  // namespace recipes
}  // namespace phasor::server
