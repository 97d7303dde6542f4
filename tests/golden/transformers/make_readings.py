"""Writes readings.json: what the library makes of files that older versions wrote, for every class that rotates by its own
configuration.

    python make_readings.py [--types a,b,c] [-o readings.json]

A file is the class's own (cases.jsonl) without its rope keys, then one of the edits below. The answer is what the rotary
modules of the class hold, made from that file: [[layer type, pairs, second frequency, last frequency, factor, base,
rope type], …], or the error. Edits that give the same answer share a line. Versions: ../requirements.txt.
"""

import argparse
import inspect
import json
import pathlib
import re
import warnings

import build
import numbers_of
import torch

warnings.filterwarnings("ignore")
HERE = pathlib.Path(__file__).parent

# Keys that say how to rotate, by every name in use.
ROPE_KEYS = [
    "rope_parameters", "rope_scaling", "rope_theta", "partial_rotary_factor", "rope_local_base_freq", "swa_rope_theta",
    "swa_partial_rotary_factor", "local_rope_theta", "global_rope_theta", "compress_rope_theta", "rotary_emb_base", "rotary_pct", "default_theta",
    "layer_rope_theta",
]
LINEAR = {"rope_type": "linear", "factor": 2.0}
EDITS = {
    "nothing": {},
    "theta": {"rope_theta": 77777.0},
    "null": {"rope_scaling": None},
    "theta_null": {"rope_theta": 77777.0, "rope_scaling": None},
    "type": {"rope_theta": 77777.0, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "rope_type": {"rope_theta": 77777.0, "rope_scaling": LINEAR},
    "dict_only": {"rope_scaling": LINEAR},
    "yarn": {"rope_theta": 77777.0, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 1024}},
    "partial": {"rope_theta": 77777.0, "partial_rotary_factor": 0.75},
    "partial_linear": {"rope_theta": 77777.0, "partial_rotary_factor": 0.75, "rope_scaling": LINEAR},
    "flat": {"rope_parameters": {"rope_type": "default", "rope_theta": 77777.0}},
    "flat_linear": {"rope_parameters": LINEAR | {"rope_theta": 77777.0}},
    "flat_partial": {"rope_parameters": {"rope_type": "default", "rope_theta": 77777.0, "partial_rotary_factor": 0.75}},
    # Only where the class's configuration speaks of the key.
    "rope_local_base_freq": {"rope_theta": 77777.0, "rope_local_base_freq": 555.0},
    "swa_rope_theta": {"rope_theta": 77777.0, "swa_rope_theta": 555.0},
    "local_rope_theta": {"local_rope_theta": 555.0},
    "global_rope_theta": {"global_rope_theta": 555.0},
    "rotary_emb_base": {"rotary_emb_base": 555.0},
    "compress_rope_theta": {"rope_theta": 77777.0, "compress_rope_theta": 555.0},
    "rotary_pct": {"rotary_pct": 0.25, "partial_rotary_factor": 0.75},
}
# Beside these: "own_partial", the class's own rope_parameters with a partial_rotary_factor of PARTIAL in every dict.
PARTIAL = 0.75
# Files with keys that only one class has.
BODY = {"hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 8, "max_position_embeddings": 8192}
STEP = BODY | {"model_type": "step3p5", "num_attention_groups": 8, "head_dim": 128, "layer_types": (["full_attention"] + ["sliding_attention"] * 3) * 2}
STEP_LISTS = {"rope_theta": [5e6, 1e4, 1e4, 1e4] * 2, "partial_rotary_factors": [0.5, 1.0, 1.0, 1.0] * 2}
LLAMA3 = {"rope_type": "llama3", "factor": 2.0, "original_max_position_embeddings": 131072, "low_freq_factor": 1.0, "high_freq_factor": 32.0}
DOTS = {"model_type": "dots3_note_text", "num_hidden_layers": 8}
T5GEMMA2 = BODY | {"head_dim": 128}
FILES = [
    STEP | {"rope_theta": 77777.0},
    STEP | STEP_LISTS,
    STEP | STEP_LISTS | {"rope_scaling": LLAMA3, "yarn_only_types": ["full_attention"]},
    STEP | {"num_nextn_predict_layers": 2, "layer_types": STEP["layer_types"] + ["sliding_attention"] * 2,
            "rope_theta": STEP_LISTS["rope_theta"] + [1e4] * 2},
    DOTS,
    DOTS | {"rope_theta": 77777.0, "swa_rope_theta": 5555.0},
    DOTS | {"swa_qk_nope_head_dim": 128, "swa_head_dim": 160, "layer_types": ["full_attention", "sliding_attention"] * 4},
    DOTS | {"rope_scaling": LINEAR},
    BODY | {"model_type": "ultrabert", "rope_theta": [1e4, 1e4, 5e5, 1e4, 1e4, 5e5, 1e4, 1e4]},
    T5GEMMA2 | {"model_type": "t5gemma2_text", "rope_theta": 77777.0, "rope_scaling": LINEAR},
    T5GEMMA2 | {"model_type": "t5gemma2_decoder", "rope_theta": 77777.0, "rope_local_base_freq": 555.0, "rope_scaling": LINEAR},
    {"model_type": "openai_privacy_filter", "rope_theta": 77777.0},
    {"model_type": "neomme", "rope_theta": 77777.0},
]
OPTIONAL = ("rope_local_base_freq", "swa_rope_theta", "local_rope_theta", "global_rope_theta", "rotary_emb_base", "compress_rope_theta",
            "rotary_pct")


def rounded(value):
    """Enough digits to tell two schedules apart, and few enough to read."""
    return float(f"{value:.9g}")


def modules_of(config):
    """The rotary modules that ask for this configuration; where none says so, those of the language model that take it."""
    made, reasons = build.loose_rotary_modules(config)
    found = [module for path, _, module in made if path == ""]
    if found:
        return found, reasons
    if reasons and any("is not subscriptable" not in reason for reason in reasons):
        return [], reasons
    for home in build.modeling_modules(type(config)):
        for name, cls in vars(home).items():
            rotary = inspect.isclass(cls) and issubclass(cls, torch.nn.Module) and cls.__module__ == home.__name__ and re.search(r"Rotary", name)
            if not rotary or re.search(r"Attention|Layer", name):
                continue
            if bool(re.search(r"Vision|Audio", name)) != bool(re.search(r"Vision|Audio|Diariz|WordTime", type(config).__name__)):
                continue
            try:
                found.append(cls(config))
            except Exception as error:
                reasons.append(f"{name}: {type(error).__name__}: {error}"[:200])
    if not found and not reasons:  # the classes of another package
        found = [module for module in build.build(config).modules() if "Rotary" in type(module).__name__ and "Vision" not in type(module).__name__]
    return found, reasons


def said(config, layer_type, key):
    parameters = getattr(config, "rope_parameters", None) or {}
    if layer_type:
        parameters = parameters.get(layer_type) or {}
    return parameters.get(key)


def answer(config_class, config):
    """The schedules of a file's own rotary modules."""
    built = config_class.from_dict(json.loads(json.dumps(config)))
    made, reasons = modules_of(built)
    rows = []
    for module in made:
        for name, buffer in module.named_buffers(recurse=False):
            if not name.endswith("inv_freq") or name.endswith("original_inv_freq") or buffer.is_meta:
                continue
            layer_type = name[: -len("_inv_freq")] if name != "inv_freq" else ""
            factor = getattr(module, f"{layer_type}_attention_scaling" if layer_type else "attention_scaling", 1.0)
            values = numbers_of.exact(buffer)
            row = [layer_type, len(values), rounded(values[min(1, len(values) - 1)]), rounded(values[-1]), rounded(float(factor))]
            row += [said(built, layer_type, "rope_theta"), said(built, layer_type, "rope_type")]
            if row not in rows:
                rows.append(row)
    if not rows:
        raise ValueError(reasons[0] if reasons else "no module")
    return rows


def speaks_of(config_class, key):
    return key in inspect.getsource(inspect.getmodule(config_class))


def own_partial(config):
    own = json.loads(json.dumps(config.get("rope_parameters") or {}))
    for part in [value for value in own.values() if isinstance(value, dict)] or [own]:
        part["partial_rotary_factor"] = PARTIAL
    return {"rope_parameters": own}


def of_class(model_type, config):
    config_class = build.CONFIG_MAPPING[model_type]
    bare = {k: v for k, v in config.items() if k not in ROPE_KEYS and k != "time_step_limit"}  # an infinity, saved as text
    answers = {}
    for name, edit in (EDITS | {"own_partial": own_partial(config)}).items():
        if name in OPTIONAL and not speaks_of(config_class, name):
            continue
        try:
            rows = answer(config_class, bare | edit)
        except Exception as error:
            rows = f"{type(error).__name__}: {' '.join(str(error).split())}"[:90]
        if rows == "ValueError: no module":
            return None  # a table of sines, without keys of its own
        answers.setdefault(json.dumps(rows, separators=(",", ":")), []).append(name)
    return answers


def rotating_types():
    for line in (HERE / "cases.jsonl").read_text().splitlines():
        case = json.loads(line)
        if any(e["path"] == "" and e["kind"] in ("rope", "mrope", "axial") for e in case.get("expect", [])):
            yield case["type"], case["config"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="")
    parser.add_argument("-o", "--output", default="readings.json")
    options = parser.parse_args()
    wanted = set(filter(None, options.types.split(",")))
    lines = []
    for model_type, config in rotating_types():
        if wanted and model_type not in wanted:
            continue
        answers = of_class(model_type, config)
        if answers is None:
            continue
        body = ",".join(f'"{" ".join(names)}":{rows}' for rows, names in answers.items())
        lines.append(f'"{model_type}":{{{body}}}')
    edits = ",\n".join(f'"{name}":{json.dumps(edit, separators=(",", ":"))}' for name, edit in EDITS.items())
    text = ",\n".join(lines)
    files = ",\n".join(json.dumps([f, answer(build.CONFIG_MAPPING[f["model_type"]], f)], separators=(",", ":")) for f in FILES)
    (HERE / options.output).write_text(
        f'{{"removed":{json.dumps(ROPE_KEYS)},\n"edits":{{\n{edits}}},\n"files":[\n{files}],\n"classes":{{\n{text}}}}}\n', encoding="utf-8"
    )


if __name__ == "__main__":
    main()
