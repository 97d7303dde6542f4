"""Rotations by vLLM's own layers, for tests/server/rotate_golden_test.cc.

The layers are read from the wheel; vLLM itself, which wants an accelerator, is not installed: what they import from the rest of it (its
registry of operators, loggers, the size of a parallel group) is replaced by nothing. Their tables are float32: base^(-2i/d) has the
rounding of its exponent times ln base, and an angle that of a product. Tolerances, one per token, are that to first order.

    pip install torch==2.15.0 numpy==2.4.6; pip download --no-deps --only-binary :all: vllm==0.19.1
    python tests/golden/rope/make_vllm.py vllm-0.19.1-cp38-abi3-manylinux_2_31_x86_64.whl
"""
import base64
import importlib
import json
import math
import pathlib
import sys
import types
from unittest import mock

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
ULP = 2.0 ** -24
DTYPES = {np.dtype("float32"): "DTYPE_F32", np.dtype("int64"): "DTYPE_I64"}
FOLDER = "vllm/model_executor/layers/rotary_embedding"
POSITIONS = np.array([0, 1, 2, 63, 511, 4095])


class CustomOp(torch.nn.Module):
    """What vLLM's registry of operators amounts to where only forward_native is called."""

    def __init__(self, *_, **__):
        super().__init__()

    def enabled(self):
        return False

    @staticmethod
    def register(*_, **__):
        return lambda cls: cls


def layer(wheel, module, name):
    for stub in ("vllm", "vllm.model_executor", "vllm.model_executor.layers", "vllm.logger", "vllm.utils", "vllm.utils.torch_utils",
                 "vllm._aiter_ops", "vllm.distributed", "vllm.model_executor.custom_op"):
        sys.modules.setdefault(stub, mock.MagicMock(spec_set=None))
    sys.modules["vllm.model_executor.custom_op"].CustomOp = CustomOp
    sys.modules["vllm._aiter_ops"].rocm_aiter_ops.is_triton_rotary_embed_enabled = lambda: False
    package = types.ModuleType(FOLDER.replace("/", "."))
    package.__path__ = [f"{wheel}/{FOLDER}"]
    sys.modules.setdefault(package.__name__, package)
    return getattr(importlib.import_module(f"{package.__name__}.{module}"), name)


def tensor(array):
    array = np.ascontiguousarray(array)
    return {"dtype": DTYPES[array.dtype], "shape": [str(n) for n in array.shape],
            "data": base64.b64encode(array.tobytes()).decode()}


def numbers(*shape, seed):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def case(name, spec, module, positions, width, inv_freq, base, heads=(2, 1), growth=1.0, weights=None, **more):
    q, k = (numbers(len(POSITIONS), h, width, seed=len(name) + h) for h in heads)
    with torch.no_grad():
        y = module.forward_native(torch.from_numpy(positions), torch.from_numpy(q.reshape(len(q), -1)),
                                  torch.from_numpy(k.reshape(len(k), -1)))
    out = [t.numpy().reshape(x.shape) for t, x in zip(y, (q, k))]
    if positions.ndim == 1:
        where = {"list": {"ids": [str(int(i)) for i in positions]}}
    else:
        where = {"multiAxis": {"axes": [tensor(axis) for axis in positions]}}
    n = len(inv_freq)
    worst = max(abs(f) * (math.log(base) * i / n + 5) * ULP for i, f in enumerate(inv_freq)) * growth
    tolerances = [float(f"{math.sqrt(2) * (p * worst + 8 * growth * ULP):.3g}") for p in np.max(np.atleast_2d(positions), axis=0)]
    item = {"spec": {**spec, **({"weights": weights} if weights else {})}, "positions": where, "layout": "LAYOUT_THD",
            "tensors": [tensor(q), tensor(k)]}
    return {"name": name, "tolerances": tolerances, "item": item, "expect": [tensor(t) for t in out], **more}


def powers(base, width, count):
    return [base ** (-2.0 * i / width) for i in range(count)]


def cases(wheel):
    width, length = 32, 4096
    f32 = torch.float32
    rope = layer(wheel, "ntk_scaling_rope", "NTKScalingRotaryEmbedding")
    for neox, pairing in ((True, "PAIRING_HALF_SPLIT"), (False, "PAIRING_INTERLEAVED")):
        for mixed in (None, 0.625):
            module = rope(width, width, length, 10000.0, neox, 8.0, f32, mixed)
            ntk = {"factor": 8.0, **({"mixedB": mixed} if mixed else {})}
            yield case(f"ntk_scaling/{'neox' if neox else 'gptj'}-{mixed}", {"rope": {"headDim": str(width), "pairing": pairing,
                                                                                  "ntkMixed": ntk}},
                       module, POSITIONS, width, powers(1e4, width, 16), 8e4)
    module = layer(wheel, "dynamic_ntk_alpha_rope", "DynamicNTKAlphaRotaryEmbedding")(width, width, length, 10000.0, True, 1000.0, f32)
    yield case("dynamic_ntk_alpha", {"rope": {"headDim": str(width), "ntkAware": {"factor": 1000.0}}}, module, POSITIONS, width,
               powers(1e7, width, 16), 1.7e7)
    # Hunyuan-VL: four coordinates, the base of alpha.
    axes = np.stack([POSITIONS, POSITIONS[::-1] // 2, POSITIONS // 3, (POSITIONS * 7) % 50])
    module = layer(wheel, "xdrope", "XDRotaryEmbedding")(width, width, length, 10000.0, True, 1000.0, f32, [4, 4, 3, 5])
    spec = {"headDim": str(width), "ntkAware": {"factor": 1000.0},
            "axes": {"sections": ["4", "4", "3", "5"], "layout": "AXIS_LAYOUT_CHUNKED"}}
    yield case("xdrope", {"rope": spec}, module, axes, width, powers(1e7, width, 16), 1.7e7)
    module = layer(wheel, "gemma4_rope", "Gemma4RotaryEmbedding")(width, 8, length, 1e6, True, f32)
    yield case("gemma4", {"rope": {"headDim": str(width), "base": 1e6, "proportional": {"partialRotaryFactor": 0.25}}}, module,
               POSITIONS, width, powers(1e6, width, 4), 1e6)
    yield fope(wheel)


def fope(wheel):
    """Two mixtures of the 6 of 8 frequencies that turn once in 3000 positions. Beyond the 6 outputs vLLM pads cosines and sines with
    1, which mixes the two channels of a pair at every position; a rotation that stands still has a sine of 0, as the paper has it."""
    width, length = 16, 4096
    module = layer(wheel, "fope", "FourierRotaryEmbedding")(
        head_size=width, rotary_dim=width, max_position_embeddings=length, base=10000.0, is_neox_style=True, dtype=torch.float32,
        init_cache=False, num_key_value_heads=2, num_inv_freq=6, fope_sep_head=True, fope_init_factor=1.0)
    coefficients = [numbers(2, 6, 6, seed=s) for s in (1, 2)]
    with torch.no_grad():
        module.cos_coef.copy_(torch.from_numpy(coefficients[0]))
        module.sin_coef.copy_(torch.from_numpy(coefficients[1]))
    weights = [{"name": name, "tensor": tensor(c)} for name, c in zip(("cos_coef", "sin_coef"), coefficients)]
    return case("fope", {"fope": {"headDim": str(width), "trainingLength": "3000"}}, module, POSITIONS, width, powers(1e4, width, 6), 1e4,
                heads=(4, 2), growth=6.0, weights=weights, deviates=[6, 7, 14, 15])


if __name__ == "__main__":
    wheel = sys.argv[1]
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases(wheel))
    (HERE / "vllm.json").write_text(f'{{"versions":{{"vllm": "0.19.1", "torch": "2.15.0"}},"cases":[\n{lines}\n]}}\n')
