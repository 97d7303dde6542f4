#include "server/knowledge/alibi_slopes.h"

#include <array>
#include <bit>
#include <cmath>

#include "absl/strings/str_format.h"

#include "server/knowledge/numbers.h"
#include "server/knowledge/round_numbers.h"
#include "server/text.h"

namespace phasor::server {
namespace {

constexpr double kSlack = 4.5e-16;  // relative: libm's exp2 and a product
constexpr int64_t kMostGlobalHeads = 256;

using Slopes = std::vector<double>;

bool Holds(const Interval& interval, double slope) {
  const double slack = kSlack * std::fabs(slope);
  return interval.low - slack <= slope && slope <= interval.high + slack;
}

bool Follow(std::span<const Interval> slopes, const Slopes& list, size_t first = 0) {
  if (first + slopes.size() > list.size()) return false;
  for (size_t h = 0; h < slopes.size(); ++h) {
    if (!Holds(slopes[h], list[first + h])) return false;
  }
  return true;
}

// Factors c for which c·list are the slopes.
Interval Factor(std::span<const Interval> slopes, const Slopes& list) {
  Interval factor;
  for (size_t h = 0; h < slopes.size(); ++h) {
    if (list[h] != 0) factor.Clip(slopes[h].low / list[h] * (1 - kSlack), slopes[h].high / list[h] * (1 + kSlack));
  }
  return factor;
}

// A width d with `factor` = 1/√d, usual ones first; 0: none.
int64_t WidthOf(const Interval& factor) {
  constexpr std::array<int64_t, 12> kUsual{64, 128, 80, 96, 256, 32, 112, 160, 192, 16, 48, 8};
  for (const int64_t width : kUsual) {
    if (factor.contains(1 / std::sqrt(static_cast<double>(width)))) return width;
  }
  for (int64_t width = 2; width <= 1024; width += 2) {
    if (factor.contains(1 / std::sqrt(static_cast<double>(width)))) return width;
  }
  return 0;
}

double ScaleIn(const Interval& factor) {
  const double simplest = Simplest(factor);
  if (DigitsOf(simplest) <= 3) return simplest;
  if (const int64_t width = WidthOf(factor)) return 1 / std::sqrt(static_cast<double>(width));
  return simplest;
}

class Explainer {
 public:
  explicit Explainer(std::span<const Interval> slopes) : all_(slopes) {
    size_t biased = slopes.size();
    while (biased > 1 && slopes[biased - 1].contains(0)) --biased;
    slopes_ = slopes.first(biased);
  }

  std::vector<SlopeRule> Run() {
    Rule();
    Rounded();
    Mistakes();
    Scaled();
    Shard();
    OtherMaxBias();
    AsGiven();
    return std::move(found_);
  }

 private:
  int64_t heads() const { return static_cast<int64_t>(slopes_.size()); }

  AlibiSpec Spec() const {
    AlibiSpec spec;
    spec.num_heads = static_cast<int64_t>(all_.size());
    if (slopes_.size() < all_.size()) spec.biased_heads = heads();
    return spec;
  }
  void Add(AlibiSpec spec, double confidence, std::string note) {
    found_.push_back({.spec = std::move(spec), .note = std::move(note), .confidence = confidence});
  }
  void AddMistake(std::string_view fault, std::string seen) {
    found_.push_back({.spec = Spec(), .fault = fault, .seen = std::move(seen), .confidence = 0.95});
  }

  void Rule() {
    right_ = Follow(slopes_, RuleSlopes(heads(), 8));
    if (!right_) return;
    Add(Spec(), 1, slopes_.size() < all_.size() ? Cat("only the first ", heads(), " heads are biased") : "");
  }

  // Falcon: slopes of bf16, perhaps with 1/√d.
  void Rounded() {
    if (right_) return;
    for (const DType dtype : {DType::kBF16, DType::kF16}) {
      Slopes rounded = RuleSlopes(heads(), 8);
      for (double& slope : rounded) slope = RoundTo(dtype, slope);
      const Interval factor = Factor(slopes_, rounded);
      if (factor.empty() || !factor.seen()) continue;
      if (Factor(slopes_, RuleSlopes(heads(), 8)).empty() || factor.contains(1)) {
        AlibiSpec spec = Spec();
        spec.slope_dtype = dtype;
        const double scale = factor.contains(1) ? 1 : ScaleIn(factor);
        if (DigitsOf(scale) > 6 && WidthOf(factor) == 0) continue;
        if (scale != 1) spec.scale = scale;
        Add(std::move(spec), 0.97,
            Cat("the slopes were rounded to ", Name(dtype), " before the product, as Falcon does",
                scale == 1 ? "" : Cat(", and scaled by ", NameOfScale(scale))));
        right_ = true;
        return;
      }
    }
  }

  std::string First() const {
    std::string text;
    for (size_t h = 0; h < std::min<size_t>(slopes_.size(), 4); ++h) {
      absl::StrAppendFormat(&text, "%s%.4g", h == 0 ? "" : ", ", slopes_[h].middle());
    }
    return Cat("slopes ", text, slopes_.size() > 4 ? " …" : "");
  }

  void Mistakes() {
    if (right_ || heads() < 2) return;
    const double count = static_cast<double>(heads());
    const bool power = std::has_single_bit(static_cast<uint64_t>(heads()));
    const auto matches = [&](auto exponent) {
      for (size_t h = 0; h < slopes_.size(); ++h) {
        if (!Holds(slopes_[h], std::exp2(-exponent(static_cast<double>(h))))) return false;
      }
      return true;
    };
    if (!power && matches([&](double h) { return 8 * (h + 1) / count; })) {
      AddMistake("alibi_plain_geometric_slopes", Cat(First(), ": one geometric sequence for ", heads(), " heads"));
    }
    if (matches([&](double h) { return (8 + h) / count; })) {
      AddMistake("alibi_slopes_step_in_exponent", Cat(First(), ": the exponent grows by 1/", heads(), " from head to head"));
    }
    for (const double start : {0.0, 2.0}) {
      if (matches([&](double h) { return 8 * (h + start) / count; })) {
        AddMistake("alibi_first_slope_wrong", Cat(First(), ": the exponent starts at ", start, "·8/", heads()));
      }
    }
    Repeated();
  }

  // The list of a shard, once a rank.
  void Repeated() {
    for (int64_t local = heads() / 2; local >= 1; --local) {
      if (heads() % local != 0) continue;
      const Slopes block = RuleSlopes(local, 8);
      Slopes list;
      while (list.size() < slopes_.size()) list.insert(list.end(), block.begin(), block.end());
      if (!Follow(slopes_, list)) continue;
      AddMistake("alibi_slopes_from_local_heads",
                 Cat(First(), ": the list for ", local, " heads, ", heads() / local, " times"));
      return;
    }
  }

  void Scaled() {
    if (right_ || heads() < 2) return;
    const Interval factor = Factor(slopes_, RuleSlopes(heads(), 8));
    if (factor.empty() || factor.low <= 0) return;
    AlibiSpec spec = Spec();
    spec.scale = ScaleIn(factor);
    Add(std::move(spec), 0.8,
        Cat("ALiBi's slopes times ", NameOfScale(ScaleIn(factor)),
            ScaleIn(factor) < 1 ? "; Falcon scales scores and bias alike by 1/√d" : ""));
  }

  // Part of the list for more heads.
  void Shard() {
    if (right_ || slopes_.size() < all_.size() || heads() < 2) return;
    std::optional<SlopeRule> other;
    for (int64_t global = heads() + 1; global <= kMostGlobalHeads; ++global) {
      const Slopes list = RuleSlopes(global, 8);
      for (int64_t first = 0; first + heads() <= global; ++first) {
        if (!Holds(slopes_[0], list[static_cast<size_t>(first)]) || !Follow(slopes_, list, static_cast<size_t>(first)))
          continue;
        AlibiSpec spec;
        spec.num_heads = global;
        const bool rank = global % heads() == 0 && first % heads() == 0;
        SlopeRule rule{.spec = std::move(spec), .first_head = first, .confidence = rank ? 0.9 : 0.6};
        rule.note =
            Cat("heads ", first, " … ", first + heads() - 1, " of ", global, rank ? ", a shard's part of the list" : "");
        if (rank) {
          found_.push_back(std::move(rule));
          return;
        }
        if (!other) other = std::move(rule);
      }
    }
    if (other) found_.push_back(*std::move(other));
  }

  void OtherMaxBias() {
    if (right_) return;
    const int64_t power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads())));
    Interval max_bias;
    for (int64_t h = 0; h < heads(); ++h) {
      const Interval& slope = slopes_[static_cast<size_t>(h)];
      if (!(slope.low > 0)) return;
      const double step =
          static_cast<double>(h < power ? 2 * (h + 1) : 2 * (h - power) + 1) / static_cast<double>(2 * power);
      const double slack = 1e-15 * (1 + std::fabs(std::log2(slope.high)));
      max_bias.Clip((-std::log2(slope.high) - slack) / step, (-std::log2(slope.low) + slack) / step);
    }
    if (max_bias.empty() || max_bias.low < 0) return;
    AlibiSpec spec = Spec();
    spec.max_bias = Simplest(max_bias);
    const bool plain = DigitsOf(*spec.max_bias) <= 4;
    Add(std::move(spec), plain && heads() > 1 ? 0.85 : 0.4, absl::StrFormat("max_bias %.17g", Simplest(max_bias)));
  }

  void AsGiven() {
    AlibiSpec spec;
    for (const Interval& slope : all_) spec.slopes.push_back(Simplest(slope));
    Add(std::move(spec), 0.3, "straight lines with these slopes, whatever rule they follow");
  }

  std::span<const Interval> all_, slopes_;  // slopes_: without heads that are not biased
  bool right_ = false;
  std::vector<SlopeRule> found_;
};

}  // namespace

std::vector<double> RuleSlopes(int64_t heads, double max_bias) {
  Slopes slopes;
  const int64_t power = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  for (int64_t h = 0; h < heads; ++h) {
    const int64_t step = h < power ? 2 * (h + 1) : 2 * (h - power) + 1;
    slopes.push_back(std::exp2(-max_bias * static_cast<double>(step) / static_cast<double>(2 * power)));
  }
  return slopes;
}

std::string NameOfScale(double scale) {
  const bool large = scale > 1;
  const double square = large ? scale * scale : 1 / (scale * scale);
  const double width = std::nearbyint(square);
  if (width >= 2 && width <= 1024 && std::fabs(square - width) < 1e-6 * width) {
    return absl::StrFormat(large ? "√%.0f" : "1/√%.0f", width);
  }
  return absl::StrFormat("%.6g", scale);
}

std::vector<SlopeRule> ExplainSlopes(std::span<const Interval> slopes) {
  std::vector<SlopeRule> rules = Explainer(slopes).Run();
  std::stable_sort(rules.begin(), rules.end(),
                   [](const SlopeRule& a, const SlopeRule& b) { return a.confidence > b.confidence; });
  return rules;
}

}  // namespace phasor::server
