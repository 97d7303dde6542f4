#include "kernels/cuda/lowering.h"

#include "kernels/cuda/lower.h"

namespace phasor::cuda {
namespace {

// Tasks without an overload of LowerTask are the CPU's.
template <typename T>
concept HasLowering = requires(const T& task) { LowerTask(task); };

template <typename T>
concept MayLieOnDevice = requires(const T& task) { LowerTaskInPlace(task); };

struct MovedBytes {
  int64_t operator()(const AngleTask& t) const { return 2 * t.plan->pairs() * SizeOf(t.dtype); }
  int64_t operator()(const RotateTask& t) const { return 2 * t.heads * t.head_dim * SizeOf(t.dtype); }
  int64_t operator()(const ToeplitzTask& t) const { return t.keys * t.element_size; }
  int64_t operator()(const AssembleTask& t) const {
    return (t.columns * (t.out_sin != nullptr ? 2 : 1) + 2 * t.pairs) * t.element_size;
  }
  int64_t operator()(const WindowTask& t) const { return t.window.tokens() * t.element_size; }
  int64_t operator()(const BiasMatrixTask& t) const { return t.keys * SizeOf(t.dtype); }
  int64_t operator()(const MaskTask& t) const { return 2 * t.keys * SizeOf(t.dtype); }
  int64_t operator()(const AddTask& t) const { return 2 * t.dim * SizeOf(t.dtype); }
  template <typename T>
  int64_t operator()(const T&) const {
    return 0;
  }
};

}  // namespace

int64_t MovedBytesPerRow(const Task& task) { return std::visit(MovedBytes(), task); }

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

const void* PlaceOf(const Task& task) {
  return std::visit(
      [](const auto& t) -> const void* {
        if constexpr (MayLieOnDevice<std::decay_t<decltype(t)>>) {
          return t.x == t.y ? t.x : nullptr;
        } else {
          return nullptr;
        }
      },
      task);
}

absl::StatusOr<std::unique_ptr<Lowered>> LowerInPlace(const Task& task) {
  return std::visit(
      [](const auto& t) -> LoweredOr {
        if constexpr (MayLieOnDevice<std::decay_t<decltype(t)>>) {
          return LowerTaskInPlace(t);
        } else {
          return absl::InternalError("a task that does not work in place");
        }
      },
      task);
}

}  // namespace phasor::cuda
