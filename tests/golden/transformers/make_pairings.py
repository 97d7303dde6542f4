"""Writes how every rotating class of transformers pairs channels, asked of the functions that its own layers call.

    python make_pairings.py [--types a,b,c]

Layers of the model's skeleton are searched for the rotating functions that their code names; each of those turns the unit
vectors by one angle, and which channels move, and where to, is the pairing. Writes pairings.json; see README.md.
"""

import argparse
import inspect
import json
import pathlib
import re
import types

import build
import make
import torch

HERE = pathlib.Path(__file__).parent
# Types with rotations that no function of theirs shows, and why.
NOT_PROBED = {
    "t5gemma2_decoder": "its configuration lacks a key that its own layers read (dropout_rate); t5gemma2 has the same layers",
    "vjepa2": "the two channels of a pair turn by different angles: answered as two rotations, each for one of them; terms.json holds every channel",
}
NAME = re.compile(r"rotary|rotate|rope|apply_rot_embed_cat", re.I)
NOT_ROTATING = re.compile(r"rope_(init|update|theta|param|type|index|config|delta|embed)|dynamic_rope|get_rope|build_rotary|rotary_time", re.I)
# Types whose layers can rotate, and do not with the class's default keys or at all.
NOT_BY_DEFAULT = {
    "clvp": "use_rotary_embedding is false for its decoder",
    "clvp_decoder": "use_rotary_embedding is false for its decoder",
    "esm": "position_embedding_type is absolute",
    "moshi_depth": "its layers are made with use_rope false",
    "neucodec": "position_embeddings_type of its semantic model is relative_key",
    "seamless_m4t": "position_embeddings_type of its sound encoder is relative",
    "wav2vec2-bert": "position_embeddings_type is relative_key",
    "wav2vec2-conformer": "position_embeddings_type is relative",
    "xcodec2": "position_embeddings_type of its semantic model is relative_key",
    "zamba2": "use_mem_rope is false",
    "glm46v": "the default has no mrope_section and fails: answered as mrope, without a spec",
    "glm4v": "the default has no mrope_section and fails: answered as mrope, without a spec",
    "glm4v_text": "the default has no mrope_section and fails: answered as mrope, without a spec",
    "glmga": "the default has no mrope_section and fails: answered as mrope, without a spec",
    "efficientloftr": "answered as a form of its own: rows and columns alternate over the whole width, frequencies anew for each head",
}
WIDTH = 16
COSINE, SINE = 0.6, 0.8


def names_in(code):
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= names_in(constant)
    return found


def functions_of(cls):
    """The rotating functions that the methods of a class name, with the method's name."""
    found = {}
    for base in cls.__mro__:
        if base.__module__.startswith("torch") or base is object:
            continue
        for method in vars(base).values():
            method = inspect.unwrap(method.__func__ if isinstance(method, (staticmethod, classmethod)) else method)
            if not inspect.isfunction(method):
                continue
            for name in names_in(method.__code__):
                target = method.__globals__.get(name)
                if not NAME.search(name) or NOT_ROTATING.search(name):
                    continue
                if target is None and inspect.isfunction(getattr(cls, name, None)):
                    target = getattr(cls, name)
                if inspect.isfunction(target):
                    found[name] = target
    return found


def attempts(function, rows):
    """Calls in every way that the library's rotating functions are called; each gives the turned rows or fails."""
    count = len(inspect.signature(function).parameters)
    names = list(inspect.signature(function).parameters)
    half = WIDTH // 2
    for width in (WIDTH, half, WIDTH // 4):
        for lead in ((WIDTH, 1, 1), (1, WIDTH, 1), (1, 1, WIDTH), (WIDTH, 1), (1, WIDTH), (WIDTH,)):
            x = rows.reshape(*lead, WIDTH)
            for shape in ((1, 1, width), (1, width), (WIDTH, 1, width), (1, WIDTH, width), (WIDTH, width), (1, 1, 1, width), (3, 1, 1, width), (1, 1, width // 1, 1)):
                cos, sin = torch.full(shape, COSINE), torch.full(shape, SINE)
                if names[:2] == ["tensor", "sin"] or names[1:3] == ["sin", "cos"]:
                    yield lambda x=x, cos=cos, sin=sin: function(x, sin, cos)
                elif names[:2] == ["x", "emb"]:  # timm's
                    yield lambda x=x, cos=cos, sin=sin: function(x, torch.cat([sin, cos], -1))
                elif names[0] == "sinusoidal_pos":
                    yield lambda x=x, cos=cos, sin=sin: function(torch.cat([sin, cos], -1), x, x)
                elif names[:1] == ["self"]:
                    attention = types.SimpleNamespace(num_heads=1, head_size=WIDTH, head_dim=WIDTH)
                    yield lambda x=x, cos=cos, sin=sin: function(attention, x, torch.stack([cos, sin]))
                elif "position_ids" in names and names[:3] == ["x", "cos", "sin"]:
                    yield lambda x=x, cos=cos, sin=sin: function(x, cos, sin, torch.zeros(1, 1, 2, dtype=torch.long))
                elif "cos_k" in names:
                    yield lambda x=x, cos=cos, sin=sin: function(x, x, cos, sin, cos, sin)
                elif "mrope_section" in names:
                    yield lambda x=x, cos=cos, sin=sin: function(x, x, cos, sin, [half])
                elif any(name.startswith("freq") for name in names):
                    turn = torch.complex(cos, sin)
                    angle = torch.full(shape, float(torch.atan2(torch.tensor(SINE), torch.tensor(COSINE))))
                    for freqs in (turn, angle):
                        yield lambda x=x, f=freqs: function(x, x, f) if names[1] not in names[-1:] and "freq" not in names[1] else function(x, f)
                elif names[1:2] == ["cos"]:
                    yield lambda x=x, cos=cos, sin=sin: function(x, cos, sin)
                elif count >= 4:
                    yield lambda x=x, cos=cos, sin=sin: function(x, x, cos, sin)
                    at = torch.zeros(1, WIDTH, dtype=torch.long)  # position_ids that index the tables
                    yield lambda x=x, cos=cos, sin=sin, at=at: function(x, x, x, cos, sin, at)


def classify(image):
    """The pairing that images of the unit vectors show (one row each); None when they show none of them."""

    def matches(read, write, sine=SINE):
        want = torch.zeros(WIDTH, WIDTH)
        for (a, b), (c, d) in zip(read, write):
            want[a, c], want[a, d], want[b, c], want[b, d] = COSINE, sine, -sine, COSINE
        return torch.allclose(image, want, atol=1e-6)

    half, quarter = WIDTH // 2, WIDTH // 4
    halves = [(i, i + half) for i in range(half)]
    twos = [(2 * i, 2 * i + 1) for i in range(half)]
    split = [(i + s, i + s + quarter) for s in (0, half) for i in range(quarter)]
    for name, read, write in (
        ("half_split", halves, halves),
        ("interleaved", twos, twos),
        ("interleaved_to_half", twos, halves),
        ("half_to_interleaved", halves, twos),
        ("half_split_per_axis", split, split),
    ):
        if matches(read, write):
            return name
        if matches(read, write, -SINE):
            return name + "_backwards"
    return None


def probe_rotate(function):
    """rotate_half and its like: x·cos + rotate(x)·sin."""
    with torch.device("cpu"):
        rows = torch.eye(WIDTH)
        return classify(COSINE * rows + SINE * function(rows).reshape(WIDTH, WIDTH))


_known = {}


def probe(function):
    if function in _known:
        return _known[function]
    found = None
    with torch.device("cpu"), torch.no_grad():
        rows = torch.eye(WIDTH)
        try:
            if len(inspect.signature(function).parameters) == 1:
                found = probe_rotate(function)
        except Exception:
            pass
        for attempt in attempts(function, rows) if found is None and len(inspect.signature(function).parameters) > 1 else ():
            try:
                image = attempt()
                while isinstance(image, (tuple, list)):
                    image = image[0]
                found = classify(image.reshape(WIDTH, WIDTH).float())
            except Exception:
                continue
            if found:
                break
    _known[function] = found
    return found


def chosen(functions, config):
    """Where a class holds two functions and its configuration picks one."""
    functions = {n: f for n, f in functions.items() if n not in ("rotate_half", "rotate_every_two")} or functions
    interleave = getattr(config, "rope_interleave", None)
    twins = [name for name in functions if "interleave" in name]
    if twins and len(functions) > 1 and interleave is not None:
        functions = {n: f for n, f in functions.items() if ("interleave" in n) == bool(interleave)}
    return functions


def found_in(cls, config):
    """What the layers of a class do. The indexers of sparse attention choose keys by turned vectors of their own."""
    if "Indexer" in cls.__name__:
        return set()
    functions = functions_of(cls)
    found = {(cls.__name__, name, probe(function)) for name, function in chosen(functions, config).items()}
    if reads_flag(cls):
        other = types.SimpleNamespace(rope_interleave=not config.rope_interleave)
        found |= {(cls.__name__, f"{name}, rope_interleave {str(other.rope_interleave).lower()}", probe(function))
                  for name, function in chosen(functions, other).items()}
    return found


def reads_flag(cls):
    methods = [m for base in cls.__mro__ for m in vars(base).values() if inspect.isfunction(m)]
    return any("rope_interleave" in names_in(inspect.unwrap(method).__code__) for method in methods)


def loose_rows(config):
    """From the files of a configuration's class, where its model is not built or has no rotating layer by default."""
    rows = []
    for path, part in build.sub_configs(config):
        for home in build.modeling_modules(type(part)):
            for cls in vars(home).values():
                if not inspect.isclass(cls) or not issubclass(cls, torch.nn.Module) or cls.__module__ != home.__name__:
                    continue
                asked = inspect.signature(cls.__init__).parameters.get("config")
                if asked is None or not (asked.annotation is asked.empty and not path or type(part).__name__ in str(asked.annotation)):
                    continue
                rows += [(path, "", each) for each in sorted(found_in(cls, part), key=str)]
    return rows


def rows_of(config):
    try:
        model = build.build(config)
    except Exception:
        model = None
    parts = build.sub_configs(config)
    rows = []
    if model is not None:
        path_of = make.path_finder(model, parts)
        seen = set()
        for name, module in model.named_modules():
            key = (type(module), make.numbers_of.shape_name(name))
            if key in seen:
                continue
            seen.add(key)
            at = getattr(module, "config", config)
            rows += [(path_of(name), name, each) for each in sorted(found_in(type(module), at), key=str)]
    return rows or loose_rows(config), make.text_path(config, parts)


def entries(model_type):
    config = build.CONFIG_MAPPING[model_type](**make.NEEDED.get(model_type, {}))
    rows, text = rows_of(config)
    found = {}
    for path, module, (cls, function, pairing) in rows:
        group, side = make.group_name(path, text, module)
        if cls.startswith("EsmFold2Atom"):
            group = "atom_encoder"  # a dict of its configuration without a class
        key = (group, side, function.partition("rope_interleave ")[2])
        found.setdefault(key, {}).setdefault(pairing or "unknown", set()).add(f"{cls}: {function.partition(',')[0]}")
    return [
        {"group": group, "side": side}
        | ({"rope_interleave": flag == "true"} if flag else {})
        | {"pairings": {p: sorted(by) for p, by in sorted(pairings.items())}}
        for (group, side, flag), pairings in sorted(found.items())
    ]


def correct_cases(cases, rows):
    """Gives the pairing that the layers have to the schedules of cases.jsonl, which are those of the modules."""
    for case in cases:
        for entry in case.get("expect", []):
            if "pairing" not in entry:
                continue
            plain = [row for row in rows.get(case["type"], []) if "rope_interleave" not in row]
            exact = [row for row in plain if (row["group"], row["side"]) == (entry["group"], entry["side"])]
            near = exact or [row for row in plain if row["group"] == entry["group"]]
            found = {pairing for row in near for pairing in row["pairings"]}
            if len(found) == 1 and "unknown" not in found:
                entry["pairing"] = found.pop().removesuffix("_backwards")
    with open(HERE / "cases.jsonl", "w", encoding="utf-8") as out:
        out.writelines(json.dumps(case, separators=(",", ":"), ensure_ascii=False) + "\n" for case in cases)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--types", default="")
    options = parser.parse_args()
    cases = [json.loads(line) for line in (HERE / "cases.jsonl").read_text().splitlines()]
    output = HERE / "pairings.json"
    rows = json.loads(output.read_text())["types"] if options.types and output.exists() else {}
    for case in cases:
        wanted = options.types.split(",") if options.types else [case["type"]]
        if case["type"] not in wanted or "config" not in case:
            continue
        try:
            found = entries(case["type"])
        except Exception as error:
            found = [{"failed": f"{type(error).__name__}: {error}"[:200]}]
        if found:
            rows[case["type"]] = found
    lines = [f"{json.dumps(key)}: {json.dumps(rows[key], separators=(',', ':'))}" for key in sorted(rows)]
    reasons = json.dumps(NOT_PROBED, indent=1)
    default = json.dumps(NOT_BY_DEFAULT, indent=1)
    output.write_text('{"types": {\n' + ",\n".join(lines) + '\n},\n"not_probed": ' + reasons + ',\n"not_by_default": ' + default + "}\n")
    correct_cases(cases, rows)



if __name__ == "__main__":
    main()
