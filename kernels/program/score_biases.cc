#include "kernels/program/score_biases.h"

#include <algorithm>
#include <span>

#include "absl/strings/str_cat.h"

#include "kernels/program/window_bias.h"

namespace phasor {
namespace {

// What a bias is like.
struct Kind {
  int64_t heads = 0;
  int64_t batch = 0;         // of its weights; 0: the same for all rows
  bool by_distance = false;  // has a vector of values by distance
};

// Of the schemes that depend on the distance alone and have a DistancePlan; nothing for others.
std::optional<Kind> DistanceKindOf(const EncodingSpec& bias) {
  if (const auto* alibi = std::get_if<AlibiSpec>(&bias)) {
    const auto slopes = static_cast<int64_t>(alibi->batch_slopes.size());
    return Kind{alibi->num_heads, slopes == 0 ? 0 : slopes / std::max<int64_t>(1, alibi->num_heads), true};
  }
  if (const auto* t5 = std::get_if<T5BucketSpec>(&bias)) return Kind{t5->num_heads, 0, true};
  if (const auto* kerple = std::get_if<KerpleSpec>(&bias)) return Kind{kerple->num_heads, 0, true};
  if (const auto* sandwich = std::get_if<SandwichSpec>(&bias)) return Kind{sandwich->num_heads, 0, true};
  return std::nullopt;
}

std::optional<Kind> KindOf(const EncodingSpec& bias) {
  if (auto kind = DistanceKindOf(bias)) return kind;
  const auto traits = TraitsOf(bias);
  if (!traits) return std::nullopt;
  return Kind{traits->heads, traits->batch, traits->by_distance};
}

bool HasNumbers(const EncodingSpec& bias) {
  if (const auto* t5 = std::get_if<T5BucketSpec>(&bias)) return static_cast<bool>(t5->table);
  const auto traits = TraitsOf(bias);
  return !traits || !traits->indices_only;
}

bool IsConsecutive(const TokenPositions& p) {
  if (p.per_batch) return false;
  for (size_t i = 1; i < p.ids.size(); ++i) {
    if (p.ids[i] != p.ids[i - 1] + 1) return false;
  }
  return true;
}

bool AreConsecutive(const ScoreSettings& s) { return IsConsecutive(s.query_positions) && IsConsecutive(s.key_positions); }

absl::Status CheckPositionRows(std::span<const int64_t> ids, int64_t rows, const char* field) {
  if (rows == 0) return absl::OkStatus();
  for (int64_t id : ids) {
    if (id < 0 || id >= rows) {
      return MakeSpecError(field, absl::StrCat("position ", id),
                           absl::StrCat("0 … ", rows - 1, ", the rows of the weights"));
    }
  }
  return absl::OkStatus();
}

// What a bias without a vector takes as positions.
struct Places {
  std::span<const int64_t> ids;
  bool per_batch = false;

  std::span<const int64_t> Of(int64_t batch_row, int64_t count) const {
    return ids.subspan(static_cast<size_t>(per_batch ? batch_row * count : 0), static_cast<size_t>(count));
  }
};
Places PlacesOf(bool places_are_keys, const TokenPositions& positions, const std::vector<int64_t>& places) {
  if (places_are_keys && !places.empty()) return {places};
  return {positions.ids, positions.per_batch};
}

absl::Status CheckTraits(const BiasTraits& traits, const std::string& path, const ScoreSettings& s) {
  if (traits.tokens > 0 && (traits.tokens != s.shape.queries || traits.tokens != s.shape.keys)) {
    return MakeSpecError(path, absl::StrCat("a window of ", traits.tokens, " tokens"),
                         absl::StrCat(s.shape.queries, " queries and ", s.shape.keys, " keys, as q and k have"));
  }
  const Places queries = PlacesOf(traits.places_are_keys, s.query_positions, s.query_places);
  if (auto status = CheckPositionRows(queries.ids, traits.query_rows, "query_positions"); !status.ok()) return status;
  return CheckPositionRows(PlacesOf(traits.places_are_keys, s.key_positions, s.key_places).ids, traits.key_rows,
                           "key_positions");
}

// Positions relative to the smallest key's, as BiasMatrixTask takes them.
int32_t* PlacePositions(const TokenPositions& positions, int64_t origin, ScratchCutter& cutter,
                        std::vector<ProgramStep>* prepare) {
  const int64_t count = static_cast<int64_t>(positions.ids.size());
  auto* out = reinterpret_cast<int32_t*>(cutter.Bytes(count * 4));
  if (out == nullptr) return nullptr;
  prepare->push_back(ProgramStep::Of(
      [ids = std::span<const int64_t>(positions.ids), origin, out](RowRange rows, const CancelFlag*) {
        for (int64_t i = rows.begin; i < rows.end; ++i) out[i] = static_cast<int32_t>(ids[static_cast<size_t>(i)] - origin);
        return absl::OkStatus();
      },
      count, 1 << 16));
  return out;
}

// A vector [batch, heads, distances], from the smallest key − query on.
double* PlaceVector(const EncodingSpec& bias, const Kind& kind, const Plan* plan, const DistanceRange& distances,
                    const ScoreSettings& s, ScratchCutter& cutter, std::vector<ProgramStep>* prepare) {
  const int64_t count = CountOf(distances), rows = std::max<int64_t>(1, kind.batch);
  double* vector = cutter.Doubles(rows * s.shape.heads * count);
  const bool is_function = !DistanceKindOf(bias);
  std::byte* scratch = cutter.Bytes(is_function ? BiasScratchBytes(bias, DType::kF64, s.shape.heads, 1, count) : int64_t{0});
  if (vector == nullptr || plan == nullptr) return vector;
  if (is_function) {
    AppendBiasVectorSteps(*plan, DType::kF64, s.first_head, s.shape.heads, -distances.largest, count, vector, scratch,
                          prepare);
    return vector;
  }
  for (int64_t b = 0; b < rows; ++b) {
    BiasVectorTask task;
    task.plan = *DistancePlanOf(*plan);
    task.dtype = DType::kF64;
    task.first_distance = -distances.largest;
    task.first_head = b * kind.heads + s.first_head;
    task.heads = s.shape.heads;
    task.out = vector + b * s.shape.heads * count;
    task.head_stride = count;
    prepare->push_back(ProgramStep::Of(task, count));
  }
  return vector;
}

PlacedBias PlaceByDistance(const EncodingSpec& bias, const Kind& kind, const Plan* plan, const TermContext& context,
                           ScratchCutter& cutter, std::vector<ProgramStep>* prepare) {
  const ScoreSettings& s = *context.settings;
  const DistanceRange distances = DistancesOf(s);
  const int64_t count = CountOf(distances);
  PlacedBias placed;
  const double* vector = PlaceVector(bias, kind, plan, distances, s, cutter, prepare);
  const int64_t vector_batch_stride = kind.batch > 0 ? s.shape.heads * count : 0;
  if (AreConsecutive(s)) {
    if (vector == nullptr) return placed;
    placed.sum.addend = vector + s.key_positions.ids.front() - s.query_positions.ids.front() + distances.largest;
    placed.sum.batch_stride = vector_batch_stride;
    placed.sum.head_stride = count;
    placed.sum.query_stride = -1;
    return placed;
  }
  const int64_t origin = *std::min_element(s.key_positions.ids.begin(), s.key_positions.ids.end());
  BiasMatrixTask matrix;
  matrix.dtype = DType::kF64;
  matrix.batch = s.shape.batch;
  matrix.heads = s.shape.heads;
  matrix.queries = s.shape.queries;
  matrix.keys = s.shape.keys;
  matrix.vector = vector;
  matrix.vector_batch_stride = vector_batch_stride;
  matrix.vector_head_stride = count;
  matrix.first_distance = -distances.largest;
  matrix.query_positions = PlacePositions(s.query_positions, origin, cutter, prepare);
  matrix.key_positions = PlacePositions(s.key_positions, origin, cutter, prepare);
  matrix.query_batch_stride = s.query_positions.per_batch ? s.shape.queries : 0;
  matrix.key_batch_stride = s.key_positions.per_batch ? s.shape.keys : 0;
  placed.matrix = matrix;
  placed.sum.batch_stride = s.shape.heads * s.shape.queries * s.shape.keys;
  placed.sum.head_stride = s.shape.queries * s.shape.keys;
  placed.sum.query_stride = s.shape.keys;
  return placed;
}

// Biases without a vector, whole.
PlacedBias PlaceWhole(const EncodingSpec& bias, const Kind& kind, const Plan* plan, const TermContext& context,
                      ScratchCutter& cutter, std::vector<ProgramStep>* prepare) {
  const ScoreSettings& s = *context.settings;
  const bool gates_differ = std::holds_alternative<ForgettingBiasSpec>(bias) && s.masking.key_padding_batch_stride > 0;
  const auto traits = TraitsOf(bias);
  const bool places_are_keys = traits && traits->places_are_keys;
  const Places queries = PlacesOf(places_are_keys, s.query_positions, s.query_places);
  const Places keys = PlacesOf(places_are_keys, s.key_positions, s.key_places);
  const bool by_batch = kind.batch > 0 || queries.per_batch || keys.per_batch || gates_differ;
  const int64_t parts = by_batch ? s.shape.batch : 1;
  const int64_t size = s.shape.heads * s.shape.queries * s.shape.keys;
  double* all = cutter.Doubles(parts * size);
  std::byte* scratch = cutter.Bytes(BiasScratchBytes(bias, DType::kF64, s.shape.heads, s.shape.queries, s.shape.keys));
  PlacedBias placed;
  placed.sum.addend = all;
  placed.sum.batch_stride = by_batch ? size : 0;
  placed.sum.head_stride = s.shape.queries * s.shape.keys;
  placed.sum.query_stride = s.shape.keys;
  if (all == nullptr || plan == nullptr) return placed;
  for (int64_t b = 0; b < parts; ++b) {
    BiasPart part;
    part.dtype = DType::kF64;
    part.first_head = s.first_head;
    part.heads = s.shape.heads;
    part.batch_row = kind.batch > 0 ? b : 0;
    part.query_positions = queries.Of(b, s.shape.queries);
    part.key_positions = keys.Of(b, s.shape.keys);
    if (!s.masking.key_padding.empty()) {
      part.key_padding =
          std::span(s.masking.key_padding)
              .subspan(static_cast<size_t>(b * s.masking.key_padding_batch_stride), static_cast<size_t>(s.shape.keys));
    }
    part.out = all + b * size;
    AppendBiasSteps(*plan, part, scratch, prepare);
  }
  return placed;
}

}  // namespace

absl::Status CheckBias(const EncodingSpec& bias, const std::string& path, const ScoreSettings& settings) {
  const std::optional<Kind> kind = KindOf(bias);
  if (!kind) {
    return MakeSpecError(path, std::string(SchemeOf(bias).name), "a scheme of family bias");
  }
  if (!HasNumbers(bias)) return MakeSpecError(path + ".weights", "no table", "table: scores need the numbers");
  if (kind->heads < settings.first_head + settings.shape.heads) {
    return MakeSpecError(path, absl::StrCat(kind->heads, " heads"),
                         absl::StrCat("at least ", settings.first_head + settings.shape.heads, ": first_head + heads of q"));
  }
  if (kind->batch > 0 && kind->batch != settings.shape.batch) {
    return MakeSpecError(path, absl::StrCat(kind->batch, " batch rows"), absl::StrCat(settings.shape.batch, ", as q has"));
  }
  if (const auto traits = TraitsOf(bias)) {
    if (auto status = CheckTraits(*traits, path, settings); !status.ok()) return status;
  }
  if (!kind->by_distance) return absl::OkStatus();
  const int64_t count = CountOf(DistancesOf(settings)), rows = std::max<int64_t>(1, kind->batch) * settings.shape.heads;
  if (rows == 0 || count <= settings.max_elements / rows) return absl::OkStatus();
  return MakeSpecError(path, absl::StrCat(count, " distances of ", rows, " heads"),
                       absl::StrCat("up to ", settings.max_elements, " numbers"));
}

PlacedBias PlaceBias(const EncodingSpec& bias, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
                     std::vector<ProgramStep>* prepare) {
  const Kind kind = *KindOf(bias);
  PlacedBias placed = kind.by_distance ? PlaceByDistance(bias, kind, plan, context, cutter, prepare)
                                       : PlaceWhole(bias, kind, plan, context, cutter, prepare);
  placed.sum.shape = context.settings->shape;
  return placed;
}

bool NeedsMatrixRows(const ScoreSettings& settings) {
  if (AreConsecutive(settings)) return false;
  return std::any_of(settings.biases.begin(), settings.biases.end(), [](const EncodingSpec& bias) {
    const auto kind = KindOf(bias);
    return kind && kind->by_distance;
  });
}

}  // namespace phasor
