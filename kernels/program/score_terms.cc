#include "kernels/program/score_terms.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/program/score_terms_common-inl.h"
#include "kernels/program/score_terms_sinusoid-inl.h"

namespace phasor {
namespace {

// ---- Shaw.

DistanceRows RowsOf(const ShawSpec& s) {
  DistanceRows rows;
  rows.first = -s.clip;
  rows.last = s.clip;
  rows.clamp_below = rows.clamp_above = true;
  rows.origin = s.clip;
  rows.slope = s.key_minus_query ? -1 : 1;
  return rows;
}

absl::Status Check(const ShawSpec& s, const std::string& path, const ScoreSettings& settings) {
  if (!s.keys) return Missing(path, "keys");
  if (auto status = CheckDim(s.keys->shape[1], "keys", path, settings); !status.ok()) return status;
  return s.values ? CheckDim(s.values->shape[1], "values", path, settings) : absl::OkStatus();
}

void Place(const ShawSpec& s, const Plan*, const TermContext& context, ScratchCutter& cutter,
           std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  double* table = cutter.Doubles(s.keys->elements());
  if (table == nullptr) return;
  prepare->push_back(WidenStep(s.keys, 0, s.keys->elements(), table));
  RelativeProductTask task{.shape = context.settings->shape,
                           .of_keys = false,
                           .q = context.q,
                           .k = context.k,
                           .positions = context.positions,
                           .rows = RowsOf(s),
                           .table = table,
                           .table_head_stride = 0,
                           .scores = context.scores};
  add->push_back(task);
  task.of_keys = true;
  if (s.query_term_too) add->push_back(task);
}

// ---- DeBERTa.

absl::Status Check(const DebertaSpec& s, const std::string& path, const ScoreSettings& settings) {
  if (auto status = CheckTable(CountOf(DistancesOf(settings)), path + ".deberta", settings); !status.ok()) return status;
  const auto check = [&](bool wanted, const WeightRef& weight, const char* name) {
    if (!wanted) return absl::OkStatus();
    if (!weight) return Missing(path, name);
    if (auto status = CheckHeads(name, weight->shape[0], path, settings); !status.ok()) return status;
    return CheckDim(weight->shape[2], name, path, settings);
  };
  if (auto status = check(*s.c2p, s.key_positions, "key_positions"); !status.ok()) return status;
  return check(*s.p2c, s.query_positions, "query_positions");
}

// Rows of every distance that there is.
DistanceRows PlaceBuckets(const LogBuckets* buckets, const DistanceRange& distances, ScratchCutter& cutter,
                          std::vector<ProgramStep>* prepare) {
  const int64_t count = CountOf(distances);
  DistanceRows rows;
  rows.first = distances.smallest;
  rows.last = distances.largest;
  auto* map = reinterpret_cast<int32_t*>(cutter.Bytes(count * 4));
  if (map == nullptr || buckets == nullptr) return rows;
  rows.map = std::span<const int32_t>(map, static_cast<size_t>(count));
  prepare->push_back(ProgramStep::Of(
      [map, buckets, first = rows.first](RowRange range, const CancelFlag*) {
        for (int64_t i = range.begin; i < range.end; ++i) map[i] = static_cast<int32_t>(buckets->at(-(first + i)));
        return absl::OkStatus();
      },
      count, 1 << 14));
  return rows;
}

void Place(const DebertaSpec& s, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
           std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  const DistanceRange distances = DistancesOf(*context.settings);
  const LogBuckets* buckets = plan == nullptr ? nullptr : &std::get<DebertaPlan>(*plan).buckets;
  const DistanceRows rows = PlaceBuckets(buckets, distances, cutter, prepare);
  for (const bool of_keys : {false, true}) {
    const WeightRef& weight = of_keys ? s.query_positions : s.key_positions;
    if (!weight) continue;
    const int64_t size = weight->shape[1] * weight->shape[2];
    const double* table = WidenHeads(weight, size, context, cutter, prepare);
    if (table == nullptr) continue;
    add->push_back(RelativeProductTask{.shape = context.settings->shape,
                                       .of_keys = of_keys,
                                       .q = context.q,
                                       .k = context.k,
                                       .positions = context.positions,
                                       .rows = rows,
                                       .table = table,
                                       .table_head_stride = size,
                                       .scores = context.scores});
  }
}

// ---- CoPE.

absl::Status Check(const CopeSpec& s, const std::string& path, const ScoreSettings& settings) {
  const bool by_head = s.e->shape.size() == 3;
  if (by_head) {
    if (auto status = CheckHeads("e", s.e->shape[0], path, settings); !status.ok()) return status;
  }
  return CheckDim(s.e->shape[by_head ? 1 : 0], "e", path, settings);
}

void Place(const CopeSpec& s, const Plan*, const TermContext& context, ScratchCutter& cutter,
           std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  const ScoreSettings& settings = *context.settings;
  const bool by_head = s.e->shape.size() == 3;
  const int64_t heads = by_head ? settings.shape.heads : 1, dim = settings.shape.dim, count = s.max_positions;
  double* table = cutter.Doubles(heads * count * dim);
  if (table == nullptr) return;
  const int64_t first = by_head ? settings.first_head : 0;
  prepare->push_back(ProgramStep::Of(
      [e = s.e, table, dim, count, first](RowRange rows, const CancelFlag*) {
        for (int64_t row = rows.begin; row < rows.end; ++row) {  // [heads, positions]
          const int64_t head = first + row / count, position = row % count;
          for (int64_t d = 0; d < dim; ++d) table[row * dim + d] = e->at((head * dim + d) * count + position);
        }
        return absl::OkStatus();
      },
      heads * count, 256));
  ContextualPositionTask task{.shape = settings.shape,
                              .q = context.q,
                              .positions = context.positions,
                              .table = table,
                              .table_rows = count,
                              .table_head_stride = by_head ? count * dim : 0,
                              .keep_content = !settings.omit_content,
                              .scores = context.scores};
  if (const Masking& masking = settings.masking; !masking.key_padding.empty()) {
    task.key_padding = masking.key_padding.data();
    task.key_padding_batch_stride = masking.key_padding_batch_stride;
  }
  add->push_back(task);
}

// ---- Decomposed.

absl::Status Check(const DecomposedSpec& s, const std::string& path, const ScoreSettings& settings) {
  if (s.query_height * s.query_width != settings.shape.queries) {
    return MakeSpecError(path + ".decomposed.query_height", absl::StrCat(s.query_height, " × ", s.query_width),
                         absl::StrCat("a grid of ", settings.shape.queries, ", the queries"));
  }
  if (s.key_height * s.key_width != settings.shape.keys) {
    return MakeSpecError(path + ".decomposed.key_height", absl::StrCat(s.key_height, " × ", s.key_width),
                         absl::StrCat("a grid of ", settings.shape.keys, ", the keys"));
  }
  const int64_t rows = 2 * std::max({s.query_height, s.query_width, s.key_height, s.key_width});
  if (auto status = CheckTable(rows * settings.shape.dim, path + ".decomposed", settings); !status.ok()) return status;
  return CheckDim(s.rel_pos_h->shape[1], "rel_pos_h", path, settings);
}

void PlaceAxis(const WeightRef& weight, int64_t queries, int64_t keys, bool rows_of_grid, int64_t query_width,
               int64_t key_width, const TermContext& context, ScratchCutter& cutter, std::vector<ProgramStep>* prepare,
               std::vector<Task>* add) {
  const int64_t count = 2 * std::max(queries, keys) - 1, dim = context.settings->shape.dim;
  double* table = cutter.Doubles(count * dim);
  auto* index = reinterpret_cast<int32_t*>(cutter.Bytes(queries * keys * 4));
  if (table == nullptr) return;
  prepare->push_back(ProgramStep::Of(
      [weight, count, table](RowRange, const CancelFlag*) {
        ResizeRows(*weight, count, table);
        return absl::OkStatus();
      },
      1, 1));
  prepare->push_back(ProgramStep::Of(
      [index, queries, keys](RowRange rows, const CancelFlag*) {
        for (int64_t i = rows.begin; i < rows.end; ++i) {
          for (int64_t j = 0; j < keys; ++j) index[i * keys + j] = static_cast<int32_t>(DecomposedRow(i, j, queries, keys));
        }
        return absl::OkStatus();
      },
      queries, 64));
  add->push_back(GridProductTask{.shape = context.settings->shape,
                                 .q = context.q,
                                 .table = table,
                                 .table_rows = count,
                                 .table_head_stride = 0,
                                 .index = index,
                                 .query_divisor = rows_of_grid ? query_width : 1,
                                 .query_extent = queries,
                                 .key_divisor = rows_of_grid ? key_width : 1,
                                 .key_extent = keys,
                                 .scores = context.scores});
}

void Place(const DecomposedSpec& s, const Plan*, const TermContext& context, ScratchCutter& cutter,
           std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  PlaceAxis(s.rel_pos_h, s.query_height, s.key_height, true, s.query_width, s.key_width, context, cutter, prepare, add);
  PlaceAxis(s.rel_pos_w, s.query_width, s.key_width, false, s.query_width, s.key_width, context, cutter, prepare, add);
}

template <typename T>
concept IsTerm = requires(const T& spec, const std::string& path, const ScoreSettings& s) { Check(spec, path, s); };

}  // namespace

DistanceRange DistancesOf(const ScoreSettings& settings) {
  DistanceRange range;
  const auto& q = settings.query_positions;
  const auto& k = settings.key_positions;
  const int64_t queries = settings.shape.queries, keys = settings.shape.keys;
  if (queries == 0 || keys == 0) return range;
  for (int64_t b = 0; b < settings.shape.batch; ++b) {
    const auto q_row = q.ids.begin() + (q.per_batch ? b * queries : 0);
    const auto k_row = k.ids.begin() + (k.per_batch ? b * keys : 0);
    const auto [q_low, q_high] = std::minmax_element(q_row, q_row + queries);
    const auto [k_low, k_high] = std::minmax_element(k_row, k_row + keys);
    range.smallest = b == 0 ? *q_low - *k_high : std::min(range.smallest, *q_low - *k_high);
    range.largest = b == 0 ? *q_high - *k_low : std::max(range.largest, *q_high - *k_low);
    if (!q.per_batch && !k.per_batch) break;
  }
  return range;
}

absl::Status CheckTerm(const EncodingSpec& term, const std::string& path, const ScoreSettings& settings) {
  return std::visit(
      [&](const auto& spec) -> absl::Status {
        if constexpr (IsTerm<std::decay_t<decltype(spec)>>) {
          return Check(spec, path, settings);
        } else {
          return MakeSpecError(path, std::string(SchemeOf(term).name),
                               "shaw, deberta, transformer_xl, xlnet, conformer, cope, decomposed");
        }
      },
      term);
}

void PlaceTerm(const EncodingSpec& term, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
               std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  std::visit(
      [&](const auto& spec) {
        if constexpr (IsTerm<std::decay_t<decltype(spec)>>) Place(spec, plan, context, cutter, prepare, add);
      },
      term);
}

bool HasValues(const EncodingSpec& term) {
  const auto* shaw = std::get_if<ShawSpec>(&term);
  return shaw != nullptr && shaw->values;
}

void PlaceValues(const EncodingSpec& term, const TermContext& context, ScratchCutter& cutter,
                 std::vector<ProgramStep>* prepare, RelativeValueTask* value) {
  const ShawSpec& s = std::get<ShawSpec>(term);
  double* table = cutter.Doubles(s.values->elements());
  if (table == nullptr) return;
  prepare->push_back(WidenStep(s.values, 0, s.values->elements(), table));
  value->shape = context.settings->shape;
  value->positions = context.positions;
  value->rows = RowsOf(s);
  value->table = table;
}

bool IsUnscaled(const EncodingSpec& term) { return std::holds_alternative<DecomposedSpec>(term); }

void ResizeRows(const Weight& table, int64_t to, double* out) {
  const int64_t from = table.shape[0], dim = table.shape[1];
  for (int64_t i = 0; i < to; ++i) {
    const double place =
        std::max(0.0, (static_cast<double>(i) + 0.5) * (static_cast<double>(from) / static_cast<double>(to)) - 0.5);
    const int64_t low = from == to ? i : std::min(from - 1, static_cast<int64_t>(place));
    const int64_t high = std::min(from - 1, low + 1);
    const double w = from == to ? 0 : place - static_cast<double>(low);
    for (int64_t d = 0; d < dim; ++d) {
      const double a = table.at(low * dim + d);
      out[i * dim + d] = w == 0 ? a : (1 - w) * a + w * table.at(high * dim + d);
    }
  }
}

int64_t DecomposedRow(int64_t i, int64_t j, int64_t queries, int64_t keys) {
  const double q = static_cast<double>(queries), k = static_cast<double>(keys);
  const double by_query = std::max(k / q, 1.0), by_key = std::max(q / k, 1.0);
  const double row = static_cast<double>(i) * by_query - static_cast<double>(j) * by_key + (k - 1) * by_key;
  return std::clamp<int64_t>(static_cast<int64_t>(row), 0, 2 * std::max(queries, keys) - 2);
}

}  // namespace phasor
