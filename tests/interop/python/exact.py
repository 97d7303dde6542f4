"""cos and sin of position·frequency to 60 digits, in decimal arithmetic that shares nothing with the server, and the test that a
value of the answer is the nearest of its type.
"""

import decimal
import functools

import numpy as np

from calling import from_bf16, pb

D = decimal.Decimal
CONTEXT = decimal.Context(prec=90)  # 60 good digits after the multiples of 2π that a position below 2^31 loses


@functools.cache
def two_pi():
    """By Machin: π = 16·arctan(1/5) − 4·arctan(1/239)."""
    def arctan_of_inverse(n):
        total, power, k = D(0), D(1) / n, 0
        while abs(power) > D(10) ** -88:
            total += power / (2 * k + 1) * (-1) ** k
            power /= n * n
            k += 1
        return total
    with decimal.localcontext(CONTEXT):
        return 2 * (16 * arctan_of_inverse(5) - 4 * arctan_of_inverse(239))


def frequencies(base, dim):
    """base^(−2i/dim) for every pair i."""
    with decimal.localcontext(CONTEXT):
        return [D(base) ** (D(-2 * i) / D(dim)) for i in range(dim // 2)]


def llama3(inv_freq, factor, low, high, original):
    """Llama 3.1's schedule; none of the pairs of the tests stands so near a threshold that rounding decides."""
    with decimal.localcontext(CONTEXT):
        out = []
        for frequency in inv_freq:
            rotations = original * frequency / two_pi()
            blend = min(max((rotations - D(low)) / (D(high) - D(low)), D(0)), D(1))
            out.append((1 - blend) * frequency / D(factor) + blend * frequency)
        return out


def cos_sin(position, frequency):
    with decimal.localcontext(CONTEXT):
        angle = (D(int(position)) * frequency).remainder_near(two_pi())
        small, term, k = angle / 1024, D(1), 0
        cos = sin = D(0)
        while abs(term) > D(10) ** -88:
            cos, sin = (cos + term * (-1) ** (k // 2), sin) if k % 2 == 0 else (cos, sin + term * (-1) ** (k // 2))
            k += 1
            term = term * small / k
        for _ in range(10):
            cos, sin = 2 * cos * cos - 1, 2 * sin * cos
        return cos, sin


def neighbours(value, dtype):
    """The two values of the type beside `value`, both as exact decimals; `value` is an element as numpy holds it."""
    if dtype == pb.DTYPE_BF16:
        bits = np.uint16(value)
        if bits & 0x7FFF == 0:  # zero: the smallest of either sign
            return tuple(D(float(from_bf16(np.uint16(near)))) for near in (0x0001, 0x8001))
        return tuple(D(float(from_bf16(np.uint16(int(bits) + step)))) for step in (-1, 1))
    kind = type(value)
    return tuple(D(float(np.nextafter(value, kind(limit)))) for limit in (-np.inf, np.inf))


def nearest(value, exact, dtype, slack=D(0)):
    """No neighbour of `value` is nearer to `exact`; `slack` widens the half step, in units of the distance to the neighbour."""
    with decimal.localcontext(CONTEXT):
        own = D(float(from_bf16(np.uint16(value)) if dtype == pb.DTYPE_BF16 else value))
        return all(abs(own - exact) <= abs(own - other) * (D("0.5") + slack)
                   for other in neighbours(value, dtype) if (other - own) * (exact - own) > 0)
