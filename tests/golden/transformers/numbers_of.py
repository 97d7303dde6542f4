"""Takes numbers out of the library's position modules."""

import inspect
import re

import torch

ONE = 1.0
# Classes with frequencies that are no rotation of one axis, by a part of their names.
KINDS = [
    ("RelPositionalEncoding", "relative_sinusoidal"),
    ("RopePositionEmbedding", "rope_2d_dinov3"),
    ("EomtDinov3Rotary", "rope_2d_dinov3"),
    ("TimeEmbedding", "other"),
    ("EfficientLoFTR", "axial_grid"),
]


def exact(tensor):
    """float32 values as the doubles that they are."""
    return [float(value) for value in tensor.detach().flatten().tolist()]


def short(values):
    """All of a list up to 64 entries, else its ends and its length."""
    if len(values) <= 64:
        return {"inv_freq": values}
    return {"inv_freq": values[:16] + values[-16:], "pairs": len(values)}


def _pairing_by_trial(module, layer_type):
    """Rotates the second unit vector by the angles of position 1: its partner is channel 0 or channel 1 + width/2."""
    home = inspect.getmodule(type(module))
    interleaves = getattr(getattr(module, "config", None), "rope_interleave", None) is not False
    names = ["apply_rotary_pos_emb", "apply_rotary_emb", "apply_rotary_pos_emb_vision"]
    if interleaves:
        names.insert(0, "apply_rotary_pos_emb_interleave")
    kwargs = {"layer_type": layer_type} if layer_type and "layer_type" in inspect.signature(module.forward).parameters else {}
    table = module(torch.zeros(1, 1, 8), torch.tensor([[1]]), **kwargs)
    if not isinstance(table, tuple):
        return "interleaved" if table.is_complex() else None
    cos, sin = table
    width = cos.shape[-1]
    for name in names:
        apply = getattr(home, name, None)
        if apply is None:
            continue
        for channels in (width, 2 * width):
            x = torch.zeros(1, 1, 1, channels)
            x[..., 1] = 1
            try:
                moved = apply(x, x, cos, sin)[0].flatten().abs() > 1e-9
            except Exception:
                continue
            at = [i for i in moved.nonzero().flatten().tolist()]
            if 0 in at:
                return "interleaved"
            if at == [1, 1 + channels // 2]:
                return "half_split"
    return None


def pairing_of(module, layer_type=None):
    """How the module's file rotates, asked of its own functions; None where it cannot be known."""
    try:
        found = _pairing_by_trial(module, layer_type)
    except Exception:
        found = None
    if found is not None:
        return found
    home = inspect.getmodule(type(module))
    x = torch.arange(8.0)
    rotate = getattr(home, "rotate_half", None) or getattr(home, "rotate_every_two", None)
    if rotate is not None:
        try:
            turned = [abs(value) for value in rotate(x).tolist()]
        except Exception:
            return None
        if turned == [4, 5, 6, 7, 0, 1, 2, 3]:
            return "half_split"
        if turned == [1, 0, 3, 2, 5, 4, 7, 6]:
            return "interleaved"
    return None


def _call(module, positions, layer_type):
    parameters = inspect.signature(module.forward).parameters
    names = list(parameters)
    kwargs = {}
    if layer_type is not None and "layer_type" in parameters:
        kwargs["layer_type"] = layer_type
    x = torch.zeros(1, 1, 8)
    if names[:2] == ["x", "position_ids"] or (len(names) >= 2 and "position_ids" in names):
        cos, sin = module(x, positions, **kwargs)
    else:
        raise TypeError("another signature")
    return cos.float().flatten(), sin.float().flatten()


def axes_of(module, inv_freq, layer_type=None):
    """For rotations in several axes: which axis each column of the table follows, and its frequency; None for one axis."""
    shapes = {
        2: [lambda p: p.view(1, 2), lambda p: p.view(1, 1, 2), lambda p: p.view(2, 1, 1)],
        3: [lambda p: p.view(3, 1, 1), lambda p: p.view(1, 3), lambda p: p.view(1, 1, 3)],
        4: [lambda p: p.view(4, 1, 1)],
    }
    sections = getattr(module, "mrope_section", None)
    if not sections and not hasattr(module, "recomposition_frequencies"):
        return None
    if isinstance(sections, dict):
        sections = sections.get(layer_type)
    source = inspect.getsource(type(module))
    if "expand(2" in source:
        shapes[2] = [lambda p: p.view(2, 1, 1)]
    elif "[:, :, 0]" in source:
        shapes[2] = [lambda p: p.view(1, 1, 2)]
    counts = [len(sections)] if sections else [2, 3]
    if "// 3" in source:
        counts, shapes[3] = [3], [lambda p: p.view(1, 3)]
    for count in counts:
        for shape in shapes[count]:
            columns = []
            try:
                for axis in range(count):
                    one = torch.zeros(count)
                    one[axis] = 1
                    cos, sin = _call(module, shape(one), layer_type)
                    columns.append(torch.atan2(sin, cos))
            except Exception:
                continue
            angles = torch.stack(columns)
            if int((angles.abs() > 0).sum(0).max()) != 1:
                continue
            moved = angles.abs().sum(0) > 0
            axis = angles.abs().argmax(0)
            letters = "".join("tyxw"[a] if count > 2 else "yx"[a] for a in axis.tolist())
            letters = "".join(c if m else "." for c, m in zip(letters, moved.tolist()))
            values = angles.gather(0, axis[None]).flatten()
            return letters, values
    return None


def per_pair(letters, values, inv_freq):
    """From columns of a table to pairs. The frequency is the module's own entry nearest to the column's angle."""
    width = len(letters)
    half = width // 2
    table = torch.tensor(inv_freq, dtype=torch.float64)

    def frequency(column):
        angle = float(values[column])
        return float(table[(table - angle).abs().argmin()]) if angle != 0 else 0.0

    if letters[:half] == letters[half:] and torch.allclose(values[:half], values[half:]):
        columns, pairing = range(half), "half_split"
    elif letters[0::2] == letters[1::2] and torch.allclose(values[0::2], values[1::2]):
        columns, pairing = range(0, width, 2), "interleaved"
    else:
        columns, pairing = range(width), None
    quarter = width // 4
    if pairing == "half_split" and width % 4 == 0 and len(set(letters[:half])) == 1:
        pairing = None
    if (
        pairing is None
        and width % 4 == 0
        and letters[:quarter] == letters[quarter:half]
        and letters[half : half + quarter] == letters[half + quarter :]
    ):
        columns, pairing = list(range(quarter)) + list(range(half, half + quarter)), "half_split_per_axis"
    return "".join(letters[c] for c in columns), [frequency(c) for c in columns], pairing


def stored_tables(module):
    """Modules that keep a table instead of frequencies: its second row tells them."""
    table = dict(module.named_buffers(recurse=False)).get("embed_positions")
    if type(module).__name__.startswith("RoFormerSinus"):
        with torch.device("cpu"):
            table = type(module).create_weight(torch.nn.Embedding(2, module.weight.shape[1]))
        sin, cos = table[1].double().chunk(2)
        return [{"kind": "rope", "factor": ONE, "pairing": "interleaved", "angles": True} | short(exact(torch.atan2(sin, cos)))]
    if table is None or table.is_meta or table.dim() != 2 or "Rotary" not in type(module).__name__:
        return []
    sin, cos = table[1].double().chunk(2)  # RoPE's frequencies, to the accuracy of one float32 sine
    return [{"kind": "rope", "factor": ONE, "pairing": "interleaved", "angles": True} | short(exact(torch.atan2(sin, cos)))]


def grid_table(module):
    """Llama 4's image tower keeps complex turns of every patch: the first two patches of a row tell frequencies and axes."""
    turns = dict(module.named_buffers(recurse=False)).get("freqs_ci")
    if turns is None or turns.is_meta or "Vision" not in type(module).__name__:
        return []
    first, second = (torch.view_as_real(turns)[i, 0].double() for i in (0, 1))
    angle = torch.atan2(first[:, 1], first[:, 0])
    moved = (torch.atan2(second[:, 1], second[:, 0]) - angle).abs() > 1e-6 * angle
    axes = "".join("x" if m else "y" for m in moved.tolist())
    return [{"kind": "axial", "factor": ONE, "axes": axes, "pairing": "interleaved"} | short(exact(angle))]


def timm_rope(module):
    """timm's rotation over a grid: patches on the diagonal and beside it tell frequencies, axes and where counting starts."""
    if type(module).__name__ != "RotaryEmbeddingCat":
        return []
    from timm.layers import build_rotary_pos_embed

    names = ("ref_feat_shape", "grid_offset", "grid_indexing", "rotate_half", "in_pixels", "temperature")
    keys = {key: getattr(module, key) for key in names}
    sin, cos = build_rotary_pos_embed(module.feat_shape, dim=module.dim, device="cpu", **keys)
    turns = torch.atan2(sin.double(), cos.double())[:, ::2]  # pairs side by side share an angle
    first, right, below = turns[0], turns[1], turns[module.feat_shape[1]]
    axes = "".join("x" if moved else "y" for moved in (right != first).tolist())
    steps = torch.where(right != first, right, below) - first
    entry = {"kind": "axial", "factor": ONE, "axes": axes, "pairing": "interleaved"} | short([float(s) for s in steps])
    return [entry | {"start": float(first[0] / steps[0])}]


def rotary_entries(module):
    """One entry per schedule that the module holds."""
    if re.search(r"^Bros|^MusicFlamingoRotary", type(module).__name__):
        return []  # features.py has their numbers
    entries = stored_tables(module) + grid_table(module) + timm_rope(module)
    kind = next((k for part, k in KINDS if part in type(module).__name__), "rope")
    for name, buffer in module.named_buffers(recurse=False):
        if not name.endswith("inv_freq") or name.endswith("original_inv_freq") or buffer.is_meta:
            continue
        layer_type = name[: -len("_inv_freq")] if name != "inv_freq" else None
        prefix = f"{layer_type}_" if layer_type else ""
        factor = getattr(module, f"{prefix}attention_scaling", ONE)
        inv_freq = exact(buffer)
        entry = {"kind": kind, "factor": float(factor)}
        several = axes_of(module, inv_freq, layer_type) if kind == "rope" else None
        if kind != "rope":
            entry |= short(inv_freq)
        elif several is None:
            entry |= {"pairing": pairing_of(module, layer_type)} | short(inv_freq)
        else:
            axes, values, pairing = per_pair(*several, inv_freq)
            sections = getattr(module, "mrope_section", None)
            sections = sections.get(layer_type) if isinstance(sections, dict) else sections
            entry["kind"] = "mrope" if sections else "axial"
            if sections:
                entry["sections"] = list(sections)
            entry |= {"axes": axes, "pairing": pairing} | short(values)
        if layer_type:
            entry["layer_type"] = layer_type
        entries.append(entry)
    return entries


def samples(table, rows=(0, 1, 2, 3, 7, 100), columns=None):
    """[row, column, value] of a table of sinusoids."""
    count, width = table.shape
    columns = columns or sorted({0, 1, 2, 3, width // 2 - 1, width // 2, width // 2 + 1, width - 2, width - 1})
    return [[r, c, float(table[r, c])] for r in rows if r < count for c in columns if 0 <= c < width]


def shape_name(name):
    return re.sub(r"\.\d+(?=\.|$)", ".#", name)
