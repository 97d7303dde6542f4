#include "kernels/cuda/usable_devices.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/lowering.h"
#include "kernels/cuda/pipeline.h"
#include "kernels/encodings/encoding.h"

namespace phasor::cuda {
namespace {

// Tries tasks on one device, each against what the reference makes of it.
class Trial {
 public:
  Trial(Driver& driver, const DeviceInfo& info, const Backend& reference)
      : device_(&driver, info, int64_t{16} << 20), reference_(reference) {}

  // A bias of two heads.
  absl::Status Toeplitz() {
    constexpr int64_t kHeads = 2, kQueries = 5, kKeys = 7, kVector = kQueries + kKeys - 1;
    std::vector<float> vector(kHeads * kVector), bias(kHeads * kQueries * kKeys);
    for (size_t i = 0; i < vector.size(); ++i) vector[i] = static_cast<float>(i);
    ToeplitzTask task;
    task.heads = kHeads;
    task.queries = kQueries;
    task.keys = kKeys;
    task.vector_stride = kVector;
    task.vector = vector.data();
    task.out = bias.data();
    return Compare("a Toeplitz bias", task, kHeads * kQueries, std::as_writable_bytes(std::span(bias)));
  }

  // Positions around 0, where entries of slow pairs are made the exact way, and far ones in no order.
  absl::Status Table(const AnglePlan& plan, DType dtype) {
    constexpr int64_t kRows = 20;
    constexpr std::array<int64_t, 5> kFar = {2147483647, 1, -131071, 1048575, 40};
    std::vector<std::byte> table(static_cast<size_t>(2 * kRows * plan.pairs() * SizeOf(dtype)));
    AngleTask task;
    task.plan = &plan;
    task.dtype = dtype;
    task.cos = table.data();
    task.sin = table.data() + table.size() / 2;
    task.row_stride = plan.pairs();
    task.positions.start = -5;
    if (absl::Status status = Compare("a table", task, kRows, table); !status.ok()) return status;
    task.positions.ids = kFar;
    return Compare("a table of some positions", task, static_cast<int64_t>(kFar.size()), table);
  }

  // Vectors of which a part is rotated.
  absl::Status Rotation(DType dtype) {
    constexpr int64_t kTokens = 9, kHeads = 3, kPairs = 8, kDim = 20;
    std::vector<std::byte> x(static_cast<size_t>(kTokens * kHeads * kDim * SizeOf(dtype))), y(x.size());
    std::vector<float> table(2 * kTokens * kPairs);
    for (size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 97) / 97.0f - 0.5f;
    // Numbers of any type: their sign, exponent and first bits are in their last byte or two.
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<std::byte>(i * 37 % 64);
    RotateTask task;
    task.dtype = dtype;
    task.tokens = kTokens;
    task.heads = kHeads;
    task.head_dim = kDim;
    task.pairs = kPairs;
    task.x = x.data();
    task.y = y.data();
    task.x_token_stride = task.y_token_stride = kHeads * kDim;
    task.x_head_stride = task.y_head_stride = kDim;
    task.cos = table.data();
    task.sin = table.data() + kTokens * kPairs;
    task.table_stride = kPairs;
    return Compare("a rotation", task, kTokens, y);
  }

 private:
  absl::Status Run(const Task& task, int64_t rows) {
    const auto lowered = Lower(task);
    if (!lowered.ok()) return lowered.status();
    auto lane = device_.TakeLane();
    if (!lane.ok()) return lane.status();
    DeviceTimes times;
    bool began = false;
    return RunPipeline(**lowered, {0, rows}, nullptr, {}, **lane, &times, &began);
  }

  absl::Status Compare(std::string_view what, const Task& task, int64_t rows, std::span<std::byte> out) {
    std::fill(out.begin(), out.end(), std::byte{0xee});
    if (absl::Status status = Run(task, rows); !status.ok()) return status;
    const std::vector<std::byte> got(out.begin(), out.end());
    std::fill(out.begin(), out.end(), std::byte{0xee});
    if (absl::Status status = reference_.Run(task, {0, rows}, nullptr); !status.ok()) return status;
    if (std::equal(got.begin(), got.end(), out.begin())) return absl::OkStatus();
    return absl::InternalError(absl::StrCat("wrong bits in ", std::string(what)));
  }

  Device device_;
  const Backend& reference_;
};

absl::StatusOr<AnglePlan> SomePlan() {
  RopeSpec rope;
  rope.head_dim = 16;
  const auto spec = Canonicalize(EncodingSpec(rope));
  if (!spec.ok()) return spec.status();
  const auto resolved = Resolve(*spec, std::nullopt, Precision::kExact);
  if (!resolved.ok()) return resolved.status();
  return std::get<AnglePlan>(resolved->plan);
}

absl::Status TryKernels(Driver& driver, const DeviceInfo& info, const Backend& reference) {
  const auto plan = SomePlan();
  if (!plan.ok()) return plan.status();
  Trial trial(driver, info, reference);
  if (absl::Status status = trial.Toeplitz(); !status.ok()) return status;
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    if (absl::Status status = trial.Table(*plan, dtype); !status.ok()) return status;
    if (absl::Status status = trial.Rotation(dtype); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<UsableDevices> FindUsableDevices(const std::shared_ptr<Driver>& driver, const std::vector<int>& wanted,
                                                const Backend& reference) {
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
    const absl::Status status =
        info.unusable.empty() ? TryKernels(*driver, info, reference) : absl::UnavailableError(info.unusable);
    if (status.ok()) {
      usable.ids.push_back(info.id);
      continue;
    }
    absl::StrAppend(&usable.left_out, usable.left_out.empty() ? "" : "; ", NameOf(info), ": ", status.message());
  }
  const bool all_were_named = !wanted.empty() && !usable.left_out.empty();
  if (usable.ids.empty() || all_were_named) return absl::UnavailableError(usable.left_out);
  return usable;
}

}  // namespace phasor::cuda
