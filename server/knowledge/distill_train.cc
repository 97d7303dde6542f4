#include "server/knowledge/distill_train.h"

#include <chrono>
#include <cmath>
#include <limits>

#include "absl/status/status.h"

#include "server/knowledge/distill_net.h"
#include "server/knowledge/lbfgs.h"

namespace phasor::server {
namespace {

constexpr std::chrono::milliseconds kProgressEvery{250};

}  // namespace

absl::StatusOr<TrainedPerceptron> TrainPerceptron(const Grid& values, const DistillOptions& options,
                                                  DistillListener listener, const CancelFlag* cancel) {
  using Clock = std::chrono::steady_clock;
  TrainedPerceptron best;
  DistillProgress progress{.form = DistillForm::kPerceptron, .steps = options.steps};
  progress.max_error = std::numeric_limits<double>::infinity();
  Clock::time_point told = Clock::now();
  const auto tell = [&](bool now) {
    if (!std::isfinite(progress.max_error)) return;  // nothing was measured yet
    const Clock::time_point time = Clock::now();
    if (!now && time - told < kProgressEvery) return;
    told = time;
    listener(progress);
  };
  TrainingNet net(values, options.hidden, cancel, [&] { tell(false); });
  Lbfgs search(net.Start(options.seed));
  const auto evaluate = [&](const std::vector<double>& at, double* value, std::vector<double>* gradient) {
    NetError error;
    if (!net.Evaluate(at, &error, gradient)) return false;
    *value = error.loss;
    if (error.max < progress.max_error) {
      progress.rms_error = error.rms;
      progress.max_error = error.max;
      best.perceptron = net.Make(at);
    }
    return true;
  };
  while (progress.step < options.steps) {
    const bool more = search.Step(evaluate);
    // A step that was cancelled inside looks like a bad one.
    if (cancel != nullptr && cancel->load(std::memory_order_relaxed)) return absl::CancelledError("distill: cancelled");
    if (!more) break;
    ++progress.step;
    if (progress.max_error <= options.tolerance) break;
    tell(progress.step == 1);
  }
  best.steps = progress.step;
  if (best.perceptron.layers.empty()) return absl::InternalError("distill: training began nowhere");
  return best;
}

}  // namespace phasor::server
