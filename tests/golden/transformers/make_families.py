"""Writes server/resolve/families_transformers_*.cc from cases.jsonl: one line per configuration class that the hand-written
tables do not have, with the defaults of the class and how it encodes positions.

    python make_families.py
"""

import json
import math
import pathlib
import re

HERE = pathlib.Path(__file__).parent
RESOLVE = HERE.parents[2] / "server" / "resolve"
HAND = ["families_rope_table.cc", "families_other_table.cc", "families_learned_table.cc"]
PER_FILE = 220


def normalised(name):
    name = re.sub(r"[_.-]", "", name).lower()
    return name.removesuffix("text") if name != "text" else name


def hand_written():
    names = set()
    for file in HAND:
        text = (RESOLVE / file).read_text()
        names |= set(re.findall(r'^\{"(\w+)"', text, re.M)) | set(re.findall(r'\.model_type = "(\w+)"', text))
    return names


def own_tables():
    """Families whose learned tables, and nothing else, are those of families_class_tables.cc."""
    text = (RESOLVE / "families_class_tables.cc").read_text()
    return set(re.findall(r'\.family = "(\w+)", \.layer_type = ""', text)) | {"videoprismvisionmodel", "xclip", "clvp"}


OWN_TABLES = own_tables()


def first(config, *keys):
    for key in keys:
        value = config.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return value
    return 0


def whole(value):
    return int(value) if value and float(value).is_integer() else 0


def at_path(config, path):
    for key in [key for key in path.split(".") if key]:
        config = config.get(key) or {}
    return config


PAIRINGS = json.loads((HERE / "pairings.json").read_text())["types"]


def flagged(model_type):
    """Whether the class reads rope_interleave."""
    return any("rope_interleave" in entry for entry in PAIRINGS.get(model_type, []))


# Keys of a sub-configuration that readers of positions look at, and those of that kind that they do not.
SIZES = re.compile(r"size|dim|heads|layers|depth|width|embed|position|rope|rotary|theta|window|pattern|interval|length|d_model|scal|clip|offset|^architecture$|^backbone$")
NOT_SIZES = re.compile(r"vocab|intermediate|dropout|drop_|token|initializer|chunk_size_feed|output_|eps$|batch|kernel|norm|layer_types")


def differing(part, default):
    """What a class changes in the defaults of its part's class."""
    if default is None:
        default = {}
    part, default = dict(part), dict(default)
    # A base by itself is a plain key; a head's width says itself where it would follow from what differs.
    if set(part.get("rope_parameters") or {}) == {"rope_theta", "rope_type"} and part["rope_parameters"]["rope_type"] == "default":
        if part["rope_parameters"] != default.get("rope_parameters"):
            part["rope_theta"] = part["rope_parameters"]["rope_theta"]
        del part["rope_parameters"]
    if any(part.get(key) != default.get(key) for key in ("hidden_size", "num_attention_heads")):
        default.pop("head_dim", None)
    return {
        key: value
        for key, value in part.items()
        if SIZES.search(key) and not NOT_SIZES.search(key) and value is not None and not (isinstance(value, dict) and value.get("model_type"))
        and default.get(key) != value
    }


SCALINGS = json.loads((HERE / "scalings.json").read_text())


# Classes that cannot be built from their defaults; their code has scaling = 1.
UNSCALED = {"diffusion_gemma", "diffusion_gemma_text"}


def softmax_rule(model_type, config):
    """How the class scales q·k, where it is not by the head's width."""
    if model_type in UNSCALED:
        return "kOne"
    if "query_pre_attn_scalar" in config:
        return "kQueryPreAttentionOrHead" if model_type == "step3p5" else "kQueryPreAttention"
    if "attention_multiplier" in config and model_type != "hyperclovax":  # there it defaults to the head's
        return "kAttentionMultiplier"
    own = [factor for group, _, _, *factors in SCALINGS.get(model_type, []) for factor in factors if group in ("", "encoder", "decoder")]
    return "kOne" if own and all(factor == 1 for factor in own) else None


def evidence(cases):
    """What the library builds for every model_type, wherever in a model it was seen."""
    own, parts = {}, {}
    defaults = {case["type"]: case["config"] for case in cases if "config" in case}
    for case in cases:
        config = case.get("config")
        if not config:
            continue
        built = "failed" not in case and not case.get("no_model")
        if built:
            own.setdefault(case["type"], [])
        for entry in case.get("expect", []):
            part = at_path(config, entry["path"])
            kind = part.get("model_type", case["type"]) if entry["path"] else case["type"]
            own.setdefault(kind, []).append((part, entry))
        stack = [(case["type"], config)]
        while stack:
            parent, at = stack.pop()
            for key, value in at.items():
                if isinstance(value, dict) and value.get("model_type"):
                    kind = value["model_type"]
                    row = (kind, differing(value, defaults.get(kind)))
                    # What a class says of its parts by itself goes before what another says of them.
                    if parent == case["type"] or (normalised(parent), key) not in parts:
                        parts[normalised(parent), key] = row
                    stack.append((kind, value))
    return own, parts


READERS = {
    "t5_bucket": "&ReadT5",
    "swin_bias": "&ReadSwin",
    "continuous_window_bias": "&ReadSwin",
    "relative_sinusoidal": "&ReadConformer",
    "rope_2d_dinov3": "&ReadDinoV3",
    "axial": "&ReadVisionRope",
    "axial_grid": "&ReadOther",
    "sinusoidal": "&ReadSinusoid",
    "learned": "&ReadLearned",
}
# What no reader has a spec for: named as it is, never "none".
OTHERS = ("relative_bias", "relative_positions", "positional_convolution")


def sinusoid_rule(entry):
    """The rule that the samples follow: [row, column, value]."""
    if entry.get("padding_row") is not None:
        return "kFairseq"
    at = {(r, c): value for r, c, value in entry["samples"]}
    dim = entry["dim"]
    if at[0, 0] == 1:
        return "kCosinesFirst"
    if abs(at[1, 1] - math.cos(1)) < 1e-6:
        return "kInterleaved"
    row = max(r for r, c, _ in entry["samples"] if c == 1)
    paper, endpoint = (abs(at[row, 1] - math.sin(row * 10000**-e)) for e in (2 / dim, 1 / (dim / 2 - 1)))
    return "kPaper" if paper < endpoint else "kEndpoint"


def grid_rule(entry, fields, config):
    """How rows and columns share the pairs of an image tower, and the key of its width."""
    axes, values = entry["axes"], entry["inv_freq"]
    first_half = axes[: len(axes) // 2]
    out = {}
    if "t" in axes:
        out["grid"] = "GridRule::kResetThree"
    elif entry["pairing"] == "half_split_per_axis":
        out["grid"] = "GridRule::kHalvesOfTheHead"
    elif axes.startswith("xy"):
        out["grid"] = "GridRule::kTwinsWidthFirst"
    elif axes[0] == "x":
        out["grid"] = "GridRule::kResetWidthFirst"
    elif len(axes) <= 64 and values[len(axes) // 2] != 1.0:
        out["grid"] = "GridRule::kSplit"
    assert axes.startswith("xy") or len(set(first_half)) == 1 or "t" in axes, axes
    if fields["heads"] and fields["hidden"] // fields["heads"] // 2 != len(axes) and "t" not in axes and not fields.get("head_dim"):
        out["width_key"] = next((f'"{k}"' for k, v in config.items() if isinstance(v, int) and v // fields["heads"] // 2 == len(axes)), None)
    return out


# Classes that count positions from the padding index on, by create_position_ids_from_input_ids or a copy of it.
FROM_PADDING = {
    "altclip_text_model", "bridgetower_text_model", "clap_text_model", "data2vec-text", "layoutlmv3", "longformer",
    "luke", "prophetnet", "mpnet", "roberta-prelayernorm", "xmod", "markuplm", "lilt",
}
# Classes that read row m + 2 by their own arithmetic, without an offset that the module shows.
TWO_MORE = {"mra", "nystromformer", "yoso"}
# Classes whose configuration has a number for the width of a head: it holds whatever hidden size a file gives, also where it
# is hidden / heads of the defaults.
FIXED_HEAD_DIM = {
    "afmoe", "cohere2_moe", "cosmos3_edge_text", "dia_decoder", "gemma4_vision", "higgs_audio_v2", "hrm_text", "iquestcoder",
    "lfm3", "molmo2_text", "muse_spark_text", "neucodec", "pe_audio_encoder", "pe_audio_video_encoder", "pe_video_encoder",
    "qwen2_5_omni_dit", "qwen2_5_omni_talker", "sarvam_moe", "timesfm2_5", "xcodec2",
}
USUAL_ROWS = ("max_position_embeddings", "n_positions", "max_source_positions", "max_target_positions")
OTHER_ROWS = ("num_position_embeddings", "num_patches", "num_image_tokens", "max_vit_seq_len")


def sides(value):
    """Height and width of a number or a list; (0, 0) where there is neither."""
    if isinstance(value, list) and len(value) == 2:
        return tuple(value)
    return (value, value) if isinstance(value, int) else (0, 0)


def learned_rule(model_type, entry, config):
    """The layout of a learned table, where its keys tell it."""
    shape = entry.get("shape", [])
    rows = entry.get("rows") or (shape[-2] if len(shape) in (2, 3) and (len(shape) == 2 or shape[0] == 1) else 0)
    grid = ("pos_emb_height", "pos_emb_width")
    if len(shape) == 3 and shape[:2] == [config.get(key) for key in grid]:
        return {"learned": "LearnedRule::kPlain", "rows_key": f'"{"*".join(grid)}"'}
    if not rows:
        return {}
    out = {}
    image, patch = sides(config.get("image_size")), sides(config.get("patch_size"))
    patches = (image[0] // patch[0]) * (image[1] // patch[1]) if all(patch) else 0
    usual = next((k for k in USUAL_ROWS if isinstance(config.get(k), int)), None)
    other = next((k for k in OTHER_ROWS if config.get(k) == rows), None)
    if usual and config[usual] == rows:
        out["learned"] = "LearnedRule::" + ("kPadding" if model_type in FROM_PADDING else "kPlain")
        if model_type in FROM_PADDING and config.get("pad_token_id", 1) != 1:
            out["padding"] = str(config["pad_token_id"])
        if usual == "max_source_positions":
            out["rows_key"] = f'"{usual}"'  # no name of a model's own length
    elif usual and config[usual] == rows - 2 and (entry.get("offset") == 2 or model_type in TWO_MORE):
        out["learned"] = "LearnedRule::kTwoMore"
    elif patches and 0 <= rows - patches <= 8:
        out |= {"learned": "LearnedRule::kImage", "extra_rows": rows - patches}
    elif other:
        out |= {"learned": "LearnedRule::kPlain", "rows_key": f'"{other}"'}
    else:
        return {}
    if entry["dim"] != whole(first(config, "hidden_size", "d_model", "n_embd", "embed_dim", "dim")):
        key = next((k for k, v in config.items() if isinstance(v, int) and v == entry["dim"]), None)
        if key is None:
            return {}
        out["width_key"] = f'"{key}"'
    return out


def row(model_type, config, entries, is_wrapper):
    kinds = [entry["kind"] for _, entry in entries]
    rope = next((entry for _, entry in entries if entry["kind"] in ("rope", "mrope", "axial")), None)
    params = config.get("rope_parameters") or {}
    nested = {k: v for k, v in params.items() if isinstance(v, dict)}
    fields = {"model_type": f'"{normalised(model_type)}"'}
    layered = any("layer_type" in entry for _, entry in entries)
    if "rope" in kinds or "mrope" in kinds or ("axial" in kinds and layered):
        fields["read"] = "&ReadMla" if whole(first(config, "qk_rope_head_dim")) and whole(first(config, "qk_nope_head_dim")) else "&ReadRope"
        if isinstance(config.get("per_layer_config"), dict):
            fields["read"] = "&ReadRope"
    else:
        fields["read"] = next((reader for kind, reader in READERS.items() if kind in kinds), None)
    other = next((kind for kind in OTHERS if kind in kinds), None)
    if fields["read"] is None and other == "positional_convolution" and not is_wrapper:
        fields["read"] = "&ReadConvolution"
    if fields["read"] is None and other and not is_wrapper:
        fields |= {"read": "&ReadOther", "other": f'"{other}"'}
    if fields["read"] is None:
        fields["read"] = "&ReadParts" if is_wrapper else "&ReadOther" if "other" in kinds else "&ReadNone"
    fields["hidden"] = whole(first(config, "hidden_size", "d_model", "n_embd", "embed_dim", "dim", "memory_attention_hidden_size"))
    heads = ("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads", "encoder_num_attention_heads", "memory_attention_num_attention_heads")
    fields["heads"] = whole(first(config, *heads))
    fields["kv_heads"] = whole(first(config, "num_key_value_heads", "num_kv_heads"))
    fields["layers"] = whole(first(config, "num_hidden_layers", "n_layer", "num_layers", "encoder_layers", "depth"))
    head_dim = whole(first(config, "head_dim"))
    follows = head_dim * fields["heads"] == fields["hidden"] and model_type not in FIXED_HEAD_DIM
    if fields["heads"] and not follows and not whole(first(config, "qk_rope_head_dim")):
        fields["head_dim"] = head_dim
    fields["max_position"] = whole(first(config, "max_position_embeddings", "n_positions", "max_target_positions"))
    fixed = next((entry for _, entry in entries if entry["kind"] == "sinusoidal"), None)
    if fixed and fields["read"] == "&ReadSinusoid":
        fields["sinusoid"] = "SinusoidRule::" + sinusoid_rule(fixed)
        if fields["hidden"] != fixed["dim"]:
            key = next((k for k, v in config.items() if isinstance(v, int) and v == fixed["dim"]), None)
            if key is None:
                whole_keys = {k: v for k, v in config.items() if isinstance(v, int) and v > 1}
                key = next((f"{a}*{b}" for a, x in whole_keys.items() for b, y in whole_keys.items() if x * y == fixed["dim"]), None)
            fields["width_key"] = f'"{key}"' if key else None
    if normalised(model_type) in OWN_TABLES:
        fields["read"] = "&ReadParts"
    if fields["read"] in ("&ReadLearned", "&ReadVisionRope"):
        # Each table beside the configuration that it was seen with; tables of modules first.
        tables = [(part, entry) for part, entry in entries if entry["kind"] == "learned"]
        tables.sort(key=lambda seen: "rows" not in seen[1])
        fields.update(next((rule for part, entry in tables if (rule := learned_rule(model_type, entry, part))), {}))
        # The class's own sizes, which are those of a file that gives none.
        if fields.get("learned") == "LearnedRule::kImage":
            for key in ("image", "patch"):
                height, width = sides(config.get(f"{key}_size"))
                fields[key] = f"{{{height}, {width}}}" if height else None
        elif fields.get("rows_key"):
            fields["rows"] = math.prod(config.get(key) or 0 for key in fields["rows_key"].strip('"').split("*"))
    rule = softmax_rule(model_type, config)
    if rule and fields["read"] != "&ReadParts":
        fields["softmax"] = f"SoftmaxRule::{rule}"
        if rule == "kAttentionMultiplier" and config["attention_multiplier"] != 1:
            fields["multiplier"] = repr(config["attention_multiplier"])
    if rope:
        main = nested.get("full_attention") or (next(iter(nested.values())) if nested else params)
        base = main.get("rope_theta", config.get("rope_theta"))
        if base and base != 10000:
            fields["base"] = repr(float(base))
        partial = main.get("partial_rotary_factor", 1)
        if partial != 1 and not nested:
            fields["partial"] = repr(float(partial))
        if rope.get("pairing") in ("interleaved", "interleaved_to_half"):
            fields["pairing"] = "kInterleaved" if rope["pairing"] == "interleaved" else "Pairing::kInterleavedToHalf"
        if flagged(model_type):
            fields["rope_interleave"] = "true"
        if fields["read"] == "&ReadMla":
            fields["qk_nope_head_dim"] = whole(first(config, "qk_nope_head_dim"))
            fields["qk_rope_head_dim"] = whole(first(config, "qk_rope_head_dim"))
        special = any(v.get("rope_type", "default") != "default" for v in (nested or {"": params}).values())
        if nested or special:
            kept = {k: v for k, v in params.items() if isinstance(v, dict) or v is None} if nested else params
            fields["rope_parameters"] = f'R"({json.dumps(kept, separators=(",", ":"))})"'
        if rope["kind"] == "axial" and not nested:
            fields.update(grid_rule(rope, fields, config))
        elif rope["kind"] != "rope":
            fields["mrope"] = "true"
            if rope.get("sections"):
                fields["sections"] = "{" + ", ".join(map(str, rope["sections"])) + "}"
            elif rope["kind"] == "axial":
                fields["axes"] = 2
            if rope["axes"][:2] in ("ty", "yx"):
                fields["axis_layout"] = "AxisLayout::kInterleaved"
    return fields


ORDER = (
    "model_type read hidden heads kv_heads layers head_dim max_position base partial pairing softmax qk_nope_head_dim "
    "qk_rope_head_dim rope_parameters mrope sections axes axis_layout grid sinusoid width_key width learned rows_key extra_rows other multiplier "
    "rope_interleave padding rows image patch"
).split()


def line(fields, config):
    """One row; designated initialisers come in the order of the struct."""
    if fields.get("width_key"):
        fields["width"] = math.prod(config.get(key, 0) for key in fields["width_key"].strip('"').split("*"))
    fields = {key: fields[key] for key in ORDER if key in fields}
    return "{" + ", ".join(f".{k} = {v}" for k, v in fields.items() if v not in (0, "", None)) + "},"


def main():
    cases = [json.loads(text) for text in (HERE / "cases.jsonl").read_text().splitlines()]
    own, parts = evidence(cases)
    skip = hand_written()
    rows, seen = [], set()
    # A language model goes before its wrapper of the same name: the wrapper's positions are those of its parts.
    for case in sorted(cases, key=lambda case: not case["type"].endswith("text")):
        name = normalised(case["type"])
        if name in skip or name in seen or "config" not in case:
            continue
        is_wrapper = any(isinstance(v, dict) and v.get("model_type") for v in case["config"].values())
        entries = own.get(case["type"])
        if entries is None:
            if not is_wrapper:
                continue  # nobody knows: no model of its own, and no other model shows it
            entries = []
        if entries and all(entry["kind"] == "fourier_points" for _, entry in entries) and not is_wrapper:
            continue  # of coordinates of prompts: a reader of its own
        rows.append(line(row(case["type"], case["config"], entries, is_wrapper), case["config"]))
        seen.add(name)
    rows.sort()
    files = [rows[i : i + PER_FILE] for i in range(0, len(rows), PER_FILE)]
    for number, chunk in enumerate(files, 1):
        (RESOLVE / f"families_transformers_{number}.cc").write_text(
            "// Class defaults of transformers 5.24.0 for classes that the other tables do not have. Generated by\n"
            "// tests/golden/transformers/make_families.py; change that, not this.\n"
            '#include "server/resolve/readers.h"\n\nnamespace phasor::server {\nnamespace {\n\n'
            "constexpr Pairing kInterleaved = Pairing::kInterleaved;\n\n// clang-format off\n"
            "constexpr Family kFamilies[] = {\n" + "\n".join(chunk) + "\n};\n// clang-format on\n\n}  // namespace\n\n"
            f"std::span<const Family> TransformersFamilies{number}() {{ return kFamilies; }}\n\n}}  // namespace phasor::server\n"
        )
    rows = sorted(
        f'{{"{parent}", "{key}", "{kind}"' + (f', R"({json.dumps(changes, separators=(",", ":"))})"' if changes else "") + "},"
        for (parent, key), (kind, changes) in parts.items()
    )
    (RESOLVE / "parts_table.cc").write_text(
        "// Which class a sub-configuration is of, where it does not say so itself, and what a file without it gets beside that\n"
        "// class's defaults: transformers 5.24.0. Generated by\n"
        "// tests/golden/transformers/make_families.py; change that, not this.\n"
        '#include "server/resolve/parts.h"\n\nnamespace phasor::server {\nnamespace {\n\n// clang-format off\n'
        "constexpr PartClass kParts[] = {\n" + "\n".join(rows) + "\n};\n// clang-format on\n\n}  // namespace\n\n"
        "std::span<const PartClass> PartClasses() { return kParts; }\n\n}  // namespace phasor::server\n"
    )
    print(len(files), "files;", len(parts), "parts")


if __name__ == "__main__":
    main()
