"""The phasor tool as a person at a shell meets it: cli_test.py PHASOR PHASORD MODELS"""

import hashlib
import json
import math
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import xml.etree.ElementTree
import zipfile

PHASOR, PHASORD, MODELS = sys.argv.pop(1), sys.argv.pop(1), pathlib.Path(sys.argv.pop(1))
GGUF = MODELS.parent / "gguf"


def run(*arguments, stdin=None, check=0):
    result = subprocess.run([PHASOR, *map(str, arguments)], input=stdin, capture_output=True, timeout=120)
    if check is not None:
        assert result.returncode == check, f"{arguments}: exit code {result.returncode}, wanted {check}\n{result.stderr.decode()}"
    return result


def npy(path, member=None):
    raw = zipfile.ZipFile(path).read(member) if member else pathlib.Path(path).read_bytes()
    (length,) = struct.unpack_from("<H", raw, 8)
    header = eval(raw[10:10 + length], {})  # a literal that numpy defines as such
    return header, raw[10 + length:]


class Cli(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def config(self, name):
        path = self.folder / f"{name}.json"
        path.write_text(json.dumps(json.loads((MODELS / f"{name}.json").read_text())["config"]))
        return path

    def test_help_teaches(self):
        text = run("--help").stdout.decode()
        for word in ("resolve", "table", "bias", "apply", "Exit code"):
            self.assertIn(word, text)
        for command in ("schemes", "card", "resolve", "table", "bias", "apply", "resize", "scores", "upload", "tables", "info", "health",
                        "bench-server"):
            self.assertIn(command, run(command, "--help").stdout.decode())

    def test_wrong_usage_exits_with_2(self):
        for arguments in ([], ["nonsense"], ["table"], ["table", "rope_yarm", "--positions", "0:4"], ["table", "rope_default", "--positions", "x"],
                          ["table", "rope_default", "head_dim=8", "--positions", "0:4", "--dtype", "f8"],
                          ["table", "rope_default", "head_dim=8", "--positions", "0:4", "-o", "x.bin"],
                          ["bias", "alibi", "num_heads=8", "--queries", "4", "--keys", "4", "--heads", "0", "-o", "x.npy"]):
            result = run(*arguments, check=2)
            self.assertNotEqual(result.stderr, b"", arguments)

    def test_refused_call_exits_with_1_and_names_the_field(self):
        result = run("table", "rope_default", "head_dim=64", "rotary_dim=65", "--positions", "0:4", check=1)
        for word in ("rotary_dim", "65"):
            self.assertIn(word, result.stderr.decode())

    def test_schemes_and_card(self):
        names = [s["name"] for s in json.loads(run("--json", "schemes").stdout)["schemes"]]
        self.assertIn("rope_llama3", names)
        for name in names:
            card = json.loads(run("--json", "card", name).stdout)
            self.assertTrue(card["formula"] and card["source"] and card["pitfalls"], name)
        self.assertIn("rope_yarn", run("card", "nonsense", check=1).stderr.decode())

    def test_card_is_wrapped_and_counts_costs(self):
        for name in ("rope_yarn", "alibi", "shaw", "learned"):
            text = run("card", name).stdout.decode()
            prose, examples = text.split("\nExample, pytorch\n")
            for section in ("Formula", "LaTeX", "Parameters", "Used by", "How far it carries", "Costs", "When it fails"):
                self.assertIn(f"\n{section}\n", prose, name)
            self.assertIn("\nExample, c++\n", examples)
            for line in prose.split("\n"):
                self.assertTrue(len(line) <= 100 or " " not in line.strip(), line)
        costs = {c["what"]: c for c in json.loads(run("--json", "card", "alibi", "--positions", "1000", "--heads", "8").stdout)["costs"]}
        self.assertEqual(costs["bias, full"]["bytes"], 8 * 1000 * 1000 * 4)
        self.assertIn("30.5 MiB", run("card", "alibi", "--positions", "1000", "--heads", "8").stdout.decode())
        refused = run("card", "alibi", "--width", "70000", check=1).stderr.decode()
        for word in ("width", "70000", "65536"):
            self.assertIn(word, refused)
        for arguments in ([], ["--all"], ["alibi", "--all", "-o", "x"], ["alibi", "-o", "x"]):
            self.assertNotEqual(run("card", *arguments, check=2).stderr, b"", arguments)

    def test_resolve_reads_file_pipe_and_inline(self):
        path = self.config("llama-3-1-8b")
        texts = [run("resolve", path).stdout, run("resolve", "-", stdin=path.read_bytes()).stdout, run("resolve", path.read_text()).stdout]
        self.assertEqual(len(set(texts)), 1)
        self.assertIn(b"rope_llama3", texts[0])

    def test_gguf_files_answer_as_configurations_do(self):
        from_gguf = json.loads(run("--json", "resolve", GGUF / "qwen2-5-7b-instruct-yarn.gguf").stdout)
        from_json = json.loads(run("--json", "resolve", self.config("qwen2-5-7b-instruct-yarn")).stdout)
        self.assertEqual(from_gguf["layers"][0]["fingerprint"], from_json["layers"][0]["fingerprint"])
        self.assertIn("rows of q and k", run("resolve", GGUF / "llama-2-7b.gguf").stdout.decode())
        positions = ["--positions", "100:200"]
        run("table", GGUF / "phi-3-mini-128k-instruct.gguf", "--length", "5000", *positions, "-o", self.folder / "gguf.npz")
        run("table", self.config("phi-3-mini-128k-instruct"), "--length", "5000", *positions, "-o", self.folder / "json.npz")
        tables = [struct.unpack("<4800f", npy(self.folder / f, "cos.npy")[1]) for f in ("gguf.npz", "json.npz")]
        self.assertLess(max(abs(a - b) for a, b in zip(*tables)), 1e-6)  # the file holds the attention factor as float32
        self.assertIn("sliding_attention", run("table", GGUF / "gemma-3-4b-it.gguf", *positions, check=2).stderr.decode())
        run("table", GGUF / "gemma-3-4b-it.gguf", "--layer-type", "sliding_attention", *positions)
        for command in ("resolve", "table"):
            self.assertIn(".gguf", run(command, "--help").stdout.decode())

    def test_gguf_files_are_known_by_their_first_bytes(self):
        whole = (GGUF / "phi-2.gguf").read_bytes()
        renamed = self.folder / "blob"
        renamed.write_bytes(whole)
        texts = [run("resolve", GGUF / "phi-2.gguf").stdout, run("resolve", renamed).stdout, run("resolve", "-", stdin=whole).stdout]
        self.assertEqual(len(set(texts)), 1)
        renamed.write_bytes(whole[:100])
        self.assertIn("byte 100", run("resolve", renamed, check=1).stderr.decode())
        empty = self.folder / "empty.gguf"
        empty.write_bytes(b"")
        self.assertIn("empty.gguf", run("resolve", empty, check=1).stderr.decode())

    def test_gguf_tokenizers_stay_at_home(self):
        """A head of 40 MB, most of it vocabulary, behind a server that takes 4 MiB."""
        whole = (GGUF / "phi-3-mini-128k-instruct.gguf").read_bytes()
        tensors, keys = struct.unpack_from("<QQ", whole, 8)
        token = b"x" * 92
        name = b"tokenizer.ggml.tokens"
        vocabulary = struct.pack("<Q", len(name)) + name + struct.pack("<IIQ", 9, 8, 400000) + (struct.pack("<Q", len(token)) + token) * 400000
        # What stands after the head is aligned to 32 bytes: the added entry must not change that.
        padding = -len(vocabulary) % 32
        name += b"_"
        filler = struct.pack("<Q", len(name)) + name + struct.pack("<IQ", 8, 0)
        rest = (padding - len(filler)) % 32
        filler = struct.pack("<Q", len(name)) + name + struct.pack("<IQ", 8, rest) + b"x" * rest
        path = self.folder / "large.gguf"
        path.write_bytes(whole[:8] + struct.pack("<QQ", tensors, keys + 2) + vocabulary + filler + whole[24:])
        self.assertGreater(path.stat().st_size, 40_000_000)
        arguments = ["--json", "resolve", "--length", "5000"]
        large, small = (json.loads(run(*arguments, p).stdout)["layers"] for p in (path, GGUF / "phi-3-mini-128k-instruct.gguf"))
        self.assertEqual(large, small)

    def test_compare_tells_what_differs(self):
        two = ["rope_default", "head_dim=128", "rope_linear", "head_dim=128", "factor=4"]
        answer = json.loads(run("--json", "compare", *two).stdout)
        self.assertEqual(answer["transformation"]["kind"], "scaled_positions")
        self.assertEqual(answer["transformation"]["position_factor"], 0.25)
        self.assertEqual([f["field"] for f in answer["fields"]], ["rope.default_schedule", "rope.linear.factor"])
        quoted = json.loads(run("--json", "compare", "rope_default head_dim=128", "rope_linear head_dim=128 factor=4").stdout)
        self.assertEqual(answer, quoted)
        text = run("compare", *two).stdout.decode()
        for word in ("They differ by up to", "rope.linear.factor", "bf16", "random unit vectors", "From A to B: scaled_positions"):
            self.assertIn(word, text)
        pairing = json.loads(run("--json", "compare", "rope_default", "head_dim=8", "rope_default", "head_dim=8", "pairing=interleaved").stdout)
        self.assertEqual([int(c) for c in pairing["transformation"]["permutation"]], [0, 4, 1, 5, 2, 6, 3, 7])

    def test_compare_reads_configurations_and_tables(self):
        path, table = self.config("llama-2-7b"), self.folder / "t.npz"
        run("table", path, "--positions", "0:64", "--dtype", "f32", "-o", table)
        answer = json.loads(run("--json", "compare", table, path).stdout)
        self.assertEqual(answer["max_ulps"], 0)
        self.assertEqual(answer["transformation"]["kind"], "identical")
        self.assertIn("rope.base", run("compare", path, self.config("llama-3-1-8b")).stdout.decode())

    def test_compare_refuses_what_cannot_be_compared(self):
        self.assertIn("a bias by distance beside a rotation", run("compare", "rope_default", "head_dim=8", "alibi", "num_heads=8", check=1).stderr.decode())
        run("compare", "rope_default", "head_dim=8", check=2)
        run("compare", "rope_default", "head_dim=8", "alibi", "num_heads=8", "alibi", "num_heads=8", check=2)
        run("compare", "--positions", "0:8:2", "alibi", "num_heads=8", "alibi", "num_heads=8", check=2)

    def test_plot_writes_pictures(self):
        rope, alibi = ["rope_default", "head_dim=64"], ["alibi", "num_heads=12"]
        wide = [*rope, "rope_linear", "head_dim=64", "factor=4"]
        names = "{http://www.w3.org/2000/svg}"
        for kind, subject in (("table", rope), ("wavelengths", rope), ("decay", rope), ("similarity", rope), ("bias", alibi), ("difference", wide)):
            path = self.folder / f"{kind}.svg"
            said = run("plot", "-o", path, "--trained", "4096", kind, *subject).stderr.decode().strip()
            picture = xml.etree.ElementTree.fromstring(path.read_bytes())  # well-formed
            self.assertEqual(picture.find(names + "desc").text, said, kind)
            self.assertTrue(picture.find(names + "title").text, kind)
            self.assertIn("prefers-color-scheme:dark", picture.find(names + "style").text, kind)
            axes = [t for t in picture.iter(names + "text") if t.get("class") == "axis"]
            self.assertGreaterEqual(len(axes), 2, kind)
        bias = xml.etree.ElementTree.parse(self.folder / "bias.svg")
        self.assertEqual(len([g for g in bias.iter(names + "g") if g.get("class") == "series"]), 12)
        waves = xml.etree.ElementTree.parse(self.folder / "wavelengths.svg")
        self.assertEqual(len(list(waves.iter(names + "circle"))), 32)
        unseen = [c for c in waves.iter(names + "circle") if c.get("class") == "unseen"]
        self.assertEqual(len(unseen), sum(2 * math.pi * 10000 ** (i / 32) > 4096 for i in range(32)))
        self.assertEqual(run("plot", "-o", "-", "bias", *alibi).stdout[:5], b"<?xml")

    def test_plot_refuses_other_formats_and_subjects(self):
        self.assertIn(".svg", run("plot", "-o", self.folder / "x.png", "table", "rope_default", "head_dim=8", check=2).stderr.decode())
        run("plot", "-o", self.folder / "x.svg", "nonsense", "rope_default", "head_dim=8", check=2)
        run("plot", "-o", self.folder / "x.svg", "difference", "rope_default", "head_dim=8", check=2)
        self.assertIn("a bias by distance", run("plot", "-o", self.folder / "x.svg", "bias", "rope_default", "head_dim=8", check=1).stderr.decode())
        self.assertFalse((self.folder / "x.svg").exists())

    def test_layer_types_are_asked_for(self):
        path = self.config("gemma-3-4b-it")
        result = run("table", path, "--positions", "0:4", check=2)
        for word in ("full_attention", "sliding_attention", "--layer-type"):
            self.assertIn(word, result.stderr.decode())
        run("table", path, "--layer-type", "full_attention", "--positions", "0:4")
        self.assertIn("sliding_attention", run("table", path, "--layer-type", "other", "--positions", "0:4", check=1).stderr.decode())

    def test_length_is_asked_for(self):
        path = self.config("phi-3-mini-128k-instruct")
        message = run("table", path, "--positions", "0:4", check=1).stderr.decode()
        self.assertIn("sequence_length", message)
        self.assertIn("--length", message)
        run("table", path, "--length", "4097", "--positions", "0:4")

    def test_table_files(self):
        for form, names, columns in (("half", ["cos", "sin"], 4), ("duplicated", ["cos", "sin"], 8), ("concat", ["table"], 8)):
            path = self.folder / f"{form}.npz"
            run("table", "rope_default", "head_dim=8", "--positions", "0:5", "--form", form, "--inv-freq", "-o", path)
            members = zipfile.ZipFile(path).namelist()
            self.assertEqual(zipfile.ZipFile(path).testzip(), None)
            self.assertEqual(members, [f"{n}.npy" for n in names] + ["inv_freq.npy", "attention_factor.npy", "phasor_metadata.npy"])
            header, data = npy(path, f"{names[0]}.npy")
            self.assertEqual((header["descr"], header["shape"], len(data)), ("<f4", (5, columns), 20 * columns))
            self.assertEqual(struct.unpack_from("<f", data)[0], 1.0)
            header, text = npy(path, "phasor_metadata.npy")
            self.assertEqual((header["descr"], header["shape"]), (f"|S{len(text)}", ()))
            metadata = json.loads(text)
            self.assertEqual(len(metadata["phasor.fingerprint"]), 64)
        self.assertIn("one array", run("table", "rope_default", "head_dim=8", "--positions", "0:5", "-o", self.folder / "x.npy", check=2).stderr.decode())
        self.assertIn("bf16", run("table", "sinusoidal", "dim=8", "--positions", "0:5", "--dtype", "bf16", "-o", self.folder / "x.npy",
                                  check=2).stderr.decode())

    def test_windows_give_the_same_file_as_one_call(self):
        # 2 MiB rows of f64 would not fit a window: many windows, compared with a stride-1 list in one.
        spec = ["rope_linear", "head_dim=256", "factor=8"]
        run("table", *spec, "--positions", "0:9000", "-o", self.folder / "long.npz")
        run("table", *spec, "--positions", "8990:9000", "-o", self.folder / "end.npz")
        long, end = (npy(self.folder / f, "cos.npy")[1] for f in ("long.npz", "end.npz"))
        self.assertEqual(long[-len(end):], end)

    def test_standard_output(self):
        data = run("table", "sinusoidal", "dim=4", "--positions", "0:2", "-o", "-", "--format", "npy").stdout
        self.assertTrue(data.startswith(b"\x93NUMPY"))
        preview = run("table", "sinusoidal", "dim=4", "--positions", "0:2").stdout.decode()
        self.assertIn("0.841470957", preview)  # the f32 nearest to sin 1

    def test_fractional_positions_and_weights(self):
        preview = json.loads(run("--json", "table", "timestep", "dim=4", "downscale_freq_shift=0", "flip_sin_to_cos=true",
                                 "--positions", "0.5,999").stdout)
        self.assertEqual(preview["positions"], [0.5, 999])
        digits = json.loads(run("--json", "table", "timestep", "dim=4", "--positions", "0.123456789,123456789.25").stdout)
        self.assertEqual(digits["positions"], [0.123456789, 123456789.25])
        self.assertAlmostEqual(preview["table"][0][0], 0.8775825618903728, places=7)  # cos 0.5
        weights = self.folder / "weights.npy"
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4, 2), }"
        header += b" " * (-(10 + len(header) + 1) % 64) + b"\n"
        weights.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack("<8f", *range(8)))
        spec = ["learned", "position_offset=2", "--weight", f"table={weights}"]
        run("table", *spec, "--positions", "0,1", "-o", self.folder / "rows.npy")
        self.assertEqual(struct.unpack("<4f", npy(self.folder / "rows.npy")[1]), (4, 5, 6, 7))
        self.assertIn("the table has 4 rows", run("table", *spec, "--positions", "0:3", check=1).stderr.decode())
        run("table", "learned", "num_positions=4", "dim=2", "--indices", "--positions", "3,0", "-o", self.folder / "ids.npy")
        header, data = npy(self.folder / "ids.npy")
        self.assertEqual((header["descr"], header["shape"], struct.unpack("<2q", data)), ("<i8", (2,), (3, 0)))
        self.assertIn("NAME=FILE", run("table", "learned", "--weight", "table", "--positions", "0,1", check=2).stderr.decode())

    def test_grids(self):
        run("table", "grid_sinusoidal", "dim=8", "grid=3,5", "--positions", "0:15", "-o", self.folder / "grid.npy")
        self.assertEqual(npy(self.folder / "grid.npy")[0]["shape"], (15, 8))
        spec = json.dumps({"rope": {"headDim": 8, "axes": {"sections": [2, 2], "layout": "AXIS_LAYOUT_RESET"}}})
        run("table", spec, "--positions", "grid:3x5", "-o", self.folder / "axes.npz")
        self.assertEqual(npy(self.folder / "axes.npz", "cos.npy")[0]["shape"], (15, 4))
        message = run("table", spec, "--positions", "0:4", check=1).stderr.decode()
        self.assertIn("2, as the spec has", message)

    def test_bias_forms(self):
        spec = ["alibi", "num_heads=4"]
        for form, shape in (("full", (4, 3, 5)), ("vector", (4, 7)), ("row", (4, 5))):
            path = self.folder / f"{form}.npy"
            run("bias", *spec, "--queries", "3", "--keys", "5", "--form", form, "-o", path)
            header, data = npy(path)
            self.assertEqual(header["shape"], shape)
        full = struct.unpack("<60f", npy(self.folder / "full.npy")[1])
        want = [2.0 ** (-2 * (h + 1)) * (k - (5 - 3 + q)) for h in range(4) for q in range(3) for k in range(5)]
        self.assertEqual(list(full), want)
        run("bias", *spec, "--queries", "3", "--keys", "5", "--heads", "2:2", "--form", "full", "-o", self.folder / "part.npy")
        self.assertEqual(struct.unpack("<30f", npy(self.folder / "part.npy")[1]), full[30:])

    def test_bias_masks_positions_and_indices(self):
        path, hidden = self.folder / "bias.npy", float("-inf")
        run("bias", "alibi", "slopes=1", "--queries", "2", "--keys", "3", "--causal", "--sliding-window", "2", "-o", path)
        self.assertEqual(npy(path)[0]["shape"], (1, 2, 3))
        self.assertEqual(self.floats(path), [-1, 0, hidden, hidden, -1, 0])
        run("bias", "alibi", "slopes=1", "--queries", "1", "--keys", "3", "--query-positions", "5", "--key-positions", "0,0,7", "-o", path)
        self.assertEqual(self.floats(path), [-5, -5, 2])
        run("bias", "t5_bucket", "num_heads=1", "--indices", "--queries", "2", "--keys", "3", "-o", path)
        header, data = npy(path)
        self.assertEqual((header["descr"], header["shape"]), ("<i8", (2, 3)))
        self.assertEqual(struct.unpack("<6q", data), (1, 0, 17, 2, 1, 0))
        table = self.save("table.npy", [3, 5], [2, 1])
        run("bias", "t5_bucket", "num_buckets=2", "max_distance=2", "bidirectional=false", "--weight", f"table={table}",
            "--queries", "1", "--keys", "3", "--form", "row", "-o", path)
        self.assertEqual(self.floats(path), [5, 5, 3])
        padding = self.folder / "padding.npy"
        header = repr({"descr": "|b1", "fortran_order": False, "shape": (2, 3)}).ljust(117) + "\n"
        padding.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes([0, 1, 1, 1, 1, 1]))
        run("bias", "alibi", "slopes=1", "--queries", "1", "--keys", "3", "--key-padding", padding, "-o", path)
        self.assertEqual(npy(path)[0]["shape"], (2, 1, 1, 3))
        self.assertEqual(self.floats(path), [hidden, -1, 0, -2, -1, 0])

    def save(self, name, values, shape, kind="f"):
        path = self.folder / name
        header = repr({"descr": {"f": "<f4", "q": "<i8"}[kind], "fortran_order": False, "shape": tuple(shape)}).ljust(117) + "\n"
        path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{kind}", *values))
        return path

    def floats(self, path):
        header, raw = npy(path)
        return list(struct.unpack(f"<{len(raw) // 4}f", raw))

    def test_apply_adds(self):
        x, out = self.save("x.npy", range(12), [1, 3, 4]), self.folder / "y.npy"
        spec = ["sinusoidal", "dim=4"]
        run("apply", *spec, "--add", "--scale-sqrt-dim", "--input", x, "-o", out)
        y = self.floats(out)
        self.assertEqual(y[:4], [0, 3, 4, 7])  # 2x and sin 0, cos 0, sin 0, cos 0
        gate, ends = self.save("g.npy", [0.0], []), self.save("e.npy", [100] * 4, [1, 4])
        run("apply", *spec, "--add", "--scale", "2", "--gate", gate, "--gate-spec", '{"sinusoidal": {"dim": 4, "position_offset": 1}}',
            "--first", ends, "--last", ends, "--input", x, "-o", out)
        gated = self.floats(out)
        self.assertAlmostEqual(gated[4] - 8, y[8] - 16, places=5)  # position 1 with the row of position 2
        self.assertAlmostEqual(gated[0], 100 + 0.8414710, places=4)
        mask = self.save("m.npy", [0, 1, 1], [1, 3])
        self.assertIn("mask", run("apply", *spec, "--add", "--zero-padding", mask, "--input", x, "-o", out, check=1).stderr.decode())  # f32
        run("apply", *spec, "--add", "--dropout", "0.999999", "--seed", "3", "--input", x, "-o", out)
        self.assertEqual(self.floats(out), [0] * 12)
        run("apply", *spec, "--scale", "2", "--input", x, "-o", out, check=2)  # without --add
        run("apply", *spec, "--add", "--inverse", "--input", x, "-o", out, check=2)
        self.assertIn("add.dropout", run("apply", *spec, "--add", "--dropout", "1", "--input", x, "-o", out, check=1).stderr.decode())

    def test_upload_prints_the_hash(self):
        path = self.save("x.npy", range(12), [3, 4])
        result = run("upload", path)
        self.assertEqual(result.stdout.decode().strip(), hashlib.sha256(npy(path)[1]).hexdigest())
        self.assertIn("--server", result.stderr.decode())
        self.assertEqual(json.loads(run("--json", "upload", path).stdout)["size_bytes"], "48")
        run("upload", self.folder / "absent.npy", check=1)

    def test_apply_and_back(self):
        values = [((i * 2654435761) % 1000) / 500 - 1 for i in range(2 * 3 * 2 * 8)]
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 2, 8), }"
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        path = self.folder / "q.npy"
        path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values))
        run("apply", "rope_default", "head_dim=8", "--input", path, "--positions", "5:8", "-o", self.folder / "r.npz")
        run("apply", "rope_default", "head_dim=8", "--input", self.folder / "r.npz", "--positions", "5:8", "--inverse", "-o", self.folder / "b.npz")
        self.assertEqual(zipfile.ZipFile(self.folder / "r.npz").namelist()[0], "q.npy")
        rotated = struct.unpack(f"<{len(values)}f", npy(self.folder / "r.npz", "q.npy")[1])
        back = struct.unpack(f"<{len(values)}f", npy(self.folder / "b.npz", "q.npy")[1])
        self.assertGreater(max(abs(a - b) for a, b in zip(rotated, values)), 0.1)
        self.assertLess(max(abs(a - b) for a, b in zip(back, values)), 1e-6)
        self.assertIn("head_dim", run("apply", "rope_default", "head_dim=16", "--input", path, "-o", self.folder / "x.npz", check=1).stderr.decode())

    def test_resize(self):
        table = self.save("table.npy", [9, -9] + [float(i + 10 * c) for i in (0, 2, 4, 6) for c in (0, 1)] + [7, -7], (6, 2))
        out = self.folder / "out.npy"
        run("resize", table, "--source", "4", "--target", "8", "--interpolation", "linear", "--extra-first", "1", "--extra-last", "1",
            "-o", out)
        header, data = npy(out)
        self.assertEqual(header["shape"], (10, 2))
        values = struct.unpack("<20f", data)
        self.assertEqual(values[0::2], (9, 0, 0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6, 7))
        self.assertEqual(values[1::2], (-9, 10, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5, 16, -7))
        run("resize", table, "--source", "2x3", "--target", "4x4", "--antialias", "-o", out)
        self.assertEqual(npy(out)[0]["shape"], (16, 2))
        refused = run("resize", table, "--source", "5", "--target", "8", "-o", out, check=1).stderr.decode()
        self.assertIn("tensors[0].shape: given [6, 2]; allowed: [5, columns]", refused)
        self.assertIn("--target", run("resize", table, "--source", "4", "--target", "4x", "-o", out, check=2).stderr.decode())
        self.assertIn("'other'", run("resize", table, "--array", "other", "--source", "6", "--target", "8", "-o", out, check=2).stderr.decode())

    def test_tables_of_xpos_have_a_role(self):
        spec, files = '{"rope": {"headDim": 2, "xpos": {"center": "0", "scaleBase": 1}}}', {}
        for role in ("query", "key"):
            out = self.folder / f"{role}.npz"
            run("table", spec, "--positions", "0:3", "--role", role, "-o", out)
            files[role] = struct.unpack("<3f", npy(out, "cos.npy")[1])
        self.assertNotEqual(files["query"][2], files["key"][2])
        for m, (query, key) in enumerate(zip(files["query"], files["key"])):
            self.assertAlmostEqual(query * key, math.cos(m) ** 2, places=6)  # the decays cancel at equal positions
        refused = run("table", spec, "--positions", "0:3", "-o", self.folder / "none.npz", check=1).stderr.decode()
        self.assertIn("table.role", refused)

    def test_scores(self):
        q, k = self.save("q.npy", [1, 0, 0, 2, 1, 1], (1, 3, 1, 2)), self.save("k.npy", [1, 2, 3, 4, 5, 6], (1, 3, 1, 2))
        out = self.folder / "scores.npy"

        def scores(*arguments):
            run("scores", "--q", q, "--k", k, *arguments, "-o", out)
            header, data = npy(out)
            self.assertEqual(header["shape"], (1, 1, 3, 3))
            return struct.unpack("<9f", data)

        self.assertEqual(scores("--scale", "1"), (1, 3, 5, 4, 8, 12, 3, 7, 11))
        default = scores()
        self.assertAlmostEqual(default[2], 5 / math.sqrt(2), places=6)
        masked = scores("--scale", "1", "--causal", "--bias", "alibi num_heads=1")
        self.assertEqual([math.isinf(v) for v in masked], [False, True, True, False, False, True, False, False, False])
        self.assertAlmostEqual(masked[6], 3 - 2 * 2.0 ** -8, places=6)
        self.assertEqual(masked[8], 11)
        self.assertAlmostEqual(sum(scores("--softmax", "--causal")[3:6]), 1, places=6)
        self.assertAlmostEqual(scores("--rope", "rope_default head_dim=2", "--scale", "1")[8],
                               11, places=5)  # the same place for both: nothing turns
        table = self.save("a.npy", [1, 0, 0, 0, 0, 1], (3, 2))
        with_term = scores("--scale", "1", "--term", "shaw clip=1", "--weight", f"0:keys={table}")
        self.assertEqual(with_term[:3], (1, 3 + 1, 5 + 1))  # distance 0 has the middle row, keys after the query the first one
        self.assertEqual(scores("--omit-content", "--bias", "alibi num_heads=1", "--scale", "1")[6], -2 * 2.0 ** -8)
        table = self.save("t5.npy", range(32), (32, 1))
        biased = scores("--scale", "1", "--bias", "t5_bucket num_heads=1", "--bias-weight", f"0:table={table}")
        self.assertEqual(biased[8], 11)  # distance 0 is bucket 0
        self.assertEqual(biased[7], 7 + 1)  # a key one before its query: bucket 1
        hidden = float("-inf")
        self.assertEqual(scores("--scale", "1", "--causal", "--prefix", "2"), (1, 3, hidden, 4, 8, hidden, 3, 7, 11))
        self.assertEqual(scores("--scale", "1", "--cu-seqlens", "0,1,3"), (1, hidden, hidden, hidden, 8, 12, hidden, 7, 11))
        self.assertEqual(scores("--scale", "1", "--chunk", "2"), (1, 3, hidden, 4, 8, hidden, hidden, hidden, 11))
        padding = self.save("there.npy", (1, 0, 1), (3,), kind="q")
        self.assertEqual(scores("--scale", "1", "--key-padding", padding), (1, hidden, 5, 4, hidden, 12, 3, hidden, 11))
        run("scores", "--q", q, "--k", k, "--bias-weight", f"0:table={table}", "-o", out, check=2)
        self.assertIn("k.shape", run("scores", "--q", q, "--k", self.save("k3.npy", range(3), (1, 1, 1, 3)), "-o", out, check=1).stderr.decode())
        self.assertIn("biases[0]", run("scores", "--q", q, "--k", k, "--bias", "alibi num_heads=0", "-o", out, check=1).stderr.decode())
        run("scores", "--q", q, "-o", out, check=2)
        run("scores", "--q", q, "--k", k, "--bias", "no_such_scheme", "-o", out, check=2)

    def test_learned_bias(self):
        weights = {"w1": (1, 1), "b1": (1,), "w2": (2, 1), "b2": (2,)}
        values = {"w1": [1], "b1": [0], "w2": [1, -2], "b2": [0, 0.5]}
        options = [o for n, shape in weights.items() for o in ("--weight", f"{n}={self.save(n + '.npy', values[n], shape)}")]
        out = self.folder / "fire.npy"
        run("bias", "fire", "c=1", "threshold=1", *options, "--queries", "2", "--keys", "5", "--form", "full", "-o", out)
        header, data = npy(out)
        self.assertEqual(header["shape"], (2, 2, 5))
        want = [a * math.log(1 + abs(q - k)) / (math.log(1 + q) + 1e-6) + b for a, b in ((1, 0), (-2, 0.5)) for q in (3, 4) for k in range(5)]
        for got, exact in zip(struct.unpack("<20f", data), want):
            self.assertAlmostEqual(got, exact, delta=1e-6)
        table = self.save("table.npy", [float(r) for r in range(9)], (9, 1))
        window = ["window_bias", "window_height=2", "window_width=2", "--queries", "4", "--keys", "4", "-o", out]
        run("bias", *window, "--weight", f"table={table}")
        values = struct.unpack("<16f", npy(out)[1])
        self.assertEqual(values[:4], (4, 3, 1, 0))
        run("bias", "window_bias", "num_heads=1", *window[1:], "--indices")
        self.assertEqual(struct.unpack("<16q", npy(out)[1]), values)

    def test_positions_out_of_range_leave_no_file(self):
        path = self.folder / "x.npz"
        message = run("table", "rope_default", "head_dim=64", "--positions", "0:100000000000", "-o", path, check=1).stderr.decode()
        self.assertIn("2147483647", message)
        self.assertEqual(list(self.folder.iterdir()), [])
        # What the caller gave stands in the message, and the first rows alone are not shown as if the others were to be had.
        for given, position in (("0:99999999999", "99999999998"), ("99999999999:99999999999999", "99999999999"),
                                ("0,99999999999", "99999999999"), ("0.5,2147483648.5", "2147483648.5")):
            for output in (["-o", path], []):
                message = run("table", "rope_default", "head_dim=64", "--positions", given, *output, check=1).stderr.decode()
                self.assertIn(f"--positions: given '{given}', which has {position}; allowed: ", message)
                self.assertIn("2147483647 (the server's max_position)", message)

    def test_unknown_command_is_named(self):
        message = run("tabel", check=2).stderr.decode()
        for word in ("tabel", "table", "bias"):
            self.assertIn(word, message)

    def test_shift_moves_rotated_keys(self):
        spec = ["rope_yarn", "head_dim=8", "factor=4", "original_max_position=64"]
        values = [((i * 40503) % 1000) / 500 - 1 for i in range(5 * 2 * 8)]
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 5, 2, 8), }"
        header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
        path = self.folder / "k.npy"
        path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values))
        run("apply", *spec, "--input", path, "--positions", "3:8", "-o", self.folder / "at3.npz")
        run("apply", *spec, "--input", path, "--positions", "10:15", "-o", self.folder / "at10.npz")
        run("apply", *spec, "--input", self.folder / "at3.npz", "--shift", "7", "-o", self.folder / "shifted.npz")
        want, got = (struct.unpack(f"<{len(values)}f", npy(self.folder / f, "k.npy")[1]) for f in ("at10.npz", "shifted.npz"))
        self.assertLess(max(abs(a - b) for a, b in zip(want, got)), 1e-6)
        run("apply", *spec, "--input", path, "--shift", "7", "--inverse", "-o", self.folder / "x.npz", check=2)

    def test_rotations_beyond_the_plain_one(self):
        def write(name, shape, values):
            header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".encode()
            header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
            path = self.folder / name
            path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}f", *values))
            return path

        def read(name, array):
            data = npy(self.folder / name, f"{array}.npy")[1]
            return struct.unpack(f"<{len(data) // 4}f", data)

        spec = ["rope_default", "head_dim=4"]
        x = write("x.npy", (1, 2, 1, 4), [0.5, -1, 0.25, 2, 1, 3, -0.5, 0.75])
        angles = [[m, m * 0.01] for m in range(9)]
        cos = write("cos.npy", (9, 2), [math.cos(a) for row in angles for a in row])
        sin = write("sin.npy", (9, 2), [math.sin(a) for row in angles for a in row])
        at = ["--positions", "7:9"]
        run("apply", *spec, "--input", x, *at, "-o", self.folder / "spec.npz")
        run("apply", "--table", f"{cos},{sin}", "--input", x, *at, "-o", self.folder / "table.npz")
        want, got = read("spec.npz", "x"), read("table.npz", "x")
        self.assertLess(max(abs(a - b) for a, b in zip(want, got)), 1e-6)
        run("apply", *spec, "--input", x, *at, "--query-scale", "constant=2", "-o", self.folder / "scaled.npz")
        self.assertEqual(read("scaled.npz", "x"), tuple(2 * a for a in want))
        run("apply", *spec, "--input", x, *at, "--query-scale", "constant=2", "--roles", "k", "-o", self.folder / "key.npz")
        self.assertEqual(read("key.npz", "x"), want)
        target = '{"rope": {"headDim": "4", "linear": {"factor": 2}}}'
        run("apply", *spec, "--input", self.folder / "spec.npz", *at, "--rerotate", target, "-o", self.folder / "turned.npz")
        run("apply", "rope_linear", "head_dim=4", "factor=2", "--input", x, *at, "-o", self.folder / "linear.npz")
        self.assertLess(max(abs(a - b) for a, b in zip(read("turned.npz", "x"), read("linear.npz", "x"))), 1e-6)
        run("apply", *spec, "--input", self.folder / "spec.npz", *at, "--backward", "-o", self.folder / "back.npz")
        self.assertLess(max(abs(a - b) for a, b in zip(read("back.npz", "x"), [0.5, -1, 0.25, 2, 1, 3, -0.5, 0.75])), 1e-6)
        refused = run("apply", *spec, "--input", x, "--query-scale", "twice=2", "-o", self.folder / "y.npz", check=2)
        self.assertIn("log_n=", refused.stderr.decode())
        self.assertIn("--table", run("apply", "--input", x, "-o", self.folder / "y.npz", check=2).stderr.decode())

    def test_output_targets(self):
        table = ["table", "rope_default", "head_dim=8", "--positions", "0:4", "--format", "npz", "-o"]
        (self.folder / "real").write_bytes(b"old")
        (self.folder / "real").chmod(0o600)
        (self.folder / "link").symlink_to("real")
        run(*table, self.folder / "link")
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual((self.folder / "real").stat().st_mode & 0o777, 0o600)
        self.assertTrue(zipfile.is_zipfile(self.folder / "real"))
        os.mkfifo(self.folder / "pipe")
        reader = subprocess.Popen(["cat", self.folder / "pipe"], stdout=subprocess.PIPE)
        run(*table, self.folder / "pipe")
        self.assertEqual(reader.communicate()[0], (self.folder / "real").read_bytes())
        self.assertTrue((self.folder / "pipe").is_fifo())
        if pathlib.Path("/dev/full").is_char_device():
            self.assertIn("No space", run(*table, "/dev/full", check=1).stderr.decode())
            self.assertTrue(pathlib.Path("/dev/full").is_char_device())
        self.assertIn("directory", run(*table, self.folder, check=1).stderr.decode())
        mask = os.umask(0o077)
        try:
            run(*table, self.folder / "private")
        finally:
            os.umask(mask)
        self.assertEqual((self.folder / "private").stat().st_mode & 0o777, 0o600)

    def test_interrupted_writing_leaves_nothing(self):
        process = subprocess.Popen([PHASOR, "table", "rope_default", "head_dim=256", "--positions", "0:2000000", "--dtype", "f64",
                                    "-o", self.folder / "big.npz"], stderr=subprocess.DEVNULL)
        time.sleep(0.5)
        process.terminate()
        process.wait(timeout=30)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_json_everywhere(self):
        preview = json.loads(run("--json", "table", "rope_default", "head_dim=4", "--positions", "0,2").stdout)
        self.assertEqual((preview["positions"], preview["cos"][0], len(preview["sin"][1])), ([0, 2], [1.0, 1.0], 2))
        self.assertEqual(json.loads(run("--json", "health").stdout), {"status": "SERVING"})
        failed = run("--json", "table", "rope_default", "head_dim=7", "--positions", "0:4", check=1)
        error = json.loads(failed.stdout)["error"]
        self.assertEqual((error["code"], len(error["violations"])), ("INVALID_ARGUMENT", 1))
        self.assertIn("rope", error["violations"][0]["field"])

    def test_bench_server_counts_calls(self):
        mix = "table=2,batch,apply-64k,apply-1m,stream-table,stream-apply"
        report = json.loads(run("--json", "bench-server", "--concurrency", "3", "--connections", "2", "--requests", "14", "--mix", mix).stdout)
        self.assertEqual((report["embedded"], report["mode"], report["concurrency"], report["connections"]), (True, "closed", 3, 2))
        self.assertEqual([(s["name"], s["calls"]) for s in report["scenarios"]],
                         [("table", 4)] + [(name, 2) for name in ("batch", "apply-64k", "apply-1m", "stream-table", "stream-apply")])
        self.assertEqual((report["all"]["calls"], report["all"]["failed"], report["all"]["errors"], report["missed"]), (14, 0, [], 0))
        table, _, small, _, stream_table, stream_apply = report["scenarios"]
        self.assertEqual((table["sent_bytes"], table["received_bytes"]), (0, 4 * 8192))
        self.assertEqual((small["sent_bytes"], small["received_bytes"]), (2 * 65536, 2 * 65536))
        self.assertEqual((stream_table["sent_bytes"], stream_table["received_bytes"]), (0, 2 << 24))
        self.assertEqual((stream_apply["sent_bytes"], stream_apply["received_bytes"]), (2 << 24, 2 << 24))
        latency = table["latency_ns"]
        self.assertTrue(0 < latency["p50"] <= latency["p90"] <= latency["p99"] <= latency["p99.9"] <= latency["max"], latency)

    def test_bench_server_text_and_ways_to_go(self):
        text = run("bench-server", "--rate", "100", "--duration", "200ms").stdout.decode()
        for word in ("100 calls/s due", "p99.9", "table", "this process"):
            self.assertIn(word, text)
        report = json.loads(run("--json", "bench-server", "--idle-gap", "20ms", "--requests", "3").stdout)
        self.assertEqual((report["mode"], report["idle_gap_ns"], report["all"]["calls"]), ("idle", 20_000_000, 3))
        self.assertIn("bench", run("--progress", "always", "bench-server", "--duration", "500ms", "--concurrency", "1").stderr.decode())

    def test_bench_server_refusals(self):
        for wrong, word in ((["--mix", "tabel"], "stream-apply"), (["--duration", "1d"], "--duration"), (["--idle-gap", "-1s"], "--idle-gap"),
                            (["--rate", "0"], "--rate"), (["--rate", "5", "--idle-gap", "1s"], "--idle-gap"), (["--requests", "0"], "--requests"),
                            (["--concurrency", "2", "--connections", "3"], "--connections"),
                            (["--idle-gap", "1s", "--concurrency", "2"], "--idle-gap"),
                            (["--idle-gap", "11s"], "less than --duration, 10s by default"),
                            (["--idle-gap", "1s", "--duration", "1000ms"], "given '1s'; allowed: less than --duration, 1000ms")):
            self.assertIn(word, run("bench-server", *wrong, check=2).stderr.decode())
        with socket.socket() as taken:  # bound and not listening: nobody answers there
            taken.bind(("127.0.0.1", 0))
            result = run("--server", f"127.0.0.1:{taken.getsockname()[1]}", "--timeout", "5", "--json", "bench-server", "--requests", "2", check=1)
        self.assertIn("table: ", result.stderr.decode())
        self.assertEqual(json.loads(result.stdout)["error"]["code"], "UNAVAILABLE")

    def test_bench_server_reports_failed_calls(self):
        server = subprocess.Popen([PHASORD, "--listen=127.0.0.1:0", "--metrics-listen=off", "--drain-delay=0", "--max-inflight-requests=1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            address = server.stdout.readline().split()[-1]
            result = run("--server", address, "--json", "bench-server", "--mix", "apply-16m", "--concurrency", "8", "--requests", "16", check=1)
            report = json.loads(result.stdout)  # one document: the failures are in it
            self.assertEqual((report["server"], report["embedded"], report["all"]["calls"]), (address, False, 16))
            (error,) = report["all"]["errors"]
            self.assertEqual((error["code"], error["count"]), ("UNAVAILABLE", report["all"]["failed"]))
            self.assertIn("max_inflight_requests", error["first_message"])
            self.assertIn(f"{error['count']} of 16 calls failed", result.stderr.decode())
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)
            server.stdout.close()

    def test_keys_given_twice(self):
        self.assertIn("twice", run("table", "rope_default", "head_dim=8", "head_dim=16", "--positions", "0:4", check=2).stderr.decode())

    def test_missing_file(self):
        self.assertIn("no-such.json", run("resolve", "no-such.json", check=1).stderr.decode())

    def test_against_a_server_the_same_bits(self):
        server = subprocess.Popen([PHASORD, "--listen=127.0.0.1:0", "--metrics-listen=off", "--drain-delay=0"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL, text=True)
        try:
            address = server.stdout.readline().split()[-1]
            run("--server", address, "health")
            arguments = ["table", self.config("llama-3-1-8b"), "--positions", "1000:1100"]
            run(*arguments, "-o", self.folder / "embedded.npz")
            run("--server", address, *arguments, "-o", self.folder / "served.npz")
            self.assertEqual((self.folder / "embedded.npz").read_bytes(), (self.folder / "served.npz").read_bytes())
            x = self.save("x.npy", [float(i % 7) for i in range(24)], (1, 3, 2, 4))
            table = self.save("grid.npy", [float(i % 5) for i in range(18)], (9, 2))
            for line in (["scores", "--q", x, "--k", x, "--rope", "rope_default head_dim=4", "--softmax"],
                         ["resize", table, "--source", "3x3", "--target", "5x2"],
                         ["apply", "rope_default", "head_dim=4", "--input", x, "--positions", "7:10"]):
                run(*line, "-o", self.folder / "here.npy")
                run("--server", address, *line, "-o", self.folder / "there.npy")
                self.assertEqual((self.folder / "here.npy").read_bytes(), (self.folder / "there.npy").read_bytes(), line[0])
            uploaded = run("--server", address, "upload", table)
            self.assertEqual(uploaded.stdout.decode().strip(), hashlib.sha256(npy(table)[1]).hexdigest())
            self.assertNotIn("--server", uploaded.stderr.decode())  # it lasts: nothing to warn of
            gguf = ["resolve", GGUF / "gemma-3-4b-it.gguf"]
            self.assertEqual(run("--server", address, *gguf).stdout, run(*gguf).stdout)
            self.assertIn(b"rope_llama3", run("--server", address, "tables").stdout)
            self.assertIn(b"max_batch_items", run("--server", address, "info").stdout)
            self.assertIn("admin", run("--server", address, "tables", "--evict-all", check=1).stderr.decode())
        finally:
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(timeout=30), 0)
            server.stdout.close()
        run("--server", address, "--timeout", "5", "health", check=1)


if __name__ == "__main__":
    unittest.main()
