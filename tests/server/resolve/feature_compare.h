// The comparison of encodings by coordinates with the library's modules: rows that a backend makes of the answer's spec, as
// tests/golden/transformers/features.py sampled the modules. Each answers the empty string when they agree.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_FEATURE_COMPARE_H_
#define PHASOR_TESTS_SERVER_RESOLVE_FEATURE_COMPARE_H_

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/program/absolute_rows.h"
#include "tests/server/resolve/library_compare.h"

namespace phasor::server {

// The modules compute angles of up to 25 in float32.
inline constexpr double kFeatureTolerance = 1e-5;

using Coordinates = std::vector<std::vector<double>>;  // [axes][rows]

inline bool IsFeatureKind(const std::string& kind) {
  return kind == "sine_2d" || kind == "sine_points" || kind == "sine_boxes" || kind == "fourier_points" ||
         kind == "time_stamps";
}

// Layers that stand beside what the layers of a group have, and that only entries of those kinds are about.
inline bool IsFeature(const LayerEncoding& layer) {
  if (layer.layer_type.ends_with("boxes") || layer.layer_type.ends_with("audio_times")) return true;
  if (!layer.spec) return false;
  return std::holds_alternative<GridSinusoidalSpec>(layer.spec->spec) ||
         std::holds_alternative<GaussianFourierSpec>(layer.spec->spec);
}

// Rows of a spec in f64: at coordinates, or the first `count` of a grid. Empty with `problem` where there are none.
inline std::vector<double> RowsAt(const EncodingSpec& spec, const Coordinates& at, int64_t count, std::string* problem) {
  const auto canonical = Canonicalize(spec);
  const auto resolved = canonical.ok() ? Resolve(*canonical, std::nullopt, Precision::kExact) : canonical.status();
  if (!resolved.ok()) {
    *problem = "resolve: " + std::string(resolved.status().message());
    return {};
  }
  AbsolutePositions positions;
  positions.rows = at.empty() ? count : static_cast<int64_t>(at[0].size());
  for (size_t axis = 0; axis < at.size(); ++axis) {
    (axis == 0 ? positions.source : positions.more_axes[axis - 1]).fractional_ids = at[axis];
  }
  positions.axis_count = std::max<int64_t>(1, static_cast<int64_t>(at.size()));
  if (const auto status = CheckAbsolute(canonical->spec, positions); !status.ok()) {
    *problem = "positions: " + std::string(status.message());
    return {};
  }
  std::vector<double> rows(static_cast<size_t>(positions.rows * AbsoluteColumns(canonical->spec)));
  std::vector<double> scratch(static_cast<size_t>(AbsoluteScratchBytes(canonical->spec, positions, DType::kF64) / 8 + 16));
  void* aligned = scratch.data();
  size_t room = scratch.size() * 8;
  const auto steps = AbsoluteSteps({.spec = &canonical->spec,
                                    .plan = &resolved->plan,
                                    .positions = positions,
                                    .dtype = DType::kF64,
                                    .out = rows.data(),
                                    .scratch = static_cast<std::byte*>(std::align(64, 8, aligned, room))});
  const auto backend = CreateBackend("auto");
  const auto status = steps.ok() ? RunProgram(**backend, *steps) : steps.status();
  if (!status.ok()) *problem = "rows: " + std::string(status.message());
  return rows;
}

// [row, column, value] of the library beside rows of `columns`.
inline std::string CompareSamples(const std::vector<double>& rows, size_t columns, const Value& samples) {
  for (const Value& sample : samples.GetArray()) {
    const size_t row = sample[0].GetUint64(), column = sample[1].GetUint64();
    if (column >= columns || (row + 1) * columns > rows.size()) return "no column " + std::to_string(column);
    const double got = rows[row * columns + column];
    if (std::fabs(got - sample[2].GetDouble()) <= kFeatureTolerance) continue;
    return "row " + std::to_string(row) + " column " + std::to_string(column) + ": " + std::to_string(got) + " instead of " +
           std::to_string(sample[2].GetDouble());
  }
  return "";
}

inline Coordinates CoordinatesOf(const Value& want) {
  Coordinates at;
  for (const Value& axis : want["coordinates"].GetArray()) {
    at.emplace_back();
    for (const Value& value : axis.GetArray()) at.back().push_back(value.GetDouble());
  }
  return at;
}

// Coordinates of a map of which only the first rows and columns are seen, by the rule of the spec and the mask.
inline Coordinates MaskedCoordinates(const GridSinusoidalSpec& spec, const Value& grid, const Value& seen) {
  const int64_t height = grid[0].GetInt64(), width = grid[1].GetInt64();
  const auto is_seen = [&](int64_t y, int64_t x) { return y < seen[0].GetInt64() && x < seen[1].GetInt64(); };
  Coordinates at(2);
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      int64_t above = 0, column = 0, before = 0, row = 0;
      for (int64_t i = 0; i < height; ++i) {
        column += is_seen(i, x) ? 1 : 0;
        above += i <= y && is_seen(i, x) ? 1 : 0;
      }
      for (int64_t i = 0; i < width; ++i) {
        row += is_seen(y, i) ? 1 : 0;
        before += i <= x && is_seen(y, i) ? 1 : 0;
      }
      const auto coordinate = [&](int64_t ones, int64_t all) {
        const double from = static_cast<double>(ones) - 1 + *spec.start;
        return from / (static_cast<double>(all) + *spec.extent_epsilon) * *spec.scale;
      };
      at[0].push_back(coordinate(above, column));
      at[1].push_back(coordinate(before, row));
    }
  }
  return at;
}

inline std::string CompareMap(const LayerEncoding& layer, const Value& want) {
  GridSinusoidalSpec spec = std::get<GridSinusoidalSpec>(layer.spec->spec);
  std::string problem;
  if (!spec.grid.empty()) return "a grid that the file cannot know";
  const auto columns = static_cast<size_t>(spec.dim);
  if (want.HasMember("masked")) {
    if (!spec.extent_epsilon) return "not normalised";
    const auto rows = RowsAt(spec, MaskedCoordinates(spec, want["grid"], want["seen"]), 0, &problem);
    if (problem.empty()) problem = CompareSamples(rows, columns, want["masked"]);
    if (!problem.empty()) return "masked: " + problem;
  }
  for (const Value& extent : want["grid"].GetArray()) spec.grid.push_back(extent.GetInt64());
  const auto rows = RowsAt(spec, {}, spec.grid[0] * spec.grid[1], &problem);
  return problem.empty() ? CompareSamples(rows, columns, want["samples"]) : problem;
}

inline std::string ComparePoints(const LayerEncoding& layer, const Value& want) {
  std::string problem;
  const auto& spec = std::get<GridSinusoidalSpec>(layer.spec->spec);
  const auto rows = RowsAt(spec, CoordinatesOf(want), 0, &problem);
  return problem.empty() ? CompareSamples(rows, static_cast<size_t>(spec.dim), want["samples"]) : problem;
}

// One row for each coordinate of a box; those of a box side by side.
inline std::string CompareBoxes(const LayerEncoding& layer, const Value& want) {
  const Coordinates boxes = CoordinatesOf(want);
  Coordinates all(1);
  for (const auto& box : boxes) all[0].insert(all[0].end(), box.begin(), box.end());
  std::string problem;
  const auto& spec = std::get<SinusoidalSpec>(layer.spec->spec);
  const auto rows = RowsAt(spec, all, 0, &problem);
  return problem.empty() ? CompareSamples(rows, static_cast<size_t>(spec.dim) * boxes[0].size(), want["samples"]) : problem;
}

// The answer with the matrix that features.py puts into the module.
inline std::string CompareFourier(const LayerEncoding& layer, const Value& want) {
  GaussianFourierSpec spec = std::get<GaussianFourierSpec>(layer.spec->spec);
  const std::vector<int64_t> shape = {want["shape"][0].GetInt64(), want["shape"][1].GetInt64()};
  if (layer.weights.size() != 1 || layer.weights[0].shape != shape || !layer.weights[0].required) return "weight";
  if (spec.radians != want["radians"].GetBool()) return "radians";
  std::vector<double> matrix;
  for (int64_t axis = 0; axis < shape[0]; ++axis) {
    for (int64_t i = 0; i < shape[1]; ++i) matrix.push_back(static_cast<double>((37 * i + 17 * axis) % 64 - 32) / 16);
  }
  spec.weight = MakeWeight(shape, matrix);
  std::string problem;
  const auto rows = RowsAt(spec, CoordinatesOf(want), 0, &problem);
  return problem.empty() ? CompareSamples(rows, static_cast<size_t>(2 * shape[1]), want["samples"]) : problem;
}

// Rotations by time: sines, then cosines of the plan's angles.
inline std::string CompareTimes(const LayerEncoding& layer, const Value& want) {
  if (std::get<RopeSpec>(layer.spec->spec).pairing != Pairing::kInterleaved) return "pairing";
  const auto resolved = Resolve(*layer.spec, std::nullopt, Precision::kExact);
  if (!resolved.ok()) return "resolve: " + std::string(resolved.status().message());
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  const Coordinates at = CoordinatesOf(want);
  const size_t pairs = plan.inv_freq.size();
  if (pairs != want["pairs"].GetUint64()) return "pairs: " + std::to_string(pairs);
  std::vector<double> rows;
  for (size_t row = 0; row < at[0].size(); ++row) {
    std::vector<double> cosines;
    for (size_t i = 0; i < pairs; ++i) {
      const double angle = at[plan.axis_of_pair[i]][row] * plan.inv_freq[i];
      rows.push_back(std::sin(angle));
      cosines.push_back(std::cos(angle));
    }
    rows.insert(rows.end(), cosines.begin(), cosines.end());
  }
  return CompareSamples(rows, 2 * pairs, want["samples"]);
}

// Whether one of the layers is as the library has it; else the first difference.
inline std::string CompareFeatures(const std::vector<const LayerEncoding*>& layers, const Value& want) {
  const std::string kind = Text(want, "kind");
  std::string problem;
  for (const LayerEncoding* layer : layers) {
    if (!layer->spec) continue;
    const EncodingSpec& spec = layer->spec->spec;
    std::string found;
    if (kind == "sine_2d" && std::holds_alternative<GridSinusoidalSpec>(spec)) {
      found = CompareMap(*layer, want);
    } else if (kind == "sine_points" && std::holds_alternative<GridSinusoidalSpec>(spec)) {
      found = ComparePoints(*layer, want);
    } else if (kind == "sine_boxes" && std::holds_alternative<SinusoidalSpec>(spec)) {
      found = CompareBoxes(*layer, want);
    } else if (kind == "fourier_points" && std::holds_alternative<GaussianFourierSpec>(spec)) {
      found = CompareFourier(*layer, want);
    } else if (kind == "time_stamps" && IsFeature(*layer) && std::holds_alternative<RopeSpec>(spec)) {
      found = CompareTimes(*layer, want);
    } else {
      continue;
    }
    if (found.empty()) return "";
    if (problem.empty()) problem = layer->layer_type + ": " + found;
  }
  return problem.empty() ? "no layer has " + kind : problem;
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_FEATURE_COMPARE_H_
