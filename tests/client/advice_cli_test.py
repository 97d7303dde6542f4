"""phasor recommend and phasor memory at a shell: advice_cli_test.py PHASOR MODELS"""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

PHASOR, MODELS = sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))


def run(*arguments, check=0):
    result = subprocess.run([PHASOR, *map(str, arguments)], capture_output=True, timeout=120)
    assert result.returncode == check, f"{arguments}: exit code {result.returncode}, wanted {check}\n{result.stderr.decode()}"
    return result


def answer(*arguments):
    return json.loads(run("--json", *arguments).stdout)


class Advice(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def config(self, name):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(json.loads((MODELS / f"{name}.json").read_text())["config"]))
        return path

    def uses(self, *arguments):
        return {(u["layer_type"], u["what"], u["form"]): u for u in answer("memory", *arguments)["uses"]}

    def test_recommend_says_why_and_gives_a_spec_that_table_takes(self):
        wishes = ["recommend", "--task", "language_model", "--trained", 8192, "--wanted", 131072, "--head-dim", 128, "--heads", 32,
                  "--memory", "2GiB", "--target", "onnx", "--tuning", "short"]
        text = run(*wishes).stdout.decode()
        for words in ("1. rope_yarn  (tune.yarn)", "hold    half-width table", "rope_default is assumed", "64.0 MiB", "Left out",
                      "rope_longrope"):
            self.assertIn(words, text)
        choices = answer(*wishes)["choices"]
        self.assertEqual(choices[0]["spec"]["rope"]["yarn"]["factor"], 16)
        for choice in choices:
            run("table", json.dumps(choice["spec"]), "--positions", "0:4", "--length", 131072)

    def test_recommend_takes_what_a_model_has(self):
        result = answer("recommend", "--task", "language_model", "--trained", 4096, "--wanted", 16384, "--current",
                        self.config("llama-2-7b"))
        self.assertEqual([c["rule"] for c in result["choices"]], ["extend.yarn", "extend.dynamic_ntk_cached"])
        result = answer("recommend", "--task", "language_model", "--trained", 2048, "--wanted", 4096, "--current", self.config("bloom"))
        self.assertEqual([c["rule"] for c in result["choices"]], ["keep.alibi"])
        pairs = answer("recommend", "--task", "encoder", "--trained", 512, "--wanted", 512, "--current", "rope_default", "head_dim=64")
        self.assertEqual(pairs["choices"][0]["spec"]["rope"]["head_dim"], "64")

    def test_wishes_that_exclude_one_another(self):
        text = run("recommend", "--task", "language_model", "--trained", 1024, "--wanted", 8192, "--current", "learned",
                   "num_positions=1024", "dim=768").stdout.decode()
        self.assertIn("These wishes exclude one another. The learned table has no trained row beyond 1024", text)

    def test_memory_of_models(self):
        llama = self.uses(self.config("llama-3-1-8b"), "--keys", 131072, "--dtype", "bf16")
        half = llama["", "table", "half width"]
        self.assertEqual((half["bytes"], half["cached_bytes"], half["advised"]), (2 * 131072 * 64 * 2, 2 * 131072 * 64 * 2, True))
        bloom = self.uses(self.config("bloom"), "--keys", 2048)
        heads = json.loads(self.config("bloom").read_text())["n_head"]
        self.assertEqual(bloom["", "bias", "vector"]["bytes"], heads * 4095 * 4)
        self.assertEqual(bloom["", "bias", "full"]["bytes"], heads * 2048 * 2048 * 4)
        types = {key[0] for key in self.uses(self.config("gemma-3-4b-it"), "--keys", 4096) if key[1] == "table"}
        self.assertTrue({"full_attention", "sliding_attention"} <= types, types)
        self.assertTrue(any(key[1] == "weights" for key in self.uses(self.config("t5-small"), "--keys", 512)))
        self.assertTrue(any(key[1] == "bias" for key in self.uses(self.config("swin-tiny-patch4-window7-224"), "--keys", 49)))

    def test_every_model_has_a_plan(self):
        for path in sorted(MODELS.glob("*.json")):
            name = path.stem
            result = subprocess.run([PHASOR, "--json", "memory", self.config(name), "--keys", "512"], capture_output=True, timeout=120)
            if result.returncode != 0:  # nothing of it is served
                self.assertIn(b"config_json", result.stderr, name)
                continue
            plan = json.loads(result.stdout)
            self.assertTrue(plan["uses"] and plan["advice"], name)
            self.assertTrue(all(use["bytes"] >= 0 for use in plan["uses"]), name)

    def test_memory_as_a_table(self):
        lines = run("memory", "rope_default", "head_dim=128", "--keys", 8192, "--batch", 2).stdout.decode().splitlines()
        self.assertIn("in cache", lines[0])
        self.assertTrue(lines[1].startswith("*") and "half width" in lines[1] and "4.0 MiB" in lines[1], lines[1])
        self.assertIn("* take the half-width table, 4 MiB", [line for line in lines if line][-1])

    def test_wrong_usage_and_refusals(self):
        run("recommend", "--task", "poetry", "--trained", 1, check=2)
        run("recommend", "--task", "vision", check=2)
        run("memory", "rope_default", "head_dim=128", check=2)
        error = run("recommend", "--task", "vision", "--trained", 196, "--wanted", 400, check=1).stderr.decode()
        self.assertIn("current: given nothing", error)
        self.assertIn("key_length", run("memory", "rope_default", "head_dim=128", "--keys", -1, check=1).stderr.decode())


if __name__ == "__main__":
    unittest.main()
