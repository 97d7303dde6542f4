// Which transformation it is, and in words what it asks for.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "server/knowledge/compare.h"
#include "server/knowledge/transform.h"

namespace phasor::server {
namespace {

std::string Short(double value) { return absl::StrFormat("%.6g", value); }

// Where the pairs of a rotation lie in a head.
struct Placement {
  int64_t head_dim = 0, first_channel = 0, pairs = 0;
  bool half_split = true;

  std::pair<int64_t, int64_t> ChannelsOf(int64_t pair) const {
    if (half_split) return {first_channel + pair, first_channel + pair + pairs};
    return {first_channel + 2 * pair, first_channel + 2 * pair + 1};
  }
};

Placement PlacementOf(const Side& side, const Side& other) {
  Placement place;
  place.pairs = side.columns / side.heads;
  // A table does not say how wide heads are, nor always which channels pair: then they are the other side's.
  const RopeSpec* rope = side.from_spec ? side.rope() : other.from_spec ? other.rope() : nullptr;
  place.head_dim = rope != nullptr ? rope->head_dim : 2 * place.pairs;
  place.first_channel = rope != nullptr ? rope->first_channel : 0;
  const Pairing pairing = side.pairing.value_or(other.pairing.value_or(Pairing::kHalfSplit));
  place.half_split = pairing == Pairing::kHalfSplit;
  return place;
}

// Channel j of b's head is channel permutation[j] of a's, where b's pair p is a's pair match[p]. Channels that do not rotate
// keep their order.
std::vector<int64_t> ChannelPermutation(const Placement& a, const Placement& b, const std::vector<int64_t>& match) {
  std::vector<int64_t> permutation(static_cast<size_t>(b.head_dim), -1);
  std::vector<char> taken(permutation.size(), 0);
  for (int64_t pair = 0; pair < b.pairs; ++pair) {
    const auto [xa, ya] = a.ChannelsOf(match[static_cast<size_t>(pair)]);
    const auto [xb, yb] = b.ChannelsOf(pair);
    permutation[static_cast<size_t>(xb)] = xa;
    permutation[static_cast<size_t>(yb)] = ya;
    taken[static_cast<size_t>(xa)] = taken[static_cast<size_t>(ya)] = 1;
  }
  int64_t next = 0;
  for (int64_t& channel : permutation) {
    if (channel >= 0) continue;
    while (taken[static_cast<size_t>(next)]) ++next;
    channel = next++;
  }
  return permutation;
}

bool IsIdentity(const std::vector<int64_t>& permutation) {
  for (size_t i = 0; i < permutation.size(); ++i) {
    if (permutation[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

std::vector<int64_t> Identity(int64_t count) {
  std::vector<int64_t> identity(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) identity[static_cast<size_t>(i)] = i;
  return identity;
}

bool WritesHalves(const Side& side) { return side.pairing == Pairing::kInterleavedToHalf; }

// How W_q and W_k are reordered, with PyTorch's short form where a head is all of pairs in order.
std::string HowToPermute(const Placement& a, const Placement& b, const std::vector<int64_t>& match) {
  std::string how =
      "In every head of W_q and W_k (and their biases) row j becomes row permutation[j] of a's; cached keys likewise by "
      "channel. "
      "Scores under b are then those under a; without it they are not.";
  if (a.head_dim != 2 * a.pairs || !IsIdentity(match) || a.half_split == b.half_split) return how;
  const std::string n = absl::StrCat(a.pairs);
  absl::StrAppend(&how, " In PyTorch: w.view(heads, ", a.half_split ? absl::StrCat("2, ", n) : absl::StrCat(n, ", 2"),
                  ", -1).transpose(1, 2).reshape(w.shape).");
  return how;
}

bool OfScores(const Side& side) { return side.family == Family::kBias || side.family == Family::kWindow; }

std::string HowToScale(const Side& a, double scale) {
  const std::string s = Short(scale);
  if (OfScores(a)) return absl::StrCat("Every bias of b is ", s, " times that of a.");
  if (a.family == Family::kTable)
    return absl::StrCat("Every entry of b is ", s, " times that of a: multiply the rows before they are added.");
  return absl::StrCat("cos and sin of b are ", s, " times those of a: rotated queries and keys grow by ", s,
                      ", and their products by ", Short(scale * scale),
                      ". Where all channels rotate, multiply the softmax scale by that; cached keys by ", s, ".");
}

// Equal angles: only where they act may differ.
Transformation EqualRotations(const Side& a, const Side& b, const std::vector<int64_t>& match) {
  Transformation t;
  const Placement pa = PlacementOf(a, b), pb = PlacementOf(b, a);
  if (a.xpos != b.xpos) {
    t.how = "cos and sin are equal, xPos's factors on queries and keys are not.";
    return t;
  }
  if (pa.head_dim != pb.head_dim) {
    t.how = absl::StrCat("cos and sin are equal; heads have ", pb.head_dim, " channels in place of ", pa.head_dim, ".");
    return t;
  }
  t.permutation = ChannelPermutation(pa, pb, match);
  const bool moves = !IsIdentity(t.permutation), writes = WritesHalves(a) != WritesHalves(b);
  if (!moves && !writes) {
    t.permutation.clear();
    t.kind = "identical";
    t.how = "Nothing has to be done.";
    return t;
  }
  t.kind = "permuted_channels";
  t.how = moves ? HowToPermute(pa, pb, match)
                : "Weights stay as they are and scores are equal, for both read the same channels.";
  if (writes) {
    absl::StrAppend(&t.how, " Rotated keys are stored in another order (", WritesHalves(b) ? "b" : "a",
                    " writes pair i to channels i and i + n): reorder cached keys.");
  }
  return t;
}

Transformation EqualEntries(const Side& a, const Side& b) {
  if (a.family == Family::kRotation) return EqualRotations(a, b, Identity(a.columns / a.heads));
  Transformation t;
  t.kind = "identical";
  t.how = "Nothing has to be done.";
  return t;
}

Transformation Permuted(const Side& a, const Side& b, std::vector<int64_t> match, double scale) {
  Transformation t;
  if (a.family == Family::kRotation) {
    t = EqualRotations(a, b, match);
    if (t.permutation.empty()) return t;
  } else {
    t.permutation = std::move(match);
    t.kind = "permuted_channels";
    t.how =
        OfScores(a)
            ? "Head j of b has the bias of head permutation[j] of a: reorder heads, or load the slopes of the right ones."
            : "Column j of b is column permutation[j] of a: reorder the columns, or what reads the embedding's channels.";
  }
  if (std::abs(scale - 1) > 1e-12) {
    t.kind = "scaled_and_permuted";
    t.scale = scale;
    absl::StrAppend(&t.how, " ", HowToScale(a, scale));
  }
  return t;
}

// Where a match of all columns moves heads as a whole: those of a by those of b.
std::optional<std::vector<int64_t>> WholeHeads(const std::vector<int64_t>& match, int64_t heads) {
  const int64_t width = static_cast<int64_t>(match.size()) / heads;
  std::vector<int64_t> of_head;
  for (int64_t i = 0; i < static_cast<int64_t>(match.size()); ++i) {
    const int64_t source = match[static_cast<size_t>(i)];
    if (i % width == 0) of_head.push_back(source / width);
    if (source != of_head.back() * width + i % width) return std::nullopt;
  }
  return of_head;
}

Transformation PermutedHeads(std::vector<int64_t> heads, double scale) {
  Transformation t;
  t.permutation = std::move(heads);
  t.kind = std::abs(scale - 1) > 1e-12 ? "scaled_and_permuted" : "permuted_channels";
  if (t.kind == "scaled_and_permuted") t.scale = scale;
  t.how = absl::StrCat("The table of head j of b is that of head permutation[j] of a",
                       t.scale == 0 ? "" : absl::StrCat(" times ", Short(scale)),
                       ": reorder heads, or load their coefficients.");
  return t;
}

std::string HowToShift(const Side& a, int64_t shift) {
  const std::string start =
      absl::StrCat("Position m of b is position m ", shift > 0 ? "+ " : "− ", std::abs(shift), " of a");
  if (a.family == Family::kPolar || (a.family == Family::kRotation && a.heads == 1)) {
    return absl::StrCat(start,
                        ". Scores do not change where queries and keys shift alike; mixing cached keys of both does harm.");
  }
  return absl::StrCat(start, ": give positions that are larger by ", shift, ", or set the spec's position_offset.");
}

// inv_freq of b over that of a, per pair; empty where a pair stands still in one of them only, or no plan is known.
std::vector<double> FrequencyRatios(const Side& a, const Side& b) {
  std::vector<double> ratios;
  if (a.angles() == nullptr || b.angles() == nullptr) return ratios;
  const std::vector<double>&x = a.angles()->inv_freq, &y = b.angles()->inv_freq;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    if ((x[i] == 0) != (y[i] == 0)) return {};
    if (x[i] != 0) ratios.push_back(y[i] / x[i]);
  }
  return ratios;
}

bool Near(double x, double y) { return std::abs(x - y) <= 1e-14 * std::abs(y); }

// One factor on all positions: position interpolation and the like.
std::optional<Transformation> DividedPositions(const Side& a, const Side& b, const std::vector<double>& ratios) {
  if (OfScores(a) || ratios.empty()) return std::nullopt;
  if (a.family == Family::kPolar && std::get<PopeSpec>(a.spec->spec).delta != std::get<PopeSpec>(b.spec->spec).delta) {
    return std::nullopt;
  }
  const double factor = ratios.front();
  if (Near(factor, 1) || !std::all_of(ratios.begin(), ratios.end(), [&](double r) { return Near(r, factor); })) {
    return std::nullopt;
  }
  Transformation placed;  // where equal angles would act
  if (a.family == Family::kRotation) {
    placed = EqualRotations(a, b, Identity(a.columns / a.heads));
    if (placed.kind == "none") return std::nullopt;
  }
  double scale = 1;
  if (a.family == Family::kTable) {
    const auto* x = std::get_if<SinusoidalSpec>(&a.spec->spec);
    const auto* y = std::get_if<SinusoidalSpec>(&b.spec->spec);
    if (x == nullptr || y == nullptr || x->layout != y->layout || x->position_offset != y->position_offset ||
        x->padding_row != y->padding_row)
      return std::nullopt;
    scale = y->scale.value_or(1) / x->scale.value_or(1);
  }
  if (a.family == Family::kRotation) scale = b.resolved->attention_factor / a.resolved->attention_factor;
  Transformation t;
  t.kind = "scaled_positions";
  t.position_factor = factor;
  t.how = absl::StrCat(
      "Position m of b is position ", factor < 1 ? absl::StrCat("m/", Short(1 / factor)) : absl::StrCat("m·", Short(factor)),
      " of a, between two whole positions for most m: the same weights see distances that they were not trained on. "
      "a gives b's numbers at fractional positions.");
  if (!Near(scale, 1)) {
    t.scale = scale;
    absl::StrAppend(&t.how, " ", HowToScale(a, scale));
  }
  if (placed.kind == "permuted_channels" && !IsIdentity(placed.permutation)) {
    t.permutation = std::move(placed.permutation);
    absl::StrAppend(
        &t.how,
        " Besides, in every head of W_q and W_k (and their biases) row j becomes row permutation[j] of a's; cached "
        "keys likewise by channel.");
  } else if (placed.kind == "permuted_channels") {
    absl::StrAppend(&t.how, " Besides, rotated keys are stored in another order: reorder cached keys.");
  }
  return t;
}

std::string DescribeRatios(const Side& a, const Side& b, const std::vector<double>& ratios) {
  const auto kept = std::count_if(ratios.begin(), ratios.end(), [](double r) { return Near(r, 1); });
  const double last = ratios.back();
  const auto like_last =
      Near(last, 1) ? 0 : std::count_if(ratios.begin(), ratios.end(), [&](double r) { return Near(r, last); });
  std::string text = absl::StrCat(kept, " of ", ratios.size(), " ", a.family == Family::kPolar ? "channels" : "pairs",
                                  " that turn keep their frequency");
  if (like_last > 0)
    absl::StrAppend(&text, ", ", like_last, " turn ", Short(last), " times as fast (the slowest pair among them)");
  const int64_t others = static_cast<int64_t>(ratios.size()) - kept - like_last;
  if (others > 0) {
    double low = std::numeric_limits<double>::infinity(), high = 0;
    for (const double ratio : ratios) {
      if (Near(ratio, 1) || Near(ratio, last)) continue;
      low = std::min(low, ratio);
      high = std::max(high, ratio);
    }
    absl::StrAppend(&text, ", ", others, " turn ", Short(low), " to ", Short(high), " times as fast");
  }
  const double factor_a = a.resolved->attention_factor, factor_b = b.resolved->attention_factor;
  if (factor_a != factor_b)
    absl::StrAppend(&text, "; the attention factor is ", Short(factor_b), " in place of ", Short(factor_a));
  return absl::StrCat(text, ".");
}

std::string WhyNone(const Side& a, const Side& b, const std::vector<double>& ratios) {
  const std::string weights =
      "Looked for were another order of channels, columns or heads, one scale, both of these, a shift of positions and a "
      "factor "
      "on positions: none of them makes one of the other. Use the one that the model was trained with.";
  const AnglePlan *x = a.angles(), *y = b.angles();
  if (x == nullptr || y == nullptr || ratios.empty()) return weights;
  if (x->precision != y->precision && std::all_of(ratios.begin(), ratios.end(), [](double r) { return Near(r, 1); })) {
    return "The same frequencies; one side rounds every angle to float32 before its cosine, which is wrong by up to half a "
           "unit in the "
           "last place of the angle. Use the one that the weights were trained with.";
  }
  if (x->axis_of_pair != y->axis_of_pair) return absl::StrCat("Pairs take other coordinates. ", weights);
  return absl::StrCat(DescribeRatios(a, b, ratios), " ", weights);
}

}  // namespace

Transformation FindTransformation(const Side& a, const Side& b, const Entries& ea, const Entries& eb, bool same_bits) {
  if (same_bits) return EqualEntries(a, b);
  const Closeness close(a, b, ea, eb);
  const AnglePlan *x = a.angles(), *y = b.angles();
  const bool same_axes = x == nullptr || y == nullptr || x->axis_of_pair == y->axis_of_pair;
  if (same_axes && close.Equal(1, 1)) return EqualEntries(a, b);
  const std::vector<double> ratios = FrequencyRatios(a, b);
  if (auto divided = DividedPositions(a, b, ratios); divided && same_axes) return *std::move(divided);
  if (same_axes && close.best_scale() != 0 && close.Equal(close.best_scale(), 4)) {
    Transformation t = EqualEntries(a, b);
    const double scale = close.best_scale();
    if (t.kind == "none") return t;
    t.kind = t.kind == "identical" ? "scaled" : "scaled_and_permuted";
    t.scale = scale;
    t.how = t.kind == "scaled" ? HowToScale(a, scale) : absl::StrCat(t.how, " ", HowToScale(a, scale));
    return t;
  }
  for (const double scale : {1.0, close.norm_ratio(), -close.norm_ratio()}) {
    if (!same_axes || scale == 0 || a.family == Family::kPolar) continue;
    auto match = close.MatchColumns(scale);
    if (match && a.heads == 1) return Permuted(a, b, *std::move(match), scale);
    if (const auto heads = match ? WholeHeads(*match, a.heads) : std::nullopt) return PermutedHeads(*heads, scale);
  }
  if (!OfScores(a)) {
    if (const auto shift = close.FindShift()) {
      Transformation t;
      t.kind = "shifted_positions";
      t.shift = *shift;
      t.how = HowToShift(a, *shift);
      return t;
    }
    if (const auto found = close.FindScaledShift()) {
      Transformation t;
      t.kind = "shifted_positions";
      t.shift = found->shift;
      t.scale = found->scale;
      t.how = absl::StrCat(HowToShift(a, t.shift), " ", HowToScale(a, t.scale));
      return t;
    }
  }
  Transformation none;
  none.how = WhyNone(a, b, ratios);
  return none;
}

}  // namespace phasor::server
