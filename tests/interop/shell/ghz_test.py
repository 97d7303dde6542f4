"""The load test's requests through ghz, a few of each: by reflection and by descriptor set, and no call fails."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import serving

CALLS = 200


class Ghz(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serving.Server()
        cls.addClassCleanup(cls.server.close)
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        subprocess.run([sys.executable, serving.SOURCE / "deploy" / "load" / "scenarios.py", cls.folder], check=True, timeout=60)

    def ghz(self, method, *arguments):
        result = subprocess.run(
            [serving.tool("ghz"), "--insecure", "--call", f"phasor.v1.{method}", *arguments, "--total", str(CALLS), "--concurrency", "8",
             "--connections", "2", "--format", "json", self.server.address],
            capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def data(self, request):
        """How ghz takes it: a message as bytes, the messages of a stream as a list in JSON."""
        name, _, method, form = request.name.split(".")
        if form == "jsonl":
            path = self.folder / f"{name}.json"
            path.write_text(json.dumps([json.loads(line) for line in request.read_text().splitlines()]))
            return ["--data-file", path]
        path = self.folder / f"{name}.bin"
        encoded = subprocess.run(["protoc", f"--descriptor_set_in={serving.PROTOSET}", f"--encode=phasor.v1.{method}Request",
                                  "phasor/v1/position_service.proto"], input=request.read_bytes(), capture_output=True, timeout=60)
        self.assertEqual(encoded.returncode, 0, encoded.stderr)
        path.write_bytes(encoded.stdout)
        return ["--binary-file", path]

    def test_every_scenario_both_ways(self):
        requests = sorted([*self.folder.glob("*.txtpb"), *self.folder.glob("*.jsonl")])
        methods = {request.name.split(".")[2] for request in requests}
        self.assertEqual(methods, {"Precompute", "Apply", "Scores", "StreamPrecompute", "StreamApply"})
        self.assertEqual(len(requests), 6)
        for request in requests:
            name, service, method, _ = request.name.split(".")
            for source in ([], ["--protoset", serving.PROTOSET]):
                with self.subTest(name, source=source):
                    report = self.ghz(f"{service}/{method}", *self.data(request), *source)
                    self.assertEqual((report["count"], report["statusCodeDistribution"], report.get("errorDistribution") or {}),
                                     (CALLS, {"OK": CALLS}, {}))


if __name__ == "__main__":
    unittest.main()
