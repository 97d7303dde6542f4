#include "kernels/cuda/usable_devices.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/lowering.h"
#include "kernels/cuda/pipeline.h"

namespace phasor::cuda {
namespace {

// A bias of two heads: every element is one of the vectors'.
absl::Status TryKernel(Driver& driver, const DeviceInfo& info) {
  constexpr int64_t kHeads = 2, kQueries = 5, kKeys = 7, kVector = kQueries + kKeys - 1;
  std::vector<float> vector(kHeads * kVector), bias(kHeads * kQueries * kKeys, -1.0f);
  for (size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<float>(i);
  ToeplitzTask task;
  task.heads = kHeads;
  task.queries = kQueries;
  task.keys = kKeys;
  task.vector_stride = kVector;
  task.vector = vector.data();
  task.out = bias.data();
  const Task whole = task;
  const auto lowered = Lower(whole);
  if (!lowered.ok()) return lowered.status();
  Device device(&driver, info, int64_t{16} << 20);
  auto lane = device.TakeLane();
  if (!lane.ok()) return lane.status();
  DeviceTimes times;
  bool began = false;
  const absl::Status status = RunPipeline(**lowered, {0, kHeads * kQueries}, nullptr, {}, **lane, &times, &began);
  if (!status.ok()) return status;
  for (int64_t row = 0; row < kHeads * kQueries; ++row) {
    const float* const from = vector.data() + row / kQueries * kVector + (kQueries - 1 - row % kQueries);
    if (!std::equal(from, from + kKeys, bias.data() + row * kKeys)) return absl::InternalError("a kernel gave wrong bits");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UsableDevices> FindUsableDevices(const std::shared_ptr<Driver>& driver, const std::vector<int>& wanted) {
  const auto found = driver->Devices();
  if (!found.ok()) return found.status();
  std::string known;
  for (const DeviceInfo& info : *found) absl::StrAppend(&known, known.empty() ? "" : ", ", info.id);
  for (const int id : wanted) {
    const bool is_there = std::any_of(found->begin(), found->end(), [&](const DeviceInfo& info) { return info.id == id; });
    if (!is_there) return absl::InvalidArgumentError(absl::StrCat("device: given ", id, "; allowed: ", known));
  }
  UsableDevices usable;
  for (const DeviceInfo& info : *found) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), info.id) == wanted.end()) continue;
    const absl::Status status = TryKernel(*driver, info);
    if (status.ok()) {
      usable.ids.push_back(info.id);
      continue;
    }
    absl::StrAppend(&usable.left_out, usable.left_out.empty() ? "" : "; ", "device ", info.id, " (", info.name,
                    ", compute capability ", info.major, ".", info.minor, "): ", status.message());
  }
  const bool all_were_named = !wanted.empty() && !usable.left_out.empty();
  if (usable.ids.empty() || all_were_named) return absl::UnavailableError(usable.left_out);
  return usable;
}

}  // namespace phasor::cuda
