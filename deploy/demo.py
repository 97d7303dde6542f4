#!/usr/bin/env python3
"""The main job on real models: starts phasord, resolves configurations, precomputes tables, rotates q and k, checks samples.

Every number that is checked is compared with exact rational arithmetic on the golden files of tests/golden/models, never with
the program's own output. Exit code 0 only if every check held. Needs the standard library only.
"""

import json
import math
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from fractions import Fraction

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = ROOT / "build" / "bin"
MODELS = ROOT / "tests" / "golden" / "models"
POSITIONS = 131072
TOKENS = 4096

# golden file, layer type, query heads, key heads, head width
ROPE_MODELS = [
    ("llama-3-1-8b", None, 32, 8, 128),
    ("qwen2-5-7b-instruct-yarn", None, 28, 4, 128),
    ("gpt-oss-20b", "full_attention", 64, 8, 64),
]
ALIBI_MODEL = "bloom"

failures = 0
checks = 0


def say(text=""):
    print(text, flush=True)


def check(held, what):
    global failures, checks
    checks += 1
    if not held:
        failures += 1
    say(f"  {'ok    ' if held else 'FAILED'}  {what}")


def round_to(value, precision, smallest):
    """The binary floating-point number of `precision` bits nearest to a Fraction, ties to even; `smallest`: exponent of the
    least denormal."""
    if value == 0:
        return Fraction(0)
    magnitude = abs(value)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - precision + 1, smallest)
    return round(value / unit) * unit  # round() of a Fraction is to even


def to_f32(value):
    return round_to(value, 24, -149)


def to_bf16(value):
    return round_to(value, 8, -133)


class Arrays:
    """A .safetensors file, element by element."""

    def __init__(self, path):
        self.file = open(path, "rb")
        (length,) = struct.unpack("<Q", self.file.read(8))
        self.entries = json.loads(self.file.read(length))
        self.start = 8 + length

    def value(self, name, *index):
        entry = self.entries[name]
        offset = 0
        for i, extent in zip(index, entry["shape"]):
            offset = offset * extent + i
        size = {"F32": 4, "BF16": 2, "F64": 8}[entry["dtype"]]
        self.file.seek(self.start + entry["data_offsets"][0] + offset * size)
        raw = self.file.read(size)
        if entry["dtype"] == "BF16":
            return Fraction(struct.unpack("<f", b"\0\0" + raw)[0])
        return Fraction(struct.unpack({4: "<f", 8: "<d"}[size], raw)[0])

    def shape(self, name):
        return self.entries[name]["shape"]


def write_bf16(path, arrays, seed):
    """Random bf16 tensors with magnitudes between 2^-3 and 2^1."""
    generator = random.Random(seed)
    header, offset, blobs = {}, 0, []
    upper = bytes((b & 0x80) | 0x3E | (b & 0x01) for b in range(256))
    for name, shape in arrays.items():
        count = 1
        for extent in shape:
            count *= extent
        blob = bytearray(2 * count)
        blob[0::2] = generator.randbytes(count)
        blob[1::2] = generator.randbytes(count).translate(upper)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [offset, offset + 2 * count]}
        offset += 2 * count
        blobs.append(blob)
    text = json.dumps(header).encode()
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for blob in blobs:
            out.write(blob)


class Server:
    """phasord on a free loopback port, with its metrics on another."""

    def __init__(self, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            metrics_port = probe.getsockname()[1]
        self.metrics_url = f"http://127.0.0.1:{metrics_port}/metrics"
        self.log = open(folder / "phasord.log", "w+")
        self.process = subprocess.Popen(
            [BIN / "phasord", "--listen=127.0.0.1:0", f"--metrics-listen=127.0.0.1:{metrics_port}", "--backend=cpu", "--drain-delay=0"],
            stdout=subprocess.PIPE, stderr=self.log, text=True)
        # A server that never gets ready must not hang the demo.
        watchdog = threading.Timer(60, self.process.kill)
        watchdog.start()
        line = self.process.stdout.readline()
        watchdog.cancel()
        found = re.match(r"listening on (\S+)", line)
        if not found:
            self.log.seek(0)
            raise SystemExit(f"phasord did not start:\n{self.log.read()}")
        self.address = found[1]

    def metrics(self):
        with urllib.request.urlopen(self.metrics_url, timeout=10) as answer:
            return answer.read().decode().splitlines()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return self.process.wait()


class Tool:
    def __init__(self, server):
        self.server = server

    def run(self, *arguments, json_output=False):
        command = [str(BIN / "phasor"), "--server", self.server.address, "--progress", "auto" if sys.stderr.isatty() else "always"]
        if json_output:
            command.append("--json")
        command += [str(a) for a in arguments]
        result = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=300)
        if result.returncode != 0:
            raise SystemExit(f"{' '.join(command)}: exit code {result.returncode}")
        return json.loads(result.stdout) if json_output else result.stdout


def golden(name):
    return json.loads((MODELS / f"{name}.json").read_text())


def expectation(model, layer_type):
    return next(e for e in model["expect"] if layer_type is None or e["layer_type"] == layer_type)


def show_stages(report):
    stages = "  ".join(f"{s} {report[s + '_ns'] / 1e6:.2f} ms" for s in ("decode", "queue", "build", "copy"))
    say(f"  {report['what']}: {report['payload_bytes'] / 2**20:.1f} MiB in {report['seconds'] * 1e3:.0f} ms, {report['calls']} calls, "
        f"cache {report['cache']}, backend {report['backend']}")
    say(f"  server stages: {stages}")
    for warning in report["warnings"]:
        say(f"  warning: {warning}")


def check_resolved(tool, config, layer_type, expect):
    model = tool.run("resolve", config, json_output=True)
    layer = next(l for l in model["layers"] if layer_type is None or l["layer_type"] == layer_type)
    worst = max(abs(Fraction(got) / Fraction(want) - 1) for got, want in zip(layer["inv_freq"], expect["inv_freq"]) if Fraction(want))
    check(len(layer["inv_freq"]) == len(expect["inv_freq"]) and worst < Fraction(1, 10**14),
          f"{len(layer['inv_freq'])} frequencies within 1e-14 of the golden ones (worst {float(worst):.1e})")
    factor = Fraction(expect["attention_factor_exact"])
    check(abs(Fraction(layer["attention_factor"]) / factor - 1) < Fraction(1, 10**14), f"attention factor {layer['attention_factor']}")


def check_table(path, expect):
    table, wrong, count = Arrays(path), 0, 0
    factor = Fraction(expect["attention_factor_exact"])
    for sample in expect["samples"]:
        if sample["position"] >= POSITIONS:
            continue
        for name in ("cos", "sin"):
            count += 1
            wrong += table.value(name, sample["position"], sample["pair"]) != to_f32(factor * Fraction(sample[name]))
    check(table.shape("cos") == [POSITIONS, len(expect["inv_freq"])], f"shape {table.shape('cos')}")
    check(count > 0 and wrong == 0, f"{count} samples of cos and sin are the correctly rounded f32 values")


def check_rotation(table_path, input_path, output_path, width, seed):
    """y_a = fma(x_a, c, -(x_b·s)), y_b = fma(x_b, c, x_a·s) in f32, then one rounding to bf16 — on samples, in exact rationals."""
    table, before, after = Arrays(table_path), Arrays(input_path), Arrays(output_path)
    generator, wrong, count = random.Random(seed), 0, 0
    for name in ("q", "k"):
        heads = before.shape(name)[2]
        for _ in range(300):
            token, head, pair = generator.randrange(TOKENS), generator.randrange(heads), generator.randrange(width // 2)
            c, s = table.value("cos", token, pair), table.value("sin", token, pair)
            a, b = before.value(name, 0, token, head, pair), before.value(name, 0, token, head, pair + width // 2)
            want_a, want_b = to_bf16(to_f32(a * c - to_f32(b * s))), to_bf16(to_f32(b * c + to_f32(a * s)))
            count += 2
            wrong += after.value(name, 0, token, head, pair) != want_a
            wrong += after.value(name, 0, token, head, pair + width // 2) != want_b
    check(wrong == 0, f"{count} rotated values of q and k are the exact bf16 results")


def demonstrate_rope(tool, folder, name, layer_type, q_heads, k_heads, width):
    say(f"\n== {name}{', ' + layer_type if layer_type else ''}")
    model = golden(name)
    config = folder / f"{name}.config.json"
    config.write_text(json.dumps(model["config"]))
    choose = ["--layer-type", layer_type] if layer_type else []
    say(tool.run("resolve", config, *choose).rstrip())
    expect = expectation(model, layer_type)
    check_resolved(tool, config, layer_type, expect)

    table = folder / f"{name}.table.safetensors"
    report = tool.run("table", config, *choose, "--positions", f"0:{POSITIONS}", "-o", table, json_output=True)
    show_stages(report)
    check_table(table, expect)
    again = tool.run("table", config, *choose, "--positions", f"0:{POSITIONS}", "-o", folder / "again.safetensors", json_output=True)
    check(set(again["cache"]) == {"hit"}, f"asked again: every answer came from the cache, {again['seconds'] * 1e3:.0f} ms")
    check(again["fingerprint"] == report["fingerprint"], f"the same fingerprint {report['fingerprint'][:16]}…")

    inputs, outputs = folder / "qk.safetensors", folder / "rotated.safetensors"
    write_bf16(inputs, {"q": [1, TOKENS, q_heads, width], "k": [1, TOKENS, k_heads, width]}, seed=7)
    report = tool.run("apply", config, *choose, "--input", inputs, "-o", outputs, json_output=True)
    show_stages(report)
    check_rotation(table, inputs, outputs, width, seed=11)


def demonstrate_alibi(tool, folder):
    say(f"\n== {ALIBI_MODEL}")
    model = golden(ALIBI_MODEL)
    expect = model["expect"][0]
    config = folder / f"{ALIBI_MODEL}.config.json"
    config.write_text(json.dumps(model["config"]))
    say(tool.run("resolve", config).rstrip())
    layer = tool.run("resolve", config, json_output=True)["layers"][0]
    check(layer["slopes"] == [float(s) for s in expect["slopes"]], f"{len(expect['slopes'])} slopes are the golden ones to the last bit")
    queries, keys, heads = 1024, 2048, 8
    path = folder / "bias.safetensors"
    command = ["bias", config, "--queries", queries, "--keys", keys, "--heads", f"0:{heads}", "--form", "full", "-o", path]
    show_stages(tool.run(*command, json_output=True))
    bias, generator, wrong = Arrays(path), random.Random(3), 0
    for _ in range(500):
        head, query, key = generator.randrange(heads), generator.randrange(queries), generator.randrange(keys)
        distance = key - (keys - queries + query)
        wrong += bias.value("bias", head, query, key) != to_f32(Fraction(expect["slopes"][head]) * distance)
    check(wrong == 0, "500 values of the bias are the correctly rounded f32 values")
    again = tool.run(*command, json_output=True)
    check(set(again["cache"]) == {"hit"}, "asked again: the distance vectors came from the cache")


def write_with_rounded_positions(path, start, rows, pairs):
    """cos beside sin of plain RoPE, f32, with positions that went through bfloat16 on the way: a real and silent bug."""
    values = []
    for position in range(start, start + rows):
        spoilt = float(round_to(Fraction(position), 8, -133))
        angles = [spoilt * 10000.0 ** (-pair / pairs) for pair in range(pairs)]
        values += [math.cos(angle) for angle in angles] + [math.sin(angle) for angle in angles]
    header = json.dumps({"table": {"dtype": "F32", "shape": [rows, 2 * pairs], "data_offsets": [0, 4 * len(values)]}}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + struct.pack(f"<{len(values)}f", *values))


def demonstrate_knowledge(tool, folder):
    say("\n== what an unknown table is")
    config = folder / "llama-3-1-8b.config.json"
    unknown = folder / "unknown.npz"
    tool.run("table", config, "--positions", "1000:1256", "-o", unknown)
    say(tool.run("diagnose", unknown).rstrip())
    found = tool.run("diagnose", unknown, json_output=True)
    best = found["hypotheses"][0]
    check(best["reproduces"] and int(best["first_position"]) == 1000 and not found["faults"],
          f"recognised: {best['scheme']} from position {best['first_position']}, nothing wrong in it")
    spoilt = folder / "spoilt.safetensors"
    write_with_rounded_positions(spoilt, 20000, 256, 64)
    faults = [fault["name"] for fault in tool.run("diagnose", spoilt, json_output=True)["faults"]]
    check("positions_in_bf16" in faults, f"a table whose positions went through bf16: {', '.join(faults)}")
    plain = folder / "plain.config.json"
    plain.write_text(json.dumps({k: v for k, v in json.loads(config.read_text()).items() if k != "rope_scaling"}))
    apart = tool.run("compare", config, plain, json_output=True)
    say(f"  {apart['verdict']}")
    check(not apart["same_bits"] and apart["max_difference"] > 1, "without its rope_scaling the model's table is another one")


def show_server(tool, server):
    say("\n== the server")
    say("\n".join(tool.run("info").split("\n\n")[0].splitlines()))
    say(tool.run("tables").rstrip())
    wanted = re.compile(r"phasor_(table_cache_(hits|misses|evictions|coalesced)_total|table_cache_bytes|requests_total|memory_pool_bytes|"
                        r"inflight_requests|inflight_bytes|table_build_duration_seconds_(count|sum))|process_resident_memory_bytes")
    lines = [l for l in server.metrics() if wanted.match(l) and not l.endswith(" 0")]
    say("\n".join(lines))
    hits = sum(float(l.split()[-1]) for l in lines if l.startswith("phasor_table_cache_hits_total"))
    check(hits > 0, f"the cache answered {hits:.0f} tile look-ups")


def main():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="phasor-demo-"))
    start = time.monotonic()
    server = None
    try:
        server = Server(folder)
        say(f"phasord listens on {server.address}")
        tool = Tool(server)
        for entry in ROPE_MODELS:
            demonstrate_rope(tool, folder, *entry)
        demonstrate_alibi(tool, folder)
        demonstrate_knowledge(tool, folder)
        show_server(tool, server)
        code = server.stop()
        check(code == 0, f"phasord stopped with exit code {code}")
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    say(f"\n{checks - failures} of {checks} checks held, {time.monotonic() - start:.0f} s")
    return 0 if failures == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
