// From a kernel's parameters to its body: the one place that turns them into types.
#ifndef PHASOR_KERNELS_CUDA_KERNELS_CUH_
#define PHASOR_KERNELS_CUDA_KERNELS_CUH_

#include <cstdint>
#include <type_traits>
#include <variant>
#include <vector>

#include "kernels/core/dtype.h"
#include "kernels/cuda/add.cuh"
#include "kernels/cuda/angle_direct.cuh"
#include "kernels/cuda/angle_range.cuh"
#include "kernels/cuda/assemble.cuh"
#include "kernels/cuda/bias_matrix.cuh"
#include "kernels/cuda/gather.cuh"
#include "kernels/cuda/kernel_list.h"
#include "kernels/cuda/mask.cuh"
#include "kernels/cuda/rotate.cuh"
#include "kernels/cuda/toeplitz.cuh"
#include "kernels/cuda/window.cuh"

namespace phasor::cuda {

// launch(body), with the body that runs those parameters.
template <typename Launch>
struct BodyVisitor {
  Launch& launch;

  void operator()(const AngleParams& p) const {
    VisitFloat(p.dtype, [&](auto tag) { VisitAngle<typename decltype(tag)::type>(p); });
  }
  template <typename T>
  void VisitAngle(const AngleParams& p) const {
    if (p.method == AngleMethod::kCompat) return launch(AngleDirectBody<T, AngleMethod::kCompat>{p});
    if constexpr (std::is_same_v<T, double>) {
      launch(AngleDirectBody<double, AngleMethod::kWhole>{p});
    } else {
      if (p.method == AngleMethod::kRange) return launch(AngleRangeBody<T>{p});
      if (p.method == AngleMethod::kWhole) return launch(AngleDirectBody<T, AngleMethod::kWhole>{p});
      launch(AngleDirectBody<T, AngleMethod::kFractional>{p});
    }
  }

  void operator()(const RotateParams& p) const {
    VisitFloat(p.dtype, [&](auto tag) { launch(RotateBody<typename decltype(tag)::type>{p}); });
  }
  void operator()(const RotateGroupParams& p) const {
    const std::vector<RotateParams>& group = *p.tasks;
    VisitFloat(group.front().dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      if (group.size() <= 4) return launch(RotateGroupBody<T, 4>(group));
      if (group.size() <= 32) return launch(RotateGroupBody<T, 32>(group));
      launch(RotateGroupBody<T, kMaxRotateGroup>(group));
    });
  }

  void operator()(const ToeplitzParams& p) const {
    switch (p.element_size) {
      case 2:
        return launch(ToeplitzBody<uint16_t>{p});
      case 8:
        return launch(ToeplitzBody<uint64_t>{p});
      default:
        return launch(ToeplitzBody<uint32_t>{p});
    }
  }
  void operator()(const WindowParams& p) const { OfSize<WindowBody>(p.element_size, p); }
  void operator()(const BiasMatrixParams& p) const { OfSize<BiasMatrixBody>(p.element_size, p); }
  void operator()(const KeptKeysParams& p) const {
    if (p.additive.data == nullptr) return launch(KeptKeysBody<void>{p});
    VisitFloat(p.additive.dtype, [&](auto tag) { launch(KeptKeysBody<typename decltype(tag)::type>{p}); });
  }
  void operator()(const MaskParams& p) const {
    if (p.additive.data == nullptr) return OfSize<HideBody>(SizeOf(p.dtype), p);
    VisitFloat(p.dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      VisitFloat(p.additive.dtype, [&](auto add_tag) { launch(MaskBody<T, typename decltype(add_tag)::type>{p}); });
    });
  }
  void operator()(const AssembleParams& p) const { OfSize<AssembleBody>(p.element_size, p); }
  void operator()(const GatherParams& p) const {
    if (p.copies_bits()) return OfSize<GatherBitsBody>(SizeOf(p.to), p);
    VisitFloat(p.from, [&](auto from_tag) {
      using From = typename decltype(from_tag)::type;
      VisitFloat(p.to, [&](auto to_tag) { launch(GatherBody<From, typename decltype(to_tag)::type>{p}); });
    });
  }
  void operator()(const SquarePartialsParams& p) const {
    VisitFloat(p.from, [&](auto tag) { launch(SquarePartialsBody<typename decltype(tag)::type>{p}); });
  }
  void operator()(const NormsParams& p) const { launch(NormsBody{p}); }
  void operator()(const AddParams& p) const {
    VisitFloat(p.dtype, [&](auto tag) { launch(AddBody<typename decltype(tag)::type>{p}); });
  }

 private:
  // Elements that are moved as bits.
  template <template <typename> class Body, typename Params>
  void OfSize(int64_t element_size, const Params& p) const {
    switch (element_size) {
      case 2:
        return launch(Body<uint16_t>{p});
      case 8:
        return launch(Body<uint64_t>{p});
      default:
        return launch(Body<uint32_t>{p});
    }
  }
};

template <typename Launch>
void VisitBody(const KernelParams& params, Launch launch) {
  std::visit(BodyVisitor<Launch>{launch}, params);
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_KERNELS_CUH_
