"""The catalogue as a whole: nothing in the list of schemes is without what it needs.

    catalogue_test.py PHASOR ROOT [--write]

For every scheme of `phasor schemes`: a card that says something in every part, and its row in README's table; --write rewrites that
table. `phasor card --all` writes a page for each, an index and a poster: well-formed, with links that lead somewhere, and nothing
that is loaded from elsewhere. Every message of specs in the contract has a comment. (That every scheme has conformance cases is angle_conformance_test's.)
"""
import html.parser
import json
import pathlib
import re
import subprocess
import sys
import tempfile

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


# Elements that have no end, and attributes by which a page loads something.
VOID = {"meta", "br", "hr", "img", "input", "link", "col", "source", "wbr", "area", "base", "embed", "track", "param"}
LOADING = {"src", "srcset", "href", "xlink:href", "data", "poster", "action", "background", "formaction"}


class Page(html.parser.HTMLParser):
    """Checks nesting, collects links and text."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.open, self.problems, self.links, self.loads, self.tags, self.text = [], [], set(), [], [], []
        self.feed(text)
        self.close()
        if self.open:
            self.problems.append(f"left open: {self.open}")

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        names = [name for name, _ in attributes]
        if len(names) != len(set(names)):
            self.problems.append(f"<{tag}> has an attribute twice")
        for name, value in attributes:
            if name in LOADING:
                (self.links.add if (tag, name) == ("a", "href") else self.loads.append)(value)
            if name.startswith("on") or re.search(r"url\((?!#)", value or ""):
                self.loads.append(f"{name}={value}")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.problems.append(f"</{tag}> closes something else")

    def handle_data(self, data):
        self.text.append(data)
        if self.open and self.open[-1] == "style" and re.search(r"url\((?!#)|@import", data):
            self.loads.append("style: " + data[:40])


def page_problems(phasor, schemes):
    with tempfile.TemporaryDirectory() as folder:
        cards = pathlib.Path(folder) / "a/cards"
        done = subprocess.run([phasor, "--progress", "always", "card", "--all", "-o", str(cards)], capture_output=True, text=True,
                              timeout=120)
        if done.returncode != 0:
            return [f"card --all: {done.stderr}"]
        problems = [] if "cards" in done.stderr and not done.stdout else ["card --all does not tell its progress on standard error"]
        pages = {path.name: Page(path.read_text()) for path in cards.iterdir()}
    names = {scheme["name"] for scheme in schemes}
    expected = {f"{name}.html" for name in names} | {"index.html", "poster.html"}
    if set(pages) != expected:
        problems.append(f"pages {sorted(set(pages) ^ expected)} are missing or too many")
    for name, page in pages.items():
        problems += [f"{name}: {problem}" for problem in page.problems]
        problems += [f"{name}: loads {what}" for what in page.loads if page.tags]
        problems += [f"{name}: the link {link} leads nowhere" for link in sorted(page.links - expected)]
        if {"script", "link", "img", "iframe", "object"} & set(page.tags):
            problems.append(f"{name}: has an element that loads or runs something")
        text = "".join(page.text)
        if name.removesuffix(".html") in names:
            card = tool(phasor, "card", name.removesuffix(".html"))
            parts = [card["latex"], card["formula"], card["extrapolation"], card["used_by"], card["source"]]
            parts += [snippet["code"] for snippet in card["snippets"]] + [value for f in card["failures"] for value in f.values()]
            problems += [f"{name}: lacks {part[:40]!r}" for part in parts if part not in text]
            if "svg" not in page.tags:
                problems.append(f"{name}: has no picture")
    for name in ("index.html", "poster.html"):
        if name in pages and not {f"{scheme}.html" for scheme in names} <= pages[name].links:
            problems.append(f"{name}: does not lead to every card")
    if "poster.html" in pages and pages["poster.html"].tags.count("svg") != len(names):
        problems.append(f"poster.html: {pages['poster.html'].tags.count('svg')} pictures of {len(names)} schemes")
    return problems


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
        for part in ("formula", "used_by", "pitfalls", "source", "latex", "extrapolation", "failures", "related", "costs", "snippets"):
            if not card.get(part, ""):
                problems.append(f"{scheme['name']}: the card's {part} is empty")
    problems += page_problems(phasor, schemes)
    print(f"{len(schemes)} schemes")
    if problems:
        sys.exit("\n".join(problems))


main()
