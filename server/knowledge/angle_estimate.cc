#include "server/knowledge/angle_estimate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include "server/knowledge/angle_stretch.h"
#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

constexpr double kTwoPi = 2 * std::numbers::pi;
constexpr int64_t kTerms = 64;     // of a sum over one baseline
constexpr int64_t kSamples = 192;  // rows of the last fit

std::vector<int64_t> Spread(int64_t first, int64_t count, int64_t most) {
  std::vector<int64_t> rows;
  const int64_t n = std::min(count, most);
  for (int64_t i = 0; i < n; ++i) rows.push_back(n == 1 ? first : first + i * (count - 1) / (n - 1));
  return rows;
}

// Phase of z[row] · conj(e^{i·angle}).
double PhaseAgainst(double c, double s, double angle) { return std::remainder(std::atan2(s, c) - angle, kTwoPi); }

PairEstimate EstimateBoth(const PairTable& t, const Estimates& e, int64_t pair, double noise) {
  PairEstimate found;
  for (int64_t baseline = 1; baseline < e.count; baseline *= 2) {
    double re = 0, im = 0;
    for (int64_t row : Spread(e.first, e.count - baseline, kTerms)) {
      const double c = t.cos_at(row, pair), s = t.sin_at(row, pair);
      const double c2 = t.cos_at(row + baseline, pair), s2 = t.sin_at(row + baseline, pair);
      re += c2 * c + s2 * s;
      im += s2 * c - c2 * s;
    }
    const double step = static_cast<double>(baseline);
    found.frequency += std::remainder(std::atan2(im, re) - step * found.frequency, kTwoPi) / step;
  }
  // A line through the phases that are left.
  const std::vector<int64_t> rows = Spread(e.first, e.count, kSamples);
  const double n = static_cast<double>(rows.size());
  double origin = 0;
  for (int round = 0; round < 2; ++round) {
    double sum = 0, sum_x = 0, sum_xx = 0, sum_xy = 0, sum_yy = 0;
    for (int64_t row : rows) {
      const double x = static_cast<double>(row - e.anchor);
      const double y = PhaseAgainst(t.cos_at(row, pair), t.sin_at(row, pair), x * found.frequency + origin);
      sum += y, sum_x += x, sum_xx += x * x, sum_xy += x * y, sum_yy += y * y;
    }
    const double spread = sum_xx - sum_x * sum_x / n;
    const double slope = spread > 0 ? (sum_xy - sum_x * sum / n) / spread : 0;
    const double rms = std::max(noise, std::sqrt(std::max(0.0, sum_yy / n - sum * sum / (n * n))));
    // The first round's phases may wrap where the origin is not known yet.
    if (round > 0) found.frequency += slope;
    origin += round > 0 ? sum / n - slope * sum_x / n
                        : std::remainder(std::atan2(t.sin_at(e.anchor, pair), t.cos_at(e.anchor, pair)) - origin, kTwoPi);
    // Of a pair that does not turn evenly nothing is known.
    const bool is_even = spread > 0 && rms < 0.4;
    found.frequency_error = is_even ? rms / std::sqrt(spread) : HUGE_VAL;
    found.phase_error = is_even ? rms / std::sqrt(n) : HUGE_VAL;
  }
  found.phase = std::remainder(origin, kTwoPi);
  return found;
}

// θ from c[r+b] + c[r−b] = 2·cos bθ·c[r] with growing b.
double FrequencyOfOneKind(const std::vector<double>& values, const PairTable& t, const Estimates& e, int64_t pair,
                          double noise) {
  const auto at = [&](int64_t row) { return values[static_cast<size_t>(row * t.pairs + pair)]; };
  double frequency = 0, error = HUGE_VAL;
  for (int64_t b = 1; 3 * b <= e.count; b *= 2) {
    double dot = 0, norm = 0;
    for (int64_t row : Spread(e.first + b, e.count - 2 * b, 2 * kTerms)) {
      dot += (at(row + b) + at(row - b)) * at(row);
      norm += 2 * at(row) * at(row);
    }
    if (norm <= 0) return 0;
    const double k = std::clamp(dot / norm, -1.0, 1.0), uncertain = 2 * noise / std::sqrt(norm);
    const double turn = std::acos(k), step = static_cast<double>(b);
    const double here = std::min(uncertain / std::max(std::sqrt(1 - k * k), 1e-300), std::sqrt(2 * uncertain)) / step;
    if (error < HUGE_VAL && error * step > 0.5) break;
    if (error == HUGE_VAL) {
      frequency = turn, error = here;
      continue;
    }
    double nearest = frequency, distance = HUGE_VAL;
    for (double sign : {1.0, -1.0}) {
      const double whole = std::round((step * frequency - sign * turn) / kTwoPi);
      const double candidate = (sign * turn + kTwoPi * whole) / step;
      if (std::fabs(candidate - frequency) < distance) distance = std::fabs(candidate - frequency), nearest = candidate;
    }
    if (here < error) frequency = nearest, error = here;
  }
  return frequency;
}

using Matrix3 = std::array<std::array<double, 3>, 3>;

// Inverse by cofactors; false where it is singular.
bool Invert(const Matrix3& m, Matrix3& inverse) {
  double determinant = 0;
  for (size_t i = 0; i < 3; ++i) {
    for (size_t j = 0; j < 3; ++j) {
      const size_t r1 = (j + 1) % 3, r2 = (j + 2) % 3, c1 = (i + 1) % 3, c2 = (i + 2) % 3;
      inverse[i][j] = m[r1][c1] * m[r2][c2] - m[r1][c2] * m[r2][c1];
    }
  }
  for (size_t j = 0; j < 3; ++j) determinant += m[0][j] * inverse[j][0];
  if (!(std::fabs(determinant) > 1e-12 * m[0][0] * m[1][1] * m[2][2])) return false;
  for (auto& row : inverse) {
    for (double& value : row) value /= determinant;
  }
  return true;
}

// Least squares of a·cos θx + b·sin θx by Gauss and Newton. Returns the amplitude, 0 where it is not determined.
double EstimateOneKind(const PairTable& t, const Estimates& e, int64_t pair, double noise, PairEstimate& found) {
  const bool is_cos = !t.cos.empty();
  const std::vector<double>& values = is_cos ? t.cos : t.sin;
  const auto at = [&](int64_t row) { return values[static_cast<size_t>(row * t.pairs + pair)]; };
  const std::vector<int64_t> rows = Spread(e.first, e.count, kSamples);
  const double scale = static_cast<double>(e.count);  // frequencies are fitted in radians per stretch
  double a = 0, b = 0, f = FrequencyOfOneKind(values, t, e, pair, noise) * scale, rms = 0;
  Matrix3 inverse{};
  for (int round = 0; round < 9; ++round) {
    Matrix3 m{};
    std::array<double, 3> v{};
    double squares = 0;
    for (int64_t row : rows) {
      const double x = static_cast<double>(row - e.anchor) / scale, c = std::cos(f * x), s = std::sin(f * x);
      const double residual = at(row) - a * c - b * s;
      const std::array<double, 3> d{c, s, x * (b * c - a * s)};
      for (size_t i = 0; i < 3; ++i) {
        for (size_t j = 0; j < 3; ++j) m[i][j] += d[i] * d[j];
        v[i] += d[i] * residual;
      }
      squares += residual * residual;
    }
    rms = std::sqrt(squares / static_cast<double>(rows.size()));
    if (round == 0) m[2] = {0, 0, 1}, m[0][2] = m[1][2] = 0, v[2] = 0;  // a and b first
    if (!Invert(m, inverse)) return 0;
    a += inverse[0][0] * v[0] + inverse[0][1] * v[1] + inverse[0][2] * v[2];
    b += inverse[1][0] * v[0] + inverse[1][1] * v[1] + inverse[1][2] * v[2];
    f += std::clamp(inverse[2][0] * v[0] + inverse[2][1] * v[1] + inverse[2][2] * v[2], -0.5, 0.5);
  }
  // Rows at which a coarse type stands still are off by the same rounding.
  double runs = 1;
  for (size_t k = 1; k < rows.size(); ++k) runs += at(rows[k]) != at(rows[k - 1]) ? 1 : 0;
  const double amplitude = std::hypot(a, b),
               variance = std::max(rms, noise) * std::max(rms, noise) * static_cast<double>(rows.size()) / runs;
  if (!(amplitude > 0) || rms > 0.05 * amplitude || f < 0) return 0;
  const double spread = std::sqrt(variance * (inverse[0][0] + inverse[1][1])),
               frequency_spread = std::sqrt(variance * inverse[2][2]);
  // A fit that hardly sees its pair bend is off by more than deviations say.
  if (!(spread < 0.02 * amplitude) || !(20 * frequency_spread < f)) {
    found.highest = std::min(3.2, std::max(4 * f, 2.0) / scale);
    return 0;
  }
  found.frequency = f / scale;
  found.frequency_error = frequency_spread / scale;
  found.phase = is_cos ? std::atan2(-b, a) : std::atan2(a, b);
  found.phase_error = spread / amplitude;
  return amplitude;
}

// Of one kind: the amplitudes of pairs that turn enough, with what the fits leave open.
struct Measured {
  double amplitude = 0, error = 0;
};

Measured MeanOf(const std::vector<Measured>& all) {
  double sum = 0, weight = 0;
  for (const Measured& one : all) {
    const double w = 1 / (one.error * one.error);
    sum += w * one.amplitude, weight += w;
  }
  return weight > 0 ? Measured{sum / weight, 2 / std::sqrt(weight)} : Measured{1, HUGE_VAL};
}

// Of both kinds. Roundings of slow pairs repeat, so pairs between the axes count where there are enough.
Measured RadiusOf(const PairTable& t, const Estimates& e, double noise) {
  std::vector<double> all, between;
  for (int64_t row : Spread(e.first, e.count, 64)) {
    for (int64_t pair = 0; pair < t.pairs; ++pair) {
      const double c = std::fabs(t.cos_at(row, pair)), s = std::fabs(t.sin_at(row, pair)), radius = std::hypot(c, s);
      all.push_back(radius);
      if (std::min(c, s) > 0.2 * radius) between.push_back(radius);
    }
  }
  const bool enough = between.size() >= 24;
  const std::vector<double>& used = enough ? between : all;
  long double sum = 0;  // so that sums of many are good to the last bit of a double
  for (double radius : used) sum += radius;
  const auto mean = static_cast<double>(sum / static_cast<long double>(used.size()));
  double squares = 0;
  for (double radius : used) squares += (radius - mean) * (radius - mean);
  const double n = static_cast<double>(used.size()), scatter = std::max(std::sqrt(squares / n), noise * mean);
  return {mean, enough ? 2 * scatter / std::sqrt(n) : 1.3 * scatter};
}

}  // namespace

double RoundingNoise(DType dtype) { return 0.29 * UlpOf(dtype, 0.75); }

Estimates EstimatePairs(const PairTable& table) {
  Estimates e;
  e.pairs.resize(static_cast<size_t>(table.pairs));
  const Stretch stretch = FindStretch(table);
  e.first = stretch.first;
  e.count = stretch.count;
  e.anchor = e.first + e.count / 2;
  if (e.count < 3) return e;
  const double noise = RoundingNoise(table.rounded_to);
  std::vector<Measured> amplitudes;
  for (int64_t pair = 0; pair < table.pairs; ++pair) {
    PairEstimate& found = e.pairs[static_cast<size_t>(pair)];
    if (table.has_both()) {
      found = EstimateBoth(table, e, pair, noise);
    } else if (const double amplitude = EstimateOneKind(table, e, pair, noise, found); amplitude > 0) {
      amplitudes.push_back({amplitude, found.phase_error * amplitude});
    }
  }
  const Measured measured = table.has_both() ? RadiusOf(table, e, noise) : MeanOf(amplitudes);
  e.amplitude = measured.amplitude;
  // The fits themselves are rounded.
  e.amplitude_error = std::max(measured.error, 1e-15 * measured.amplitude);
  return e;
}

bool TurnsBackwards(const Estimates& e) {
  // Slow pairs cannot have wrapped: the slowest one whose direction is sure decides.
  for (size_t i = e.pairs.size(); i-- > 0;) {
    const PairEstimate& pair = e.pairs[i];
    if (pair.is_known() && std::fabs(pair.frequency) > 12 * pair.frequency_error) return pair.frequency < 0;
  }
  return false;
}

}  // namespace phasor::server
