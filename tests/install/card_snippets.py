"""Builds the C++ program of every card against the installed library, and compares what each prints with the golden numbers.

    card_snippets.py PHASOR ROOT PREFIX WORK_DIR CMAKE GENERATOR CXX [CXX_FLAGS]

One program is built of all of them, each in a namespace of its own: the installed headers are read once.
"""
import json
import pathlib
import re
import shutil
import subprocess
import sys

PHASOR, ROOT, PREFIX, WORK, CMAKE, GENERATOR, CXX, *FLAGS = sys.argv[1:]
GOLDEN = pathlib.Path(ROOT) / "tests/golden/cards"
sys.path.insert(0, str(GOLDEN))
import card_snippets as programs  # noqa: E402

TOLERANCE = 2e-14
TOLERANCES = {"timestep": 2.0 ** -43}  # as in card_snippets_test.py

BUILD = """cmake_minimum_required(VERSION 3.25)
project(PhasorCards LANGUAGES CXX)
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
find_package(Phasor CONFIG REQUIRED)
add_executable(cards main.cc)
target_link_libraries(cards PRIVATE phasor::kernels)
"""


def run(*command, cwd=None):
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}\nfailed ({done.returncode}):\n{done.stdout[-8000:]}{done.stderr[-8000:]}")
    return done.stdout


def one_program(cards):
    includes, bodies, calls = set(), [], []
    for name, card in cards.items():
        code = programs.snippet(card, "c++")
        includes |= set(re.findall(r"^#include .*$", code, re.M))
        body = re.sub(r"^#include .*\n", "", code, flags=re.M)
        if body.count("int main() {") != 1:
            sys.exit(f"{name}: no main, or several")
        # main ends without a return; another function may not.
        body = body.replace("int main() {", "int Main() {").rstrip().removesuffix("}") + "  return 0;\n}\n"
        bodies.append(f"namespace card_{name} {{\n{body}}}\n")
        calls.append(f'  if (name == "{name}") return card_{name}::Main();\n')
    return ("\n".join(sorted(includes)) + "\n#include <string>\n\n" + "\n".join(bodies) +
            "\nint main(int, char** arguments) {\n  const std::string name = arguments[1];\n" + "".join(calls) + "  return 9;\n}\n")


def main():
    work = pathlib.Path(WORK)
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    cards = programs.cards(PHASOR)
    (work / "main.cc").write_text(one_program(cards))
    (work / "CMakeLists.txt").write_text(BUILD)
    run(CMAKE, "-S", str(work), "-B", str(work / "build"), "-G", GENERATOR, "-DCMAKE_BUILD_TYPE=Debug",
        f"-DCMAKE_CXX_COMPILER={CXX}", f"-DCMAKE_CXX_FLAGS={' '.join(FLAGS)}", f"-DCMAKE_PREFIX_PATH={PREFIX}")
    run(CMAKE, "--build", str(work / "build"))
    problems = []
    for name in cards:
        printed = [float(line) for line in run(str(work / "build/cards"), name).split()]
        expected = [v for array in json.loads((GOLDEN / f"{name}.json").read_text())["result"].values() for v in array["values"]]
        off = programs.difference({"shape": [len(printed)], "values": printed}, {"shape": [len(expected)], "values": expected})
        if not off <= TOLERANCES.get(name, TOLERANCE):
            problems.append(f"{name}: the C++ program prints {len(printed)} of {len(expected)} numbers, off by {off}")
    print(f"{len(cards)} cards")
    if problems:
        sys.exit("\n".join(problems))


main()
