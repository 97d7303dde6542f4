// What the comparisons with the library's modules share, and those of windows and score terms. Each answers the empty string
// when the layer is as the library has it, else what differs.
#ifndef PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_COMPARE_H_
#define PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_COMPARE_H_

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "server/resolve/model_config.h"
#include "tests/server/resolve/library_cases.h"

namespace phasor::server {

// The library's values are float32; see tests/golden/models/README.md.
inline constexpr double kTolerance = 5e-7;

inline std::string Join(const std::string& a, const std::string& b) { return a.empty() || b.empty() ? a + b : a + "." + b; }

// The layers that an entry of the goldens is about: by the part's name, or encoder and decoder of one configuration; and by
// layer type where the library's module tells them apart.
inline std::vector<const LayerEncoding*> LayersOf(const ModelEncoding& model, const Value& want) {
  const std::string group = Text(want, "group");
  const std::string side = Text(want, "side");
  const std::string type = Text(want, "layer_type");
  std::vector<std::string> names{group};
  if (!side.empty()) names.insert(names.begin(), {side, Join(group, side)});
  for (const std::string& name : names) {
    std::vector<const LayerEncoding*> found;
    for (const LayerEncoding& layer : model.layers) {
      const bool here = layer.part == name || (layer.part + layer.layer_type == name && !name.empty()) ||
                        (!name.empty() && layer.part.empty() && layer.layer_type == name);
      if (!here) continue;
      if (!type.empty() && layer.layer_type != Join(layer.part, type)) continue;
      found.push_back(&layer);
    }
    if (!found.empty()) return found;
  }
  return {};
}

inline const char* NameOf(Pairing pairing) {
  switch (pairing) {
    case Pairing::kHalfSplit:
      return "half_split";
    case Pairing::kInterleaved:
      return "interleaved";
    case Pairing::kInterleavedToHalf:
      return "interleaved_to_half";
  }
  return "";
}

inline const char* NameOf(PositionKind kind) {
  switch (kind) {
    case PositionKind::kRope:
      return "rope";
    case PositionKind::kSinusoidal:
      return "sinusoidal";
    case PositionKind::kAlibi:
      return "alibi";
    case PositionKind::kNone:
      return "none";
    case PositionKind::kUnserved:
      return "unserved";
    case PositionKind::kLearned:
      return "learned";
    case PositionKind::kBias:
      return "bias";
    case PositionKind::kTerm:
      return "term";
  }
  return "";
}

inline std::string KindOf(const LayerEncoding& layer) {
  return layer.kind == PositionKind::kUnserved ? layer.unserved : NameOf(layer.kind);
}

// The layer resolved where it is of the kind, which the golden calls `wanted`; else nothing, and `problem` says why.
inline std::optional<Resolved> ResolvedAs(PositionKind kind, const LayerEncoding& layer, const std::string& wanted,
                                          std::string& problem) {
  if (layer.kind != kind) {
    problem = "kind: " + KindOf(layer) + " instead of " + wanted;
    return std::nullopt;
  }
  auto resolved = Resolve(*layer.spec, 1, Precision::kExact);
  if (resolved.ok()) return *std::move(resolved);
  problem = "resolve: " + std::string(resolved.status().message());
  return std::nullopt;
}

// The given index of a list that holds its first and last 16 entries, or all.
inline size_t IndexInList(size_t entry, size_t entries, size_t pairs) {
  return entry < entries / 2 ? entry : pairs - entries + entry;
}

inline std::string CompareFrequencies(const std::vector<double>& got, const Value& want) {
  const auto list = want["inv_freq"].GetArray();
  const size_t pairs = want.HasMember("pairs") ? want["pairs"].GetUint64() : list.Size();
  if (got.size() != pairs) return "pairs: " + std::to_string(got.size()) + " instead of " + std::to_string(pairs);
  for (rapidjson::SizeType i = 0; i < list.Size(); ++i) {
    const double expected = list[i].GetDouble();
    const size_t at = pairs == list.Size() ? i : IndexInList(i, list.Size(), pairs);
    if (std::fabs(got[at] - expected) <= kTolerance * std::fabs(expected)) continue;
    std::ostringstream text;
    text << "inv_freq[" << at << "]: " << got[at] << " instead of " << expected;
    return text.str();
  }
  return "";
}

// Swin's table, and Swin v2's function of coordinates, stage by stage.
inline std::string CompareWindow(const LayerEncoding& layer, const Value& want) {
  if (layer.kind != PositionKind::kBias) return "kind: " + KindOf(layer) + " instead of a window's bias";
  const int64_t height = want["window"][0].GetInt64();
  if (const auto* window = std::get_if<WindowBiasSpec>(&layer.spec->spec)) {
    return window->window_height == height && window->window_width == want["window"][1].GetInt64()
               ? ""
               : "window: " + std::to_string(window->window_height);
  }
  const auto& spec = std::get<ContinuousWindowBiasSpec>(layer.spec->spec);
  const auto rows = want["rows"].GetArray();
  if (spec.window_height != height || rows.Size() != static_cast<unsigned>(2 * height - 1)) {
    return "window: " + std::to_string(spec.window_height);
  }
  for (int64_t i = 0; i < 2 * height - 1; ++i) {
    const double c = static_cast<double>(i - (height - 1)) / static_cast<double>(spec.pretrained_height - 1);
    const double got = std::copysign(std::log2(1 + 8 * std::fabs(c)) / 3, c);
    if (std::fabs(got - rows[static_cast<unsigned>(i)].GetDouble()) > 1e-6) return "coordinate " + std::to_string(i);
  }
  return "";
}

// Relative sinusoids: the plan is made with weights of the shapes that the answer asks for.
inline std::string CompareRelativeSinusoid(const LayerEncoding& layer, const Value& want) {
  if (layer.kind != PositionKind::kTerm) return "kind: " + KindOf(layer) + " instead of relative sinusoids";
  ConformerSpec spec = std::get<ConformerSpec>(layer.spec->spec);
  const auto zeros = [&](size_t index) {
    const std::vector<int64_t>& shape = layer.weights.at(index).shape;
    return MakeWeight(shape, std::vector<double>(static_cast<size_t>(shape.at(0) * shape.at(1))), "zeros");
  };
  spec.w_r = zeros(0);
  spec.u = zeros(1);
  spec.v = zeros(2);
  const auto canonical = Canonicalize(spec);
  const auto resolved = canonical.ok() ? Resolve(*canonical, std::nullopt, Precision::kExact) : canonical.status();
  if (!resolved.ok()) return "resolve: " + std::string(resolved.status().message());
  return CompareFrequencies(std::get<SinusoidTermPlan>(resolved->plan).sinusoids->inv_freq, want);
}

// One entry of the library's table by the spec: row and column as in the library.
inline double SinusoidAt(const SinusoidalSpec& spec, const std::vector<double>& inv_freq, int64_t row, int64_t column) {
  if (spec.padding_row && row == *spec.padding_row) return 0;
  const int64_t half = spec.dim / 2;
  const bool concatenated = *spec.layout == SinusoidalLayout::kConcatenated;
  const int64_t sines = concatenated && *spec.spacing == SinusoidalSpacing::kEndpointInclusive ? half : (spec.dim + 1) / 2;
  const bool sine = concatenated ? column < sines : column % 2 == 0;
  const int64_t pair = concatenated ? (sine ? column : column - sines) : column / 2;
  const double angle = static_cast<double>(row) * inv_freq[static_cast<size_t>(pair)];
  return sine ? std::sin(angle) : std::cos(angle);
}

// Cosines first: diffusers' form, column i of a half has max_period^(−i/(half − shift)).
inline std::string CompareTimestep(const TimestepSpec& spec, const Value& want) {
  const int64_t half = spec.dim / 2;
  for (const Value& sample : want["samples"].GetArray()) {
    const int64_t column = sample[1].GetInt64();
    const double exponent = static_cast<double>(column % half) / (static_cast<double>(half) - *spec.downscale_freq_shift);
    const double angle = sample[0].GetDouble() * *spec.scale * std::pow(*spec.max_period, -exponent);
    const bool cosine = (column < half) == spec.flip_sin_to_cos;
    if (std::fabs((cosine ? std::cos(angle) : std::sin(angle)) - sample[2].GetDouble()) <= 2e-5) continue;
    return "sample of column " + std::to_string(column);
  }
  return spec.dim == want["dim"].GetInt64() ? "" : "dim: " + std::to_string(spec.dim);
}

// EfficientLoFTR: every frequency twice, for the row and for the column, in pairs side by side.
inline std::string CompareAxialGrid(const LayerEncoding& layer, const Value& want) {
  std::string problem;
  const auto resolved = ResolvedAs(PositionKind::kRope, layer, "rope", problem);
  if (!resolved) return problem;
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  if (spec.pairing != Pairing::kInterleaved) return "pairing";
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  const auto list = want["inv_freq"].GetArray();
  if (plan.inv_freq.size() != 2u * list.Size()) return "pairs: " + std::to_string(plan.inv_freq.size());
  for (size_t i = 0; i < plan.inv_freq.size(); ++i) {
    const double expected = list[static_cast<rapidjson::SizeType>(i / 2)].GetDouble();
    if (std::fabs(plan.inv_freq[i] - expected) > kTolerance * expected || plan.axis_of_pair[i] != i % 2) {
      return "pair " + std::to_string(i);
    }
  }
  return "";
}

// DINOv3: rows, then columns, of a coordinate that turns by 2π·c times the library's numbers.
inline std::string CompareDinoV3(const LayerEncoding& layer, const Value& want) {
  std::string problem;
  const auto resolved = ResolvedAs(PositionKind::kRope, layer, "rope", problem);
  if (!resolved) return problem;
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  const auto list = want["inv_freq"].GetArray();
  if (plan.inv_freq.size() != 2u * list.Size()) return "pairs: " + std::to_string(plan.inv_freq.size());
  for (size_t i = 0; i < plan.inv_freq.size(); ++i) {
    const double expected = 2 * M_PI * list[static_cast<rapidjson::SizeType>(i % list.Size())].GetDouble();
    if (std::fabs(plan.inv_freq[i] - expected) > kTolerance * expected || plan.axis_of_pair[i] != i / list.Size()) {
      return "pair " + std::to_string(i);
    }
  }
  return "";
}

inline std::string CompareSlopes(const LayerEncoding& layer, const Value& want) {
  std::string problem;
  const auto resolved = ResolvedAs(PositionKind::kAlibi, layer, "alibi", problem);
  if (!resolved) return problem;
  const auto& slopes = std::get<BiasPlan>(resolved->plan).slopes;
  const auto list = want["slopes"].GetArray();
  if (slopes.size() != list.Size()) return "heads: " + std::to_string(slopes.size());
  for (rapidjson::SizeType i = 0; i < list.Size(); ++i) {
    if (std::fabs(slopes[i].hi - list[i].GetDouble()) > kTolerance * list[i].GetDouble()) {
      return "slope[" + std::to_string(i) + "]: " + std::to_string(slopes[i].hi);
    }
  }
  return "";
}

inline std::string CompareRope(const LayerEncoding& layer, const Value& want) {
  std::string problem;
  const auto resolved = ResolvedAs(PositionKind::kRope, layer, "rope", problem);
  if (!resolved) return problem;
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  const std::string pairing = NameOf(*spec.pairing);
  const std::string frequencies = CompareFrequencies(std::get<AnglePlan>(resolved->plan).inv_freq, want);
  if (!frequencies.empty()) return frequencies;
  if (std::fabs(resolved->attention_factor - want["factor"].GetDouble()) > kTolerance) {
    return "factor: " + std::to_string(resolved->attention_factor) + " instead of " +
           std::to_string(want["factor"].GetDouble());
  }
  if (pairing != Text(want, "pairing")) return "pairing: " + pairing + " instead of " + Text(want, "pairing");
  return "";
}

inline std::string CompareAxes(const AnglePlan& plan, const Value& want, bool width_first) {
  const std::string axes = Text(want, "axes");
  if (plan.axis_of_pair.size() != axes.size()) return "pairs with an axis: " + std::to_string(plan.axis_of_pair.size());
  const std::string order = plan.axes == 3 ? "tyx" : width_first ? "xy" : "yx";
  for (size_t i = 0; i < axes.size(); ++i) {
    if (order[plan.axis_of_pair[i]] != axes[i])
      return "axis of pair " + std::to_string(i) + ": " + order[plan.axis_of_pair[i]];
  }
  return "";
}

inline std::string CompareSeveralAxes(const LayerEncoding& layer, const Value& want) {
  std::string problem;
  const auto resolved = ResolvedAs(PositionKind::kRope, layer, Text(want, "kind"), problem);
  if (!resolved) return problem;
  const RopeSpec& spec = std::get<RopeSpec>(layer.spec->spec);
  const AnglePlan& plan = std::get<AnglePlan>(resolved->plan);
  if (const std::string frequencies = CompareFrequencies(plan.inv_freq, want); !frequencies.empty()) return frequencies;
  const std::string pairing = NameOf(*spec.pairing);
  if (pairing != Text(want, "pairing")) return "pairing: " + pairing + " instead of " + Text(want, "pairing");
  const bool width_first = std::any_of(layer.warnings.begin(), layer.warnings.end(), [](const Note& note) {
    return note.message.find("[width, height]") != std::string::npos;
  });
  if (want.HasMember("start")) {
    const std::string text = "count from " + std::to_string(static_cast<int64_t>(std::lround(want["start"].GetDouble())));
    if (std::none_of(layer.warnings.begin(), layer.warnings.end(),
                     [&](const Note& note) { return note.message.find(text) != std::string::npos; })) {
      return "start: does not " + text;
    }
  }
  return CompareAxes(plan, want, width_first);
}

}  // namespace phasor::server

#endif  // PHASOR_TESTS_SERVER_RESOLVE_LIBRARY_COMPARE_H_
