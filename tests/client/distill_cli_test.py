"""phasor distill at a shell: distill_cli_test.py PHASOR"""

import json
import math
import pathlib
import struct
import subprocess
import sys
import tempfile
import unittest

PHASOR = sys.argv.pop(1)


def run(*arguments, check=0):
    result = subprocess.run([PHASOR, *map(str, arguments)], capture_output=True, timeout=120)
    assert result.returncode == check, f"{arguments}: exit code {result.returncode}, wanted {check}\n{result.stderr.decode()}"
    return result


def write_npy(path, shape, values):
    header = repr({"descr": "<f8", "fortran_order": False, "shape": shape}).encode()
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}d", *values))


def read_npy(path):
    raw = path.read_bytes()
    (length,) = struct.unpack_from("<H", raw, 8)
    return [value for (value,) in struct.iter_unpack("<d", raw[10 + length:])]


class DistillCli(unittest.TestCase):
    ROWS, COLUMNS = 48, 4

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.values = [math.sin(0.1 * m + c) / (1 + c) for m in range(self.ROWS) for c in range(self.COLUMNS)]
        self.table = self.folder / "wpe.npy"
        write_npy(self.table, (self.ROWS, self.COLUMNS), self.values)

    def test_a_table_becomes_files_that_other_commands_take(self):
        prefix = self.folder / "wpe"
        text = run("distill", self.table, "--hidden", 12, "--steps", 60, "--terms", 10, "-o", prefix).stdout.decode()
        for words in ("Perceptron", "Cosine series", "40 in place of 192 numbers", "Beyond that nothing is known", f"{prefix}-series.onnx"):
            self.assertIn(words, text)
        for form in ("perceptron", "series"):
            answers = json.loads(run("--json", "distill", self.table, "--hidden", 12, "--steps", 60, "--terms", 10, "--form", form, "-o",
                                     self.folder / form).stdout)
            self.assertEqual(len(answers), 1)
            self.assertEqual(answers[0]["onnx"], "")
            # The same request, the same files.
            for ending in ("safetensors", "onnx", "json"):
                self.assertEqual((self.folder / f"{form}.{ending}").read_bytes(), (self.folder / f"wpe-{form}.{ending}").read_bytes())
            # The spec makes a table that is off by what was said.
            run("table", self.folder / f"{form}.json", "--positions", f"0:{self.ROWS}", "--dtype", "f64", "-o", self.folder / "rows.npy")
            rows = read_npy(self.folder / "rows.npy")
            self.assertEqual(max(abs(a - b) for a, b in zip(rows, self.values, strict=True)), answers[0]["max_error"])
            self.assertGreater(answers[0]["max_error"], 0)

    def test_a_closed_form_is_better_and_that_is_said(self):
        (answer,) = json.loads(run("--json", "distill", "rope_default", "head_dim=16", "--form", "series", "--count", 64, "--terms", 16).stdout)
        self.assertTrue(answer["closed_form_is_better"])
        self.assertIn("closed form (rope_default) of 8 numbers", answer["verdict"])
        self.assertGreater(answer["max_error_beyond"], answer["max_error"])
        self.assertTrue(answer["onnx"] and answer["safetensors"] and answer["spec"]["weights"])

    def test_a_bias_comes_as_a_bias_too(self):
        run("distill", "alibi", "num_heads=2", "--form", "perceptron", "--count", 32, "--hidden", 6, "--steps", 20, "-o", self.folder / "b")
        spec = json.loads((self.folder / "b.bias.json").read_text())
        self.assertIn("dynamic_position_bias", spec)

    def test_progress_goes_to_standard_error(self):
        result = run("--progress", "always", "distill", self.table, "--form", "perceptron", "--hidden", 256, "--steps", 600)
        self.assertIn("distill", result.stderr.decode())
        self.assertNotIn("step 1 of", result.stdout.decode())

    def test_refusals_name_the_field(self):
        self.assertIn("terms", run("distill", self.table, "--terms", 49, check=1).stderr.decode())
        self.assertIn("hidden", run("distill", self.table, "--hidden", 513, check=1).stderr.decode())
        self.assertIn("source.spec", run("distill", "transformer_xl", "dim=8", check=1).stderr.decode())
        run("distill", self.table, "--form", "spline", check=2)
        run("distill", check=2)


if __name__ == "__main__":
    unittest.main()
