// The conversions of core/narrow.h in a dozen operations: the same bits (convert16_test).
#ifndef PHASOR_KERNELS_CUDA_CONVERT16_CUH_
#define PHASOR_KERNELS_CUDA_CONVERT16_CUH_

#include <bit>
#include <cstdint>

#include "kernels/core/dtype.h"
#include "kernels/core/host_device.h"
#include "kernels/core/narrow.h"

namespace phasor::cuda {

// Widen<ComputeType<T>>, but a NaN keeps its bits. Denormals must not be flushed.
PHASOR_HOST_DEVICE_INLINE double WidenBits(double value) { return value; }
PHASOR_HOST_DEVICE_INLINE float WidenBits(float value) { return value; }
PHASOR_HOST_DEVICE_INLINE float WidenBits(BF16 value) {
  return std::bit_cast<float>(static_cast<uint32_t>(value.bits) << 16);
}
PHASOR_HOST_DEVICE_INLINE float WidenBits(F16 value) {
  // As a float of the same fields it is 2^112 times too small.
  const float magnitude = std::bit_cast<float>(static_cast<uint32_t>(value.bits & 0x7fff) << 13) * 0x1p112f;
  uint32_t bits = std::bit_cast<uint32_t>(magnitude) | static_cast<uint32_t>(value.bits & 0x8000) << 16;
  if ((value.bits & 0x7c00) == 0x7c00) bits |= 0x7f800000;
  return std::bit_cast<float>(bits);
}

// Narrow<T>: to nearest even, NaN canonical.
template <typename T>
PHASOR_HOST_DEVICE_INLINE T NarrowBits(double value);
template <typename T>
PHASOR_HOST_DEVICE_INLINE T NarrowBits(float value);

template <>
PHASOR_HOST_DEVICE_INLINE double NarrowBits<double>(double value) {
  return value != value ? std::bit_cast<double>(uint64_t{0x7ff8000000000000}) : value;
}
template <>
PHASOR_HOST_DEVICE_INLINE double NarrowBits<double>(float value) {
  return NarrowBits<double>(static_cast<double>(value));
}
template <>
PHASOR_HOST_DEVICE_INLINE float NarrowBits<float>(float value) {
  return value != value ? std::bit_cast<float>(0x7fc00000u) : value;
}
template <>
PHASOR_HOST_DEVICE_INLINE BF16 NarrowBits<BF16>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffff) > 0x7f800000) return BF16{0x7fc0};
  return BF16{static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16)};
}
template <>
PHASOR_HOST_DEVICE_INLINE F16 NarrowBits<F16>(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  // The exponent less 112, rounded at 13 bits; a carry adds to it by itself.
  uint32_t rounded = (magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13;
  if (rounded > 0x7c00) rounded = 0x7c00;
  // Denormal results: beside 1/2 a float's last place is theirs.
  if (magnitude < 0x38800000) rounded = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) - 0x3f000000;
  if (magnitude > 0x7f800000) return F16{0x7e00};
  return F16{static_cast<uint16_t>(rounded | (bits >> 16 & 0x8000))};
}

// A finite double, |value| at least 2^-126 or 0, rounded once. To 16 bits by way of a float rounded to odd, whose last bit
// says that something is left. It is always set here, so that an exact tie goes away from zero: angle tables round ends of
// intervals, whose inner values are not the tie.
template <typename T>
PHASOR_HOST_DEVICE_INLINE T RoundDouble(double value) {
  constexpr uint64_t kLast = uint64_t{1} << 29;
  const uint64_t odd = (std::bit_cast<uint64_t>(value) | kLast) & ~(kLast - 1);
  return NarrowBits<T>(static_cast<float>(std::bit_cast<double>(odd)));
}
template <>
PHASOR_HOST_DEVICE_INLINE float RoundDouble<float>(double value) {
  return static_cast<float>(value);
}

}  // namespace phasor::cuda

#endif  // PHASOR_KERNELS_CUDA_CONVERT16_CUH_
