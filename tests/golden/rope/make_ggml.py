"""ggml's rope, by ggml itself (the package ggml-python holds its C library), for tests/server/rotate_golden_test.cc.

ggml computes in float32: the angle of pair i is a product of i + 1 factors, each rounded, from powf's base^(-2/n_dims). The tolerances of
a case, one per token, are what that can come to at its position and frequencies, to first order, and not more.

    pip install numpy==2.4.6 ggml-python==0.0.40 && python tests/golden/rope/make_ggml.py
"""
import base64
import ctypes
import importlib.metadata
import json
import math
import pathlib

import ggml
import numpy as np

HERE = pathlib.Path(__file__).parent
ULP = 2.0 ** -24
DTYPES = {np.dtype("float32"): "DTYPE_F32", np.dtype("float16"): "DTYPE_F16", np.dtype("int64"): "DTYPE_I64"}
TYPES = {np.dtype("float32"): ggml.GGML_TYPE_F32, np.dtype("float16"): ggml.GGML_TYPE_F16, np.dtype("int32"): ggml.GGML_TYPE_I32}
POSITIONS = [0, 1, 2, 63, 511, 4095]


def tensor(array):
    array = np.ascontiguousarray(array)
    return {"dtype": DTYPES[array.dtype], "shape": [str(n) for n in array.shape],
            "data": base64.b64encode(array.tobytes()).decode()}


def to_ggml(context, array):
    array = np.ascontiguousarray(array)
    sizes = (ctypes.c_int64 * array.ndim)(*reversed(array.shape))
    made = ggml.ggml_new_tensor(context, TYPES[array.dtype], array.ndim, sizes)
    ctypes.memmove(ggml.ggml_get_data(made), array.ctypes.data, array.nbytes)
    return made


def rope(x, positions, mode, n_dims, sections=None, factors=None, backward=False, n_ctx_orig=0, freq_base=10000.0, freq_scale=1.0,
         ext_factor=0.0, attn_factor=1.0, beta_fast=32.0, beta_slow=1.0):
    """x: [tokens, heads, head_dim]; positions: [tokens], or [4, tokens] with sections."""
    context = ggml.ggml_init(ggml.ggml_init_params(mem_size=1 << 24, mem_buffer=None, no_alloc=False))
    a = to_ggml(context, x)
    b = to_ggml(context, np.asarray(positions, np.int32).ravel())
    c = to_ggml(context, np.asarray(factors, np.float32)) if factors is not None else None
    numbers = (n_ctx_orig, freq_base, freq_scale, ext_factor, attn_factor, beta_fast, beta_slow)
    if sections is None:
        function = ggml.ggml_rope_ext_back if backward else ggml.ggml_rope_ext
        y = function(context, a, b, c, n_dims, mode, *numbers)
    else:
        y = ggml.ggml_rope_multi(context, a, b, c, n_dims, (ctypes.c_int * 4)(*sections), mode, *numbers)
    graph = ggml.ggml_new_graph(context)
    ggml.ggml_build_forward_expand(graph, y)
    assert ggml.ggml_graph_compute_with_ctx(context, graph, 1) == 0
    out = np.empty_like(x)
    ctypes.memmove(out.ctypes.data, ggml.ggml_get_data(y), out.nbytes)
    ggml.ggml_free(context)
    return out


def tolerance(x, positions, pairs, base, factor, divisors=None, restarts=1):
    """Per token. Of the angle of pair i: i + 1 products, powf's last place in each, and five more operations."""
    worst = 0
    for i in range(pairs // restarts):
        theta = base ** (-2.0 * i / (2 * pairs // restarts)) / (divisors[i] if divisors is not None else 1)
        worst = max(worst, theta * (3 * (i + 1) + 5) * ULP)
    reach = math.sqrt(2) * float(np.max(np.abs(x))) * factor
    far = np.max(np.abs(np.atleast_2d(positions)), axis=0)  # of each token
    return [float(f"{reach * (p * worst + 6 * ULP + (2.0 ** -11 if x.dtype == np.float16 else 0)):.3g}") for p in far]


def numbers(*shape, seed, dtype=np.float32):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(dtype)


def case(name, spec, x, y, positions, allowed, **more):
    if positions.ndim == 1:
        where = {"list": {"ids": [str(int(i)) for i in positions]}}
    else:
        where = {"multiAxis": {"axes": [tensor(axis.astype(np.int64)) for axis in positions]}}
    item = {"spec": {"rope": spec}, "positions": where, "layout": "LAYOUT_THD", "tensors": [tensor(x)],
            **({"rotate": more.pop("rotate")} if "rotate" in more else {})}
    return {"name": name, "tolerances": allowed, "item": item, "expect": [tensor(y)], **more}


def one_axis():
    positions = np.array(POSITIONS)
    modes = [("normal", 0, "PAIRING_INTERLEAVED"), ("neox", ggml.GGML_ROPE_TYPE_NEOX, "PAIRING_HALF_SPLIT")]
    llama3 = [1, 1, 1, 1.25, 2.5, 5, 7.5, 8]
    for label, mode, pairing in modes:
        def spec(width, **more):
            return {"headDim": str(width), "pairing": pairing, **more}

        x = numbers(6, 2, 16, seed=1)
        yield case(f"{label}/plain", spec(16), x, rope(x, positions, mode, 16), positions, tolerance(x, positions, 8, 1e4, 1))
        x16 = numbers(6, 2, 16, seed=2, dtype=np.float16)
        yield case(f"{label}/f16", spec(16), x16, rope(x16, positions, mode, 16), positions, tolerance(x16, positions, 8, 1e4, 1))
        x = numbers(6, 3, 20, seed=3)
        yield case(f"{label}/partial", spec(20, rotaryDim="12", base=500000.0), x, rope(x, positions, mode, 12, freq_base=500000.0),
                   positions, tolerance(x, positions, 6, 5e5, 1))
        x = numbers(6, 1, 16, seed=4)
        yield case(f"{label}/freq_factors-and-freq_scale", spec(16, freqFactors={"factors": llama3, "factor": 4.0}), x,
                   rope(x, positions, mode, 16, factors=llama3, freq_scale=0.25), positions,
                   tolerance(x, positions, 8, 1e4, 1, [4 * f for f in llama3]))
        # attn_factor without ext_factor is the factor on cos and sin.
        yield case(f"{label}/attn_factor", spec(16, attentionFactor=1.25), x, rope(x, positions, mode, 16, attn_factor=1.25),
                   positions, tolerance(x, positions, 8, 1e4, 1.25))
        for ext, attn, s, trained in [(1.0, 1.0, 4, 512), (0.5, 1.25, 8, 128)]:
            yarn = {"factor": float(s), "originalMaxPosition": str(trained), "extrapolationFactor": ext,
                    "attentionFactorMultiplier": attn}
            y = rope(x, positions, mode, 16, n_ctx_orig=trained, freq_scale=1 / s, ext_factor=ext, attn_factor=attn)
            yield case(f"{label}/yarn-{ext}-{attn}", spec(16, yarn=yarn), x, y, positions,
                       tolerance(x, positions, 8, 1e4, attn * (1 + 0.1 * math.log(s))))
        # The gradient: angles negated, factor kept.
        y = rope(x, positions, mode, 16, attn_factor=1.25, backward=True)
        yield case(f"{label}/back", spec(16, attentionFactor=1.25), x, y, positions, tolerance(x, positions, 8, 1e4, 1.25),
                   rotate={"backward": True})


def several_axes():
    t, h, w = np.array([0, 7, 7, 7, 600, 601]), np.array([0, 1, 2, 30, 600, 601]), np.array([0, 5, 3, 44, 600, 601])
    positions = np.stack([t, h, w])
    still = np.zeros_like(t)
    x = numbers(6, 2, 20, seed=5)
    axes = {"sections": ["4", "2", "2"], "layout": "AXIS_LAYOUT_CHUNKED"}
    y = rope(x, np.stack([t, h, w, still]), ggml.GGML_ROPE_TYPE_MROPE, 16, [4, 2, 2, 0])
    yield case("mrope", {"headDim": "20", "rotaryDim": "16", "axes": axes}, x, y, positions, tolerance(x, positions, 8, 1e4, 1))
    # Pair 7 passes none of the three tests of ggml's interleaving and takes the fourth coordinate, where Qwen3-VL has time.
    axes = {"sections": ["4", "2", "2"], "layout": "AXIS_LAYOUT_INTERLEAVED"}
    spec = {"headDim": "20", "rotaryDim": "16", "axes": axes}
    allowed = tolerance(x, positions, 8, 1e4, 1)
    y = rope(x, np.stack([t, h, w, t]), ggml.GGML_ROPE_TYPE_IMROPE, 16, [4, 2, 2, 0])
    yield case("imrope", spec, x, y, positions, allowed)
    y = rope(x, np.stack([t, h, w, still]), ggml.GGML_ROPE_TYPE_IMROPE, 16, [4, 2, 2, 0])
    yield case("imrope/fourth-coordinate-0", spec, x, y, positions, allowed, deviates=[7, 15])
    x = numbers(6, 2, 16, seed=6)
    y = rope(x, np.stack([h, w, still, still]), ggml.GGML_ROPE_TYPE_VISION, 8, [4, 4, 0, 0])
    axes = {"sections": ["4", "4"], "layout": "AXIS_LAYOUT_RESET"}
    yield case("vision", {"headDim": "16", "axes": axes}, x, y, np.stack([h, w]), tolerance(x, positions, 8, 1e4, 1, restarts=2))


if __name__ == "__main__":
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in [*one_axis(), *several_axes()])
    versions = json.dumps({p: importlib.metadata.version(p) for p in ("ggml-python", "numpy")})
    (HERE / "ggml.json").write_text(f'{{"versions":{versions},"cases":[\n{lines}\n]}}\n')
