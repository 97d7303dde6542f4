// Whole attention scores: a term, a bias or a rotation, with everything else that scores may have.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/program/scores.h"
#include "kernels/program/window_bias.h"
#include "tests/conformance/fuzz/random_masking.h"
#include "tests/conformance/fuzz/run.h"

namespace phasor {
namespace {

// What a spec asks of the shape of the scores; 0: anything.
struct Demands {
  int64_t heads = 0;  // at most
  int64_t dim = 0, queries = 0, keys = 0, batch = 0;
  int64_t positions = 0;  // below this and from 0 on
};

struct DemandsOf {
  Demands operator()(const RopeSpec& s) const { return {.dim = s.head_dim}; }
  Demands operator()(const ShawSpec& s) const { return {.dim = s.keys->shape[1]}; }
  Demands operator()(const DebertaSpec& s) const {
    const WeightRef& any = s.key_positions ? s.key_positions : s.query_positions;
    return {.heads = any->shape[0], .dim = any->shape[2]};
  }
  Demands operator()(const TransformerXlSpec& s) const { return {.heads = s.u->shape[0], .dim = s.u->shape[1]}; }
  Demands operator()(const XlnetSpec& s) const {
    Demands d{.heads = s.r_w_bias->shape[0], .dim = s.r_w_bias->shape[1]};
    if (s.segments) d.queries = s.segments->shape[0], d.keys = s.segments->shape[1];
    return d;
  }
  Demands operator()(const ConformerSpec& s) const {
    if (s.u) return {.heads = s.u->shape[0], .dim = s.u->shape[1]};
    return {.heads = s.num_heads, .dim = s.w_r->shape[0] / s.num_heads};
  }
  Demands operator()(const CopeSpec& s) const {
    const auto& shape = s.e->shape;
    return {.heads = shape.size() == 3 ? shape[0] : 0, .dim = shape[shape.size() - 2]};
  }
  Demands operator()(const DecomposedSpec& s) const {
    return {.dim = s.rel_pos_h->shape[1], .queries = s.query_height * s.query_width, .keys = s.key_height * s.key_width};
  }
  template <typename Bias>
  Demands operator()(const Bias& s) const {
    if (const auto traits = TraitsOf(s)) {
      Demands d{.heads = traits->heads, .queries = traits->tokens, .keys = traits->tokens, .batch = traits->batch};
      if (traits->query_rows > 0) d.positions = std::min(traits->query_rows, traits->key_rows);
      return d;
    }
    Demands d;
    if constexpr (requires { s.num_heads; }) d.heads = s.num_heads;
    if constexpr (requires { s.batch_slopes; }) {
      if (!s.batch_slopes.empty()) d.batch = static_cast<int64_t>(s.batch_slopes.size()) / s.num_heads;
    }
    return d;
  }
};

TokenPositions Positions(Rng& rng, int64_t batch, int64_t tokens, int64_t start, int64_t limit) {
  TokenPositions p;
  p.per_batch = rng.OneIn(4);
  const bool consecutive = rng.OneIn(2) && (limit == 0 || start + tokens <= limit);
  for (int64_t b = 0; b < (p.per_batch ? batch : 1); ++b) {
    for (int64_t i = 0; i < tokens; ++i) {
      int64_t id = consecutive ? start + i : start + rng.Int(-6, 20);
      if (limit > 0) id = std::clamp<int64_t>(id, 0, limit - 1);
      p.ids.push_back(id);
    }
  }
  return p;
}

HeadVectors Layout(Rng& rng, int64_t tokens, int64_t heads, int64_t dim) {
  const int64_t vector = dim + (rng.OneIn(2) ? 0 : rng.Int(0, 5));
  const bool heads_first = rng.OneIn(2);
  return {DType::kF32, nullptr, tokens * heads * vector, heads_first ? vector : heads * vector,
          heads_first ? tokens * vector : vector};
}

// A rotation, or a bias, to go with another spec.
void AddCompany(Rng& rng, ScoreSettings& s, FuzzRun& run, std::vector<const Resolved*>& plans_of_biases,
                const Resolved** plan_of_rotation) {
  const auto resolve = [&](const EncodingSpec& spec, EncodingSpec* canonical) -> const Resolved* {
    auto checked = Canonicalize(spec);
    if (!checked.ok()) return nullptr;
    auto resolved = Resolve(*checked, {}, Precision::kExact);
    if (!resolved.ok()) return nullptr;
    *canonical = checked->spec;
    return &run.Hold(*std::move(resolved));
  };
  if (!s.rotation && s.shape.dim % 2 == 0 && rng.OneIn(3)) {
    RopeSpec rope;
    rope.head_dim = s.shape.dim;
    rope.pairing = static_cast<Pairing>(rng.Int(1, 3));
    EncodingSpec canonical;
    if (const Resolved* plan = resolve(rope, &canonical)) s.rotation = canonical, *plan_of_rotation = plan;
  }
  if (rng.OneIn(3)) {
    AlibiSpec alibi;
    alibi.num_heads = s.first_head + s.shape.heads + rng.Int(0, 2);
    EncodingSpec canonical;
    if (const Resolved* plan = resolve(alibi, &canonical)) s.biases.push_back(canonical), plans_of_biases.push_back(plan);
  }
}

void SetShape(const Demands& d, Rng& rng, ScoreSettings& s) {
  ScoreShape& shape = s.shape;
  shape.batch = d.batch > 0 ? d.batch : rng.Int(1, 3);
  s.key_heads = rng.Int(1, d.heads > 0 ? std::min<int64_t>(3, d.heads) : 3);
  shape.heads =
      s.key_heads * rng.Int(1, d.heads > 0 ? std::max<int64_t>(1, std::min<int64_t>(3, d.heads / s.key_heads)) : 3);
  s.first_head = d.heads > 0 ? rng.Int(0, d.heads - shape.heads) : 0;
  shape.dim = d.dim > 0 ? d.dim : rng.LogInt(1, rng.OneIn(8) ? 514 : 80);
  shape.queries = d.queries > 0 ? d.queries : rng.OneIn(10) ? rng.Int(0, 1) : rng.Extent(rng.OneIn(8) ? 150 : 24);
  shape.keys = d.keys > 0 ? d.keys : rng.OneIn(10) ? rng.Int(0, 1) : rng.Extent(rng.OneIn(8) ? 700 : 40);
  // What the reference multiplies in about 20 ms.
  while (d.keys == 0 && shape.keys > 1 && shape.rows() * shape.keys * shape.dim > 1'000'000) shape.keys /= 2;
  s.tensor_dtype = rng.FloatType();
  s.dtype = rng.FloatType();
  const int64_t start = d.positions > 0 ? rng.Int(0, d.positions - 1) : rng.Int(0, 300);
  s.key_positions = Positions(rng, shape.batch, shape.keys, start, d.positions);
  s.query_positions =
      Positions(rng, shape.batch, shape.queries, std::max<int64_t>(0, start + shape.keys - shape.queries), d.positions);
}

}  // namespace

bool AddScoreRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run) {
  const std::string_view family = SchemeOf(subject.spec).family;
  const auto* rope = std::get_if<RopeSpec>(&subject.spec);
  if (family != "term" && family != "bias" && rope == nullptr) return false;
  if (family != "term" && !rng.OneIn(2)) return false;  // they have runs of their own
  ScoreSettings s;
  SetShape(std::visit(DemandsOf{}, subject.spec), rng, s);
  std::vector<const Resolved*> plans, plans_of_biases;
  const Resolved* plan_of_rotation = nullptr;
  if (rope != nullptr) s.rotation = subject.spec, plan_of_rotation = &subject.resolved;
  if (family == "term") s.terms.push_back(subject.spec);
  if (family == "bias") s.biases.push_back(subject.spec), plans_of_biases.push_back(&subject.resolved);
  AddCompany(rng, s, run, plans_of_biases, &plan_of_rotation);
  if (plan_of_rotation != nullptr) plans.push_back(plan_of_rotation);
  if (family == "term") plans.push_back(&subject.resolved);
  plans.insert(plans.end(), plans_of_biases.begin(), plans_of_biases.end());

  if (rng.OneIn(4)) s.query_scale = PositionScale{.rule = PositionScale::Rule::kLogN, .training_length = 100};
  s.omit_content = rng.OneIn(5);
  if (rng.OneIn(2)) s.scale = rng.LogReal(0.01, 10);
  s.scale_order = rng.OneIn(3) ? ScaleOrder::kBiasThenScale : ScaleOrder::kScaleThenBias;
  s.softmax = rng.OneIn(2);
  ScoreMemory memory;
  const MaskedShape masked{s.shape.batch, s.shape.heads, s.shape.queries, s.shape.keys};
  if (rng.OneIn(2)) s.masking = RandomMasking(rng, masked, run, &memory.additive);

  auto program = ScoreProgram::Make(s);
  if (!program.ok()) return false;
  const ScoreProgram& kept = run.Hold(*std::move(program));
  memory.q_layout = Layout(rng, s.shape.queries, s.shape.heads, s.shape.dim);
  memory.k_layout = Layout(rng, s.shape.keys, s.key_heads, s.shape.dim);
  const bool wild = rng.OneIn(8);
  memory.q = run.Floats(rng, s.shape.batch * memory.q_layout.batch_stride, s.tensor_dtype, 3, wild);
  memory.k = run.Floats(rng, s.shape.batch * memory.k_layout.batch_stride, s.tensor_dtype, 3, wild);
  memory.scratch = run.Scratch(kept.scratch_bytes());
  memory.scores = run.Data(rng, s.shape.rows() * s.shape.keys, SizeOf(s.dtype));
  if (kept.has_values()) memory.values = run.Data(rng, s.shape.rows() * s.shape.dim, SizeOf(s.dtype));
  const ScoreMemory& lasting = run.Hold(memory);
  const auto& lasting_plans = run.Hold(plans);
  run.steps = kept.Steps(lasting_plans, lasting);
  run.what = absl::StrCat("scores ", s.shape.batch, " × ", s.shape.heads, " × ", s.shape.queries, " × ", s.shape.keys,
                          " of ", s.shape.dim, " channels, ", std::string(Name(s.tensor_dtype)), " to ",
                          std::string(Name(s.dtype)), s.softmax ? ", softmax" : "", wild ? ", with NaN" : "");
  return true;
}

}  // namespace phasor
