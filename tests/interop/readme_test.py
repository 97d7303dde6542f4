"""Runs the examples of README.md as they stand there, in a folder of their own: grpcurl, Python and C++ (Go's are in go_test.py).

    readme_test.py EXAMPLE      the C++ one, built by CMake to take the server's address as its argument
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from readme import blocks
import serving

EXAMPLE = sys.argv.pop(1)


class Readme(unittest.TestCase):
    def setUp(self):
        self.server = serving.Server()
        self.addCleanup(self.server.close)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "proto").symlink_to(serving.PROTO)

    def run_script(self, script, *command):
        path = os.pathsep.join([str(serving.TOOLS / "bin"), str(serving.TOOLS / "clients" / "bin"), os.environ["PATH"]])
        result = subprocess.run([*command, script], cwd=self.folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        return result.stdout, result.stderr

    def test_grpcurl(self):
        script, _, _ = blocks("bash", self.server.address)
        out, err = self.run_script(script, "bash", "-euo", "pipefail", "-c")
        self.assertTrue(out.endswith("refused: this one answers on --admin-listen only\n"), out[-200:])
        self.assertIn("PermissionDenied", err)
        # One JSON object a call, one after the other.
        answers, at, decoder = [], 0, json.JSONDecoder()
        while out[at:].lstrip().startswith("{"):
            at += len(out[at:]) - len(out[at:].lstrip())
            answer, end = decoder.raw_decode(out[at:])
            answers.append(answer)
            at += end
        distilled = [answer["result"] for answer in answers if "result" in answer]  # a stream, with progress where it takes long
        answers = [answer for answer in answers if "result" not in answer and "progress" not in answer]
        tables, applied, schemes, card, model, compared, diagnosed, recommended, planned, drawn, info, cached = answers
        self.assertEqual([set(result) & {"status", "cos", "bias"} for result in tables["results"]], [{"cos"}, {"bias"}])
        self.assertEqual(applied["results"][0]["tensors"][0]["shape"], ["1", "2", "1", "4"])
        self.assertNotIn("status", applied["results"][0])
        self.assertIn("rope_yarn", [scheme["name"] for scheme in schemes["schemes"]])
        self.assertEqual(card["scheme"]["name"], "rope_yarn")
        self.assertEqual(model["layers"][0]["spec"]["rope"]["base"], 500000)
        self.assertEqual(compared["transformation"]["kind"], "scaled_positions")
        self.assertEqual(diagnosed["hypotheses"][0]["scheme"], "alibi")
        self.assertTrue(recommended["choices"])
        self.assertTrue(planned["advice"])
        self.assertEqual(drawn["media_type"], "image/svg+xml")
        self.assertEqual([function["form"] for function in distilled], ["DISTILL_FORM_PERCEPTRON", "DISTILL_FORM_COSINE_SERIES"])
        self.assertTrue(info["limits"])
        self.assertTrue(cached["tables"])

    def test_python(self):
        _, generate, _ = blocks("bash")
        self.run_script(generate, "bash", "-euo", "pipefail", "-c")
        out, _ = self.run_script(blocks("python", self.server.address)[0], "python", "-c")
        self.assertEqual(out, "(1, 16, 32, 128) norm kept: True\n")

    def test_cpp(self):
        out = subprocess.run([EXAMPLE, self.server.address], capture_output=True, text=True, timeout=60)
        self.assertEqual(out.returncode, 0, out.stderr)
        self.assertRegex(out.stdout, r"^\[4096, 64\] in [1-9]\d* pieces\n$")


if __name__ == "__main__":
    unittest.main()
