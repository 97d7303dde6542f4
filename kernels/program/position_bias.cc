#include "kernels/program/position_bias.h"

#include <algorithm>
#include <cmath>

#include "kernels/core/math.h"
#include "kernels/core/sum.h"

namespace phasor {
namespace {

PairPerceptronTask PairTask(const Perceptron& perceptron, const BiasPart& part) {
  return {.perceptron = &perceptron,
          .dtype = part.dtype,
          .query_positions = part.query_positions,
          .key_positions = part.key_positions,
          .first_head = part.first_head,
          .heads = part.heads,
          .out = part.out};
}

bool Consecutive(std::span<const int64_t> positions) {
  for (size_t i = 1; i < positions.size(); ++i) {
    if (positions[i] != positions[i - 1] + 1) return false;
  }
  return true;
}

// ---- Numbers of two doubles.

// a + b and its rounding error.
DoubleDouble TwoSum(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  return {sum, (a - (sum - part)) + (b - part)};
}
DoubleDouble Renormalized(double hi, double lo) {
  const double sum = hi + lo;
  return {sum, lo - (sum - hi)};
}
DoubleDouble Plus(DoubleDouble a, double b) {
  const DoubleDouble sum = TwoSum(a.hi, b);
  return Renormalized(sum.hi, sum.lo + a.lo);
}
DoubleDouble Plus(DoubleDouble a, DoubleDouble b) {
  const DoubleDouble high = TwoSum(a.hi, b.hi);
  const DoubleDouble low = TwoSum(a.lo, b.lo);
  const DoubleDouble sum = Renormalized(high.hi, high.lo + low.hi);
  return Renormalized(sum.hi, sum.lo + low.lo);
}

// ---- Running sums of gates.

struct Gates {
  const ForgettingBiasPlan* plan;
  BiasPart part;
  GateScratch at;

  int64_t count() const { return plan->keys(); }
  int64_t blocks() const { return (count() + sums::kScanBlock - 1) / sums::kScanBlock; }

  // Gates count but for those at positions that only padding has.
  void FindPadding() const {
    std::fill_n(at.counts, count(), uint8_t{1});
    if (part.key_padding.empty()) return;
    const auto mark = [this](uint8_t kind) {
      for (size_t i = 0; i < part.key_padding.size(); ++i) {
        if (part.key_padding[i] == kind) at.counts[part.key_positions[i]] = kind;
      }
    };
    mark(0);
    mark(1);
  }

  // Rows are (head, block) pairs.
  void SumWithin(RowRange rows) const {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t head = row / blocks();
      const int64_t first = row % blocks() * sums::kScanBlock;
      // Gates that all batch rows share have sums of their own all the same where padding or positions differ.
      const int64_t batch_row = plan->has_batch() ? part.batch_row : 0;
      const int64_t from = (batch_row * plan->heads() + part.first_head + head) * count();
      DoubleDouble sum;
      for (int64_t j = first; j < std::min(first + sums::kScanBlock, count()); ++j) {
        const double gate = plan->gates->at(from + j);
        if (at.counts[j] != 0) sum = Plus(sum, plan->logits ? math::LogSigmoid(gate) : gate);
        at.within_hi[head * count() + j] = sum.hi;
        at.within_lo[head * count() + j] = sum.lo;
      }
    }
  }

  // Rows are heads.
  void SumBlocks(RowRange heads) const {
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      DoubleDouble sum;
      for (int64_t b = 0; b < blocks(); ++b) {
        at.before_hi[head * blocks() + b] = sum.hi;
        at.before_lo[head * blocks() + b] = sum.lo;
        const int64_t last = head * count() + std::min((b + 1) * sums::kScanBlock, count()) - 1;
        sum = Plus(sum, DoubleDouble{at.within_hi[last], at.within_lo[last]});
      }
    }
  }

  // The sum up to gate `position`, itself included.
  DoubleDouble SumTo(int64_t head, int64_t position) const {
    const int64_t block = head * blocks() + position / sums::kScanBlock;
    const int64_t within = head * count() + position;
    return Plus(DoubleDouble{at.before_hi[block], at.before_lo[block]},
                DoubleDouble{at.within_hi[within], at.within_lo[within]});
  }

  void Pick(int64_t head, std::span<const int64_t> positions, double* hi, double* lo) const {
    for (int64_t i = 0; i < static_cast<int64_t>(positions.size()); ++i) {
      const DoubleDouble sum = SumTo(head, positions[static_cast<size_t>(i)]);
      hi[head * static_cast<int64_t>(positions.size()) + i] = sum.hi;
      lo[head * static_cast<int64_t>(positions.size()) + i] = sum.lo;
    }
  }

  // Rows are heads.
  void PickAll(RowRange heads) const {
    for (int64_t head = heads.begin; head < heads.end; ++head) {
      Pick(head, part.query_positions, at.query_hi, at.query_lo);
      Pick(head, part.key_positions, at.key_hi, at.key_lo);
    }
  }
};

// ---- Projected positions.

// to[i·step] = row `row` of weight [heads, rows, dim], i = 0 … dim − 1.
void CopyRow(const Weight& weight, int64_t head, int64_t row, double* to, int64_t step) {
  const int64_t dim = weight.shape[2];
  VisitFloat(weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const std::byte* from = weight.data.get() + (head * weight.shape[1] + row) * dim * static_cast<int64_t>(sizeof(T));
    for (int64_t i = 0; i < dim; ++i) {
      T value;
      std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      to[i * step] = Widen<double>(value);
    }
  });
}

}  // namespace

void AppendFire(const FirePlan& plan, const BiasPart& part, std::vector<ProgramStep>* steps) {
  PairPerceptronTask task = PairTask(plan.perceptron, part);
  task.feature = PairFeature::kFire;
  task.c = plan.c;
  task.threshold = plan.threshold;
  task.epsilon = plan.epsilon;
  steps->push_back(ProgramStep::Of(task, task.queries() * task.blocks()));
}

DistanceScratch DynamicPositionBiasScratch(ScratchCutter& cutter, DType dtype, int64_t heads, int64_t distances) {
  DistanceScratch at{};
  at.features = cutter.Doubles(distances);
  at.vector = cutter.Bytes(heads * distances * SizeOf(dtype));
  return at;
}

void AppendDistanceVector(const DynamicPositionBiasPlan& plan, DType dtype, int64_t first_head, int64_t heads,
                          int64_t first_distance, int64_t count, void* out, double* features,
                          std::vector<ProgramStep>* steps) {
  // The perceptron is fed q − k.
  const auto fill = [first_distance, features, log = plan.log_distance](RowRange rows, const CancelFlag*) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const double distance = static_cast<double>(-(first_distance + row));
      features[row] = log ? std::copysign(math::Log1p(std::fabs(distance)), distance) : distance;
    }
    return absl::OkStatus();
  };
  steps->push_back(ProgramStep::Of(fill, count, 16384));
  const PerceptronTask task{.perceptron = &plan.perceptron,
                            .dtype = dtype,
                            .features = features,
                            .first_head = first_head,
                            .heads = heads,
                            .out = out,
                            .head_stride = count};
  steps->push_back(ProgramStep::Of(task, count));
}

void AppendDynamicPositionBias(const DynamicPositionBiasPlan& plan, const BiasPart& part, std::byte* scratch,
                               std::vector<ProgramStep>* steps) {
  if (!Consecutive(part.query_positions) || !Consecutive(part.key_positions)) {
    PairPerceptronTask task = PairTask(plan.perceptron, part);
    task.feature = plan.log_distance ? PairFeature::kLogDistance : PairFeature::kDistance;
    steps->push_back(ProgramStep::Of(task, task.queries() * task.blocks()));
    return;
  }
  const int64_t first_distance = part.key_positions.front() - part.query_positions.back();
  ToeplitzTask task{.element_size = SizeOf(part.dtype),
                    .heads = part.heads,
                    .queries = part.queries(),
                    .keys = part.keys(),
                    .vector = nullptr,
                    .vector_stride = part.queries() + part.keys() - 1,
                    .out = part.out};
  if (part.values != nullptr) {
    task.vector = static_cast<const std::byte*>(part.values) + (first_distance - part.first_value) * task.element_size;
    task.vector_stride = part.value_stride;
  } else {
    ScratchCutter cutter(scratch);
    const DistanceScratch at = DynamicPositionBiasScratch(cutter, part.dtype, part.heads, task.vector_stride);
    AppendDistanceVector(plan, part.dtype, part.first_head, part.heads, first_distance, task.vector_stride, at.vector,
                         at.features, steps);
    task.vector = at.vector;
  }
  steps->push_back(ProgramStep::Of(task, part.heads * part.queries()));
}

GateScratch ForgettingBiasScratch(ScratchCutter& cutter, int64_t heads, int64_t gates, int64_t queries, int64_t keys) {
  const int64_t blocks = (gates + sums::kScanBlock - 1) / sums::kScanBlock;
  GateScratch at{};
  at.within_hi = cutter.Doubles(heads * gates);
  at.within_lo = cutter.Doubles(heads * gates);
  at.before_hi = cutter.Doubles(heads * blocks);
  at.before_lo = cutter.Doubles(heads * blocks);
  at.query_hi = cutter.Doubles(heads * queries);
  at.query_lo = cutter.Doubles(heads * queries);
  at.key_hi = cutter.Doubles(heads * keys);
  at.key_lo = cutter.Doubles(heads * keys);
  at.query_positions = cutter.Doubles(queries);
  at.key_positions = cutter.Doubles(keys);
  at.counts = reinterpret_cast<uint8_t*>(cutter.Bytes(gates));
  return at;
}

void AppendForgettingBias(const ForgettingBiasPlan& plan, const BiasPart& part, std::byte* scratch,
                          std::vector<ProgramStep>* steps) {
  ScratchCutter cutter(scratch);
  const Gates gates{&plan, part, ForgettingBiasScratch(cutter, part.heads, plan.keys(), part.queries(), part.keys())};
  const auto padding = [gates](RowRange, const CancelFlag*) { return gates.FindPadding(), absl::OkStatus(); };
  const auto within = [gates](RowRange rows, const CancelFlag*) { return gates.SumWithin(rows), absl::OkStatus(); };
  const auto blocks = [gates](RowRange heads, const CancelFlag*) { return gates.SumBlocks(heads), absl::OkStatus(); };
  const auto pick = [gates](RowRange heads, const CancelFlag*) { return gates.PickAll(heads), absl::OkStatus(); };
  const auto positions = [gates](RowRange, const CancelFlag*) {
    const BiasPart& p = gates.part;
    std::copy(p.query_positions.begin(), p.query_positions.end(), gates.at.query_positions);
    std::copy(p.key_positions.begin(), p.key_positions.end(), gates.at.key_positions);
    return absl::OkStatus();
  };
  steps->push_back(ProgramStep::Of(padding, 1, 1));
  steps->push_back(ProgramStep::Of(within, part.heads * gates.blocks(), 256));
  steps->push_back(ProgramStep::Of(blocks, part.heads, 1));
  steps->push_back(ProgramStep::Of(pick, part.heads, std::max<int64_t>(1, 65536 / (part.queries() + part.keys()))));
  steps->push_back(ProgramStep::Of(positions, 1, 1));
  const GateScratch& at = gates.at;
  const SumDifferenceTask task{.dtype = part.dtype,
                               .heads = part.heads,
                               .queries = part.queries(),
                               .keys = part.keys(),
                               .query_hi = at.query_hi,
                               .query_lo = at.query_lo,
                               .key_hi = at.key_hi,
                               .key_lo = at.key_lo,
                               .query_positions = at.query_positions,
                               .key_positions = at.key_positions,
                               .out = part.out};
  steps->push_back(ProgramStep::Of(task, part.heads * part.queries()));
}

ProductScratch TupeScratch(ScratchCutter& cutter, int64_t heads, int64_t dim, int64_t queries, int64_t keys) {
  // An odd number of lines apart, so that the columns of a block of keys do not meet in one set of the cache.
  const int64_t lines = (keys + 7) / 8 | 1;
  ProductScratch at{};
  at.key_stride = 8 * lines;
  at.q = cutter.Doubles(heads * queries * dim);
  at.k = cutter.Doubles(heads * dim * at.key_stride);
  return at;
}

void AppendTupe(const TupePlan& plan, const BiasPart& part, std::byte* scratch, std::vector<ProgramStep>* steps) {
  ScratchCutter cutter(scratch);
  const ProductScratch at = TupeScratch(cutter, part.heads, plan.dim(), part.queries(), part.keys());
  const auto queries = [&plan, part, at](RowRange rows, const CancelFlag*) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t position = part.query_positions[static_cast<size_t>(row % part.queries())];
      CopyRow(*plan.q, part.first_head + row / part.queries(), position, at.q + row * plan.dim(), 1);
    }
    return absl::OkStatus();
  };
  const auto keys = [&plan, part, at](RowRange rows, const CancelFlag*) {
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t head = row / at.key_stride, key = row % at.key_stride;
      double* to = at.k + head * plan.dim() * at.key_stride + key;
      if (key < part.keys()) {
        CopyRow(*plan.k, part.first_head + head, part.key_positions[static_cast<size_t>(key)], to, at.key_stride);
      } else {
        for (int64_t i = 0; i < plan.dim(); ++i) to[i * at.key_stride] = 0;
      }
    }
    return absl::OkStatus();
  };
  const int64_t rows_per_slice = std::max<int64_t>(1, 65536 / plan.dim());
  steps->push_back(ProgramStep::Of(queries, part.heads * part.queries(), rows_per_slice));
  steps->push_back(ProgramStep::Of(keys, part.heads * at.key_stride, rows_per_slice));
  const bool relative = !plan.relative.empty(), untied = !plan.untied.empty();
  const PositionProductTask task{
      .dtype = part.dtype,
      .heads = part.heads,
      .queries = part.queries(),
      .keys = part.keys(),
      .dim = plan.dim(),
      .q = at.q,
      .k = at.k,
      .key_stride = at.key_stride,
      .divisor = std::sqrt(2 * static_cast<double>(plan.dim())),
      .relative = relative ? plan.relative.data() + part.first_head * (2 * plan.reach + 1) : nullptr,
      .reach = plan.reach,
      .query_positions = part.query_positions.data(),
      .key_positions = part.key_positions.data(),
      .untied = untied ? plan.untied.data() + 2 * part.first_head : nullptr,
      .out = part.out};
  steps->push_back(ProgramStep::Of(task, part.heads * part.queries()));
}

}  // namespace phasor
