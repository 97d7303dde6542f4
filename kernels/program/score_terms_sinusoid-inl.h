// Terms over projected sinusoids of the distance: Transformer-XL, XLNet, Conformer. Part of score_terms.cc alone.
#ifndef PHASOR_KERNELS_PROGRAM_SCORE_TERMS_SINUSOID_INL_H_
#define PHASOR_KERNELS_PROGRAM_SCORE_TERMS_SINUSOID_INL_H_

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/program/score_terms.h"
#include "kernels/program/score_terms_common-inl.h"

namespace phasor {
namespace {

// ---- Transformer-XL, XLNet, Conformer.

struct SinusoidTerm {
  const char* name;
  const WeightRef& table;       // r
  const WeightRef& projection;  // w_r
  const WeightRef& content;
  const WeightRef& position;
  const char* content_name;
  const char* position_name;
  int64_t columns;
  std::optional<int64_t> clamp;
  bool one_sided;           // only distances ≥ 0
  bool interleaved;         // columns of the sinusoids
  int64_t origin;           // row of distance 0 in a given table, where rows fall
  int64_t heads = 0;        // where only w_r is given
  bool skip_first = false;  // nothing for the first query and the first key
};

SinusoidTerm TermOf(const TransformerXlSpec& s, const ScoreSettings&) {
  return {"transformer_xl", s.r, s.w_r, s.u, s.v, "u", "v", s.dim, s.clamp_length, true, false, s.r ? s.r->shape[1] - 1 : 0};
}
SinusoidTerm TermOf(const XlnetSpec& s, const ScoreSettings& settings) {
  return {"xlnet",    s.r,           s.w_r,          s.r_w_bias,       s.r_r_bias, "r_w_bias",
          "r_r_bias", s.dim,         s.clamp_length, s.unidirectional, false,      settings.shape.keys,
          0,          s.separate_cls};
}
SinusoidTerm TermOf(const ConformerSpec& s, const ScoreSettings&) {
  const int64_t origin = s.r ? s.r->shape[1] / 2 : 0;
  return {"conformer", s.r, s.w_r, s.u, s.v, "u", "v", s.dim, {}, false, !s.concatenated, origin, s.num_heads};
}

// Distances that need a row.
DistanceRange Needed(const SinusoidTerm& term, const ScoreSettings& settings) {
  DistanceRange range = DistancesOf(settings);
  if (range.empty()) return range;
  if (term.one_sided) range.smallest = std::max<int64_t>(range.smallest, 0);
  if (term.clamp && !range.empty()) {
    range.smallest = std::clamp(range.smallest, -*term.clamp, *term.clamp);
    range.largest = std::clamp(range.largest, -*term.clamp, *term.clamp);
  }
  return range;
}

DistanceRows RowsOf(const SinusoidTerm& term, const DistanceRange& needed) {
  DistanceRows rows;
  rows.first = needed.smallest;
  rows.last = needed.largest;
  rows.clamp_above = term.clamp.has_value() && needed.largest == *term.clamp;
  rows.clamp_below = term.clamp.has_value() && !term.one_sided && needed.smallest == -*term.clamp;
  if (term.table) {
    rows.origin = term.origin;
    rows.slope = -1;
  } else {
    rows.origin = -needed.smallest;
    rows.slope = 1;
  }
  return rows;
}

absl::Status CheckSinusoid(const SinusoidTerm& term, const std::string& path, const ScoreSettings& s) {
  int64_t heads = 0, dim = 0;
  if (term.table) {
    heads = term.table->shape[0], dim = term.table->shape[2];
  } else if (const WeightRef& bias = term.content ? term.content : term.position) {
    heads = bias->shape[0], dim = bias->shape[1];
  } else {
    heads = term.heads, dim = term.projection->shape[0] / heads;
  }
  const char* name = term.table ? "r" : term.content ? term.content_name : term.position ? term.position_name : "w_r";
  if (auto status = CheckHeads(name, heads, path, s); !status.ok()) return status;
  if (auto status = CheckDim(dim, name, path, s); !status.ok()) return status;
  const DistanceRange needed = Needed(term, s);
  if (needed.empty()) return absl::OkStatus();
  if (term.table) {
    const int64_t rows = term.table->shape[1];
    const int64_t largest = term.origin, smallest = term.origin - rows + 1;
    if (needed.largest <= largest && needed.smallest >= smallest) return absl::OkStatus();
    return MakeSpecError(path + ".weights.r.tensor.shape[1]",
                         absl::StrCat(rows, " rows, for distances ", largest, " … ", smallest),
                         absl::StrCat("rows for distances ", needed.largest, " … ", needed.smallest));
  }
  const int64_t rows = CountOf(needed);
  return CheckTable(rows * std::max(2 * term.columns, s.shape.heads * s.shape.dim), path + "." + term.name, s);
}

// R [heads, rows, dim] = projected sinusoids of distances needed.smallest …
const double* PlaceProjection(const SinusoidTerm& term, const DistanceRange& needed, const SinusoidTermPlan* plan,
                              const TermContext& context, ScratchCutter& cutter, std::vector<ProgramStep>* prepare) {
  const ScoreSettings& s = *context.settings;
  const int64_t rows = CountOf(needed);
  const int64_t pairs = term.columns / 2;
  double* cos = cutter.Doubles(rows * pairs);
  double* sin = cutter.Doubles(rows * pairs);
  double* sinusoids = cutter.Doubles(rows * term.columns);
  double* table = cutter.Doubles(s.shape.heads * rows * s.shape.dim);
  if (table == nullptr) return nullptr;
  AngleTask angles;
  angles.plan = plan->sinusoids.get();
  angles.positions.start = needed.smallest;
  angles.dtype = DType::kF64;
  angles.cos = cos;
  angles.sin = sin;
  angles.row_stride = pairs;
  prepare->push_back(ProgramStep::Of(angles, rows));
  AssembleTask assemble;
  assemble.form = term.interleaved ? TableForm::kSinCosInterleaved : TableForm::kSinCosConcatenated;
  assemble.element_size = 8;
  assemble.pairs = pairs;
  assemble.columns = term.columns;
  assemble.cos = cos;
  assemble.sin = sin;
  assemble.table_stride = pairs;
  assemble.out = sinusoids;
  prepare->push_back(ProgramStep::Of(assemble, rows));
  ScoreProductTask product;
  product.shape = {1, s.shape.heads, rows, s.shape.dim, term.columns};
  product.q.q = {DType::kF64, sinusoids, 0, term.columns, 0};
  const int64_t head = s.shape.dim * term.columns;
  const Weight& w = *term.projection;
  product.k.k = {w.dtype, w.data.get() + s.first_head * head * SizeOf(w.dtype), 0, term.columns, head};
  product.scores = table;
  prepare->push_back(ProgramStep::Of(product, product.shape.rows()));
  return table;
}

// u·k of every key, added to all queries.
void PlaceContentBias(const SinusoidTerm& term, const TermContext& context, ScratchCutter& cutter,
                      std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  if (!term.content) return;
  const ScoreShape& shape = context.settings->shape;
  double* products = cutter.Doubles(shape.batch * shape.heads * shape.keys);
  if (products == nullptr) return;
  const Weight& u = *term.content;
  ScoreProductTask product;
  product.shape = shape;
  product.shape.queries = 1;
  product.q.q = {u.dtype, u.data.get() + context.settings->first_head * shape.dim * SizeOf(u.dtype), 0, 0, shape.dim};
  product.k = context.k;
  product.scores = products;
  prepare->push_back(ProgramStep::Of(product, product.shape.rows()));
  add->push_back(ScoreSumTask{.shape = shape,
                              .scale = 1,
                              .addend = products,
                              .batch_stride = shape.heads * shape.keys,
                              .head_stride = shape.keys,
                              .query_stride = 0,
                              .key_stride = 1,
                              .scores = context.scores});
}

void PlaceSinusoid(const SinusoidTerm& term, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
                   std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  const ScoreSettings& s = *context.settings;
  PlaceContentBias(term, context, cutter, prepare, add);
  const double* bias = WidenHeads(term.position, s.shape.dim, context, cutter, prepare);
  const DistanceRange needed = Needed(term, s);
  const SinusoidTermPlan* own = plan == nullptr ? nullptr : &std::get<SinusoidTermPlan>(*plan);
  const int64_t rows = term.table ? term.table->shape[1] : CountOf(needed);
  const double* table = term.table ? WidenHeads(term.table, rows * s.shape.dim, context, cutter, prepare)
                                   : PlaceProjection(term, needed, own, context, cutter, prepare);
  if (plan == nullptr) return;
  add->push_back(RelativeProductTask{.shape = s.shape,
                                     .of_keys = false,
                                     .q = WithBias(context.q, bias),
                                     .k = context.k,
                                     .positions = context.positions,
                                     .rows = RowsOf(term, needed),
                                     .table = table,
                                     .table_head_stride = rows * s.shape.dim,
                                     .skip_first = term.skip_first,
                                     .scores = context.scores});
}

absl::Status Check(const TransformerXlSpec& s, const std::string& path, const ScoreSettings& settings) {
  return CheckSinusoid(TermOf(s, settings), path, settings);
}
absl::Status Check(const ConformerSpec& s, const std::string& path, const ScoreSettings& settings) {
  return CheckSinusoid(TermOf(s, settings), path, settings);
}
absl::Status Check(const XlnetSpec& s, const std::string& path, const ScoreSettings& settings) {
  if (auto status = CheckSinusoid(TermOf(s, settings), path, settings); !status.ok() || !s.segments) return status;
  const auto& shape = s.segments->shape;
  if (shape[0] == settings.shape.queries && shape[1] == settings.shape.keys) return absl::OkStatus();
  return MakeSpecError(path + ".weights.segments.tensor.shape", absl::StrCat("[", shape[0], ", ", shape[1], "]"),
                       absl::StrCat("[", settings.shape.queries, ", ", settings.shape.keys, "]: queries and keys"));
}

void Place(const TransformerXlSpec& s, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
           std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  PlaceSinusoid(TermOf(s, *context.settings), plan, context, cutter, prepare, add);
}
void Place(const ConformerSpec& s, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
           std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  PlaceSinusoid(TermOf(s, *context.settings), plan, context, cutter, prepare, add);
}
void Place(const XlnetSpec& s, const Plan* plan, const TermContext& context, ScratchCutter& cutter,
           std::vector<ProgramStep>* prepare, std::vector<Task>* add) {
  PlaceSinusoid(TermOf(s, *context.settings), plan, context, cutter, prepare, add);
  if (!s.segments) return;
  const ScoreShape& shape = context.settings->shape;
  const int64_t first_head = context.settings->first_head;
  const double* bias = WidenHeads(s.r_s_bias, shape.dim, context, cutter, prepare);
  double* table = cutter.Doubles(shape.heads * 2 * shape.dim);
  auto* index = reinterpret_cast<int32_t*>(cutter.Bytes(shape.queries * shape.keys * 4));
  if (plan == nullptr) return;
  const int64_t all_heads = s.seg_embed->shape[1];
  prepare->push_back(ProgramStep::Of(
      [embed = s.seg_embed, table, shape, first_head, all_heads](RowRange rows, const CancelFlag*) {
        for (int64_t row = rows.begin; row < rows.end; ++row) {  // [heads, 2]
          const int64_t head = row / 2 + first_head, segment = row % 2;
          for (int64_t d = 0; d < shape.dim; ++d) {
            table[row * shape.dim + d] = embed->at((segment * all_heads + head) * shape.dim + d);
          }
        }
        return absl::OkStatus();
      },
      2 * shape.heads, 256));
  prepare->push_back(ProgramStep::Of(
      [segments = s.segments, index](RowRange rows, const CancelFlag*) {
        for (int64_t i = rows.begin; i < rows.end; ++i) index[i] = segments->at(i) == 0 ? 0 : 1;
        return absl::OkStatus();
      },
      shape.queries * shape.keys, 1 << 16));
  add->push_back(GridProductTask{.shape = shape,
                                 .q = WithBias(context.q, bias),
                                 .table = table,
                                 .table_rows = 2,
                                 .table_head_stride = 2 * shape.dim,
                                 .index = index,
                                 .query_divisor = 1,
                                 .query_extent = std::max<int64_t>(1, shape.queries),
                                 .key_divisor = 1,
                                 .key_extent = std::max<int64_t>(1, shape.keys),
                                 .skip_first = s.separate_cls,
                                 .scores = context.scores});
}

}  // namespace
}  // namespace phasor

#endif  // PHASOR_KERNELS_PROGRAM_SCORE_TERMS_SINUSOID_INL_H_
