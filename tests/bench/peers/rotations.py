"""G9: RoPE applied to q, [4096 tokens, 32 heads, 128], token-major, as a transformer's view of it lies: 64 MiB of f32, 32 MiB of bf16.

Tables of cos and sin are ready and exact. In place where a peer can; those that cannot have their result in a buffer (onnxruntime,
numba out of place) or in memory of their own allocation (torch).
"""

import numpy as np

import rotation_loops
import rotation_onnx
import setting as shared
from measure import Case
from setting import from_bf16, to_bf16

HEADS, HEAD_DIM, PAIRS = 32, 128, 64
LAYOUTS = ("half-split", "interleaved")


class Rotation:
    def __init__(self, setting, dtype):
        self.setting, self.dtype, self.tokens = setting, dtype, setting.size(4096, 64)
        self.shape = (self.tokens, HEADS, HEAD_DIM)
        element = np.float32 if dtype == "f32" else np.uint16
        self.source, self.x, self.y = (setting.memory(self.shape, element) for _ in range(3))
        self.cos, self.sin = (setting.memory((self.tokens, PAIRS)) for _ in range(2))
        angles = np.multiply.outer(np.arange(self.tokens), 10000.0 ** (-np.arange(PAIRS) / PAIRS))
        self.cos[...], self.sin[...] = np.cos(angles), np.sin(angles)
        values = np.random.default_rng(1).standard_normal(self.shape, np.float32)
        self.source[...] = values if dtype == "f32" else to_bf16(values)
        values = self.floats(self.source)
        c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
        self.want = {}
        for layout, (a, b) in zip(LAYOUTS, (np.split(values, 2, -1), (values[..., ::2], values[..., 1::2]))):
            parts = (a * c - b * s).astype(np.float32), (b * c + a * s).astype(np.float32)
            joined = np.concatenate(parts, -1) if layout == "half-split" else np.stack(parts, -1).reshape(self.shape)
            self.want[layout] = joined
        # f32 arithmetic on values up to 6; one rounding to bf16 of such; and bf16 arithmetic by bf16 tables, as torch has it.
        self.close, self.once, self.rough = (1e-5, 1e-5, 1e-5) if dtype == "f32" else (1e-5, 0.016, 0.1)

    def floats(self, array):
        return array if self.dtype == "f32" else from_bf16(array)

    def add(self, case, layout, name, call, result=None, place=None, allowed=None, optional=False):
        """`place`: the array that holds the result (self.x: rotated in place), else `result` makes one of what the call returns."""
        def compare():
            self.x[...] = self.source
            self.y[...] = 0
            got = call()
            got = self.floats(place) if place is not None else result(got)
            return shared.difference((got.reshape(self.shape), self.want[layout]))
        case.add(name, call, compare, self.once if allowed is None else allowed, optional)

    def phasor(self, case):
        kernels = self.setting.kernels
        case.add("memcpy", lambda: kernels.copy(self.y, self.source, self.source.nbytes), lambda: 0, 0)
        for interleaved, layout in enumerate(LAYOUTS):
            for name, x, y in ((f"phasor {layout}, in place", self.x, self.x), (f"phasor {layout}", self.source, self.y)):
                self.add(case, layout, name, lambda i=interleaved, x=x, y=y: kernels.rotate(
                    self.dtype, i, x, y, self.cos, self.sin, self.shape), place=y)

    def numba(self, case, numba):
        self.setting.numba(numba)
        loops = rotation_loops.make(numba, self.dtype)
        for layout in LAYOUTS:
            into, in_place = loops[layout]
            self.add(case, layout, f"numba {layout}, in place", lambda f=in_place: f(self.x, self.cos, self.sin), place=self.x)
            self.add(case, layout, f"numba {layout}", lambda f=into: f(self.source, self.y, self.cos, self.sin), place=self.y)

    def numpy(self, case):
        c, s = self.cos[:, None], self.sin[:, None]

        def half():
            a, b = self.source[..., :PAIRS], self.source[..., PAIRS:]
            return np.concatenate([a * c - b * s, b * c + a * s], -1)

        self.add(case, "half-split", "numpy half-split", half, lambda got: got)

    def tensors(self, torch):
        """source and x as torch has them, and tables with every column twice in x's type."""
        def tensor(array):
            return torch.from_numpy(array) if self.dtype == "f32" else torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        source, x = tensor(self.source), tensor(self.x)
        return source, x, torch.from_numpy(self.cos), torch.from_numpy(self.sin)

    def torch(self, case, torch, llama, gptj):
        self.setting.torch(torch)
        source, x, cos, sin = self.tensors(torch)
        shape = (1, self.tokens, HEADS, HEAD_DIM)
        q, q_in_place = (tensor.view(shape).transpose(1, 2) for tensor in (source, x))
        twice = [torch.cat([table, table], -1)[None].to(source.dtype) for table in (cos, sin)]
        in_a_row = [table.repeat_interleave(2, -1).to(source.dtype)[None, :, None] for table in (cos, sin)]
        circle = torch.complex(cos, sin)[None, :, None]

        def half(q, cos, sin):  # apply_rotary_pos_emb's line for q
            return q * cos.unsqueeze(1) + llama.rotate_half(q) * sin.unsqueeze(1)

        def half_in_place(q, cos, sin):
            q.copy_(half(q, cos, sin))

        def every_two(q, cos, sin):
            return q * cos + gptj.rotate_every_two(q) * sin

        def by_complex():  # Meta's reference
            pairs = torch.view_as_complex(source.view(shape).float().reshape(*shape[:3], PAIRS, 2))
            return torch.view_as_real(pairs * circle).flatten(3).type_as(source)

        def heads_first(got):
            return got.transpose(1, 2).float().numpy()

        def tokens_first(got):
            return got.float().numpy()

        self.add(case, "half-split", "transformers rotate_half, eager", lambda: half(q, *twice), heads_first, allowed=self.rough)
        self.add(case, "interleaved", "transformers rotate_every_two, eager", lambda: every_two(source.view(shape), *in_a_row),
                 tokens_first, allowed=self.rough)
        self.add(case, "interleaved", "torch complex product (Meta)", by_complex, tokens_first)
        compiled, compiled_in_place = (torch.compile(function, dynamic=False) for function in (half, half_in_place))
        compiled_two = torch.compile(every_two, dynamic=False)
        self.add(case, "half-split", "torch.compile of rotate_half", lambda: compiled(q, *twice), heads_first, allowed=self.rough,
                 optional=True)
        self.add(case, "half-split", "torch.compile of rotate_half, in place", lambda: compiled_in_place(q_in_place, *twice),
                 place=self.x, allowed=self.rough, optional=True)
        self.add(case, "interleaved", "torch.compile of rotate_every_two", lambda: compiled_two(source.view(shape), *in_a_row),
                 tokens_first, allowed=self.rough, optional=True)

    def onnxruntime(self, case, onnx, onnxruntime):
        for interleaved, layout in enumerate(LAYOUTS):
            for domain in ("com.microsoft", ""):
                name = f"onnxruntime {domain or 'opset 23'} RotaryEmbedding {layout}"
                try:
                    call, result = rotation_onnx.session(onnx, onnxruntime, self, domain, interleaved)
                except Exception as error:  # its CPU provider has no bf16
                    if self.dtype == "f32":
                        case.fail(name, error)
                    else:
                        case.notes.append(f"{name} is not there: {str(error).splitlines()[0][:160]}")
                    continue
                self.add(case, layout, name, call, lambda _, result=result: result())


def limits(case, dtype, warm):
    """In place is held against numba in place, and against numba into a buffer too: a loop that reads one array and writes another,
    as most people write it, moves half as much memory again."""
    half, two = (f"phasor {layout}, in place" for layout in LAYOUTS)
    if dtype == "f32":
        for layout, ours, limit in zip(LAYOUTS, (half, two), (2, 1.5)):
            case.faster(f"G9 {dtype}", ours, f"numba {layout}, in place", limit)
            case.faster(f"G9 {dtype}", ours, f"numba {layout}", limit)
            for domain in ("com.microsoft", "opset 23"):
                case.faster(f"G9 {dtype}", ours, f"onnxruntime {domain} RotaryEmbedding {layout}", 1.6)
            case.faster(f"G9 {dtype}", f"phasor {layout}", f"numba {layout}", 1.3)
    else:
        for layout, ours in zip(LAYOUTS, (half, two)):
            case.faster(f"G9 {dtype}", ours, f"numba {layout}, in place", 1.7)
            case.faster(f"G9 {dtype}", ours, f"numba {layout}", 1.7)
    if warm:
        case.faster(f"G9 {dtype}", half, "torch.compile of rotate_half", 5 if dtype == "f32" else 4.5)


def cases(setting):
    found = []
    for dtype in ("f32", "bf16"):
        rotation = Rotation(setting, dtype)
        case = Case(f"rotation of [{rotation.tokens}, {HEADS}, {HEAD_DIM}] {dtype}", 2 * rotation.source.nbytes)
        rotation.phasor(case)
        case.peer(rotation.numba, "numba")
        case.peer(rotation.onnxruntime, "onnx", "onnxruntime", package="onnxruntime")
        case.peer(rotation.torch, "torch", "transformers.models.llama.modeling_llama", "transformers.models.gptj.modeling_gptj")
        if dtype == "f32":
            rotation.numpy(case)
        limits(case, dtype, setting.warm)
        found.append(case)
    return found
