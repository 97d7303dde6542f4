"""What the parts share: sizes, threads, pooled buffers, differences."""

import numpy as np

import kernels


class Setting:
    """`allocation`: "default", or "warm" where glibc was told to keep large blocks."""

    def __init__(self, library, threads, allocation, small):
        self.kernels = kernels.Kernels(library, threads)
        self.threads, self.allocation, self.small = threads, allocation, small
        self.warm = allocation == "warm"

    def size(self, full, small):
        return small if self.small else full

    def memory(self, shape, dtype=np.float32):
        """An array in a buffer of Phasor's pool: touched, in huge pages, aligned."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return np.frombuffer(self.kernels.memory(size), dtype=dtype, count=int(np.prod(shape))).reshape(shape)

    def torch(self, torch):
        torch.set_num_threads(self.threads)

    def numba(self, numba):
        numba.set_num_threads(self.threads)


def difference(*pairs):
    """The largest |a − b| over pairs of arrays, without temporaries of their size."""
    worst = 0.0
    for a, b in pairs:
        if a.shape != b.shape:
            raise ValueError(f"shapes {a.shape} and {b.shape}")
        for i in range(0, len(a), step := max(1, len(a) // 64)):
            part, right = a[i:i + step], b[i:i + step]
            if np.array_equal(part, right):  # the usual case of biases, and faster
                continue
            worst = np.maximum(worst, np.abs(part.astype(np.float64) - right).max())  # NaN stays NaN
    return worst


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def to_bf16(values):
    """Rounds float32 to nearest even; no NaN here."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
