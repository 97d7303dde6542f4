#include "kernels/cuda/lowering.h"

#include "kernels/cuda/lower.h"

namespace phasor::cuda {
namespace {

// Tasks without an overload of LowerTask are the CPU's.
template <typename T>
concept HasLowering = requires(const T& task) { LowerTask(task); };

}  // namespace

absl::StatusOr<std::unique_ptr<Lowered>> Lower(const Task& task) {
  return std::visit(
      [](const auto& t) -> LoweredOr {
        if constexpr (HasLowering<std::decay_t<decltype(t)>>) {
          return LowerTask(t);
        } else {
          return LeftToCpu("task");
        }
      },
      task);
}

}  // namespace phasor::cuda
