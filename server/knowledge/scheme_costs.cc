#include "server/knowledge/scheme_costs.h"

#include <cmath>

namespace phasor::server {
namespace {

using Costs = std::vector<SchemeCost>;

constexpr double kF32 = 4;  // bytes

// A size as doubles, which hold every product of them that is meant here to 16 digits.
struct Size {
  explicit Size(const CardSize& size)
      : positions(static_cast<double>(size.positions)),
        width(static_cast<double>(size.width)),
        heads(static_cast<double>(size.heads)),
        distances(2 * positions - 1),
        scores(heads * positions * positions),
        side(std::ceil(std::sqrt(positions))) {}

  double positions, width, heads;
  double distances;  // that queries and keys have
  double scores;
  double side;  // of the square window or grid that the positions fill
};

// ---- rotations

SchemeCost Apply(const Size& s) {
  const double elements = 2 * s.positions * s.heads * s.width;
  return {"apply to q and k", 2 * elements * kF32, 3 * elements,
          "q and k [positions, heads, width] read and written; four products and two sums a pair"};
}

Costs Rotation(const Size& s) {
  const double entries = s.positions * s.width / 2;
  return {{"table, half width", 2 * entries * kF32, 3 * entries,
           "cos and sin [positions, width/2]; a product, a cosine and a sine an entry"},
          {"table, duplicated", 4 * entries * kF32, 3 * entries, "cos and sin [positions, width]: every column twice"},
          Apply(s)};
}

Costs Pope(const Size& s) {
  const double entries = s.positions * s.width, elements = 2 * s.heads * entries;
  return {
      {"table", 2 * entries * kF32, 3 * entries, "cos and sin [positions, width]: every channel has an angle of its own"},
      {"apply to q and k", 3 * elements * kF32, 5 * elements,
       "q and k read, and written twice as wide; softplus and two products a channel"}};
}

Costs Fope(const Size& s) {
  const double pairs = s.width / 2, entries = s.positions * s.heads * pairs;
  return {{"table", 2 * entries * kF32, 3 * s.positions * pairs + 4 * entries * pairs,
           "cos and sin [positions, heads, width/2]; mixed from at most width/2 frequencies for every head"},
          {"coefficients", 2 * s.heads * pairs * pairs * kF32, 0, "at most [heads, width/2, width/2], twice"},
          Apply(s)};
}

// ---- absolute tables

Costs Absolute(const Size& s, double operations, std::string_view note) {
  const double entries = s.positions * s.width;
  return {{"table", entries * kF32, operations, note},
          {"add to the input", 3 * entries * kF32, entries, "input and table read, sum written; for each batch row"}};
}

Costs Sinusoids(const Size& s) {
  return Absolute(s, 1.5 * s.positions * s.width, "[positions, width]; a product, a sine and a cosine a pair");
}

Costs GaussianFourier(const Size& s) {
  return Absolute(s, 1.5 * s.positions * s.width + s.positions,
                  "[positions, width]; a logarithm a row, a product, a sine and a cosine a pair");
}

Costs Learned(const Size& s) { return Absolute(s, 0, "[positions, width] parameters; rows are copied"); }

// ---- biases by distance

// `operations` make the vector.
Costs ByDistance(const Size& s, const SchemeCost& parameters, double operations, std::string_view note) {
  return {
      parameters,
      {"bias, vector", s.heads * s.distances * kF32, operations, note},
      {"bias, full", s.scores * kF32, 0, "[heads, positions, positions]; copied from the vector"},
      {"add to the scores", 2 * s.scores * kF32, s.scores, "scores read and written, where no kernel does it on the way"}};
}

Costs Alibi(const Size& s) {
  return ByDistance(s, {"slopes", s.heads * kF32, s.heads, "a power a head; all that a fused kernel needs"},
                    s.heads * s.distances, "[heads, 2·positions − 1]; a product an entry");
}

Costs T5Bucket(const Size& s) {
  constexpr double kBuckets = 32;
  return ByDistance(s, {"learned table", kBuckets * s.heads * kF32, 0, "[32, heads] parameters"}, 4 * s.distances,
                    "[heads, 2·positions − 1]; a logarithm, a quotient, a product and a truncation a distance");
}

Costs Kerple(const Size& s) {
  return ByDistance(s, {"parameters", 2 * s.heads * kF32, 0, "r1 and r2 of every head"}, 4 * s.heads * s.distances,
                    "[heads, 2·positions − 1]; two products, a sum and a logarithm an entry");
}

Costs Sandwich(const Size& s) {
  return ByDistance(s, {"factors", s.heads * kF32, s.heads, "one a head"},
                    1.5 * s.width * s.distances + s.heads * s.distances,
                    "[heads, 2·positions − 1]; width/2 cosines a distance, a product an entry");
}

Costs DynamicPositionBias(const Size& s) {
  const double layer = s.width;
  return ByDistance(
      s, {"parameters", (2 * layer + s.heads * layer + s.heads) * kF32, 0, "two layers, width hidden units between"},
      s.distances * (6 * layer + 2 * layer * s.heads), "[heads, 2·positions − 1]; the perceptron once a distance");
}

// ---- other biases

Costs Matrix(const Size& s, const SchemeCost& parameters, double operations, std::string_view note) {
  return {
      parameters,
      {"bias, full", s.scores * kF32, operations, note},
      {"add to the scores", 2 * s.scores * kF32, s.scores, "scores read and written, where no kernel does it on the way"}};
}

double WindowOffsets(const Size& s) { return (2 * s.side - 1) * (2 * s.side - 1); }

Costs WindowBias(const Size& s) {
  return Matrix(s, {"learned table", WindowOffsets(s) * s.heads * kF32, 0, "a row for every offset in a square window"}, 0,
                "[heads, positions, positions]; copied from the table");
}

Costs ContinuousWindowBias(const Size& s) {
  constexpr double kHidden = 512;
  return Matrix(s, {"parameters", kHidden * (3 + s.heads) * kF32, 0, "a perceptron with 512 hidden units"},
                WindowOffsets(s) * (6 * kHidden + (2 * kHidden + 4) * s.heads),
                "[heads, positions, positions]; the perceptron once for every offset in a square window");
}

Costs Fire(const Size& s) {
  constexpr double kHidden = 32;
  return Matrix(s, {"parameters", (2 * kHidden + (kHidden + 1) * s.heads) * kF32, 0, "a perceptron with 32 hidden units"},
                s.positions * s.positions * (4 + 3 * kHidden + 2 * kHidden * s.heads),
                "[heads, positions, positions]; the perceptron for every pair, for rows differ: there is no vector form");
}

Costs ForgettingBias(const Size& s) {
  return Matrix(
      s, {"running sums", s.heads * s.positions * kF32, 2 * s.heads * s.positions, "of the gates, for each batch row"},
      s.scores, "[heads, positions, positions] for each batch row; a difference an entry");
}

Costs Tupe(const Size& s) {
  return Matrix(s, {"projected positions", 2 * s.heads * s.positions * s.width * kF32, 0, "q and k of every position"},
                s.scores * (2 * s.width + 1), "[heads, positions, positions]; a dot product and a sum an entry");
}

// ---- terms

SchemeCost Content(const Size& s) {
  return {"q·k itself", s.scores * kF32, 2 * s.scores * s.width, "scores [heads, positions, positions], to compare with"};
}

Costs Shaw(const Size& s) {
  return {{"learned table", s.distances * s.width * kF32, 0, "[2·clip + 1, width], clip = positions − 1 as in BERT"},
          {"term", s.scores * kF32, s.scores * (2 * s.width + 1), "a dot product and a sum for every pair"},
          Content(s)};
}

Costs Deberta(const Size& s) {
  constexpr double kRows = 512;  // 2·span, of 256 buckets
  return {{"projected tables", 2 * s.heads * kRows * s.width * kF32, 0, "keys and queries of 512 rows"},
          {"terms", 2 * s.heads * s.positions * kRows * kF32, 4 * s.heads * s.positions * kRows * s.width + 2 * s.scores,
           "products with every row, then a gather and a sum for each of the two terms"},
          Content(s)};
}

// `rows` of relative sinusoids.
Costs RelativeSinusoids(const Size& s, double rows, std::string_view note) {
  const double model = s.heads * s.width;
  return {{"projected sinusoids", rows * model * kF32, rows * model * (1.5 + 2 * model), note},
          {"terms", s.heads * s.positions * rows * kF32, 2 * s.heads * s.positions * rows * s.width + 2 * s.scores,
           "products with every row before the relative shift, then two sums a pair"},
          Content(s)};
}

Costs TransformerXl(const Size& s) {
  return RelativeSinusoids(s, s.positions, "a row for every distance from positions − 1 to 0, once a layer");
}

Costs TwoSided(const Size& s) {
  return RelativeSinusoids(s, s.distances, "a row for every distance of both signs, once a layer");
}

Costs Cope(const Size& s) {
  constexpr double kRows = 16;
  return {{"learned vectors", kRows * s.width * kF32, 0, "16 rows"},
          {"gates", s.scores * kF32, 2 * s.scores, "a sigmoid and a running sum for every pair"},
          {"term", s.heads * s.positions * kRows * kF32, 2 * s.heads * s.positions * kRows * s.width + 4 * s.scores,
           "products with every row, then an interpolation and a sum a pair"},
          Content(s)};
}

Costs Decomposed(const Size& s) {
  return {{"learned tables", 2 * (2 * s.side - 1) * s.width * kF32, 0, "one an axis of a square grid"},
          {"term", 2 * s.heads * s.positions * s.side * kF32, 4 * s.heads * s.positions * s.side * s.width + 2 * s.scores,
           "products with a vector for each row and each column, then two sums a pair"},
          Content(s)};
}

// Of two hidden layers, as Distill makes them when it is not told otherwise.
Costs Distilled(const Size& s) {
  constexpr double kHidden = 64;
  const double products = kHidden + kHidden * kHidden + kHidden * s.width;
  Costs costs{{"layers", (products + 2 * kHidden + s.width) * 8, 0, "three linear layers of float64, hidden width 64"}};
  const Costs rows = Absolute(s, s.positions * (2 * products + 4 * kHidden), "[positions, width]; the layers, a row");
  costs.insert(costs.end(), rows.begin(), rows.end());
  return costs;
}

struct SchemeCosts {
  std::string_view scheme;
  Costs (*costs)(const Size& size);
};

// What does not begin with "rope_".
constexpr SchemeCosts kCosts[] = {{"pope", &Pope},
                                  {"fope", &Fope},
                                  {"sinusoidal", &Sinusoids},
                                  {"timestep", &Sinusoids},
                                  {"gaussian_fourier", &GaussianFourier},
                                  {"learned", &Learned},
                                  {"grid_sinusoidal", &Sinusoids},
                                  {"distilled", &Distilled},
                                  {"alibi", &Alibi},
                                  {"t5_bucket", &T5Bucket},
                                  {"kerple", &Kerple},
                                  {"sandwich", &Sandwich},
                                  {"dynamic_position_bias", &DynamicPositionBias},
                                  {"window_bias", &WindowBias},
                                  {"continuous_window_bias", &ContinuousWindowBias},
                                  {"fire", &Fire},
                                  {"forgetting_bias", &ForgettingBias},
                                  {"tupe", &Tupe},
                                  {"shaw", &Shaw},
                                  {"deberta", &Deberta},
                                  {"transformer_xl", &TransformerXl},
                                  {"xlnet", &TwoSided},
                                  {"conformer", &TwoSided},
                                  {"cope", &Cope},
                                  {"decomposed", &Decomposed}};

}  // namespace

Costs CostsOf(std::string_view scheme, const CardSize& size) {
  const Size s(size);
  if (scheme.starts_with("rope_")) return Rotation(s);
  for (const SchemeCosts& each : kCosts) {
    if (each.scheme == scheme) return each.costs(s);
  }
  return {};
}

}  // namespace phasor::server
