"""Writes cases.json: tables of absolute encodings and of rotations by several coordinates, by request.

Every case is a PrecomputeItem (proto3 JSON) and samples of its answer: [array, row, column, exact, library]. `exact` is the
formula with 60 digits, from the doubles that the request holds; `library` the value that the library's own module gives.
`tolerance` bounds their distance: what float32 angles (or float32 coordinates) cost the library at these positions.

  python make.py > cases.json        # versions: ../requirements.txt
"""
import base64
import json
import random

import mpmath
import numpy
import torch
from mpmath import mp, mpf

mp.dps = 60
torch.manual_seed(5)
picker = random.Random(5)
cases = []


def tensor(array):
    names = {"float64": "DTYPE_F64", "float32": "DTYPE_F32", "int64": "DTYPE_I64"}
    return {
        "dtype": names[str(array.dtype)],
        "shape": [str(n) for n in array.shape],
        "data": base64.b64encode(numpy.ascontiguousarray(array).tobytes()).decode(),
    }


def add(name, source, spec, positions, arrays, exact, tolerance, count=24, weights=None, form=None):
    """arrays: {name: library's [rows, columns]}; exact(array, row, column) -> mpf."""
    if weights:
        spec = dict(spec, weights=[{"name": k, "tensor": tensor(v)} for k, v in weights.items()])
    table = {"positions": positions}
    if form:
        table["form"] = form
    samples = []
    for array, values in arrays.items():
        values = numpy.asarray(values, dtype=numpy.float64)
        rows, columns = values.shape
        spots = {(0, 0), (rows - 1, columns - 1)}
        while len(spots) < min(count, rows * columns):
            spots.add((picker.randrange(rows), picker.randrange(columns)))
        for row, column in sorted(spots):
            right = exact(array, row, column)
            error = abs(right - mpf(float(values[row, column])))
            assert error <= tolerance, (name, array, row, column, right, values[row, column])
            samples.append([array, row, column, mpmath.nstr(right, 20), repr(float(values[row, column]))])
    shape = {a: list(numpy.asarray(v).shape) for a, v in arrays.items()}
    cases.append({"name": name, "source": source, "tolerance": tolerance, "item": {"spec": spec, "table": table},
                  "shape": shape, "samples": samples})


def ids(values):
    return {"ids": tensor(numpy.asarray(values))}


# ---- Diffusion steps.
def timesteps():
    from diffusers.models.embeddings import get_timestep_embedding

    steps = numpy.array([0.0, 1.0, 0.25, 499.5, 999.0, 17.125])
    for name, dim, flip, shift, scale, period in [
        ("defaults", 320, False, 1, 1, 10000),
        ("stable-diffusion", 320, True, 0, 1, 10000),
        ("odd-width", 7, False, 0, 1, 10000),
        ("odd-width-flipped", 9, True, 1, 1, 10000),
        ("flux", 256, True, 0, 1000, 10000),
        ("negative-scale", 16, False, 0.5, -2, 300),
    ]:
        t = steps / 1000 if scale == 1000 else steps
        library = get_timestep_embedding(torch.tensor(t), dim, flip, shift, scale, period).numpy()
        half = dim // 2

        def exact(_, row, column, t=t, half=half, flip=flip, shift=shift, scale=scale, period=period):
            if column >= 2 * half:
                return mpf(0)
            i, second = column % half, column >= half
            angle = mpf(scale) * mpf(float(t[row])) * mpf(period) ** (-mpf(i) / (half - mpf(shift)))
            return mp.sin(angle) if second == flip else mp.cos(angle)

        spec = {"timestep": {"dim": str(dim), "maxPeriod": period, "downscaleFreqShift": shift, "flipSinToCos": flip,
                             "scale": scale}}
        add("timestep/" + name, "diffusers get_timestep_embedding", spec, ids(t), {"table": library}, exact, 2e-4)


# ---- Random frequencies.
def gaussian():
    from diffusers.models.embeddings import GaussianFourierProjection

    sigma = numpy.array([0.01, 1.0, 0.5, 80.0, 3.25])
    for name, log, flip in [("log", True, False), ("log-flipped", True, True), ("linear", False, False)]:
        module = GaussianFourierProjection(8, 16.0, log=log, flip_sin_to_cos=flip)
        weight = module.weight.detach().numpy()
        library = module(torch.tensor(sigma, dtype=torch.float32)).numpy()

        def exact(_, row, column, weight=weight, log=log, flip=flip):
            x = mpf(float(sigma[row]))
            x = mp.log(x) if log else x
            angle = 2 * mp.pi * mpf(float(weight[column % 8])) * x
            return mp.sin(angle) if (column >= 8) == flip else mp.cos(angle)

        spec = {"gaussianFourier": {"log": log, "flipSinToCos": flip}}
        add("gaussian_fourier/" + name, "diffusers GaussianFourierProjection", spec, ids(sigma), {"table": library}, exact,
            1e-3, weights={"weight": weight})


# ---- Grids.
def part(columns, coordinate, column):
    half = columns // 2
    angle = coordinate * mpf(10000) ** (-mpf(column % half) / half)
    return mp.sin(angle) if column < half else mp.cos(angle)


def grids():
    from diffusers.models.embeddings import get_2d_sincos_pos_embed, get_3d_sincos_pos_embed

    for name, dim, grid, base, scale, extra in [
        ("dit", 32, (4, 4), (4, 4), 1.0, 0),
        ("pixart", 16, (8, 8), (4, 4), 2.0, 0),
        ("not-square", 24, (3, 5), (2, 2), 1.5, 0),
        ("class-row", 8, (2, 3), (2, 3), 1.0, 1),
    ]:
        library = get_2d_sincos_pos_embed(dim, grid, cls_token=extra > 0, extra_tokens=extra, interpolation_scale=scale,
                                          base_size=base[0] if base[0] == base[1] else 1, output_type="pt")
        if base[0] != base[1]:  # the library has one base for both axes: coordinates 0, 1, 2 … are what is wanted
            from diffusers.models.embeddings import get_2d_sincos_pos_embed_from_grid

            w, h = torch.meshgrid(torch.arange(grid[1]), torch.arange(grid[0]), indexing="xy")
            library = get_2d_sincos_pos_embed_from_grid(dim, torch.stack([w, h]).float())
            library = torch.cat([torch.zeros(extra, dim), library])

        def exact(_, row, column, dim=dim, grid=grid, base=base, scale=scale, extra=extra):
            if row < extra:
                return mpf(0)
            y, x = divmod(row - extra, grid[1])
            axis, g = (1, x) if column < dim // 2 else (0, y)
            return part(dim // 2, mpf(g / (grid[axis] / base[axis]) / scale), column % (dim // 2))

        spec = {"gridSinusoidal": {"dim": str(dim), "grid": [str(n) for n in grid], "baseSize": [str(n) for n in base],
                                   "interpolationScale": [scale, scale], "extraRows": str(extra)}}
        rows = extra + grid[0] * grid[1]
        add("grid_sinusoidal/" + name, "diffusers get_2d_sincos_pos_embed", spec, {"range": {"count": str(rows)}},
            {"table": library.numpy()}, exact, 1e-6)

    dim, frames, width, height = 32, 3, 4, 2
    library = get_3d_sincos_pos_embed(dim, (width, height), frames, 1.875, 1.5, output_type="pt").reshape(-1, dim).numpy()

    def exact(_, row, column):
        t, rest = divmod(row, height * width)
        y, x = divmod(rest, width)
        if column < dim // 4:
            return part(dim // 4, mpf(t / 1.5), column)
        column -= dim // 4
        third = 3 * dim // 8
        return part(third, mpf((x if column < third else y) / 1.875), column % third)

    spec = {"gridSinusoidal": {"dim": str(dim), "grid": [str(frames), str(height), str(width)],
                               "interpolationScale": [1.5, 1.875, 1.875]}}
    add("grid_sinusoidal/cogvideox", "diffusers get_3d_sincos_pos_embed", spec,
        {"range": {"count": str(frames * height * width)}}, {"table": library}, exact, 1e-6)


# ---- Rotations by several coordinates.
def axes_positions(coordinates):
    return {"multiAxis": {"axes": [tensor(c) for c in coordinates]}}


def add_rotation(name, source, rope, coordinates, angle, library, tolerance, form):
    """angle(row, pair) -> mpf; library: (cos, sin) with the columns of `form`."""
    pairs = int(rope.get("rotaryDim", rope["headDim"])) // 2

    def exact(array, row, column):
        pair = column // 2 if form == "TABLE_FORM_INTERLEAVED_DUPLICATED" else column % pairs
        value = angle(row, pair)
        return mp.cos(value) if array == "cos" else mp.sin(value)

    add("rope/" + name, source, {"rope": rope}, axes_positions(coordinates), {"cos": library[0], "sin": library[1]}, exact,
        tolerance, form=form)


def theta(base, i, n):
    return mpf(base) ** (-mpf(i) / n)


def rotations():
    from diffusers.models.transformers.transformer_flux import FluxPosEmbed
    from diffusers.models.transformers.transformer_wan import WanRotaryPosEmbed

    rows = 40
    whole = [numpy.array([picker.randrange(0, 3000) for _ in range(rows)]) for _ in range(4)]

    # Flux: [0, row, column] of an image, and text at [0, 0, 0].
    sections = [8, 28, 28]
    flux = [numpy.zeros(rows, dtype=numpy.int64), whole[1] % 128, whole[2] % 128]
    cos, sin = FluxPosEmbed(10000, [16, 56, 56])(torch.tensor(numpy.stack(flux, axis=1)))

    def chunked(coordinates, sections, base, reset):
        bounds = numpy.cumsum([0] + sections)

        def angle(row, pair):
            axis = int(numpy.searchsorted(bounds, pair, side="right")) - 1
            within, n = (pair - int(bounds[axis]), sections[axis]) if reset else (pair, int(bounds[-1]))
            return mpf(float(coordinates[axis][row])) * theta(base, within, n)

        return angle

    add_rotation("flux", "diffusers FluxPosEmbed",
                 {"headDim": "128", "pairing": "PAIRING_INTERLEAVED",
                  "axes": {"sections": [str(s) for s in sections], "layout": "AXIS_LAYOUT_RESET"}},
                 flux, chunked(flux, sections, 10000, True), (cos.numpy(), sin.numpy()), 1e-6,
                 "TABLE_FORM_INTERLEAVED_DUPLICATED")

    frames, height, width = 3, 4, 5
    wan = WanRotaryPosEmbed(128, (1, 2, 2), 1024)
    cos, sin = wan(torch.zeros(1, 4, frames, 2 * height, 2 * width))
    grid = [g.reshape(-1) for g in numpy.meshgrid(numpy.arange(frames), numpy.arange(height), numpy.arange(width),
                                                  indexing="ij")]
    sections = [22, 21, 21]
    add_rotation("wan", "diffusers WanRotaryPosEmbed",
                 {"headDim": "128", "pairing": "PAIRING_INTERLEAVED",
                  "axes": {"sections": [str(s) for s in sections], "layout": "AXIS_LAYOUT_RESET"}},
                 grid, chunked(grid, sections, 10000, True), (cos[0, :, 0].numpy(), sin[0, :, 0].numpy()), 1e-6,
                 "TABLE_FORM_INTERLEAVED_DUPLICATED")

    from transformers.models.qwen2_vl import modeling_qwen2_vl as qwen2, configuration_qwen2_vl as qwen2_config
    from transformers.models.qwen3_vl import modeling_qwen3_vl as qwen3, configuration_qwen3_vl as qwen3_config
    from transformers.models.ernie4_5_vl_moe import modeling_ernie4_5_vl_moe as ernie
    from transformers.models.ernie4_5_vl_moe import configuration_ernie4_5_vl_moe as ernie_config
    from transformers.models.pixtral import modeling_pixtral as pixtral, configuration_pixtral as pixtral_config
    from transformers.models.llama4 import modeling_llama4 as llama4, configuration_llama4 as llama4_config

    x = torch.zeros(1)
    three = torch.tensor(numpy.stack(whole[:3]))[:, None, :]

    def text_config(kind, section, theta_, **more):
        return kind(hidden_size=512, num_attention_heads=4, num_key_value_heads=4,
                    rope_parameters={"rope_type": "default", "rope_theta": theta_, "mrope_section": section}, **more)

    config = text_config(qwen2_config.Qwen2VLTextConfig, [16, 24, 24], 1e6)
    cos, sin = qwen2.Qwen2VLRotaryEmbedding(config)(x, three)
    add_rotation("qwen2-vl", "transformers Qwen2VLRotaryEmbedding",
                 {"headDim": "128", "base": 1e6, "axes": {"sections": ["16", "24", "24"]}},
                 whole[:3], chunked(whole, [16, 24, 24], 1e6, False), (cos[0].numpy(), sin[0].numpy()), 1e-3,
                 "TABLE_FORM_DUPLICATED")

    config = text_config(qwen3_config.Qwen3VLTextConfig, [24, 20, 20], 5e6, head_dim=128)
    cos, sin = qwen3.Qwen3VLTextRotaryEmbedding(config)(x, three)

    def interleaved(row, pair):
        axis = pair % 3 if pair < 3 * [0, 20, 20][pair % 3] else 0
        return mpf(int(whole[axis][row])) * theta(5e6, pair, 64)

    add_rotation("qwen3-vl", "transformers Qwen3VLTextRotaryEmbedding",
                 {"headDim": "128", "base": 5e6,
                  "axes": {"sections": ["24", "20", "20"], "layout": "AXIS_LAYOUT_INTERLEAVED"}},
                 whole[:3], interleaved, (cos[0].numpy(), sin[0].numpy()), 1e-3, "TABLE_FORM_DUPLICATED")

    config = text_config(ernie_config.Ernie4_5_VLMoeTextConfig, [22, 22, 20], 500000)
    cos, sin = ernie.Ernie4_5_VLMoeTextRotaryEmbedding(config)(x, three)

    def alternating(row, pair):
        axis = 1 + pair % 2 if pair < 44 else 0
        return mpf(int(whole[axis][row])) * theta(500000, pair, 64)

    add_rotation("ernie-4.5-vl", "transformers Ernie4_5_VLMoeTextRotaryEmbedding",
                 {"headDim": "128", "base": 500000, "pairing": "PAIRING_INTERLEAVED",
                  "axes": {"sections": ["22", "22", "20"], "layout": "AXIS_LAYOUT_ALTERNATING"}},
                 whole[:3], alternating, (cos[0].numpy(), sin[0].numpy()), 1e-3, "TABLE_FORM_INTERLEAVED_DUPLICATED")

    patches = [whole[0] % 64, whole[1] % 64]
    both = torch.tensor(numpy.stack(patches, axis=0))[None]
    config = qwen2_config.Qwen2VLVisionConfig(embed_dim=1280, num_heads=16)
    cos, sin = qwen2.Qwen2VLVisionRotaryEmbedding(config)(x, both)
    add_rotation("qwen2-vl-image-tower", "transformers Qwen2VLVisionRotaryEmbedding",
                 {"headDim": "80", "axes": {"sections": ["20", "20"], "layout": "AXIS_LAYOUT_RESET"}},
                 patches, chunked(patches, [20, 20], 10000, True),
                 (cos.reshape(rows, 80).numpy(), sin.reshape(rows, 80).numpy()), 1e-4, "TABLE_FORM_DUPLICATED")

    config = pixtral_config.PixtralVisionConfig(hidden_size=1024, num_attention_heads=16)
    cos, sin = pixtral.PixtralVisionRotaryEmbedding(config)(x, both)

    def split(row, pair):
        axis = pair // 16
        return mpf(int(patches[axis][row])) * theta(10000, 2 * (pair % 16) + axis, 32)

    add_rotation("pixtral", "transformers PixtralVisionRotaryEmbedding",
                 {"headDim": "64", "axes": {"sections": ["16", "16"], "layout": "AXIS_LAYOUT_SPLIT_FREQUENCIES"}},
                 patches, split, (cos.reshape(rows, 64).numpy(), sin.reshape(rows, 64).numpy()), 1e-4,
                 "TABLE_FORM_DUPLICATED")

    # The class token's row, the last, has no angle: position 0 along both axes.
    config = llama4_config.Llama4VisionConfig(hidden_size=704, num_attention_heads=8, image_size=70, patch_size=14)
    freqs = llama4.Llama4VisionRotaryEmbedding(config).freqs_ci.reshape(26, 44)
    grid = [numpy.append(numpy.arange(25) % 5 + 1, 0), numpy.append(numpy.arange(25) // 5 + 1, 0)]
    cos, sin = freqs.real.numpy(), freqs.imag.numpy()
    add_rotation("llama4-image-tower", "transformers Llama4VisionRotaryEmbedding",
                 {"headDim": "88", "pairing": "PAIRING_INTERLEAVED",
                  "axes": {"sections": ["22", "22"], "layout": "AXIS_LAYOUT_RESET"}},
                 grid, chunked(grid, [22, 22], 10000, True), (cos, sin), 1e-5, "TABLE_FORM_HALF")

    # XD-RoPE, by the formula alone: transformers 5.24 doubles every section over the concatenated halves, where the
    # model's own code and vLLM repeat the list of sections.
    alpha_base = mpf(10000) * mpf(1000) ** (mpf(128) / 126)
    sections = [16, 16, 16, 16]
    angle = chunked(whole, sections, alpha_base, False)
    exact = [[[f(angle(r, p)) for p in range(64)] for r in range(rows)] for f in (mp.cos, mp.sin)]
    add_rotation("hunyuan-vl", "formula",
                 {"headDim": "128", "ntkAware": {"factor": 1000}, "axes": {"sections": [str(s) for s in sections]}},
                 whole, angle, [[[float(v) for v in row] for row in table] for table in exact], 1e-15, "TABLE_FORM_HALF")

    # Fractional coordinates (chunked audio and video ids).
    parts = [numpy.array([picker.uniform(0, 4000) for _ in range(rows)]), whole[1], whole[2] / 2]
    angle = chunked(parts, [16, 24, 24], 1e6, False)
    exact = [[[f(angle(r, p)) for p in range(64)] for r in range(rows)] for f in (mp.cos, mp.sin)]
    add_rotation("fractional-time", "formula", {"headDim": "128", "base": 1e6, "axes": {"sections": ["16", "24", "24"]}},
                 parts, angle, [[[float(v) for v in row] for row in table] for table in exact], 1e-15, "TABLE_FORM_HALF")


def learned():
    table = torch.randn(12, 5).numpy()
    rows = [0, 9, 3, 3]

    def scaled(_, row, column):
        return mpf(float(table[rows[row] + 2, column])) * mpf(5**-0.5)

    library = (torch.nn.functional.embedding(torch.tensor(rows) + 2, torch.tensor(table)) * 5**-0.5).numpy()
    add("learned/opt-offset-scaled", "torch embedding", {"learned": {"positionOffset": "2", "scale": 5**-0.5}},
        {"list": {"ids": [str(r) for r in rows]}}, {"table": library}, scaled, 1e-6, weights={"table": table})

    def unit(_, row, column):
        values = [mpf(float(v)) for v in table[rows[row]]]
        return values[column] / mp.sqrt(sum(v * v for v in values))

    library = torch.nn.functional.normalize(torch.tensor(table[rows]), dim=-1).numpy()
    add("learned/l2-normalized", "torch normalize, as x-transformers' l2norm", {"learned": {"l2Normalize": True}},
        {"list": {"ids": [str(r) for r in rows]}}, {"table": library}, unit, 1e-6, weights={"table": table})


def write():
    print("[")
    print(",\n".join(json.dumps(case, separators=(",", ":")) for case in cases))
    print("]")


if __name__ == "__main__":
    timesteps()
    gaussian()
    grids()
    rotations()
    learned()
    write()
