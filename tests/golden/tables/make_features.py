"""Writes features.json: encodings of images and points by coordinates, in the form of cases.json.

  python make_features.py > features.json        # versions: ../requirements.txt
"""
import numpy
import torch
from mpmath import mp, mpf

import make

TWO_PI = 6.283185307179586
EPSILON = 1e-6


def interleaved(base, width, coordinate, column):
    """Sine and cosine in turn: column c has the frequency base^(−2·floor(c/2)/width)."""
    angle = mpf(coordinate) * mpf(base) ** (-mpf(2 * (column // 2)) / width)
    return mp.cos(angle) if column % 2 else mp.sin(angle)


def two_axes(width, bases, at):
    """at(row) -> the coordinates [y, x], doubles."""
    half = width // 2

    def exact(_, row, column):
        axis = column // half
        return interleaved(bases[axis], half, at(row)[axis], column % half)

    return exact


def of_point(grid, start):
    def at(row):
        y, x = divmod(row, grid[1])
        return [(y + start) / (grid[0] + EPSILON) * TWO_PI, (x + start) / (grid[1] + EPSILON) * TWO_PI]

    return at


def spec_of(dim, grid=None, **more):
    spec = {"dim": str(dim), "order": "GRID_ORDER_AS_LISTED", "layout": "GRID_LAYOUT_INTERLEAVED"} | more
    return {"gridSinusoidal": spec | ({"grid": [str(n) for n in grid]} if grid else {})}


def rows(table):
    return table[0].flatten(1).T.numpy()


def every(grid):
    return {"range": {"count": str(grid[0] * grid[1])}}


def maps():
    from transformers.models.dab_detr import configuration_dab_detr as dab_config, modeling_dab_detr as dab
    from transformers.models.deformable_detr import modeling_deformable_detr as deformable
    from transformers.models.detr import modeling_detr as detr
    from transformers.models.rt_detr import modeling_rt_detr as rt_detr

    rule = {"extentEpsilon": EPSILON, "scale": TWO_PI}
    grid = (5, 7)
    shape = (1, 1, *grid)
    module = detr.DetrSinePositionEmbedding(16, normalize=True)
    make.add("grid_sinusoidal/detr", "transformers DetrSinePositionEmbedding", spec_of(32, grid, start=1, **rule), every(grid),
             {"table": rows(module(shape, "cpu", torch.float32))}, two_axes(32, [10000, 10000], of_point(grid, 1)), 2e-6)
    make.add("grid_sinusoidal/detr-not-normalised", "transformers DetrSinePositionEmbedding", spec_of(32, grid, start=1),
             every(grid), {"table": rows(detr.DetrSinePositionEmbedding(16)(shape, "cpu", torch.float32))},
             two_axes(32, [10000, 10000], lambda row: [row // 7 + 1, row % 7 + 1]), 2e-6)

    module = deformable.DeformableDetrSinePositionEmbedding(10, normalize=True)
    make.add("grid_sinusoidal/deformable-detr", "transformers DeformableDetrSinePositionEmbedding",
             spec_of(20, grid, start=0.5, **rule), every(grid), {"table": rows(module(shape, "cpu", torch.float32))},
             two_axes(20, [10000, 10000], of_point(grid, 0.5)), 2e-6)

    config = dab_config.DabDetrConfig(hidden_size=24, temperature_height=20, temperature_width=35)
    module = dab.DabDetrSinePositionEmbedding(config)
    whole = torch.ones(1, *grid, dtype=torch.bool)
    make.add("grid_sinusoidal/dab-detr", "transformers DabDetrSinePositionEmbedding",
             spec_of(24, grid, start=1, axisBases=[20, 35], **rule), every(grid),
             {"table": rows(module(torch.zeros(shape), whole))}, two_axes(24, [20, 35], of_point(grid, 1)), 2e-6)

    # A picture that does not fill the map: coordinates by what the mask shows of each column and each row.
    mask = torch.zeros(1, *grid, dtype=torch.bool)
    mask[:, :3, :6] = True
    seen = mask[0].numpy()
    up, left = seen.cumsum(0), seen.cumsum(1)
    y = (up / (up[-1:] + EPSILON) * TWO_PI).reshape(-1)
    x = (left / (left[:, -1:] + EPSILON) * TWO_PI).reshape(-1)
    make.add("grid_sinusoidal/dab-detr-masked", "transformers DabDetrSinePositionEmbedding with a padding mask",
             spec_of(24, axisBases=[20, 35]), make.axes_positions([y, x]), {"table": rows(module(torch.zeros(shape), mask))},
             two_axes(24, [20, 35], lambda row: [float(y[row]), float(x[row])]), 2e-6)

    module = rt_detr.RTDetrSinePositionEmbedding(16, 10000)
    library = module(7, 5, torch.device("cpu"), torch.float64)[0].numpy()

    def halves(_, row, column):
        angle = mpf([row // 7, row % 7][column // 8]) * mpf(10000) ** (-mpf(column % 4) / 4)
        return mp.cos(angle) if column % 8 >= 4 else mp.sin(angle)

    for name, grid_of, positions in [("rt-detr", grid, every(grid)), ("rt-detr-by-coordinates", None, {"grid": {"extents": ["5", "7"]}})]:
        make.add("grid_sinusoidal/" + name, "transformers RTDetrSinePositionEmbedding",
                 spec_of(16, grid_of, layout="GRID_LAYOUT_CONCATENATED"), positions, {"table": library}, halves, 1e-14)


def points():
    from transformers.models.lightglue import configuration_lightglue as glue_config, modeling_lightglue as glue
    from transformers.models.sam3 import modeling_sam3 as sam3
    from transformers.models.sam2 import configuration_sam2 as sam2_config, modeling_sam2 as sam2

    boxes = torch.tensor([[[0.25, 0.5, 0.125, 0.75], [0.1, 0.9, 0.3, 0.7], [1.0, 0.0, 0.0625, 1.0]]])
    order = [1, 0, 2, 3]
    at = [(boxes[0, :, axis].double() * TWO_PI).numpy() for axis in order]

    def of_box(_, row, column):
        return interleaved(10000, 8, float(at[column // 8][row]), column % 8)

    make.add("grid_sinusoidal/sam3-boxes", "transformers Sam3SinePositionEmbedding.encode_boxes", spec_of(32, columns=["8"] * 4),
             make.axes_positions(at), {"table": sam3.Sam3SinePositionEmbedding(8).encode_boxes(boxes)[0].numpy()}, of_box, 2e-6)

    places = torch.rand(6, 2)
    module = sam2.Sam2PositionalEmbedding(sam2_config.Sam2PromptEncoderConfig(hidden_size=24))
    matrix = module.positional_embedding.numpy()
    stretched = [(2 * places[:, axis].double() - 1).numpy() for axis in (0, 1)]

    def angle(row, column):
        return sum(mpf(float(stretched[a][row])) * mpf(float(matrix[a, column])) for a in (0, 1))

    def features(_, row, column):
        turns = 2 * mp.pi * angle(row, column % 12)
        return mp.cos(turns) if column >= 12 else mp.sin(turns)

    make.add("gaussian_fourier/sam2", "transformers Sam2PositionalEmbedding", {"gaussianFourier": {"log": False}},
             make.axes_positions(stretched), {"table": module(places[None])[0].numpy()}, features, 1e-5,
             weights={"weight": matrix})

    config = glue_config.LightGlueConfig(descriptor_dim=64, num_attention_heads=4)
    module = glue.LightGluePositionalEncoder(config)
    projection = module.projector.weight.detach().numpy().T.copy()
    keypoints = 2 * torch.rand(1, 6, 2) - 1
    coordinates = [keypoints[0, :, axis].double().numpy() for axis in (0, 1)]
    with torch.no_grad():
        (cos, sin), *_ = module(keypoints)
    library = torch.cat([sin[0, :, ::2], cos[0, :, ::2]], 1).numpy()

    def turned(_, row, column):
        value = sum(mpf(float(coordinates[a][row])) * mpf(float(projection[a, column % 8])) for a in (0, 1))
        return mp.cos(value) if column >= 8 else mp.sin(value)

    make.add("gaussian_fourier/lightglue", "transformers LightGluePositionalEncoder", {"gaussianFourier": {"radians": True}},
             make.axes_positions(coordinates), {"table": library}, turned, 1e-6, weights={"weight": projection})


maps()
points()
make.write()
