#!/usr/bin/env python3
"""Writes resize.json: tables resized by torch.nn.functional.interpolate, in float64 and by size.

    VENV/bin/python resize.py       (the environment of make.py)

Columns are channels (or heads); tables follow the rule of weights in make.py. `nearest_deviations` lists the (source, target)
pairs up to 64 where torch, which multiplies by a float32 quotient, reads another point than floor(i·source/target).
"""

import json
import pathlib
import random
import types

import torch
import torch.nn.functional as F
from transformers.models.beit.modeling_beit import BeitRelativePositionBias

from make import Weight

HERE = pathlib.Path(__file__).parent
CASES = []


def grid_of(table, source):
    """[rows, columns] → [1, columns, height, width]"""
    height, width = source if len(source) == 2 else (1, source[0])
    return table.T.reshape(1, table.shape[1], height, width)


def resized(table, source, target, interpolation, antialias=False, align_corners=False, first=0, last=0):
    rows = table.shape[0]
    grid = grid_of(table[first : rows - last], source)
    size = target if len(target) == 2 else (1, target[0])
    options = {"antialias": antialias} if antialias else {}
    mode = {"linear": "bilinear", "cubic": "bicubic", "nearest": "nearest"}[interpolation]
    if interpolation != "nearest":
        options["align_corners"] = align_corners
    new = F.interpolate(grid, size=size, mode=mode, **options)[0].reshape(table.shape[1], -1).T
    return torch.cat([table[:first], new, table[rows - last :]])


def add(name, source, target, columns, interpolation, seed, **options):
    points = 1
    for extent in source:
        points *= extent
    rows = points + options.get("first", 0) + options.get("last", 0)
    weight = Weight(seed, (rows, columns))
    new = resized(weight.torch(), source, target, interpolation, **options)
    rng = random.Random(name)
    places = {(0, 0), (new.shape[0] - 1, columns - 1), (0, columns - 1), (new.shape[0] - 1, 0)}
    while len(places) < min(16, new.numel()):
        places.add((rng.randrange(new.shape[0]), rng.randrange(columns)))
    CASES.append({"name": name, "source": source, "target": target, "columns": columns, "seed": seed,
                  "interpolation": interpolation, **options, "rows": new.shape[0],
                  "samples": [[r, c, float(new[r, c])] for r, c in sorted(places)]})


def beit():
    """The library's own bias after its own resize: from 14 to 20 patches a side, the last three rows kept."""
    config = types.SimpleNamespace(image_size=224, patch_size=16, num_attention_heads=3)
    module = BeitRelativePositionBias(config)
    weight = Weight(900, module.relative_position_bias_table.shape)
    module.relative_position_bias_table.data = weight.torch()
    bias = module((20, 20))[0].detach()
    places = [(0, 0, 0), (1, 0, 5), (2, 7, 0), (0, 1, 1), (1, 17, 399), (2, 400, 1), (0, 200, 33), (1, 33, 200), (2, 399, 400)]
    return {"seed": 900, "heads": 3, "window": [14, 14], "target_window": [20, 20],
            "samples": [[*p, float(bias[p])] for p in places]}


def main():
    seed = 800
    for columns in (1, 5):
        for source, target in (([7], [11]), ([512], [77]), ([5, 5], [8, 8]), ([14, 14], [9, 21]), ([13, 27], [5, 6]), ([1, 1], [4, 3]),
                               ([3, 2], [1, 1])):
            for interpolation in ("linear", "cubic", "nearest"):
                flags = [{}] if interpolation == "nearest" else [{}, {"antialias": True}, {"align_corners": True}]
                for options in flags:
                    seed += 1
                    name = f"{interpolation}-{'x'.join(map(str, source))}-{'x'.join(map(str, target))}-{columns}" + "".join(
                        "-" + o for o in options)
                    add(name, source, target, columns, interpolation, seed, **options)
    # Patch counts for which a rounded scale factor comes out one short.
    for source, targets in ((37, (39, 43, 78, 86, 115, 123)), (14, (61, 115, 122))):
        for target in targets:
            seed += 1
            add(f"dinov2-{source}-{target}", [source, source], [target, target], 2, "cubic", seed, first=1)
            CASES[-1]["by_scale_factor"] = F.interpolate(torch.zeros(1, 1, source, source), scale_factor=target / source,
                                                         mode="bicubic").shape[-1]
    add("vit-14-24-class", [14, 14], [24, 24], 3, "cubic", 1001, first=1)
    add("swin-13-23-heads", [13, 13], [23, 23], 4, "cubic", 1002)
    add("beit-27-39-heads", [27, 27], [39, 39], 3, "linear", 1003, last=3)
    add("both-ends", [6, 5], [9, 4], 3, "linear", 1004, first=2, last=3, antialias=True)
    deviations = []
    for source in range(1, 65):
        x = torch.arange(source, dtype=torch.float64).reshape(1, 1, source)
        for target in range(1, 65):
            got = F.interpolate(x, size=target, mode="nearest")[0, 0].tolist()
            if got != [i * source // target for i in range(target)]:
                deviations.append([source, target])
    text = ",\n".join(json.dumps(case, separators=(",", ":")) for case in CASES)
    (HERE / "resize.json").write_text(
        f'{{"versions":{{"torch":"2.15.0","transformers":"5.24.0"}},"beit":{json.dumps(beit(), separators=(",", ":"))},\n'
        f'"nearest_deviations":{json.dumps(deviations, separators=(",", ":"))},"cases":[\n{text}\n]}}\n')


if __name__ == "__main__":
    main()
