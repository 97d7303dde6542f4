"""The catalogue as a whole: nothing in the list of schemes is without what it needs.

    catalogue_test.py PHASOR ROOT [--write]

For every scheme of `phasor schemes`: a conformance case (`phasor_conformance_names` prints their names), a golden (an entry in
tests/golden/index.json whose files exist and whose sources are named), a message in the contract with a comment, a card that says
something in every part, and its row in README's table. --write rewrites that table.
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
    length = ", needs the length" if scheme.get("needsSequenceLength") else ""
    return f"| `{scheme['name']}` | {scheme['title']} | {scheme['family']}{length} | {summary} |\n"


def table(schemes):
    return BEGIN + "| scheme | | family | what it does |\n|---|---|---|---|\n" + "".join(map(row, schemes)) + END


def commented_messages(root):
    """Names of messages in encoding.proto that have a comment right above them."""
    text = (root / "proto/phasor/v1/encoding.proto").read_text()
    return set(re.findall(r"^//[^\n]*\nmessage (\w+)", text, re.M))


def main():
    phasor, cases, root = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    schemes = tool(phasor, "schemes")["schemes"]
    readme = (root / "README.md").read_text()
    start, stop = readme.index(BEGIN), readme.index(END) + len(END)
    if "--write" in sys.argv:
        (root / "README.md").write_text(readme[:start] + table(schemes) + readme[stop:])
        return
    problems = []
    if readme[start:stop] != table(schemes):
        problems.append("README's table of schemes is not what the list says: run catalogue_test.py --write")
    names = subprocess.run([cases], capture_output=True, text=True, check=True, timeout=120).stdout.split()
    with_case = {name.split("/")[0] for name in names}
    index = json.loads((root / "tests/golden/index.json").read_text())
    messages = commented_messages(root)
    for scheme in schemes:
        name = scheme["name"]
        if name not in with_case:
            problems.append(f"{name}: no conformance case named {name}/…")
        golden = index.get(name)
        if not golden or not golden.get("files") or not golden.get("sources"):
            problems.append(f"{name}: no files and sources in tests/golden/index.json")
        else:
            problems += [f"{name}: {path} does not exist" for path in golden["files"] if not (root / path).exists()]
            if golden.get("message") not in messages:
                problems.append(f"{name}: message {golden.get('message')} of encoding.proto is missing or has no comment")
        card = tool(phasor, "card", name)
        for part in ("formula", "usedBy", "pitfalls", "source"):
            if not card.get(part, "").strip():
                problems.append(f"{name}: the card's {part} is empty")
    problems += [f"tests/golden/index.json: {name} is no scheme" for name in index if name not in {s["name"] for s in schemes}]
    print(f"{len(schemes)} schemes, {len(names)} conformance cases")
    if problems:
        sys.exit("\n".join(problems))


main()
