#include "server/knowledge/distill_series.h"

#include <algorithm>
#include <chrono>

#include "absl/status/status.h"

#include "kernels/core/sincos.h"
#include "kernels/cpu/training.h"

namespace phasor::server {
namespace {

constexpr int64_t kBlockRows = 256;
// Of them a cancelled fit may still do as many.
constexpr int64_t kProductsAtOnce = int64_t{1} << 28;
constexpr int64_t kLeastTerms = 16;
constexpr std::chrono::milliseconds kProgressEvery{250};

// 1/divisor of a turn, 2 ≤ divisor < 2^34, cut below 2^−192.
Turns Part(uint64_t divisor) {
  Turns turns;
  unsigned __int128 rest = 1;
  for (size_t limb = 3; limb-- > 0;) {
    rest <<= 64;
    turns.limb[limb] = static_cast<uint64_t>(rest / divisor);
    rest %= divisor;
  }
  return turns;
}

// cos(2π·j/(4·rows)), j = 0 … 4·rows − 1.
std::vector<double> Cosines(int64_t rows) {
  const Turns step = Part(4 * static_cast<uint64_t>(rows));
  std::vector<double> cosines(static_cast<size_t>(4 * rows));
  for (int64_t j = 0; j < rows; ++j) cosines[j] = RoundTo<double>(SinCosOfPosition(step, j).cos);
  cosines[rows] = 0;
  for (int64_t j = rows + 1; j <= 2 * rows; ++j) cosines[j] = -cosines[2 * rows - j];
  for (int64_t j = 2 * rows + 1; j < 4 * rows; ++j) cosines[j] = cosines[4 * rows - j];
  return cosines;
}

}  // namespace

absl::StatusOr<std::vector<double>> FitSeries(const Grid& values, int64_t terms, DistillListener listener,
                                              const CancelFlag* cancel) {
  const int64_t rows = values.rows, columns = values.columns, across = PaddedToLanes(columns);
  using Clock = std::chrono::steady_clock;
  Clock::time_point told{};  // the first rows are told at once
  const int64_t at_once = std::max(kLeastTerms, kProductsAtOnce / (kBlockRows * across));
  const std::vector<double> cosines = Cosines(rows);
  std::vector<double> basis(static_cast<size_t>(kBlockRows * terms)), block(static_cast<size_t>(kBlockRows * across));
  std::vector<double> sums(static_cast<size_t>(terms * across));  // [terms, across]
  for (int64_t first = 0; first < rows; first += kBlockRows) {
    const int64_t count = std::min(kBlockRows, rows - first);
    for (int64_t r = 0; r < count; ++r) {
      const int64_t step = 2 * (first + r) + 1;  // below 4·rows: one subtraction keeps the place in the circle
      for (int64_t k = 0, at = 0; k < terms; ++k, at += at + step < 4 * rows ? step : step - 4 * rows) {
        basis[r * terms + k] = cosines[at];
      }
      for (int64_t c = 0; c < columns; ++c) block[r * across + c] = values.at(first + r, c);
    }
    for (int64_t k = 0; k < terms; k += at_once) {
      if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return absl::CancelledError("distill: cancelled");
      AddProduct(std::min(at_once, terms - k), across, count, {basis.data() + k, 1, terms}, block.data(), across,
                 sums.data() + k * across, across);
      const Clock::time_point now = Clock::now();
      if (now - told < kProgressEvery) continue;
      told = now;
      // Inside a block its rows count by how many terms they were multiplied with.
      const int64_t done = count * std::min(k + at_once, terms) / terms;
      listener({.form = DistillForm::kCosineSeries, .step = first + done, .steps = rows});
    }
  }
  std::vector<double> weights(static_cast<size_t>(columns * terms));
  for (int64_t c = 0; c < columns; ++c) {
    for (int64_t k = 0; k < terms; ++k) {
      weights[c * terms + k] = (k == 0 ? 1 : 2) * sums[k * across + c] / static_cast<double>(rows);
    }
  }
  return weights;
}

}  // namespace phasor::server
