#include "kernels/cpu/cpu_backend.h"

#include "absl/strings/str_cat.h"

#include "kernels/cpu/add.h"
#include "kernels/cpu/angle_table.h"
#include "kernels/cpu/assemble.h"
#include "kernels/cpu/bias_matrix.h"
#include "kernels/cpu/bias_vector.h"
#include "kernels/cpu/cpu_target.h"
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

namespace phasor {
namespace {

class CpuBackend final : public Backend {
 public:
  std::string_view name() const override { return "cpu"; }

  std::string description() const override {
    const std::string target = CurrentCpuTarget();
    // Highway's names for the two AVX-512 levels are not everyone's.
    return target.starts_with("avx3") ? absl::StrCat("avx512 (", target, ")") : target;
  }

  absl::Status Run(const Task& task, RowRange rows, const CancelFlag* cancel) const override {
    return std::visit([&](const auto& t) { return RunTask(t, rows, cancel); }, task);
  }

 private:
  absl::Status RunTask(const AngleTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunAngleTask(task, rows, cancel, setups_);
  }
  absl::Status RunTask(const RotateTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunRotate(task, rows, cancel);
  }
  absl::Status RunTask(const BiasVectorTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunBiasVector(task, rows, cancel);
  }
  absl::Status RunTask(const ToeplitzTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunToeplitz(task, rows, cancel);
  }
  absl::Status RunTask(const AssembleTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunAssemble(task, rows, cancel);
  }
  absl::Status RunTask(const WindowTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunWindow(task, rows, cancel);
  }
  absl::Status RunTask(const PerceptronTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunPerceptron(task, rows, cancel);
  }
  absl::Status RunTask(const PairPerceptronTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunPerceptron(task, rows, cancel);
  }
  absl::Status RunTask(const SumDifferenceTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunSumDifference(task, rows, cancel);
  }
  absl::Status RunTask(const GatherRowsTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunGatherRows(task, rows, cancel);
  }
  absl::Status RunTask(const FourierRowsTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunFourierRows(task, rows, cancel);
  }
  absl::Status RunTask(const PositionProductTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunPositionProduct(task, rows, cancel);
  }
  absl::Status RunTask(const MaskTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunMask(task, rows, cancel);
  }
  absl::Status RunTask(const BiasMatrixTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunBiasMatrix(task, rows, cancel);
  }
  absl::Status RunTask(const ScoreProductTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunScoreProduct(task, rows, cancel);
  }
  absl::Status RunTask(const RelativeProductTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunRelativeProduct(task, rows, cancel);
  }
  absl::Status RunTask(const GridProductTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunScoreTerm(task, rows, cancel);
  }
  absl::Status RunTask(const ContextualPositionTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunScoreTerm(task, rows, cancel);
  }
  absl::Status RunTask(const ScoreSumTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunScoreTerm(task, rows, cancel);
  }
  absl::Status RunTask(const ScoreOutputTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunScoreTerm(task, rows, cancel);
  }
  absl::Status RunTask(const RelativeValueTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunScoreTerm(task, rows, cancel);
  }
  absl::Status RunTask(const AddTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunAdd(task, rows, cancel);
  }
  absl::Status RunTask(const PolarAngleTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunPolar(task, rows, cancel);
  }
  absl::Status RunTask(const MixedAngleTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunPolar(task, rows, cancel);
  }
  absl::Status RunTask(const PolarTask& task, RowRange rows, const CancelFlag* cancel) const {
    return RunPolar(task, rows, cancel);
  }

  mutable AngleSetupCache setups_;
};

}  // namespace

std::unique_ptr<Backend> MakeCpuBackend() { return std::make_unique<CpuBackend>(); }

}  // namespace phasor
