"""Positions that are not rotary: buckets, windows, sinusoids, learned tables, slopes."""

import functools
import hashlib
import inspect
import re

import torch

import features
import numbers_of

# Classes that are known by their names: what they do has no table to take numbers from.
NAMED = [
    (r"^VJEPA2RopeAttention", "rope_uneven_pairs"),
    (r"PositionalConvEmbedding|RepConditionalPosEnc", "positional_convolution"),
    (r"RelMultihead|RelPositional|RelativePosition(?!Bias)", "relative_positions"),
    (r"RelativePositionBias|PositionBiasBase|RelativeLogits|RelativeAttentionBias", "relative_bias"),
    (r"^UVDocPointPositions2D", "predicted_positions"),
    (r"AxialPositionEmbeddings|LearnedPositionEmbedding$|FourierPositionEncoding|RandomFourier|PositionEmbeddingRandom", "other"),
]
DISTANCES = [-2000, -200, -128, -65, -64, -33, -16, -15, -8, -1, 0, 1, 7, 8, 15, 16, 31, 32, 63, 64, 100, 127, 128, 200, 2000]
TABLE_NAME = re.compile(r"(^|_)(pos|position|positional|posit|wpe)(_|s|ition|$)|pos_?emb|position|wpe|^(row|column)_embeddings$", re.I)


def t5_buckets(module):
    if not hasattr(module, "_relative_position_bucket") or not getattr(module, "has_relative_attention_bias", False):
        return None
    distances = torch.tensor(DISTANCES)
    bidirectional = not getattr(module, "is_decoder", False)
    if "bidirectional=False,\n" in inspect.getsource(type(module)):
        bidirectional = False  # Pix2Struct's text attention says so where it asks for the buckets; docstrings go on
    buckets, longest = module.relative_attention_num_buckets, module.relative_attention_max_distance
    if "bidirectional" in inspect.signature(module._relative_position_bucket).parameters:
        got = module._relative_position_bucket(distances, bidirectional=bidirectional, num_buckets=buckets, max_distance=longest)
    else:
        got = module._relative_position_bucket(distances)
    return {
        "kind": "t5_bucket",
        "num_buckets": buckets,
        "max_distance": longest,
        "bidirectional": bidirectional,
        "samples": [list(pair) for pair in zip(DISTANCES, got.tolist())],
    }


def own_buckets(module):
    """The same by functions of other names: LayoutLM's three, and CPM-Ant's."""
    cls = type(module).__name__
    distances = torch.tensor(DISTANCES)
    if cls == "CpmAntSegmentPositionEmbedding":
        got = module._position_bucket(distances, num_buckets=module.num_buckets, max_distance=module.max_distance)
        rows = [module.num_buckets, module.relative_attention_bias.shape[1]]
        return [("position_bias.relative_attention_bias", module.num_buckets, module.max_distance, got, rows)]
    if not re.match(r"LayoutLMv[23]Encoder$", cls):
        return []
    make = getattr(module, "relative_position_bucket", None) or inspect.getmodule(type(module)).relative_position_bucket
    found = []
    for name, there, bins, longest in (
        ("rel_pos_bias", module.has_relative_attention_bias, "rel_pos_bins", "max_rel_pos"),
        ("rel_pos_x_bias", module.has_spatial_attention_bias, "rel_2d_pos_bins", "max_rel_2d_pos"),
        ("rel_pos_y_bias", module.has_spatial_attention_bias, "rel_2d_pos_bins", "max_rel_2d_pos"),
    ):
        if there:
            buckets, distance = getattr(module, bins), getattr(module, longest)
            got = make(distances, num_buckets=buckets, max_distance=distance)
            found.append((name, buckets, distance, got, list(getattr(module, name).weight.shape)[::-1]))
    return found


def other_buckets(module):
    return [
        {
            "kind": "t5_bucket",
            "num_buckets": buckets,
            "max_distance": longest,
            "bidirectional": True,
            "table": rows,
            "name": name,
            "samples": [list(pair) for pair in zip(DISTANCES, got.tolist())],
        }
        for name, buckets, longest, got, rows in own_buckets(module)
    ]


def neighborhood(module):
    """Dinat: a table over the offsets inside a neighbourhood, as wide as the kernel."""
    if type(module).__name__ != "NeighborhoodAttention":
        return None
    return {"kind": "neighborhood_bias", "kernel": module.kernel_size, "table": list(module.rpb.shape)}


def convolution(module):
    """The layers of a positional convolution: how many, kernel, groups; the stride where it is not 1."""
    layers = [each for each in module.modules() if isinstance(each, (torch.nn.Conv1d, torch.nn.Conv2d))]
    first = layers[0]
    stride = {"stride": first.stride[0]} if first.stride[0] != 1 else {}
    return {"layers": len(layers), "kernel": first.kernel_size[0], "groups": first.groups} | stride


def window_index(module):
    make = getattr(module, "create_relative_position_index", None) or getattr(module, "_create_relative_position_index", None)
    if hasattr(module, "create_coords_table_and_index"):
        return continuous_window(module)
    window = getattr(module, "window_size", None)
    if type(module).__module__ == "timm.models.swin_transformer" and hasattr(module, "relative_position_bias_table"):
        from timm.models.swin_transformer import get_relative_position_index

        make = functools.partial(get_relative_position_index, *window)
    if make is None or window is None:
        return None
    with torch.device("cpu"):
        index = make()
    index = index.to(torch.int64)
    window = list(window) if isinstance(window, (tuple, list)) else [window, window]
    return {
        "kind": "swin_bias",
        "window": window,
        "side": index.shape[0],
        "sha256": hashlib.sha256(index.contiguous().numpy().astype("<i8").tobytes()).hexdigest(),
    }


def continuous_window(module):
    """Swin v2: the coordinates that its perceptron sees, and the index."""
    with torch.device("cpu"):
        coordinates, index = module.create_coords_table_and_index()
    window, before = list(module.window_size), list(module.pretrained_window_size)
    return {
        "kind": "continuous_window_bias",
        "window": window,
        "pretrained": before,
        "rows": numbers_of.exact(coordinates[0, :, 0, 0]),
        "columns": numbers_of.exact(coordinates[0, 0, :, 1]),
        "sha256": hashlib.sha256(index.to(torch.int64).contiguous().numpy().astype("<i8").tobytes()).hexdigest(),
    }


# Buffers in which a module keeps its fixed table.
FIXED = ("positional_embedding", "pos_idx_to_embed", "position_embedding", "weights")
# Tables that need no name beside their rows: what a model keeps for its tokens or patches.
MAIN = re.compile(r"^(position_embeddings?|embed_positions|wpe|pos_embed|pos_emb|positions_embed|position_embeds_layer|position_embedding_table|positional_embedding(_vlm)?|rel_pos_emb)$")


def log_buckets(module):
    """DeBERTa v2's log buckets of query − key, as its own function gives them."""
    if getattr(module, "position_buckets", 0) <= 0 or not getattr(module, "relative_attention", False):
        return None
    make = inspect.getmodule(type(module)).make_log_bucket_position
    got = make(torch.tensor(DISTANCES), module.position_buckets, module.max_relative_positions)
    return {
        "kind": "deberta_bucket",
        "position_buckets": module.position_buckets,
        "max_relative_positions": module.max_relative_positions,
        "samples": [list(pair) for pair in zip(DISTANCES, got.to(torch.int64).tolist())],
    }


def sinusoids(name, module, parent):
    """A fixed table that the module made itself."""
    home = inspect.getmodule(type(parent if isinstance(module, torch.nn.Embedding) else module))
    cls = type(module).__name__
    table, extra = None, {}
    if hasattr(module, "create_weight"):
        with torch.device("cpu"):
            fresh = torch.nn.Embedding(module.weight.shape[0], module.weight.shape[1])
            made = type(module).__new__(type(module))
            made.__dict__.update(fresh.__dict__)
            table = made.create_weight()
            table = made.weight if table is None else table
    elif hasattr(module, "get_embedding") and hasattr(module, "embedding_dim") and re.search("Sinus|Positional", cls):
        rows = getattr(module, "num_positions", getattr(module, "num_embeddings", 128))
        width = module.embedding_dim
        padding = getattr(module, "padding_idx", None)
        arguments = [min(int(rows), 512), width]
        if "padding_idx" in inspect.signature(module.get_embedding).parameters:
            arguments.append(padding)
            extra["padding_row"] = padding
        extra["offset"] = getattr(module, "offset", 0) if padding is None else padding + 1
        try:
            table = module.get_embedding(*arguments)
        except Exception:
            return None
    elif isinstance(module, torch.nn.Embedding) and hasattr(home, "sinusoids") and name.endswith("encoder.embed_positions"):
        table = home.sinusoids(*module.weight.shape)
    if table is None and re.search(r"Sinus|PosEmb|PositionEmb|PositionalEmb", cls):
        buffers = dict(module.named_buffers(recurse=False))
        table = next((buffers[b] for b in FIXED if b in buffers and not buffers[b].is_meta), None)
        if table is not None and not set(table[0].tolist()) <= {0.0, 1.0}:
            return {"kind": "random_fourier", "shape": list(table.shape)}  # random at every start: a checkpoint's weights
    if cls == "VibeVoiceDiffusionHeadSinusoidalEmbedding":  # of a diffusion step
        table = module(torch.arange(128))
    if table is None and cls == "VideoPrismTextEmbeddings":
        table = home.create_sinusoidal_positions(*module.position_embedding.shape)
    if table is None and cls.startswith("PegasusXSinus"):
        table = module(torch.zeros(1, 128, module.embed_dim))[0]
    if table is None and cls == "CTRLModel":
        with torch.device("cpu"):
            table = home.positional_encoding(128, module.d_model_size, torch.float)
    if table is None or table.dim() != 2 or "RoFormer" in cls:
        return None
    return {"kind": "sinusoidal", "dim": table.shape[1]} | extra | {"samples": numbers_of.samples(table.float())}


def learned(name, module, parent):
    leaf = name.split(".")[-1]
    found = []
    cls = type(module).__name__
    if cls.startswith("RoFormerSinus"):
        return found  # sines and cosines that turn pairs: their numbers are those of an entry of kind rope
    if cls == "AxialPositionEmbeddings":
        for axis, weight in enumerate(module.weights):
            shape = [module.axial_pos_shape[axis], weight.shape[-1]]
            found.append({"kind": "learned", "name": f"weights.{axis}", "shape": shape, "dim": shape[-1]})
        return found
    if isinstance(module, torch.nn.Embedding) and TABLE_NAME.search(leaf) and "relative" not in name:
        entry = {"kind": "learned", "rows": module.weight.shape[0], "dim": module.weight.shape[1]}
        if getattr(module, "offset", 0):
            entry["offset"] = int(module.offset)
        elif getattr(module, "padding_idx", None) is not None and "Lxmert" not in parent:  # which counts from 0 all the same
            entry["offset"] = int(module.padding_idx) + 1
        if not MAIN.search(leaf):
            entry["name"] = leaf
        found.append(entry)
    for key, parameter in module.named_parameters(recurse=False):
        of_class = key == "embedding" and re.search(r"PositionEmbedding$", type(module).__name__)  # Mllama's
        named = of_class or re.search(r"pos_?emb|position_?(al_)?emb|positional_embedding|^position_enc$", key)
        if isinstance(module, torch.nn.Embedding) or not named:
            continue
        if re.match(r"Sam(HQ)?PositionalEmbedding$", cls):  # as in the later versions, which keep it as a buffer
            found.append({"kind": "random_fourier", "shape": list(parameter.shape)})
            continue
        entry = {"kind": "learned", "shape": list(parameter.shape), "dim": parameter.shape[-1]}
        if not MAIN.search(key):
            entry["name"] = key
        found.append(entry)
    return found


def slopes(model, config):
    """ALiBi as the library makes it, from a plain mask of two tokens: slope = bias at position 1."""
    home = inspect.getmodule(type(model))
    if config.model_type == "bloom" or (config.model_type == "falcon" and config.alibi):
        heads = config.n_head if hasattr(config, "n_head") else config.num_attention_heads
        bias = home.build_alibi_tensor(torch.ones(1, 2), heads, torch.float32)
        return [{"kind": "alibi", "slopes": numbers_of.exact(bias.view(heads, -1)[:, 1])}]
    if config.model_type == "mpt" and config.attn_config.alibi:
        bias = home.build_mpt_alibi_tensor(config.n_heads, 2, config.attn_config.alibi_bias_max)
        return [{"kind": "alibi", "slopes": numbers_of.exact(-bias.view(config.n_heads, 2)[:, 0])}]
    return []


def other_entries(model, path_of):
    """[(path, module name, entry)] of everything that is not rotary."""
    found = []
    modules = dict(model.named_modules())
    for name, module in modules.items():
        cls = type(module).__name__
        entry = features.entry_of(name, module)
        if entry:
            found.append((path_of(name), numbers_of.shape_name(name), entry | {"module": cls}))
            continue
        entries = []
        for reader in (t5_buckets, window_index, log_buckets, neighborhood):
            entry = reader(module)
            if entry:
                entries.append(entry)
        entries += other_buckets(module)
        fixed = sinusoids(name, module, modules[name.rpartition(".")[0]])
        if fixed:
            entries.append(fixed)
        elif not entries:
            entries += learned(name, module, type(modules[name.rpartition(".")[0]]).__name__)
        if not entries:
            entries += [{"kind": kind} for part, kind in NAMED if re.search(part, cls)][:1]
            for entry in entries:
                if entry["kind"] == "positional_convolution":
                    entry |= convolution(module)
        for entry in entries:
            entry["module"] = cls
            found.append((path_of(name), numbers_of.shape_name(name), entry))
    return found
