#!/usr/bin/env python3
"""Phasor beside torch, transformers, numpy, onnxruntime, numba and Arrow Flight, on the same tensors and threads in one run.

Each part runs in a process of its own, once with glibc's usual allocation and once with one that keeps large blocks ("warm"):
the peers' results are fresh memory otherwise, whose pages cost as much as the work. Results are compared before anything is
timed. Prints every contestant and the gates; the exit code is 0 when all that is installed was measured, whether or not gates
hold.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import measure

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
PARTS = ("tables", "rotations", "biases", "wire")
WARM = "glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=4294967296:glibc.malloc.top_pad=67108864"


def arguments(given):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", default=",".join(PARTS), help="some of %(default)s")
    parser.add_argument("--allocations", default="default,warm", help="some of %(default)s")
    parser.add_argument("--threads", type=int, default=1, help="of everybody; the limits are for 1")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--small", action="store_true", help="tiny sizes: a test of this script, no measurement")
    parser.add_argument("--json", default="", help="file for the gates, as build/bench.json")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build", help="build folder")
    parser.add_argument("--child", nargs=3, metavar=("PART", "ALLOCATION", "FILE"), help=argparse.SUPPRESS)
    chosen = parser.parse_args(given)
    for name, allowed in (("parts", PARTS), ("allocations", ("default", "warm"))):
        values = getattr(chosen, name).split(",")
        if unknown := [value for value in values if value not in allowed]:
            parser.error(f"--{name}: there is no {unknown[0]}, but {', '.join(allowed)}")
        setattr(chosen, name, values)
    if chosen.threads < 1 or chosen.rounds < 1:
        parser.error("--threads and --rounds are at least 1")
    return chosen


def environment(chosen, allocation):
    """Of a part: equal threads for everybody, nothing from a hub, and the allocation."""
    # Some machines set these for old OpenBLAS; they slow a current one.
    kept = {key: value for key, value in os.environ.items() if not key.startswith("OPENBLAS_") and key != "GLIBC_TUNABLES"}
    threads = str(chosen.threads)
    kept.update(OMP_NUM_THREADS=threads, MKL_NUM_THREADS=threads, NUMBA_NUM_THREADS=threads, HF_HUB_OFFLINE="1",
                TRANSFORMERS_VERBOSITY="error", TOKENIZERS_PARALLELISM="false", GRPC_VERBOSITY="ERROR", PYTHONDONTWRITEBYTECODE="1",
                TORCHINDUCTOR_CACHE_DIR=str(chosen.build / "bench-peers-inductor"))
    if allocation == "warm":
        kept["GLIBC_TUNABLES"] = WARM
    return kept


def child(chosen):
    """Measures one part and writes its results."""
    from setting import Setting  # needs numpy, which the parent does not
    part, allocation, file = chosen.child
    setting = Setting(chosen.build / "tests" / "libphasor_peer_kernels.so", chosen.threads, allocation, chosen.small)

    def run(case):
        return case.run(chosen.rounds, 0 if chosen.small else 0.01, repeat=not chosen.small)

    if part == "wire":
        import wire
        results = [wire.measured(setting, str(chosen.build / "bin" / "phasord"), chosen.build / "generated" / "phasor.protoset", run)]
    else:
        module = __import__(part)
        results = [run(case) for case in module.cases(setting)]
    pathlib.Path(file).write_text(json.dumps({"description": setting.kernels.description(), "cases": results}), encoding="utf-8")


def run_part(chosen, part, allocation, folder):
    file = pathlib.Path(folder) / f"{part}-{allocation}.json"
    command = [sys.executable, str(HERE / "peers.py"), "--child", part, allocation, str(file), f"--threads={chosen.threads}",
               f"--rounds={chosen.rounds}", f"--build={chosen.build}", *(["--small"] if chosen.small else [])]
    ended = subprocess.run(command, env=environment(chosen, allocation), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if ended.returncode != 0 or not file.is_file():
        return None, f"{part}, {allocation}: exit code {ended.returncode}: {ended.stderr.strip()[-1500:]}"
    return json.loads(file.read_text(encoding="utf-8")), None


def versions():
    from importlib import metadata
    told = []
    for package in ("torch", "transformers", "numpy", "onnxruntime", "numba", "pyarrow", "grpcio"):
        try:
            told.append(f"{package} {metadata.version(package)}")
        except metadata.PackageNotFoundError:
            told.append(f"{package} not installed ({measure.not_installed(package) or 'no reason was noted'})")
    return ", ".join(told)


def main(given):
    chosen = arguments(given)
    if chosen.child:
        child(chosen)
        return 0
    started = time.monotonic()
    print(f"{versions()}\nPython {sys.version.split()[0]}, threads of each {chosen.threads}, medians of {chosen.rounds} rounds, "
          f"load {os.getloadavg()[0]:.1f}", flush=True)
    gates, failures, described = [], [], False
    with tempfile.TemporaryDirectory(prefix="bench-peers-") as folder:
        for part in chosen.parts:
            for allocation in chosen.allocations:
                result, failure = run_part(chosen, part, allocation, folder)
                if failure:
                    failures.append(failure)
                    print(f"FAILED {failure}", flush=True)
                    continue
                if not described:
                    described = True
                    print(f"Phasor on {result['description']}")
                setting = f"{allocation} allocation, {chosen.threads} thread" + ("s" if chosen.threads > 1 else "")
                for case in result["cases"]:
                    print("\n" + measure.format_case(case, setting), flush=True)
                    gates += [(gate, setting if chosen.threads > 1 else allocation) for gate in case["gates"]]
                    failures += case["failures"]
    print(f"\n{measure.format_gates(gates)}\n({time.monotonic() - started:.0f} s, load {os.getloadavg()[0]:.1f})")
    if chosen.json:
        measure.write_json(gates, chosen.json)
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
