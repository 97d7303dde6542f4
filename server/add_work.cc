#include "server/add_work.h"

#include <cstring>

#include "kernels/core/narrow.h"
#include "kernels/program/absolute_rows.h"

namespace phasor::server {
namespace {

DType ComputeTypeOf(DType dtype) { return dtype == DType::kF64 ? DType::kF64 : DType::kF32; }

const void* DataOf(const AddNumbers& numbers, DType dtype, const WorkMemory& memory) {
  if (!numbers.weight) return nullptr;
  const auto found = numbers.scratch.find(ComputeTypeOf(dtype));
  if (found != numbers.scratch.end()) return memory.scratch + found->second;
  return numbers.weight->data.get();
}

// Each number rounded once.
ProgramStep Convert(const Weight& weight, DType to, std::byte* out) {
  constexpr int64_t kPerSlice = 1 << 17;
  return ProgramStep::Of(ProgramStep::Function([&weight, to, out](RowRange range, const CancelFlag*) {
                           for (int64_t i = range.begin; i < range.end; ++i) {
                             if (to == DType::kF64) {
                               const double value = weight.at(i);
                               std::memcpy(out + i * 8, &value, 8);
                             } else {
                               const float value = Narrow<float>(weight.at(i));
                               std::memcpy(out + i * 4, &value, 4);
                             }
                           }
                           return absl::OkStatus();
                         }),
                         weight.elements(), kPerSlice);
}

}  // namespace

absl::StatusOr<std::vector<ProgramStep>> AddWork::Steps(std::span<const Resolved* const> plans,
                                                        const WorkMemory& memory) const {
  std::vector<ProgramStep> steps;
  for (const AddNumbers* numbers : {&gate, &first, &last}) {
    for (const auto& [dtype, offset] : numbers->scratch) {
      steps.push_back(Convert(*numbers->weight, dtype, memory.scratch + offset));
    }
  }
  AddSources rows;
  if (!plans.empty()) rows.pe = Rows(0, *plans[0]);
  if (plans.size() > 1) rows.other = Rows(1, *plans[1]);
  rows.per_batch = per_batch;
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (memory.inputs[i] == nullptr) continue;
    AddTask task = tasks[i];
    task.x = task.y = memory.inputs[i];
    task.gate.data = DataOf(gate, task.dtype, memory);
    task.first.data = DataOf(first, task.dtype, memory);
    task.last.data = DataOf(last, task.dtype, memory);
    steps.push_back(AddStep(task, rows));
  }
  return steps;
}

bool AddWork::WorksOnDevice(size_t input) const {
  // Wherever they lie, as long as none reaches into another.
  const AddTask& task = tasks[input];
  return (task.batch <= 1 || task.x_batch_stride >= task.dim) && (task.tokens <= 1 || task.x_token_stride >= task.dim);
}

void AddWork::PlaceNumbers() {
  for (const AddTask& task : tasks) {
    const DType dtype = ComputeTypeOf(task.dtype);
    for (AddNumbers* numbers : {&gate, &first, &last}) {
      if (!numbers->weight || numbers->weight->dtype == dtype || numbers->scratch.contains(dtype)) continue;
      numbers->scratch.emplace(dtype, scratch_bytes);
      scratch_bytes += (numbers->weight->elements() * SizeOf(dtype) + 63) / 64 * 64;
    }
  }
}

std::shared_ptr<const RowMaker> AddWork::Rows(size_t source, const Resolved& resolved) const {
  return std::make_shared<const RowMaker>(sources[source].spec.spec, resolved.plan, AbsoluteOf(positions));
}

}  // namespace phasor::server
