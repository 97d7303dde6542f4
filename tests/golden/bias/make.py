"""Biases by distance from the libraries that introduced them, and from 300-bit arithmetic. Writes bias.json.

Run with Python 3.11 and the versions of ../requirements.txt; x-transformers as in requirements.txt here.
"""
import json
import pathlib
import struct

import mpmath
import torch
from transformers.models.bloom.modeling_bloom import build_alibi_tensor as bloom_alibi
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as falcon_alibi
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from transformers.models.t5.modeling_t5 import T5Attention
from x_transformers.x_transformers import AlibiPositionalBias, RelativePositionBias

mpmath.mp.prec = 300


def floats(tensor):
    """Every float as its bits, in order."""
    return [struct.unpack("<I", struct.pack("<f", v))[0] for v in tensor.detach().float().flatten().tolist()]


def f32_bits(value):
    """The nearest float32 of a real number that is 0 or normal."""
    with mpmath.workprec(24):
        nearest = float(+value)
    return struct.unpack("<I", struct.pack("<f", nearest))[0]


def runs(values, first):
    """[[distance, value] …]: where the value changes."""
    out = []
    for i, value in enumerate(values):
        if not out or out[-1][1] != value:
            out.append([first + i, value])
    return out


def alibi():
    mask = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0]])
    out = {"mask": mask.tolist(), "bloom": [], "falcon": [], "mpt": [], "x_transformers": []}
    for heads in (8, 12, 71):
        # [batch · heads, 1, keys]: slope · position of the key.
        out["bloom"].append({"heads": heads, "bits": floats(bloom_alibi(mask, heads, torch.float32))})
        out["falcon"].append({"heads": heads, "bits": floats(falcon_alibi(mask, heads, torch.float32))})
    # Positions from 257 on are rounded to bf16 before they are multiplied, and products to bf16.
    far = falcon_alibi(torch.ones(1, 300, dtype=torch.long), 71, torch.float32).reshape(71, 300)
    out["falcon_far"] = {"head": 64, "keys": [256, 257, 299], "bits": floats(far[64, [256, 257, 299]])}
    for heads, max_bias in ((8, 8), (12, 8), (40, 8), (32, 16)):
        out["mpt"].append({"heads": heads, "max_bias": max_bias, "keys": 6,
                           "bits": floats(build_mpt_alibi_tensor(heads, 6, max_bias))})
    for heads, total in ((5, 8), (8, 8)):
        module = AlibiPositionalBias(heads=heads, total_heads=total)
        out["x_transformers"].append({"heads": heads, "total": total, "queries": 3, "keys": 5,
                                      "bits": floats(module(3, 5))})
    return out


T5 = [(32, 128, True), (32, 128, False), (64, 256, True), (32, 256, False), (16, 64, True), (48, 1000, True),
      (300, 2147483647, False)]


def t5():
    out = []
    for buckets, distance, both in T5:
        d = torch.arange(-5000, 5001)
        values = T5Attention._relative_position_bucket(d, bidirectional=both, num_buckets=buckets, max_distance=distance)
        out.append({"num_buckets": buckets, "max_distance": distance, "bidirectional": both,
                    "runs": runs(values.tolist(), -5000), "exact": runs([exact_t5(int(x), buckets, distance, both) for x in d], -5000)})
    torch.manual_seed(7)
    module = RelativePositionBias(scale=8.0, causal=True, num_buckets=32, max_distance=128, heads=3)
    weight = module.relative_attention_bias.weight
    scaled = {"heads": 3, "scale": 8, "queries": 4, "keys": 6, "table": floats(weight), "bits": floats(module(4, 6))}
    return {"buckets": out, "x_transformers": scaled}


def exact_t5(d, buckets, distance, both):
    side = buckets // 2 if both else buckets
    n, offset = (abs(d), side if d > 0 else 0) if both else (max(-d, 0), 0)
    e = side // 2
    if n < e:
        return n + offset
    # The largest k with ln(n/e)/ln(D/e)·(side − e) ≥ k, in integers: n^m · e^k ≥ e^m · D^k, m = side − e.
    m, k = side - e, 0
    while k < m - 1 and n**m * e ** (k + 1) >= e**m * distance ** (k + 1):
        k += 1
    return e + k + offset


def deberta():
    out = []
    for bucket_size, max_position in ((256, 512), (32, 128), (2, 512), (64, 4096), (8, 100)):
        r = torch.arange(-4000, 4001)
        buckets = make_log_bucket_position(r, bucket_size, max_position).long()
        index = torch.clamp(buckets + bucket_size, 0, 2 * bucket_size - 1)
        out.append({"position_buckets": bucket_size, "max_relative_positions": max_position,
                    "runs": runs(index.tolist(), -4000)})
    return out


def kerple():
    distances = [1, 2, 3, 16, 100, 511, 4096, 131071, 4294967295]
    out = []
    for form, r1, r2, p in (("log", 0.5, 1.0, 1.0), ("log", 1.25, 0.01, 1.0), ("log", 3.0, 1e-30, 1.0),
                            ("power", 0.75, 0.5, 1.0), ("power", 2.5, 1.37, 1.0), ("power", 0.1, 2.0, 1.0),
                            ("nemo", 0.25, 1.5, 0.5), ("nemo", 0.7, 0.3, 2.0), ("nemo", 1.0, 1e-3, 1.9)):
        bits = []
        for d in distances:
            n = mpmath.mpf(d)
            value = -mpmath.mpf(r1) * (n ** mpmath.mpf(r2) if form == "power" else
                                       mpmath.log1p(mpmath.mpf(r2) * n ** mpmath.mpf(p)))
            bits.append(f32_bits(value))
        out.append({"form": form, "r1": r1, "r2": r2, "p": p, "bits": bits})
    return {"distances": distances, "cases": out}


def sandwich():
    distances = [1, -1, 2, 16, 512, 5000, 1000000]
    out = []
    for heads, dim, base in ((8, 128, 10000.0), (12, 64, 10000.0), (3, 2, 1e10), (5, 256, 500000.0)):
        bits = []
        for h in range(heads):
            for d in distances:
                total = mpmath.fsum(mpmath.cos(d * mpmath.mpf(base) ** (mpmath.mpf(-2 * k) / dim)) - 1
                                    for k in range(1, dim // 2 + 1))
                bits.append(f32_bits(total * heads / (8 * (h + 1))))
        out.append({"heads": heads, "dim": dim, "base": base, "bits": bits})
    return {"distances": distances, "cases": out}


def main():
    parts = {"alibi": alibi(), "t5": t5(), "deberta": deberta(), "kerple": kerple(), "sandwich": sandwich()}
    text = ",\n".join(f'"{name}": {json.dumps(part, separators=(",", ":"))}' for name, part in parts.items())
    (pathlib.Path(__file__).parent / "bias.json").write_text("{\n" + text + "\n}\n")


main()
