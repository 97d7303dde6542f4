"""KERPLE and Sandwich by NVIDIA NeMo's own modules in float64, for tests/kernels/encodings/nemo_bias_test.cc.

The modules are read from the wheel, NeMo itself (and what it needs) is not installed. kerple_a, which NeMo starts at 1, is set to the
values below, and kerple_p too.

    pip install torch==2.15.0 numpy==2.4.6; pip download --no-deps nemo_toolkit==1.23.0
    python tests/golden/bias/make_nemo.py nemo_toolkit-1.23.0-py3-none-any.whl
"""
import json
import pathlib
import sys
import types

import torch

torch.set_default_dtype(torch.float64)
HERE = pathlib.Path(__file__).parent
LENGTH = 600
DISTANCES = [0, 1, 2, 3, 16, 100, 511, 599]


def modules(wheel):
    decorators = types.ModuleType("nemo.utils.decorators")
    decorators.experimental = lambda cls: cls
    folder = "nemo/collections/nlp/modules/common/megatron/position_embedding"
    for name in ("nemo", "nemo.utils", "nemo.collections", "nemo.collections.nlp", "nemo.collections.nlp.modules",
                 "nemo.collections.nlp.modules.common", "nemo.collections.nlp.modules.common.megatron"):
        sys.modules[name] = types.ModuleType(name)
    package = types.ModuleType(folder.replace("/", "."))
    package.__path__ = [f"{wheel}/{folder}"]
    sys.modules[package.__name__] = package
    sys.modules["nemo.utils.decorators"] = decorators
    from nemo.collections.nlp.modules.common.megatron.position_embedding import kerple_relative_position_embedding as kerple
    from nemo.collections.nlp.modules.common.megatron.position_embedding import sandwich_relative_position_embedding as sandwich
    return kerple.KERPLERelativePositionEmbedding, sandwich.SandwichRelativePositionEmbedding


def row(bias):
    """[heads, distances]: the last query's row, distances backwards."""
    return [[float(head[-1, LENGTH - 1 - d]) for d in DISTANCES] for head in bias]


def main():
    kerple_class, sandwich_class = modules(sys.argv[1])
    kerple = []
    for a, p in ([1.0] * 4, [1.0] * 4), ([0.3, 2.0, 1e-3, 7.5], [0.5, 1.0, 1.9, 1.25]):
        module = kerple_class(False, 4, None, max_seq_len=LENGTH)
        with torch.no_grad():
            module.kerple_a.copy_(torch.tensor(a).reshape(-1, 1, 1))
            module.kerple_p.copy_(torch.tensor(p).reshape(-1, 1, 1))
            kerple.append({"a": a, "p": p, "bias": row(module(LENGTH, LENGTH)[0])})
    sandwich = []
    for heads, width in (8, 128), (3, 10):
        module = sandwich_class(False, heads, None, width, max_seq_len=LENGTH)
        sandwich.append({"heads": heads, "dim": width, "bias": row(module(LENGTH, LENGTH).reshape(heads, LENGTH, LENGTH))})
    text = {"distances": DISTANCES, "kerple": kerple, "sandwich": sandwich, "versions": {"nemo_toolkit": "1.23.0", "torch": "2.15.0"}}
    (HERE / "nemo.json").write_text(json.dumps(text, separators=(",", ":")) + "\n")


main()
