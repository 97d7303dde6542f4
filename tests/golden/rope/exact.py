"""Values of RoPE's less common schedules and factors to 40 digits, from their formulas, for tests/kernels/program/rotation_test.cc.

Lines: `pope cos|sin position i δ value`, `fope cos|sin position head i value` (the spec of ExactFope); `inv NAME i value`, `factor NAME value` of the schedules that the test names; `scale LOG_N|FLOOR m value` and
`decay d i m value` of position scales and xPos (scale base 512, center 16).

    pip install mpmath==1.3.0 && python tests/golden/rope/exact.py > tests/golden/rope/exact.txt
"""
from mpmath import mp, mpf, ceil, cos, exp, floor, log, pi, sin

mp.prec = 400


def theta(base, d, i):
    return mpf(base) ** (mpf(-2 * i) / d)


def yarn(base, d, i, s, m0, fast, slow, blend="linear", extrapolation=mpf(1)):
    def pair(beta):
        return d * log(mpf(m0) / (beta * 2 * pi)) / (2 * log(mpf(base)))
    low, high = max(floor(pair(fast)), mpf(0)), min(ceil(pair(slow)), mpf(d - 1))
    r = min(max((i - low) / (high - low), mpf(0)), mpf(1))
    r = 1 - (1 - r) * extrapolation
    t = theta(base, d, i)
    return t / mpf(s) ** r if blend == "log" else t * (1 - r) + t / s * r


def emit(*fields):
    print(*[mp.nstr(f, 40, strip_zeros=False) if isinstance(f, mpf) else f for f in fields])


SCHEDULES = {
    "ntk_fixed": (64, lambda i: (8 * mpf(10000)) ** (mpf(-2 * i) / 128) / mpf(8) ** (mpf(2) / 128)),
    "ntk_mixed": (32, lambda i: theta(10000, 64, i) * exp(-log(mpf(8)) / mpf(32) ** mpf(0.625) * mpf(i + 1) ** mpf(0.625))),
    "grok_1": (64, lambda i: yarn(10000, 128, i, 16, 8192, 8, 1, "log")),
    "ggml": (32, lambda i: yarn(10000, 64, i, 8, 4096, 32, 1, "linear", mpf(0.5))),
    "ntk_aware": (64, lambda i: (10000 * mpf(4) ** (mpf(128) / 126)) ** (mpf(-2 * i) / 128)),
    "dynamic_ntk": (64, lambda i: (10000 * (mpf(2) * 3000 / 2048 - 1) ** (mpf(128) / 126)) ** (mpf(-2 * i) / 128)),
    "qwen1_ntk": (64, lambda i: (10000 * mpf(3) ** (mpf(128) / 126)) ** (mpf(-2 * i) / 128)),
    "freq_factors": (32, lambda i: theta(500000, 64, i) / ((1 + mpf(i) / 4) * 4)),
    "pixel": (32, lambda i: pi * (1 + mpf(i) * 4 / 31)),
}
for name, (pairs, function) in SCHEDULES.items():
    for i in sorted({0, 1, pairs // 3, pairs // 2, 2 * pairs // 3, pairs - 1}):
        emit("inv", name, i, function(i))
emit("factor", "telechat3", mpf(0.07) * log(mpf(4)) + 1)
emit("factor", "ggml", (log(mpf(8)) / 10 + 1) * mpf(1.2))
for m in (2048, 4096, 8191, 100000):
    emit("scale", "LOG_N", m, log(mpf(m + 1)) / log(mpf(2048)))
for m in (8191, 16383, 1000000):
    emit("scale", "FLOOR", m, 1 + mpf(0.1) * log(mpf(1 + (m + 1) // 8192)))
for i in (0, 7, 31):
    for m in (-500, 15, 17, 4096, 30000):
        emit("decay", 64, i, m, ((2 * i + mpf(64) * 4 / 10) / (mpf(64) * 14 / 10)) ** (mpf(m - 16) / 512))

# PoPE: every channel has an angle of its own, the exponent's step is that of RoPE halved.
for position in (1, 4096, 2147483647):
    for i in (0, 1, 17, 36):
        for delta in (mpf(0), mpf(-1.5)):
            angle = position * mpf(10000) ** (mpf(-i) / 37) + delta
            emit("pope", "cos", position, i, delta == 0 and "0" or "-1.5", cos(angle))
            emit("pope", "sin", position, i, delta == 0 and "0" or "-1.5", sin(angle))
# FoPE: frequencies above one turn in 4096 positions, mixed per head; coefficient (h, j, d) is ((5·h + 3·j + 7·d) mod 11)/8 − 1/2.
kept = [theta(10000, 16, j) for j in range(8) if theta(10000, 16, j) > 2 * pi / 4096]
for position in (0, 1, 4095, 1000000):
    for h in (0, 1):
        for d in (0, 1, 4):
            mix = [mpf((5 * h + 3 * j + 7 * d) % 11) / 8 - mpf(1) / 2 for j in range(len(kept))]
            emit("fope", "cos", position, h, d, sum(m * cos(position * w) for m, w in zip(mix, kept)))
            emit("fope", "sin", position, h, d, sum(m * sin(position * w) for m, w in zip(mix, kept)))
