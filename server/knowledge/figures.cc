#include "server/knowledge/figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "server/knowledge/held_forms.h"
#include "server/knowledge/spec_recipes.h"

namespace phasor::server {
namespace {

constexpr double kTurn = 2 * std::numbers::pi;
// Below any difference of two schedules, above the last bit.
constexpr double kSame = 1e-9;

double Number(int64_t value) { return static_cast<double>(value); }

// Gathers figures and the words of the same name.
class Gatherer {
 public:
  explicit Gatherer(Numbers* out) : out_(out) {}

  void Say(std::string_view word, std::string text) { out_->words[std::string(word)] = std::move(text); }
  void Say(std::string_view word, double value) { Say(word, NumberText(value)); }
  void Show(std::string_view word, Figure figure) {
    const bool bytes = figure.unit == "bytes";
    Say(word, bytes ? BytesText(figure.value) : NumberText(figure.value));
    out_->figures.push_back(figure);
  }

 private:
  Numbers* out_;
};

// Pairs that did not come round in training and get further than they did there.
double UnseenPairs(const Wishes& wishes, const std::vector<double>& trained, const std::vector<double>& used) {
  int64_t unseen = 0;
  for (size_t i = 0; i < used.size() && i < trained.size(); ++i) {
    const double seen = Number(wishes.trained_length) * trained[i];
    if (seen < kTurn && Number(wishes.wanted_length) * used[i] > seen * (1 + kSame)) ++unseen;
  }
  return Number(unseen);
}

double PairsLongerThan(const std::vector<double>& frequencies, double length) {
  return Number(
      std::count_if(frequencies.begin(), frequencies.end(), [&](double f) { return f == 0 || kTurn / f > length; }));
}

void Slowed(const std::vector<double>& trained, const std::vector<double>& used, Gatherer& out) {
  int64_t slower = 0;
  for (size_t i = 0; i < used.size(); ++i) slower += used[i] < trained[i] * (1 - kSame) ? 1 : 0;
  const double share = used.empty() ? 0 : 100 * Number(slower) / Number(static_cast<int64_t>(used.size()));
  out.Show("slowed_percent",
           {"pairs_slowed_percent", share, "percent", "pairs that turn slower than the weights know them"});
  out.Say("slowed_percent", absl::StrFormat("%.0f", share));
}

void AddAngles(const Wishes& wishes, const AnglePlan& plan, const std::vector<double>& old_frequencies, Gatherer& out) {
  const std::vector<double>& used = plan.inv_freq;
  const bool changes = old_frequencies.size() == used.size();
  const std::vector<double>& trained = changes ? old_frequencies : used;
  double slowest = std::numeric_limits<double>::infinity(), fastest = 0;
  for (const double f : used) {
    if (f > 0) slowest = std::min(slowest, f);
    fastest = std::max(fastest, f);
  }
  out.Show("pairs", {"pairs", Number(plan.pairs()), "pairs", "frequencies"});
  out.Show("longest", {"longest_wavelength", kTurn / slowest, "positions", "in which the slowest pair comes round"});
  out.Say("longest", absl::StrFormat("%.0f", kTurn / slowest));
  out.Show("longer_than_trained",
           {"pairs_beyond_trained", PairsLongerThan(trained, Number(wishes.trained_length)), "pairs",
            "wavelengths above trained_length, as the weights know them: their phases were not all seen"});
  out.Show("longer_than_wanted", {"pairs_beyond_wanted", PairsLongerThan(used, Number(wishes.wanted_length)), "pairs",
                                  "wavelengths above wanted_length"});
  out.Show("unseen", {"pairs_with_unseen_phases", UnseenPairs(wishes, trained, used), "pairs",
                      "that meet phases within wanted_length which training did not show"});
  if (changes) {
    out.Show("unseen_unchanged", {"pairs_with_unseen_phases_unchanged", UnseenPairs(wishes, trained, trained), "pairs",
                                  "the same if nothing were changed"});
    Slowed(trained, used, out);
  }
  out.Say("neighbour", fastest);
  const double half = 2 * Number(wishes.wanted_length) * Number(plan.pairs()) * 4;
  out.Show("table_bytes", {"table_bytes", half, "bytes", "cos and sin [wanted_length, pairs] in f32"});
}

void AddBias(const Wishes& wishes, double heads, Gatherer& out) {
  const double length = Number(wishes.wanted_length);
  out.Show("full_bytes",
           {"bias_full_bytes", heads * length * length * 4, "bytes", "[heads, wanted_length, wanted_length] in f32"});
  out.Show("vector_bytes",
           {"bias_vector_bytes", heads * (2 * length - 1) * 4, "bytes", "[heads, 2·wanted_length − 1] in f32"});
}

void AddSlopes(const BiasPlan& plan, Gatherer& out) {
  double steep = 0, flat = std::numeric_limits<double>::infinity();
  for (const DoubleDouble& slope : plan.slopes) {
    const double size = std::fabs(slope.hi);
    steep = std::max(steep, size);
    if (size > 0) flat = std::min(flat, size);
  }
  out.Show("steep", {"steepest_slope", steep, "per position", "of the head that sees least far"});
  out.Show("flat", {"flattest_slope", flat, "per position", "of the head that sees furthest"});
  out.Show("steep_reach",
           {"steepest_reach", kFarBias / steep, "positions", "after which the steepest head has 7 less: e^-7 = 1/1097"});
  out.Show("flat_reach", {"flattest_reach", kFarBias / flat, "positions", "after which the flattest head has 7 less"});
}

// Numbers of a spec that only sentences need, and the bytes of what is no table of angles.
struct SpecNumbers {
  const Wishes& wishes;
  Gatherer& out;

  void Rows(double rows, double dim) const {
    out.Say("rows", rows);
    out.Say("dim", dim);
    out.Show("table_bytes", {"table_bytes", rows * dim * 4, "bytes", "rows × columns in f32"});
  }
  void operator()(const RopeSpec& rope) const {
    const int64_t d = *rope.rotary_dim;
    if (rope.base) out.Say("base", *rope.base);
    out.Say("rotary_dim", Number(d));
    if (d > 2) {
      out.Say("smallest_base", SmallestBase(Number(wishes.wanted_length), d));
      out.Say("smallest_base", absl::StrFormat("%.0f", std::ceil(SmallestBase(Number(wishes.wanted_length), d))));
    }
    std::visit([&](const auto& schedule) { Schedule(rope, schedule); }, rope.schedule);
    if (rope.axes && rope.axes->layout == AxisLayout::kReset) Say(SidesOf(wishes.wanted_length));
  }
  void operator()(const SinusoidalSpec& s) const {
    out.Say("base", *s.base);
    Rows(Number(wishes.wanted_length), Number(s.dim));
  }
  void operator()(const LearnedSpec& s) const { Rows(Number(s.num_positions), Number(s.dim)); }
  void operator()(const GridSinusoidalSpec& s) const {
    if (s.grid.size() == 2) Say({s.grid[0], s.grid[1]});
    double points = Number(s.extra_rows);
    double grid = 1;
    for (const int64_t extent : s.grid) grid *= Number(extent);
    Rows(points + grid, Number(s.dim));
  }
  void operator()(const T5BucketSpec& s) const {
    out.Say("bucket_rows", Number(*s.num_buckets));
    out.Show("last_bucket",
             {"last_bucket_from", Number(*s.max_distance), "positions", "distances from here on share one row"});
    AddBias(wishes, Number(s.num_heads), out);
  }
  void operator()(const WindowBiasSpec& s) const {
    Say({s.window_height, s.window_width});
    const double tokens = Number(s.window_height * s.window_width + (s.class_token ? 1 : 0));
    out.Say("window_rows", Number((2 * s.window_height - 1) * (2 * s.window_width - 1)));
    out.Show("full_bytes",
             {"bias_full_bytes", tokens * tokens * Number(s.num_heads) * 4, "bytes", "[heads, tokens, tokens] in f32"});
  }
  template <typename Other>
  void operator()(const Other&) const {}

 private:
  void Say(Sides sides) const {
    out.Say("height", Number(sides.height));
    out.Say("width", Number(sides.width));
  }
  void Schedule(const RopeSpec& rope, const DynamicNtkSchedule& s) const {
    const double d = Number(*rope.rotary_dim), length = Number(std::max(wishes.wanted_length, s.max_position));
    const double scale = s.factor * length / Number(s.max_position) - (s.factor - 1);
    out.Say("factor", s.factor);
    out.Say("max_position", Number(s.max_position));
    out.Show("effective_base",
             {"effective_base", *rope.base * std::pow(scale, d / (d - 2)), "", "the base at wanted_length"});
  }
  template <typename Scaled>
  void Schedule(const RopeSpec&, const Scaled& s) const {
    if constexpr (requires { double{s.factor}; }) out.Say("factor", s.factor);
  }
};

}  // namespace

std::string NumberText(double value) {
  if (value == std::floor(value) && std::fabs(value) < 1e15) return absl::StrFormat("%.0f", value);
  return absl::StrFormat("%.6g", value);
}

Words WordsOf(const Wishes& wishes) {
  Words words = {
      {"trained", absl::StrCat(wishes.trained_length)},   {"wanted", absl::StrCat(wishes.wanted_length)},
      {"ratio", absl::StrFormat("%.4g", wishes.ratio())}, {"eight_times", NumberText(8 * Number(wishes.trained_length))},
      {"head_dim", absl::StrCat(wishes.head_dim)},        {"rotary_dim", absl::StrCat(wishes.head_dim / 2 * 2)},
      {"heads", absl::StrCat(wishes.num_heads)}};
  if (!wishes.current) return words;
  const RopeSpec* rope = std::get_if<RopeSpec>(&*wishes.current);
  if (rope != nullptr && rope->base) words["old_base"] = NumberText(*rope->base);
  return words;
}

Numbers NumbersOf(const Wishes& wishes, const EncodingSpec& canonical, const Resolved& resolved,
                  const std::vector<double>& old_frequencies) {
  Numbers numbers;
  numbers.words = WordsOf(wishes);
  Gatherer out(&numbers);
  if (const auto* angles = std::get_if<AnglePlan>(&resolved.plan)) {
    AddAngles(wishes, *angles, old_frequencies, out);
    if (std::holds_alternative<SinusoidalSpec>(canonical)) numbers.figures.pop_back();  // its rows have a size of their own
  }
  if (std::holds_alternative<RopeSpec>(canonical)) {
    out.Show("A", {"attention_factor", resolved.attention_factor, "", "on cos and sin"});
  }
  if (const auto* slopes = std::get_if<BiasPlan>(&resolved.plan)) AddSlopes(*slopes, out);
  if (!std::holds_alternative<T5BucketSpec>(canonical)) {
    if (const auto distance = DistancePlanOf(resolved.plan)) AddBias(wishes, Number(VectorsOf(*distance)), out);
  }
  std::visit(SpecNumbers{wishes, out}, canonical);
  return numbers;
}

std::string FillIn(std::string_view sentence, const Words& words) {
  std::string text;
  while (!sentence.empty()) {
    const size_t open = sentence.find('{');
    const size_t close = open == std::string_view::npos ? open : sentence.find('}', open);
    if (close == std::string_view::npos) break;
    text += sentence.substr(0, open);
    const auto word = words.find(sentence.substr(open + 1, close - open - 1));
    text += word != words.end() ? std::string_view(word->second) : sentence.substr(open, close - open + 1);
    sentence.remove_prefix(close + 1);
  }
  text += sentence;
  return text;
}

}  // namespace phasor::server
