"""Encodings of images and points by coordinates: sinusoids over feature maps, random Fourier features, boxes, time stamps."""

import inspect
import math
import re

import torch

GRID = (5, 7)
# A picture that fills rows 0 … 3 and columns 0 … 4 of the map.
SEEN = (4, 5)
POINTS = [[0.0, 0.0], [0.25, 0.5], [1.0, 0.375], [0.8125, 0.0625]]
BOXES = [[0.25, 0.5, 0.125, 0.75], [0.0, 1.0, 0.5, 0.0625], [0.9375, 0.375, 0.25, 0.25]]


def _samples(table, rows):
    """[row, column, value] of [rows, columns], at the borders of its halves and quarters."""
    width = table.shape[1]
    at = sorted({c for part in (0, 1, 2, 3) for c in (part * width // 4 + k for k in (-2, -1, 0, 1, 2)) if 0 <= c < width})
    at = sorted({*at, width - 2, width - 1})
    return [[r, c, round(float(table[r, c]), 9)] for r in rows for c in at]


def _map(module, mask):
    """The module's rows over the map, [points, columns], by its own signature."""
    names = list(inspect.signature(module.forward).parameters)
    height, width = GRID
    if names[:2] == ["width", "height"]:  # RT-DETR: no mask
        return None if mask is not None else module(width, height, torch.device("cpu"), torch.float32)[0]
    if names[:2] == ["pixel_values", "pixel_mask"]:
        mask = torch.ones(1, height, width, dtype=torch.bool) if mask is None else mask
        table = module(torch.zeros(1, 1, height, width), mask)
    else:
        table = module((1, 1, height, width), "cpu", torch.float32, mask)
    return table[0].flatten(1).T


def sine(name, module):
    """Sinusoids over a feature map, with and without a padding mask; of points and boxes where the class calls it with those."""
    if hasattr(module, "encode_boxes") and not module.normalize:  # the decoder's: it never makes a map
        boxes = torch.tensor([BOXES])
        order = (1, 0, 2, 3)
        at = [[2 * math.pi * box[axis] for box in BOXES] for axis in order]
        return {"kind": "sine_points", "coordinates": at, "samples": _samples(module.encode_boxes(boxes)[0], range(len(BOXES)))}
    if hasattr(module, "encode_1d_positions") and "geometry" in name:
        points = torch.tensor(POINTS)
        x, y = module.encode_1d_positions(points[:, 0], points[:, 1])
        at = [[2 * math.pi * point[axis] for point in POINTS] for axis in (1, 0)]
        return {"kind": "sine_points", "coordinates": at, "samples": _samples(torch.cat((y, x), 1), range(len(POINTS)))}
    entry = {"kind": "sine_2d", "grid": list(GRID), "samples": _samples(_map(module, None), (0, 1, 8, 20, 34))}
    mask = torch.zeros(1, *GRID, dtype=torch.bool)
    mask[:, : SEEN[0], : SEEN[1]] = True
    masked = _map(module, mask)
    if masked is not None:
        entry |= {"seen": list(SEEN), "masked": _samples(masked, (0, 9, 25))}
    return entry


def boxes(module):
    """BROS: the eight coordinates of a box, 24 columns each."""
    box = torch.tensor([[0.5 * k - j for k in range(module.dim_bbox)] for j in range(3)])
    table = module(box[:, None, None])[:, 0, 0]
    return {"kind": "sine_boxes", "coordinates": box.tolist(), "samples": _samples(table, (0, 1, 2))}


def _rule(axes, pairs):
    """A matrix that anybody can make again: ((37·i + 17·a) mod 64 − 32)/16."""
    return torch.tensor([[((37 * i + 17 * a) % 64 - 32) / 16 for i in range(pairs)] for a in range(axes)])


def fourier(module):
    """Random features of points, with that matrix in place of the random one."""
    points = torch.tensor(POINTS)
    if hasattr(module, "projector"):
        pairs = module.projector.weight.shape[0]
        module.projector.weight.data = _rule(2, pairs).T.contiguous()
        (cos, sin), *_ = module(2 * points[None] - 1)
        assert torch.equal(cos[..., 0::2], cos[..., 1::2])
        table, radians = torch.cat((sin[0, :, 0::2], cos[0, :, 0::2]), 1), True
    else:
        pairs = module.positional_embedding.shape[1]
        module.positional_embedding.data = _rule(2, pairs)
        table, radians = module(points)[..., :], False
    at = [[2 * point[axis] - 1 for point in POINTS] for axis in (0, 1)]
    return {"kind": "fourier_points", "shape": [2, pairs], "radians": radians, "coordinates": at,
            "samples": _samples(table, range(len(POINTS)))}


def time_stamps(module):
    """MusicFlamingo's angles: windows and frames, both times the time in seconds."""
    frames, steps = 4, torch.tensor([[0.0, 0.04, 0.08, 0.12], [0.16, 0.2, 0.24, 0.28], [1.6, 1.64, 1.68, 1.72]])
    cos, sin = module(steps, frames)
    duration = module.config.audio_frame_step * 4 * frames
    at, rows = [[], []], []
    for window in range(steps.shape[0]):
        for frame in range(frames):
            turn = -2 * math.pi * float(steps[window, frame])
            at[0].append(turn * round(float(steps[window, 0]) / duration) / module.max_seq_len_cached)
            at[1].append(turn * 2 * math.pi * frame / module.max_seq_len_cached)
            rows.append(torch.cat((sin[window, frame, 0::2], cos[window, frame, 0::2])))
    assert torch.equal(cos[..., 0::2], cos[..., 1::2])
    return {"kind": "time_stamps", "pairs": cos.shape[-1] // 2, "coordinates": at, "samples": _samples(torch.stack(rows), (1, 5, 10, 11))}


def entry_of(name, module):
    """The entry of a module that is one of these, or None."""
    cls = type(module).__name__
    if re.search(r"SinePositionEmbedding$|PositionEmbeddingSine$", cls):
        return sine(name, module)
    if cls == "BrosPositionalEmbedding2D":
        return boxes(module)
    if re.search(r"^(Sam|EdgeTam)\w*PositionalEmbedding$|^LightGluePositionalEncoder", cls):
        return fourier(module)
    if cls == "MusicFlamingoRotaryEmbedding":
        return time_stamps(module)
    return None
