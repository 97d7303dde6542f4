#include "kernels/program/window_bias.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "kernels/core/math.h"
#include "kernels/core/narrow.h"
#include "kernels/program/position_bias.h"
#include "kernels/program/scratch.h"

namespace phasor {
namespace {

// ---- Windows.

int64_t TableBytes(const TokenWindow& window, int64_t heads, DType dtype) {
  return heads * window.table_rows() * SizeOf(dtype);
}

// `queries`: all of the heads' tokens, or some of one head's, whose rows are all that `out` has.
void AppendGather(const WindowTask& window, RowRange queries, std::vector<ProgramStep>* steps) {
  WindowTask task = window;
  // The task's first row lies before them: it is never written.
  const int64_t before = queries.begin * window.window.tokens() * window.element_size;
  task.out = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(window.out) - static_cast<uintptr_t>(before));
  steps->push_back(ProgramStep::Of(task, queries));
}

void AppendGather(const TokenWindow& window, const BiasPart& part, const void* table, std::vector<ProgramStep>* steps) {
  const bool all = part.window_queries.begin == part.window_queries.end;
  AppendGather({.element_size = SizeOf(part.dtype),
                .window = window,
                .heads = part.heads,
                .table = table,
                .table_stride = window.table_rows(),
                .out = part.out},
               all ? RowRange{0, part.heads * window.tokens()} : part.window_queries, steps);
}

// What AppendWindowTableSteps fills.
struct TablePart {
  DType dtype = DType::kF32;
  int64_t first_head = 0;
  int64_t heads = 0;
  RowRange rows;
  void* out = nullptr;  // [heads, rows]

  int64_t count() const { return rows.end - rows.begin; }
};

void AppendTable(const WindowBiasPlan& plan, const TablePart& part, double*, std::vector<ProgramStep>* steps) {
  const auto turn = [&plan, part](RowRange heads, const CancelFlag*) {
    VisitFloat(part.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* table = static_cast<T*>(part.out);
      for (int64_t h = heads.begin; h < heads.end; ++h) {
        for (int64_t i = 0; i < part.count(); ++i) {
          const int64_t row = part.rows.begin + i;
          table[h * part.count() + i] = Narrow<T>(plan.table->at(row * plan.num_heads + part.first_head + h));
        }
      }
    });
    return absl::OkStatus();
  };
  steps->push_back(ProgramStep::Of(turn, part.heads, std::max<int64_t>(1, (int64_t{1} << 17) / part.count())));
}

void Append(const WindowBiasPlan& plan, const BiasPart& part, std::byte* scratch, std::vector<ProgramStep>* steps) {
  AppendTable(plan, {part.dtype, part.first_head, part.heads, {0, plan.window.table_rows()}, scratch}, nullptr, steps);
  AppendGather(plan.window, part, scratch, steps);
}

// sign(c)·log2(1 + 8·|c|)/3, c = delta/(pretrained − 1); 8·|c| and the sum are rounded once each.
double ContinuousFeature(int64_t delta, int64_t pretrained) {
  if (delta == 0) return 0;
  const double eight_c = static_cast<double>(8 * delta) / static_cast<double>(pretrained - 1);
  return std::copysign(math::Log2(1 + std::fabs(eight_c)) / 3, eight_c);
}

void AppendTable(const ContinuousWindowBiasPlan& plan, const TablePart& part, double* features,
                 std::vector<ProgramStep>* steps) {
  const auto fill = [&plan, features, first = part.rows.begin](RowRange rows, const CancelFlag*) {
    const int64_t columns = 2 * plan.window.width - 1;
    for (int64_t i = rows.begin; i < rows.end; ++i) {
      const int64_t row = first + i;
      features[2 * i] = ContinuousFeature(row / columns - (plan.window.height - 1), plan.pretrained_height);
      features[2 * i + 1] = ContinuousFeature(row % columns - (plan.window.width - 1), plan.pretrained_width);
    }
    return absl::OkStatus();
  };
  steps->push_back(ProgramStep::Of(fill, part.count(), 8192));
  const PerceptronTask task{.perceptron = &plan.perceptron,
                            .dtype = part.dtype,
                            .features = features,
                            .first_head = part.first_head,
                            .heads = part.heads,
                            .out = part.out,
                            .head_stride = part.count()};
  steps->push_back(ProgramStep::Of(task, part.count()));
}

void Append(const ContinuousWindowBiasPlan& plan, const BiasPart& part, std::byte* scratch,
            std::vector<ProgramStep>* steps) {
  const TokenWindow& window = plan.window;
  if (part.values != nullptr) return AppendGather(window, part, part.values, steps);
  ScratchCutter cutter(scratch);
  double* features = cutter.Doubles(2 * window.table_rows());
  std::byte* table = cutter.Bytes(TableBytes(window, part.heads, part.dtype));
  AppendTable(plan, {part.dtype, part.first_head, part.heads, {0, window.table_rows()}, table}, features, steps);
  AppendGather(window, part, table, steps);
}

template <typename Other>
void AppendTable(const Other&, const TablePart&, double*, std::vector<ProgramStep>*) {}

// ---- The others are in position_bias.cc.

void Append(const FirePlan& plan, const BiasPart& part, std::byte*, std::vector<ProgramStep>* steps) {
  AppendFire(plan, part, steps);
}
void Append(const DynamicPositionBiasPlan& plan, const BiasPart& part, std::byte* scratch, std::vector<ProgramStep>* steps) {
  AppendDynamicPositionBias(plan, part, scratch, steps);
}
void Append(const ForgettingBiasPlan& plan, const BiasPart& part, std::byte* scratch, std::vector<ProgramStep>* steps) {
  AppendForgettingBias(plan, part, scratch, steps);
}
void Append(const TupePlan& plan, const BiasPart& part, std::byte* scratch, std::vector<ProgramStep>* steps) {
  AppendTupe(plan, part, scratch, steps);
}
template <typename Other>
void Append(const Other&, const BiasPart&, std::byte*, std::vector<ProgramStep>*) {}

struct Traits {
  using Result = std::optional<BiasTraits>;
  Result operator()(const WindowBiasSpec& s) const {
    const TokenWindow window{s.window_height, s.window_width, s.class_token};
    return BiasTraits{.heads = s.num_heads, .tokens = window.tokens(), .indices_only = !s.table};
  }
  Result operator()(const ContinuousWindowBiasSpec& s) const {
    return BiasTraits{.heads = s.w2->shape[0], .tokens = s.window_height * s.window_width};
  }
  Result operator()(const FireSpec& s) const { return BiasTraits{.heads = s.w2->shape[0]}; }
  Result operator()(const DynamicPositionBiasSpec& s) const {
    BiasTraits traits{.by_distance = true};
    for (const WeightRef& weight : s.w) {
      if (weight) traits.heads = weight->shape[0];
    }
    return traits;
  }
  Result operator()(const ForgettingBiasSpec& s) const {
    const std::vector<int64_t>& shape = s.gates->shape;
    return BiasTraits{.heads = shape[shape.size() - 2],
                      .query_rows = shape.back(),
                      .key_rows = shape.back(),
                      .batch = shape.size() == 3 ? shape[0] : 0,
                      .places_are_keys = true,
                      .sums_gates = true};
  }
  Result operator()(const TupeSpec& s) const {
    return BiasTraits{.heads = s.q->shape[0], .query_rows = s.q->shape[1], .key_rows = s.k->shape[1]};
  }
  template <typename Other>
  Result operator()(const Other&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<BiasTraits> TraitsOf(const EncodingSpec& canonical) { return std::visit(Traits{}, canonical); }

double LearnedProducts(const EncodingSpec& canonical, int64_t queries, int64_t keys, bool consecutive, bool head_by_head) {
  // Of layers in order, the last of which has a row for each head.
  double layers = 0, last = 0, heads = 0;
  const auto add = [&](const WeightRef& weight) {
    if (!weight) return;
    last = static_cast<double>(weight->elements());
    heads = static_cast<double>(weight->shape[0]);
    layers += last;
  };
  double points = static_cast<double>(queries) * static_cast<double>(keys);
  if (const auto* fire = std::get_if<FireSpec>(&canonical)) {
    add(fire->w1);
    add(fire->w2);
  } else if (const auto* dynamic = std::get_if<DynamicPositionBiasSpec>(&canonical)) {
    for (const WeightRef& weight : dynamic->w) add(weight);
    if (consecutive) points = static_cast<double>(queries) + static_cast<double>(keys);
  } else if (const auto* window = std::get_if<ContinuousWindowBiasSpec>(&canonical)) {
    add(window->w1);
    add(window->w2);
    points = static_cast<double>(TokenWindow{window->window_height, window->window_width, false}.table_rows());
  }
  return points * (head_by_head ? heads * (layers - last) + last : layers);
}

int64_t BiasScratchBytes(const EncodingSpec& canonical, DType dtype, int64_t heads, int64_t queries, int64_t keys) {
  ScratchCutter cutter(nullptr);
  if (const auto* s = std::get_if<WindowBiasSpec>(&canonical)) {
    cutter.Bytes(TableBytes({s->window_height, s->window_width, s->class_token}, heads, dtype));
  } else if (const auto* c = std::get_if<ContinuousWindowBiasSpec>(&canonical)) {
    const TokenWindow window{c->window_height, c->window_width, false};
    cutter.Doubles(2 * window.table_rows());
    cutter.Bytes(TableBytes(window, heads, dtype));
  } else if (std::holds_alternative<DynamicPositionBiasSpec>(canonical)) {
    DynamicPositionBiasScratch(cutter, dtype, heads, queries + keys - 1);
  } else if (const auto* f = std::get_if<ForgettingBiasSpec>(&canonical)) {
    ForgettingBiasScratch(cutter, heads, f->gates->shape.back(), queries, keys);
  } else if (const auto* t = std::get_if<TupeSpec>(&canonical)) {
    TupeScratch(cutter, heads, t->q->shape[2], queries, keys);
  }
  return cutter.used();
}

void AppendBiasSteps(const Plan& plan, const BiasPart& part, std::byte* scratch, std::vector<ProgramStep>* steps) {
  std::visit([&](const auto& p) { Append(p, part, scratch, steps); }, plan);
}

void AppendBiasVectorSteps(const Plan& plan, DType dtype, int64_t first_head, int64_t heads, int64_t first_distance,
                           int64_t count, void* out, std::byte* scratch, std::vector<ProgramStep>* steps) {
  const auto* dynamic = std::get_if<DynamicPositionBiasPlan>(&plan);
  if (dynamic == nullptr) return;
  ScratchCutter cutter(scratch);
  AppendDistanceVector(*dynamic, dtype, first_head, heads, first_distance, count, out, cutter.Doubles(count), steps);
}

void AppendWindowTableSteps(const Plan& plan, DType dtype, int64_t first_head, int64_t heads, RowRange rows, void* out,
                            double* features, std::vector<ProgramStep>* steps) {
  const TablePart part{dtype, first_head, heads, rows, out};
  std::visit([&](const auto& p) { AppendTable(p, part, features, steps); }, plan);
}

void AppendWindowIndexSteps(const TokenWindow& window, DType dtype, RowRange queries, void* out, std::byte* scratch,
                            std::vector<ProgramStep>* steps) {
  const auto count = [scratch, wide = dtype == DType::kI64](RowRange rows, const CancelFlag*) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int32_t narrow = static_cast<int32_t>(row);
      if (wide) {
        std::memcpy(scratch + row * 8, &row, 8);
      } else {
        std::memcpy(scratch + row * 4, &narrow, 4);
      }
    }
    return absl::OkStatus();
  };
  steps->push_back(ProgramStep::Of(count, window.table_rows(), int64_t{1} << 17));
  AppendGather({.element_size = SizeOf(dtype),
                .window = window,
                .heads = 1,
                .table = scratch,
                .table_stride = window.table_rows(),
                .out = out},
               queries, steps);
}

}  // namespace phasor
