#include "kernels/program/scores.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/core/checked_math.h"
#include "kernels/program/polar.h"
#include "kernels/program/score_biases.h"
#include "kernels/program/score_rotation.h"
#include "kernels/program/score_terms.h"
#include "kernels/program/scratch.h"

namespace phasor {
namespace {

// Scores that are worked on together: rows of them, so that they stay in a cache near by from task to task.
constexpr int64_t kElementsAtOnce = int64_t{1} << 21;

int64_t RowsAtOnce(const ScoreShape& shape) {
  return std::clamp<int64_t>(kElementsAtOnce / std::max<int64_t>(1, shape.keys), 1, std::max<int64_t>(1, shape.rows()));
}

// The address that row 0 would have if row `first` is at `at`: tasks count rows of the whole.
double* RowZero(double* at, int64_t first, int64_t keys) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(at) - static_cast<uintptr_t>(first * keys) * sizeof(double);
  return reinterpret_cast<double*>(address);
}

// ---- Checks.

absl::Status CheckTerms(const ScoreSettings& s) {
  int contextual = 0, values = 0;
  for (size_t i = 0; i < s.terms.size(); ++i) {
    const std::string path = absl::StrCat("terms[", i, "]");
    if (auto status = CheckTerm(s.terms[i], path, s); !status.ok()) return status;
    contextual += std::holds_alternative<CopeSpec>(s.terms[i]) ? 1 : 0;
    values += HasValues(s.terms[i]) && s.softmax ? 1 : 0;
    if (contextual > 1) return MakeSpecError(path, "a second cope", "one: its positions come from q·k alone");
    if (values > 1) return MakeSpecError(path, "a second term with values", "one");
  }
  return absl::OkStatus();
}

absl::Status CheckBiases(const ScoreSettings& s) {
  for (size_t i = 0; i < s.biases.size(); ++i) {
    if (auto status = CheckBias(s.biases[i], absl::StrCat("biases[", i, "]"), s); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status CheckShape(const ScoreSettings& s) {
  if (s.key_heads < 1 ? s.shape.heads > 0 : s.shape.heads % s.key_heads != 0) {
    return MakeSpecError("k.shape", absl::StrCat(s.key_heads, " heads"),
                         absl::StrCat("a number that divides the ", s.shape.heads, " heads of q"));
  }
  const auto rows = CheckedMul(s.shape.batch * s.shape.heads, s.shape.queries);
  const auto elements = rows ? CheckedMul(*rows, s.shape.keys) : std::nullopt;
  if (!elements || *elements > s.max_elements) {
    return MakeSpecError("q.shape", elements ? absl::StrCat(*elements, " scores") : "more scores than can be counted",
                         absl::StrCat("up to ", s.max_elements));
  }
  if (s.scale && !(*s.scale > 0 && std::isfinite(*s.scale))) {
    return MakeSpecError("scale", absl::StrCat(*s.scale), "finite, > 0");
  }
  return absl::OkStatus();
}

// ---- All of it.

// Everything in scratch memory; over a null start only its size counts.
class Layout {
 public:
  Layout(const ScoreSettings& settings, std::span<const Resolved* const> plans, const ScoreMemory& memory)
      : s_(settings), plans_(plans), memory_(memory), cutter_(memory.scratch) {
    const int64_t wave = RowsAtOnce(s_.shape) * s_.shape.keys;
    scores_ = cutter_.Doubles(wave);
    matrix_ = cutter_.Doubles(NeedsMatrixRows(s_) ? wave : 0);
    rule_ = cutter_.Bytes(sizeof(MaskRule));
    pack_rule_ = cutter_.Bytes(IsPacked() ? sizeof(MaskRule) : 0);
    context_.settings = &s_;
    context_.scores = scores_;
    context_.q.q = memory.q_layout;
    context_.q.q.data = memory.q;
    context_.k.k = memory.k_layout;
    context_.k.k.data = memory.k;
    context_.q.q.dtype = context_.k.k.dtype = s_.tensor_dtype;
    context_.k.group = s_.key_heads == 0 ? 1 : s_.shape.heads / s_.key_heads;
    if (s_.query_scale) PlaceQueryScale();
    context_.positions = {s_.query_positions.ids.data(), s_.key_positions.ids.data(),
                          s_.query_positions.per_batch ? s_.shape.queries : 0,
                          s_.key_positions.per_batch ? s_.shape.keys : 0};
    Place();
  }

  int64_t bytes() const { return cutter_.used(); }

  std::vector<ProgramStep> Steps(double scale) && {
    std::vector<ProgramStep> steps = std::move(prepare_);
    const int64_t rows = s_.shape.rows(), at_once = RowsAtOnce(s_.shape);
    for (int64_t first = 0; first < rows; first += at_once)
      AppendWave({first, std::min(rows, first + at_once)}, scale, &steps);
    return steps;
  }

 private:
  void PlaceQueryScale() {
    const int64_t count = s_.query_positions.count();
    double* factors = cutter_.Doubles(count);
    if (factors == nullptr) return;
    prepare_.push_back(FactorStep(*s_.query_scale, s_.query_positions.Source().axes[0], count, factors));
    context_.q.factor = factors;
    context_.q.factor_batch_stride = s_.query_positions.per_batch ? s_.shape.queries : 0;
  }

  const Plan* PlanAt(size_t i) const { return i < plans_.size() ? &plans_[i]->plan : nullptr; }

  void Place() {
    size_t next = 0;
    if (s_.rotation) {
      const Resolved* plan = next < plans_.size() ? plans_[next] : nullptr;
      ++next;
      PlaceRotation(s_, plan, &context_.q.q, &context_.k.k, cutter_, &prepare_);
    }
    for (const EncodingSpec& term : s_.terms) {
      std::vector<Task>* add = std::holds_alternative<CopeSpec>(term) ? &contextual_
                               : IsUnscaled(term)                     ? &unscaled_
                                                                      : &terms_;
      PlaceTerm(term, PlanAt(next++), context_, cutter_, &prepare_, add);
      if (HasValues(term) && s_.softmax) {
        value_.emplace();
        PlaceValues(term, context_, cutter_, &prepare_, &*value_);
      }
    }
    const bool any = s_.shape.rows() > 0 && s_.shape.keys > 0;
    for (size_t i = 0; any && i < s_.biases.size(); ++i) {
      biases_.push_back(PlaceBias(s_.biases[i], PlanAt(next++), context_, cutter_, &prepare_));
    }
  }

  // `task` over rows that lie in scratch.
  template <typename T>
  void Append(T task, RowRange rows, std::vector<ProgramStep>* steps) const {
    task.scores = RowZero(scores_, rows.begin, s_.shape.keys);
    steps->push_back(ProgramStep::Of(std::move(task), rows));
  }
  void AppendAll(const std::vector<Task>& tasks, RowRange rows, std::vector<ProgramStep>* steps) const {
    for (const Task& task : tasks) {
      std::visit(
          [&](const auto& t) {
            if constexpr (requires {
                            t.shape;
                            t.scores;
                          }) {
              using T = std::decay_t<decltype(t)>;
              if constexpr (!std::is_same_v<T, ScoreOutputTask> && !std::is_same_v<T, RelativeValueTask>) {
                Append(t, rows, steps);
              }
            }
          },
          task);
    }
  }

  void AppendContent(RowRange rows, std::vector<ProgramStep>* steps) const {
    if (!s_.omit_content || !contextual_.empty()) {
      ScoreProductTask product;
      product.shape = s_.shape;
      product.shape.dim = RotatedDim(s_);
      product.q = context_.q;
      product.k = context_.k;
      Append(product, rows, steps);
    } else {
      double* scores = scores_;
      const int64_t keys = s_.shape.keys;
      steps->push_back(ProgramStep::Of(
          [scores, keys](RowRange part, const CancelFlag*) {
            std::fill(scores + part.begin * keys, scores + part.end * keys, 0.0);
            return absl::OkStatus();
          },
          rows.end - rows.begin, std::max<int64_t>(1, (1 << 19) / std::max<int64_t>(1, keys))));
    }
    if (!contextual_.empty() && IsPacked()) AppendPack(rows, steps);
    AppendAll(contextual_, rows, steps);
    AppendAll(terms_, rows, steps);
  }

  bool IsPacked() const { return !s_.masking.query_cu_seqlens.empty(); }

  // Keys of other sequences stand nowhere for a contextual position: σ(−∞) = 0.
  void AppendPack(RowRange rows, std::vector<ProgramStep>* steps) const {
    MaskRule* rule = new (pack_rule_) MaskRule;
    rule->query_cu_seqlens = s_.masking.query_cu_seqlens;
    rule->key_cu_seqlens = s_.masking.key_cu_seqlens;
    steps->push_back(ProgramStep::Of(MaskOf(rule, rows), rows));
  }

  void AppendBiases(RowRange rows, std::vector<ProgramStep>* steps) const {
    for (const PlacedBias& bias : biases_) {
      ScoreSumTask sum = bias.sum;
      if (bias.matrix) {
        BiasMatrixTask matrix = *bias.matrix;
        double* at = RowZero(matrix_, rows.begin, s_.shape.keys);
        matrix.out = at;
        steps->push_back(ProgramStep::Of(matrix, rows));
        sum.addend = at;
      }
      Append(sum, rows, steps);
    }
  }

  void AppendScale(RowRange rows, double scale, std::vector<ProgramStep>* steps) const {
    if (scale == 1) return;
    ScoreSumTask task;
    task.shape = s_.shape;
    task.scale = scale;
    Append(task, rows, steps);
  }

  void AppendOutput(RowRange rows, std::vector<ProgramStep>* steps) const {
    ScoreOutputTask output{.shape = s_.shape, .scores = RowZero(scores_, rows.begin, s_.shape.keys)};
    output.softmax = s_.softmax;
    output.dtype = s_.dtype;
    output.out = memory_.scores;
    steps->push_back(ProgramStep::Of(output, rows));
    if (!value_) return;
    output.dtype = DType::kF64;
    output.out = RowZero(scores_, rows.begin, s_.shape.keys);
    steps->push_back(ProgramStep::Of(output, rows));
    RelativeValueTask value = *value_;
    value.scores = output.scores;
    value.dtype = s_.dtype;
    value.out = memory_.values;
    steps->push_back(ProgramStep::Of(value, rows));
  }

  void AppendWave(RowRange rows, double scale, std::vector<ProgramStep>* steps) const {
    if (s_.shape.keys > 0) {
      AppendContent(rows, steps);
      if (s_.scale_order == ScaleOrder::kScaleThenBias) AppendScale(rows, scale, steps);
      AppendAll(unscaled_, rows, steps);
      AppendBiases(rows, steps);
      if (s_.scale_order == ScaleOrder::kBiasThenScale) AppendScale(rows, scale, steps);
      if (!s_.masking.empty()) AppendMask(rows, steps);
    }
    AppendOutput(rows, steps);
  }

  void AppendMask(RowRange rows, std::vector<ProgramStep>* steps) const {
    const MaskRule* rule = new (rule_) MaskRule(RuleOf(s_.masking, s_.shape.keys - s_.shape.queries, memory_.additive));
    steps->push_back(ProgramStep::Of(MaskOf(rule, rows), rows));
  }

  MaskTask MaskOf(const MaskRule* rule, RowRange rows) const {
    MaskTask task;
    task.dtype = DType::kF64;
    task.batch = s_.shape.batch;
    task.heads = s_.shape.heads;
    task.queries = s_.shape.queries;
    task.keys = s_.shape.keys;
    task.rule = rule;
    task.data = RowZero(scores_, rows.begin, s_.shape.keys);
    return task;
  }

  const ScoreSettings& s_;
  const std::span<const Resolved* const> plans_;
  const ScoreMemory& memory_;
  ScratchCutter cutter_;
  double* scores_ = nullptr;
  double* matrix_ = nullptr;
  void* rule_ = nullptr;
  void* pack_rule_ = nullptr;  // of the packing alone
  TermContext context_;
  std::vector<ProgramStep> prepare_;
  std::vector<Task> contextual_, terms_, unscaled_;
  std::vector<PlacedBias> biases_;
  std::optional<RelativeValueTask> value_;
};

}  // namespace

RotationPositions TokenPositions::Source() const {
  RotationPositions positions;
  if (is_plain()) positions.axes[0].ids = ids;
  for (size_t axis = 0; axis < axes.size(); ++axis) positions.axes[axis].fractional_ids = axes[axis];
  return positions;
}

absl::StatusOr<ScoreProgram> ScoreProgram::Make(ScoreSettings settings) {
  for (const auto& check : {CheckShape, CheckRotation, CheckTerms, CheckBiases}) {
    if (absl::Status status = check(settings); !status.ok()) return status;
  }
  // Probabilities of a row without keys are zeros, whatever stands in for −∞ elsewhere.
  if (settings.softmax) settings.masking.lowest_finite_rows = false;
  ScoreProgram program;
  program.settings_ = std::make_shared<const ScoreSettings>(std::move(settings));
  program.scratch_bytes_ = Layout(*program.settings_, {}, ScoreMemory{}).bytes();
  return program;
}

double ScoreProgram::ScaleWith(double multiplier) const {
  if (settings_->scale) return *settings_->scale;
  double terms = 1;
  for (const EncodingSpec& term : settings_->terms) {
    if (const auto* deberta = std::get_if<DebertaSpec>(&term)) terms += (*deberta->c2p ? 1 : 0) + (*deberta->p2c ? 1 : 0);
  }
  const double dim = static_cast<double>(std::max<int64_t>(1, settings_->shape.dim));
  return 1 / std::sqrt(dim * terms) * multiplier;
}

bool ScoreProgram::has_values() const {
  return settings_->softmax && std::any_of(settings_->terms.begin(), settings_->terms.end(), &HasValues);
}

std::vector<ProgramStep> ScoreProgram::Steps(std::span<const Resolved* const> plans, const ScoreMemory& memory) const {
  double multiplier = 1;
  if (settings_->rotation) multiplier = plans.front()->softmax_scale_multiplier.value_or(1);
  return Layout(*settings_, plans, memory).Steps(ScaleWith(multiplier));
}

}  // namespace phasor
