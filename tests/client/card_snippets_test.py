"""The three programs of every card make the same numbers.

    card_snippets_test.py PHASOR ROOT

For every scheme: the PyTorch program is the one that tests/golden/cards/SCHEME.json was made from, and the shell program, run here,
makes that file's numbers. Where this Python has torch, the PyTorch programs are run as well. (The C++ ones are install_cards'.)
"""
import json
import pathlib
import sys
import tempfile

PHASOR, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
GOLDEN = ROOT / "tests/golden/cards"
sys.path.insert(0, str(GOLDEN))
import card_snippets as programs  # noqa: E402

# Both sides compute in f64. Torch's angle is a rounded product, off by up to half a unit in the last place of the angle: 2^-50
# at 15 positions, 2^-44 at 999, where timestep's example ends; the rest is a few units in the last place of numbers below 20.
TOLERANCE = 2e-14
TOLERANCES = {"timestep": 2.0 ** -43}

try:
    import torch
except ImportError as error:
    torch = None
    print(f"PyTorch programs are not run here: {error}")


def problems_of(name, card):
    path = GOLDEN / f"{name}.json"
    if not path.exists():
        return [f"{path} is missing: run make_cards.py"]
    golden = json.loads(path.read_text())
    code = programs.snippet(card, "pytorch")
    if programs.digest(code) != golden["sha256"]:
        return [f"the PyTorch program is not the one that {path.name} was made from: run make_cards.py"]
    sides = []
    try:
        with tempfile.TemporaryDirectory() as folder:
            sides.append(("the shell program", programs.run_phasor(programs.snippet(card, "phasor"), PHASOR, folder)))
        if torch is not None:
            sides.append(("the PyTorch program", programs.run_pytorch(code)))
    except Exception as error:  # noqa: BLE001
        return [f"{type(error).__name__}: {error}"]
    tolerance = TOLERANCES.get(name, TOLERANCE)
    problems = []
    for side, result in sides:
        if sorted(result) != sorted(golden["result"]):
            problems.append(f"{side} makes {sorted(result)}, expected {sorted(golden['result'])}")
            continue
        for array, expected in golden["result"].items():
            off = programs.difference(result[array], expected)
            if not off <= tolerance:
                problems.append(f"{side}: {array} is off by {off}, allowed {tolerance}")
    return problems


def main():
    cards = programs.cards(PHASOR)
    strays = {path.stem for path in GOLDEN.glob("*.json")} - set(cards)
    problems = [f"{name}.json belongs to no scheme" for name in sorted(strays)]
    for name, card in cards.items():
        problems += [f"{name}: {problem}" for problem in problems_of(name, card)]
    print(f"{len(cards)} cards")
    if problems:
        sys.exit("\n".join(problems))


main()
