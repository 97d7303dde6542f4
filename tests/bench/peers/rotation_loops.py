"""RoPE as a person writes it with numba: the honest competitor. In place and into a buffer, both layouts, f32 and bf16 bits."""

import numpy as np


def make(numba, dtype):
    """layout → (x, out, cos, sin), (x, cos, sin)."""
    if dtype == "f32":
        @numba.njit(inline="always")
        def read(value):
            return value

        write = read
    else:
        @numba.njit(inline="always")
        def read(bits):
            return np.uint32(np.uint32(bits) << np.uint32(16)).view(np.float32)

        @numba.njit(inline="always")
        def write(value):  # to nearest even
            bits = np.float32(value).view(np.uint32)
            return np.uint16((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16))

    @numba.njit(parallel=True)
    def half(x, out, cos, sin):
        for t in numba.prange(x.shape[0]):
            for h in range(x.shape[1]):
                for i in range(64):
                    a, b = read(x[t, h, i]), read(x[t, h, 64 + i])
                    out[t, h, i] = write(a * cos[t, i] - b * sin[t, i])
                    out[t, h, 64 + i] = write(b * cos[t, i] + a * sin[t, i])

    @numba.njit(parallel=True)
    def half_in_place(x, cos, sin):
        for t in numba.prange(x.shape[0]):
            for h in range(x.shape[1]):
                for i in range(64):
                    a, b = read(x[t, h, i]), read(x[t, h, 64 + i])
                    x[t, h, i] = write(a * cos[t, i] - b * sin[t, i])
                    x[t, h, 64 + i] = write(b * cos[t, i] + a * sin[t, i])

    @numba.njit(parallel=True)
    def interleaved(x, out, cos, sin):
        for t in numba.prange(x.shape[0]):
            for h in range(x.shape[1]):
                for i in range(64):
                    a, b = read(x[t, h, 2 * i]), read(x[t, h, 2 * i + 1])
                    out[t, h, 2 * i] = write(a * cos[t, i] - b * sin[t, i])
                    out[t, h, 2 * i + 1] = write(b * cos[t, i] + a * sin[t, i])

    @numba.njit(parallel=True)
    def interleaved_in_place(x, cos, sin):
        for t in numba.prange(x.shape[0]):
            for h in range(x.shape[1]):
                for i in range(64):
                    a, b = read(x[t, h, 2 * i]), read(x[t, h, 2 * i + 1])
                    x[t, h, 2 * i] = write(a * cos[t, i] - b * sin[t, i])
                    x[t, h, 2 * i + 1] = write(b * cos[t, i] + a * sin[t, i])

    return {"half-split": (half, half_in_place), "interleaved": (interleaved, interleaved_in_place)}
