"""phasor diagnose at a shell: diagnose_cli_test.py PHASOR"""

import json
import pathlib
import re
import shlex
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
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    data = struct.pack(f"<{len(values)}f", *values)
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


class Diagnose(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_knows_what_the_tool_itself_makes(self):
        bias = self.folder / "bias.npy"
        for scheme, arguments in (("alibi", ["num_heads=12"]), ("sandwich", ["num_heads=8"]), ("kerple", ["form=log", "r1=1.5,2", "r2=0.5,0.25"])):
            for form in ("full", "vector", "row"):
                run("bias", scheme, *arguments, "--queries", 24, "--keys", 40, "--form", form, "-o", bias)
                content = "bias" if form == "full" else "bias_vector"
                answer = json.loads(run("--json", "diagnose", bias, "--content", content).stdout)
                best = answer["hypotheses"][0]
                self.assertEqual(best["scheme"], scheme, form)
                self.assertTrue(best["reproduces"], (scheme, form, best))
                self.assertEqual(answer["faults"], [], (scheme, form))

    def test_text_says_verdict_spec_and_fault(self):
        bias = self.folder / "wrong.npy"
        values = [-2.0 ** -(8 * (h + 1) / 12) * abs(i - j) for h in range(12) for i in range(16) for j in range(16)]
        write_npy(bias, (12, 16, 16), values)
        text = run("diagnose", bias, "--content", "bias").stdout.decode()
        for word in ("alibi_plain_geometric_slopes", "num_heads", "12 heads, 16 queries, 16 keys", "cause", "check", "fix", "symptom", "spec", "off by"):
            self.assertIn(word, text)

    def test_expected_names_the_fault(self):
        bias = self.folder / "shifted.npy"
        write_npy(bias, (8, 16, 20), [-2.0 ** -(h + 1) * abs(j - i) for h in range(8) for i in range(16) for j in range(20)])
        answer = json.loads(run("--json", "diagnose", bias, "--content", "bias", "--expected", "alibi", "num_heads=8", "form=symmetric").stdout)
        self.assertIn("bias_not_bottom_right_aligned", [fault["name"] for fault in answer["faults"]])

    def test_arrays_are_chosen_by_name(self):
        tables = self.folder / "t.npz"
        run("table", "rope_default", "head_dim=16", "--positions", "0:32", "-o", tables)
        run("diagnose", tables)
        run("diagnose", tables, "--name", "cos", "--content", "cos")
        self.assertIn("cos, sin", run("diagnose", tables, "--content", "inv_freq", check=2).stderr.decode())
        self.assertIn("cos, sin", run("diagnose", tables, "--name", "tan", check=2).stderr.decode())

    def test_wrong_usage_and_refusals(self):
        run("diagnose", check=2)
        slopes = self.folder / "slopes.npy"
        write_npy(slopes, (2, 2), [0.5, 0.25, 0.125, 0.0625])
        run("diagnose", slopes, "--content", "nonsense", check=2)
        run("diagnose", slopes, "--symptom", "list", check=2)
        self.assertIn("table.tensors[0].shape", run("diagnose", slopes, "--content", "slopes", check=1).stderr.decode())
        self.assertIn("perhaps loss_spikes_at_start", run("diagnose", "--symptom", "loss spikes", check=1).stderr.decode())

    def test_every_symptom_is_told_with_calls_that_exist(self):
        names = [line.split(":")[0] for line in json.loads(run("--json", "diagnose", "--symptom", "list").stdout)["observations"]]
        self.assertGreaterEqual(len(names), 17)
        helps = {}
        for name in names:
            answer = json.loads(run("--json", "diagnose", "--symptom", name).stdout)
            self.assertGreaterEqual(len(answer["checks"]), 3, name)
            for check in answer["checks"]:
                program, command, *arguments = shlex.split(check["call"])
                self.assertEqual(program, "phasor")
                if command not in helps:
                    helps[command] = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", run(command, "--help").stdout.decode()))
                for argument in arguments:
                    if re.match(r"--?[a-z]", argument):
                        self.assertIn(argument, helps[command], check["call"])
        text = run("diagnose", "--symptom", "Worse beyond N tokens").stdout.decode()
        for word in ("1. ", "check", "call", "fix", "phasor resolve config.json"):
            self.assertIn(word, text)


if __name__ == "__main__":
    unittest.main()
