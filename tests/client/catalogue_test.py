"""The catalogue as a whole: nothing in the list of schemes is without what it needs.

    catalogue_test.py PHASOR ROOT [--write]

For every scheme of `phasor schemes`: a card that says something in every part, and its row in README's table; --write rewrites that
table. Every message of specs in the contract has a comment. (That every scheme has conformance cases is angle_conformance_test's.)
"""
import json
import pathlib
import re
import subprocess
import sys

BEGIN, END = "<!-- schemes: written by tests/client/catalogue_test.py --write -->\n", "<!-- end of schemes -->\n"


def tool(phasor, *arguments):
    done = subprocess.run([phasor, "--json", *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        sys.exit(f"phasor {' '.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def row(scheme):
    summary = scheme["summary"].split(". ")[0].rstrip(".")
    length = ", needs the length" if scheme.get("needs_sequence_length") else ""
    return f"| `{scheme['name']}` | {scheme['title']} | {scheme['family']}{length} | {summary} |\n"


def table(schemes):
    return BEGIN + "| scheme | | family | what it does |\n|---|---|---|---|\n" + "".join(map(row, schemes)) + END


def bare_messages(root):
    """Messages of encoding.proto without a comment right above them."""
    text = (root / "proto/phasor/v1/encoding.proto").read_text()
    return set(re.findall(r"^message (\w+)", text, re.M)) - set(re.findall(r"^//[^\n]*\nmessage (\w+)", text, re.M))


def main():
    phasor, root = sys.argv[1], pathlib.Path(sys.argv[2])
    schemes = tool(phasor, "schemes")["schemes"]
    readme = (root / "README.md").read_text()
    start, stop = readme.index(BEGIN), readme.index(END) + len(END)
    if "--write" in sys.argv:
        (root / "README.md").write_text(readme[:start] + table(schemes) + readme[stop:])
        return
    problems = [f"message {name} of encoding.proto has no comment" for name in sorted(bare_messages(root))]
    if readme[start:stop] != table(schemes):
        problems.append("README's table of schemes is not what the list says: run catalogue_test.py --write")
    for scheme in schemes:
        card = tool(phasor, "card", scheme["name"])
        for part in ("formula", "used_by", "pitfalls", "source"):
            if not card.get(part, "").strip():
                problems.append(f"{scheme['name']}: the card's {part} is empty")
    print(f"{len(schemes)} schemes")
    if problems:
        sys.exit("\n".join(problems))


main()
