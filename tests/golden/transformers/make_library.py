"""Writes server/resolve/library_readings.cc from readings.json: what transformers 5 makes of the keys of older files, class
by class.

    python make_library.py
"""

import json
import pathlib

from make_families import RESOLVE, normalised

HERE = pathlib.Path(__file__).parent
THETA, LINEAR = 77777.0, "linear"
KEYS = {  # edits that give one more key; the base that they set
    "rope_local_base_freq": 555.0, "swa_rope_theta": 555.0, "local_rope_theta": 555.0, "global_rope_theta": 555.0,
    "rotary_emb_base": 555.0, "compress_rope_theta": 555.0,
}


def by_edit(answers):
    out = {}
    for names, rows in answers.items():
        for name in names.split():
            out[name] = rows if isinstance(rows, str) else {row[0]: row for row in rows}
    return out


def base_of(rows, layer_type):
    return rows[layer_type][5] if isinstance(rows, dict) and layer_type in rows else None


def listed(found):
    """A class of one layer type with rope_theta and 10000 needs no list."""
    if found == [("", "rope_theta", 10000)]:
        return ""
    return " ".join(f"{layer_type}={key}:{base:.17g}" for layer_type, key, base in found)


def bases_of(edits):
    """The key that gives the base of every layer type, and its default; without a dict, and with one for all."""
    plain, with_dict = [], []
    for layer_type, row in edits["nothing"].items():
        key = "rope_theta" if base_of(edits["theta"], layer_type) == THETA or isinstance(edits["theta"], str) else ""
        for name, value in KEYS.items():
            if not key and base_of(edits.get(name), layer_type) == value:
                key = name
        plain.append((layer_type, key, row[5]))
        moved = base_of(edits["rope_type"], layer_type) == THETA
        default = base_of(edits["dict_only"], layer_type)
        with_dict.append((layer_type, "rope_theta" if moved else key, row[5] if default is None else default))
    if isinstance(edits["rope_type"], str):
        with_dict = plain
    return listed(plain), "" if with_dict == plain else listed(with_dict) or "=rope_theta:10000"


def types_where(rows, holds):
    """"*" for all, else the layer types for which it holds; "!" where the library refuses."""
    if isinstance(rows, str):
        return "!"
    found = [layer_type for layer_type, row in rows.items() if holds(layer_type, row)]
    return "*" if len(found) == len(rows) else " ".join(found)


def widths_differ(edits, one, other):
    """Layer types whose width an edit moves; none where the library refuses either."""
    if isinstance(edits[one], str) or isinstance(edits[other], str):
        return ""
    return types_where(edits[one], lambda at, row: row[1] != edits[other][at][1])


def counts_in_dict(edits):
    """Of a dict for all layer types, else of one for each: the class's own shares differ from that of the edit, or it counts."""
    if not isinstance(edits["flat_partial"], str) and list(edits["nothing"]) == [""]:
        return widths_differ(edits, "flat_partial", "flat")
    own = edits["own_partial"]
    if isinstance(own, str):
        return ""
    return types_where(own, lambda at, row: row[1] != edits["nothing"][at][1])


def row_of(name, answers):
    edits = by_edit(answers)
    if isinstance(edits["nothing"], str):
        return None
    if any(row[5] is None for row in edits["nothing"].values()):  # a class without these keys
        return {"bases": '"=:10000"', "scaled": '""', "partial_scaled": '""', "flat": "Flat::kNotRead"}
    fields = {}
    bases, dict_bases = bases_of(edits)
    if bases:
        fields["bases"] = f'"{bases}"'
    if dict_bases:
        fields["dict_bases"] = f'"{dict_bases}"'
    scaled = types_where(edits["rope_type"], lambda _, row: row[6] == LINEAR)
    if scaled != "*":
        fields["scaled"] = f'"{scaled}"'
    plain = {at: row for at, row in edits["theta"].items() if row[6] == "default"} if isinstance(edits["theta"], dict) else {}
    default_type = bool(plain) and len(plain) == len(edits["theta"])
    moved = [at for at, row in plain.items() if not isinstance(edits["partial"], str) and row[1] != edits["partial"][at][1]]
    if moved:
        fields["partial"] = '"*"' if len(moved) == len(edits["theta"]) else f'"{" ".join(moved)}"'
    if scaled not in ("!", "") and (partial := widths_differ(edits, "partial_linear", "rope_type")) != "*":
        fields["partial_scaled"] = f'"{partial}"'
    if partial := counts_in_dict(edits):
        fields["partial_in_dict"] = f'"{partial}"'
    flat = edits["flat"]
    if isinstance(flat, dict) and isinstance(edits["theta"], dict) and len(flat) == 1:
        if all(row[1] > edits["theta"][at][1] for at, row in flat.items()) and default_type:
            fields["whole_with_dict"] = "true"
    linear = edits["flat_linear"]
    reads = isinstance(linear, dict) and any(row[6] == LINEAR for row in linear.values())
    if isinstance(flat, dict) and all(row[5] != THETA for row in flat.values()) and reads:
        fields["dict_theta"] = "false"
    if scaled != "!" and types_where(edits["type"], lambda _, row: row[6] == LINEAR) != scaled:
        fields["old_type"] = "false"
    if isinstance(flat, str):
        fields["flat"] = "Flat::kRefused"
    elif all(row[5] != THETA for row in flat.values()) and not reads:
        fields["flat"] = "Flat::kNotRead"
    if isinstance(edits["null"], str):
        fields["null_dict"] = "false"
    return fields


def main():
    classes = json.loads((HERE / "readings.json").read_text())["classes"]
    rows, plain = {}, []
    for name, answers in classes.items():
        fields = row_of(name, answers)
        if fields is None:
            continue
        if fields:
            rows[normalised(name)] = fields
        else:
            plain.append(normalised(name))
    plain = sorted(set(plain) - set(rows))
    lines = [f'    {{.model_type = "{name}", ' + ", ".join(f".{k} = {v}" for k, v in fields.items()) + "},"
             for name, fields in sorted(rows.items())]
    names = "\n".join(f'    "{name}",' for name in plain)
    (RESOLVE / "library_readings.cc").write_text(
        "// What transformers 5.24.0 makes of the keys of older files. Generated by tests/golden/transformers/make_library.py;\n"
        "// change that, not this.\n"
        '#include "server/resolve/library_readings.h"\n\n#include <algorithm>\n#include <iterator>\n\n'
        "namespace phasor::server {\nnamespace {\n\nusing Flat = LibraryReading::Flat;\n\n// clang-format off\n"
        "constexpr LibraryReading kReadings[] = {\n" + "\n".join(lines) + "\n};\n\n"
        "// Classes that read every key as LLaMA's does.\n"
        f"constexpr std::string_view kPlain[] = {{\n{names}\n}};\n// clang-format on\n\n"
        "constexpr LibraryReading kLikeLlama;\n\n}  // namespace\n\n"
        "const LibraryReading* FindLibraryReading(std::string_view model_type) {\n"
        "  const auto* found = std::find_if(std::begin(kReadings), std::end(kReadings),\n"
        "                                   [&](const LibraryReading& each) { return each.model_type == model_type; });\n"
        "  if (found != std::end(kReadings)) return found;\n"
        "  const bool plain = std::find(std::begin(kPlain), std::end(kPlain), model_type) != std::end(kPlain);\n"
        "  return plain ? &kLikeLlama : nullptr;\n}\n\n}  // namespace phasor::server\n"
    )


if __name__ == "__main__":
    main()
