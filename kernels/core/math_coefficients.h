// Constants of kernels/core/math.h. Written by tests/golden/math_coefficients.py, which says how; not to be edited.
#ifndef PHASOR_KERNELS_CORE_MATH_COEFFICIENTS_H_
#define PHASOR_KERNELS_CORE_MATH_COEFFICIENTS_H_

#include "kernels/core/double_double.h"

namespace phasor::math {

// clang-format off
inline constexpr double kLog2E = 0x1.71547652b82fep+0;
inline constexpr double kLog2ELow = 0x1.777d0ffda0d24p-56;
inline constexpr double kLn2 = 0x1.62e42fefa39efp-1;
inline constexpr double kLn2Low = 0x1.abc9e3b39803fp-56;
inline constexpr double kLn2High42 = 0x1.62e42fefa3800p-1;  // 42 bits: its product with a whole number below 2^11 is exact
inline constexpr double kLn2Rest42 = 0x1.ef35793c76730p-45;

inline constexpr double kGeluLinear = 0x1.9884533d43651p+0;
inline constexpr double kGeluLinearLow = -0x1.cbc0d30ebfd15p-54;
inline constexpr double kGeluCubic = 0x1.6e4e26d4801f7p-5;
inline constexpr double kGeluCubicLow = 0x1.441355475a31ap-59;

// (e^r - 1 - r - r^2/2) / r^3 for |r| <= ln(2)/2.
inline constexpr double kExpTail[] = {
    0x1.5555555555556p-3, 0x1.5555555555555p-5, 0x1.11111111109b5p-7, 0x1.6c16c16c167e2p-10,
    0x1.a01a01a7c2f83p-13, 0x1.a01a01a47a5ddp-16, 0x1.71de0db2d67a1p-19, 0x1.27e4e1f70fc4ep-22,
    0x1.af389f1c678b1p-26, 0x1.1f66d9746ca33p-29,
};

// (e^r - 1 - r) / r^2 for |r| <= ln(2)/2, for results of single precision.
inline constexpr double kExpTailCoarse[] = {
    0x1.0000000000000p-1, 0x1.55555567507aap-3, 0x1.5555555c86016p-5, 0x1.1110c63a18e49p-7,
    0x1.6c16859172016p-10, 0x1.a1516a510ea28p-13, 0x1.a11313ab2f6a2p-16,
};

// (2 atanh(s) - 2 s) / s^3 as a function of s^2, for s = f/(2 + f), 1 + f in [sqrt(1/2), sqrt(2)).
inline constexpr double kAtanhTail[] = {
    0x1.5555555555555p-1, 0x1.9999999999a38p-2, 0x1.2492492476cb5p-2, 0x1.c71c72015b8ecp-3,
    0x1.745cf90386561p-3, 0x1.3b1c35928c305p-3, 0x1.0fbe8ffbb910dp-3, 0x1.0c03d9898e775p-3,
};

// The same to more than 70 bits. The two lowest powers.
inline constexpr DoubleDouble kAtanhTailFineLow[] = {
    {0x1.5555555555555p-1, 0x1.55551d24947e7p-55}, {0x1.999999999999ap-2, -0x1.8df3916f8504ap-56},
};

// Its coefficients from power 2 on.
inline constexpr double kAtanhTailFine[] = {
    0x1.2492492492486p-2, 0x1.c71c71c71f258p-3, 0x1.745d17437e136p-3, 0x1.3b13b2611c8f8p-3,
    0x1.1110b8ce0635ap-3, 0x1.e20296ef51facp-4, 0x1.ab83cfff1bc97p-4, 0x1.bedb83f87a809p-4,
};

// The same for results of single precision.
inline constexpr double kAtanhTailCoarse[] = {
    0x1.5555555564ea1p-1, 0x1.999998caf4fb7p-2, 0x1.249323ea66201p-2, 0x1.c67ad74019006p-3,
    0x1.8c8c476e9dd3cp-3,
};

// The same for |s| <= 1/3, for results of single precision.
inline constexpr double kAtanhTailThird[] = {
    0x1.555555555ed28p-1, 0x1.99999958485b0p-2, 0x1.24926db12eb2ap-2, 0x1.c70d2f5e45807p-3,
    0x1.75de5d874a272p-3, 0x1.27db2445d4862p-3, 0x1.8677a4bf9332ap-3,
};

// (t + 5) e^(t^2/2) P(N < -t) as a function of u = (t - 5)/(t + 5), for t in [0, 40]; N standard normal.
// The lowest powers.
inline constexpr DoubleDouble kNormalTailLow[] = {
    {0x1.89d3abe1f95aep-1, -0x1.04a8e80bbb1aap-56}, {-0x1.54ad03f27ca18p-1, -0x1.0d48c6a43139ep-58},
    {0x1.fb31653876f88p-2, 0x1.d92b4ee558e26p-57}, {-0x1.410ed5f875944p-2, 0x1.1c71e046cceeep-56},
    {0x1.51f6329f01bfdp-3, -0x1.c203702145430p-58}, {-0x1.1b1c254ca4502p-4, -0x1.e9a0dd22a9b6bp-59},
    {0x1.54b4d4f4863dfp-6, -0x1.cc7f2a73cb291p-60}, {-0x1.88590e978f578p-9, 0x1.0618add73463bp-63},
    {-0x1.a2503770886d8p-11, -0x1.e729f90718118p-67}, {0x1.1daf1abfd1a4ep-11, -0x1.2e84e52b0447dp-65},
};

// Its coefficients from power 10 on.
inline constexpr double kNormalTail[] = {
    -0x1.f21497180d9cep-15, -0x1.a17006cc7a6edp-15, 0x1.17df42ebb1177p-16, 0x1.0b13596cc52cdp-18,
    -0x1.73e648ab7202ep-19, -0x1.670c58687c076p-22, 0x1.d4e236fe55207p-22, 0x1.568d6364940d7p-25,
    -0x1.3040504bf6501p-24, -0x1.1d328faaa753ep-27, 0x1.8e8dbeb2f6079p-27, 0x1.2c4d6de4906cap-29,
    -0x1.d1fcfbe459acap-30, -0x1.0e49dbc488f4ap-31, 0x1.578883fa8f342p-33, 0x1.1256aaa6c543cp-34,
};

// clang-format on

}  // namespace phasor::math

#endif  // PHASOR_KERNELS_CORE_MATH_COEFFICIENTS_H_
