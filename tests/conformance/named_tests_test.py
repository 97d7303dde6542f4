"""Every test that index.json names must exist: `named_tests_test.py index.json FOLDER-OF-TEST-BINARIES`."""
import functools
import json
import pathlib
import subprocess
import sys


@functools.cache
def tests_of(binary):
    listing = subprocess.run([binary, "--gtest_list_tests"], capture_output=True, text=True, check=True).stdout
    names, suite = set(), ""
    for line in listing.splitlines():
        name = line.split("#")[0].strip()
        if line.startswith("  "):
            names.add(suite + name)
        elif name.endswith("."):
            suite = name
    return names


def problems(index, folder):
    """Lines to print; nothing when all is well."""
    if sorted(bug["number"] for bug in index["public_bugs"]) != list(range(1, 16)):
        yield "the public bugs are numbered 1 to 15, each once"
    rows = [(f"scheme {r['scheme']}", r) for r in index["schemes"]] + [(f"bug {r['number']}", r) for r in index["public_bugs"]]
    rows += [(r["row"], r) for r in index["traps"]]
    for name, row in rows:
        if not row["tests"]:
            yield f"{name}: no test"
        for test in row["tests"]:
            binary, _, wanted = test.partition(": ")
            path = folder / binary
            if not path.exists():
                yield f"{name}: {binary} is not built"
            elif wanted not in tests_of(path):
                yield f"{name}: {binary} has no test {wanted}"


def main():
    index = json.loads(pathlib.Path(sys.argv[1]).read_text())
    found = list(problems(index, pathlib.Path(sys.argv[2])))
    # The check itself must be able to fail.
    broken = {**index, "traps": [{"row": "x", "trap": "", "tests": ["gotchas_test: No.Such"]}]}
    if not any("No.Such" in line for line in problems(broken, pathlib.Path(sys.argv[2]))):
        found.append("a name that does not exist was not noticed")
    print("\n".join(found) or f"{sum(len(index[k]) for k in index)} rows, every named test exists")
    return 1 if found else 0


sys.exit(main())
