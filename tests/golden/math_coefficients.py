#!/usr/bin/env python3
"""Writes kernels/core/math_coefficients.h: the constants of kernels/core/math.h, from 300-bit arithmetic.

    math_coefficients.py > kernels/core/math_coefficients.h          (mpmath 1.3.0)

Each polynomial interpolates its function at the Chebyshev nodes of its interval, which is within a small factor of the best
polynomial of that degree; its coefficients are then rounded once. The error of the unrounded polynomial goes to standard error.
"""

import sys

from mpmath import cos, erfc, exp, expm1, fabs, floor, ln, log, log1p, mp, mpf, pi, polyval, sqrt

mp.prec = 300


def interpolate(f, low, high, degree):
    """Coefficients, lowest power first, of the polynomial through f at the Chebyshev nodes of [low, high]."""
    nodes = [(low + high) / 2 + (high - low) / 2 * cos(pi * (2 * k + 1) / (2 * degree + 2)) for k in range(degree + 1)]
    divided = [f(x) for x in nodes]
    for level in range(1, degree + 1):
        for i in range(degree, level - 1, -1):
            divided[i] = (divided[i] - divided[i - 1]) / (nodes[i] - nodes[i - level])
    coefficients = [mpf(0)] * (degree + 1)
    for i in range(degree, -1, -1):  # Newton's form, multiplied out
        coefficients = [divided[i] - nodes[i] * coefficients[0]] + [
            coefficients[j - 1] - nodes[i] * coefficients[j] for j in range(1, degree + 1)
        ]
    return coefficients


def worst(f, coefficients, low, high, weight):
    """log2 of the largest weight(x)·|f − polynomial|."""
    points = [low + (high - low) * (2 * k + 1) / 2001 for k in range(1000)]
    return log(max(weight(x) * fabs(f(x) - polyval(coefficients[::-1], x)) for x in points), 2)


def pair(x):
    high = float(x)
    return high, float(x - mpf(high))


def array(name, comment, rows):
    """rows: doubles, or pairs of doubles."""
    lines = [f"// {line}" for line in comment.split("\n")]
    if isinstance(rows[0], tuple):
        values = [f"{{{high.hex()}, {low.hex()}}}" for high, low in rows]
        lines.append(f"inline constexpr DoubleDouble {name}[] = {{")
        per_line = 2
    else:
        values = [value.hex() for value in rows]
        lines.append(f"inline constexpr double {name}[] = {{")
        per_line = 4
    for i in range(0, len(values), per_line):
        lines.append("    " + ", ".join(values[i : i + per_line]) + ",")
    return "\n".join(lines) + "\n};\n"


def polynomial(name, comment, f, low, high, degree, weight, pairs=0):
    """The array of a polynomial; its `pairs` lowest coefficients apart, as double-doubles."""
    low, high = mpf(low), mpf(high)
    coefficients = interpolate(f, low, high, degree)
    bound = worst(f, coefficients, low, high, weight)
    print(f"{name}: degree {degree}, 2^{float(bound):.1f}", file=sys.stderr)
    text = ""
    if pairs:
        text += array(name + "Low", comment, [pair(c) for c in coefficients[:pairs]]) + "\n"
        comment = f"Its coefficients from power {pairs} on."
    return text + array(name, comment, [float(c) for c in coefficients[pairs:]])


def scalar(name, value, comment=""):
    return f"inline constexpr double {name} = {float(value).hex()};" + (f"  // {comment}" if comment else "") + "\n"


LN2 = ln(2)
LN2_HIGH = floor(LN2 * 2**42) / 2**42
# A little wider than the arguments, which are reduced with a rounded quotient.
HALF_LN2 = LN2 / 2 + mpf(2) ** -20
ROOT = sqrt(mpf(2)) - 1  # the largest |m − 1| of the logarithm's m in [√½, √2)
SQUARE = (ROOT / (2 + ROOT)) ** 2 + mpf(2) ** -20


def near_zero(series, closed):
    """closed(x), which cancels beside 0, or its series there."""
    return lambda x: series(x) if fabs(x) < mpf(2) ** -30 else closed(x)


def exp_tail(x):  # (e^x − 1 − x − x²/2) / x³
    return near_zero(lambda r: sum(r**k / mp.factorial(k + 3) for k in range(12)), lambda r: (expm1(r) - r - r * r / 2) / r**3)(x)


def exp_tail_coarse(x):  # (e^x − 1 − x) / x²
    return near_zero(lambda r: sum(r**k / mp.factorial(k + 2) for k in range(12)), lambda r: (expm1(r) - r) / r**2)(x)


def atanh_tail(z):  # (2·atanh(s) − 2s) / s³ with z = s²
    def closed(y):
        s = sqrt(y)
        return (log1p(s) - log1p(-s) - 2 * s) / s**3

    return near_zero(lambda y: sum(2 * y**k / (2 * k + 3) for k in range(12)), closed)(z)


GELU_CENTRE = mpf(5)


def normal_tail(u):  # (t + 5)·e^(t²/2)·Φ(−t) with u = (t − 5)/(t + 5)
    t = GELU_CENTRE * (1 + u) / (1 - u)
    return (t + GELU_CENTRE) * exp(t * t / 2) * erfc(t / sqrt(mpf(2))) / 2


def main():
    out = [
        "// Constants of kernels/core/math.h. Written by tests/golden/math_coefficients.py, which says how; not to be edited.",
        "#ifndef PHASOR_KERNELS_CORE_MATH_COEFFICIENTS_H_",
        "#define PHASOR_KERNELS_CORE_MATH_COEFFICIENTS_H_",
        "",
        '#include "kernels/core/double_double.h"',
        "",
        "namespace phasor::math {",
        "",
        "// clang-format off",
        scalar("kLog2E", 1 / LN2)
        + scalar("kLog2ELow", 1 / LN2 - mpf(float(1 / LN2)))
        + scalar("kLn2", LN2)
        + scalar("kLn2Low", LN2 - mpf(float(LN2)))
        + scalar("kLn2High42", LN2_HIGH, "42 bits: its product with a whole number below 2^11 is exact")
        + scalar("kLn2Rest42", LN2 - LN2_HIGH),
        # √(8/π)·(x + 0.044715·x³): the argument of the logistic function in GELU's tanh form.
        scalar("kGeluLinear", sqrt(8 / pi))
        + scalar("kGeluLinearLow", sqrt(8 / pi) - mpf(float(sqrt(8 / pi))))
        + scalar("kGeluCubic", mpf("0.044715"))
        + scalar("kGeluCubicLow", mpf("0.044715") - mpf(float(mpf("0.044715")))),
        polynomial("kExpTail", "(e^r - 1 - r - r^2/2) / r^3 for |r| <= ln(2)/2.", exp_tail, -HALF_LN2, HALF_LN2, 9,
                   lambda x: fabs(x) ** 3),
        polynomial("kExpTailCoarse", "(e^r - 1 - r) / r^2 for |r| <= ln(2)/2, for results of single precision.", exp_tail_coarse,
                   -HALF_LN2, HALF_LN2, 6, lambda x: x**2),
        polynomial("kAtanhTail", "(2 atanh(s) - 2 s) / s^3 as a function of s^2, for s = f/(2 + f), 1 + f in [sqrt(1/2), sqrt(2)).",
                   atanh_tail, 0, SQUARE, 7, lambda z: z / 2),
        polynomial("kAtanhTailFine", "The same to more than 70 bits. The two lowest powers.", atanh_tail, 0, SQUARE, 9,
                   lambda z: z / 2, pairs=2),
        polynomial("kAtanhTailCoarse", "The same for results of single precision.", atanh_tail, 0, SQUARE, 4, lambda z: z / 2),
        polynomial("kAtanhTailThird", "The same for |s| <= 1/3, for results of single precision.", atanh_tail, 0, mpf(1) / 9, 6,
                   lambda z: z / 2),
        polynomial("kNormalTail", "(t + 5) e^(t^2/2) P(N < -t) as a function of u = (t - 5)/(t + 5), for t in [0, 40]; N standard normal.\n"
                   "The lowest powers.", normal_tail, -1, (40 - GELU_CENTRE) / (40 + GELU_CENTRE), 25, lambda u: 1, pairs=10),
        "// clang-format on",
        "",
        "}  // namespace phasor::math",
        "",
        "#endif  // PHASOR_KERNELS_CORE_MATH_COEFFICIENTS_H_",
    ]
    print("\n".join(out))


if __name__ == "__main__":
    main()
