// Element types of every tensor that Phasor reads or writes, and the one place that turns a run-time type into a C++ type.
#ifndef PHASOR_KERNELS_CORE_DTYPE_H_
#define PHASOR_KERNELS_CORE_DTYPE_H_

#include <cstdint>
#include <string_view>
#include <type_traits>

namespace phasor {

// IEEE binary16 and bfloat16, as bits: arithmetic never happens in these types.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};

enum class DType : uint8_t { kF64 = 1, kF32 = 2, kF16 = 3, kBF16 = 4, kI32 = 5, kI64 = 6, kBool = 7 };

constexpr int64_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kBool:
      return 1;
  }
  return 0;
}

constexpr bool IsFloat(DType dtype) {
  return dtype == DType::kF64 || dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16;
}

// "f64", "f32", "f16", "bf16", "i32", "i64", "bool".
constexpr std::string_view Name(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return "f64";
    case DType::kF32:
      return "f32";
    case DType::kF16:
      return "f16";
    case DType::kBF16:
      return "bf16";
    case DType::kI32:
      return "i32";
    case DType::kI64:
      return "i64";
    case DType::kBool:
      return "bool";
  }
  return "?";
}

template <typename T>
struct TypeTag {
  using type = T;
};

// Calls f(TypeTag<T>{}) with T = double, float, F16 or BF16. `dtype` must satisfy IsFloat.
// This is the only dispatch on element types in the project.
template <typename F>
decltype(auto) VisitFloat(DType dtype, F&& f) {
  switch (dtype) {
    case DType::kF64:
      return f(TypeTag<double>{});
    case DType::kF16:
      return f(TypeTag<F16>{});
    case DType::kBF16:
      return f(TypeTag<BF16>{});
    default:
      return f(TypeTag<float>{});
  }
}

// The type in which a rotation of T is computed: double for double, float for the rest.
template <typename T>
using ComputeType = std::conditional_t<std::is_same_v<T, double>, double, float>;

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_DTYPE_H_
