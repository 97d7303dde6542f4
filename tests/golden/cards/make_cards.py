"""Runs the PyTorch program of every card and writes what it made: SCHEME.json beside this file.

    make_cards.py PHASOR        in a Python with torch

Each file has the SHA-256 of the program's text, the version of torch, and the arrays of `result`, f64 in shortest form; the test
(tests/client/card_snippets_test.py) refuses a card whose program is another.
"""
import json
import pathlib
import sys

import torch

from card_snippets import cards, digest, run_pytorch, snippet

HERE = pathlib.Path(__file__).parent


def main():
    made = cards(sys.argv[1])
    for old in HERE.glob("*.json"):
        old.unlink()
    for name, card in made.items():
        code = snippet(card, "pytorch")
        golden = {"scheme": name, "torch": torch.__version__.split("+")[0], "sha256": digest(code), "result": run_pytorch(code)}
        (HERE / f"{name}.json").write_text(json.dumps(golden) + "\n")
    print(f"{len(made)} cards")


main()
