#!/usr/bin/env python3
"""What the compiler makes of the kernels: 16 bytes a load and store, no arithmetic that is quick and wrong. That nothing spills, is in
local memory or on a stack, on every architecture, is a condition of the build (PHASOR_PTXAS_GATE).

    resources_test.py NVCC SOURCE_TREE HOST_COMPILER                 the kernels
    resources_test.py --self-test NVCC SOURCE_TREE HOST_COMPILER GATE…    kernels that have all these faults, with the build's flags too
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
WIDE_STORE = re.compile(r"\bst\.(?:global\.)?(?:v4\.[bfu]32|v2\.[bfu]64)")
WIDE_LOAD = re.compile(r"\bld\.(?:global\.)?(?:nc\.)?(?:v4\.[bfu]32|v2\.[bfu]64)")
# Approximate functions and flushed denormals are other bits; so is a product that went into a sum which the source does not spell
# (--fmad=false: PTX has only fma.rn, and only where it was asked for).
INEXACT = re.compile(r"^\s*(?:@\S+ )?([a-z0-9.]*\.(?:approx|ftz|full)\b\S*|mad\.(?:rn|f)\S*)", re.MULTILINE)
# Kernels that read tensors 16 bytes at a time; every kernel stores so, but for those whose work is one number or one row.
LOADS_WIDE = ("rotate", "add", "mask")
ONE_NUMBER_A_WORK = ("SquarePartialsBody", "NormsBody")
ONE_ROW_A_WORK = ("KeptKeysBody",)

INDEXES = """
__global__ void Indexes(float* out, const float* in, int n) {
  float local[64];
  for (int i = 0; i < 64; ++i) local[i] = in[i * n];
  for (int i = 0; i < n; ++i) out[i] = local[(i * 7) % 64];
}
"""
FAULTY = """
__global__ void Narrow(char* out) { out[threadIdx.x] = 1; }
__global__ void Quick(float4* out, float x) { out[threadIdx.x] = make_float4(__sinf(x), __expf(x), 0, 0); }
"""


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
    """Problems of a unit."""
    with tempfile.TemporaryDirectory() as folder:
        ptx = pathlib.Path(folder, "x.ptx")
        done = subprocess.run([nvcc, "-ccbin", host, *FLAGS, "-I", str(tree), f"-arch=compute_{PTX_ARCHITECTURE}", "-ptx", "-o", str(ptx),
                               str(source)], capture_output=True, text=True, check=False)
        return of_ptx(source.stem, ptx.read_text()) if done.returncode == 0 else [f"{source.name}: does not compile\n{done.stderr}"]


def builds(nvcc, source, host, architecture, gate):
    """Whether the build would take it."""
    done = subprocess.run([nvcc, "-ccbin", host, *FLAGS, f"-gencode=arch=compute_{architecture},code=sm_{architecture}", *gate, "-c", "-o",
                           f"{source}.o", str(source)], capture_output=True, text=True, check=False)
    return done.returncode == 0


def self_test(nvcc, tree, host, gate):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder, "rotate_faulty.cu")
        source.write_text(FAULTY + INDEXES)
        problems = check(nvcc, tree, source, host)
        for architecture in ARCHITECTURES:
            if builds(nvcc, source, host, architecture, gate):
                sys.exit(f"an array in local memory builds for sm_{architecture}")
        source.write_text(FAULTY)
        if not builds(nvcc, source, host, PTX_ARCHITECTURE, gate):
            sys.exit("what is only narrow does not build")
        source.with_name("empty.cu").write_text("int nothing;\n")
        nothing = check(nvcc, tree, source.with_name("empty.cu"), host)
    print("\n".join([*problems, *nothing]))
    found = "\n".join(problems)
    for fault in (r"Indexes\w*: no store", r"Narrow\w*: no store", r"Narrow\w*: no load", r"sin\.approx", r"ex2\.approx"):
        if not re.search(fault, found):
            sys.exit(f"not found: {fault}")
    if len(nothing) != 1:
        sys.exit("a unit without kernels passes")


def main():
    if sys.argv[1] == "--self-test":
        self_test(sys.argv[2], pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5:])
        return
    nvcc, tree, host = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3]
    sources = sorted(path for path in (tree / "kernels/cuda").glob("*.cu") if path.stem != "cudart_driver")
    failed = False
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for source, problems in zip(sources, pool.map(lambda source: check(nvcc, tree, source, host), sources)):
            print("\n".join([f"{source.stem}: {'wrong' if problems else 'right'}", *problems]))
            failed |= bool(problems)
    sys.exit(1 if failed or not sources else 0)


if __name__ == "__main__":
    main()
