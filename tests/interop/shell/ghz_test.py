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

    def ghz(self, method, request, *source):
        result = subprocess.run(
            [serving.tool("ghz"), "--insecure", *source, "--call", f"phasor.v1.{method}", "--binary-file", request, "--total", str(CALLS),
             "--concurrency", "8", "--connections", "2", "--format", "json", self.server.address],
            capture_output=True, text=True, timeout=120)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_every_scenario_both_ways(self):
        texts = sorted(self.folder.glob("*.txtpb"))
        self.assertEqual(len(texts), 3)
        for text in texts:
            name, service, method, _ = text.name.split(".")
            request = self.folder / f"{name}.bin"
            encoded = subprocess.run(["protoc", f"--descriptor_set_in={serving.PROTOSET}", f"--encode=phasor.v1.{method}Request",
                                      "phasor/v1/position_service.proto"], input=text.read_bytes(), capture_output=True, timeout=60)
            self.assertEqual(encoded.returncode, 0, encoded.stderr)
            request.write_bytes(encoded.stdout)
            for source in ([], ["--protoset", serving.PROTOSET]):
                with self.subTest(name, source=source):
                    report = self.ghz(f"{service}/{method}", request, *source)
                    self.assertEqual((report["count"], report["statusCodeDistribution"], report.get("errorDistribution") or {}),
                                     (CALLS, {"OK": CALLS}, {}))


if __name__ == "__main__":
    unittest.main()
