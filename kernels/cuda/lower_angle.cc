#include <string>

#include "absl/strings/str_cat.h"

#include "kernels/cuda/angle_setup.h"
#include "kernels/cuda/lower.h"
#include "kernels/tasks/position_check.h"

namespace phasor::cuda {
namespace {

bool HasList(const PositionSource& positions) { return !positions.ids.empty() || !positions.fractional_ids.empty(); }

class LoweredAngle final : public Lowered {
 public:
  explicit LoweredAngle(const AngleTask& task) : task_(task), setup_(*task.plan, task.inverse) {
    block_ = {setup_.words().data(), setup_.bytes(), 0};
  }

  std::span<const Constant> constants() const override { return {&block_, setup_.parts().empty() ? size_t{0} : size_t{1}}; }
  int64_t bytes_per_row() const override {
    int64_t bytes = row_bytes() * ((task_.cos != nullptr) + (task_.sin != nullptr));
    for (const AnglePart& part : setup_.parts()) bytes += HasList(task_.axis(part.axis)) ? 8 : 0;
    return std::max<int64_t>(1, bytes);
  }
  // A pass of the recurrence is not begun twice.
  int64_t rows_per_cut() const override { return kAnglePassRows; }

  absl::Status CheckRows(RowRange rows) const override {
    if (rows.begin >= rows.end) return absl::OkStatus();
    if (rows.begin < 0) return absl::InvalidArgumentError("angle task with a negative row");
    for (int64_t axis = 0; axis < task_.plan->axes; ++axis) {
      if (auto status = CheckPositions(task_.axis(axis), rows.begin, rows.end); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  Transfers TransfersOf(RowRange rows) const override {
    const int64_t count = rows.end - rows.begin;
    Transfers moves;
    for (const AnglePart& part : setup_.parts()) {
      const PositionSource& positions = task_.axis(part.axis);
      if (!HasList(positions)) continue;
      const void* list = positions.fractional_ids.empty() ? static_cast<const void*>(positions.ids.data() + rows.begin)
                                                          : positions.fractional_ids.data() + rows.begin;
      moves.inputs.push_back({static_cast<std::byte*>(const_cast<void*>(list)), count * 8});
    }
    const int64_t pitch = task_.row_stride * SizeOf(task_.dtype);
    for (void* out : {task_.cos, task_.sin}) {
      if (out == nullptr) continue;
      moves.outputs.push_back({static_cast<std::byte*>(out) + rows.begin * pitch, row_bytes(), count, pitch});
    }
    return moves;
  }

  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    std::vector<KernelParams> launches;
    size_t input = 0;
    for (const AnglePart& part : setup_.parts()) {
      const PositionSource& positions = task_.axis(part.axis);
      AngleParams p;
      setup_.Fill(part, at.constants[0], p);
      p.method = MethodOf(positions);
      p.dtype = task_.dtype;
      p.rows = rows.end - rows.begin;
      p.row_stride = task_.plan->pairs();
      p.cos = task_.cos == nullptr ? nullptr : at.outputs[0];
      p.sin = task_.sin == nullptr ? nullptr : at.outputs[task_.cos == nullptr ? 0 : 1];
      if (HasList(positions)) {
        const std::byte* const list = at.inputs[input++];
        if (positions.fractional_ids.empty()) {
          p.ids = reinterpret_cast<const int64_t*>(list);
        } else {
          p.fractional_ids = reinterpret_cast<const double*>(list);
        }
      } else {
        p.stride = positions.stride;
        p.first = positions.start + rows.begin * positions.stride;
      }
      launches.emplace_back(p);
    }
    return launches;
  }

 private:
  int64_t row_bytes() const { return task_.plan->pairs() * SizeOf(task_.dtype); }
  AngleMethod MethodOf(const PositionSource& positions) const {
    if (task_.plan->precision == Precision::kCompatF32) return AngleMethod::kCompat;
    if (!positions.fractional_ids.empty()) return AngleMethod::kFractional;
    const bool consecutive = positions.ids.empty() && positions.stride == 1;
    return consecutive && task_.dtype != DType::kF64 ? AngleMethod::kRange : AngleMethod::kWhole;
  }

  const AngleTask& task_;
  const AngleSetup setup_;
  Constant block_;
};

}  // namespace

LoweredOr LowerTask(const AngleTask& task) {
  if (task.plan == nullptr) return absl::InvalidArgumentError("angle task without a plan");
  if (!IsFloat(task.dtype)) {
    return absl::InvalidArgumentError(absl::StrCat("angle tables cannot be ", std::string(Name(task.dtype))));
  }
  if (task.cos == nullptr && task.sin == nullptr) return absl::InvalidArgumentError("angle task without an output");
  if (task.row_stride < task.plan->pairs()) {
    return absl::InvalidArgumentError(
        absl::StrCat("row_stride ", task.row_stride, " is less than the plan's ", task.plan->pairs(), " pairs"));
  }
  if (task.dtype == DType::kF64 && task.plan->precision == Precision::kExact) {
    for (int64_t axis = 0; axis < task.plan->axes; ++axis) {
      if (!task.axis(axis).fractional_ids.empty()) return LeftToCpu("dtype");
    }
  }
  return std::make_unique<LoweredAngle>(task);
}

}  // namespace phasor::cuda
