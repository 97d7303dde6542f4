#include "kernels/cuda/lower.h"

namespace phasor::cuda {
namespace {

class LoweredToeplitz final : public Lowered {
 public:
  explicit LoweredToeplitz(const ToeplitzTask& task) : task_(task) {
    const int64_t heads = task.heads;
    const int64_t elements = heads == 0 ? 0 : (heads - 1) * task.vector_stride + task.queries + task.keys - 1;
    vector_ = {task.vector, elements * task.element_size, 0};
  }

  std::span<const Constant> constants() const override { return {&vector_, 1}; }
  int64_t bytes_per_row() const override { return std::max<int64_t>(1, task_.keys * task_.element_size); }
  Transfers TransfersOf(RowRange rows) const override {
    const int64_t row_bytes = task_.keys * task_.element_size;
    return {{}, {{static_cast<std::byte*>(task_.out) + rows.begin * row_bytes, (rows.end - rows.begin) * row_bytes}}, {}};
  }
  std::vector<KernelParams> Launches(RowRange rows, const Addresses& at) const override {
    ToeplitzParams p;
    p.element_size = static_cast<int32_t>(task_.element_size);
    p.first_row = rows.begin;
    p.rows = rows.end - rows.begin;
    p.queries = task_.queries;
    p.keys = task_.keys;
    p.vector = at.constants[0];
    p.vector_stride = task_.vector_stride;
    p.out = at.outputs[0];
    return {p};
  }

 private:
  const ToeplitzTask& task_;
  Constant vector_;
};

}  // namespace

LoweredOr LowerTask(const ToeplitzTask& task) {
  if (task.vector == nullptr || task.out == nullptr) {
    return absl::InvalidArgumentError("bias matrix without a vector or an output");
  }
  return std::make_unique<LoweredToeplitz>(task);
}

}  // namespace phasor::cuda
