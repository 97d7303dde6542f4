// Small functions of the position that stand in for a table: a perceptron and a cosine series, fitted to its numbers.
//
// A fit is a function of its input alone: the same numbers, options and seed give the same bits on every machine. So nothing
// here calls libm or a linear algebra library (whose sums are cut by the size of the caches that it finds): products are
// those of kernels/cpu/training.h, and everything else is plain loops.
#ifndef PHASOR_SERVER_KNOWLEDGE_DISTILL_H_
#define PHASOR_SERVER_KNOWLEDGE_DISTILL_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "kernels/backend.h"
#include "kernels/encodings/encoding.h"
#include "server/knowledge/compare.h"
#include "server/knowledge/numbers.h"
#include "server/knowledge/side.h"

namespace phasor::server {

enum class DistillForm : uint8_t {
  kPerceptron = 1,    // three linear layers with SiLU between
  kCosineSeries = 2,  // one linear layer of cosines
};

// Limits of what is asked for; they bound memory (about 250 MB) and time (a minute of one core).
inline constexpr int64_t kMaxDistillCount = 65536;
inline constexpr int64_t kMaxDistillNumbers = int64_t{1} << 22;  // count × columns, and count × hidden
inline constexpr int64_t kMaxDistillColumns = 65536;             // outputs of a layer that a spec can have
inline constexpr int64_t kMaxDistillHidden = 512;
inline constexpr int64_t kMaxDistillTerms = 4096;
inline constexpr int64_t kMaxDistillSteps = 100000;
inline constexpr int64_t kMaxDistillWork = int64_t{1} << 35;

struct DistillOptions {
  int64_t hidden = 64;
  int64_t steps = 2000;
  int64_t terms = 32;
  uint64_t seed = 0;
  double tolerance = 0;  // largest absolute error that ends training; 0: none does
};

// Products of a fit, about: what kMaxDistillWork bounds.
double PerceptronWork(int64_t count, int64_t columns, int64_t hidden, int64_t steps);
double SeriesWork(int64_t count, int64_t columns, int64_t terms);
// Memory that a fit takes at most, about.
int64_t DistillBytes(int64_t count, int64_t columns, const DistillOptions& options);

// What is fitted: rows of a table; cos and sin of a rotation side by side; a bias at distances −first, −first − 1 …
struct DistillSamples {
  int64_t first = 0;  // position
  Grid values;        // [count, columns]
  Grid beyond;        // the rows after it, as many where there are so many; none: nothing is known there
};

// Numbers of a row that is fitted.
int64_t SampleColumns(const Side& side);
// "1 column", "2 columns".
std::string ColumnsText(int64_t columns);
// The range to fit. `first` 0: where the side begins. `count` 0: a table's rows, else 512, cut to the limits. Errors:
// INVALID_ARGUMENT with a SpecError at "first_position", "count", or below the side; so are those of SamplesOf.
absl::StatusOr<RowWindow> ChooseSamples(const Side& side, int64_t first, int64_t count);
absl::StatusOr<DistillSamples> SamplesOf(const Backend& backend, const Side& side, const RowWindow& window);

struct DistillProgress {
  DistillForm form = DistillForm::kPerceptron;
  int64_t step = 0, steps = 0;  // done; at most. Of a series rows, whose errors are not known yet
  double rms_error = 0, max_error = 0;
};
// Called a few times a second, inside of a long step too, whose errors are then those of the steps before; nothing that it
// does changes the fit.
using DistillListener = absl::FunctionRef<void(const DistillProgress&)>;

// How far a fitted function is from what it was fitted to. It was evaluated as the service evaluates it, at every position.
struct DistillErrors {
  double max_error = 0;
  int64_t max_position = 0;  // of a bias: the distance
  int64_t max_column = 0;
  double rms_error = 0, rms_value = 0;
  std::optional<double> max_beyond;
  std::vector<double> by_column;
};

struct Distilled {
  DistillForm form = DistillForm::kPerceptron;
  DistilledSpec spec;
  std::optional<DynamicPositionBiasSpec> bias;  // of a bias: the same function of query − key
  DistillErrors errors;
  int64_t steps = 0;
  int64_t parameters = 0, table_numbers = 0;
  bool closed_form_is_better = false;
  std::string verdict;
};

// Fits one form. The options are within the limits, the samples are finite and have 2 rows or more. Errors: CANCELLED.
absl::StatusOr<Distilled> Distill(const Backend& backend, const Side& side, const DistillSamples& samples, DistillForm form,
                                  const DistillOptions& options, DistillListener listener, const CancelFlag* cancel);

}  // namespace phasor::server

#endif  // PHASOR_SERVER_KNOWLEDGE_DISTILL_H_
