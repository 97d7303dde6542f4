#include "server/knowledge/distill.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"

#include "server/knowledge/distill_net.h"
#include "server/knowledge/distill_series.h"
#include "server/knowledge/distill_train.h"
#include "server/knowledge/distill_verdict.h"

namespace phasor::server {
namespace {

constexpr int64_t kRowsAtOnce = 256;
// A cosine takes as long as so many products.
constexpr double kCosine = 256;

double Of(int64_t number) { return static_cast<double>(number); }

absl::Status CheckCancel(const CancelFlag* cancel) {
  const bool set = cancel != nullptr && cancel->load(std::memory_order_relaxed);
  return set ? absl::CancelledError("distill: cancelled") : absl::OkStatus();
}

DistilledSpec SpecOf(const DistillSamples& samples, const Perceptron& perceptron, int64_t terms) {
  DistilledSpec spec;
  spec.num_positions = samples.values.rows;
  spec.first_position = samples.first;
  spec.cosine_terms = terms;
  for (size_t i = 0; i < perceptron.layers.size(); ++i) {
    const PerceptronLayer& layer = perceptron.layers[i];
    spec.w[i] = WeightRef(MakeWeight({layer.outputs, layer.inputs}, layer.weight));
    spec.b[i] = WeightRef(MakeWeight({layer.outputs}, layer.bias));
  }
  return spec;
}

// The same function, fed with query − key: 2·((d − first)/(count − 1)) − 1 goes into the first layer.
Perceptron OfDistance(const DistillSamples& samples, Perceptron perceptron) {
  const double factor = 2 / Of(samples.values.rows - 1);
  const double offset = -1 - factor * Of(samples.first);
  PerceptronLayer& layer = perceptron.layers.front();
  for (size_t i = 0; i < layer.weight.size(); ++i) {
    layer.bias[i] += layer.weight[i] * offset;
    layer.weight[i] *= factor;
  }
  return perceptron;
}

DynamicPositionBiasSpec BiasSpecOf(const Perceptron& perceptron) {
  DynamicPositionBiasSpec spec;
  for (size_t i = 0; i < perceptron.layers.size(); ++i) {
    const PerceptronLayer& layer = perceptron.layers[i];
    spec.w[i] = WeightRef(MakeWeight({layer.outputs, layer.inputs}, layer.weight));
    spec.b[i] = WeightRef(MakeWeight({layer.outputs}, layer.bias));
  }
  return spec;
}

// Rows of a perceptron that is fed with the distance itself.
absl::StatusOr<Grid> RowsOfBias(const Backend& backend, const Perceptron& perceptron, int64_t first, int64_t count) {
  std::vector<double> distances(static_cast<size_t>(count));
  for (int64_t r = 0; r < count; ++r) distances[r] = Of(first + r);
  const int64_t heads = perceptron.outputs();
  std::vector<double> by_head(static_cast<size_t>(heads * count));
  PerceptronTask task;
  task.perceptron = &perceptron;
  task.dtype = DType::kF64;
  task.features = distances.data();
  task.heads = heads;
  task.out = by_head.data();
  task.head_stride = count;
  if (absl::Status status = backend.Run(task, {0, count}, nullptr); !status.ok()) return status;
  Grid rows{count, heads, std::vector<double>(by_head.size())};
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t h = 0; h < heads; ++h) rows.at(r, h) = by_head[h * count + r];
  }
  return rows;
}

// Visits every error of a function over the rows of a table that begins at position `first`.
using MakeFitted = absl::FunctionRef<absl::StatusOr<Grid>(int64_t first, int64_t count)>;
using VisitError = absl::FunctionRef<void(int64_t row, int64_t column, double error)>;
absl::Status EachError(const Grid& table, int64_t first, MakeFitted make, const CancelFlag* cancel, VisitError visit) {
  for (int64_t row = 0; row < table.rows; row += kRowsAtOnce) {
    if (absl::Status status = CheckCancel(cancel); !status.ok()) return status;
    const int64_t count = std::min(kRowsAtOnce, table.rows - row);
    const auto fitted = make(first + row, count);
    if (!fitted.ok()) return fitted.status();
    for (int64_t r = 0; r < count; ++r) {
      for (int64_t c = 0; c < table.columns; ++c) visit(row + r, c, std::fabs(fitted->at(r, c) - table.at(row + r, c)));
    }
  }
  return absl::OkStatus();
}

// Adds what `make` is off by; of two functions that should be one, each error is the larger one's.
absl::Status AddErrors(const DistillSamples& samples, bool is_bias, MakeFitted make, const CancelFlag* cancel,
                       DistillErrors* errors) {
  double squares = 0;
  const auto visit = [&](int64_t row, int64_t column, double error) {
    squares += error * error;
    errors->by_column[static_cast<size_t>(column)] = std::max(errors->by_column[static_cast<size_t>(column)], error);
    if (error <= errors->max_error) return;
    errors->max_error = error;
    errors->max_position = is_bias ? -(samples.first + row) : samples.first + row;
    errors->max_column = column;
  };
  if (auto status = EachError(samples.values, samples.first, make, cancel, visit); !status.ok()) return status;
  errors->rms_error = std::max(errors->rms_error, std::sqrt(squares / Of(samples.values.rows * samples.values.columns)));
  if (samples.beyond.rows == 0) return absl::OkStatus();
  double beyond = errors->max_beyond.value_or(0);
  const auto visit_beyond = [&](int64_t, int64_t, double error) { beyond = std::max(beyond, error); };
  const int64_t after = samples.first + samples.values.rows;
  if (auto status = EachError(samples.beyond, after, make, cancel, visit_beyond); !status.ok()) return status;
  errors->max_beyond = beyond;
  return absl::OkStatus();
}

absl::StatusOr<DistillErrors> Measure(const Backend& backend, const DistillSamples& samples, bool is_bias,
                                      const DistilledSpec& spec, const Perceptron* of_distance, const CancelFlag* cancel) {
  DistillErrors errors;
  errors.by_column.resize(static_cast<size_t>(samples.values.columns));
  errors.max_position = is_bias ? -samples.first : samples.first;
  double squares = 0;
  for (const double value : samples.values.values) squares += value * value;
  errors.rms_value = std::sqrt(squares / Of(samples.values.rows * samples.values.columns));
  const auto canonical = Canonicalize(spec);
  if (!canonical.ok()) return canonical.status();
  const auto side = SideOfSpec(*canonical, std::nullopt, Precision::kExact);
  if (!side.ok()) return side.status();
  const auto make = [&](int64_t first, int64_t count) -> absl::StatusOr<Grid> {
    auto entries = EntriesOf(backend, *side, first, count, DType::kF64);
    if (!entries.ok()) return entries.status();
    return std::move(entries->first);
  };
  if (auto status = AddErrors(samples, is_bias, make, cancel, &errors); !status.ok()) return status;
  if (of_distance != nullptr) {
    const auto make_bias = [&](int64_t first, int64_t count) { return RowsOfBias(backend, *of_distance, first, count); };
    if (auto status = AddErrors(samples, is_bias, make_bias, cancel, &errors); !status.ok()) return status;
  }
  return errors;
}

absl::StatusOr<Perceptron> Series(const Grid& values, int64_t terms, DistillListener listener, const CancelFlag* cancel) {
  auto weights = FitSeries(values, terms, listener, cancel);
  if (!weights.ok()) return weights.status();
  PerceptronLayer layer;
  layer.inputs = terms;
  layer.outputs = values.columns;
  layer.weight = *std::move(weights);
  layer.bias.resize(static_cast<size_t>(values.columns));  // cos(0), the first term, is 1
  Perceptron series;
  series.activation = Activation::kSilu;
  series.layers.push_back(std::move(layer));
  return series;
}

int64_t ParametersOf(const Perceptron& perceptron, DistillForm form) {
  int64_t count = perceptron.products();
  if (form == DistillForm::kCosineSeries) return count;
  for (const PerceptronLayer& layer : perceptron.layers) count += layer.outputs;
  return count;
}

}  // namespace

double PerceptronWork(int64_t count, int64_t columns, int64_t hidden, int64_t steps) {
  return Of(steps) * Of(count) * Of(hidden) * Of(hidden + columns);
}
double SeriesWork(int64_t count, int64_t columns, int64_t terms) { return Of(count) * Of(terms) * (Of(columns) + kCosine); }

int64_t DistillBytes(int64_t count, int64_t columns, const DistillOptions& options) {
  return 8 * 4 * count * columns + std::max(TrainingNet::Bytes(count, columns, options.hidden),
                                            8 * (4 * count + options.terms * (columns + kRowsAtOnce)));
}

absl::StatusOr<Distilled> Distill(const Backend& backend, const Side& side, const DistillSamples& samples, DistillForm form,
                                  const DistillOptions& options, DistillListener listener, const CancelFlag* cancel) {
  Distilled out;
  out.form = form;
  out.table_numbers = samples.values.rows * samples.values.columns;
  const bool is_bias = side.family == Family::kBias;
  Perceptron perceptron;
  if (form == DistillForm::kPerceptron) {
    auto trained = TrainPerceptron(samples.values, options, listener, cancel);
    if (!trained.ok()) return trained.status();
    perceptron = std::move(trained->perceptron);
    out.steps = trained->steps;
  } else {
    auto series = Series(samples.values, options.terms, listener, cancel);
    if (!series.ok()) return series.status();
    perceptron = *std::move(series);
  }
  out.parameters = ParametersOf(perceptron, form);
  out.spec = SpecOf(samples, perceptron, form == DistillForm::kPerceptron ? 0 : options.terms);
  std::optional<Perceptron> of_distance;
  if (is_bias && form == DistillForm::kPerceptron) {
    of_distance = OfDistance(samples, perceptron);
    out.bias = BiasSpecOf(*of_distance);
  }
  auto errors = Measure(backend, samples, is_bias, out.spec, of_distance ? &*of_distance : nullptr, cancel);
  if (!errors.ok()) return errors.status();
  out.errors = *std::move(errors);
  out.closed_form_is_better = HasClosedForm(side);
  out.verdict = VerdictOf(side, samples, out);
  return out;
}

}  // namespace phasor::server
