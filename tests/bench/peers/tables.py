"""G6: RoPE's table, positions 0 … 131 071, 64 pairs, base 10 000, f32 cos and sin: 64 MiB."""

import numpy as np

from measure import Case
from setting import difference

PAIRS, BASE = 64, 10000.0
# The recipes in float32 take the angle in float32: at position 131 071 that is 7.6e-3 off.
EXACT, FLOAT32_ANGLES = 6e-8, 2e-2


class Table:
    def __init__(self, setting):
        self.setting, self.rows = setting, setting.size(131072, 512)
        self.cos, self.sin = (setting.memory((self.rows, PAIRS)) for _ in range(2))
        self.inv_freq = BASE ** (-np.arange(PAIRS) / PAIRS)
        angles = np.multiply.outer(np.arange(self.rows, dtype=np.float64), self.inv_freq)
        self.want = np.cos(angles), np.sin(angles)

    def add(self, case, name, call, allowed, result=None, optional=False):
        """`result`: what the call returns as two arrays of numpy; else it fills cos and sin."""
        def compare():
            self.cos[...] = self.sin[...] = 7
            got = call()
            cos, sin = result(got) if result else (self.cos, self.sin)
            return difference((cos, self.want[0]), (sin, self.want[1]))
        case.add(name, call, compare, allowed, optional)

    def phasor(self, case):
        kernels = self.setting.kernels
        rope = kernels.rope(2 * PAIRS, BASE)
        cos_sin = self.setting.memory((2, self.rows, PAIRS))
        case.add("streaming stores", lambda: kernels.streaming(cos_sin, cos_sin.nbytes), lambda: 0, 0)
        self.add(case, "phasor exact", lambda: kernels.table(rope, self.rows, self.cos, self.sin), EXACT)

    def numpy(self, case):
        rows = np.arange(self.rows)

        def recipe(dtype):
            angles = np.multiply.outer(rows.astype(dtype), self.inv_freq.astype(dtype))
            return np.cos(angles).astype(np.float32, copy=False), np.sin(angles).astype(np.float32, copy=False)

        self.add(case, "numpy f32 recipe", lambda: recipe(np.float32), FLOAT32_ANGLES, lambda got: got)
        self.add(case, "numpy f64 recipe, then f32", lambda: recipe(np.float64), EXACT, lambda got: got)

    def numba(self, case, numba):
        self.setting.numba(numba)

        @numba.njit(parallel=True)
        def rotate(inv_freq, cos, sin):
            """What an expert writes: 64 rows at a time from an exact row, each from the one before by a rotation in f64."""
            pairs = inv_freq.size
            step_cos, step_sin = np.cos(inv_freq), np.sin(inv_freq)
            for block in numba.prange((cos.shape[0] + 63) // 64):
                c, s = np.cos(block * 64 * inv_freq), np.sin(block * 64 * inv_freq)
                for row in range(block * 64, min(block * 64 + 64, cos.shape[0])):
                    for i in range(pairs):
                        cos[row, i] = c[i]
                        sin[row, i] = s[i]
                        turned = c[i] * step_cos[i] - s[i] * step_sin[i]
                        s[i] = s[i] * step_cos[i] + c[i] * step_sin[i]
                        c[i] = turned

        self.add(case, "numba rotation by hand", lambda: rotate(self.inv_freq, self.cos, self.sin), EXACT)

    def torch(self, case, torch):
        self.setting.torch(torch)
        inv32, inv64 = (torch.from_numpy(self.inv_freq).to(dtype) for dtype in (torch.float32, torch.float64))
        positions = torch.arange(self.rows)

        def recipe(inv_freq):  # as transformers has it
            angles = positions.to(inv_freq.dtype)[:, None] * inv_freq
            return angles.cos().float(), angles.sin().float()

        angles, cos, sin = (torch.zeros(self.rows, PAIRS) for _ in range(3))

        def careful():
            torch.mul(positions.float()[:, None], inv32, out=angles)
            return torch.cos(angles, out=cos), torch.sin(angles, out=sin)

        def arrays(got):
            return tuple(tensor.numpy() for tensor in got)

        self.add(case, "torch f32 recipe", lambda: recipe(inv32), FLOAT32_ANGLES, arrays)
        self.add(case, "torch f32 recipe, out=", careful, FLOAT32_ANGLES, arrays)
        compiled = torch.compile(recipe, dynamic=False)
        self.add(case, "torch.compile of the f32 recipe", lambda: compiled(inv32), FLOAT32_ANGLES, arrays, optional=True)
        self.add(case, "torch f64 recipe, then f32", lambda: recipe(inv64), EXACT, arrays)

    def transformers(self, case, torch, llama):
        self.setting.torch(torch)
        config = llama.LlamaConfig(hidden_size=4096, num_attention_heads=32, max_position_embeddings=self.rows)
        rotary = llama.LlamaRotaryEmbedding(config)
        x, positions = torch.zeros(1, 1, 2 * PAIRS), torch.arange(self.rows)[None]
        module = torch.no_grad()(lambda: rotary(x, positions))
        # It has every column twice: 128 MiB.
        self.add(case, "transformers LlamaRotaryEmbedding (columns twice)", module, FLOAT32_ANGLES,
                 lambda got: tuple(tensor[0, :, :PAIRS].numpy() for tensor in got))


def cases(setting):
    table = Table(setting)
    case = Case(f"table [{table.rows}, {PAIRS}] cos and sin, f32", 8 * table.rows * PAIRS)
    table.phasor(case)
    case.peer(table.numba, "numba")
    table.numpy(case)
    case.peer(table.torch, "torch")
    case.peer(table.transformers, "torch", "transformers.models.llama.modeling_llama", package="transformers")
    case.faster("G6", "phasor exact", "numba rotation by hand", 4)
    case.faster("G6", "phasor exact", "numpy f32 recipe", 8)
    case.faster("G6", "phasor exact", "torch f32 recipe", 8 if setting.warm else 20)
    if setting.warm:
        case.faster("G6", "phasor exact", "torch f64 recipe, then f32", 10)
    return [case]
