"""Writes scalings.json: what every attention of the library multiplies q·k by, from models of class defaults and, for those
with a slice that rotates, of a YaRN dict with mscale_all_dim.

    python make_scalings.py [--types a,b,c] [-o scalings.json]

{model type: [[group, side, layer type, factor, …], …]}; group and side as in cases.jsonl. Versions: ../requirements.txt.
"""

import argparse
import json
import pathlib
import re
import warnings

import build
from make import NEEDED, group_name, path_finder, text_path
from numbers_of import shape_name

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent
NAMES = ("scaling", "softmax_scale", "scale", "inv_norm_factor")
# Attentions that are not those of a layer's tokens: pooling heads, indexers, memory.
NOT = re.compile(r"Pool|Indexer|Resampler|Perceiver|Probe|MapHead|Mask")


# Classes that scale q before it turns, and one that scales q and k by the same.
SCALED_BEFORE = ("EsmSelfAttention", "EvollaSaProtSelfAttention")
SCALED_TWICE = ("OpenAIPrivacyFilterAttention",)


def factor_of(module):
    if type(module).__name__ in SCALED_BEFORE:
        return float(f"{module.attention_head_size**-0.5:.9g}")
    if type(module).__name__ in SCALED_TWICE:
        return float(f"{module.scaling**2:.9g}")
    for name in NAMES:
        value = getattr(module, name, None)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return float(f"{value:.9g}")
    return None


def layer_type_of(module, config, name):
    """By the number of the layer in the module's name."""
    types = getattr(config, "layer_types", None)
    numbers = re.findall(r"\.(\d+)(?=\.)", name)
    index = getattr(module, "layer_idx", None)
    index = index if isinstance(index, int) else int(numbers[0]) if numbers else None
    return types[index] if types and index is not None and index < len(types) else ""


def scalings_of(config):
    model = build.build(config)
    if model is None:
        return []
    parts = build.sub_configs(config)
    path_of, text = path_finder(model, parts), text_path(config, parts)
    by_path = dict(parts)
    found = {}
    for name, module in model.named_modules():
        cls = type(module).__name__
        if not cls.endswith("Attention") or NOT.search(cls) or "cross" in name.lower() or "Cross" in cls:
            continue
        factor = factor_of(module)
        if factor is None:
            continue
        path = path_of(name)
        group, side = group_name(path, text, shape_name(name))
        key = (group, side, layer_type_of(module, by_path.get(path), name))
        if factor not in found.setdefault(key, []):
            found[key].append(factor)
    return [[*key, *factors] for key, factors in found.items()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="")
    parser.add_argument("-o", "--output", default="scalings.json")
    options = parser.parse_args()
    wanted = set(filter(None, options.types.split(",")))
    lines = []
    for text in (HERE / "cases.jsonl").read_text().splitlines():
        case = json.loads(text)
        if "class" not in case or (wanted and case["type"] not in wanted):
            continue
        try:
            rows = scalings_of(build.CONFIG_MAPPING[case["type"]](**NEEDED.get(case["type"], {})))
        except Exception:
            continue  # make.py says why
        if rows:
            lines.append(f'"{case["type"]}":{json.dumps(rows, separators=(",", ":"))}')
    (HERE / options.output).write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
