#include "kernels/program/resize.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "kernels/core/narrow.h"

namespace phasor {
namespace {

// ⌊a/b⌋, b > 0.
int64_t FloorDiv(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

// The cubic convolution kernel at distance x ≥ 0.
double Cubic(double x, double a) {
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// A source position as a whole number and a fraction in [0, 1).
struct Place {
  int64_t whole = 0;
  double fraction = 0;
};

Place PlaceOf(const ResizeRule& rule, int64_t source, int64_t target, int64_t i) {
  // numerator/denominator
  int64_t numerator = (2 * i + 1) * source - target, denominator = 2 * target;
  if (rule.align_corners) {
    numerator = target > 1 ? i * (source - 1) : 0;
    denominator = target > 1 ? target - 1 : 1;
  }
  if (rule.interpolation == Interpolation::kLinear) numerator = std::max<int64_t>(numerator, 0);
  const int64_t whole = FloorDiv(numerator, denominator);
  return {whole, static_cast<double>(numerator - whole * denominator) / static_cast<double>(denominator)};
}

// Weights of consecutive points from `first` on, those outside added to the nearest one inside.
ResizeTaps Clamped(int64_t first, std::initializer_list<double> weights, int64_t source) {
  ResizeTaps taps;
  taps.first = std::clamp<int64_t>(first, 0, source - 1);
  for (double weight : weights) {
    const size_t at = static_cast<size_t>(std::clamp<int64_t>(first++, 0, source - 1) - taps.first);
    if (at >= taps.weights.size()) taps.weights.resize(at + 1);
    taps.weights[at] += weight;
  }
  return taps;
}

ResizeTaps Plain(const ResizeRule& rule, int64_t source, int64_t target, int64_t i) {
  if (rule.interpolation == Interpolation::kNearest) return {i * source / target, {1}};
  const Place place = PlaceOf(rule, source, target, i);
  const double t = place.fraction;
  if (rule.interpolation == Interpolation::kLinear) return Clamped(place.whole, {1 - t, t}, source);
  constexpr double kA = -0.75;
  return Clamped(place.whole - 1, {Cubic(t + 1, kA), Cubic(t, kA), Cubic(1 - t, kA), Cubic(2 - t, kA)}, source);
}

ResizeTaps Antialiased(const ResizeRule& rule, int64_t source, int64_t target, int64_t i) {
  const bool cubic = rule.interpolation == Interpolation::kCubic;
  const int64_t reach = cubic ? 2 : 1;
  const int64_t wide = std::max(source, target);  // the kernel's unit is wide/target source points
  const int64_t center = (2 * i + 1) * source;    // in units of 1/(2·target)
  ResizeTaps taps;
  taps.first = std::max<int64_t>(0, FloorDiv(center - 2 * reach * wide + target, 2 * target));
  const int64_t end = std::min(source, FloorDiv(center + 2 * reach * wide + target, 2 * target));
  double total = 0;
  for (int64_t j = taps.first; j < end; ++j) {
    const int64_t distance = std::llabs((2 * j + 1) * target - center);  // in units of 1/(2·wide)
    const double x = static_cast<double>(distance) / static_cast<double>(2 * wide);
    const double weight = cubic ? Cubic(x, -0.5) : std::max(0.0, 1 - x);
    taps.weights.push_back(weight);
    total += weight;
  }
  for (double& weight : taps.weights) weight /= total;
  return taps;
}

void TrimZeros(ResizeTaps& taps) {
  while (taps.weights.size() > 1 && taps.weights.back() == 0) taps.weights.pop_back();
  while (taps.weights.size() > 1 && taps.weights.front() == 0) {
    taps.weights.erase(taps.weights.begin());
    ++taps.first;
  }
}

// The axes of a job, a first one of a single point where there is none.
struct Grid {
  int64_t source_y = 1, source_x = 1, target_y = 1, target_x = 1;
};
Grid GridOf(const ResizeJob& job) {
  Grid grid;
  grid.source_x = job.source.back();
  grid.target_x = job.target.back();
  if (job.source.size() == 2) grid.source_y = job.source[0], grid.target_y = job.target[0];
  return grid;
}

// Everything that the steps share.
struct Shared {
  ResizeJob job;
  Grid grid;
  std::vector<ResizeTaps> along_x, along_y;
  double* middle;  // [source_y, target_x, columns]
};

// sum[c] += weight·row[c]
template <typename T>
void AddRow(double weight, const T* row, int64_t columns, double* sum) {
  for (int64_t c = 0; c < columns; ++c) sum[c] += weight * Widen<double>(row[c]);
}
template <typename T>
void SetRow(double weight, const T* row, int64_t columns, double* sum) {
  for (int64_t c = 0; c < columns; ++c) sum[c] = weight * Widen<double>(row[c]);
}

// Rows of the middle.
void AlongX(const Shared& s, RowRange rows) {
  const ResizeJob& job = s.job;
  VisitFloat(job.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t y = row / s.grid.target_x;
      const ResizeTaps& taps = s.along_x[static_cast<size_t>(row % s.grid.target_x)];
      const T* from =
          static_cast<const T*>(job.in) + (job.extra_first + y * s.grid.source_x + taps.first) * job.in_row_stride;
      double* sum = s.middle + row * job.columns;
      SetRow(taps.weights[0], from, job.columns, sum);
      for (size_t j = 1; j < taps.weights.size(); ++j) {
        AddRow(taps.weights[j], from + static_cast<int64_t>(j) * job.in_row_stride, job.columns, sum);
      }
    }
  });
}

// Rows of the target's grid.
void AlongY(const Shared& s, RowRange rows) {
  const ResizeJob& job = s.job;
  std::vector<double> sum(static_cast<size_t>(job.columns));
  VisitFloat(job.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const ResizeTaps& taps = s.along_y[static_cast<size_t>(row / s.grid.target_x)];
      const int64_t step = s.grid.target_x * job.columns;
      const double* from = s.middle + taps.first * step + row % s.grid.target_x * job.columns;
      SetRow(taps.weights[0], from, job.columns, sum.data());
      for (size_t j = 1; j < taps.weights.size(); ++j) {
        AddRow(taps.weights[j], from + static_cast<int64_t>(j) * step, job.columns, sum.data());
      }
      T* to = static_cast<T*>(job.out) + (job.extra_first + row) * job.columns;
      for (int64_t c = 0; c < job.columns; ++c) to[c] = Narrow<T>(sum[static_cast<size_t>(c)]);
    }
  });
}

// Rows that are kept: the first ones, then the last ones.
void KeepExtras(const Shared& s, RowRange rows) {
  const ResizeJob& job = s.job;
  VisitFloat(job.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const bool first = row < job.extra_first;
      const T* from = static_cast<const T*>(job.in) + (first ? row : row + job.source_points()) * job.in_row_stride;
      T* to = static_cast<T*>(job.out) + (first ? row : row + job.target_points()) * job.columns;
      for (int64_t c = 0; c < job.columns; ++c) to[c] = CanonicalizeNaN(from[c]);
    }
  });
}

}  // namespace

int64_t ResizeJob::source_points() const {
  const Grid grid = GridOf(*this);
  return grid.source_y * grid.source_x;
}
int64_t ResizeJob::target_points() const {
  const Grid grid = GridOf(*this);
  return grid.target_y * grid.target_x;
}

std::vector<ResizeTaps> TapsOf(const ResizeRule& rule, int64_t source, int64_t target) {
  std::vector<ResizeTaps> all;
  all.reserve(static_cast<size_t>(target));
  for (int64_t i = 0; i < target; ++i) {
    const bool same = source == target;
    ResizeTaps taps = same             ? ResizeTaps{i, {1}}
                      : rule.antialias ? Antialiased(rule, source, target, i)
                                       : Plain(rule, source, target, i);
    TrimZeros(taps);
    all.push_back(std::move(taps));
  }
  return all;
}

int64_t ResizeScratchBytes(const ResizeJob& job) {
  const Grid grid = GridOf(job);
  return grid.source_y * grid.target_x * job.columns * static_cast<int64_t>(sizeof(double));
}

std::vector<ProgramStep> ResizeSteps(const ResizeJob& job, std::byte* scratch) {
  const Grid grid = GridOf(job);
  const auto shared = std::make_shared<const Shared>(Shared{job, grid, TapsOf(job.rule, grid.source_x, grid.target_x),
                                                            TapsOf(job.rule, grid.source_y, grid.target_y),
                                                            reinterpret_cast<double*>(scratch)});
  const auto step = [&](void (*run)(const Shared&, RowRange), int64_t rows, size_t taps) {
    const auto body = [shared, run](RowRange range, const CancelFlag*) {
      run(*shared, range);
      return absl::OkStatus();
    };
    const int64_t cost = job.columns * static_cast<int64_t>(taps);
    return ProgramStep::Of(body, rows, std::max<int64_t>(1, (int64_t{1} << 19) / cost));
  };
  const auto longest = [](const std::vector<ResizeTaps>& all) {
    size_t count = 1;
    for (const ResizeTaps& taps : all) count = std::max(count, taps.weights.size());
    return count;
  };
  return {step(&AlongX, grid.source_y * grid.target_x, longest(shared->along_x)),
          step(&AlongY, grid.target_y * grid.target_x, longest(shared->along_y)),
          step(&KeepExtras, job.extra_first + job.extra_last, 1)};
}

}  // namespace phasor
