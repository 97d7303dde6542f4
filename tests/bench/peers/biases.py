"""G9b: full biases in f32: ALiBi [32, 2048, 2048] (512 MiB) and T5's [12, 2048, 2048] (192 MiB)."""

import math

import numpy as np

from measure import Case
from setting import difference

BUCKETS, MAX_DISTANCE = 32, 128


class Alibi:
    def __init__(self, setting, out):
        self.setting, self.out = setting, out
        self.heads, self.size = out.shape[:2]
        self.slopes = np.array([2.0 ** (-8 * (head + 1) / self.heads) for head in range(self.heads)], np.float32)
        self.distances = np.arange(1 - self.size, self.size, dtype=np.float64)

    def add(self, case, name, call, result=None, optional=False):
        def compare():
            self.out[...] = 7
            got = call()
            got = result(got) if result else self.out
            vectors = np.array([2.0 ** (-8 * (head + 1) / self.heads) for head in range(self.heads)])[:, None] * self.distances
            wanted = toeplitz(vectors.astype(np.float32), self.size)
            # f32 slopes times the distance: two roundings where the exact value has one.
            return difference(*zip(got, wanted, strict=True))
        case.add(name, call, compare, 2.0 ** -24 * 2 * self.size, optional)

    def phasor(self, case):
        kernels = self.setting.kernels
        alibi = kernels.alibi(self.heads)
        self.add(case, "phasor ALiBi", lambda: kernels.bias(alibi, self.size, self.out))

    def numpy(self, case):
        keys = np.arange(self.size)
        relative = (keys[None, :] - keys[:, None]).astype(np.float32)[None]
        slopes = self.slopes[:, None, None]
        self.add(case, "numpy slopes * (j - i)", lambda: slopes * relative, lambda got: got)
        self.add(case, "numpy multiply, out=", lambda: np.multiply(slopes, relative, out=self.out))

    def numba(self, case, numba):
        self.setting.numba(numba)

        @numba.njit(parallel=True)
        def fill(out, slopes, distances):  # a cut of one ramp for each query: AVX2 does not convert 64-bit integers
            heads, size, _ = out.shape
            for row in numba.prange(heads * size):
                head, query = row // size, row % size
                slope, ramp, into = slopes[head], distances[size - 1 - query:], out[head, query]
                for key in range(size):
                    into[key] = slope * ramp[key]

        distances = self.distances.astype(np.float32)
        self.add(case, "numba ALiBi by hand", lambda: fill(self.out, self.slopes, distances))

    def torch(self, case, torch):
        self.setting.torch(torch)
        slopes = torch.from_numpy(self.slopes).view(-1, 1, 1)
        keys = torch.arange(self.size)
        relative = (keys[None, :] - keys[:, None]).float()[None]
        out = torch.from_numpy(self.out)

        def recipe():
            return slopes * (keys[None, :] - keys[:, None]).float()[None]

        compiled = torch.compile(recipe, dynamic=False)
        self.add(case, "torch slopes * (j - i)", recipe, lambda got: got.numpy())
        self.add(case, "torch.compile of slopes * (j - i)", compiled, lambda got: got.numpy(), optional=True)
        self.add(case, "torch mul, out=", lambda: torch.mul(slopes, relative, out=out))


def toeplitz(vectors, size):
    """A view [heads, size, size] of vectors by distance."""
    return np.lib.stride_tricks.sliding_window_view(vectors, size, axis=1)[:, ::-1]


def exact_buckets(distances):
    """T5's bidirectional buckets, 32 up to 128, in whole numbers: 8·√2^k ≤ n exactly where 64·2^k ≤ n²."""
    n = np.abs(distances)
    large = 7 + np.frexp(np.maximum(n, 8).astype(np.float64) ** 2 / 64)[1]
    return (distances > 0) * 16 + np.where(n < 8, n, np.minimum(large, 15))


class T5:
    def __init__(self, setting, out):
        self.setting, self.out = setting, out
        self.heads, self.size = out.shape[:2]
        self.table = np.random.default_rng(1).standard_normal((BUCKETS, self.heads), np.float32)
        self.distances = np.arange(1 - self.size, self.size)
        self.want = toeplitz(np.ascontiguousarray(self.table[exact_buckets(self.distances)].T), self.size)

    def vectors(self):
        """As an expert makes them with numpy, every time anew: the bucket of each distance once."""
        n = np.abs(self.distances)
        large = 8 + (np.log(np.maximum(n, 1).astype(np.float32) / 8) / math.log(MAX_DISTANCE / 8) * 8).astype(np.int64)
        buckets = (self.distances > 0) * 16 + np.where(n < 8, n, np.minimum(large, 15))
        return np.ascontiguousarray(self.table[buckets].T)

    def add(self, case, name, call, result=None, optional=False):
        def compare():
            self.out[...] = 7
            got = call()
            got = result(got) if result else self.out
            return difference(*zip(got, self.want, strict=True))
        case.add(name, call, compare, 0, optional)

    def phasor(self, case):
        kernels = self.setting.kernels
        weights = self.table.astype(np.float64)
        t5 = kernels.t5(BUCKETS, self.heads, weights)
        self.add(case, "phasor T5", lambda: kernels.bias(t5, self.size, self.out))

    def numpy(self, case):
        self.add(case, "numpy sliding window", lambda: toeplitz(self.vectors(), self.size).copy(), lambda got: got)
        self.add(case, "numpy sliding window into a buffer", lambda: np.copyto(self.out, toeplitz(self.vectors(), self.size)))

    def numba(self, case, numba):
        self.setting.numba(numba)

        @numba.njit(parallel=True)
        def fill(out, vectors):
            heads, size, _ = out.shape
            for row in numba.prange(heads * size):
                head, query = row // size, row % size
                values, into = vectors[head, size - 1 - query:], out[head, query]
                for key in range(size):
                    into[key] = values[key]

        self.add(case, "numba Toeplitz by hand", lambda: fill(self.out, self.vectors()))

    def torch(self, case, torch):
        self.setting.torch(torch)
        self.add(case, "torch unfold and flip", lambda: torch.from_numpy(self.vectors()).unfold(1, self.size, 1).flip(1),
                 lambda got: got.numpy())

    def transformers(self, case, torch, t5):
        self.setting.torch(torch)
        attention = t5.T5Attention(t5.T5Config(num_heads=self.heads, d_model=64 * self.heads), has_relative_attention_bias=True)
        with torch.no_grad():
            attention.relative_attention_bias.weight.copy_(torch.from_numpy(self.table))
        bias = torch.no_grad()(lambda: attention.compute_bias(self.size, self.size))
        self.add(case, "transformers compute_bias (a strided view)", bias, lambda got: got[0].numpy())
        self.add(case, "transformers compute_bias().contiguous()", lambda: bias().contiguous(), lambda got: got[0].numpy())
        compiled = torch.compile(attention.compute_bias, dynamic=False)
        self.add(case, "torch.compile of compute_bias", torch.no_grad()(lambda: compiled(self.size, self.size)),
                 lambda got: got[0].numpy(), optional=True)


def cases(setting):
    size = setting.size(2048, 96)
    out = setting.memory((setting.size(32, 4), size, size))
    found = []
    for kind, scheme, heads in ((Alibi, "ALiBi", setting.size(32, 4)), (T5, "T5", setting.size(12, 3))):
        job, ours = kind(setting, out[:heads]), f"phasor {scheme}"
        case = Case(f"{scheme} bias [{heads}, {size}, {size}] f32", job.out.nbytes)
        case.add("streaming stores", lambda out=job.out: setting.kernels.streaming(out, out.nbytes), lambda: 0, 0)
        job.phasor(case)
        case.peer(job.numba, "numba")
        job.numpy(case)
        case.peer(job.torch, "torch")
        peers = {Alibi: ["numba ALiBi by hand", "numpy slopes * (j - i)", "numpy multiply, out=", "torch slopes * (j - i)",
                         "torch mul, out=", "torch.compile of slopes * (j - i)"],
                 T5: ["numba Toeplitz by hand", "numpy sliding window", "numpy sliding window into a buffer",
                      "torch unfold and flip", "torch.compile of compute_bias"]}[kind]
        for peer in peers:
            case.faster("G9b", ours, peer, 2.2)
        if kind is T5:
            case.peer(job.transformers, "torch", "transformers.models.t5.modeling_t5", package="transformers")
            case.faster("G9b", ours, "transformers compute_bias (a strided view)", 11 if setting.warm else 22)
        found.append(case)
    return found
