#include "kernels/cuda/lower.h"
#include "kernels/cuda/lower_parts.h"

namespace phasor::cuda {
namespace {

class LoweredWindow final : public Lowered {
 public:
  explicit LoweredWindow(const WindowTask& task) : task_(task) {
    const int64_t elements = task.heads == 0 ? 0 : (task.heads - 1) * task.table_stride + task.window.table_rows();
    table_ = {task.table, elements * task.element_size, 0};
  }

  absl::Status CheckRows(RowRange rows) const override {
    return RowsWithin(rows, task_.heads * task_.window.tokens(), "window bias: rows outside [0, heads·tokens)");
  }
  std::span<const Constant> constants() const override { return {&table_, 1}; }
  int64_t bytes_per_row() const override { return row_bytes(); }
  Transfers TransfersOf(RowRange rows) const override {
    return {{},
            {StripOf(static_cast<std::byte*>(task_.out) + rows.begin * row_bytes(), row_bytes(), rows.end - rows.begin,
                     row_bytes())},
            {}};
  }
  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    WindowParams p;
    p.element_size = static_cast<int32_t>(task_.element_size);
    p.first_row = rows.begin;
    p.rows = rows.end - rows.begin;
    p.window = task_.window;
    p.table = at.constants[0];
    p.table_stride = task_.table_stride;
    p.out = at.outputs[0];
    return {p};
  }

 private:
  int64_t row_bytes() const { return task_.window.tokens() * task_.element_size; }

  const WindowTask& task_;
  Constant table_;
};

}  // namespace

LoweredOr LowerTask(const WindowTask& task) {
  if (task.element_size != 2 && task.element_size != 4 && task.element_size != 8) {
    return absl::InvalidArgumentError("window bias: the element size must be 2, 4 or 8");
  }
  if (task.window.height < 1 || task.window.width < 1 || task.heads < 0) {
    return absl::InvalidArgumentError("window bias: extents must be at least 1");
  }
  if (task.table == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("window bias: table and out must not be null");
  }
  return std::make_unique<LoweredWindow>(task);
}

}  // namespace phasor::cuda
