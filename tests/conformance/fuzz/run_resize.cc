// Learned tables, and tables of biases, in another size.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "kernels/program/resize.h"
#include "tests/conformance/fuzz/run.h"

namespace phasor {

bool AddResizeRun(const FuzzSubject& subject, Rng& rng, FuzzRun& run) {
  // Tables that have a place per row.
  const auto* learned = std::get_if<LearnedSpec>(&subject.spec);
  const auto* window = std::get_if<WindowBiasSpec>(&subject.spec);
  if ((learned == nullptr && window == nullptr) || !rng.OneIn(3)) return false;
  const Weight& table = learned != nullptr ? *learned->table : *window->table;
  ResizeJob job;
  job.rule.interpolation = static_cast<Interpolation>(rng.Int(1, 3));
  if (job.rule.interpolation != Interpolation::kNearest) {
    job.rule.antialias = rng.OneIn(2);
    job.rule.align_corners = !job.rule.antialias && rng.OneIn(2);
  }
  if (window != nullptr) {
    job.source = {2 * window->window_height - 1, 2 * window->window_width - 1};
    job.extra_last = window->class_token ? 3 : 0;
    job.target = {rng.LogInt(1, 20), rng.LogInt(1, 20)};
  } else {
    job.extra_first = rng.Int(0, std::min<int64_t>(2, table.shape[0] - 1));
    job.source = {table.shape[0] - job.extra_first};
    job.target = {rng.LogInt(1, 80)};
  }
  job.dtype = table.dtype;
  job.columns = table.shape[1];
  job.in = table.data.get();
  job.in_row_stride = job.columns;
  job.out = run.Data(rng, (job.target_points() + job.extra_first + job.extra_last) * job.columns, SizeOf(job.dtype));
  const ResizeJob& kept = run.Hold(job);
  run.steps = ResizeSteps(kept, run.Scratch(ResizeScratchBytes(kept)));
  run.what = absl::StrCat("resized to ", kept.target_points(), " points of ", kept.columns, " columns");
  return true;
}

}  // namespace phasor
