// A backend for tests of what stands above backends: numbers that name where they come from, counts of what was computed,
// and ways to fail or to stop in the middle. Layout tasks (rotate, Toeplitz, assemble) are the reference backend's.
#ifndef PHASOR_TESTS_TESTING_FAKE_BACKEND_H_
#define PHASOR_TESTS_TESTING_FAKE_BACKEND_H_

#include <atomic>
#include <bit>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"

#include "kernels/backend.h"
#include "kernels/core/narrow.h"
#include "kernels/reference/reference_backend.h"

namespace phasor::testing {

// What the counts of a FakeBackend say; shared, so that tests keep it when the engine owns the backend.
struct FakeBackendState {
  std::atomic<int64_t> angle_rows{0};
  std::atomic<int64_t> bias_rows{0};
  std::atomic<int64_t> rotate_rows{0};
  std::atomic<int64_t> runs{0};
  // Called at the start of every Run when set (before the engine starts); an error is what Run returns.
  std::function<absl::Status(const Task& task, RowRange rows)> before;
};

// Closed until Open; waiting threads count.
class Gate {
 public:
  void Open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    wake_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    wake_.notify_all();
    wake_.wait(lock, [this] { return open_; });
  }
  // Until `threads` have come to wait (since the start).
  void AwaitWaiting(int threads) {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return waiting_ >= threads; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool open_ = false;
  int waiting_ = 0;
};

class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(std::shared_ptr<FakeBackendState> state) : state_(std::move(state)) {}

  std::string_view name() const override { return "fake"; }
  std::string description() const override { return "numbers that name their place"; }

  absl::Status Run(const Task& task, RowRange rows, const CancelFlag* cancel) const override {
    state_->runs.fetch_add(1);
    if (state_->before) {
      absl::Status status = state_->before(task, rows);
      if (!status.ok()) return status;
    }
    if (cancel != nullptr && cancel->load()) return absl::CancelledError("cancelled");
    if (const auto* angle = std::get_if<AngleTask>(&task)) return RunAngle(*angle, rows);
    if (const auto* bias = std::get_if<BiasVectorTask>(&task)) return RunBias(*bias, rows);
    if (std::holds_alternative<RotateTask>(task)) state_->rotate_rows.fetch_add(rows.end - rows.begin);
    return reference_->Run(task, rows, cancel);
  }

 private:
  // In [−0.5, 0.5), a multiple of 2^−24, and different for different arguments (but for chance).
  static double Value(uint64_t plan, int64_t row, int64_t column) {
    uint64_t x =
        plan ^ (static_cast<uint64_t>(row) * 0x9e3779b97f4a7c15u) ^ (static_cast<uint64_t>(column) * 0xc2b2ae3d27d4eb4fu);
    x ^= x >> 31;
    x *= 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return static_cast<double>(x >> 40) * 0x1p-24 - 0.5;
  }
  static void Store(void* out, int64_t index, DType dtype, double value) {
    if (out == nullptr) return;
    VisitFloat(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      static_cast<T*>(out)[index] = Narrow<T>(value);
    });
  }

  absl::Status RunAngle(const AngleTask& task, RowRange rows) const {
    state_->angle_rows.fetch_add(rows.end - rows.begin);
    for (int64_t row = rows.begin; row < rows.end; ++row) {
      const int64_t position = task.positions.ids.empty() ? task.positions.start + row * task.positions.stride
                                                          : task.positions.ids[static_cast<size_t>(row)];
      if (position >= (int64_t{1} << 31) || position <= -(int64_t{1} << 31)) {
        return absl::InvalidArgumentError("position out of range");
      }
      for (int64_t pair = 0; pair < task.plan->pairs(); ++pair) {
        const auto& limb = task.plan->frequencies[static_cast<size_t>(pair)].limb;
        const uint64_t plan =
            limb[2] + limb[3] + (task.inverse ? 77 : 0) + std::bit_cast<uint64_t>(task.plan->attention_factor.hi);
        Store(task.cos, row * task.row_stride + pair, task.dtype, Value(plan, position, 2 * pair));
        Store(task.sin, row * task.row_stride + pair, task.dtype, Value(plan, position, 2 * pair + 1));
      }
    }
    return absl::OkStatus();
  }

  absl::Status RunBias(const BiasVectorTask& task, RowRange rows) const {
    state_->bias_rows.fetch_add(rows.end - rows.begin);
    for (int64_t head = 0; head < task.heads; ++head) {
      const double slope = std::get<const BiasPlan*>(task.plan)->slopes[static_cast<size_t>(task.first_head + head)].hi;
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        Store(task.out, head * task.head_stride + row, task.dtype,
              Value(std::bit_cast<uint64_t>(slope), task.first_distance + row, head + task.first_head));
      }
    }
    return absl::OkStatus();
  }

  const std::shared_ptr<FakeBackendState> state_;
  const std::unique_ptr<Backend> reference_ = MakeReferenceBackend();
};

}  // namespace phasor::testing

#endif  // PHASOR_TESTS_TESTING_FAKE_BACKEND_H_
