"""Writes what transformers' own position modules hold, for every configuration class of its mapping.

    python make.py [--types a,b,c] [-o cases.jsonl]

See README.md for the format. Versions: ../requirements.txt.
"""

import argparse
import hashlib
import json
import os
import re
import warnings

import build
import numbers_of
import others

warnings.filterwarnings("ignore")
# Keys that a class cannot do without and has no default for; they do not touch positions.
NEEDED = {
    "autoformer": {"prediction_length": 24},
    "informer": {"prediction_length": 24},
    "time_series_transformer": {"prediction_length": 24},
    "esm": {"vocab_size": 33},
}
DROPPED = {"id2label", "label2id", "transformers_version", "torch_dtype", "_name_or_path"}


def plain(value):
    """The saved configuration without the names of its classes (thousands of lines that no reader of positions needs)."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if k not in DROPPED}
    return [plain(v) for v in value] if isinstance(value, list) else value


def path_finder(model, parts):
    """From a module's name to the path of the configuration that it was made from."""
    by_id = {id(part): path for path, part in parts}
    modules = dict(model.named_modules())

    def of(name):
        at = name
        while True:
            config = getattr(modules.get(at), "config", None)
            if config is not None:
                if id(config) in by_id:
                    return by_id[id(config)]
                twins = [path for path, part in parts if type(part) is type(config)]
                if len(twins) >= 1:
                    return pick_twin(twins, name)
            if not at:
                return ""
            at = at.rpartition(".")[0]

    def pick_twin(twins, name):
        # A copy of a configuration: the twin whose key is in the module's name, else the only or the first one.
        for twin in twins:
            stem = twin.split(".")[-1].removesuffix("_config")
            if stem and stem in name:
                return twin
        return twins[0]

    return of


def text_path(config, parts):
    """The path of the part that is the language model."""
    try:
        text = config.get_text_config(decoder=True)
    except Exception:
        return ""
    for path, part in parts:
        if part is text and path:
            return path
    paths = [path for path, _ in parts]
    return "vlm_config.text_config" if "vlm_config.text_config" in paths else ""


def group_name(path, text, module):
    """encoder, decoder, vision, audio, else the sub-configuration's key; nothing for the language model."""
    if re.search(r"(^|\.)t2u_", module):
        return "t2u", ""
    if "visual_temporal" in module:
        return "vision.temporal", ""
    if "image_position_embed" in module:
        return "vision", ""
    if module.startswith("speech_encoder."):
        return "speech", ""
    side = re.search(r"(^|\.)(encoder|decoder)(\.|$)", module)
    name = ""
    if path and path != text:
        keys = [key.removesuffix("_config") for key in path.split(".")]
        name = ".".join(key for i, key in enumerate(keys) if key not in ("thinker", "vlm") and (key != "text" or i == 0))
    return name, side.group(2) if side else ""


def rotary_of(model, config):
    parts = build.sub_configs(config)
    path_of = path_finder(model, parts)
    text = text_path(config, parts)
    rows = []
    for name, module in model.named_modules():
        entries = numbers_of.rotary_entries(module)
        for entry in entries:
            entry["module"] = type(module).__name__
            rows.append((path_of(name), numbers_of.shape_name(name), entry))
    used = {module.rope_layer_type for module in model.modules() if hasattr(module, "rope_layer_type")}
    rows = [row for row in rows if not used or row[2].get("layer_type", "") in used]
    rows += others.other_entries(model, path_of)
    return merged(rows, text)


def merged(rows, text):
    """One entry per distinct schedule of a group."""
    out, seen = [], set()
    for path, module, entry in rows:
        name, side = group_name(path, text, module)
        key = json.dumps([path, side, {k: v for k, v in entry.items() if k != "module"}], sort_keys=True)
        if key in seen:
            continue
        seen.add(key)
        out.append({"path": path, "group": name, "side": side, "at": module} | entry)
    return out


def loose(model_type, config):
    """Entries of parts that are built alone."""
    parts = build.loose_parts(model_type, config)
    if parts is None:
        return []
    rows = [("", numbers_of.shape_name(name), entry) for _, name, entry in others.other_entries(parts, lambda name: "")]
    return merged(rows, "")


def case(model_type):
    row = {"type": model_type}
    try:
        config = build.CONFIG_MAPPING[model_type](**NEEDED.get(model_type, {}))
        row["config"] = plain(json.loads(config.to_json_string()))
    except Exception as error:
        row["failed"] = f"configuration: {type(error).__name__}: {error}"[:300]
        return row
    try:
        model = build.build(config)
    except Exception as error:
        row["failed"] = f"model: {type(error).__name__}: {' '.join(str(error).split())}"[:300]
        made, reasons = build.loose_rotary_modules(config)
        parts = build.sub_configs(config)
        rows = []
        for path, name, module in made:
            for entry in numbers_of.rotary_entries(module):
                rows.append((path, "", entry | {"module": name}))
        row["expect"] = merged(rows, text_path(config, parts)) + loose(model_type, config)
        if reasons:
            row["modules_failed"] = reasons
        return row
    if model is None:
        row["no_model"] = True
        row["expect"] = loose(model_type, config)
        return row
    row["class"] = type(model).__name__
    row["expect"] = rotary_of(model, config) + [
        {"path": "", "group": "", "side": "", "at": ""} | entry for entry in others.slopes(model, config)
    ]
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="")
    parser.add_argument("-o", "--output", default="cases.jsonl")
    options = parser.parse_args()
    types = options.types.split(",") if options.types else list(build.CONFIG_MAPPING_NAMES)
    lines = {}
    if options.types and os.path.exists(options.output):  # the others stay
        with open(options.output, encoding="utf-8") as old:
            lines = {json.loads(line)["type"]: line for line in old}
    for model_type in types:
        lines[model_type] = json.dumps(case(model_type), separators=(",", ":"), ensure_ascii=False) + "\n"
    with open(options.output, "w", encoding="utf-8") as out:
        out.writelines(lines[model_type] for model_type in sorted(lines))


if __name__ == "__main__":
    main()
