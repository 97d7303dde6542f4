"""Writes which layers of every rotating class of transformers turn their queries and keys, and by which table.

    python make_layers.py [--types a,b,c]

The skeletons of build.py are run on the meta device. Every table that a rotary module gives is marked, and every operation
hands the marks of its inputs on to its outputs: a layer whose output is marked has used that table. Marks are taken off
between layers. Of each class its default configuration is run, and the variants below. Writes layers.json; see README.md.
"""

import argparse
import contextlib
import inspect
import json
import pathlib
import re

import build
import make
import numbers_of
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map
from transformers import PreTrainedModel

HERE = pathlib.Path(__file__).parent
TABLES = re.compile(r"Rotary|RoPE|Rope(?!Attention)|RopeEmb")
NOT_TABLES = re.compile(r"Attention|Layer|Model|Index|Block")
# Parts of a layer that mix no positions. What they choose by data cannot run without data.
NO_POSITIONS = re.compile(r"mlp|moe|expert|router|feed_forward|ffn|gate|ple|laurel|block_sparse", re.I)
BUFFERS = re.compile(r"^embed_positions$|^freqs_ci")
SECTIONS = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [8, 12, 12], "partial_rotary_factor": 0.5}
# Configurations beside the defaults: patterns that the keys below decide, and keys without which a class does not run.
VARIANTS = {
    "afmoe": [{"num_hidden_layers": 7, "global_attn_every_n_layers": 3}],
    "bamba": [{"num_hidden_layers": 8, "attn_layer_indices": [3, 7]}],
    "cohere2": [{"num_hidden_layers": 7, "sliding_window_pattern": 3}],
    "cohere2_moe": [
        {"num_hidden_layers": 9},
        {"num_hidden_layers": 9, "first_k_dense_replace": 4},
        {"num_hidden_layers": 9, "first_k_dense_replace": 4, "prefix_dense_sliding_window_pattern": 2, "sliding_window_pattern": 3},
    ],
    "dots1": [{"num_key_value_heads": 32}],
    "exaone4": [{"num_hidden_layers": 7, "sliding_window": 64, "sliding_window_pattern": 3}],
    "exaone_moe": [{"num_hidden_layers": 7, "sliding_window": 64, "sliding_window_pattern": 3}],
    "gemma3_text": [{"num_hidden_layers": 7, "sliding_window_pattern": 3}],
    "glm4v_text": [{"rope_parameters": SECTIONS}],
    "glm4v_moe_text": [{"rope_parameters": SECTIONS, "head_dim": 128}],
    "glm_image_text": [{"rope_parameters": SECTIONS}],
    "granite_swa": [{"num_hidden_layers": 6, "layer_rope_theta": [10000.0, 0, 500000.0, 10000.0, 500000.0, 0]}],
    "granitemoe_swa": [{"num_hidden_layers": 6, "layer_rope_theta": [10000.0, 0, 500000.0, 10000.0, 500000.0, 0]}],
    "hunyuan_v1_dense": [{"head_dim": 128}],
    "hunyuan_v1_moe": [{"head_dim": 128}],
    "hunyuan_vl_text": [{"head_dim": 128}],
    "lfm2_moe": [{"num_hidden_layers": 4, "layer_types": ["conv", "full_attention"] * 2}],
    "ministral": [{"head_dim": 128}],
    "minimax": [{"num_hidden_layers": 6, "layer_types": ["linear_attention", "full_attention"] * 3}],
    "mistral_large4_text": [{"num_hidden_layers": 6, "no_rope_layers": [1, 0, 1, 1, 0, 0]}],
    "muse_glimmer_text": [{"num_hidden_layers": 6, "layer_rope_theta": [500000.0, 0, 500000.0, 0, 0, 500000.0]}],
    "muse_spark_text": [{"num_hidden_layers": 6, "layer_rope_theta": [500000.0, 0, 500000.0, 0, 0, 500000.0]}],
    "nemotron": [{"num_key_value_heads": 8}],
    "qwen3_omni_moe_text": [{"head_dim": 128}],
    "qwen3_5_text": [{"num_hidden_layers": 7, "full_attention_interval": 3}],
    "qwen3_5_moe_text": [{"num_hidden_layers": 7, "full_attention_interval": 3}],
    "qwen3_next": [{"num_hidden_layers": 7, "full_attention_interval": 3}],
    "smollm3": [{"num_hidden_layers": 7, "no_rope_layer_interval": 3}],
}
# Lists that a class makes by itself where the file has none.
MADE_BY_CLASS = ("layer_types", "mlp_layer_types", "per_layer_config", "no_rope_layers", "layer_rope_theta", "layers_block_type")


class Marks(TorchFunctionMode):
    """Outputs carry the marks of all inputs."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        marks = marks_of((args, kwargs))
        if marks:
            name = getattr(function, "__name__", "")
            changed = args[:1] if out is None or name == "__setitem__" or (name.endswith("_") and not name.endswith("__")) else ()
            mark((out, changed), marks)
        return out


def tensors(tree):
    return [leaf for leaf in tree_flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def marks_of(tree):
    marks = frozenset()
    for tensor in tensors(tree):
        marks |= tensor.__dict__.get("marks", frozenset())
    return marks


def mark(tree, marks):
    for tensor in tensors(tree):
        if tensor.is_floating_point() or tensor.is_complex():
            tensor.__dict__["marks"] = tensor.__dict__.get("marks", frozenset()) | marks


def unmark(tree):
    for tensor in tensors(tree):
        tensor.__dict__["marks"] = frozenset()


def to_cpu(leaf):
    if not isinstance(leaf, torch.Tensor) or not leaf.is_meta:
        return leaf
    zeros = torch.zeros(leaf.shape, dtype=leaf.dtype, device="cpu")
    return zeros if leaf.is_floating_point() or leaf.dim() == 0 else zeros + torch.arange(leaf.shape[-1], dtype=leaf.dtype)


class Run:
    """One model whose forward is watched."""

    def __init__(self, model):
        self.model = model
        self.layers = {}  # name of a layer → marks
        self.faults = {}  # name of a layer → what could not run
        self.depth = 0
        self.tables = {name: module for name, module in model.named_modules() if self.is_table(module)}
        self.numbers = {name: numbers_of.rotary_entries(module) for name, module in self.tables.items()}
        for name, module in list(model.named_modules()):
            if name in self.tables:
                module.forward = self.table(name, module)
            elif any(name.startswith(table + ".") for table in self.tables):
                continue
            elif re.search(r"\.\d+(\.|$)", name):
                module.forward = self.step(name, module)
            for key, buffer in list(module.named_buffers(recurse=False)):
                if BUFFERS.search(key) and name not in self.tables:
                    module._buffers[key] = buffer.to("meta")
                    mark(module._buffers[key], frozenset([(name, "")]))

    @staticmethod
    def is_table(module):
        cls = type(module).__name__
        if TABLES.search(cls) and not NOT_TABLES.search(cls):
            return True
        return any(entry["kind"] == "rope" for entry in numbers_of.rotary_entries(module))

    def table(self, name, module):
        original = module.forward

        def forward(*args, **kwargs):
            layer_type = next((v for v in (*args, *kwargs.values()) if isinstance(v, str)), "")
            with torch.device("cpu"), torch.no_grad():
                out = original(*tree_map(to_cpu, args), **tree_map(to_cpu, kwargs))
            out = tree_map(lambda leaf: leaf.to("meta") if isinstance(leaf, torch.Tensor) else leaf, out)
            unmark(out)
            mark(out, frozenset([(name, layer_type)]))
            return out

        return forward

    def step(self, name, module):
        original = module.forward
        layer = re.match(r".*?\.\d+(?=\.|$)", name).group(0)

        def forward(*args, **kwargs):
            try:
                out = original(*args, **kwargs)
            except Exception as error:
                if not NO_POSITIONS.search(name[len(layer):]):
                    self.faults.setdefault(layer, f"{type(module).__name__}: {type(error).__name__}: {error}"[:160])
                out = args[0] if args else kwargs.get("hidden_states", kwargs.get("x"))
            if "Indexer" in type(module).__name__:
                unmark(out)  # which keys are read is no rotation of them
            self.layers.setdefault(layer, set())
            self.layers[layer] |= marks_of(out)
            if name == layer:
                unmark((out, args[:1], kwargs.get("hidden_states")))
            return out

        return forward


def mask_or_zeros(function):
    def make_mask(*args, **kwargs):
        try:
            return function(*args, **kwargs)
        except Exception:
            return torch.zeros(1, 1, 4, 4, device="meta")

    return make_mask


@contextlib.contextmanager
def masks_may_fail(model):
    changed = []
    homes = {inspect.getmodule(type(module)) for module in model.modules()}
    for home in homes:
        for name, value in list(vars(home).items()):
            if re.fullmatch(r"create_\w*mask\w*|_?prepare_4d\w*mask\w*", name) and inspect.isfunction(value):
                changed.append((home, name, value))
                setattr(home, name, mask_or_zeros(value))
    yield
    for home, name, value in changed:
        setattr(home, name, value)


def call(model):
    """Runs one model on four tokens; what went wrong, if anything."""
    names = inspect.signature(model.forward).parameters
    ids = torch.zeros(1, 4, dtype=torch.long, device="meta")
    hidden = getattr(model.config, "hidden_size", None) or getattr(model.config, "d_model", None) or 64
    kwargs = {}
    if "input_ids" in names:
        kwargs["input_ids"] = ids
    elif "inputs_embeds" in names or "hidden_states" in names:
        kwargs["inputs_embeds" if "inputs_embeds" in names else "hidden_states"] = torch.zeros(1, 4, hidden, device="meta")
    else:
        return "no text"
    if "use_cache" in names:
        kwargs["use_cache"] = False
    try:
        with torch.device("meta"), torch.no_grad(), masks_may_fail(model), Marks():
            model(**kwargs)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
    return ""


def owners(model):
    """The models that hold layers of their own, by name."""
    modules = dict(model.named_modules())
    found = {}
    for name in modules:
        match = re.match(r"(.*?)\.?(\w+)\.\d+$", name)
        if not match or re.search(r"\.\d+\.", name):
            continue
        at = match.group(1)
        while at and not isinstance(modules[at], PreTrainedModel):
            at = at.rpartition(".")[0]
        found[at] = modules[at]
    return found


def number(value):
    return float(f"{value:.9g}")


def table_row(run, name, layer_type):
    """The numbers of one table: how many pairs, and three of their frequencies."""
    entries = run.numbers.get(name, [])
    if layer_type:
        entries = [entry for entry in entries if entry.get("layer_type", layer_type) == layer_type] or entries
    if len(entries) != 1 or "inv_freq" not in entries[0]:
        return {"layer_type": layer_type}
    values = entries[0]["inv_freq"]
    pairs = entries[0].get("pairs", len(values))
    row = {"pairs": pairs, "first": number(values[0]), "second": number(values[min(1, len(values) - 1)]), "last": number(values[-1])}
    return row | {"factor": number(entries[0]["factor"])} | ({"layer_type": layer_type} if layer_type else {})


def lists_of(run):
    """Layers by the list that holds them: [(name of the list, [names of layers])]."""
    found = {}
    for name, _ in run.model.named_modules():
        head, _, index = name.rpartition(".")
        if not any(layer.startswith(head + ".") for layer in run.layers):
            continue  # of a model inside, which has its own run
        if re.search(r"\.\d+(\.|$)", head) or not index.isdigit():
            continue
        found.setdefault(head, {})[int(index)] = name
    return [(head, [by.get(i) for i in range(max(by) + 1)]) for head, by in found.items()]


def rows_of(config):
    model = build.build(config)
    if model is None:
        return []
    parts = build.sub_configs(config)
    text, path_of = make.text_path(config, parts), make.path_finder(model, parts)
    rows = []
    for owner, module in owners(model).items():
        group = make.group_name(path_of(owner), text, owner)[0]
        run = Run(module)
        if not run.tables:
            continue
        why = call(module)
        for head, names in lists_of(run):
            full = f"{owner}.{head}" if owner else head
            tables, letters = [], ""
            for name in names:
                marks = sorted(run.layers.get(name, ()))
                if not marks:
                    letters += "?" if name not in run.layers or name in run.faults else "-"
                    continue
                row = [table_row(run, *each) for each in marks]
                row = row[0] if all(each == row[0] for each in row) else {"several": row}
                if row not in tables:
                    tables.append(row)
                letters += "abcdefghijkl"[tables.index(row)]
            if not tables and set(letters) <= {"?", "-"} and "layers" not in head and head != "h":
                continue
            row = {"group": group, "side": make.group_name("", text, full)[1], "layers": letters, "tables": tables}
            if "?" in letters:
                row["why"] = why or next(iter(run.faults.values()), "")
            rows.append(row)
        if not run.layers and why != "no text":
            rows.append({"group": group, "side": "", "failed": why})
    return rows


def without_lists(model_type, config, needed):
    """The lists that the class makes again, the same, where the file has none."""
    def strip(at, key):
        return {k: strip(v, key) if isinstance(v, dict) else v for k, v in at.items() if k != key}

    saved = make.plain(json.loads(config.to_json_string()))
    again = []
    for key in MADE_BY_CLASS:
        if f'"{key}"' not in json.dumps(saved):
            continue
        try:
            made = build.CONFIG_MAPPING[model_type](**(strip(saved, key) | needed))
            if make.plain(json.loads(made.to_json_string())) == saved:
                again.append(key)
        except Exception:
            continue
    return again


def entries(model_type):
    needed = make.NEEDED.get(model_type, {})
    out = []
    for changes in [{}, *VARIANTS.get(model_type, [])]:
        config = build.CONFIG_MAPPING[model_type](**needed, **changes)
        try:
            rows = rows_of(config)
        except Exception as error:
            out.append({"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]})
            continue
        again = without_lists(model_type, config, needed | changes)
        if not rows:
            continue
        out.append(({"changes": changes} if changes else {}) | ({"made_by_class": again} if again else {}) | {"rows": rows})
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="")
    parser.add_argument("-o", "--output", default=str(HERE / "layers.json"))
    options = parser.parse_args()
    cases = [json.loads(line) for line in (HERE / "cases.jsonl").read_text().splitlines()]
    output = pathlib.Path(options.output)
    rows = json.loads(output.read_text()) if options.types and output.exists() else {}
    for case in cases:
        rotates = any(entry["kind"] in ("rope", "mrope", "axial") for entry in case.get("expect", []))
        if "config" not in case or (case["type"] not in options.types.split(",") if options.types else not rotates):
            continue
        try:
            found = entries(case["type"])
        except Exception as error:
            found = [{"failed": f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]}]
        if found:
            rows[case["type"]] = found
    lines = [f"{json.dumps(key)}: {json.dumps(rows[key], separators=(',', ':'))}" for key in sorted(rows)]
    output.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
