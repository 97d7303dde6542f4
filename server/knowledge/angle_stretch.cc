#include "server/knowledge/angle_stretch.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "server/knowledge/numbers.h"

namespace phasor::server {
namespace {

constexpr int64_t kWindow = 24;   // rows
constexpr int64_t kWindows = 24;  // places that are tried
constexpr int64_t kPairs = 24;    // pairs that are looked at

// Evenly turning pairs hold z[r+1] + z[r−1] = 2·cos θ·z[r]; of cosines or sines alone it holds as well.
class Recurrence {
 public:
  explicit Recurrence(const PairTable& table) : table_(table) {
    const int64_t count = std::min(table.pairs, kPairs);
    for (int64_t i = 0; i < count; ++i) pairs_.push_back(count == 1 ? 0 : i * (table.pairs - 1) / (count - 1));
    twice_cos_.resize(pairs_.size());
    // Angles that a library rounds to float32 near 2^17 are off by up to 2^-8.
    tolerance_ = 0.05 + 6 * UlpOf(table.rounded_to, 0.75);
  }

  // Fits cos θ of every pair to rows first … first + count − 1. Returns the largest residual; infinite where it cannot be.
  double FitTo(int64_t first, int64_t count) {
    for (size_t i = 0; i < pairs_.size(); ++i) {
      double dot = 0, norm = 0;
      ForKinds([&](const std::vector<double>& kind) {
        for (int64_t row = first + 1; row + 1 < first + count; ++row) {
          const double here = At(kind, row, i);
          dot += (At(kind, row + 1, i) + At(kind, row - 1, i)) * here;
          norm += here * here;
        }
      });
      twice_cos_[i] = norm > 0 ? dot / norm : 2;
    }
    double largest = 0;
    for (int64_t row = first + 1; row + 1 < first + count; ++row) largest = std::max(largest, Residual(row));
    return AreEqual(first, count) ? HUGE_VAL : largest;
  }

  double Residual(int64_t row) const {
    double largest = 0;
    for (size_t i = 0; i < pairs_.size(); ++i) {
      ForKinds([&](const std::vector<double>& kind) {
        const double residual =
            std::fabs(At(kind, row + 1, i) + At(kind, row - 1, i) - twice_cos_[i] * At(kind, row, i)) / scale_;
        largest = residual <= largest ? largest : (std::isfinite(residual) ? residual : HUGE_VAL);
      });
    }
    return largest;
  }

  // `scale`: the largest magnitude of the table.
  void SetScale(double scale) { scale_ = scale > 0 ? scale : 1; }
  double tolerance() const { return tolerance_; }

 private:
  template <typename F>
  void ForKinds(F&& f) const {
    if (!table_.cos.empty()) f(table_.cos);
    if (!table_.sin.empty()) f(table_.sin);
  }
  double At(const std::vector<double>& kind, int64_t row, size_t i) const {
    return kind[static_cast<size_t>(row * table_.pairs + pairs_[i])];
  }
  bool AreEqual(int64_t first, int64_t count) const {
    bool equal = true;
    ForKinds([&](const std::vector<double>& kind) {
      for (int64_t row = first + 1; row < first + count; ++row) {
        for (size_t i = 0; i < pairs_.size(); ++i) equal = equal && At(kind, row, i) == At(kind, first, i);
      }
    });
    return equal;
  }

  const PairTable& table_;
  std::vector<int64_t> pairs_;
  std::vector<double> twice_cos_;
  double tolerance_ = 0, scale_ = 1;
};

double LargestOf(const PairTable& table) {
  double largest = 0;
  for (const std::vector<double>* kind : {&table.cos, &table.sin}) {
    for (double value : *kind) {
      if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
    }
  }
  return largest;
}

}  // namespace

Stretch FindStretch(const PairTable& table) {
  if (table.rows < 4) return {};
  Recurrence recurrence(table);
  recurrence.SetScale(LargestOf(table));
  const int64_t window = std::min(table.rows, kWindow), places = std::min(table.rows - window + 1, kWindows);
  double best = HUGE_VAL;
  int64_t best_first = 0, best_count = 0;
  // Short tables with a break in them need shorter windows.
  for (int64_t length = window; length >= 5 && best > recurrence.tolerance(); length = length / 2) {
    const int64_t ends = table.rows - length, tries = std::min(ends + 1, 2 * places);
    for (int64_t place = 0; place < tries; ++place) {
      const int64_t first = tries == 1 ? 0 : place * ends / (tries - 1);
      const double residual = recurrence.FitTo(first, length);
      if (residual < best) best = residual, best_first = first, best_count = length;
    }
  }
  if (best > recurrence.tolerance()) return {};
  recurrence.FitTo(best_first, best_count);
  int64_t begin = best_first, end = best_first + best_count;
  while (end < table.rows && recurrence.Residual(end - 1) <= recurrence.tolerance()) ++end;
  while (begin > 0 && recurrence.Residual(begin) <= recurrence.tolerance()) --begin;
  return {begin, end - begin};
}

}  // namespace phasor::server
