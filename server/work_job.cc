#include "server/work_job.h"

#include "kernels/core/key_bytes.h"

namespace phasor::server {

absl::StatusOr<PlanEntries> ResolveSources(EngineCore* core, const Work& work) {
  PlanEntries plans;
  for (const TableSource& source : work.sources) {
    auto plan = core->plans.Resolve(source.spec, source.sequence_length, source.precision, source.weight_bytes);
    if (!plan.ok()) return AtSource(source, plan.status());
    plans.push_back(*std::move(plan));
  }
  return plans;
}

std::optional<PlanEntries> FindSources(EngineCore* core, const Work& work) {
  PlanEntries plans;
  for (const TableSource& source : work.sources) {
    auto plan = core->plans.Find(source.spec, source.sequence_length, source.precision);
    if (plan == nullptr) return std::nullopt;
    plans.push_back(std::move(plan));
  }
  return plans;
}

void Work::CutOutputs(int64_t rows, int64_t count) {
  if (count > 0) std::erase_if(outputs, [](const WorkArray& array) { return array.slot == Slot::kInvFreq; });
  for (WorkArray& array : outputs) {
    if (array.slot == Slot::kInvFreq) continue;
    array.bytes = rows > 0 ? array.bytes / rows * count : 0;
    array.shape[0] = count;
  }
  position_bytes = 0;
  key.clear();
  rope_delta.clear();
  warnings.clear();
}

std::string WorkFingerprint(const Work& work, const PlanEntries& plans) {
  if (work.key.empty()) return {};
  std::vector<const Resolved*> resolved;
  for (const auto& plan : plans) resolved.push_back(&plan->resolved);
  if (std::string plain = work.PlainFingerprint(resolved); !plain.empty()) return plain;
  KeyBytes bytes;
  bytes.Text("work");
  bytes.Int(kNumericsVersion);
  bytes.Int(static_cast<int64_t>(plans.size()));
  for (const auto& plan : plans) bytes.Text(plan->key);
  bytes.Text(work.key);
  for (const WorkArray& array : work.outputs) {
    bytes.Byte(static_cast<uint8_t>(array.slot));
    bytes.Byte(static_cast<uint8_t>(array.dtype));
    bytes.Ints(array.shape);
  }
  return Sha256(bytes.bytes());
}

std::vector<std::pair<Slot, Array>> DescribeArrays(const Work& work) {
  std::vector<std::pair<Slot, Array>> arrays;
  for (const WorkArray& array : work.outputs) {
    arrays.emplace_back(array.slot, Array{array.dtype, array.shape, array.strides, {}});
  }
  return arrays;
}

void SetArray(Slot slot, Array array, PrecomputeResult* result) {
  switch (slot) {
    case Slot::kTable:
      result->table = std::move(array);
      break;
    case Slot::kCos:
      result->cos = std::move(array);
      break;
    case Slot::kSin:
      result->sin = std::move(array);
      break;
    case Slot::kInvFreq:
      result->inv_freq = std::move(array);
      break;
    default:
      result->bias = std::move(array);
      break;
  }
}

void SetArray(Slot, Array array, ApplyResult* result) { result->tensors.push_back(std::move(array)); }

void SetArray(Slot slot, Array array, ScoresResult* result) {
  (slot == Slot::kValues ? result->values : result->scores) = std::move(array);
}

}  // namespace phasor::server
