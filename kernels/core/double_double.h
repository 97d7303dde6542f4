// A number as an unevaluated sum hi + lo of two doubles: about 106 bits. Host maths for the few values that need more than a
// double; every operation is spelled with explicit fma, so the bits are the same wherever it runs.
#ifndef PHASOR_KERNELS_CORE_DOUBLE_DOUBLE_H_
#define PHASOR_KERNELS_CORE_DOUBLE_DOUBLE_H_

namespace phasor {

// |lo| ≤ half an ulp of hi. Plain doubles have lo = 0.
struct DoubleDouble {
  double hi = 0;
  double lo = 0;

  friend bool operator==(const DoubleDouble&, const DoubleDouble&) = default;
};

}  // namespace phasor

#endif  // PHASOR_KERNELS_CORE_DOUBLE_DOUBLE_H_
