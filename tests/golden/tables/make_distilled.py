"""Writes distilled.json: rows of distilled functions, in the form of cases.json.

Samples have a fifth number: what float64 may be off by, from the bound of kernels/README.md (n inputs: (n/16 + 6) units of
2^-53 of the sum of magnitudes; SiLU's slope is below 1.1) carried through the layers.

  python make_distilled.py > distilled.json      # versions: ../requirements.txt
"""
import mpmath
import numpy
import torch
from mpmath import mp, mpf

import make

UNIT = mpf(2) ** -53
random = numpy.random.RandomState(11)


def sigmoid(x):
    return 1 / (1 + mp.exp(-x))


def layers(inputs, widths, scale=1.0):
    weights = {}
    for i, outputs in enumerate(widths):
        weights[f"w{i + 1}"] = random.randn(outputs, inputs) * scale
        weights[f"b{i + 1}"] = random.randn(outputs)
        inputs = outputs
    return weights


def exact_row(inputs, errors, weights):
    """Outputs and what float64 may be off by."""
    count = len(weights) // 2
    for i in range(1, count + 1):
        w, b = weights[f"w{i}"], weights[f"b{i}"]
        values, bounds = [], []
        for o in range(w.shape[0]):
            products = [mpf(float(w[o, k])) * x for k, x in enumerate(inputs)]
            size = sum(abs(p) for p in products) + abs(mpf(float(b[o])))
            carried = sum(abs(mpf(float(w[o, k]))) * e for k, e in enumerate(errors))
            value = sum(products) + mpf(float(b[o]))
            bound = carried + (mpf(len(inputs)) / 16 + 6) * UNIT * size
            if i < count:
                value, bound = value * sigmoid(value), bound * mpf("1.1") + 3 * UNIT * abs(value)
            values.append(value)
            bounds.append(bound)
        inputs, errors = values, bounds
    return inputs, errors


def torch_rows(inputs, weights):
    x = torch.tensor(inputs, dtype=torch.float64)
    count = len(weights) // 2
    for i in range(1, count + 1):
        x = torch.nn.functional.linear(x, torch.tensor(weights[f"w{i}"]), torch.tensor(weights[f"b{i}"]))
        if i < count:
            x = torch.nn.functional.silu(x)
    return x.numpy()


def add(name, first, size, terms, weights, positions):
    spec = {"numPositions": str(size), "firstPosition": str(first), "cosineTerms": str(terms)}
    exact_inputs, input_errors, plain_inputs = [], [], []
    for m in positions:
        if terms:
            angles = [mp.pi * k * (mpf(float(m)) - first + mpf("0.5")) / size for k in range(terms)]
            exact_inputs.append([mp.cos(a) for a in angles])
            input_errors.append([UNIT] * terms)
            plain_inputs.append([float(mp.cos(a)) for a in angles])
        else:
            x = 2 * (mpf(float(m)) - first) / (size - 1) - 1
            exact_inputs.append([x])
            input_errors.append([4 * UNIT * (1 + abs(x))])
            plain_inputs.append([2 * ((float(m) - first) / (size - 1)) - 1])
    rows = [exact_row(x, e, weights) for x, e in zip(exact_inputs, input_errors)]
    make.add(name, "torch linear and silu, float64", {"distilled": spec}, make.ids(numpy.array(positions, dtype=numpy.float64)),
             {"table": torch_rows(plain_inputs, weights)}, lambda _, row, column: rows[row][0][column], 1e-11, weights=weights)
    case = make.cases[-1]
    for sample in case["samples"]:
        sample.append(mpmath.nstr(rows[sample[1]][1][sample[2]], 4))


add("distilled/perceptron", -5, 40, 0, layers(1, [24, 24, 10], 0.5), list(range(-5, 35)) + [-1000, 12.25, 5000])
add("distilled/series", 3, 64, 16, layers(16, [6]), list(range(3, 67)) + [0.5, 64.75, 200])
add("distilled/cosines-and-layers", 0, 1000, 9, layers(9, [17, 5]), [0, 1, 499, 500, 999, 1000, -1])
add("distilled/eight-layers", 0, 2, 0, layers(1, [7, 3, 9, 4, 4, 1, 8, 2]), [0, 1, 2, -3])
make.write()
