#!/usr/bin/env python3
"""The logic of bench-peers, without anything to compare with: timing, gates, reports, the library. With numpy and grpcio
(`--small`) also the whole script at tiny sizes, where every other peer is missing and must be reported so."""

import array
import ctypes
import importlib.util
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import kernels
import measure
import peers
import protobuf_fields

BUILD = pathlib.Path(os.environ["PEERS_BUILD"])
SCRIPT = pathlib.Path(__file__).with_name("peers.py")


class Clock:
    """Contestants move it by hand."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now

    def taking(self, *seconds):
        remaining = list(seconds)

        def call():
            self.now += remaining.pop(0) if len(remaining) > 1 else remaining[0]
        return call


def right():
    return 0


class Measure(unittest.TestCase):
    def setUp(self):
        self.clock, self.case = Clock(), measure.Case("a job", 1 << 20)

    def run_case(self, rounds=9, **options):
        return self.case.run(rounds, 0, self.clock, **options)

    def test_rounds_turn_around(self):
        order = []
        for name in "abc":
            self.case.add(name, lambda name=name: order.append(name), right, 0)
        self.run_case(rounds=3)
        self.assertEqual("".join(order), "abccbaabc")

    def test_ratios_of_medians(self):
        self.case.add("ours", self.clock.taking(0.9, 0.05, 0.1, 0.1), right, 0)  # one slow round does not count
        self.case.add("theirs", self.clock.taking(0.4), right, 0)
        self.case.faster("A", "ours", "theirs", 3.9)
        self.case.faster("B", "ours", "theirs", 4.1)
        self.case.within("C", "ours", "theirs", 0.26)
        self.case.within("D", "ours", "theirs", 0.24)
        gates = self.run_case(repeat=False)["gates"]
        for gate, ratio, holds in zip(gates, (4, 4, 0.25, 0.25), (True, False, True, False)):
            self.assertAlmostEqual(gate["ratio"], ratio)
            self.assertIs(gate["holds"], holds)
        self.assertAlmostEqual(gates[0]["by_min"], 8)

    def test_what_misses_is_measured_again_and_both_figures_stay(self):
        self.case.add("ours", self.clock.taking(1, 1, 1, 0.1), right, 0)
        self.case.add("theirs", self.clock.taking(0.4), right, 0)
        calls = []
        self.case.add("third", lambda: calls.append(self.clock.taking(1)()), right, 0)
        self.case.faster("A", "ours", "theirs", 3.9)
        self.case.within("B", "third", "theirs", 3)
        result = self.run_case(rounds=3)
        gate, held = result["gates"]
        self.assertTrue(gate["holds"] and held["holds"])
        self.assertEqual((len(calls), held["first"]), (3, None))  # what held is not measured again
        self.assertAlmostEqual(gate["first"], 0.4)
        self.assertAlmostEqual(gate["ratio"], 4)
        self.assertIn("(first run 0.40)", measure.format_gates([(gate, "warm")]))
        self.assertEqual((result["rows"][0]["rounds"], result["rows"][0]["ms"]), (3, 1000))

    def test_wrong_results_are_failures_and_not_timed(self):
        self.case.add("ours", self.clock.taking(1), right, 0)
        for name, difference in (("off", 2e-3), ("not a number", math.nan)):
            self.case.add(name, self.fail, lambda difference=difference: difference, 1e-3)
        self.case.faster("A", "ours", "off", 1)
        result = self.run_case()
        self.assertEqual(len(result["failures"]), 2)
        self.assertIn("off: wrong by 0.002", result["failures"][0])
        self.assertEqual([row["name"] for row in result["rows"]], ["ours"])
        self.assertEqual((result["gates"][0]["missing"], result["gates"][0]["holds"]), ("off", False))

    def test_what_does_not_run(self):
        def broken():
            raise OSError("no compiler")
        self.case.add("must", broken, broken, 0)
        self.case.add("may", broken, broken, 0, optional=True)
        result = self.run_case()
        self.assertRegex(result["failures"][0], r"^must: OSError: no compiler \(peers_test.py:\d+\)$")
        self.assertEqual(result["notes"], ["may does not run here: OSError: no compiler"])

    def test_a_peer_that_is_not_there_is_told(self):
        self.case.peer(self.fail, "no_such_package_of_anybody")
        self.case.peer(lambda case, module: case.add("json", self.clock.taking(1), right, 0), "json")
        self.case.peer(lambda case, module: 1 / 0, "math")
        self.case.add("ours", self.clock.taking(1), right, 0)
        self.case.faster("A", "ours", "theirs", 2)
        result = self.run_case()
        self.assertIn("no_such_package_of_anybody is not there: ModuleNotFoundError", result["notes"][0])
        self.assertEqual(len(result["failures"]), 1)
        self.assertIn("math: ZeroDivisionError", result["failures"][0])
        self.assertIn("not measured: no theirs", measure.format_gates([(result["gates"][0], "warm")]))
        self.assertIn("is not there", measure.format_case(result, "warm"))

    def test_reasons_of_the_installer(self):
        with tempfile.TemporaryDirectory() as folder:
            notes = pathlib.Path(folder) / "not-installed.txt"
            self.assertIsNone(measure.not_installed("numba", notes))
            notes.write_text("numba==0.68.1: ERROR: no wheel for this Python\n")
            self.assertEqual(measure.not_installed("numba", notes), "numba==0.68.1: ERROR: no wheel for this Python")
            self.assertIsNone(measure.not_installed("num", notes))

    def test_json(self):
        gate = {"gate": "G1", "numerator": "ours", "denominator": "theirs", "limit": 2, "at_least": True, "first": 3.0, "by_min": 3.0}
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gates.json"
            measure.write_json([({**gate, "ratio": 3.0, "holds": True, "missing": None}, "warm"),
                                ({**gate, "ratio": None, "holds": False, "missing": "theirs"}, "default")], path)
            rows = json.loads(path.read_text(encoding="utf-8"))
        self.assertEqual(rows[0], {"gate": "G1: ours, times as fast as theirs, warm", "ratio": 3.0, "limit": 2, "at_least": True,
                                   "holds": True})
        self.assertEqual((rows[1]["ratio"], rows[1]["holds"]), (-1, False))


class Fields(unittest.TestCase):
    # 1: varint 300; 2: {3: "ab", 100: "cd"}; 4: fixed32; 2: {100: ""}
    MESSAGE = bytes([8, 0xAC, 2, 18, 9, 26, 2, 97, 98, 0xA2, 6, 2, 99, 100, 37, 1, 2, 3, 4, 18, 3, 0xA2, 6, 0])

    def test_found_in_order_without_copies(self):
        found = protobuf_fields.find(self.MESSAGE, 2, 100)
        self.assertEqual([bytes(value) for value in found], [b"cd", b""])
        self.assertIs(found[0].obj, self.MESSAGE)
        self.assertEqual(protobuf_fields.find(self.MESSAGE, 9), [])

    def test_cut_and_strange_messages(self):
        for message in (self.MESSAGE[:-2], b"\x0a\x05ab", b"\x0b"):
            with self.assertRaises((ValueError, IndexError)):
                protobuf_fields.find(message, 2, 100)


class Library(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kernels = kernels.Kernels(BUILD / "tests" / "libphasor_peer_kernels.so", threads=2)

    def test_table_and_rotation(self):
        rows, pairs = 200, 64
        cos, sin = ((ctypes.c_float * (rows * pairs))() for _ in range(2))
        self.kernels.table(self.kernels.rope(2 * pairs, 10000), rows, cos, sin)
        for row, pair in ((0, 0), (1, 0), (199, 0), (199, 63), (127, 5), (128, 17)):
            angle = row * 10000 ** (-pair / pairs)
            self.assertAlmostEqual(cos[row * pairs + pair], math.cos(angle), delta=6e-8)
            self.assertAlmostEqual(sin[row * pairs + pair], math.sin(angle), delta=6e-8)
        for interleaved in (0, 1):
            x = (ctypes.c_float * (rows * 128))(*([1.0] * rows * 128))
            self.kernels.rotate("f32", interleaved, x, x, cos, sin, (rows, 1, 128))
            second = 1 if interleaved else 64
            self.assertAlmostEqual(x[199 * 128], math.cos(199) - math.sin(199), delta=1e-6)
            self.assertAlmostEqual(x[199 * 128 + second], math.cos(199) + math.sin(199), delta=1e-6)

    def test_biases(self):
        out = (ctypes.c_float * (2 * 5 * 5))()
        self.kernels.bias(self.kernels.alibi(2), 5, out)
        self.assertEqual([out[25 + 4 * 5 + key] for key in range(5)], [-(4 - key) / 256 for key in range(5)])
        table = (ctypes.c_double * 32)(*range(32))
        self.kernels.bias(self.kernels.t5(32, 1, table), 5, out)
        self.assertEqual([out[2 * 5 + key] for key in range(5)], [2, 1, 0, 17, 18])

    def test_refusals_have_a_reason(self):
        with self.assertRaisesRegex(RuntimeError, "head_dim"):
            self.kernels.rope(7, 10000)
        with self.assertRaisesRegex(RuntimeError, "no plan of a bias"):
            self.kernels.bias(self.kernels.rope(8, 10000), 5, (ctypes.c_float * 25)())

    def test_memory_is_touched_and_aligned(self):
        memory = self.kernels.memory(4096)
        self.assertEqual(len(memory), 4096)
        self.assertEqual(kernels.address(memory) % 4096, 0)
        self.kernels.streaming(memory, 4096)
        copied = self.kernels.memory(4096)
        self.kernels.copy(copied, memory, 4096)
        self.assertEqual(array.array("f", bytes(copied)[:8]).tolist(), [1.0, 1.0])


class Script(unittest.TestCase):
    def call(self, *options):
        return subprocess.run([sys.executable, str(SCRIPT), f"--build={BUILD}", *options], capture_output=True, text=True,
                              timeout=100)

    def test_unknown_parts_are_refused(self):
        with self.assertRaises(SystemExit), open(os.devnull, "w", encoding="utf-8") as nowhere:
            self.addCleanup(setattr, sys, "stderr", sys.stderr)
            sys.stderr = nowhere
            peers.arguments(["--parts=tables,chairs"])

    def test_equal_threads_and_allocation(self):
        chosen = peers.arguments(["--threads=3"])
        self.assertEqual(peers.environment(chosen, "default")["NUMBA_NUM_THREADS"], "3")
        self.assertNotIn("GLIBC_TUNABLES", peers.environment(chosen, "default"))
        self.assertIn("mmap_threshold", peers.environment(chosen, "warm")["GLIBC_TUNABLES"])

    def test_a_part_that_breaks_is_a_failure(self):
        ended = self.call("--parts=tables", "--allocations=default", "--small", "--build=/nowhere")
        self.assertEqual(ended.returncode, 1, ended.stdout)
        self.assertIn("failed: tables, default: exit code 1", ended.stderr)


class Small(unittest.TestCase):
    """Everything, with whatever peers this Python has."""

    def test_differences(self):
        import numpy as np
        from setting import difference, from_bf16, to_bf16
        zeros = np.zeros((200, 3), np.float32)
        off, lost = zeros.copy(), zeros.copy()
        off[150, 1], lost[7, 2] = -0.25, np.nan
        self.assertEqual(difference((zeros, zeros), (off, zeros), (zeros, zeros)), 0.25)
        self.assertTrue(math.isnan(difference((lost, zeros), (off, zeros))))
        with self.assertRaises(ValueError):
            difference((zeros, zeros[:, :2]))
        # Ties go to even: 1 + 2^-8 down, 1 + 3·2^-8 up.
        values = np.array([1 + 2 ** -8, 1 + 3 * 2 ** -8, -1.5], np.float32)
        self.assertEqual(from_bf16(to_bf16(values)).tolist(), [1, 1 + 2 ** -6, -1.5])

    def test_all_parts(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "gates.json"
            ended = Script.call(self, "--small", "--rounds=2", f"--json={path}")
            self.assertEqual(ended.returncode, 0, ended.stdout + ended.stderr)
            rows = json.loads(path.read_text(encoding="utf-8"))
        for row in rows:
            self.assertEqual(set(row), {"gate", "ratio", "limit", "at_least", "holds"})
        measured = [row["gate"] for row in rows if row["ratio"] > 0]
        for start in ("G6: phasor exact, times as fast as numpy f32 recipe, default", "G9b: phasor T5, times as fast as numpy",
                      "wire: phasor stream, raw messages, times as fast as phasor unary, raw message, warm"):
            self.assertTrue(any(gate.startswith(start) for gate in measured), start)
        for package in ("torch", "numba"):
            if importlib.util.find_spec(package) is None:
                self.assertIn(f"{package} is not there: ModuleNotFoundError", ended.stdout)


if __name__ == "__main__":
    with_numpy = "--small" in sys.argv
    if not with_numpy:
        del Small
    unittest.main(argv=[argument for argument in sys.argv if argument != "--small"], defaultTest="Small" if with_numpy else None)
