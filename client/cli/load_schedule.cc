#include "client/cli/load_schedule.h"

#include <algorithm>
#include <numeric>

namespace phasor::cli {

int64_t Schedule::DueAt(int64_t index) const {
  const double due = static_cast<double>(index) / plan_.rate * 1e9;
  return due < 9e18 ? static_cast<int64_t>(due) : std::numeric_limits<int64_t>::max();
}

std::optional<Arrival> Schedule::Next(int64_t now_ns) {
  const std::lock_guard lock(mutex_);
  if (next_ >= plan_.requests) return std::nullopt;
  if (plan_.rate == 0) {
    if (now_ns >= plan_.duration_ns || plan_.gap_ns >= plan_.duration_ns - now_ns) return std::nullopt;
    return Arrival{next_++, now_ns + plan_.gap_ns};
  }
  const int64_t due = DueAt(next_);
  if (due >= plan_.duration_ns) return std::nullopt;
  if (now_ns >= plan_.duration_ns) {
    is_late_ = true;
    return std::nullopt;
  }
  return Arrival{next_++, due};
}

int64_t Schedule::missed() const {
  const std::lock_guard lock(mutex_);
  if (!is_late_) return 0;
  // The first number that is not due in time, by bisection: DueAt never falls.
  int64_t low = next_, high = plan_.requests;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (DueAt(middle) < plan_.duration_ns) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low - next_;
}

// Smooth weighted round robin: every turn the scenario that is most behind its share.
Mix::Mix(const std::vector<int64_t>& weights) {
  const int64_t total = std::accumulate(weights.begin(), weights.end(), int64_t{0});
  std::vector<int64_t> credit(weights.size(), 0);
  for (int64_t turn = 0; turn < total; ++turn) {
    for (size_t i = 0; i < weights.size(); ++i) credit[i] += weights[i];
    const auto best = std::max_element(credit.begin(), credit.end());
    *best -= total;
    cycle_.push_back(static_cast<size_t>(best - credit.begin()));
  }
}

}  // namespace phasor::cli
