#!/usr/bin/env python3
"""What the compiler makes of the kernels: no spills, no local memory, no stack; 16 bytes a load and store.

    resources_test.py NVCC SOURCE_TREE HOST_COMPILER
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++20", "-O3", "--fmad=false", "--expt-relaxed-constexpr", "-diag-suppress=2810",
         "-Xcompiler", "-ffp-contract=off", "-gencode", "arch=compute_90,code=sm_90"]
ENTRY = re.compile(r"Compiling entry function '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
WIDE_STORE = re.compile(r"\bst\.(?:global\.)?(?:v4\.[bfu]32|v2\.[bfu]64)")
WIDE_LOAD = re.compile(r"\bld\.(?:global\.)?(?:nc\.)?(?:v4\.[bfu]32|v2\.[bfu]64)")
# Kernels that read tensors 16 bytes at a time; every kernel stores so, but for those whose work is one number or one row.
LOADS_WIDE = ("rotate", "add", "mask")
ONE_NUMBER_A_WORK = ("SquarePartialsBody", "NormsBody")
ONE_ROW_A_WORK = ("KeptKeysBody",)


def check(nvcc, tree, source, host):
    problems, lines = [], []
    with tempfile.TemporaryDirectory() as folder:
        base = [nvcc, "-ccbin", host, *FLAGS, "-I", str(tree)]
        cubin = subprocess.run([*base, "-Xptxas", "-v", "-cubin", "-o", f"{folder}/x.cubin", str(source)],
                               capture_output=True, text=True, check=False)
        ptx = pathlib.Path(folder, "x.ptx")
        made = subprocess.run([nvcc, "-ccbin", host, *FLAGS[:-2], "-arch=compute_90", "-I", str(tree), "-ptx", "-o", str(ptx),
                               str(source)], capture_output=True, text=True, check=False)
        if cubin.returncode or made.returncode:
            return [f"{source.name}: does not compile\n{cubin.stderr}{made.stderr}"], []
        name = None
        for line in cubin.stderr.splitlines():
            if match := ENTRY.search(line):
                name = match[1]
            elif (match := STACK.search(line)) and name:
                if any(int(value) for value in match.groups()):
                    problems.append(f"{source.name}: {name}: {line.strip()}")
            elif "Used" in line and name:
                lines.append(f"{source.stem:14} {line.strip().split(':')[-1].strip()}")
                name = None
        text = ptx.read_text()
        for function in re.split(r"(?=\.visible \.entry )", text)[1:]:
            entry = function.split("(", 1)[0].split()[-1]
            if not WIDE_STORE.search(function) and not any(body in entry for body in ONE_NUMBER_A_WORK):
                problems.append(f"{source.name}: {entry}: no store of 16 bytes")
            if (source.stem.startswith(LOADS_WIDE) and not WIDE_LOAD.search(function)
                    and not any(body in entry for body in ONE_ROW_A_WORK)):
                problems.append(f"{source.name}: {entry}: no load of 16 bytes")
        if not lines:
            problems.append(f"{source.name}: no kernel found")
    return problems, lines


def main():
    nvcc, tree, host = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    sources = sorted(path for path in (tree / "kernels/cuda").glob("*.cu") if path.stem != "cudart_driver")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for problems, lines in pool.map(lambda source: check(nvcc, tree, source, host), sources):
            print("\n".join([*lines, *problems]))
            failed |= bool(problems)
    sys.exit(1 if failed or not sources else 0)


if __name__ == "__main__":
    main()
