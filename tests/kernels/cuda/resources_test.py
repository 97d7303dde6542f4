#!/usr/bin/env python3
"""What the compiler makes of the kernels, on every architecture: no spills, no local memory, no stack; 16 bytes a load and store;
no arithmetic that is quick and wrong.

    resources_test.py NVCC SOURCE_TREE HOST_COMPILER                the kernels
    resources_test.py --self-test NVCC SOURCE_TREE HOST_COMPILER    kernels that have all these faults
"""

import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile

FLAGS = ["-std=c++20", "-O3", "--fmad=false", "--expt-relaxed-constexpr", "-diag-suppress=2810", "-Xcompiler", "-ffp-contract=off"]
ARCHITECTURES = (75, 80, 90, 100, 120)
PTX_ARCHITECTURE = 90
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
STACK = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
WIDE_STORE = re.compile(r"\bst\.(?:global\.)?(?:v4\.[bfu]32|v2\.[bfu]64)")
WIDE_LOAD = re.compile(r"\bld\.(?:global\.)?(?:nc\.)?(?:v4\.[bfu]32|v2\.[bfu]64)")
# Approximate functions and flushed denormals are other bits; so is a product that went into a sum which the source does not spell
# (--fmad=false: PTX has only fma.rn, and only where it was asked for).
INEXACT = re.compile(r"^\s*(?:@\S+ )?([a-z0-9.]*\.(?:approx|ftz|full)\b\S*|mad\.(?:rn|f)\S*)", re.MULTILINE)
# Kernels that read tensors 16 bytes at a time; every kernel stores so, but for those whose work is one number or one row.
LOADS_WIDE = ("rotate", "add", "mask")
ONE_NUMBER_A_WORK = ("SquarePartialsBody", "NormsBody")
ONE_ROW_A_WORK = ("KeptKeysBody",)

FAULTY = """
__global__ void Indexes(float* out, const float* in, int n) {
  float local[64];
  for (int i = 0; i < 64; ++i) local[i] = in[i * n];
  for (int i = 0; i < n; ++i) out[i] = local[(i * 7) % 64];
}
__global__ void Narrow(char* out) { out[threadIdx.x] = 1; }
__global__ void Quick(float4* out, float x) { out[threadIdx.x] = make_float4(__sinf(x), __expf(x), 0, 0); }
"""


def of_compiler(name, report):
    """Problems in what `ptxas -v` says, and a line for each kernel and architecture."""
    problems, lines, entry = [], [], None
    for line in report.splitlines():
        if match := ENTRY.search(line):
            entry = match[1], match[2]
        elif (match := STACK.search(line)) and entry:
            if any(int(value) for value in match.groups()):
                problems.append(f"{name}: {entry[0]} on {entry[1]}: {line.strip()}")
        elif "Used" in line and entry:
            lines.append(f"{name:14} {entry[1]:7} {line.strip().split(':')[-1].strip()}")
            entry = None
    for architecture in ARCHITECTURES:
        if not any(f" sm_{architecture} " in line for line in lines):
            problems.append(f"{name}: no kernel found for sm_{architecture}")
    return problems, lines


def of_ptx(name, text):
    """Problems in the PTX of a unit."""
    problems = [f"{name}: {match[1]}" for match in INEXACT.finditer(text)]
    functions = re.split(r"(?=\.visible \.entry )", text)[1:]
    for function in functions:
        entry = function.split("(", 1)[0].split()[-1]
        if not WIDE_STORE.search(function) and not any(body in entry for body in ONE_NUMBER_A_WORK):
            problems.append(f"{name}: {entry}: no store of 16 bytes")
        if (name.startswith(LOADS_WIDE) and not WIDE_LOAD.search(function)
                and not any(body in entry for body in ONE_ROW_A_WORK)):
            problems.append(f"{name}: {entry}: no load of 16 bytes")
    return problems if functions else [*problems, f"{name}: no kernel in its PTX"]


def check(nvcc, tree, source, host):
    with tempfile.TemporaryDirectory() as folder:
        base = [nvcc, "-ccbin", host, *FLAGS, "-I", str(tree)]
        targets = [f"-gencode=arch=compute_{each},code=sm_{each}" for each in ARCHITECTURES]
        ptx = pathlib.Path(folder, "x.ptx")
        for command in ([*base, *targets, "-Xptxas", "-v", "-c", "-o", f"{folder}/x.o", str(source)],
                        [*base, f"-arch=compute_{PTX_ARCHITECTURE}", "-ptx", "-o", str(ptx), str(source)]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                return [f"{source.name}: does not compile\n{done.stderr}"], []
            if command[-4] == "-c":
                report = done.stderr
        problems, lines = of_compiler(source.stem, report)
        return problems + of_ptx(source.stem, ptx.read_text()), lines


def self_test(nvcc, tree, host):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "rotate_faulty.cu")
        source.write_text(FAULTY)
        problems, lines = check(nvcc, tree, source, host)
        source.with_name("empty.cu").write_text("int nothing;\n")
        nothing, _ = check(nvcc, tree, source.with_name("empty.cu"), host)
    print("\n".join([*lines, *problems, *nothing]))
    found = "\n".join(problems)
    for fault in (*(rf"Indexes\w* on sm_{each}: [1-9]\d* bytes stack frame" for each in ARCHITECTURES), r"Indexes\w*: no store",
                  r"Narrow\w*: no store", r"Narrow\w*: no load", r"sin\.approx", r"ex2\.approx"):
        if not re.search(fault, found):
            sys.exit(f"not found: {fault}")
    if len(nothing) != len(ARCHITECTURES) + 1:
        sys.exit("a unit without kernels passes")


def main():
    if sys.argv[1] == "--self-test":
        self_test(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4])
        return
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
