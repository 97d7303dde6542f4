"""Writes which modules of every class have to do with positions, by their names and those of their weights.

    python make_modules.py [-o modules.json]

cases.jsonl has the numbers of the modules that make.py can ask. This list is wider, so that a class whose modules it cannot
ask is not taken for one without positions: {model type: [module class, …]}. Versions: ../requirements.txt.
"""

import argparse
import json
import re
import warnings

import build
from make import NEEDED

warnings.filterwarnings("ignore")
CLASS = re.compile(r"Rotary|Rope[A-Z]|Rope$|RoPE|Pos(ition)?(al)?(Emb|Enc|Bias)|PositionalConv|Relative|RelPos|RelShift|Sinus|Alibi")
# Embeddings and buffers that hold positions under a plain class.
WEIGHT = re.compile(r"(^|_)(pos|position|positional|posit|wpe)(_|s$|ition$|$)|pos_?emb|position_?emb|rel_pos|relative_|rotary|inv_freq|alibi")
# Of the names above, those that hold no positions: masks, counts and ids.
NOT = re.compile(r"position_ids|num_positions|logits_processor")


def modules_of(model_type):
    config = build.CONFIG_MAPPING[model_type](**NEEDED.get(model_type, {}))
    model = build.build(config)
    if model is None:
        return None
    found = set()
    for name, module in model.named_modules():
        cls = type(module).__name__
        leaf = name.split(".")[-1]
        own = [key for key, _ in module.named_parameters(recurse=False)] + [key for key, _ in module.named_buffers(recurse=False)]
        weights = [key for key in own if WEIGHT.search(key) and not NOT.search(key)]
        if CLASS.search(cls):
            found.add(cls)
        elif cls == "Embedding" and WEIGHT.search(leaf) and not NOT.search(leaf):
            found.add(f"Embedding {leaf}")
        elif weights:
            found.add(f"{cls} {weights[0]}")
    return sorted(found)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-o", "--output", default="modules.json")
    options = parser.parse_args()
    out = {}
    for model_type in sorted(build.CONFIG_MAPPING_NAMES):
        try:
            found = modules_of(model_type)
        except Exception:
            continue  # make.py says why
        if found:
            out[model_type] = found
    with open(options.output, "w", encoding="utf-8") as file:
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in out.items()]
        file.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
