#include "kernels/backend.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "kernels/backend_choice.h"
#include "kernels/cpu/add.h"
#include "kernels/cpu/angle_table.h"
#include "kernels/cpu/assemble.h"
#include "kernels/cpu/bias_matrix.h"
#include "kernels/cpu/bias_vector.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/mask.h"
#include "kernels/cpu/perceptron.h"
#include "kernels/cpu/polar.h"
#include "kernels/cpu/position_terms.h"
#include "kernels/cpu/relative_product.h"
#include "kernels/cpu/rotate.h"
#include "kernels/cpu/score_product.h"
#include "kernels/cpu/score_terms.h"
#include "kernels/cpu/table_rows.h"
#include "kernels/cpu/toeplitz.h"
#include "kernels/cpu/window_bias.h"
#if defined(PHASOR_CUDA)
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cudart_driver.h"
#include "kernels/cuda/usable_devices.h"
#endif
#include "kernels/reference/reference_backend.h"

namespace phasor {
namespace {

#if defined(PHASOR_CUDA)
absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(const BackendOptions& options) {
  const auto driver = cuda::MakeCudartDriver();
  auto usable = cuda::FindUsableDevices(driver, options.devices, *MakeReferenceBackend());
  if (!usable.ok()) return usable.status();
  BackendOptions good = options;
  good.devices = std::move(usable->ids);
  return cuda::MakeCudaBackend(driver, MakeCpuBackend(), good, usable->left_out);
}
absl::Status ProbeCuda() { return cuda::MakeCudartDriver()->Devices().status(); }
#else
absl::StatusOr<std::unique_ptr<Backend>> MakeCuda(const BackendOptions&) { return absl::UnavailableError("not built in"); }
absl::Status ProbeCuda() { return absl::UnavailableError("not built in"); }
#endif
absl::StatusOr<std::unique_ptr<Backend>> MakeCpu(const BackendOptions&) { return MakeCpuBackend(); }
absl::StatusOr<std::unique_ptr<Backend>> MakeReference(const BackendOptions&) { return MakeReferenceBackend(); }
absl::Status Always() { return absl::OkStatus(); }

// In the order in which "auto" tries them. One that is not built in is among them, so that asking for it by name is answered
// with the reason.
constexpr BackendEntry kBackends[] = {
    {"cuda", &MakeCuda, &ProbeCuda},
    {"cpu", &MakeCpu, &Always},
    {"reference", &MakeReference, &Always},
};

struct SliceRows {
  int64_t operator()(const AngleTask& task) const { return AngleRowsPerSlice(task); }
  int64_t operator()(const RotateTask& task) const { return RotateRowsPerSlice(task); }
  int64_t operator()(const BiasVectorTask& task) const { return BiasVectorRowsPerSlice(task); }
  int64_t operator()(const ToeplitzTask& task) const { return ToeplitzRowsPerSlice(task); }
  int64_t operator()(const AssembleTask& task) const { return AssembleRowsPerSlice(task); }
  int64_t operator()(const WindowTask& task) const { return WindowRowsPerSlice(task); }
  int64_t operator()(const PerceptronTask& task) const { return PerceptronRowsPerSlice(task); }
  int64_t operator()(const PairPerceptronTask& task) const { return PerceptronRowsPerSlice(task); }
  int64_t operator()(const SumDifferenceTask& task) const { return SumDifferenceRowsPerSlice(task); }
  int64_t operator()(const PositionProductTask& task) const { return PositionProductRowsPerSlice(task); }
  int64_t operator()(const MaskTask& task) const { return MaskRowsPerSlice(task); }
  int64_t operator()(const BiasMatrixTask& task) const { return BiasMatrixRowsPerSlice(task); }
  int64_t operator()(const ScoreProductTask& task) const { return ScoreProductRowsPerSlice(task); }
  int64_t operator()(const RelativeProductTask& task) const { return RelativeProductRowsPerSlice(task); }
  int64_t operator()(const GridProductTask& task) const { return ScoreTermRowsPerSlice(task); }
  int64_t operator()(const ContextualPositionTask& task) const { return ScoreTermRowsPerSlice(task); }
  int64_t operator()(const ScoreSumTask& task) const { return ScoreTermRowsPerSlice(task); }
  int64_t operator()(const ScoreOutputTask& task) const { return ScoreTermRowsPerSlice(task); }
  int64_t operator()(const RelativeValueTask& task) const { return ScoreTermRowsPerSlice(task); }
  int64_t operator()(const GatherRowsTask& task) const { return GatherRowsPerSlice(task); }
  int64_t operator()(const FourierRowsTask& task) const { return FourierRowsPerSlice(task); }
  int64_t operator()(const AddTask& task) const { return AddRowsPerSlice(task); }
  int64_t operator()(const PolarAngleTask& task) const { return PolarRowsPerSlice(task); }
  int64_t operator()(const MixedAngleTask& task) const { return PolarRowsPerSlice(task); }
  int64_t operator()(const PolarTask& task) const { return PolarRowsPerSlice(task); }
};

}  // namespace

std::string_view Name(CpuReason reason) {
  constexpr std::string_view kNames[kCpuReasons] = {"small", "task", "layout", "dtype", "positions", "memory"};
  return kNames[static_cast<size_t>(reason)];
}

std::string PlaceOfWork(const Backend& backend, const CancelFlag& notes) {
  std::string reasons;
  for (int i = 0; i < kCpuReasons; ++i) {
    const auto reason = static_cast<CpuReason>(i);
    if (notes.ran_on_cpu(reason)) absl::StrAppend(&reasons, reasons.empty() ? "cpu:" : ",", std::string(Name(reason)));
  }
  std::string name(backend.name());
  if (reasons.empty()) return name;
  return notes.ran_on_device() ? absl::StrCat(name, ",", reasons) : reasons;
}

absl::Status Backend::RunAll(std::span<const Task> tasks, std::span<const int64_t> rows, const CancelFlag* cancel) const {
  for (size_t i = 0; i < tasks.size(); ++i) {
    if (absl::Status status = Run(tasks[i], {0, rows[i]}, cancel); !status.ok()) return status;
  }
  return absl::OkStatus();
}

int64_t Backend::RowsPerSlice(const Task& task) const { return phasor::RowsPerSlice(task); }

std::vector<BackendInfo> ListBackends() {
  std::vector<BackendInfo> list;
  for (const BackendEntry& entry : kBackends) {
    const absl::Status usable = entry.probe();
    list.push_back({entry.name, usable.ok(), std::string(usable.message())});
  }
  return list;
}

absl::StatusOr<BackendChoice> ChooseBackend(std::span<const BackendEntry> entries, std::string_view name,
                                            const BackendOptions& options) {
  BackendChoice choice;
  std::string names = "auto";
  for (const BackendEntry& entry : entries) {
    absl::Status usable = entry.probe();
    if (usable.ok() && choice.backend == nullptr && (name == "auto" || name == entry.name)) {
      auto made = entry.make(options);
      usable = made.status();
      if (made.ok()) choice.backend = *std::move(made);
      if (absl::IsInvalidArgument(usable)) return usable;  // a mistake of whoever starts it, not of the machine
    }
    choice.list.push_back({entry.name, usable.ok(), std::string(usable.message())});
    absl::StrAppend(&names, ", ", std::string(entry.name));
    if (!usable.ok()) absl::StrAppend(&names, " (", usable.message(), ")");
  }
  if (choice.backend != nullptr) return choice;
  return absl::FailedPreconditionError(absl::StrCat("backend: given ", std::string(name), "; allowed: ", names));
}

absl::StatusOr<BackendChoice> ChooseBackend(std::string_view name, const BackendOptions& options) {
  return ChooseBackend(kBackends, name, options);
}

absl::StatusOr<std::unique_ptr<Backend>> CreateBackend(std::string_view name, const BackendOptions& options) {
  auto choice = ChooseBackend(name, options);
  if (!choice.ok()) return choice.status();
  return std::move(choice->backend);
}

int64_t RowsPerSlice(const Task& task) { return std::visit(SliceRows{}, task); }

}  // namespace phasor
