#!/usr/bin/env python3
"""Writes expected.json: biases over windows and learned functions of positions.

    python3 -m venv VENV && VENV/bin/pip install -r requirements.txt && VENV/bin/python make.py

Weights are not stored: weight i of a tensor is a rule of (seed, i) that the test repeats, exact in float32. Every case has
samples from arithmetic of 60 digits ("exact"), and where a library has the scheme, samples of its own module with the same
weights ("library"), with the distance that its precision explains. Windows have no arithmetic: the library's bits are right.
"""

import hashlib
import json
import pathlib
import random
import types

import mpmath
import torch
from mpmath import mpf
from torch import nn
from transformers.models.beit.modeling_beit import BeitRelativePositionBias
from transformers.models.data2vec.modeling_data2vec_vision import Data2VecVisionRelativePositionBias
from transformers.models.swin.modeling_swin import SwinRelativePositionBias
from transformers.models.swinv2.modeling_swinv2 import Swinv2SelfAttention
from x_transformers.x_transformers import DataDependentAlibi, DynamicPositionBias

mpmath.mp.dps = 60
HERE = pathlib.Path(__file__).parent
CASES = []


def splitmix(x):
    x = (x + 0x9E3779B97F4A7C15) & (2**64 - 1)
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return x ^ (x >> 31)


class Weight:
    """Element i: ((splitmix(seed·2^32 + i) >> 43) − 2^20)·2^−20·scale, scale a power of two."""

    def __init__(self, seed, shape, scale=1.0):
        self.seed, self.shape, self.scale = seed, list(shape), scale
        count = 1
        for extent in shape:
            count *= extent
        self.values = [((splitmix((seed << 32) + i) >> 43) - 2**20) * 2.0**-20 * scale for i in range(count)]

    def torch(self, dtype=torch.float64):
        return torch.tensor(self.values, dtype=dtype).reshape(self.shape)

    def rows(self):
        width = self.shape[-1]
        return [[mpf(v) for v in self.values[i : i + width]] for i in range(0, len(self.values), width)]

    def json(self):
        return {"seed": self.seed, "shape": self.shape, "scale": self.scale}


def decimal(x):
    return mpmath.nstr(x, 25, strip_zeros=False) if x != 0 else "0"


def add(name, scheme, fields, weights, queries, keys, exact=None, library=None, window=None, bound=None):
    """exact(h, q, k) gives a number, q and k being indices; library is (name, tensor [heads, queries, keys], distance)."""
    heads, rows, columns = library[1].shape if library else (window["heads"], len(queries), len(keys))
    rng = random.Random(name)
    places = {(0, 0, 0), (heads - 1, rows - 1, columns - 1), (heads - 1, 0, columns - 1), (0, rows - 1, 0)}
    while len(places) < min(24, heads * rows * columns):
        places.add((rng.randrange(heads), rng.randrange(rows), rng.randrange(columns)))
    case = {"name": name, "scheme": scheme, "fields": fields, "weights": {n: w.json() for n, w in weights.items()}}
    case.update({"queries": queries, "keys": keys})
    places = sorted(places)
    if exact:
        case["bound"] = bound
        case["exact"] = [[*p, decimal(exact(*p))] for p in places]
    if library:
        case["library"] = {"name": library[0], "distance": library[2]}
        case["library"]["samples"] = [[*p, float(library[1][p])] for p in places]
    CASES.append(case)


# ---- Windows: nothing but indices.


def window_case(name, library, height, width, heads, class_token, index, bias, table):
    index = index.reshape(bias.shape[1:]).to(torch.int64)
    fields = {"window_height": height, "window_width": width, "class_token": class_token}
    case = {"name": name, "scheme": "window_bias", "fields": fields, "weights": {"table": table.json()}}
    case["index_sha256"] = hashlib.sha256(index.contiguous().numpy().tobytes()).hexdigest()
    case["index_rows"] = {str(r): index[r].tolist() for r in (0, 1, index.shape[0] - 1)}
    case["bias_sha256"] = hashlib.sha256(bias.to(torch.float32).contiguous().numpy().tobytes()).hexdigest()
    case["library"] = {"name": library, "distance": 0}
    CASES.append(case)


def windows():
    for seed, (height, width, heads) in enumerate([(7, 7, 3), (8, 8, 24), (2, 5, 3), (12, 3, 1)]):
        module = SwinRelativePositionBias(heads, (height, width))
        table = Weight(100 + seed, module.relative_position_bias_table.shape)
        module.relative_position_bias_table.data = table.torch(torch.float32)
        window_case(f"swin-{height}x{width}", "transformers SwinRelativePositionBias", height, width, heads, False,
                    module.relative_position_index, module()[0].detach(), table)
    for seed, (kind, cls, height, width) in enumerate([("beit", BeitRelativePositionBias, 14, 14), ("beit", BeitRelativePositionBias, 3, 3),
                                                       ("data2vec", Data2VecVisionRelativePositionBias, 6, 6)]):
        config = types.SimpleNamespace(image_size=(16 * height, 16 * width), patch_size=16, num_attention_heads=4)
        module = cls(config) if kind == "beit" else cls(config, window_size=(height, width))
        table = Weight(110 + seed, module.relative_position_bias_table.shape)
        module.relative_position_bias_table.data = table.torch(torch.float32)
        index = module.generate_relative_position_index((height, width))
        window_case(f"{kind}-{height}x{width}", f"transformers {cls.__name__}", height, width, 4, True, index,
                    module((height, width))[0].detach(), table)
    # A rectangle: the library's own index; its forward reshapes the table with the sides exchanged, so the gather is done here.
    index = BeitRelativePositionBias.generate_relative_position_index((2, 3))
    table = Weight(120, (3 * 5 + 3, 2))
    bias = table.torch(torch.float32)[index.view(-1)].reshape(7, 7, 2).permute(2, 0, 1)
    window_case("beit-2x3", "transformers BeitRelativePositionBias.generate_relative_position_index", 2, 3, 2, True, index, bias, table)


# ---- Swin v2.


def continuous(name, height, width, heads, pretrained, seed):
    config = types.SimpleNamespace(qkv_bias=True, attention_probs_dropout_prob=0.0)
    attention = Swinv2SelfAttention(config, heads * 8, heads, (height, width), pretrained or [0, 0])
    w = {"w1": Weight(seed, (512, 2), 4.0), "b1": Weight(seed + 1, (512,)), "w2": Weight(seed + 2, (heads, 512), 0.25)}
    mlp = attention.continuous_position_bias_mlp.double()
    mlp[0].weight.data, mlp[0].bias.data, mlp[2].weight.data = w["w1"].torch(), w["b1"].torch(), w["w2"].torch()
    table = mlp(attention.relative_coords_table.double()).view(-1, heads)
    n = height * width
    bias = 16 * torch.sigmoid(table[attention.relative_position_index.view(-1)].view(n, n, heads).permute(2, 0, 1))
    w1, b1, w2 = w["w1"].rows(), w["b1"].rows()[0], w["w2"].rows()
    pre = pretrained or [height, width]

    def coordinate(delta, p):
        if delta == 0:
            return mpf(0)
        c = mpf(delta) / (p - 1)
        return mpmath.sign(c) * mpmath.log(1 + 8 * abs(c), 2) / 3

    def exact(h, q, k):
        x = (coordinate(q // width - k // width, pre[0]), coordinate(q % width - k % width, pre[1]))
        hidden = [max(mpf(0), r[0] * x[0] + r[1] * x[1] + b) for r, b in zip(w1, b1)]
        return 16 / (1 + mpmath.exp(-mpmath.fsum(a * v for a, v in zip(w2[h], hidden))))

    fields = {"window_height": height, "window_width": width}
    if pretrained:
        fields.update({"pretrained_height": pretrained[0], "pretrained_width": pretrained[1]})
    # Coordinates are float32 in the library, and the sum of 512 terms carries their error.
    add(name, "continuous_window_bias", fields, w, [], [], exact, ("transformers Swinv2SelfAttention", bias.detach(), 2e-4), bound=1e-12)


# ---- FIRE: no package has it; its code, at the module's own precision, is the formula.


def fire(name, fields, heads, width, queries, keys, seed):
    w = {"w1": Weight(seed, (width, 1), 2.0), "b1": Weight(seed + 1, (width,)), "w2": Weight(seed + 2, (heads, width)),
         "b2": Weight(seed + 3, (heads,))}
    w1, b1, w2, b2 = w["w1"].rows(), w["b1"].rows()[0], w["w2"].rows(), w["b2"].rows()[0]
    c, limit, epsilon = (mpf(fields.get(n, d)) for n, d in (("c", 0.1), ("threshold", 512.0), ("epsilon", 1e-6)))

    def exact(h, q, k):
        query, key = queries[q], keys[k]
        x = mpmath.log(1 + c * abs(query - key)) / (mpmath.log(1 + abs(c * max(limit, query))) + epsilon)
        hidden = [max(mpf(0), r[0] * x + b) for r, b in zip(w1, b1)]
        return mpmath.fsum(a * v for a, v in zip(w2[h], hidden)) + b2[h]

    add(name, "fire", fields, w, queries, keys, exact, window={"heads": heads}, bound=1e-14)


# ---- Dynamic position bias.


def dynamic(name, depth, dim, heads, log_distance, norm, queries, keys, seed):
    module = DynamicPositionBias(dim, heads=heads, depth=depth, log_distance=log_distance, norm=norm).double()
    w = {}
    layers = list(module.mlp)
    for i, layer in enumerate(layers):
        linear = layer[0] if isinstance(layer, nn.Sequential) else layer
        w[f"w{i + 1}"] = Weight(seed + 10 * i, linear.weight.shape, 0.25 if i == 0 else 0.5)
        w[f"b{i + 1}"] = Weight(seed + 10 * i + 1, linear.bias.shape)
        linear.weight.data, linear.bias.data = w[f"w{i + 1}"].torch(), w[f"b{i + 1}"].torch()
        if norm and i + 1 < len(layers):
            w[f"g{i + 1}"] = Weight(seed + 10 * i + 2, (dim,))
            if i == 0:  # the library's own LayerNorm, without a shift
                layer[1].gamma.data = w[f"g{i + 1}"].torch()
            else:
                w[f"h{i + 1}"] = Weight(seed + 10 * i + 3, (dim,))
                layer[1].weight.data, layer[1].bias.data = w[f"g{i + 1}"].torch(), w[f"h{i + 1}"].torch()

    def exact(h, q, k):
        delta = mpf(queries[q] - keys[k])
        x = [mpmath.sign(delta) * mpmath.log(1 + abs(delta)) if log_distance else delta]
        for i in range(depth + 1):
            b = w[f"b{i + 1}"].rows()[0]
            y = [mpmath.fsum(a * v for a, v in zip(r, x)) + bias for r, bias in zip(w[f"w{i + 1}"].rows(), b)]
            if i == depth:
                return y[h]
            if norm:
                mean = mpmath.fsum(y) / dim
                deviation = mpmath.sqrt(mpmath.fsum((v - mean) ** 2 for v in y) / dim + mpf(1e-5))
                shift = w[f"h{i + 1}"].rows()[0] if i > 0 else [mpf(0)] * dim
                y = [(v - mean) / deviation * g + s for v, g, s in zip(y, w[f"g{i + 1}"].rows()[0], shift)]
            x = [v / (1 + mpmath.exp(-v)) for v in y]

    library = None
    if keys == list(range(len(keys))) and queries == list(range(len(keys) - len(queries), len(keys))):
        with mock_float():
            library = ("x-transformers DynamicPositionBias", module(len(queries), len(keys)).detach(), 1e-6 if log_distance else 1e-9)
    fields = {"log_distance": log_distance, "layer_norm": norm}
    add(name, "dynamic_position_bias", fields, w, queries, keys, exact, library, {"heads": heads}, 1e-10 if norm else 1e-11)


class mock_float:
    """Lets the module's `.float()` keep doubles, so that its linear layers can be doubles too."""

    def __enter__(self):
        self.float, torch.Tensor.float = torch.Tensor.float, lambda t: t.double()

    def __exit__(self, *_):
        torch.Tensor.float = self.float


# ---- Forgetting bias.


def forgetting(name, heads, count, logits, queries, keys, seed):
    w = {"gates": Weight(seed, (heads, count), 4.0 if logits else 0.5)}
    rows = w["gates"].rows()

    def gate(h, j):
        return -mpmath.log(1 + mpmath.exp(-rows[h][j])) if logits else rows[h][j]

    def exact(h, q, k):
        query, key = queries[q], keys[k]
        return mpmath.fsum(gate(h, j) for j in range(key + 1, query + 1)) if key <= query else mpf(0)

    library = None
    if logits and queries == keys == list(range(count)):
        module = DataDependentAlibi(heads, heads).double()
        module.to_forget_gates[0].weight.data = torch.eye(heads, dtype=torch.float64)
        module.to_forget_gates[0].bias.data.zero_()
        library = ("x-transformers DataDependentAlibi", module(w["gates"].torch().T[None])[0].detach().tril(), 1e-11)
    add(name, "forgetting_bias", {"logits": logits}, w, queries, keys, exact, library, {"heads": heads}, 1e-15)


# ---- TUPE.


def t5_bucket(distance, buckets, limit):
    half = buckets // 2
    offset, n = (half if distance > 0 else 0), abs(distance)
    small = half // 2
    if n < small:
        return offset + n
    return offset + min(half - 1, small + int(mpmath.log(mpf(n) / small) / mpmath.log(mpf(limit) / small) * (half - small)))


def tupe(name, heads, positions, dim, bias, untied, queries, keys, seed):
    w = {"q": Weight(seed, (heads, positions, dim)), "k": Weight(seed + 1, (heads, positions, dim))}
    fields = {}
    if bias == "buckets":
        fields = {"num_buckets": 8, "max_distance": 20}
        w["bias"] = Weight(seed + 2, (8, heads))
    elif bias:
        w["bias"] = Weight(seed + 2, (heads, 2 * bias - 1))
    if untied:
        w["untied"] = Weight(seed + 3, (heads, 2))
    q, k = w["q"].rows(), w["k"].rows()

    def exact(h, i, j):
        query, key = queries[i], keys[j]
        if untied and query == 0:
            return w["untied"].rows()[h][0]
        if untied and key == 0:
            return w["untied"].rows()[h][1]
        value = mpmath.fsum(a * b for a, b in zip(q[h * positions + query], k[h * positions + key])) / mpmath.sqrt(2 * dim)
        if bias == "buckets":
            return value + w["bias"].rows()[t5_bucket(key - query, 8, 20)][h]
        if bias:
            return value + w["bias"].rows()[h][max(-(bias - 1), min(bias - 1, key - query)) + bias - 1]
        return value

    add(name, "tupe", fields, w, queries, keys, exact, window={"heads": heads}, bound=1e-14)


def spread(start, count, step=1):
    return list(range(start, start + count * step, step))


def main():
    torch.manual_seed(0)
    windows()
    continuous("swinv2-8x8", 8, 8, 3, None, 200)
    continuous("swinv2-16x16-from-12", 16, 16, 2, [12, 12], 210)
    continuous("swinv2-2x7-from-3x5", 2, 7, 5, [3, 5], 220)
    fire("fire-short", {}, 12, 32, spread(0, 9), spread(0, 9), 300)
    fire("fire-decode", {}, 3, 32, [1999], spread(0, 2000), 310)
    fire("fire-fields", {"c": 0.75, "threshold": 20.5, "epsilon": 0.0}, 5, 17, spread(10, 40), spread(0, 50), 320)
    fire("fire-scattered", {}, 2, 32, [700, 5, 5, 2147483647], [0, 9, 3, 1000000], 330)
    dynamic("dynamic-depth-1", 1, 24, 4, False, False, spread(0, 20), spread(0, 20), 400)
    dynamic("dynamic-depth-2-log", 2, 33, 3, True, False, spread(30, 40), spread(0, 70), 410)
    dynamic("dynamic-depth-3-norm", 3, 16, 5, True, True, spread(0, 33), spread(0, 33), 430)
    dynamic("dynamic-depth-7", 7, 8, 2, True, True, spread(0, 5), spread(0, 5), 480)
    dynamic("dynamic-scattered", 2, 32, 6, True, False, [3, 100000, 17], [5, 2, 900, 17], 560)
    forgetting("forgetting-logits", 3, 150, True, spread(0, 150), spread(0, 150), 600)
    forgetting("forgetting-log-gates", 2, 1000, False, [999, 0, 64, 500], spread(0, 1000), 610)
    tupe("tupe-plain", 3, 20, 64, None, False, spread(0, 20), spread(0, 20), 700)
    tupe("tupe-clipped-untied", 2, 40, 33, 6, True, spread(0, 40), spread(0, 40), 710)
    tupe("tupe-buckets", 4, 50, 16, "buckets", False, spread(10, 40), spread(0, 50), 720)
    versions = {"transformers": "5.24.0", "x-transformers": "2.11.24", "torch": "2.15.0", "mpmath": "1.3.0"}
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in CASES)
    (HERE / "expected.json").write_text(f'{{"versions":{json.dumps(versions)},"cases":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
