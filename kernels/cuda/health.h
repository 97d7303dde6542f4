// Whether a device's state is lost.
#ifndef PHASOR_KERNELS_CUDA_HEALTH_H_
#define PHASOR_KERNELS_CUDA_HEALTH_H_

#include <atomic>
#include <functional>
#include <utility>

#include "absl/status/status.h"

namespace phasor::cuda {

// Of a backend's devices, all together; for whoever asks one of them something. Thread-safe.
class Health {
 public:
  explicit Health(std::function<void(const absl::Status&)> on_lost) : on_lost_(std::move(on_lost)) {}
  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  static absl::Status Lost() { return absl::UnavailableError("the device is lost; this server is ending"); }
  // The driver says so: what callers hear.
  absl::Status Lose(const absl::Status& status) {
    if (!lost_.exchange(true) && on_lost_) on_lost_(status);
    return Lost();
  }

 private:
  const std::function<void(const absl::Status&)> on_lost_;
  std::atomic<bool> lost_{false};
};

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_HEALTH_H_
